"""Fault scripts: how a fault is written in JSON, and which requests it is for."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sandbox.amounts import DECIMAL
from sandbox.clock import parse_rfc3339, rfc3339
from sandbox.contract import LONGEST_TEXT, is_http_url
from sandbox.effects import Effects, NotifyEffects, Words

WRITES = ("pay", "cancel", "refund", "transfer")
QUERIES = ("query", "query_refund", "query_transfer")
LONGEST_WAIT_SECONDS = 7 * 24 * 3600
MOST_COPIES = 100


class BadScript(ValueError):
    """A script for the bank cannot be read; the message begins with the field at fault."""


@dataclass
class Fault:
    """A script the bank follows: whom it meets, what it does, and how often."""

    id: str
    script: dict[str, Any]
    effects: Effects
    reference: str | None
    token: str | None
    operation: str | None
    rate: Decimal | None
    from_ms: int | None
    to_ms: int | None
    times: int | None
    used: int = 0

    def is_active(self, at_ms: int) -> bool:
        """Whether the fault can still meet a request at a moment."""
        spent = self.times is not None and self.used >= self.times
        return not spent and (self.to_ms is None or at_ms < self.to_ms)

    def concerns(self, *, operation: str, references: tuple[str, ...], token: str | None, at_ms: int) -> bool:
        """Whether a request is one of those the fault is for, its rate left aside."""
        if not self.is_active(at_ms) or (self.from_ms is not None and at_ms < self.from_ms):
            return False
        if self.operation is None and operation not in WRITES:
            return False
        return (
            self.operation in (None, operation)
            and (self.reference is None or self.reference in references)
            and (self.token is None or self.token == token)
        )

    def as_json(self, at_ms: int) -> dict[str, Any]:
        """Return the script as it was given, with its id, uses and whether it still acts."""
        return self.script | {
            "id": self.id,
            "used": self.used,
            "active": self.is_active(at_ms),
            "until": rfc3339(self.to_ms),
        }


def read_fault(script: object, *, default_id: str, at_ms: int) -> Fault:
    """Read one script.

    :raises BadScript: names the field that is unknown or malformed
    """
    fields = _object(script, "fault", {"id", "match", "effects", "times", "until"})
    match = _object({} if fields.get("match") is None else fields["match"], "match", _MATCH)
    readings = {
        name: read(match[name], f"match.{name}") for name, read in _MATCH.items() if match.get(name) is not None
    }
    effects = read_effects(fields.get("effects"))
    operation = readings.get("operation")
    _check_sense(effects=fields["effects"], operation=operation)
    ends = [
        None if match.get("seconds") is None else at_ms + readings["seconds"],
        readings.get("to"),
        None if fields.get("until") is None else _moment(fields["until"], "until"),
    ]
    return Fault(
        id=default_id if fields.get("id") is None else _word(fields["id"], "id"),
        script=fields,
        effects=effects,
        reference=readings.get("reference"),
        token=readings.get("token"),
        operation=operation,
        rate=readings.get("rate"),
        from_ms=readings.get("from"),
        to_ms=min((end for end in ends if end is not None), default=None),
        times=None if fields.get("times") is None else _whole(fields["times"], "times", least=1, most=10**9),
    )


def read_effects(value: object) -> Effects:
    """Read the ``effects`` of a script.

    :raises BadScript: names the effect that is unknown or malformed
    """
    fields = _object(value, "effects", _EFFECTS)
    if not fields:
        raise BadScript("effects: must name at least one effect")
    if "charge_more" in fields and "charge_less" in fields:
        raise BadScript("effects.charge_less: cannot go with charge_more")
    if "then_decline" in fields and "processing_s" not in fields:
        raise BadScript("effects.then_decline: needs processing_s")
    read: dict[str, Any] = {}
    for name, raw in fields.items():
        attribute, reader = _EFFECTS[name]
        reading = reader(raw, f"effects.{name}")
        if attribute == "drop" and name == "lost_request":
            reading = "before" if reading else read.get("drop")
        read[attribute] = reading
    return Effects(**read)


def read_notify(value: object, name: str, *, more: tuple[str, ...] = ()) -> NotifyEffects:
    """Read what shall be wrong with notifications.

    :param more: further fields the caller allows and reads by itself
    :raises BadScript: names the field that is unknown or malformed
    """
    fields = _object(value, name, {*_NOTIFY, *more})
    prefix = f"{name}." if name else ""
    read = {
        attribute: reader(fields[key], prefix + key)
        for key, (attribute, reader) in _NOTIFY.items()
        if fields.get(key) is not None
    }
    return NotifyEffects(**read)


def _check_sense(*, effects: dict[str, Any], operation: str | None) -> None:
    """Refuse what can never act: a booking effect on a query, a refused cancel on another operation."""
    if operation in QUERIES:
        for name in effects:
            if name not in _QUERY_EFFECTS:
                raise BadScript(f"effects.{name}: has no meaning for operation {operation}")
    if "cancel_refused" in effects and operation not in (None, "cancel"):
        raise BadScript(f"effects.cancel_refused: has no meaning for operation {operation}")


def _object(value: object, name: str, known: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadScript(f"{name or 'body'}: must be an object")
    for key in value:
        if key not in known:
            raise BadScript(f"{name + '.' if name not in ('', 'fault') else ''}{key[:40]}: is not known here")
    return value


def _word(value: object, name: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_TEXT:
        raise BadScript(f"{name}: must be a text of 1 to {LONGEST_TEXT} characters")
    return value


def _yes_no(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise BadScript(f"{name}: must be true or false")
    return value


def _whole(value: object, name: str, *, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadScript(f"{name}: must be a whole number from {least} to {most}")
    return value


def _copies(value: object, name: str) -> int:
    return _whole(value, name, least=0, most=MOST_COPIES)


def read_seconds(value: object, name: str) -> int:
    """Read seconds, whole or broken, into milliseconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LONGEST_WAIT_SECONDS:
        raise BadScript(f"{name}: must be a number of seconds from 0 to {LONGEST_WAIT_SECONDS}")
    return round(value * 1000)


