"""The bank's port and its outages: closed, resetting, or answering 503 to everything."""

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from sandbox.clock import now_ms, rfc3339

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

BACKLOG = 1024
REOPEN_WAIT_SECONDS = 0.1
# A connection accepted just before the port closed is known to the server only some rounds of the loop later, and a
# closed one is gone only in the next: the outage is complete when its caller hears of it.
LOOP_ROUNDS = 4
OUTAGES = ("refuse", "reset", "http_503")
# Linger on, zero seconds: closing sends a reset instead of a regular end.
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


def abort_connection(transport: asyncio.BaseTransport | None) -> None:
    """Cut a connection with a reset; nothing more is sent on it."""
    if not isinstance(transport, asyncio.Transport):
        return
    connected = transport.get_extra_info("socket")
    if connected is not None and not transport.is_closing():
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    transport.abort()


class _Resetting(asyncio.Protocol):
    """Accepts a connection and cuts it at the first byte: the request was on its way, and nobody knows how far."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        abort_connection(self._transport)


@dataclass(frozen=True)
class Outage:
    """A time in which the bank cannot be used: how, and until when (None: until it is ended)."""

    kind: str
    until_ms: int | None

    def as_json(self) -> dict[str, Any]:
        """Return the outage as control shows it."""
        return {"kind": self.kind, "until": rfc3339(self.until_ms)}


class BankPort:
    """The listener of the bank, which an outage takes away and gives back on the same port."""

    def __init__(self, *, host: str, port: int) -> None:
        self.host, self.port = host, port
        self.outage: Outage | None = None
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._resetting: asyncio.Server | None = None
        self._end: asyncio.Task[None] | None = None
        self._change = asyncio.Lock()
        # Connections with a request under way: an outage that closes the port still lets these end.
        self._busy: set[asyncio.BaseProtocol] = set()

    async def open(self, runner: web.AppRunner) -> None:
        """Listen with an application; a port of 0 becomes the one that was free."""
        self._runner = runner
        await self._listen()

    @web.middleware
    async def watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Know which connections have a request under way; the outermost middleware of the application."""
        connection = request.protocol
        self._busy.add(connection)
        try:
            return await handler(request)
        finally:
            self._busy.discard(connection)

    async def begin_outage(self, *, kind: str, duration_ms: int | None, spare: asyncio.BaseProtocol | None) -> Outage:
        """Start an outage in place of any other.

        :param spare: the connection that asked for it, which still gets its reply
        """
        await self.end_outage()
        async with self._change:
            until_ms = None if duration_ms is None else now_ms() + duration_ms
            outage = self.outage = Outage(kind, until_ms)
            if kind != "http_503":
                await self._stop_listening()
                for _ in range(LOOP_ROUNDS):
                    self._part_with_connections(reset=kind == "reset", spare=spare)
                    await asyncio.sleep(0)
            if kind == "reset":
                self._resetting = await asyncio.get_running_loop().create_server(
                    _Resetting, self.host, self.port, backlog=BACKLOG
                )
            if duration_ms is not None:
                self._end = asyncio.create_task(self._end_after(duration_ms))
        return outage

    async def end_outage(self) -> None:
        """Be reachable again; without an outage nothing happens."""
        async with self._change:
            # Under the lock the timer is asleep or waits for the lock: cancelling cannot tear a half-opened listener.
            if self._end is not None and self._end is not asyncio.current_task():
                self._end.cancel()
            self._end = None
            if self._resetting is not None:
                self._resetting.close()
                self._resetting = None
            if self._site is None:
                await self._listen()
            self.outage = None

    async def _end_after(self, delay_ms: int) -> None:
        await asyncio.sleep(delay_ms / 1000)
        await self.end_outage()

    async def _listen(self) -> None:
        assert self._runner is not None
        while True:
            site = web.TCPSite(self._runner, self.host, self.port, backlog=BACKLOG)
            try:
                await site.start()
            except OSError:
                if self.outage is None:
                    raise
                # Somebody took the port in between; an outage that lasts longer is better than a dead bank.
                await site.stop()
                await asyncio.sleep(REOPEN_WAIT_SECONDS)
            else:
                self._site, self.port = site, site.port
                return

    async def _stop_listening(self) -> None:
        if self._site is not None:
            await self._site.stop()
            self._site = None

    def _part_with_connections(self, *, reset: bool, spare: asyncio.BaseProtocol | None) -> None:
        """Reset every connection, or close the idle ones and let the others end with their reply."""
        server = self._runner.server if self._runner else None
        for connection in list(server.connections) if server else []:
            if reset and connection is not spare:
                abort_connection(connection.transport)
            elif connection in self._busy:
                connection.close()
            else:
                connection.force_close()
