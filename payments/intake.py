"""Taking a payment request in: one key, one effect, whatever is repeated, raced or lost (PAY-9, PAY-10, PAY-11, PAY-17).

The common case, a new order with its first payment, is one statement and one round trip. Everything else takes the
order's lock and explains itself.
"""

import hashlib
import json
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import IntegrityError, connection, transaction
from django.db.utils import DatabaseError, OperationalError

from . import outbox
from .confirmation import STATE_FIELDS, settle_order
from .errors import (
    CardNumberRefused,
    ChannelNotUsable,
    CurrencyNotRegistered,
    IdempotencyKeyReused,
    LooksLikeSecondPayment,
    OrderAmountDiffers,
    OrderHasLivePayment,
    OrderHasOtherCustomer,
    OrderTakesNoPayment,
    PaymentsError,
    ReplacementRefused,
    RequestInProgress,
)
from .masking import holds_card_number, masked_token
from .models import ApiClient, Channel, Currency, IdempotencyRecord, Order, Payment
from .models.fields import new_id
from .models.history import Trace, insert_traced, save_traced
from .money import Money
from .nudges import nudge, nudge_on_commit
from .prepared import prepared_cursor
from .reference_data import channel_named, currency_named
from .units import constraint_of, sqlstate, whole_unit_without_waiting

SECOND_PAYMENT_WINDOW = timedelta(minutes=10)
SCENE, OPERATION = "PAYMENT", "PAY"
State, Cause = Payment.State, Payment.Cause


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """A request to pay, read and checked for shape. `order_no` is None when the caller gave none: then the idempotency
    key is the order number, and the guard against a second payment of the same customer holds (PAY-17)."""

    customer_ref: str
    amount: Money
    payment_token: str
    idempotency_key: str
    order_no: str | None = None
    channel: str | None = None
    purpose: str = ""
    replaces: str | None = None
    intended: bool = False

    def fingerprint(self) -> str:
        """Digest of the canonical request: the same content in another form or order has the same one (K23)."""
        content = [
            self.customer_ref,
            self.amount.amount_minor,
            self.amount.currency,
            self.payment_token,
            self.order_no,
            self.channel,
            self.purpose,
            self.replaces,
        ]
        return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()

    def snapshot(self) -> dict[str, Any]:
        """The request as it is kept: token masked, amounts exact."""
        return {
            "customerId": self.customer_ref,
            "amount": str(self.amount.major),
            "currency": self.amount.currency,
            "paymentToken": masked_token(self.payment_token),
            "orderNo": self.order_no,
            "channel": self.channel,
            "purpose": self.purpose,
            "replaces": self.replaces,
        }


@dataclass(frozen=True, slots=True)
class Accepted:
    """The payment a request stands for, and whether this very call made it."""

    payment_id: str
    new: bool
    alone: Payment | None = None
    """The new payment when it is its order's first, as it was inserted: an answer about it needs no reading."""


def accept_payment(*, client: ApiClient, order: PaymentOrder, at: datetime) -> Accepted:
    """Accept a payment request, or find what its key stands for. Nothing is sent to the channel here.

    :raises IdempotencyKeyReused: the key came before with other content
    :raises RequestInProgress: the first request with this key is not done within the lock limit (2 s)
    :raises OrderHasLivePayment, OrderTakesNoPayment, OrderAmountDiffers: what the order's state forbids (PAY-11)
    :raises LooksLikeSecondPayment: PAY-17
    :raises CardNumberRefused, CurrencyNotRegistered, ChannelNotUsable: what the request itself forbids
    """
    _refuse_card_numbers(order)
    try:
        channel = _usable_channel(client, order, _usable_currency(order))
    except PaymentsError:
        # What takes no new payment must still find the one its key stands for: "nothing stored" would be a lie (PAY-9).
        if (known := _find_known(client.merchant_id, order.idempotency_key)) is not None:
            return _same_request(known, order)
        raise
    try:
        return _accept(client=client, order=order, channel=channel, at=at)
    except OperationalError as error:
        if sqlstate(error) == "55P03":
            raise RequestInProgress from error
        raise


def _refuse_card_numbers(order: PaymentOrder) -> None:
    for field, text in (("paymentToken", order.payment_token), ("purpose", order.purpose)):
        if holds_card_number(text):
            raise CardNumberRefused(field=field)


