"""The shapes of requests and answers: checked on the way in, and the source of the OpenAPI document."""

import re
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import msgspec
from django.http import QueryDict
from msgspec import Meta

from ..errors import AmountNotReadable, InvalidField
from ..intake import PaymentOrder
from ..models import Payment
from ..money import Money
from ..queries import PAGE
from ..verdict import Verdict
from ..words import PublicStatus, public_status, words_for

MAX_LIMIT = 100

# Controls, line separators and marks that turn the direction of what stands around them.
_CONTROL = r"\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069"
# In what people compare by eye, nothing without a width either: two numbers that look alike are alike.
_UNSEEN = _CONTROL + r"\u00ad\u200b-\u200f\u2060-\u2065\ufeff"
# The end as JSON Schema means it: Python's `$` alone would let a line feed pass behind it.
PATTERN_END = r"$(?!\n)"
# Not empty, no blank at either end.
_TEXT = rf"^[^\s{_UNSEEN}]([^{_UNSEEN}]*[^\s{_UNSEEN}])?{PATTERN_END}"
_ULID = rf"^[0-9A-HJKMNP-TV-Z]{{26}}{PATTERN_END}"
_FIELD_AT = re.compile(r"`\$\.([A-Za-z]+)|field `([^`]{1,60})`")

CustomerId = Annotated[str, Meta(min_length=1, max_length=64, pattern=_TEXT, examples=["C12345"])]
OrderNo = Annotated[str, Meta(min_length=1, max_length=64, pattern=_TEXT, examples=["A-20260901-01"])]
Key = Annotated[str, Meta(min_length=1, max_length=255, pattern=_TEXT, examples=["payment-C12345-20260901-01"])]
Token = Annotated[str, Meta(min_length=1, max_length=128, pattern=rf"^[!-~]+{PATTERN_END}", examples=["tok_success"])]
Purpose = Annotated[str, Meta(max_length=140, pattern=rf"^[^{_UNSEEN}]*{PATTERN_END}")]
PaymentId = Annotated[str, Meta(min_length=26, max_length=26, pattern=_ULID, examples=["01K3F7D8V6JQ2R9M4A1C5E0NXT"])]
CurrencyCode = Annotated[str, Meta(min_length=3, max_length=3, pattern=rf"^[A-Z]{{3}}{PATTERN_END}", examples=["CNY"])]
ChannelCode = Annotated[
    str, Meta(min_length=1, max_length=32, pattern=rf"^[a-z0-9_-]+{PATTERN_END}", examples=["bank"])
]
Amount = Annotated[
    Any,
    Meta(
        description="In major units, with at most the decimals ISO 4217 gives the currency: a JSON number or the same as text.",
        extra_json_schema={
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 10**15},
                {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,14})(\.[0-9]{1,6})?$"},
            ],
            "examples": [128.00],
        },
    ),
]
# A JSON number with the very decimals of its currency.
ExactAmount = Annotated[Decimal, Meta(examples=[128.00])]
Moment = Annotated[datetime, Meta(tz=True)]


class PaymentRequest(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """A request to pay. `idempotencyKey` is the caller's own business number of this payment; it may stand in the
    `Idempotency-Key` header instead. Without `orderNo` it is the order's number too."""

    customer_id: CustomerId
    amount: Amount
    currency: CurrencyCode
    payment_token: Token
    idempotency_key: Key | None = None
    order_no: OrderNo | None = None
    channel: ChannelCode | None = None
    purpose: Purpose = ""
    replaces: PaymentId | None = None
    intended: Annotated[bool, Meta(description="A second payment like an open or recent one is meant.")] = False


class PaymentSearch(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """What payments are found by. An order's number may be its first payment's key, and be as long."""

    order_no: Key | None = None
    customer_id: CustomerId | None = None
    idempotency_key: Key | None = None
    after: PaymentId | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT)] = PAGE


class Words(msgspec.Struct):
    """What to say to the payer."""

    en: str
    zh: str


class VerdictBody(msgspec.Struct, rename="camel"):
    """Whether paying again is safe, by which rule. A YES holds until `validUntil`."""

    answer: str
    rule: str
    valid_until: Moment | None = None
    next_question_at: Moment | None = None


class PaymentBody(msgspec.Struct, rename="camel", kw_only=True):
    """A payment as it stands now."""

    payment_id: str
    status: PublicStatus
    state: str
    cause: str
    message: str
    words: Words
    safe_to_pay_again: bool
    verdict: VerdictBody
    order_no: str
    customer_id: str
    channel: str
    amount: ExactAmount
    currency: str
    captured_amount: ExactAmount | None
    captured_currency: str | None
    bank_transaction_id: str | None
    failure_code: str | None
    idempotency_key: str
    replaces: str | None
    created_at: Moment
    completed_at: Moment | None
    next_poll_after_seconds: float | None


class PaymentPage(msgspec.Struct, rename="camel"):
    """A page of payments, newest first; `next` is the address of the following page."""

    payments: list[PaymentBody]
    next: str | None


