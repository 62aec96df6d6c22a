"""What happened and must be told (EVT-1), and what needs a person."""

from django.db import models
from django.db.models import Q


class OutboxEvent(models.Model):
    """A fact committed together with the state it tells of. Its message holds ids only; consumers read the rows."""

    type = models.CharField(max_length=40)
    merchant_id = models.BigIntegerField()
    subject_id = models.CharField(max_length=26)
    sequence = models.PositiveIntegerField(help_text="The subject's revision: a receiver can drop what is older.")
    created_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    dispatched_at = models.DateTimeField(null=True)
    dead_at = models.DateTimeField(null=True)
    last_error = models.CharField(max_length=500, default="", db_default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_id", "sequence", "type"], name="one_event_per_change"),
            models.CheckConstraint(
                condition=Q(due_at__isnull=False) | Q(dispatched_at__isnull=False) | Q(dead_at__isnull=False),
                name="event_is_due_or_done_or_dead",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at", "id"], condition=Q(due_at__isnull=False), name="event_due"),
            models.Index(fields=["dead_at"], condition=Q(dead_at__isnull=False), name="event_dead"),
        ]


class Attention(models.Model):
    """Something a person must see, one open row per cause (I13), with how often it was raised."""

    class Kind(models.TextChoices):
        PAYMENT_REVIEW = "PAYMENT_REVIEW", "payment in review"
        CONTRADICTION = "CONTRADICTION", "the channel contradicts a final state"
        OVERCHARGE = "OVERCHARGE", "payer charged more than agreed"
        UNKNOWN_TOO_LONG = "UNKNOWN_TOO_LONG", "result unknown for too long"
        AMOUNT_STOPPED = "AMOUNT_STOPPED", "stopped before sending: amount above the payable"
        SUSPECTED_REFUSAL = "SUSPECTED_REFUSAL", "refused, probably our request"
        STRUCTURAL_REFUSAL = "STRUCTURAL_REFUSAL", "refused until something changes"
        UNMAPPED_CODE = "UNMAPPED_CODE", "a code nobody has classified"
        NOTIFICATION_MISMATCH = "NOTIFICATION_MISMATCH", "a signed notification contradicts our record"
        NOTIFICATION_UNKNOWN = "NOTIFICATION_UNKNOWN", "a notification for a payment we do not know"
        REPLY_MISMATCH = "REPLY_MISMATCH", "a reply for another reference"
        DEAD_LETTER = "DEAD_LETTER", "an event could not be delivered"
        STRANDED = "STRANDED", "an open thing without a due time"

    class Priority(models.IntegerChoices):
        P0 = 0, "P0"
        P1 = 1, "P1"
        P2 = 2, "P2"
        P3 = 3, "P3"

    kind = models.CharField(max_length=24, choices=Kind)
    priority = models.PositiveSmallIntegerField(choices=Priority)
    cause_key = models.CharField(max_length=200)
    subject = models.CharField(max_length=64, help_text="`payment:<id>`, `notification:<id>`, `event:<id>` …")
    payment = models.ForeignKey("payments.Payment", models.PROTECT, null=True, related_name="attentions")
    facts = models.JSONField(default=dict)
    times = models.PositiveIntegerField(default=1)
    opened_at = models.DateTimeField()
    last_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=200, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cause_key"], condition=Q(settled_at__isnull=True), name="one_open_attention_per_cause"
            )
        ]
        indexes = [models.Index(fields=["-opened_at"], condition=Q(settled_at__isnull=True), name="attention_open")]