def _rate(value: object, name: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadScript(f"{name}: must be a number from 0 to 1")
    return Decimal(str(value))


def _moment(value: object, name: str) -> int:
    try:
        return parse_rfc3339(value if isinstance(value, str) else "")
    except (ValueError, OverflowError) as error:
        raise BadScript(f"{name}: must be an RFC 3339 time with offset") from error


def _money(value: object, name: str) -> str:
    if not isinstance(value, str) or len(value) > 18 or not DECIMAL.fullmatch(value):
        raise BadScript(f"{name}: must be a decimal string such as '1.00'")
    return value


def _more(value: object, name: str) -> Decimal:
    return Decimal(_money(value, name))


def _less(value: object, name: str) -> Decimal:
    return -Decimal(_money(value, name))


def _one_of(*words: str) -> Callable[[object, str], str]:
    def read(value: object, name: str) -> str:
        if value not in words:
            raise BadScript(f"{name}: must be one of {', '.join(words)}")
        return str(value)

    return read


def _garbage(value: object, name: str) -> str | None:
    if value is False or value is True:
        return "cut_json" if value else None
    return _one_of("cut_json", "html")(value, name)


def _decline(value: object, name: str) -> Words:
    fields = _object(value, name, {"code", "text"})
    return Words(code=_word(fields.get("code"), f"{name}.code"), text=_word(fields.get("text"), f"{name}.text"))


def _refuse(value: object, name: str) -> Words:
    fields = _object(value, name, {"http", "code", "text"})
    return Words(
        code=_word(fields.get("code"), f"{name}.code"),
        text=_word(fields.get("text"), f"{name}.text"),
        http=_whole(fields.get("http", 400), f"{name}.http", least=400, most=599),
    )


def _url(value: object, name: str) -> str:
    if not isinstance(value, str) or not is_http_url(value):
        raise BadScript(f"{name}: must be an http or https address")
    return value


_MATCH: dict[str, Callable[[object, str], Any]] = {
    "reference": _word,
    "token": _word,
    "operation": _one_of(*WRITES, *QUERIES),
    "rate": _rate,
    "from": _moment,
    "to": _moment,
    "seconds": read_seconds,
}
_NOTIFY: dict[str, tuple[str, Callable[[object, str], Any]]] = {
    "send": ("send", _yes_no),
    "copies": ("copies", _copies),
    "delay_s": ("delay_ms", read_seconds),
    "early": ("early", _yes_no),
    "out_of_order": ("out_of_order", _yes_no),
    "wrong_signature": ("wrong_signature", _yes_no),
    "wrong_amount": ("wrong_amount", _word),
    "wrong_currency": ("wrong_currency", _word),
    "wrong_reference": ("wrong_reference", _word),
    "wrong_merchant": ("wrong_merchant", _yes_no),
    "then_correct": ("then_correct", _yes_no),
    "status": ("status", _one_of("ACCEPTED", "PROCESSING", "SUCCEEDED", "DECLINED", "CANCELLED", "NOT_FOUND")),
    "url": ("url", _url),
}
_EFFECTS: dict[str, tuple[str, Callable[[object, str], Any]]] = {
    "decline": ("decline", _decline),
    "refuse": ("refuse", _refuse),
    "rate_limited": ("rate_limited", _yes_no),
    "slow_s": ("slow_ms", read_seconds),
    "slow_before_s": ("slow_before_ms", read_seconds),
    "drop": ("drop", _one_of("before", "after")),
    "lost_request": ("drop", _yes_no),
    "gateway_502": ("gateway_502", _one_of("before", "after")),
    "empty_200": ("empty_200", _yes_no),
    "garbage_200": ("garbage_200", _garbage),
    "bad_reply_signature": ("bad_reply_signature", _yes_no),
    "other_reference": ("other_reference", _yes_no),
    "processing_s": ("processing_ms", read_seconds),
    "then_decline": ("then_decline", _decline),
    "invisible_s": ("invisible_ms", read_seconds),
    "charge_more": ("charge_difference", _more),
    "charge_less": ("charge_difference", _less),
    "cancel_refused": ("cancel_refused", _one_of("E2001", "E2002")),
    "notify": ("notify", lambda value, name: read_notify(value, name)),
}
_QUERY_EFFECTS = frozenset(
    {
        "refuse", "rate_limited", "slow_s", "slow_before_s", "drop", "lost_request", "gateway_502", "empty_200",
        "garbage_200", "bad_reply_signature", "other_reference",
    }
)  # fmt: skip
