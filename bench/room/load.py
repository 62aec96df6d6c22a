"""HTTP load from a process of its own: keep-alive connections, one thread, raw sockets, so that it takes little of the
machine away from what is measured.

A request is a text in which NUMBER (12 characters) is replaced by the running number, so its length never changes.
"""

import json
import random
import select
import socket
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from config.embedded import dying_with_parent

from .servers import ROOT

NUMBER = "NNNNNNNNNNNN"
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Load:
    """What to send.

    :ivar seconds: after this nothing new is sent; what is under way is waited for. 0: one request a connection
    :ivar rate: requests per second that arrive whether or not earlier ones are answered; None: each connection sends
        its next request when the last is answered
    :ivar first, count: the numbers, taken in turn and again from the first when all are used
    """

    port: int
    request: str
    first: int
    connections: int = 16
    seconds: float = 5.0
    rate: float | None = None
    count: int = 10**9


@dataclass(frozen=True)
class Outcome:
    """What came back. Latencies in milliseconds, from when a request was due to its answer's last byte."""

    answered: int
    seconds: float
    statuses: dict[str, int]
    latencies: list[float]

    @property
    def per_second(self) -> float:
        return self.answered / self.seconds

    def percentile(self, share: float) -> float:
        """The latency that `share` of the requests do not exceed."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def require(self, *statuses: str) -> "Outcome":
        """Itself; a measurement of refusals is none.

        :raises RuntimeError: another status came
        """
        if unwanted := {status: number for status, number in self.statuses.items() if status not in statuses}:
            raise RuntimeError(f"Unexpected answers: {unwanted}")
        return self


def post(path: str, body: str, *headers: str) -> str:
    """A request text; `body` may hold NUMBER."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    return "\r\n".join([*lines, f"Content-Length: {len(body.encode())}", "", body])


def start(load: Load) -> "subprocess.Popen[bytes]":
    """Begin; `finish` waits for the outcome."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.room.load"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=dying_with_parent(9),
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(asdict(load)).encode())
    process.stdin.close()
    return process


def finish(process: "subprocess.Popen[bytes]") -> Outcome:
    """The outcome of a load that was begun."""
    assert process.stdout is not None
    said = process.stdout.read()
    if process.wait():
        raise RuntimeError("The load generator failed.")
    return Outcome(**json.loads(said))


def run(load: Load) -> Outcome:
    """Send a load and return what came of it."""
    return finish(start(load))


class _Connection:
    """A keep-alive connection with at most one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.due = 0.0
        self.received = b""

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, request: bytes, due: float) -> None:
        self.due = due
        self.socket.sendall(request)

    def read(self) -> str | None:
        """The answer's status once it is there as a whole."""
        piece = self.socket.recv(65536)
        if not piece:
            raise RuntimeError("The server closed a connection.")
        self.received += piece
        head, blank, body = self.received.partition(b"\r\n\r\n")
        if not blank:
            return None
        length = head.lower().partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0]
        if len(body) < int(length):
            return None
        self.received = b""
        return head[9:12].decode()


def _send(load: Load) -> Outcome:
    """Arrivals are due one after the other; a free connection takes the next. Waiting for one counts as latency."""
    before, *between = load.request.encode().split(NUMBER.encode())
    idle = deque(_Connection(load.port) for _ in range(load.connections))
    busy: set[_Connection] = set()
    statuses: Counter[str] = Counter()
    latencies: list[float] = []
    arrivals = random.Random(1)
    number = sent = 0
    began = time.perf_counter()
    end = began + load.seconds
    due = began
    while True:
        moment = time.perf_counter()
        while idle and (due <= moment if load.rate else True):
            if (due >= end) if load.rate else (moment >= end and sent >= load.connections):
                break
            digits = b"%012d" % (load.first + number % load.count)
            connection = idle.popleft()
            connection.send(digits.join((before, *between)), due if load.rate else moment)
            busy.add(connection)
            number, sent = number + 1, sent + 1
            if load.rate:
                due += arrivals.expovariate(load.rate)
        more_to_come = load.rate is not None and due < end
        if not busy and not more_to_come:
            break
        patience = max(0.0, due - moment) if more_to_come and idle else _PATIENCE_S
        readable: Sequence[_Connection] = select.select(list(busy), [], [], patience)[0]
        if not readable and patience == _PATIENCE_S:
            raise RuntimeError("No answer for a minute.")
        for connection in readable:
            if (status := connection.read()) is not None:
                statuses[status] += 1
                latencies.append((time.perf_counter() - connection.due) * 1000)
                busy.remove(connection)
                idle.append(connection)
    return Outcome(len(latencies), time.perf_counter() - began, dict(statuses), latencies)


if __name__ == "__main__":
    print(json.dumps(asdict(_send(Load(**json.load(sys.stdin))))))