def _usable_currency(order: PaymentOrder) -> Currency:
    currency = currency_named(order.amount.currency)
    if currency is None or not currency.enabled:
        raise CurrencyNotRegistered(currency=order.amount.currency)
    return currency


def _usable_channel(client: ApiClient, order: PaymentOrder, currency: Currency) -> Channel:
    code = order.channel or client.merchant.default_channel_id
    channel = channel_named(code)
    if channel is None or not channel.enabled:
        raise ChannelNotUsable(channel=code, reason="does not exist or is switched off")
    if channel.currencies and currency.code not in channel.currencies:
        raise ChannelNotUsable(channel=code, reason=f"does not take {currency.code}")
    return channel


@whole_unit_without_waiting
def _accept(*, client: ApiClient, order: PaymentOrder, channel: Channel, at: datetime) -> Accepted:
    payment_id = new_id()
    if order.replaces is None:
        values = _values(client=client, order=order, channel=channel, payment_id=payment_id, at=at)
        outcome = _insert_at_once(values)
        if outcome == "new":
            nudge("submit_due")
            return Accepted(payment_id, new=True, alone=_as_inserted(values, channel))
        if isinstance(outcome, _Known):
            return _same_request(outcome, order)
        if outcome.startswith("second "):
            raise LooksLikeSecondPayment(payment_id=outcome.removeprefix("second "), window=SECOND_PAYMENT_WINDOW)
    return _accept_for_known_order(client=client, order=order, channel=channel, payment_id=payment_id, at=at)


class _Known(NamedTuple):
    """What an earlier request with this key made."""

    payment_id: str
    fingerprint: str


_KNOWN = f"""
SELECT payment_id, fingerprint FROM payments_idempotencyrecord
WHERE merchant_id = %s::bigint AND scene = '{SCENE}' AND business_key = %s::text AND operation = '{OPERATION}'
"""


def _find_known(merchant_id: int, key: str) -> _Known | None:
    with prepared_cursor() as cursor:
        cursor.execute(_KNOWN, [merchant_id, key])
        row = cursor.fetchone()
    return _Known(*row) if row else None


def _same_request(known: _Known, order: PaymentOrder) -> Accepted:
    """The payment an earlier request with this key made.

    :raises IdempotencyKeyReused: with other content
    """
    if known.fingerprint != order.fingerprint():
        raise IdempotencyKeyReused(payment_id=known.payment_id)
    return Accepted(known.payment_id, new=False)


# The common case: one statement, prepared once per connection. Each part depends on the one before, so that a key or an
# order known already stops it. The columns it names are checked against the models by a test.
_PAYMENT_COLUMNS = (
    "id, merchant_id, order_id, channel_id, client_id, idempotency_key, customer_ref, payment_token, purpose, "
    "amount_minor, currency, accepted_at, expires_at, state, cause, revision, state_since, queued_at, submit_due_at, "
    "send_before"
)
_AT_ONCE = f"""
WITH request AS (
    SELECT %(merchant)s::bigint AS merchant, %(client)s::bigint AS client, %(channel)s::text AS channel,
        %(order_id)s::text AS order_id, %(payment_id)s::text AS payment_id, %(order_no)s::text AS order_no,
        %(key)s::text AS key, %(fingerprint)s::text AS fingerprint, %(request)s::jsonb AS request,
        %(response)s::jsonb AS response, %(customer_ref)s::text AS customer_ref, %(payment_token)s::text AS payment_token,
        %(purpose)s::text AS purpose, %(amount_minor)s::bigint AS amount_minor, %(currency)s::text AS currency,
        %(actor)s::text AS actor, %(at)s::timestamptz AS at, %(expires_at)s::timestamptz AS expires_at,
        %(send_before)s::timestamptz AS send_before, %(recently)s::timestamptz AS recently, %(guarded)s::bool AS guarded
), second AS MATERIALIZED (
    SELECT CASE WHEN guarded
        THEN payments_second_payment(merchant, customer_ref, amount_minor, currency, key, recently) END AS payment_id
    FROM request
), idem AS (
    INSERT INTO payments_idempotencyrecord
        (merchant_id, scene, business_key, operation, fingerprint, request, response, response_status, state, payment_id,
         created_at, completed_at)
    SELECT merchant, '{SCENE}', key, '{OPERATION}', fingerprint, request, response, 202, 'ACCEPTED', request.payment_id, at, at
    FROM request, second
    WHERE second.payment_id IS NULL
      AND NOT EXISTS (SELECT FROM payments_order o WHERE o.merchant_id = merchant AND o.order_no = request.order_no)
    ON CONFLICT DO NOTHING
    RETURNING payment_id
), ord AS (
    INSERT INTO payments_order (id, merchant_id, order_no, customer_ref, payable_minor, currency, state, created_at)
    SELECT order_id, merchant, order_no, customer_ref, amount_minor, currency, 'PAYING', at FROM request, idem
    RETURNING id
), pay AS (
    INSERT INTO payments_payment ({_PAYMENT_COLUMNS})
    SELECT payment_id, merchant, order_id, channel, client, key, customer_ref, payment_token, purpose, amount_minor, currency,
        at, expires_at, 'QUEUED', 'WAITING_TO_SEND', 1, at, at, at, send_before
    FROM request, ord
    RETURNING id
), order_change AS (
    INSERT INTO payments_historicalorder (id, state, history_date, history_type, event, source, actor)
    SELECT ord.id, 'PAYING', at, '+', 'created', 'API', actor FROM request, ord
), change AS (
    INSERT INTO payments_historicalpayment
        (id, state, cause, revision, state_since, queued_at, history_date, history_type, event, source, actor)
    SELECT pay.id, 'QUEUED', 'WAITING_TO_SEND', 1, at, at, at, '+', 'accepted', 'API', actor FROM request, pay
), event AS (
    INSERT INTO payments_outboxevent (type, merchant_id, subject_id, sequence, created_at, due_at)
    SELECT 'payment.accepted', merchant, pay.id, 1, at, at FROM request, pay
)
SELECT (SELECT id FROM pay), second.payment_id FROM second
"""


