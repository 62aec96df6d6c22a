"""What this app itself does when an event is dispatched."""

from . import notifications
from .models import OutboxEvent
from .outbox import consumes


@consumes("payment.accepted")
def match_parked_notifications(event: OutboxEvent) -> None:
    """A notification may have come before its payment (NTF-4): now it can be applied."""
    notifications.match_parked(payment_id=event.subject_id)
