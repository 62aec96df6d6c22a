"""Who owns payments, and who may ask for them."""

from django.contrib.postgres.fields import ArrayField
from django.db import models


class Merchant(models.Model):
    """The owner of orders and payments; every object is fetched through the caller's merchant."""

    code = models.SlugField(max_length=32, unique=True)
    name = models.CharField(max_length=120)
    default_channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class ApiClient(models.Model):
    """A system of a merchant that calls the API. Only a hash of its key is kept."""

    class Scope(models.TextChoices):
        PAY = "payments:write", "request payments"
        READ = "payments:read", "read payments"

    merchant = models.ForeignKey(Merchant, models.PROTECT, related_name="clients")
    name = models.SlugField(max_length=40)
    key_hash = models.CharField(max_length=64, unique=True)
    key_hint = models.CharField(max_length=16, help_text="The first characters of the key, to tell keys apart.")
    scopes = ArrayField(models.CharField(max_length=32, choices=Scope), default=list)
    rate_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="Empty: the site's default.")
    active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["merchant", "name"], name="api_client_name")]

    def __str__(self) -> str:
        return f"{self.merchant.code}/{self.name}"
