"""What every page of the console needs."""

from django.conf import settings
from django.http import HttpRequest

from .people import Operator

_SECTIONS = {
    "find": "find",
    "payments": "payments",
    "export_payments": "payments",
    "payment": "payments",
    "ask_bank": "payments",
    "unmask": "payments",
    "attentions": "attentions",
    "me": "me",
}


def shell(request: HttpRequest) -> dict[str, object]:
    """The person at the console, if the view has read them; no query of its own, so that error pages need none."""
    operator: Operator | None = getattr(request, "operator", None)
    preferences = operator.preferences if operator else None
    match = request.resolver_match
    return {
        "section": _SECTIONS.get(match.url_name or "", "") if match else "",
        "operator": operator,
        "environment": settings.ENVIRONMENT,
        "theme": preferences.theme if preferences else "system",
        "density": preferences.density if preferences else "compact",
    }
