"""A channel: one outside party that takes payments, and what is agreed with it."""

from django.contrib.postgres.fields import ArrayField
from django.db import models

from .history import history


def _bank_backoff() -> list[int]:
    return [5, 15, 45, 120, 300, 600, 1800]


class Channel(models.Model):
    """Adapter, settings and policy of a channel. Durations are in seconds. Secrets are not here: `secret_env` names
    the environment variable (`<secret_env>_<KEY ID>`) that holds them."""

    class TxnScope(models.TextChoices):
        CHANNEL = "CHANNEL", "unique per channel"
        BUSINESS_DATE = "BUSINESS_DATE", "unique per channel and business date"

    code = models.SlugField(max_length=32, primary_key=True)
    adapter = models.SlugField(max_length=32)
    name_en = models.CharField(max_length=80)
    name_zh = models.CharField(max_length=80)
    enabled = models.BooleanField(default=True)
    settings = models.JSONField(default=dict, help_text="base_url, merchant_id, key_id … as the adapter reads them.")
    time_zone = models.CharField(max_length=40, default="Asia/Shanghai")
    currencies = ArrayField(models.CharField(max_length=3), default=list, help_text="Empty: every registered one.")
    txn_scope = models.CharField(max_length=16, choices=TxnScope, default=TxnScope.CHANNEL)

    connect_timeout_s = models.FloatField(default=3)
    read_timeout_s = models.FloatField(default=25)
    slots = models.PositiveSmallIntegerField(default=24, help_text="Calls at the same time, per worker process.")
    rate_per_s = models.PositiveIntegerField(default=200, help_text="Calls per second, all processes together.")

    send_limit_s = models.PositiveIntegerField(default=900, help_text="PAY-16: not sent within this, never sent.")
    payment_expiry_s = models.PositiveIntegerField(default=900, help_text="PAY-18: told to the channel.")
    query_backoff_s = ArrayField(models.PositiveIntegerField(), default=_bank_backoff)
    query_deadline_s = models.PositiveIntegerField(default=86400, help_text="QRY-3: then a person decides.")
    alert_age_s = models.PositiveIntegerField(default=1800, help_text="QRY-3: unknown for longer opens an attention.")
    not_found_window_s = models.PositiveIntegerField(default=900, help_text="QRY-2: absent only after this.")
    not_found_is_final = models.BooleanField(default=True, help_text="QRY-2: whether absence proves anything at all.")
    verdict_freshness_s = models.PositiveIntegerField(default=60, help_text="Age at which a pay-again YES expires.")
    payer_fee_bps = models.PositiveIntegerField(default=0, help_text="FND-4: highest fee borne by the payer, 1/100 %.")

    history = history()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(rate_per_s__gt=0, slots__gt=0), name="channel_may_always_be_asked"
            )  # QRY-6: what stops sending never stops asking
        ]

    def __str__(self) -> str:
        return self.code


class ChannelPace(models.Model):
    """How many calls a channel may get right now: one shared row, so that the limit holds across processes."""

    channel = models.OneToOneField(Channel, models.CASCADE, primary_key=True, related_name="pace")
    permits = models.DecimalField(max_digits=14, decimal_places=6, default=0)
    counted_at = models.DateTimeField()


class ChannelHealth(models.Model):
    """When a channel last answered and last failed to: the verdict must know whether its source is down."""

    channel = models.OneToOneField(Channel, models.CASCADE, primary_key=True, related_name="health")
    answered_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    failure = models.CharField(max_length=80, default="")
