"""This app's answers to its own facts."""

from datetime import datetime
from typing import Any

from django.dispatch import receiver

from . import attentions
from .models import Payment
from .signals import attention_needed, attention_settled


@receiver(attention_needed)
def open_attention(
    sender: object,
    *,
    kind: str,
    subject: str,
    payment: Payment | None,
    priority: int,
    facts: dict[str, Any],
    cause_key: str,
    at: datetime,
    **kwargs: object,
) -> None:
    attentions.open_attention(
        kind=kind, subject=subject, payment=payment, priority=priority, facts=facts, cause_key=cause_key, at=at
    )


@receiver(attention_settled)
def settle_attention(sender: object, *, cause_key: str, by: str, at: datetime, **kwargs: object) -> None:
    attentions.settle_attention(cause_key=cause_key, by=by, at=at)
