"""The bank's HTTP/JSON contract: what a request must look like, and how it is refused."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from sandbox.amounts import Amount, BadAmount, parse_amount
from sandbox.clock import parse_rfc3339

REFERENCE = re.compile(r"[A-Za-z0-9_-]{1,32}")
LONGEST_TEXT = 256
LONGEST_URL = 2048


class Refused(Exception):
    """The request itself was refused and had no effect: an HTTP status, a code of the bank, and words."""

    def __init__(self, *, http: int, code: str, text: str) -> None:
        self.http, self.code, self.text = http, code, text
        super().__init__(f"{code} {text}")


class BadJson(ValueError):
    """The body is not one JSON document this process can keep."""


@dataclass(frozen=True)
class Order:
    """A write as the merchant asked for it, read and checked."""

    operation: str
    merchant_id: str
    reference: str
    amount: Amount | None
    requested: dict[str, Any]
    fingerprint: str
    key_id: str
    payment_token: str | None = None
    notify_url: str | None = None
    original_reference: str | None = None
    original_bank_transaction_id: str | None = None


def parse_json(body: bytes) -> Any:
    """Read one JSON document of valid Unicode.

    :raises BadJson: cut, not UTF-8, nested too deep, NaN or Infinity, half a surrogate pair
    """
    try:
        document = json.loads(body.decode(), parse_constant=_no_constant)
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise BadJson("the body is not valid JSON in UTF-8") from error
    return document


def read_order(*, operation: str, body: bytes, merchant_id: str, key_id: str, payment_reference: str = "") -> Order:
    """Read the body of a write.

    :param payment_reference: for a cancel, the payment named in the path
    :raises Refused: 400 E0003 names the field that is missing or malformed; 403 E0005 is a foreign merchant
    """
    try:
        fields = parse_json(body)
    except BadJson as error:
        raise Refused(http=400, code="E0003", text=f"body: {error}") from error
    if not isinstance(fields, dict):
        _malformed("body", "must be a JSON object")
    _check_merchant(fields, merchant_id, optional=operation == "cancel")
    reference = check_reference(fields.get("merchantReference"), "merchantReference")
    for name, check in _OPTIONAL_FIELDS.items():
        if fields.get(name) is not None:
            check(fields[name], name)
    for name, check in _REQUIRED_FIELDS[operation].items():
        check(fields.get(name), name)
    original = payment_reference if operation == "cancel" else fields.get("originalReference")
    return Order(
        operation=operation,
        merchant_id=merchant_id,
        reference=reference,
        amount=None if operation == "cancel" else _amount(fields["amount"]),
        requested=fields,
        fingerprint=fingerprint(fields, payment_reference),
        key_id=key_id,
        payment_token=fields.get("paymentToken") if operation == "pay" else None,
        notify_url=fields.get("notifyUrl"),
        original_reference=original,
        original_bank_transaction_id=fields.get("originalBankTransactionId"),
    )


def fingerprint(fields: dict[str, Any], payment_reference: str) -> str:
    """Return a digest of a request's content: every field but ``requestedAt``, and the payment a cancel names."""
    content = {name: value for name, value in fields.items() if name != "requestedAt"}
    canonical = json.dumps([payment_reference, content], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def check_reference(value: object, name: str) -> str:
    """Return a reference of 1 to 32 of ``A-Z a-z 0-9 _ -``.

    :raises Refused: 400 E0003
    """
    if not isinstance(value, str) or not REFERENCE.fullmatch(value):
        _malformed(name, "must be 1 to 32 of A-Z a-z 0-9 _ -")
    return value


def is_http_url(value: object) -> bool:
    """Say whether a value is an absolute http or https address this process can post to."""
    if not isinstance(value, str) or not value.isascii() or len(value) > LONGEST_URL:
        return False
    try:
        parts = urlsplit(value)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _check_merchant(fields: dict[str, Any], merchant_id: str, *, optional: bool) -> None:
    given = fields.get("merchantId")
    if given is None and optional:
        return
    if not isinstance(given, str) or not given:
        _malformed("merchantId", "must be a text")
    if given != merchant_id:
        raise Refused(http=403, code="E0005", text="商户无权限")


def _check_text(value: object, name: str) -> None:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT:
        _malformed(name, f"must be a text of 1 to {LONGEST_TEXT} characters")


def _check_purpose(value: object, name: str) -> None:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        _malformed(name, f"must be a text of at most {LONGEST_TEXT} characters")


def _check_moment(value: object, name: str) -> None:
    try:
        parse_rfc3339(value if isinstance(value, str) else "")
    except (ValueError, OverflowError):
        _malformed(name, "must be an RFC 3339 time with offset")


def _check_url(value: object, name: str) -> None:
    if not is_http_url(value):
        _malformed(name, "must be an http or https address")


def _check_amount(value: object, name: str) -> None:
    if not isinstance(value, dict):
        _malformed(name, "must be an object of value and currency")
    for part in ("value", "currency"):
        if not isinstance(value.get(part), str):
            _malformed(f"{name}.{part}", "must be a string")
    _amount(value)


def _amount(fields: dict[str, str]) -> Amount:
    try:
        return parse_amount(fields["value"], fields["currency"])
    except BadAmount as error:
        part = "currency" if str(error).startswith("currency") else "value"
        _malformed(f"amount.{part}", str(error))


def _malformed(name: str, problem: str) -> NoReturn:
    raise Refused(http=400, code="E0003", text=f"报文格式错误 {name}: {problem}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_Check = Callable[[object, str], object]
_OPTIONAL_FIELDS: dict[str, _Check] = {
    "purpose": _check_purpose,
    "requestedAt": _check_moment,
    "notifyUrl": _check_url,
    "originalReference": check_reference,
    "originalBankTransactionId": _check_text,
}
_REQUIRED_FIELDS: dict[str, dict[str, _Check]] = {
    "pay": {"amount": _check_amount, "paymentToken": _check_text, "requestedAt": _check_moment},
    "refund": {"amount": _check_amount, "originalReference": check_reference, "requestedAt": _check_moment},
    "transfer": {
        "amount": _check_amount,
        "payeeAccount": _check_text,
        "payeeName": _check_text,
        "payeeBank": _check_text,
    },
    "cancel": {},
}