class Problem(msgspec.Struct, rename="camel", kw_only=True, omit_defaults=True):
    """A problem document (RFC 9457). `field` names the input at fault, `paymentId` the payment to look up."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    field: str | None = None
    payment_id: str | None = None


def read_payment_request(data: Any, *, header_key: str | None) -> PaymentOrder:
    """Check the shape of a request and return it in our words.

    :raises InvalidField, AmountError: naming the field
    """
    try:
        body = msgspec.convert(data, PaymentRequest, strict=True)
    except msgspec.ValidationError as error:
        raise _named(error) from None
    return PaymentOrder(
        customer_ref=body.customer_id,
        amount=_positive(body.amount, body.currency),
        payment_token=body.payment_token,
        idempotency_key=_key(body.idempotency_key, header_key),
        order_no=body.order_no,
        channel=body.channel,
        purpose=body.purpose,
        replaces=body.replaces,
        intended=body.intended,
    )


def read_search(parameters: QueryDict) -> PaymentSearch:
    """Check the parameters of a search by the rules of the fields they name; each may be given once.

    :raises InvalidField: naming the parameter
    """
    given: dict[str, Any] = {}
    for name, values in parameters.lists():
        if len(values) > 1:
            raise InvalidField(field=name[:60], reason="Give it once.")
        given[name] = values[0]
    if re.fullmatch(r"[0-9]{1,4}", given.get("limit", ""), re.ASCII):
        given["limit"] = int(given["limit"])
    try:
        search = msgspec.convert(given, PaymentSearch, strict=True)
    except msgspec.ValidationError as error:
        raise _named(error) from None
    if search.order_no is None and search.customer_id is None and search.idempotency_key is None:
        raise InvalidField(field="orderNo", reason="Name an orderNo, a customerId or an idempotencyKey.")
    return search


def _named(error: msgspec.ValidationError) -> InvalidField:
    """The library's complaint with the field it is about."""
    text = str(error)
    match = _FIELD_AT.search(text)
    field = next((name for name in (match.groups() if match else ()) if name), "body")
    return InvalidField(field=field, reason=text.split(" - at ")[0] + ".")


def _positive(value: Any, currency: str) -> Money:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise AmountNotReadable(text=msgspec.json.encode(value).decode()[:40])
    # One rule for number and text, by digits: arithmetic on a number of forty digits would round it first.
    money = Money.parse(str(value), currency)
    if money.amount_minor <= 0:
        raise InvalidField(field="amount", reason="The amount must be above zero.")
    return money


def _key(in_body: str | None, in_header: str | None) -> str:
    """The idempotency key of body or header; given twice it must be the same."""
    if in_header is not None:
        # Servers differ in how they hand over other bytes, and a key must be one key at all of them.
        if not in_header.isascii():
            raise InvalidField(field="Idempotency-Key", reason="A key that is not ASCII belongs into the body.")
        try:
            msgspec.convert(in_header, Key, strict=True)
        except msgspec.ValidationError as error:
            raise InvalidField(field="Idempotency-Key", reason=f"{error}.") from None
        if in_body is not None and in_body != in_header:
            raise InvalidField(
                field="idempotencyKey", reason="The body and the Idempotency-Key header name different keys."
            )
    key = in_body or in_header
    if key is None:
        raise InvalidField(field="idempotencyKey", reason="Give a key in the body or in the Idempotency-Key header.")
    return key


_MESSAGES = {
    PublicStatus.PENDING: "Payment submitted; final status is not yet available. Do not pay again.",
    PublicStatus.SUCCEEDED: "Payment succeeded.",
    PublicStatus.FAILED: "Payment failed; nothing was charged.",
    PublicStatus.CANCELLED: "Payment cancelled; nothing was charged.",
}


def payment_body(payment: Payment, *, verdict: Verdict, at: datetime) -> PaymentBody:
    """The answer about a payment. Times carry the channel's own offset."""
    zone = ZoneInfo(payment.channel.time_zone)
    words = words_for(payment, answer=verdict.answer)
    status = public_status(payment)
    final = status is not PublicStatus.PENDING
    captured = payment.captured
    return PaymentBody(
        payment_id=payment.pk,
        status=status,
        state=payment.state,
        cause="CONTRADICTED" if payment.contradicted else payment.cause,
        message=_MESSAGES[status],
        words=Words(words.en, words.zh),
        safe_to_pay_again=verdict.answer == "YES",
        verdict=VerdictBody(
            verdict.answer, verdict.rule_id, _local(verdict.valid_until, zone), _local(verdict.next_question_at, zone)
        ),
        order_no=payment.order.order_no,
        customer_id=payment.customer_ref,
        channel=payment.channel_id,
        amount=payment.amount.major,
        currency=payment.currency_id,
        captured_amount=captured.major if captured else None,
        captured_currency=captured.currency if captured else None,
        bank_transaction_id=payment.bank_transaction_id,
        failure_code=payment.failure_code or None,
        idempotency_key=payment.idempotency_key,
        replaces=payment.replaces_id,
        created_at=payment.accepted_at.astimezone(zone),
        completed_at=_local(payment.completed_at, zone) if final else None,
        next_poll_after_seconds=None if final else poll_after(payment, at),
    )


def _local(moment: datetime | None, zone: ZoneInfo) -> datetime | None:
    return None if moment is None else moment.astimezone(zone)


def poll_after(payment: Payment, at: datetime) -> float:
    """The documented polling schedule: every second for ten seconds, every 5 s for two minutes, then every 30 s."""
    age = (at - payment.accepted_at).total_seconds()
    return 1.0 if age < 10 else 5.0 if age < 120 else 30.0