def _insert_at_once(values: dict[str, Any]) -> "str | _Known":
    """Insert key, order, payment, changes and event; say "new", what is known, "known order" or "second <payment id>"."""
    try:
        # Alone, the statement is a transaction of its own, in one round trip; inside one, a clash must not spoil it.
        unit = transaction.atomic() if connection.in_atomic_block else nullcontext()
        with unit, prepared_cursor() as cursor:
            cursor.execute(_AT_ONCE, values)
            new, second = cursor.fetchone()
    except IntegrityError as error:
        if constraint_of(error) == "order_no_once_per_merchant":  # another request made the order at this moment
            return "known order"
        raise
    if new:
        return "new"
    # Read after the statement: the key may have been committed by a request that was still running when it began.
    if (found := _find_known(values["merchant"], values["key"])) is not None:
        return found
    return f"second {second}" if second else "known order"


def _values(
    *, client: ApiClient, order: PaymentOrder, channel: Channel, payment_id: str, at: datetime
) -> dict[str, Any]:
    return {
        "merchant": client.merchant_id,
        "client": client.pk,
        "channel": channel.pk,
        "order_id": new_id(),
        "payment_id": payment_id,
        "order_no": order.order_no or order.idempotency_key,
        "key": order.idempotency_key,
        "fingerprint": order.fingerprint(),
        "request": json.dumps(order.snapshot(), ensure_ascii=False),
        "response": json.dumps({"paymentId": payment_id, "status": "PENDING"}),
        "customer_ref": order.customer_ref,
        "payment_token": order.payment_token,
        "purpose": order.purpose,
        "amount_minor": order.amount.amount_minor,
        "currency": order.amount.currency,
        "actor": f"client:{client.name}",
        "at": at,
        "expires_at": at + timedelta(seconds=channel.payment_expiry_s),
        "send_before": at + timedelta(seconds=channel.send_limit_s),
        "recently": at - SECOND_PAYMENT_WINDOW,
        "guarded": order.order_no is None and not order.intended,
    }


