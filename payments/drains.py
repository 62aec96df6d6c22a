"""Working off what is due at one channel, with a bounded number of calls at a time and new work as slots fall free.

A slow channel holds only its own slots: each channel has a drain of its own (SPL-19).
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from queue import Empty, SimpleQueue

from django.db import close_old_connections, connections
from django.utils.timezone import now

from .clock import database_now
from .models import Channel

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.05

Claim = Callable[..., list[str]]
Handle = Callable[..., object]

_running: dict[tuple[str, str], "Drain"] = {}
_lock = threading.Lock()
_stopping = threading.Event()


def stop_all() -> None:
    """Let every drain of this process claim nothing more; calls under way are finished. For a worker's shutdown."""
    _stopping.set()


class Drain:
    """One channel's due work of one kind in this process; at most one runs at a time."""

    def __init__(self, *, work: str, channel: Channel, claim: Claim, handle: Handle) -> None:
        self._key = (work, channel.pk)
        self._channel = channel
        self._claim = claim
        self._handle = handle
        self._again = threading.Event()

    def run(self) -> int:
        """Work until nothing is due and nothing under way; returns how many were handled. A second call while one runs
        only makes the first look again."""
        with _lock:
            if (running := _running.get(self._key)) is not None:
                running._again.set()
                return 0
            _running[self._key] = self
        try:
            return self._run()
        finally:
            with _lock:
                _running.pop(self._key, None)

    def _run(self) -> int:
        todo: SimpleQueue[str | None] = SimpleQueue()
        done: SimpleQueue[str] = SimpleQueue()
        threads: list[threading.Thread] = []
        under_way, handled = 0, 0
        try:
            while True:
                claiming = not _stopping.is_set()
                ids: list[str] = []
                if claiming and under_way < self._channel.slots:
                    self._again.clear()
                    at = database_now()
                    ids = self._claim(channel=self._channel, limit=self._channel.slots - under_way, at=at)
                for payment_id in ids:
                    todo.put(payment_id)
                under_way, handled = under_way + len(ids), handled + len(ids)
                self._staff(threads, under_way, todo, done)
                if not under_way and not (claiming and self._again.is_set()):
                    return handled
                under_way -= _finished(done)
        finally:
            for _ in threads:
                todo.put(None)
            for thread in threads:
                thread.join()

    def _staff(
        self, threads: list[threading.Thread], wanted: int, todo: "SimpleQueue[str | None]", done: "SimpleQueue[str]"
    ) -> None:
        while len(threads) < wanted:
            name = f"{self._key[0]}-{self._key[1]}-{len(threads)}"
            threads.append(threading.Thread(target=self._work, args=(todo, done), name=name, daemon=True))
            threads[-1].start()

    def _work(self, todo: "SimpleQueue[str | None]", done: "SimpleQueue[str]") -> None:
        try:
            while (payment_id := todo.get()) is not None:
                self._one(payment_id)
                done.put(payment_id)
        finally:
            connections.close_all()

    def _one(self, payment_id: str) -> None:
        try:
            close_old_connections()
            self._handle(payment_id=payment_id, at=database_now())
        except Exception:
            # Its lease brings it back; the others must not wait for it.
            logger.exception("due work failed", extra={"work": self._key[0], "payment_id": payment_id})
            close_old_connections()


def _finished(done: "SimpleQueue[str]") -> int:
    """Wait a moment for something to finish, then count all that has."""
    try:
        done.get(timeout=LOOK_EVERY_S)
    except Empty:
        return 0
    count = 1
    while not done.empty():
        done.get_nowait()
        count += 1
    return count


def drain_all(*, work: str, claim: Claim, handle: Handle, due: Callable[[datetime], list[Channel]]) -> int:
    """Drain every channel that has due work, side by side."""
    channels = due(now())
    if len(channels) <= 1:
        return sum(Drain(work=work, channel=channel, claim=claim, handle=handle).run() for channel in channels)
    with ThreadPoolExecutor(len(channels)) as pool:
        runs = [pool.submit(_run_and_close, Drain(work=work, channel=c, claim=claim, handle=handle)) for c in channels]
        return sum(run.result() for run in runs)


def _run_and_close(drain: Drain) -> int:
    try:
        return drain.run()
    finally:
        connections.close_all()
