"""Errors outside the API's views: a problem document for programs, a page for people."""

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from payments.api.bodies import Problem
from payments.api.problems import answer

_DETAIL = {
    400: "The request cannot be read.",
    403: "Not allowed.",
    404: "There is nothing here.",
    500: "Something broke here.",
}


def _answer(request: HttpRequest, status: int) -> HttpResponse:
    if request.path.startswith("/console/"):
        return render(request, "error.html", {"status": status, "detail": _DETAIL[status]}, status=status)
    phrase = HTTPStatus(status).phrase
    code = phrase.lower().replace(" ", "_")
    return answer(
        Problem(type=f"urn:countinghouse:{code}", title=phrase, status=status, detail=_DETAIL[status], code=code)
    )


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return _answer(request, 404)


def server_error(request: HttpRequest) -> HttpResponse:
    return _answer(request, 500)
