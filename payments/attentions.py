"""What needs a person: one open row per cause, raised again it counts (I13)."""

from datetime import datetime
from typing import Any

from django.db import connection

from .models import Attention, Payment

_OPEN = """
INSERT INTO payments_attention (kind, priority, cause_key, subject, payment_id, facts, times, opened_at, last_at, settled_by)
VALUES (%(kind)s, %(priority)s, %(cause_key)s, %(subject)s, %(payment)s, %(facts)s::jsonb, 1, %(at)s, %(at)s, '')
ON CONFLICT (cause_key) WHERE settled_at IS NULL DO UPDATE
SET times = payments_attention.times + 1, last_at = EXCLUDED.last_at, facts = payments_attention.facts || EXCLUDED.facts,
    priority = least(payments_attention.priority, EXCLUDED.priority)
"""


def open_attention(
    *,
    kind: str,
    subject: str,
    payment: Payment | None,
    priority: int,
    facts: dict[str, Any],
    cause_key: str,
    at: datetime,
) -> None:
    """Open an attention, or count once more on the open one of the same cause."""
    adapter = Attention._meta.get_field("facts").get_db_prep_value(facts, connection)  # type: ignore[union-attr]
    values = {
        "kind": kind,
        "priority": priority,
        "cause_key": cause_key[:200],
        "subject": subject,
        "payment": payment.pk if payment else None,
        "facts": adapter,
        "at": at,
    }
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, values)


def settle_attention(*, cause_key: str, by: str, at: datetime) -> None:
    """Close the open attention of this cause, if there is one."""
    Attention.objects.filter(cause_key=cause_key[:200], settled_at__isnull=True).update(
        settled_at=at, settled_by=by[:200]
    )


def settle_attentions_of(*, payment: Payment, kinds: tuple[str, ...], by: str, at: datetime) -> None:
    """Close the payment's open attentions of these kinds."""
    Attention.objects.filter(payment=payment, kind__in=kinds, settled_at__isnull=True).update(
        settled_at=at, settled_by=by[:200]
    )
