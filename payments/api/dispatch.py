"""The way of a call through the API: who calls, may they, how often; then one method, and its answer as JSON.

The views are DRF's, and so are its classes for keys, scopes, rates, parsing and the OpenAPI document. Only its dispatch is
replaced, since on the hot path its negotiation, versions and render stages cost as much as accepting a payment does.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.http.request import QueryDict
from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.views import APIView

from ..models import ApiClient
from .authentication import ApiKeyAuthentication, caller
from .parsing import StrictJSONParser, encode
from .permissions import HasScope
from .problems import problem_response
from .throttling import ClientRate


class Call:
    """A request as the views use one: `auth`, `META`, `method`, `query_params`, `data`."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request
        self.META = request.META
        self.method = request.method or ""
        self.auth: ApiClient | None = None

    @property
    def query_params(self) -> QueryDict:
        return self._request.GET

    @property
    def data(self) -> Any:
        """The body, parsed.

        :raises UnsupportedMediaType, ParseError, BodyTooLarge
        """
        kind = (self._request.content_type or "").strip().lower()
        if self.META.get("CONTENT_LENGTH") in (None, "", "0"):
            return {}  # then the first missing field is named
        if kind != StrictJSONParser.media_type:
            raise exceptions.UnsupportedMediaType(kind)
        return StrictJSONParser().parse(self._request)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a view answers: a body to be written as JSON, its status, and headers of its own."""

    body: Any
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


class MoneyView(APIView):
    """Base of all views about money: nobody between us and the caller keeps their answers."""

    scopes: dict[str, str]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Answer one call; every refusal is a problem document."""
        call = cast(Request, Call(request))
        try:
            response = self._answer(call, *args, **kwargs)
        except Exception as error:
            refused = problem_response(self._named(error), {})
            if refused is None:
                raise
            response = refused
        response["Allow"] = ", ".join(self.allowed_methods)
        response["Cache-Control"] = "no-store"
        return response

    def _answer(self, call: Request, *args: Any, **kwargs: Any) -> HttpResponse:
        if (found := ApiKeyAuthentication().authenticate(call)) is not None:
            call.auth = found[1]
        caller(call)
        if not HasScope().has_permission(call, self):
            raise exceptions.PermissionDenied(HasScope.message)
        rate = ClientRate()
        if not rate.allow_request(call, self):
            raise exceptions.Throttled(rate.wait())
        answer: Answer = getattr(self, (call.method or "").lower())(call, *args, **kwargs)
        return HttpResponse(
            encode(answer.body), status=answer.status, headers=answer.headers, content_type="application/json"
        )

    @staticmethod
    def _named(error: Exception) -> Exception:
        """A refused key names the scheme to use."""
        if isinstance(error, exceptions.NotAuthenticated | exceptions.AuthenticationFailed):
            error.auth_header = ApiKeyAuthentication().authenticate_header(cast(Request, None))  # type: ignore[union-attr]
        return error
