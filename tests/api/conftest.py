"""A caller of the API, and what every refusal must look like."""

import json
from decimal import Decimal
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from payments.models import IdempotencyRecord, Order, OutboxEvent, Payment

# The request of the first field note, letter by letter.
NOTE = b"""{
  "customerId": "C12345",
  "amount": 128.00,
  "currency": "CNY",
  "paymentToken": "tok_xxxxx",
  "idempotencyKey": "payment-C12345-20260901-01"
}"""


def a_body(**changes: Any) -> dict[str, Any]:
    """The fields of a request that is accepted; `None` takes a field out."""
    values: dict[str, Any] = {
        "customerId": "C12345",
        "amount": "128.00",
        "currency": "CNY",
        "paymentToken": "tok_xxxxx",
        "idempotencyKey": "payment-C12345-20260901-01",
    }
    return {name: value for name, value in (values | changes).items() if value is not None}


class Caller:
    """Calls the API in this process with one client's key."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.http = Client(raise_request_exception=False)

    def call(self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None) -> Any:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {self.key}"} | (headers or {})
        kind = sent.pop("Content-Type", "application/json")
        return self.http.generic(method, path, content, content_type=kind, headers=sent)

    def pay(self, body: Any = None, *, headers: dict[str, str] | None = None, **changes: Any) -> Any:
        return self.call("POST", "/payments", a_body(**changes) if body is None else body, headers=headers)

    def get(self, path: str, *, headers: dict[str, str] | None = None) -> Any:
        return self.call("GET", path, headers=headers)


def content_of(response: HttpResponse) -> Any:
    """The body, with numbers as exact as they were written."""
    return json.loads(response.content, parse_float=Decimal)


def problem_of(response: HttpResponse, status: int, code: str | None = None, field: str | None = None) -> Any:
    """The problem document of a refusal, checked for its form (RFC 9457)."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    problem = json.loads(response.content)
    assert problem["status"] == status
    assert problem["type"] == f"urn:countinghouse:{problem['code']}"
    assert problem["title"]
    assert problem["detail"]
    if code is not None:
        assert problem["code"] == code
    if field is not None:
        assert problem["field"] == field
    return problem


def nothing_stored() -> bool:
    return not any(model.objects.exists() for model in (Payment, Order, IdempotencyRecord, OutboxEvent))


@pytest.fixture
def caller(client_of_merchant: Any) -> Caller:
    return Caller(client_of_merchant.key)
