"""Sending a payment to its channel, exactly so often that it is never sent twice (PAY-14, PAY-16, FND-4)."""

import logging
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal

from django.conf import settings
from django.db import transaction
from django.utils.timezone import now

from . import outbox
from .channels import ChannelReply, ChannelRequest, adapter_for
from .claims import DueWork
from .confirmation import (
    STATE_FIELDS,
    Confirmation,
    confirm_payment,
    has_open_contradiction,
    reply_patience,
    settle_order,
)
from .evidence import Outcome
from .exchanges import note_health, record_reply, record_request
from .models import Attention, Channel, ChannelExchange, Order, Payment
from .models.history import Trace, save_traced
from .money import Money
from .signals import attention_needed
from .units import whole_unit

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=60)
State, Cause = Payment.State, Payment.Cause

_SUBMISSIONS = DueWork(due_column="submit_due_at", condition="state = 'QUEUED'")


def claim_due(*, channel: Channel, limit: int, at: datetime) -> list[str]:
    """Lease up to `limit` payments that may be sent now, within the channel's rate."""
    return _SUBMISSIONS.claim(channel=channel, limit=limit, at=at, until=at + LEASE)


def submit_payment(*, payment_id: str, at: datetime) -> Payment:
    """Send a queued payment and record the answer. A repeated call sends nothing.

    The state and the request are committed before the first byte leaves, and no transaction is open while the channel
    is called. A crash at any line leaves a state from which the query path finds the truth.
    """
    payment, request, exchange = _prepare(payment_id=payment_id, at=at)
    if request is None or exchange is None:
        return payment
    reply = _call(payment, request)
    at = now()
    done = record_submission(exchange=exchange, payment=payment, reply=reply, at=at)
    note_health(channel_id=payment.channel_id, reply=reply, at=at)
    return done.payment


def _call(payment: Payment, request: ChannelRequest) -> ChannelReply:
    """Send the request, unless this process slept so long after the commit that others may have given it up."""
    at = now()
    if payment.submitted_at is not None and at > payment.submitted_at + reply_patience(payment.channel):
        return ChannelReply(Outcome.NOT_SENT, code="TOO_LATE_TO_SEND", left=False)
    return adapter_for(payment.channel).call(request, at=at)


@whole_unit
@transaction.atomic
def record_submission(
    *, exchange: ChannelExchange, payment: Payment, reply: ChannelReply, at: datetime
) -> Confirmation:
    """Store the channel's reply to a payment request and let it move the payment, in one transaction."""
    evidence = record_reply(request=exchange, payment=payment, reply=reply, at=at)
    return confirm_payment(payment_id=payment.pk, evidence=evidence)


@whole_unit
@transaction.atomic
def _prepare(*, payment_id: str, at: datetime) -> tuple[Payment, ChannelRequest | None, ChannelExchange | None]:
    """Lock, decide whether it may still leave, and commit SUBMITTED with the request."""
    order_id = Payment.objects.values_list("order_id", flat=True).get(pk=payment_id)
    order = Order.objects.select_for_update(no_key=True).get(pk=order_id)
    payment = Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=payment_id)
    if payment.state != State.QUEUED:
        return payment, None, None
    if payment.known_to_channel:
        _ask_instead(payment, at)
        return payment, None, None
    overdue = at >= payment.expires_at or (payment.send_before is not None and at >= payment.send_before)
    if overdue or has_open_contradiction(order):
        end_unsent(order=order, payment=payment, at=at)
        return payment, None, None
    if _above_payable(order, payment):
        _stop_above_payable(order, payment, at)
        return payment, None, None
    channel = payment.channel
    payment.submit(
        at=at,
        ask_at=at + reply_patience(channel),
        query_deadline=max(at, payment.expires_at) + timedelta(seconds=channel.query_deadline_s),
    )
    request = adapter_for(channel).pay_request(
        reference=payment.pk,
        amount=payment.amount,
        token=payment.payment_token,
        purpose=payment.purpose,
        expires_at=_expiry_told(payment),
        notify_url=channel.settings.get("notify_url") or f"{settings.BASE_URL}/notifications/{channel.pk}",
        at=payment.accepted_at,
    )
    save_traced(payment, Trace("submitted", source="SUBMISSION"), fields=STATE_FIELDS)
    outbox.record(type_="payment.submitted", payment=payment, at=at)
    return payment, request, record_request(payment=payment, request=request, at=at)


