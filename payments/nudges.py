"""Waking the workers after a commit. A nudge may be lost, doubled or late: the due time in the row is what counts.

Publishing is done by one thread per process, so that no request ever waits for the broker, and many nudges within a
moment become one message.
"""

import logging
import threading
import time

from celery import current_app
from django.db import transaction

logger = logging.getLogger(__name__)

GATHER_S = 0.02
BUSY_GATHER_S = 0.1  # after a message within this time: publishing costs as much as accepting a payment
PAUSE_AFTER_FAILURE_S = 5.0

_lock = threading.Lock()
_wanted: set[str] = set()
_wake = threading.Event()
_thread: threading.Thread | None = None


def nudge_on_commit(task: str) -> None:
    """Ask the workers to run `payments.tasks.<task>` once the running transaction is committed."""
    transaction.on_commit(lambda: nudge(task), robust=True)


def nudge(task: str) -> None:
    """Ask the workers to run a task soon. Never blocks and never raises."""
    global _thread
    with _lock:
        _wanted.add(task)
        if _thread is None or not _thread.is_alive():  # also after a fork
            _thread = threading.Thread(target=_publish_for_ever, name="nudges", daemon=True)
            _thread.start()
    _wake.set()


def _publish_for_ever() -> None:
    published_at = 0.0
    while True:
        _wake.wait()
        time.sleep(GATHER_S if time.monotonic() - published_at > BUSY_GATHER_S else BUSY_GATHER_S)
        _wake.clear()
        with _lock:
            names = sorted(_wanted)
            _wanted.clear()
        try:
            for name in names:
                _publish(name)
            published_at = time.monotonic()
        except Exception as error:  # noqa: BLE001  (whatever the broker's client raises)
            # The sweep finds the rows; hammering a broker that is away helps nobody.
            logger.warning("broker not reached, the sweep will do", extra={"error": type(error).__name__})
            time.sleep(PAUSE_AFTER_FAILURE_S)


def _publish(name: str) -> None:
    # By name: whoever nudges need not know the tasks.
    current_app.send_task(f"payments.tasks.{name}", expires=30)
