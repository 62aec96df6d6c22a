"""Channels and currencies as the hot path reads them: kept for a few seconds per process."""

import time
from typing import Any

from .models import ApiClient, Channel, Currency

KEEP_S = 5.0
_kept: dict[tuple[str, str], tuple[float, Any]] = {}


def channel_named(code: str) -> Channel | None:
    """The channel, as it stood at most five seconds ago."""
    return _recent("channel", code, lambda: Channel.objects.filter(pk=code).first())  # type: ignore[no-any-return]


def currency_named(code: str) -> Currency | None:
    """The currency's registration, as it stood at most five seconds ago."""
    return _recent("currency", code, lambda: Currency.objects.filter(pk=code).first())  # type: ignore[no-any-return]


def client_with_key(key_hash: str) -> ApiClient | None:
    """The active client of a hashed key, as it stood at most five seconds ago: so long may a withdrawn key still work."""

    def read() -> ApiClient | None:  # made only when it is not kept: building the query costs more than the look-up
        return ApiClient.objects.select_related("merchant").filter(key_hash=key_hash, active=True).first()

    return _recent("client", key_hash, read)  # type: ignore[no-any-return]


def forget() -> None:
    """Drop what is kept, in this process."""
    _kept.clear()


def _recent(kind: str, name: str, read: Any) -> Any:
    kept = _kept.get((kind, name))
    moment = time.monotonic()
    if kept is not None and moment - kept[0] < KEEP_S:
        return kept[1]
    value = read()
    if value is not None:  # what does not exist is not kept: made-up keys must not fill the memory
        _kept[(kind, name)] = (moment, value)
    return value
