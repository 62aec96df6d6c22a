"""JSON as money needs it: decimals exact, no field twice, no NaN, no NUL, bounded depth (K07, K13)."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

MAX_DEPTH = 16


class NotStrictJSON(ValueError):
    """The bytes are not JSON of the strict kind; the text says why."""


def loads(body: bytes) -> Any:
    """Parse UTF-8 JSON; numbers with a point or exponent come as Decimal, whole ones as int.

    :raises NotStrictJSON: anything else, including a field given twice
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrictJSON(f"The body is not UTF-8 (byte {error.start}).") from None
    try:
        value = json.loads(
            text, parse_float=_decimal, parse_int=_whole, parse_constant=_no_constant, object_pairs_hook=_object
        )
    except RecursionError:
        raise NotStrictJSON("The JSON is nested too deeply.") from None
    except json.JSONDecodeError as error:
        raise NotStrictJSON(f"The body is not JSON: {error.msg} at character {error.pos}.") from None
    _check(value, MAX_DEPTH)
    return value


def _decimal(text: str) -> Decimal:
    if len(text) > 40:
        raise NotStrictJSON("A number is too long.")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise NotStrictJSON("A number is out of range.") from None


def _whole(text: str) -> int:
    if len(text) > 40:
        raise NotStrictJSON("A number is too long.")
    return int(text)


def _no_constant(name: str) -> NoReturn:
    raise NotStrictJSON(f"{name} is not a JSON number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise NotStrictJSON(f"The field {twice[:60]!r} is given twice.")
    return value


def _check(value: Any, depth: int) -> None:
    """Refuse what PostgreSQL text cannot hold (NUL, lone surrogates) and what no honest caller nests."""
    if depth == 0:
        raise NotStrictJSON("The JSON is nested too deeply.")
    if isinstance(value, dict):
        for name, item in value.items():
            _check(name, depth)
            _check(item, depth - 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth - 1)
    elif isinstance(value, str):
        if "\x00" in value:
            raise NotStrictJSON("A text holds a NUL character.")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise NotStrictJSON("A text holds half a character (a lone surrogate).")