def _expiry_told(payment: Payment) -> datetime:
    """The expiry sent to the channel (PAY-18): its usual span from when the payment could first be sent, so the same
    whenever it is sent again."""
    begun = payment.queued_at or payment.accepted_at
    return min(payment.expires_at, begun + timedelta(seconds=payment.channel.payment_expiry_s))


def _ask_instead(payment: Payment, at: datetime) -> None:
    """The channel has shown that it knows this payment, so it is never sent; what became of it is asked."""
    payment.doubt(cause=Cause.KNOWN_ELSEWHERE, at=at)
    payment.submitted_at = payment.submitted_at or at
    payment.query_deadline = at + timedelta(seconds=payment.channel.query_deadline_s)
    payment.next_query_at = at
    save_traced(payment, Trace("pending", source="SUBMISSION"), fields=STATE_FIELDS)
    outbox.record(type_="payment.pending", payment=payment, at=at)


def _above_payable(order: Order, payment: Payment) -> bool:
    """FND-4: amount + highest contractual fee borne by the payer ≤ what the order's payer agreed to, same currency."""
    if payment.currency_id != order.currency_id:
        return True
    fee = payment.amount.major * payment.channel.payer_fee_bps / Decimal(10000)
    highest = fee.quantize(payment.amount.major, rounding=ROUND_UP)
    return payment.amount + Money.from_major(highest, payment.currency_id) > order.payable


def _stop_above_payable(order: Order, payment: Payment, at: datetime) -> None:
    attention_needed.send(
        sender=Payment,
        kind=Attention.Kind.AMOUNT_STOPPED,
        subject=f"payment:{payment.pk}",
        payment=payment,
        priority=Attention.Priority.P1,
        facts={
            "asked": str(payment.amount),
            "payable": str(order.payable),
            "payerFeeBps": str(payment.channel.payer_fee_bps),
        },
        cause_key=f"amount-stopped:{payment.pk}",
        at=at,
    )
    end_unsent(order=order, payment=payment, at=at, cause=Cause.AMOUNT_REVIEW)


def end_unsent(
    *, order: Order, payment: Payment, at: datetime, cause: str = Cause.NEVER_SENT, actor: str = "system"
) -> None:
    """End a payment that may not be sent any more. The caller holds the locks of the order and the payment.

    What provably never left is cancelled (PAY-16). What left once, even if it was refused then, is asked about first.
    """
    if payment.sent:
        payment.doubt(cause=Cause.NO_ANSWER, at=at)
        payment.next_query_at = at
        save_traced(payment, Trace("pending", source="SEND_LIMIT", actor=actor), fields=STATE_FIELDS)
        outbox.record(type_="payment.pending", payment=payment, at=at)
        return
    trace = Trace("cancelled", source="SEND_LIMIT", actor=actor)
    payment.cancel_unsent(cause=cause, at=at)
    save_traced(payment, trace, fields=STATE_FIELDS)
    outbox.record(type_="payment.cancelled", payment=payment, at=at)
    settle_order(order=order, ended=payment, trace=trace, at=at)


@whole_unit
@transaction.atomic
def cancel_if_unsent(*, payment_id: str, at: datetime) -> Payment:
    """Apply the send limit to one payment (PAY-16). A payment that is not overdue, or was sent, is left alone."""
    order_id = Payment.objects.values_list("order_id", flat=True).get(pk=payment_id)
    order = Order.objects.select_for_update(no_key=True).get(pk=order_id)
    payment = Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=payment_id)
    if payment.state in Payment.UNSENT and payment.send_before is not None and at >= payment.send_before:
        end_unsent(order=order, payment=payment, at=at)
    return payment


def find_unsent(*, at: datetime, limit: int = 200) -> list[str]:
    """Ids of payments whose send limit has passed."""
    overdue = Payment.objects.filter(state__in=Payment.UNSENT, send_before__lte=at).order_by("send_before", "pk")
    return list(overdue.values_list("pk", flat=True)[:limit])
