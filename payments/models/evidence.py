"""What was said to and by channels: the evidence every decision points at (PAY-15, NTF-1)."""

from django.db import models
from django.db.models import Q

from .history import history


class ChannelExchange(models.Model):
    """A request to a channel, or its reply, as a row of its own. A request without a reply is itself evidence.

    Rows are append-only; bodies are masked before they are stored.
    """

    class Kind(models.TextChoices):
        REQUEST = "REQUEST", "request"
        REPLY = "REPLY", "reply"

    kind = models.CharField(max_length=8, choices=Kind)
    request = models.ForeignKey("self", models.PROTECT, null=True, related_name="replies", db_index=False)
    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+", db_index=False)
    operation = models.CharField(max_length=24)
    payment = models.ForeignKey("payments.Payment", models.PROTECT, related_name="exchanges")
    reference = models.CharField(max_length=32)
    actor = models.CharField(max_length=120, default="system")
    at = models.DateTimeField()
    body = models.TextField(default="")
    http_status = models.PositiveSmallIntegerField(null=True)
    outcome = models.CharField(max_length=16, default="")
    code = models.CharField(max_length=64, default="")
    message = models.CharField(max_length=500, default="")
    classification = models.CharField(max_length=16, default="")
    channel_txn_id = models.CharField(max_length=64, default="")
    latency_ms = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["request"], condition=Q(kind="REPLY"), name="one_reply_per_request")
        ]


class InboundNotification(models.Model):
    """A verified notification, stored before it is acted on, and due until it is applied (NTF-1)."""

    class State(models.TextChoices):
        RECEIVED = "RECEIVED", "to be applied"
        PARKED = "PARKED", "its payment is not known yet"
        APPLIED = "APPLIED", "applied"
        STALE = "STALE", "changes nothing any more"
        MISMATCH = "MISMATCH", "contradicts our record; the channel is asked"

    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+", db_index=False)
    duplicate_key = models.CharField(max_length=200)
    content_digest = models.CharField(max_length=64)
    channel_event_id = models.CharField(max_length=64, default="")
    reference = models.CharField(max_length=64, help_text="Our reference as the notification names it.")
    operation = models.CharField(max_length=24, default="pay")
    payment = models.ForeignKey("payments.Payment", models.PROTECT, null=True, related_name="notifications")
    outcome = models.CharField(max_length=16)
    code = models.CharField(max_length=64, default="")
    message = models.CharField(max_length=500, default="")
    channel_txn_id = models.CharField(max_length=64, default="")
    amount_minor = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, default="")
    occurred_at = models.DateTimeField(null=True)
    body = models.TextField()
    state = models.CharField(max_length=16, choices=State, default=State.RECEIVED)
    deliveries = models.PositiveIntegerField(default=1)
    received_at = models.DateTimeField()
    last_received_at = models.DateTimeField()
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    applied_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "duplicate_key", "content_digest"], name="notification_stored_once"
            )
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="notification_due"),
            models.Index(fields=["reference"], name="notification_by_reference"),
            models.Index(fields=["channel_txn_id"], name="notification_by_txn"),
            models.Index(fields=["channel_event_id"], name="notification_by_event"),
        ]


class RefusedNotifications(models.Model):
    """How many deliveries were refused, per channel, reason and day, with one sample: bounded whatever is sent."""

    channel_code = models.CharField(max_length=32)
    reason = models.CharField(max_length=64)
    day = models.DateField()
    count = models.PositiveIntegerField(default=1)
    last_at = models.DateTimeField()
    sample = models.CharField(max_length=2000)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel_code", "reason", "day"], name="refusals_counted_per_day")
        ]


class ErrorCodeRule(models.Model):
    """What a channel's code means: (adapter, operation, code, text or field) → class (SPL-4). Most specific wins."""

    class Classification(models.TextChoices):
        TRANSIENT = "TRANSIENT", "no effect, passes by itself"
        STRUCTURAL = "STRUCTURAL", "no effect, refused until something changes"
        SUSPECTED = "SUSPECTED", "no effect, probably our request"
        UNKNOWN = "UNKNOWN", "may have had an effect"

    adapter = models.SlugField(max_length=32)
    operation = models.CharField(max_length=24)
    code = models.CharField(max_length=64)
    message_contains = models.CharField(max_length=200, default="", blank=True)
    classification = models.CharField(max_length=16, choices=Classification)
    meaning_en = models.CharField(max_length=300, default="", blank=True)
    meaning_zh = models.CharField(max_length=300, default="", blank=True)
    source = models.CharField(max_length=300, default="", blank=True)

    history = history()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["adapter", "operation", "code", "message_contains"], name="one_rule_per_code_and_text"
            )
        ]
