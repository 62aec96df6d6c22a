"""The state field, guarded against direct writes, and what every model with one shares."""

from collections.abc import Iterable
from typing import Any

from django.db import models
from django_fsm import ConcurrentTransition, FSMField, FSMFieldDescriptor
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


class Stateful(models.Model):
    """A row with a state machine: a stale copy cannot be saved over a newer state (K05).

    The library's own mixin for this is not used, since it refreshes a row with the field's protection switched off.
    """

    class Meta:
        abstract = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._remember_state()

    def refresh_from_db(self, using: str | None = None, fields: Iterable[str] | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Read the row again, its state too."""
        self.__dict__["_refreshing"] = True
        try:
            super().refresh_from_db(using=using, fields=fields, **kwargs)
        finally:
            del self.__dict__["_refreshing"]
        self._remember_state()

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row, unless its state in the database is another than the one this copy was read with.

        :raises ConcurrentTransition: somebody else moved the state meanwhile
        """
        super().save(*args, **kwargs)
        self._remember_state()

    def full_clean(self, exclude: Iterable[str] | None = None, **kwargs: Any) -> None:  # type: ignore[override]
        """Check all fields but the state, which only transitions write."""
        super().full_clean(exclude={*(exclude or ()), "state"}, **kwargs)

    def _remember_state(self) -> None:
        if "state" in self.__dict__:  # a deferred state is not read for this
            self.__dict__["_state_as_read"] = self.__dict__["state"]

    def _do_update(self, base_qs: Any, using: Any, pk_val: Any, *args: Any, **kwargs: Any) -> Any:
        as_read = self.__dict__.get("_state_as_read")
        unmoved = base_qs if as_read is None else base_qs.filter(state=as_read)
        updated = super()._do_update(unmoved, using, pk_val, *args, **kwargs)  # type: ignore[misc]
        if not updated and base_qs.filter(pk=pk_val).exists():
            raise ConcurrentTransition("The state was changed by somebody else since this copy was read.")
        return updated
