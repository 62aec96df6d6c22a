"""Who may come in, and what each may see: every page and every row goes through here (OPS-8, K21)."""

import ipaddress
from collections.abc import Callable
from functools import wraps
from typing import Any, Protocol, cast

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import render
from django.utils import timezone, translation
from django.utils.cache import add_never_cache_headers, patch_cache_control
from django.views.decorators.gzip import gzip_page
from django_htmx.http import HttpResponseClientRedirect, HttpResponseClientRefresh

from payments.masking import holds_card_number
from payments.models import Attention, Payment

from .people import Operator, operator_of
from .roles import MATRIX, Capability, Role


class ConsoleRequest(HttpRequest):
    """A request of a person with a role."""

    operator: Operator
    htmx: Any


class ConsoleView(Protocol):
    methods: tuple[str, ...]

    def __call__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse: ...


def visible_payments(user: User) -> QuerySet[Payment]:
    """The payments this person may see. Staff see those of all merchants."""
    return Payment.objects.all()


def visible_attentions(user: User) -> QuerySet[Attention]:
    """The attentions this person may see: those of no payment, and those of visible payments."""
    return Attention.objects.all()


def roles_with(capability: Capability) -> list[Role]:
    """The roles that have a capability, in the matrix's order."""
    return [role for role in Role if role in MATRIX[capability]]


def console_page(
    *methods: str, capability: Capability = Capability.LOOK_UP
) -> Callable[[Callable[..., HttpResponse]], ConsoleView]:
    """A page for people with a role and a capability; anyone else is sent to log in or told what is missing.

    It reads the person once, sets their language and time zone, and keeps the answer out of every cache.
    """

    def decorate(view: Callable[..., HttpResponse]) -> ConsoleView:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if ("GET" if request.method == "HEAD" else request.method) not in methods:
                return HttpResponseNotAllowed(methods)
            if not request.user.is_authenticated:
                return _to_login(request)
            console = cast(ConsoleRequest, request)
            console.operator = operator_of(request.user)
            language = _language_of(console)
            with timezone.override(console.operator.zone), translation.override(language):
                request.LANGUAGE_CODE = language  # type: ignore[attr-defined]
                response = _answer(console, *args, **kwargs)
            add_never_cache_headers(response)
            patch_cache_control(response, no_store=True, private=True)
            return response

        def _answer(request: ConsoleRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if getattr(request, "htmx", None) and not request.operator.may(capability):
                return HttpResponseClientRefresh()  # the whole page says what is missing
            if request.operator.role is None:
                return render(request, "ops_console/no_role.html", status=403)
            if not request.operator.may(capability):
                needed = {"capability": capability, "roles": roles_with(capability)}
                return render(request, "ops_console/not_permitted.html", needed, status=403)
            return view(request, *args, **kwargs)

        wrapped = cast(ConsoleView, gzip_page(guarded))
        wrapped.methods = methods
        return wrapped

    return decorate


def _to_login(request: HttpRequest) -> HttpResponse:
    """To the log-in page and back; a card number in the address does not travel along."""
    back = request.get_full_path() if request.method == "GET" else ""
    if any(holds_card_number(value) for value in map(str, request.GET.values())):
        back = request.path
    if getattr(request, "htmx", None):
        return HttpResponseClientRedirect(redirect_to_login(back).url)  # type: ignore[attr-defined]
    return redirect_to_login(back)


def _language_of(request: ConsoleRequest) -> str:
    """The cookie's language wins: it is the last choice made in this browser."""
    if "language" in request.COOKIES or not request.operator.preferences.language:
        return translation.get_language() or "en"
    return request.operator.preferences.language


def source_ip(request: HttpRequest) -> str | None:
    """The peer's address, where there is one."""
    try:
        return str(ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")))
    except ValueError:
        return None
