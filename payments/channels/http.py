"""HTTP to channels over urllib3 pools, where one question decides everything: can a byte have left? (PAY-2)"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Timeout

MAX_REPLY_BYTES = 1024 * 1024
_call = threading.local()


class _WatchedHTTP(HTTPConnection):
    """Marks the call as left at the moment before the first byte is written, after connect and handshake."""

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _call.left = True
        super().send(data)


class _WatchedHTTPS(HTTPSConnection):
    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        _call.left = True
        super().send(data)


class _HTTPPool(HTTPConnectionPool):
    ConnectionCls = _WatchedHTTP


class _HTTPSPool(HTTPSConnectionPool):
    ConnectionCls = _WatchedHTTPS


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What came back. `status` is None when nothing readable did; then `failure` says what happened.

    :ivar left: False only if no byte of the request can have reached the other side
    """

    status: int | None
    headers: Mapping[str, str]
    body: bytes
    left: bool
    failure: str
    latency_ms: int


class ChannelHttp:
    """Kept-alive connections to one base address. No retry, no redirect: sending twice is never the transport's choice."""

    def __init__(self, *, base_url: str, connect_s: float, read_s: float, connections: int) -> None:
        parts = urlsplit(base_url)
        pool = _HTTPSPool if parts.scheme == "https" else _HTTPPool
        self._prefix = parts.path.rstrip("/")
        self._read_s = read_s
        self._pool = pool(
            parts.hostname or "",
            port=parts.port,
            maxsize=connections,
            block=False,
            timeout=Timeout(connect=connect_s, read=read_s),
            retries=False,
        )

    def call(self, *, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> HttpReply:
        """Send one request and read its reply within the limit, which holds for the whole of it."""
        _call.left = False
        start = time.monotonic()
        status, reply_headers, content, failure = None, {}, b"", ""
        try:
            response = self._pool.urlopen(
                method,
                self._prefix + path,
                body=body or None,
                headers=dict(headers),
                preload_content=False,
                redirect=False,
            )
            try:
                content = self._read(response, deadline=start + self._read_s)
                status, reply_headers = response.status, {k.lower(): v for k, v in response.headers.items()}
            finally:
                response.release_conn() if status is not None else response.close()
        except urllib3.exceptions.TimeoutError:
            failure = "READ_TIMEOUT" if _call.left else "CONNECT_FAILED"
        except (urllib3.exceptions.HTTPError, OSError):
            failure = "NO_REPLY" if _call.left else "CONNECT_FAILED"
        latency = int((time.monotonic() - start) * 1000)
        return HttpReply(status, reply_headers, content, _call.left, failure, latency)

    @staticmethod
    def _read(response: urllib3.BaseHTTPResponse, *, deadline: float) -> bytes:
        """Read the body, bounded in size and time: a bank that sends one byte a second must not hold a slot for ever."""
        content = bytearray()
        for piece in response.stream(16384):
            content += piece
            if len(content) > MAX_REPLY_BYTES:
                raise urllib3.exceptions.HTTPError("reply too long")
            if time.monotonic() > deadline:
                raise urllib3.exceptions.ReadTimeoutError(None, "", "reply too slow")  # type: ignore[arg-type]
        return bytes(content)