def _as_inserted(values: dict[str, Any], channel: Channel) -> Payment:
    """The payment and its order as the statement has just inserted them."""
    shared = {
        "merchant_id": values["merchant"],
        "customer_ref": values["customer_ref"],
        "currency_id": values["currency"],
    }
    order = Order(
        id=values["order_id"],
        order_no=values["order_no"],
        payable_minor=values["amount_minor"],
        state=Order.State.PAYING,
        created_at=values["at"],
        **shared,
    )
    payment = Payment(
        id=values["payment_id"],
        order=order,
        channel=channel,
        client_id=values["client"],
        idempotency_key=values["key"],
        payment_token=values["payment_token"],
        purpose=values["purpose"],
        amount_minor=values["amount_minor"],
        accepted_at=values["at"],
        expires_at=values["expires_at"],
        state_since=values["at"],
        queued_at=values["at"],
        submit_due_at=values["at"],
        send_before=values["send_before"],
        **shared,
    )
    payment.only_attempt = True
    return payment


# Every other case: under the order's lock.


@transaction.atomic
def _accept_for_known_order(
    *, client: ApiClient, order: PaymentOrder, channel: Channel, payment_id: str, at: datetime
) -> Accepted:
    if not _claim_key(client=client, order=order, payment_id=payment_id, at=at):
        return _same_request(_find_known(client.merchant_id, order.idempotency_key), order)  # type: ignore[arg-type]
    order_no = order.order_no or order.idempotency_key
    row = Order.objects.select_for_update(no_key=True).filter(merchant_id=client.merchant_id, order_no=order_no).first()
    if row is None:
        raise ReplacementRefused(reason="There is no such order, so nothing of it can be replaced.")
    live = row.payments.live().first()
    _refuse_by_order(row, order, live)
    if live is not None and order.replaces is None:
        raise OrderHasLivePayment(payment_id=live.pk, state=live.state)
    if order.customer_ref != row.customer_ref:
        raise OrderHasOtherCustomer(order_no=row.order_no)
    if order.replaces is not None:
        first = _replaceable(row, order, live)
        return _accept_replacement(
            client=client, order=order, channel=channel, row=row, first=first, payment_id=payment_id, at=at
        )
    if (waiting := row.payments.filter(state=State.CREATED).first()) is not None:
        raise OrderHasLivePayment(payment_id=waiting.pk, state=waiting.state)
    payment = _new_payment(client=client, order=order, channel=channel, row=row, payment_id=payment_id, at=at)
    trace = Trace("accepted", source="API", actor=f"client:{client.name}")
    _insert(payment, trace)
    if row.state == Order.State.CREATED:
        row.start_paying()
        save_traced(row, trace.named("paying"), fields=["state"])
    outbox.record(type_="payment.accepted", payment=payment, at=at)
    nudge_on_commit("submit_due")
    return Accepted(payment.pk, new=True)


def _claim_key(*, client: ApiClient, order: PaymentOrder, payment_id: str, at: datetime) -> bool:
    """Take the idempotency key for this payment; False if it is taken. A refusal later gives it back: rolled back."""
    try:
        with transaction.atomic():
            IdempotencyRecord.objects.create(
                merchant_id=client.merchant_id,
                scene=SCENE,
                business_key=order.idempotency_key,
                operation=OPERATION,
                fingerprint=order.fingerprint(),
                request=order.snapshot(),
                response={"paymentId": payment_id, "status": "PENDING"},
                response_status=202,
                payment_id=payment_id,
                created_at=at,
                completed_at=at,
            )
    except IntegrityError as error:
        if constraint_of(error) != "one_effect_per_idempotency_key":
            raise
        return False
    return True


def _refuse_by_order(row: Order, order: PaymentOrder, live: Payment | None) -> None:
    """What the order's state and agreed amount forbid."""
    contradicted = row.payments.filter(contradicted=True).first()
    if contradicted is not None:
        raise OrderTakesNoPayment(
            order_no=row.order_no,
            reason=f"has an open contradiction on payment {contradicted.pk}; do not pay again",
            payment_id=contradicted.pk,
        )
    if not row.takes_payment:
        paid = live.pk if live else None
        raise OrderTakesNoPayment(order_no=row.order_no, reason=f"is {row.state} and takes no payment", payment_id=paid)
    if order.amount.currency != row.currency_id or order.amount != row.payable:
        raise OrderAmountDiffers(asked=order.amount, payable=row.payable)


