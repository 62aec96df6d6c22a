"""The OpenAPI document of the API, made from the very shapes that requests and answers are checked with."""

from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from .bodies import PaymentBody, PaymentPage, PaymentRequest, Problem

_REF = "#/components/schemas/{name}"


def _ref(name: str) -> dict[str, str]:
    return {"$ref": _REF.format(name=name)}


def _problem(description: str) -> OpenApiResponse:
    return OpenApiResponse(response=_ref("Problem"), description=description)  # type: ignore[arg-type]


def _answer(name: str, description: str) -> OpenApiResponse:
    return OpenApiResponse(response=_ref(name), description=description)  # type: ignore[arg-type]


_PREFER = OpenApiParameter(
    "Prefer",
    str,
    OpenApiParameter.HEADER,
    description="`wait=N`: answer when the state is final, or after N ≤ 25 seconds.",
)
_COMMON = {
    401: _problem("No valid API key."),
    403: _problem("The key lacks the scope."),
    429: _problem("Too many calls; see Retry-After."),
}

pay_schema = extend_schema(
    operation_id="requestPayment",
    tags=["payments"],
    parameters=[
        _PREFER,
        OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, description="In place of `idempotencyKey`."),
        OpenApiParameter(
            "Location", str, OpenApiParameter.HEADER, response=[201, 202], description="Address of the payment."
        ),
    ],
    request={"application/json": _ref("PaymentRequest")},
    responses={
        201: _answer("PaymentBody", "The result is final."),
        202: _answer("PaymentBody", "Accepted; the result is open. Look it up, do not pay again."),
        400: _problem("The request cannot be read as it is; `field` says where."),
        409: _problem("The order or the key has a payment already; `paymentId` names it."),
        413: _problem("The body is too long."),
        415: _problem("The body is not application/json."),
        422: _problem("The key stands for other content, or the amount is not the order's."),
        **_COMMON,
    },
)
find_payments_schema = extend_schema(
    operation_id="findPayments",
    tags=["payments"],
    parameters=[
        OpenApiParameter("orderNo", {"type": "string", "minLength": 1, "maxLength": 255}),
        OpenApiParameter("customerId", {"type": "string", "minLength": 1, "maxLength": 64}),
        OpenApiParameter("idempotencyKey", {"type": "string", "minLength": 1, "maxLength": 255}),
        OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}),
        OpenApiParameter("after", {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}),
    ],
    responses={200: _answer("PaymentPage", "Newest first."), 400: _problem("A parameter is wrong."), **_COMMON},
)
payment_schema = extend_schema(
    operation_id="getPayment",
    tags=["payments"],
    parameters=[
        _PREFER,
        OpenApiParameter(
            "payment_id", {"type": "string", "pattern": "^[0-9A-HJKMNP-TV-Z]{26}$"}, OpenApiParameter.PATH
        ),
    ],
    responses={
        200: _answer("PaymentBody", "The present truth."),
        404: _problem("No such payment of this merchant."),
        **_COMMON,
    },
)


def add_components(result: dict[str, Any], **kwargs: object) -> dict[str, Any]:
    """Add the shapes to the document, and say that problems have a media type of their own."""
    shapes = (PaymentRequest, PaymentBody, PaymentPage, Problem)
    _, components = msgspec.json.schema_components(shapes, ref_template=_REF)
    result.setdefault("components", {}).setdefault("schemas", {}).update(components)
    amount = components["PaymentRequest"]["properties"]["amount"]
    amount.pop("examples", None)
    for methods in result["paths"].values():
        for operation in methods.values():
            for response in operation.get("responses", {}).values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == _ref("Problem"):
                    content["application/problem+json"] = content.pop("application/json")
    return result
