"""The one door through which a person acts: permission, effect and record together (AUD-2, OPS-8).

What happens inside our database is recorded in the transaction of its effect. A call to the outside stands between two
transactions: a STARTED row is committed before it, its outcome after it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils.timezone import now

from payments.errors import PaymentsError
from payments.masking import storable
from payments.models.fields import new_id
from payments.units import constraint_of

from .errors import ConsoleRefusal, NotPermitted, ReasonMissing, TokenMisused, TooOften
from .models import OperatorAction
from .people import Operator
from .roles import Capability

logger = logging.getLogger(__name__)
Outcome = OperatorAction.Outcome
T = TypeVar("T")


class Action(StrEnum):
    """What people can do here."""

    ASK_BANK = "ask_bank"
    UNMASK = "unmask"
    COPY_WORDS = "copy_words"
    EXPORT_PAYMENTS = "export_payments"


@dataclass(frozen=True, slots=True)
class Kind:
    """What an action needs.

    :ivar outside: its effect is a call to the outside, which no transaction may span
    :ivar per_minute: how often one person may do it
    """

    capability: Capability
    outside: bool = False
    needs_reason: bool = False
    per_minute: int | None = None


KINDS = {
    Action.ASK_BANK: Kind(Capability.ASK_BANK, outside=True, per_minute=20),
    Action.UNMASK: Kind(Capability.UNMASK, needs_reason=True),
    Action.COPY_WORDS: Kind(Capability.LOOK_UP),
    Action.EXPORT_PAYMENTS: Kind(Capability.LOOK_UP, per_minute=10),
}


@dataclass(frozen=True, slots=True)
class Effect(Generic[T]):
    """What an operation returns, and what the record keeps of it."""

    result: T
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """An action done. `result` is None when an earlier click of the same form did it: then nothing was done now."""

    operation_id: str
    result: T | None

    @property
    def repeated(self) -> bool:
        return self.result is None


def perform(
    *,
    action: Action,
    actor: Operator,
    target: str,
    run: Callable[[], Effect[T]],
    at: datetime,
    reason: str = "",
    token: UUID | None = None,
    source_ip: str | None = None,
) -> Done[T]:
    """Check that the person may, run the operation once, and record it, also when it is refused.

    :param target: what it is done to, as in `payment:<id>`
    :param token: one-time token of the form: the same one again does nothing and returns the first operation
    :raises NotPermitted, ReasonMissing, TooOften, TokenMisused: recorded, nothing was done
    :raises PaymentsError, ConsoleRefusal: what the operation itself refuses, recorded too
    """
    kind = KINDS[action]
    entry = OperatorAction(
        operation_id=new_id(),
        actor=actor.user.get_username(),
        role=actor.role or "",
        action=action,
        target=target[:120],
        reason=storable(reason.strip(), 500),
        source_ip=source_ip,
    )
    if refusal := _refusal(kind, actor, entry, at):
        outcome = Outcome.DENIED if isinstance(refusal, NotPermitted) else Outcome.REFUSED
        _write(entry, outcome, {"code": refusal.code}, at)
        raise refusal
    if token is not None and (earlier := OperatorAction.objects.filter(token=token).first()):
        return _repeated(entry, earlier)
    entry.token = token
    try:
        return _run_outside(entry, run, at) if kind.outside else _run_inside(entry, run, at)
    except IntegrityError as error:
        if token is None or constraint_of(error) != "operator_action_token_once":
            raise
        return _repeated(entry, OperatorAction.objects.get(token=token))


def _refusal(kind: Kind, actor: Operator, entry: OperatorAction, at: datetime) -> ConsoleRefusal | None:
    if not actor.may(kind.capability):
        return NotPermitted(capability=kind.capability)
    if kind.needs_reason and not entry.reason:
        return ReasonMissing()
    if kind.per_minute is not None:
        begun = Outcome.STARTED if kind.outside else Outcome.DONE
        lately = OperatorAction.objects.filter(
            actor=entry.actor, action=entry.action, outcome=begun, at__gt=at - timedelta(minutes=1)
        )
        if len(lately.order_by("-id").values_list("id")[: kind.per_minute]) >= kind.per_minute:
            return TooOften()
    return None


def _repeated(entry: OperatorAction, earlier: OperatorAction) -> Done[Any]:
    if (earlier.actor, earlier.action, earlier.target) != (entry.actor, entry.action, entry.target):
        raise TokenMisused
    return Done(earlier.operation_id, None)


def _run_inside(entry: OperatorAction, run: Callable[[], Effect[T]], at: datetime) -> Done[T]:
    try:
        with transaction.atomic():
            effect = run()
            _write(entry, Outcome.DONE, effect.detail, at)
    except (PaymentsError, ConsoleRefusal) as refusal:
        _write(entry, Outcome.REFUSED, {"code": refusal.code}, at)
        raise
    return Done(entry.operation_id, effect.result)


def _run_outside(entry: OperatorAction, run: Callable[[], Effect[T]], at: datetime) -> Done[T]:
    _write(entry, Outcome.STARTED, {}, at)
    entry.token = None  # the STARTED row holds it
    try:
        effect = run()
    except (PaymentsError, ConsoleRefusal) as refusal:
        _write(entry, Outcome.REFUSED, {"code": refusal.code}, now())
        raise
    except Exception as error:
        _write(entry, Outcome.FAILED, {"error": type(error).__name__}, now())
        raise
    _write(entry, Outcome.DONE, effect.detail, now())
    logger.info("operator action done", extra={"operation_id": entry.operation_id, "action": entry.action})
    return Done(entry.operation_id, effect.result)


def _write(entry: OperatorAction, outcome: str, detail: dict[str, Any], at: datetime) -> None:
    """Append a row of the operation."""
    entry.pk, entry._state.adding = None, True
    entry.outcome, entry.detail, entry.at = outcome, detail, at
    with transaction.atomic():
        entry.save(force_insert=True)