def _replaceable(row: Order, order: PaymentOrder, live: Payment | None) -> Payment:
    """The live payment that `replaces` names, locked (PAY-18)."""
    if live is None or live.pk != order.replaces:
        raise ReplacementRefused(
            reason=f"Payment {order.replaces} is not the live payment of order {row.order_no}.",
            payment_id=live.pk if live else None,
        )
    if live.state == State.REVIEW_REQUIRED and live.cause != Cause.DEADLINE:
        raise ReplacementRefused(
            reason=f"Payment {live.pk} is with a person, who decides about its money.", payment_id=live.pk
        )
    if (waiting := row.payments.filter(state=State.CREATED).first()) is not None:
        raise ReplacementRefused(
            reason=f"Payment {waiting.pk} is already waiting to replace it.", payment_id=waiting.pk
        )
    return Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=live.pk)


def _accept_replacement(
    *,
    client: ApiClient,
    order: PaymentOrder,
    channel: Channel,
    row: Order,
    first: Payment,
    payment_id: str,
    at: datetime,
) -> Accepted:
    """Close the first payment at its channel and let the new one wait for the confirmed end (PAY-18)."""
    payment = _new_payment(
        client=client, order=order, channel=channel, row=row, payment_id=payment_id, at=at, first=first
    )
    trace = Trace("accepted", source="API", actor=f"client:{client.name}", evidence=f"payment:{first.pk}")
    _insert(payment, trace)
    outbox.record(type_="payment.accepted", payment=payment, at=at)
    if first.state == State.QUEUED and not first.sent:
        first.cancel_unsent(cause=Cause.REPLACED, at=at)
        save_traced(first, trace.named("cancelled"), fields=STATE_FIELDS)
        outbox.record(type_="payment.cancelled", payment=first, at=at)
        settle_order(order=row, ended=first, trace=trace, at=at)
    elif first.state != State.CANCEL_PENDING:
        if first.state == State.QUEUED:  # it left once and was refused for now: not sent again, but asked about
            first.doubt(cause=Cause.REPLACED, at=at)
            save_traced(first, trace.named("pending"), fields=STATE_FIELDS)
            outbox.record(type_="payment.pending", payment=first, at=at)
        first.await_cancel(cause=Cause.REPLACED, at=at)
        save_traced(first, trace.named("cancel_pending"), fields=STATE_FIELDS)
        outbox.record(type_="payment.cancel_pending", payment=first, at=at)
    nudge_on_commit("query_due")
    return Accepted(payment.pk, new=True)


def _new_payment(
    *,
    client: ApiClient,
    order: PaymentOrder,
    channel: Channel,
    row: Order,
    payment_id: str,
    at: datetime,
    first: Payment | None = None,
) -> Payment:
    expires_at = at + timedelta(seconds=channel.payment_expiry_s)
    send_before = at + timedelta(seconds=channel.send_limit_s)
    plan: dict[str, Any] = {"state": State.QUEUED, "cause": Cause.WAITING_TO_SEND, "queued_at": at, "submit_due_at": at}
    if first is not None:
        # PAY-16: it waits at most until the first one's expiry, its confirmation window and the send limit.
        wait = timedelta(seconds=first.channel.not_found_window_s + channel.send_limit_s)
        send_before = max(first.expires_at, at) + wait
        expires_at = send_before + timedelta(seconds=channel.payment_expiry_s)
        plan = {"state": State.CREATED, "cause": Cause.WAITING_FOR_FIRST, "replaces": first}
    return Payment(
        id=payment_id,
        merchant_id=client.merchant_id,
        order=row,
        channel=channel,
        client=client,
        idempotency_key=order.idempotency_key,
        customer_ref=order.customer_ref,
        payment_token=order.payment_token,
        purpose=order.purpose,
        amount_minor=order.amount.amount_minor,
        currency_id=order.amount.currency,
        accepted_at=at,
        expires_at=expires_at,
        state_since=at,
        send_before=send_before,
        **plan,
    )


def _insert(payment: Payment, trace: Trace) -> None:
    """Insert under the order's lock; the constraints have the last word (I3)."""
    try:
        with transaction.atomic():
            insert_traced(payment, trace)
    except DatabaseError as error:
        if constraint_of(error) in ("one_live_payment_per_order", "one_waiting_payment_per_order"):
            live = payment.order.payments.live().first()
            raise OrderHasLivePayment(
                payment_id=live.pk if live else "", state=live.state if live else State.CREATED
            ) from error
        if constraint_of(error) in ("paid_order_takes_no_payment", "contradicted_order_takes_no_payment"):
            raise OrderTakesNoPayment(order_no=payment.order.order_no, reason="takes no payment") from error
        raise
