"""Asking the channel what became of a payment: everything whose result is open is asked until it is not (QRY-1)."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q
from django.utils.timezone import now

from .channels import ChannelReply, adapter_for
from .claims import DueWork
from .clock import database_now
from .confirmation import Confirmation, confirm_payment, withdraw_cancel
from .errors import AskedJustNow, NothingToAsk
from .evidence import Outcome, Source
from .exchanges import note_health, record_reply, record_request
from .models import Attention, Channel, ChannelExchange, ErrorCodeRule, Payment
from .nudges import nudge_on_commit
from .permits import take_permits
from .signals import attention_needed
from .units import whole_unit

logger = logging.getLogger(__name__)

ASK_NOW_EVERY = timedelta(seconds=3)
State = Payment.State

_QUESTIONS = DueWork(due_column="next_query_at", marks=", query_count = query_count + 1, asked_at = %(at)s")


def claim_due(*, channel: Channel, limit: int, at: datetime) -> list[str]:
    """Lease up to `limit` payments whose question is due, within the channel's rate."""
    lease = timedelta(seconds=channel.connect_timeout_s + channel.read_timeout_s + 10)
    return _QUESTIONS.claim(channel=channel, limit=limit, at=at, until=at + lease)


def ask(*, payment_id: str, at: datetime, actor: str = "system") -> Payment:
    """Ask the channel about a payment by our own reference and let the answer move it. Never sends money.

    A payment whose cancellation is under way is cancelled at the channel when the answer says it is still open (FND-8).
    """
    payment = Payment.objects.select_related("channel").get(pk=payment_id)
    if payment.state in Payment.UNSENT:
        return payment
    adapter = adapter_for(payment.channel)
    request = adapter.query_request(reference=payment.pk)
    exchange = record_request(payment=payment, request=request, at=at, actor=actor)
    reply = adapter.call(request, at=now())
    answered_at = now()
    payment = record_answer(exchange=exchange, payment=payment, reply=reply, at=answered_at).payment
    note_health(channel_id=payment.channel_id, reply=reply, at=answered_at)
    if payment.state == State.CANCEL_PENDING and reply.outcome in (Outcome.PROCESSING, Outcome.NOT_FOUND):
        payment = _cancel_at_channel(payment=payment, actor=actor)
    return payment


@whole_unit
@transaction.atomic
def record_answer(*, exchange: ChannelExchange, payment: Payment, reply: ChannelReply, at: datetime) -> Confirmation:
    """Store an answer and let it move the payment, in one transaction."""
    evidence = record_reply(request=exchange, payment=payment, reply=reply, at=at)
    return confirm_payment(payment_id=payment.pk, evidence=evidence)


def _cancel_at_channel(*, payment: Payment, actor: str) -> Payment:
    """Ask the channel to cancel, under a reference of its own that stays the same however often it is asked."""
    adapter = adapter_for(payment.channel)
    at = now()
    request = adapter.cancel_request(reference=payment.pk, cancel_reference=f"C-{payment.pk}")
    exchange = record_request(payment=payment, request=request, at=at, actor=actor)
    reply = adapter.call(request, at=now())
    return record_cancel_answer(exchange=exchange, payment=payment, reply=reply, at=now()).payment


@whole_unit
@transaction.atomic
def record_cancel_answer(
    *, exchange: ChannelExchange, payment: Payment, reply: ChannelReply, at: datetime
) -> Confirmation:
    """Only a confirmed cancellation ends the payment. A refused one leads back to PENDING, and the question goes on; any
    other answer, such as busy or not yet visible, leaves the cancellation open, to be asked for again under the same
    reference (FND-8)."""
    evidence = record_reply(request=exchange, payment=payment, reply=reply, at=at)
    if reply.outcome is Outcome.DECLINED or evidence.classification == ErrorCodeRule.Classification.STRUCTURAL:
        return withdraw_cancel(payment_id=payment.pk, evidence=evidence)
    outcome = Outcome.CANCELLED if reply.outcome is Outcome.CANCELLED else Outcome.UNKNOWN
    return confirm_payment(payment_id=payment.pk, evidence=replace(evidence, source=Source.QUERY, outcome=outcome))


