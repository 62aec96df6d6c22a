"""What every page of the console needs."""

from django.http import HttpRequest


def shell(request: HttpRequest) -> dict[str, object]:
    return {}
