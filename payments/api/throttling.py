"""A client's rate, counted in the cache for all web processes together; without the cache each process counts alone."""

import logging
import threading
import time
from functools import cache
from typing import Any

# Imported in full before any thread may count: the storage would take another thread's half-done import of its client
# for a client too old, and the request would fail.
import redis  # noqa: F401
from django.conf import settings
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import FixedWindowRateLimiter
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from ..models import ApiClient

logger = logging.getLogger(__name__)

CACHE_REST_S = 5.0
# A process takes calls from the shared count in lots, so that not each call costs a round trip: a lot is 1/2000 of the
# limit (a limit below 4000 is counted one by one) and lasts a second. A client may so be refused up to 3 % early.
LOT_SHARE, LOT_S = 2000, 1.0


class _Counters:
    """The shared counters, and the process's own for while the cache is away."""

    def __init__(self) -> None:
        self._shared = FixedWindowRateLimiter(_shared_storage())
        self._own = FixedWindowRateLimiter(MemoryStorage())
        self._away_until = 0.0
        self._lots: dict[tuple[int, str], tuple[int, float]] = {}
        self._lock = threading.Lock()

    def hit(self, item: RateLimitItemPerMinute, client: str) -> tuple[bool, float]:
        """Count one call; returns whether it is allowed, and the seconds until the window ends."""
        if self._from_lot(item, client):
            return True, 0
        if time.monotonic() >= self._away_until:
            try:
                lot = max(1, item.amount // LOT_SHARE)
                if self._shared.hit(item, client, cost=lot):
                    self._lots[item.amount, client] = (lot - 1, time.monotonic() + LOT_S)
                    return True, 0
                return False, self._shared.get_window_stats(item, client).reset_time - time.time()
            except Exception as error:  # noqa: BLE001  (whatever the cache's client raises; calls must go on)
                logger.warning("cache not reached, counting alone", extra={"error": type(error).__name__})
                self._away_until = time.monotonic() + CACHE_REST_S
        allowed = self._own.hit(item, client)
        return allowed, 0 if allowed else self._own.get_window_stats(item, client).reset_time - time.time()

    def _from_lot(self, item: RateLimitItemPerMinute, client: str) -> bool:
        """Whether the process has a call left of the lot it took last."""
        with self._lock:
            left, until = self._lots.get((item.amount, client), (0, 0.0))
            if left <= 0 or time.monotonic() > until:
                return False
            self._lots[item.amount, client] = (left - 1, until)
            return True


def _shared_storage() -> Storage:
    location = settings.CACHE_URL
    if location.startswith("unix:"):
        location = location.replace("unix:", "redis+unix:", 1)
    return RedisStorage(location, socket_connect_timeout=0.2, socket_timeout=0.2, wrap_exceptions=False)


_making = threading.Lock()


def counters() -> _Counters:
    """The counters of this process, made once: the library's own set-up is not safe in two threads."""
    with _making:
        return _made()


@cache
def _made() -> _Counters:
    return _Counters()


class ClientRate(BaseThrottle):
    """Refuses a client above its calls per minute: 429 with Retry-After."""

    _wait: float | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        client = request.auth
        if not isinstance(client, ApiClient):  # what needs no key, as the OpenAPI document, is not counted
            return True
        item = RateLimitItemPerMinute(client.rate_per_minute or settings.API_RATE_PER_MINUTE)
        allowed, self._wait = counters().hit(item, f"client-{client.pk}")
        return allowed

    def wait(self) -> float | None:
        return max(self._wait or 1, 1)