def ask_now(*, payment_id: str, actor: str, at: datetime) -> Payment:
    """Ask the channel on a person's or a client's word, by the same path as the sweep (QRY-5).

    :raises NothingToAsk: the payment was never sent
    :raises AskedJustNow: it was asked less than three seconds ago, or the channel's rate permits no call now
    """
    with transaction.atomic():
        payment = Payment.objects.select_for_update(no_key=True).get(pk=payment_id)
        if payment.state in Payment.UNSENT or (not payment.sent and payment.submitted_at is None):
            raise NothingToAsk
        if payment.asked_at is not None and at - payment.asked_at < ASK_NOW_EVERY:
            raise AskedJustNow(seconds=ASK_NOW_EVERY.seconds)
        if not take_permits(channel=payment.channel, wanted=1):
            raise AskedJustNow(seconds=1)
        Payment.objects.filter(pk=payment.pk).update(asked_at=at)
    return ask(payment_id=payment_id, at=database_now(), actor=actor)


@transaction.atomic
def raise_overdue(*, at: datetime, limit: int = 200) -> int:
    """Open an attention for each payment unknown for longer than its channel's alert age (QRY-3); asking goes on."""
    raised = 0
    for channel in Channel.objects.all():
        old = Payment.objects.filter(
            channel=channel,
            state__in=[State.SUBMITTED, State.PENDING, State.CANCEL_PENDING],
            submitted_at__lte=at - timedelta(seconds=channel.alert_age_s),
            alerted_at__isnull=True,
        )
        for payment in old.select_for_update(no_key=True, skip_locked=True).order_by("submitted_at", "pk")[:limit]:
            attention_needed.send(
                sender=Payment,
                kind=Attention.Kind.UNKNOWN_TOO_LONG,
                subject=f"payment:{payment.pk}",
                payment=payment,
                priority=Attention.Priority.P2,
                facts={"since": payment.submitted_at.isoformat(), "questions": str(payment.query_count)},  # type: ignore[union-attr]
                cause_key=f"unknown:{payment.pk}",
                at=at,
            )
            Payment.objects.filter(pk=payment.pk).update(alerted_at=at)
            raised += 1
    return raised


@transaction.atomic
def check_open_things(*, at: datetime) -> int:
    """The third promise, checked hourly: no open payment is without a due time or an open attention."""
    plain = Payment.objects.unresolved().filter(attentions__settled_at__isnull=True, attentions__isnull=False)
    unplanned = Q(state__in=Payment.AT_CHANNEL, next_query_at__isnull=True)
    unplanned |= Q(state=State.QUEUED, submit_due_at__isnull=True) | Q(
        state__in=Payment.UNSENT, send_before__isnull=True
    )
    stranded = Payment.objects.filter(unplanned)
    found = 0
    for payment in stranded.exclude(pk__in=plain.values("pk")).order_by("pk")[:500]:
        attention_needed.send(
            sender=Payment,
            kind=Attention.Kind.STRANDED,
            subject=f"payment:{payment.pk}",
            payment=payment,
            priority=Attention.Priority.P1,
            facts={"state": payment.state},
            cause_key=f"stranded:{payment.pk}",
            at=at,
        )
        found += 1
    return found


def ask_soon(*, payment: Payment, at: datetime) -> None:
    """Plan a question for at once, unless one is planned already."""
    deadline = at + timedelta(seconds=payment.channel.alert_age_s)
    planned = Payment.objects.filter(pk=payment.pk, next_query_at__isnull=True)
    if planned.update(next_query_at=at, query_deadline=deadline):
        nudge_on_commit("query_due")
