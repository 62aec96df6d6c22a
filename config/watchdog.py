"""A worker that takes nothing while messages wait for it is replaced: progress, not process, is health (K02).

After a lost connection a worker can look alive and consume nothing. The watchdog of each worker process compares what
waits in its queues with what the worker takes, and ends the process when the one stands and the other does not move;
whoever supervises it starts it again. Nothing is lost by that: what is due stands in the database.
"""

import logging
import os
import threading
import time
from typing import Any

from celery import Celery
from celery.signals import task_postrun, task_prerun, worker_ready

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 5.0
PATIENCE_S = float(os.environ.get("WORKER_PATIENCE_S", "20"))
EXIT_CODE = 70


class Watchdog:
    """Counts what the worker takes, and looks at what waits."""

    def __init__(self, app: Celery, *, patience_s: float = PATIENCE_S) -> None:
        self._app = app
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._running = 0
        self._moved_at = time.monotonic()

    def took(self, change: int) -> None:
        """A task began (+1) or ended (-1)."""
        with self._lock:
            self._running += change
            self._moved_at = time.monotonic()

    def is_stuck(self) -> bool:
        """Whether nothing runs, nothing has been taken for the patience, and yet messages wait."""
        with self._lock:
            still = self._running == 0 and time.monotonic() - self._moved_at >= self._patience_s
        return still and self._waiting() > 0

    def _waiting(self) -> int:
        """Messages in the worker's own queues; 0 while the broker is away, since then no worker can take any."""
        try:
            with self._app.connection_for_read() as connection:
                channel = connection.channel()
                names = list(self._app.amqp.queues.consume_from)
                return sum(channel.queue_declare(name, passive=True).message_count for name in names)  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001  (whatever the broker's client raises)
            logger.warning("watchdog: broker not reached", extra={"error": type(error).__name__})
            return 0

    def watch(self) -> None:
        """Look for ever; end the process when it is stuck twice in a row."""
        pause = threading.Event()
        suspected = False
        while True:
            pause.wait(min(LOOK_EVERY_S, self._patience_s / 2))
            stuck = self.is_stuck()
            if stuck and suspected:
                logger.critical("messages wait and this worker takes none: ending it")
                os._exit(EXIT_CODE)
            suspected = stuck


def install(app: Celery) -> None:
    """Let every worker process of the app watch itself."""
    dog = Watchdog(app)

    @task_prerun.connect(weak=False)  # type: ignore[misc]
    def begin(**kwargs: Any) -> None:
        dog.took(+1)

    @task_postrun.connect(weak=False)  # type: ignore[misc]
    def end(**kwargs: Any) -> None:
        dog.took(-1)

    @worker_ready.connect(weak=False)  # type: ignore[misc]
    def start(**kwargs: Any) -> None:
        threading.Thread(target=dog.watch, name="watchdog", daemon=True).start()
