"""The OpenAPI document of the API, made from the very shapes that requests and answers are checked with."""

from typing import Any

import msgspec
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema

from .bodies import PATTERN_END, PaymentBody, PaymentPage, PaymentRequest, PaymentSearch, Problem

_REF = "#/components/schemas/{name}"


def _components(*shapes: type) -> dict[str, Any]:
    """The schemas of shapes, as the document shows them."""
    return _shown(msgspec.json.schema_components(shapes, ref_template=_REF)[1])  # type: ignore[no-any-return]


def _shown(node: Any) -> Any:
    """Decimals are written as numbers, and a pattern's end needs none of Python's care (nor does RE2 know how)."""
    if isinstance(node, list):
        return [_shown(item) for item in node]
    if not isinstance(node, dict):
        return node.removesuffix(PATTERN_END) + "$" if isinstance(node, str) and node.endswith(PATTERN_END) else node
    if node.get("format") == "decimal":
        return node | {"type": "number"}
    return {name: _shown(item) for name, item in node.items()}


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
_RETRY_AFTER = OpenApiParameter(
    "Retry-After", int, OpenApiParameter.HEADER, response=[429, 503], description="Seconds until the next try."
)
_CHALLENGE = OpenApiParameter("WWW-Authenticate", str, OpenApiParameter.HEADER, response=[401])
_FIELDS = _components(PaymentSearch)["PaymentSearch"]["properties"]
_COMMON = {
    401: _problem("No valid API key."),
    403: _problem("The key lacks the scope."),
    429: _problem("Too many calls; see Retry-After."),
    503: _problem("The database did not answer; ask again with the same key."),
}


def _plain(name: str) -> dict[str, Any]:
    """The schema of a search parameter: given or not, never null."""
    field = {key: value for key, value in _FIELDS[name].items() if value is not None}
    return next((kind for kind in field.get("anyOf", ()) if kind["type"] != "null"), field)  # type: ignore[no-any-return]


pay_schema = extend_schema(
    operation_id="requestPayment",
    tags=["payments"],
    parameters=[
        _PREFER,
        OpenApiParameter("Idempotency-Key", str, OpenApiParameter.HEADER, description="In place of `idempotencyKey`."),
        OpenApiParameter(
            "Idempotent-Replay",
            {"type": "string", "enum": ["true"]},
            OpenApiParameter.HEADER,
            response=[201, 202],
            description="The key had this payment already.",
        ),
        OpenApiParameter(
            "Retry-After",
            int,
            OpenApiParameter.HEADER,
            response=[409, 429, 503],
            description="Seconds until the next try.",
        ),
        _CHALLENGE,
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
        *(OpenApiParameter(name, _plain(name), OpenApiParameter.QUERY) for name in _FIELDS),
        _RETRY_AFTER,
        _CHALLENGE,
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
        _RETRY_AFTER,
        _CHALLENGE,
    ],
    responses={
        200: _answer("PaymentBody", "The present truth."),
        400: _problem("The address cannot be read as it is."),
        404: _problem("No such payment of this merchant."),
        **_COMMON,
    },
)


def add_components(result: dict[str, Any], **kwargs: object) -> dict[str, Any]:
    """Add the shapes to the document, and say that problems have a media type of their own."""
    shapes = (PaymentRequest, PaymentBody, PaymentPage, Problem)
    components = _components(*shapes)
    result.setdefault("components", {}).setdefault("schemas", {}).update(components)
    amount = components["PaymentRequest"]["properties"]["amount"]
    amount.pop("examples", None)
    for methods in result["paths"].values():
        for operation in methods.values():
            if "requestBody" in operation:
                operation["requestBody"]["required"] = True
            for response in operation.get("responses", {}).values():
                content = response.get("content", {})
                if content.get("application/json", {}).get("schema") == _ref("Problem"):
                    content["application/problem+json"] = content.pop("application/json")
    return result
