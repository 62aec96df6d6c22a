"""What every request passes: security headers and addresses the database can hold."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django_htmx.middleware import HtmxMiddleware
from whitenoise.middleware import WhiteNoiseMiddleware

from payments.api.bodies import Problem
from payments.api.problems import answer

logger = logging.getLogger(__name__)

Next = Callable[[HttpRequest], HttpResponse]

# The console runs no inline script and no inline style.
_CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none'; "
    "base-uri 'self'; form-action 'self'; object-src 'none'"
)
# Swagger UI starts itself by an inline script and styles itself inline: the documentation page alone may do so.
_DOCS_CSP = _CSP.replace("script-src 'self'", "script-src 'self' 'unsafe-inline'").replace(
    "style-src 'self'", "style-src 'self' 'unsafe-inline'"
)


class SecurityHeaders:
    """A content security policy on every answer."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", _DOCS_CSP if request.path == "/docs" else _CSP)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        return response


class DatabaseAway:
    """While the database is away, restarts or is overloaded, callers are told to come again: 503, and nothing is lost."""

    RETRY_AFTER_S = 2

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Answer for a database that did not; every other exception stays what it is."""
        if not isinstance(exception, OperationalError | InterfaceError):
            return None
        logger.warning("the database did not answer", extra={"error": str(exception)[:200]})
        problem = Problem(
            type="urn:countinghouse:unavailable",
            title="Service Unavailable",
            status=503,
            detail="Not available for a moment. Ask again with the same key; nothing is done twice.",
            code="unavailable",
        )
        return answer(problem, retry_after=self.RETRY_AFTER_S)


_PROGRAMS = ("/payments", "/notifications/")


def for_people(middleware: type) -> type:
    """The middleware for pages alone: programs that call the API have no session, language, message or form."""

    class ForPeople(middleware):  # type: ignore[misc]
        def __call__(self, request: HttpRequest) -> Any:
            if request.path_info.startswith(_PROGRAMS):
                return self.get_response(request)
            return super().__call__(request)

    return ForPeople


StaticFiles = for_people(WhiteNoiseMiddleware)
Sessions = for_people(SessionMiddleware)
Language = for_people(LocaleMiddleware)
Users = for_people(AuthenticationMiddleware)
Messages = for_people(MessageMiddleware)
Htmx = for_people(HtmxMiddleware)


class PlainPaths:
    """An address, query or cookie with a NUL is refused before anything reads it, and so is a body of unknown length,
    which WSGI would show as no body at all (K07)."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        query = request.META.get("QUERY_STRING", "").lower()
        if "\x00" in request.path or "%00" in query or "\x00" in query:
            return _refusal(400, "invalid_address", "The address holds a NUL character.", field="address")
        if "HTTP_COOKIE" in request.META and any("\x00" in value for value in request.COOKIES.values()):
            return _refusal(400, "invalid_cookie", "A cookie holds a NUL character.", field="Cookie")
        if "HTTP_TRANSFER_ENCODING" in request.META and not request.META.get("CONTENT_LENGTH"):
            return _refusal(411, "length_required", "Say how long the body is: Content-Length.", field="Content-Length")
        return self.get_response(request)


def _refusal(status: int, code: str, detail: str, *, field: str) -> HttpResponse:
    title = HTTPStatus(status).phrase
    return answer(
        Problem(type=f"urn:countinghouse:{code}", title=title, status=status, detail=detail, code=code, field=field)
    )
