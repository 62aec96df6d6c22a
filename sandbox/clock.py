"""Moments: whole milliseconds since the epoch in the store, RFC 3339 with offset on the wire."""

import asyncio
import time
from contextlib import suppress
from datetime import UTC, datetime

LOOK_AGAIN_MS = 60_000


def now_ms() -> int:
    """Return the present moment in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def rfc3339(moment_ms: int | None) -> str | None:
    """Write a stored moment as RFC 3339 in UTC; nothing stays nothing."""
    if moment_ms is None:
        return None
    return datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat(timespec="milliseconds")


def parse_rfc3339(text: str) -> int:
    """Read an RFC 3339 moment into milliseconds.

    :raises ValueError: the text is no moment, or it has no offset
    :raises OverflowError: in UTC it lies outside the years 1 to 9999
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("the moment has no offset")
    return int(moment.astimezone(UTC).timestamp() * 1000)


async def wait_until(due_ms: int | None, *, or_event: asyncio.Event) -> None:
    """Wait for a moment or for an event, whichever comes first; without a moment, look again after a minute."""
    longest = LOOK_AGAIN_MS if due_ms is None else min(LOOK_AGAIN_MS, max(0, due_ms - now_ms()))
    with suppress(TimeoutError):
        await asyncio.wait_for(or_event.wait(), timeout=longest / 1000)
