"""Notifications in: verified and stored before they are answered, applied afterwards (NTF-1 … NTF-4)."""

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models import CharField, Exists, OuterRef, Value
from django.db.models.functions import Cast, Concat
from django.utils.timezone import now

from .channels import ReportedPayment, adapter_for
from .confirmation import confirm_payment
from .errors import NotificationRefused
from .evidence import Evidence, Outcome, Source
from .masking import plain, storable
from .models import Attention, Channel, InboundNotification, Payment
from .money import Money
from .nudges import nudge_on_commit
from .signals import attention_needed, attention_settled
from .units import whole_unit

logger = logging.getLogger(__name__)

SLICE = 100
LEASE = timedelta(seconds=60)
LOOK_FOR_PAYMENT_EVERY = timedelta(minutes=5)
UNKNOWN_AFTER = timedelta(hours=1)
TRIES_BEFORE_RAISING = 5
MAX_BODY = 64 * 1024
State = InboundNotification.State

_STORE = """
INSERT INTO payments_inboundnotification
    (channel_id, duplicate_key, content_digest, channel_event_id, reference, operation, outcome, code, message,
     channel_txn_id, amount_minor, currency, occurred_at, body, state, deliveries, received_at, last_received_at, due_at,
     attempts)
VALUES (%(channel)s, %(duplicate_key)s, %(content_digest)s, %(channel_event_id)s, %(reference)s, %(operation)s,
     %(outcome)s, %(code)s, %(message)s, %(channel_txn_id)s, %(amount_minor)s, %(currency)s, %(occurred_at)s, %(body)s,
     'RECEIVED', 1, %(at)s, %(at)s, %(at)s, 0)
ON CONFLICT (channel_id, duplicate_key, content_digest) DO UPDATE
SET deliveries = payments_inboundnotification.deliveries + 1, last_received_at = EXCLUDED.last_received_at
RETURNING id, deliveries
"""
_COUNT_REFUSAL = """
INSERT INTO payments_refusednotifications (channel_code, reason, day, count, last_at, sample)
VALUES (%(channel)s, %(reason)s, %(day)s, 1, %(at)s, %(sample)s)
ON CONFLICT (channel_code, reason, day) DO UPDATE
SET count = payments_refusednotifications.count + 1, last_at = EXCLUDED.last_at
"""


def receive(*, channel: Channel, body: bytes, headers: Mapping[str, str], at: datetime) -> int:
    """Verify a delivery over its raw bytes and store it; returns the stored row's id. A repeat is only counted (NTF-3).

    :raises NotificationRefused: it is not what the channel would send; counted, with one sample a day kept (NTF-2)
    """
    try:
        if len(body) > MAX_BODY:
            raise NotificationRefused(reason="too long", status=413)
        reported = adapter_for(channel).read_notification(body=body, headers=headers, at=at)
    except NotificationRefused as refusal:
        count_refusal(channel_code=channel.pk, reason=refusal.reason, body=body, at=at)
        raise
    with transaction.atomic():
        notification_id, deliveries = _store(channel=channel, reported=reported, body=body, at=at)
        if deliveries == 1:
            _raise_other_content(channel, notification_id, reported, at)
            nudge_on_commit("apply_notifications")
    return notification_id


def count_refusal(*, channel_code: str, reason: str, body: bytes, at: datetime) -> None:
    """Count a refused delivery: one row per channel, reason and day, however many come."""
    values: dict[str, Any] = {
        "channel": channel_code[:32],
        "reason": reason[:64],
        "day": at.date(),
        "at": at,
        "sample": storable(body[:2000].decode("utf-8", "replace"), 2000),
    }
    with connection.cursor() as cursor:
        cursor.execute(_COUNT_REFUSAL, values)


def _store(*, channel: Channel, reported: ReportedPayment, body: bytes, at: datetime) -> tuple[int, int]:
    content = json.dumps(reported.content, sort_keys=True, ensure_ascii=False, default=str)
    values: dict[str, Any] = {
        "channel": channel.pk,
        "duplicate_key": plain(reported.duplicate_key, 200),
        "content_digest": hashlib.sha256(content.encode()).hexdigest(),
        "channel_event_id": plain(reported.channel_event_id, 64),
        "reference": plain(reported.reference, 64),
        "operation": plain(reported.operation, 24),
        "outcome": reported.outcome,
        "code": plain(reported.code, 64),
        "message": storable(reported.message, 500),
        "channel_txn_id": plain(reported.channel_txn_id, 64),
        "amount_minor": reported.amount.amount_minor if reported.amount else None,
        "currency": reported.amount.currency if reported.amount else "",
        "occurred_at": reported.occurred_at,
        "body": storable(
            body.decode("utf-8", "replace"),
            MAX_BODY,
            keep=(reported.reference, reported.channel_txn_id, reported.channel_event_id),
        ),
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_STORE, values)
        return cursor.fetchone()  # type: ignore[no-any-return]


def _raise_other_content(channel: Channel, notification_id: int, reported: ReportedPayment, at: datetime) -> None:
    """Equal keys with other content are kept side by side, and people are told (NTF-3)."""
    others = InboundNotification.objects.filter(channel=channel).exclude(pk=notification_id)
    same_news = others.filter(duplicate_key=plain(reported.duplicate_key, 200))
    same_event = (
        others.filter(channel_event_id=reported.channel_event_id) if reported.channel_event_id else others.none()
    )
    other = (same_news.first() or same_event.filter(reference=reported.reference).first()) or same_event.first()
    if other is None:
        return
    attention_needed.send(
        sender=InboundNotification,
        kind=Attention.Kind.NOTIFICATION_MISMATCH,
        subject=f"notification:{notification_id}",
        payment=Payment.objects.filter(pk=reported.reference, channel=channel).first(),
        priority=Attention.Priority.P1,
        facts={"sameKeyAs": f"notification:{other.pk}", "key": reported.duplicate_key},
        cause_key=f"notification-content:{channel.pk}:{reported.duplicate_key}",
        at=at,
    )


