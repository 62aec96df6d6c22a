"""The state field, guarded against direct writes, and what every model with one shares."""

from collections.abc import Iterable
from typing import Any

from django.db import models
from django_fsm import ConcurrentTransitionMixin, FSMField, FSMFieldDescriptor
from ulid import ULID


def new_id() -> str:
    """Return a new ULID: 26 characters that sort by time of making."""
    return str(ULID())


class _Guard(FSMFieldDescriptor):
    """Refuses `row.state = …`, but lets a refresh from the database through."""

    def __set__(self, instance: models.Model, value: Any) -> None:
        if instance.__dict__.get("_refreshing"):
            instance.__dict__[self.field.attname] = value
        else:
            super().__set__(instance, value)


class StateField(FSMField):
    """A protected FSM state. The library switches protection off for the whole class while one row is refreshed,
    so that another thread may write; here the switch belongs to the row."""

    descriptor_class = _Guard

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["protected"] = True
        kwargs.setdefault("max_length", 24)
        super().__init__(*args, **kwargs)


class Stateful(ConcurrentTransitionMixin, models.Model):
    """A row with a state machine: a stale copy cannot be saved over a newer state (K05)."""

    class Meta:
        abstract = True

    def refresh_from_db(self, using: str | None = None, fields: Iterable[str] | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Read the row again, its state too."""
        self.__dict__["_refreshing"] = True
        try:
            super().refresh_from_db(using=using, fields=fields, **kwargs)
        finally:
            del self.__dict__["_refreshing"]

    def full_clean(self, exclude: Iterable[str] | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Check all fields but the state, which only transitions write."""
        super().full_clean(exclude={*(exclude or ()), "state"}, **kwargs)
