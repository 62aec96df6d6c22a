"""Callers that wait for a final state (PAY-6) hold neither a database connection nor each other up.

One poller per process looks at all awaited payments at once; a waiter gives its connection back and sleeps on an event.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection

from .models import Payment

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.1
_lock = threading.Lock()
_awaited: dict[str, list[threading.Event]] = {}
_poller: threading.Thread | None = None
_some = threading.Event()


def wait_until_final(*, payment_id: str, seconds: float) -> None:
    """Return when the payment is final or after `seconds`; at once when too many callers wait already.

    The caller's database connection is closed while it waits.
    """
    with _registered(payment_id) as final:
        if final is None:
            return
        if Payment.objects.filter(pk=payment_id, state__in=Payment.FINAL).exists():
            return
        connection.close()
        final.wait(seconds)


@contextmanager
def _registered(payment_id: str) -> Iterator[threading.Event | None]:
    """Stand in the list of waiters; registered before the last look at the state, so that no end is missed."""
    global _poller
    event = threading.Event()
    with _lock:
        if sum(len(events) for events in _awaited.values()) >= settings.API_MAX_WAITERS:
            yield_none = True
        else:
            yield_none = False
            _awaited.setdefault(payment_id, []).append(event)
            if _poller is None or not _poller.is_alive():  # lazily, so after the server's fork
                _poller = threading.Thread(target=_poll_for_ever, name="waiting-callers", daemon=True)
                _poller.start()
            _some.set()
    if yield_none:
        yield None
        return
    try:
        yield event
    finally:
        with _lock:
            events = _awaited.get(payment_id, [])
            if event in events:
                events.remove(event)
            if not events:
                _awaited.pop(payment_id, None)


def _poll_for_ever() -> None:
    pause = threading.Event()
    while True:
        _some.wait()
        pause.wait(LOOK_EVERY_S)
        with _lock:
            ids = list(_awaited)
            if not ids:
                _some.clear()
        if not ids:
            connection.close()
            continue
        try:
            final = list(Payment.objects.filter(pk__in=ids, state__in=Payment.FINAL).values_list("pk", flat=True))
        except Exception:
            logger.exception("waiting callers: the database did not answer")
            connection.close()
            pause.wait(1)
            continue
        with _lock:
            for payment_id in final:
                for event in _awaited.get(payment_id, []):
                    event.set()
