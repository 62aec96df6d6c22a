"""The outbox: facts committed with the state they tell of, dispatched until every consumer has taken them (EVT-1/2)."""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import connection, transaction

from .models import Attention, OutboxEvent, Payment
from .signals import attention_needed, attention_settled

logger = logging.getLogger(__name__)

# EVT-2: waits before the second, third … delivery; after the last one the event is a dead letter.
BACKOFF = tuple(timedelta(minutes=m) for m in (1, 5, 15, 60, 240, 720))
LEASE = timedelta(seconds=60)
SLICE = 200

Consumer = Callable[[OutboxEvent], None]
_consumers: dict[str, list[Consumer]] = {}


def consumes(*types: str) -> Callable[[Consumer], Consumer]:
    """Register a consumer of events. It may be called twice for one event and must have one effect (K01)."""

    def register(consumer: Consumer) -> Consumer:
        for type_ in types:
            _consumers.setdefault(type_, []).append(consumer)
        return consumer

    return register


def record(*, type_: str, payment: Payment, at: datetime) -> None:
    """Write an event of a payment into the running transaction."""
    OutboxEvent.objects.create(
        type=type_,
        merchant_id=payment.merchant_id,
        subject_id=payment.pk,
        sequence=payment.revision,
        created_at=at,
        due_at=at,
    )


_CLAIM = """
UPDATE payments_outboxevent SET due_at = %(until)s, attempts = attempts + 1
WHERE id IN (
    SELECT id FROM payments_outboxevent WHERE due_at <= %(at)s ORDER BY due_at, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
)
RETURNING id
"""


def claim_due(*, at: datetime, limit: int = SLICE) -> list[OutboxEvent]:
    """Lease due events to this caller; a crashed dispatcher's events come due again after the lease.

    Claim and read are one statement (K19). The order within a claim is the order of writing.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"at": at, "until": at + LEASE, "limit": limit})
        ids = [row[0] for row in cursor.fetchall()]
    return list(OutboxEvent.objects.filter(pk__in=ids).order_by("pk"))


def dispatch_due(*, at: datetime) -> int:
    """Dispatch one slice of due events; returns how many were claimed. One event's failure is only its own."""
    events = claim_due(at=at)
    done = []
    for event in events:
        try:
            _deliver(event)
        except Exception as error:
            logger.exception("event not taken", extra={"event_id": event.pk, "event_type": event.type})
            _postpone(event=event, error=error, at=at)
        else:
            done.append(event.pk)
    OutboxEvent.objects.filter(pk__in=done).update(dispatched_at=at, due_at=None)
    return len(events)


def _deliver(event: OutboxEvent) -> None:
    for consumer in _consumers.get(event.type, []):
        with transaction.atomic():
            consumer(event)


def _postpone(*, event: OutboxEvent, error: Exception, at: datetime) -> None:
    text = f"{type(error).__name__}: {error}"[:500]
    with transaction.atomic():
        if event.attempts <= len(BACKOFF):
            OutboxEvent.objects.filter(pk=event.pk).update(due_at=at + BACKOFF[event.attempts - 1], last_error=text)
            return
        OutboxEvent.objects.filter(pk=event.pk).update(due_at=None, dead_at=at, last_error=text)
        attention_needed.send(
            sender=OutboxEvent,
            kind=Attention.Kind.DEAD_LETTER,
            subject=f"event:{event.pk}",
            payment=Payment.objects.filter(pk=event.subject_id).first(),
            priority=Attention.Priority.P1,
            facts={"event": event.type, "error": text, "attempts": event.attempts},
            cause_key=f"dead-letter:{event.pk}",
            at=at,
        )


@transaction.atomic
def replay(*, event_id: int, at: datetime, actor: str) -> OutboxEvent:
    """Make a dead letter due again, with a full set of attempts. A person asks for it.

    :raises OutboxEvent.DoesNotExist: no such dead letter
    """
    event = OutboxEvent.objects.select_for_update().get(pk=event_id, dead_at__isnull=False)
    event.due_at, event.dead_at, event.attempts = at, None, 0
    event.save(update_fields=["due_at", "dead_at", "attempts"])
    attention_settled.send(sender=OutboxEvent, cause_key=f"dead-letter:{event.pk}", by=f"replayed by {actor}", at=at)
    return event
