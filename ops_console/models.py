"""What the console keeps: how each person likes it, and what each person did."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from payments.models.fields import new_id


class Preferences(models.Model):
    """How a person likes the console. Kept on the server, so that it is the same on every machine."""

    class Theme(models.TextChoices):
        SYSTEM = "system", "as the system"
        LIGHT = "light", "light"
        DARK = "dark", "dark"

    class Density(models.TextChoices):
        COMPACT = "compact", "compact"
        COMFORTABLE = "comfortable", "comfortable"

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.CASCADE, primary_key=True, related_name="console_preferences"
    )
    theme = models.CharField(max_length=8, choices=Theme, default=Theme.SYSTEM)
    density = models.CharField(max_length=12, choices=Density, default=Density.COMPACT)
    language = models.CharField(max_length=8, default="", blank=True, help_text="Empty: as the browser asks.")
    time_zone = models.CharField(max_length=40, default="", blank=True, help_text="Empty: the site's zone.")
    shortcuts = models.BooleanField(default=True)
    refresh = models.BooleanField(default=True)


class OperatorAction(models.Model):
    """One row of the action log: who did what to what, why, and what came of it (AUD-2).

    Rows are append-only. What has no effect outside is one row, written with its effect. A call to the outside is two
    rows of one operation: STARTED before it, its outcome after it; one without an outcome tells of a crash in between.
    """

    class Outcome(models.TextChoices):
        STARTED = "STARTED", "begun, outcome follows"
        DONE = "DONE", "done"
        REFUSED = "REFUSED", "refused by a rule"
        DENIED = "DENIED", "not allowed for this role"
        FAILED = "FAILED", "broke off"

    operation_id = models.CharField(max_length=26, default=new_id)
    at = models.DateTimeField()
    actor = models.CharField(max_length=150)
    role = models.CharField(max_length=16)
    action = models.CharField(max_length=40)
    target = models.CharField(max_length=120)
    reason = models.CharField(max_length=500, default="")
    outcome = models.CharField(max_length=8, choices=Outcome)
    detail = models.JSONField(default=dict)
    source_ip = models.GenericIPAddressField(null=True)
    token = models.UUIDField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["token"], condition=Q(token__isnull=False), name="operator_action_token_once"
            )
        ]
        indexes = [
            models.Index(fields=["operation_id"], name="operator_action_operation"),
            models.Index(fields=["target", "id"], name="operator_action_target"),
            models.Index(fields=["actor", "id"], name="operator_action_actor"),
        ]
