"""The state log: django-simple-history rows that say what happened, by whom, and on which evidence (AUD-1)."""

from dataclasses import dataclass, replace
from typing import Any

from django.db import models
from django.dispatch import receiver
from simple_history.models import HistoricalRecords
from simple_history.signals import pre_create_historical_record

SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Trace:
    """Why a row changes: event name, source, actor (`system`, `client:ivr`, `user:ada`), evidence and reason."""

    event: str
    source: str = ""
    actor: str = SYSTEM
    evidence: str = ""
    reason: str = ""

    def named(self, event: str) -> "Trace":
        """The same circumstances under another event name."""
        return replace(self, event=event)


class Evidenced(models.Model):
    """Columns each history row has beside the fields it copies."""

    event = models.CharField(max_length=40, db_default="", default="")
    source = models.CharField(max_length=16, db_default="", default="")
    actor = models.CharField(max_length=120, db_default=SYSTEM, default=SYSTEM)
    evidence = models.CharField(max_length=80, db_default="", default="")
    reason = models.TextField(db_default="", default="")

    class Meta:
        abstract = True


def history(*, leave_out: tuple[str, ...] = ()) -> HistoricalRecords:
    """The history of a model. `leave_out` names plans (due times) and facts a trigger keeps from changing."""
    return HistoricalRecords(
        bases=[Evidenced],
        excluded_fields=list(leave_out),
        history_id_field=models.BigAutoField(primary_key=True),
        history_user_id_field=models.CharField(max_length=1, null=True),
        history_change_reason_field=models.CharField(max_length=1, null=True),
    )


def save_traced(row: models.Model, trace: Trace, *, fields: list[str]) -> None:
    """Save the named fields and write the one history row that says why."""
    row._trace = trace  # type: ignore[attr-defined]
    row.save(update_fields=fields)


def insert_traced(row: models.Model, trace: Trace) -> None:
    """Insert a new row and its first history row."""
    row._trace = trace  # type: ignore[attr-defined]
    row.save(force_insert=True)


@receiver(pre_create_historical_record)
def _write_trace(sender: type, *, instance: models.Model, history_instance: Any, **kwargs: object) -> None:
    trace: Trace | None = instance.__dict__.pop("_trace", None)
    if trace is None:
        history_instance.event = "edited"
        return
    history_instance.event, history_instance.source, history_instance.actor = trace.event, trace.source, trace.actor
    history_instance.evidence, history_instance.reason = trace.evidence, trace.reason