_CLAIM = """
UPDATE payments_inboundnotification SET due_at = %(until)s, attempts = least(attempts + 1, 30000)
WHERE id IN (
    SELECT id FROM payments_inboundnotification WHERE due_at <= %(at)s
    ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
RETURNING id
"""


def apply_due(*, at: datetime) -> int:
    """Apply one slice of due notifications; returns how many were claimed. One failure is only its own."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"at": at, "until": at + LEASE, "limit": SLICE})
        ids = sorted(row[0] for row in cursor.fetchall())
    for notification_id in ids:
        try:
            apply(notification_id=notification_id, at=at)
        except Exception as error:
            logger.exception("notification not applied, due again", extra={"notification_id": notification_id})
            _raise_if_it_keeps_failing(notification_id=notification_id, error=error, at=at)
    return len(ids)


@transaction.atomic
def _raise_if_it_keeps_failing(*, notification_id: int, error: Exception, at: datetime) -> None:
    """What cannot be applied again and again is a matter for people; it stays due."""
    news = InboundNotification.objects.get(pk=notification_id)
    if news.attempts >= TRIES_BEFORE_RAISING:
        _raise(
            Attention.Kind.STRANDED,
            news,
            f"notification-stuck:{news.pk}",
            {"error": f"{type(error).__name__}: {error}"[:300]},
            at,
        )


def _raise(kind: str, news: InboundNotification, cause_key: str, facts: dict[str, str], at: datetime) -> None:
    attention_needed.send(
        sender=InboundNotification,
        kind=kind,
        subject=f"notification:{news.pk}",
        payment=Payment.objects.filter(pk=news.reference, channel_id=news.channel_id).first(),
        priority=Attention.Priority.P2,
        facts={"reference": news.reference, "channel": news.channel_id, **facts},
        cause_key=cause_key,
        at=at,
    )


@whole_unit
@transaction.atomic
def apply(*, notification_id: int, at: datetime) -> InboundNotification:
    """Let one stored notification speak to its payment, through the one confirm function. Applied again, it does nothing."""
    news = InboundNotification.objects.select_for_update(no_key=True).get(pk=notification_id)
    if news.due_at is None:
        return news
    if news.operation != "pay":
        # It may name a payment's reference, but it is not about the payment: kept and raised, never applied.
        news.state, news.due_at, news.applied_at = State.MISMATCH, None, at
        news.save(update_fields=["state", "due_at", "applied_at"])
        facts = {"operation": news.operation, "channelTransactionId": news.channel_txn_id}
        _raise(Attention.Kind.NOTIFICATION_UNKNOWN, news, f"notification-operation:{news.pk}", facts, at)
        return news
    payment = Payment.objects.filter(pk=news.reference, channel_id=news.channel_id).first()
    if payment is None:
        news.state, news.due_at = State.PARKED, at + LOOK_FOR_PAYMENT_EVERY
        news.save(update_fields=["state", "due_at"])
        return news
    done = confirm_payment(payment_id=payment.pk, evidence=_evidence(news, at))
    news.state = State.MISMATCH if done.mismatch else State.APPLIED if done.moved else State.STALE
    news.payment, news.due_at, news.applied_at = payment, None, at
    news.save(update_fields=["state", "payment", "due_at", "applied_at"])
    attention_settled.send(
        sender=InboundNotification, cause_key=f"notification-unknown:{news.pk}", by=f"matched {payment.pk}", at=at
    )
    return news


def _evidence(news: InboundNotification, at: datetime) -> Evidence:
    return Evidence(
        source=Source.NOTIFICATION,
        outcome=Outcome(news.outcome),
        at=at,
        reference=f"notification:{news.pk}",
        channel_txn_id=news.channel_txn_id,
        amount=None if news.amount_minor is None else Money(news.amount_minor, news.currency),
        completed_at=news.occurred_at,
        code=news.code,
        message=news.message,
    )


def match_parked(*, payment_id: str) -> None:
    """Make notifications due that came before their payment did (NTF-4)."""
    parked = InboundNotification.objects.filter(reference=payment_id, state=State.PARKED, due_at__isnull=False)
    if parked.update(due_at=now()):
        nudge_on_commit("apply_notifications")


@transaction.atomic
def raise_unknown(*, at: datetime, limit: int = 200) -> int:
    """Open an attention for each notification that has belonged to no payment for an hour (NTF-4)."""
    unknown = InboundNotification.objects.filter(
        state=State.PARKED, received_at__lte=at - UNKNOWN_AFTER, due_at__isnull=False
    )
    raised_already = Attention.objects.filter(
        kind=Attention.Kind.NOTIFICATION_UNKNOWN,
        settled_at__isnull=True,
        subject=Concat(Value("notification:"), OuterRef("text_id")),
    )
    new = unknown.annotate(text_id=Cast("pk", CharField())).filter(~Exists(raised_already))
    raised = 0
    for news in new.order_by("received_at", "pk")[:limit]:
        facts = {"channelTransactionId": news.channel_txn_id}
        _raise(Attention.Kind.NOTIFICATION_UNKNOWN, news, f"notification-unknown:{news.pk}", facts, at)
        raised += 1
    return raised
