"""Entrances for the workers: claim, call, done. Each may run twice or not at all; the rows decide (K01, K02)."""

from datetime import datetime

from celery import shared_task
from celery.signals import worker_shutting_down
from django.utils.timezone import now

from . import drains, enquiry, notifications, outbox, submission
from .models import Channel, Payment


@worker_shutting_down.connect  # type: ignore[misc]
def _stop_drains(**kwargs: object) -> None:
    drains.stop_all()


def _with_due_submissions(at: datetime) -> list[Channel]:
    due = Payment.objects.filter(state=Payment.State.QUEUED, submit_due_at__lte=at)
    return list(Channel.objects.filter(pk__in=due.values("channel_id"), enabled=True))


def _with_due_queries(at: datetime) -> list[Channel]:
    return list(Channel.objects.filter(pk__in=Payment.objects.filter(next_query_at__lte=at).values("channel_id")))


@shared_task
def submit_due() -> None:
    """Send the payments that are due, channel by channel side by side."""
    drains.drain_all(
        work="submit", claim=submission.claim_due, handle=submission.submit_payment, due=_with_due_submissions
    )


@shared_task
def query_due() -> None:
    """Ask the channels whatever is due to be asked; also what a crash left behind."""
    drains.drain_all(work="query", claim=enquiry.claim_due, handle=enquiry.ask, due=_with_due_queries)


@shared_task
def apply_notifications() -> None:
    """Apply stored notifications."""
    while notifications.apply_due(at=now()) == notifications.SLICE:
        pass


@shared_task
def dispatch_events() -> None:
    """Dispatch the outbox."""
    while outbox.dispatch_due(at=now()) == outbox.SLICE:
        pass


@shared_task
def cancel_unsent() -> None:
    """Apply the send limit."""
    at = now()
    for payment_id in submission.find_unsent(at=at):
        submission.cancel_if_unsent(payment_id=payment_id, at=at)


@shared_task
def raise_overdue() -> None:
    """Tell people of payments unknown for too long, and of notifications that belong to nothing."""
    enquiry.raise_overdue(at=now())
    notifications.raise_unknown(at=now())


@shared_task
def check_open_things() -> None:
    """Hourly: nothing open is without a due time or a person."""
    enquiry.check_open_things(at=now())
