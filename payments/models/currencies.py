"""The currencies that may be used, each with its precision and FX policy (FND-2)."""

from django.db import models


class Currency(models.Model):
    """A registered currency. Money columns refer to it, so an unregistered one cannot be stored (I14)."""

    class FxPolicy(models.TextChoices):
        SAME_CURRENCY = "SAME_CURRENCY", "charged only as it was priced"
        QUOTE = "QUOTE", "converted only by a locked quote"

    code = models.CharField(max_length=3, primary_key=True)
    minor_digits = models.PositiveSmallIntegerField(help_text="ISO 4217 decimals.")
    fx_policy = models.CharField(max_length=16, choices=FxPolicy)
    enabled = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.code
