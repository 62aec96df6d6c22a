"""Every error as a problem document (RFC 9457) that names the field at fault."""

import logging
from http import HTTPStatus
from typing import Any

import msgspec
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from rest_framework import exceptions

from ..errors import PaymentsError
from .bodies import Problem

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


def problem_response(error: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """DRF's exception handler: refusals of ours and of the framework in one form; the rest is a bug and stays one."""
    if isinstance(error, PaymentsError):
        problem = Problem(
            type=f"urn:countinghouse:{error.code}",
            title=HTTPStatus(error.status).phrase,
            status=error.status,
            detail=str(error),
            code=error.code,
            field=error.field,
            payment_id=getattr(error, "payment_id", None),
        )
        return answer(problem, retry_after=getattr(error, "retry_after", None))
    if isinstance(error, Http404):
        error = exceptions.NotFound()
    elif isinstance(error, PermissionDenied):
        error = exceptions.PermissionDenied()
    if not isinstance(error, exceptions.APIException):
        return None
    code = str(error.get_codes()) if not isinstance(error.get_codes(), dict | list) else "invalid"
    problem = Problem(
        type=f"urn:countinghouse:{code}",
        title=HTTPStatus(error.status_code).phrase,
        status=error.status_code,
        detail=str(error.detail),
        code=code,
        field="body" if isinstance(error, exceptions.ParseError) else None,
    )
    response = answer(problem, retry_after=getattr(error, "wait", None))
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    return response


def answer(problem: Problem, *, retry_after: float | None = None) -> HttpResponse:
    """The problem as a response."""
    response = HttpResponse(msgspec.json.encode(problem), status=problem.status, content_type=MEDIA_TYPE)
    if retry_after is not None:
        response["Retry-After"] = str(max(1, int(retry_after + 0.999)))
    return response


__all__ = ["MEDIA_TYPE", "answer", "problem_response"]
