"""Accepted payments per second through the whole HTTP API, beside the ceiling and the usual way.

Rounds interleave what is compared, and a ratio is made inside its round: what slows the machine down slows both.
"""

import argparse
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from . import bare
from .room import load, report
from .room.load import NUMBER, Load
from .room.servers import DATABASE, Room, WebServer, machine

KEY = "chk_bench_key"
CONNECTIONS = 16
WAITERS = 100
BODY = (
    f'{{"customerId": "C-{NUMBER}", "amount": 128.00, "currency": "CNY", "paymentToken": "tok_success", '
    f'"idempotencyKey": "payment-{NUMBER}", "orderNo": "A-{NUMBER}"}}'
)
AUTHORIZATION = f"Authorization: Bearer {KEY}"
PAY = load.post("/payments", BODY, AUTHORIZATION)


@dataclass(frozen=True)
class Size:
    """How long a run takes."""

    rounds: int
    seconds: float
    latency_rounds: int
    latency_seconds: float
    wait_seconds: int  # more than the above and the time until all of them wait


FULL = Size(rounds=7, seconds=5, latency_rounds=3, latency_seconds=12, wait_seconds=20)
QUICK = Size(rounds=3, seconds=1.2, latency_rounds=1, latency_seconds=4, wait_seconds=8)


@dataclass
class Measurement:
    """The servers, and what was found so far: one value per round under each name."""

    room: Room
    size: Size
    webs: dict[str, WebServer]
    product_script: str
    found: dict[str, list[float]] = field(default_factory=dict)
    number: int = 1
    known: tuple[int, int] = (1, 1)

    def note(self, name: str, value: float) -> None:
        self.found.setdefault(name, []).append(value)

    def throughput(self, seconds: float) -> None:
        """One round: each thing once, beginning with another one each time."""
        turn = len(self.found.get("bare", []))
        steps: list[Callable[[], None]] = [
            lambda: self._first_acceptances("bare", seconds),
            lambda: self._first_acceptances("product", seconds),
            lambda: self._first_acceptances("peer", seconds),
            lambda: self._statements("bare SQL", bare.SCRIPT, seconds / 2),
            lambda: self._statements("product SQL", self.product_script, seconds / 2),
        ]
        for step in steps[turn % len(steps) :] + steps[: turn % len(steps)]:
            step()

    def _first_acceptances(self, name: str, seconds: float) -> None:
        """New keys and orders; after the product's, the same again as replays."""
        web = self.webs[name]
        work = Load(web.port, PAY, self.number, CONNECTIONS, seconds)
        before = web.cpu_seconds(), self.room.database_cpu_seconds()
        outcome = load.run(work).require("202")
        self.note(name, outcome.per_second)
        self.note(f"{name} web CPU", 1000 * (web.cpu_seconds() - before[0]) / outcome.answered)
        used = self.room.database_cpu_seconds() - before[1]
        self.note(f"{name} database CPU", 1000 * used / outcome.answered)
        first, self.number = self.number, self.number + outcome.answered
        if name == "product":
            again = replace(work, first=first, count=outcome.answered)
            self.note("replay", load.run(again).require("202").per_second)

    def _statements(self, name: str, script: str, seconds: float) -> None:
        self.note(name, self.room.pgbench(script, clients=CONNECTIONS, seconds=seconds))

    def latency(self, rate: float) -> None:
        """Ordinary requests at a rate, with nobody waiting and then with a crowd that waits for the end."""
        self._ordinary(rate, "p50 at half rate", "p99 at half rate")
        self.note("connections", self._connections())
        port = self.webs["product"].port
        request = load.post("/payments", BODY, AUTHORIZATION, f"Prefer: wait={self.size.wait_seconds}")
        crowd = load.start(Load(port, request, self.number, WAITERS, seconds=0))
        self.number += WAITERS
        time.sleep(2)  # until all of them wait
        with _Highest(self._connections) as held:
            self._ordinary(rate, "p50, 100 waiting", "p99, 100 waiting")
        self.note("connections, 100 waiting", held.value)
        waited = load.finish(crowd).require("202")
        self.note("callers that waited", sum(latency >= self.size.wait_seconds * 900 for latency in waited.latencies))

    def _ordinary(self, rate: float, median: str, tail: str) -> None:
        work = Load(self.webs["product"].port, PAY, self.number, 64, self.size.latency_seconds, rate)
        outcome = load.run(work).require("202")
        self.number += outcome.answered
        self.note(median, outcome.percentile(0.5))
        self.note(tail, outcome.percentile(0.99))

    def _connections(self) -> int:
        """How many database connections the product's web processes hold now."""
        with self.room.connect() as connection:
            row = connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND application_name = 'countinghouse'",
                [DATABASE],
            ).fetchone()
        return row[0] if row else 0


class _Highest:
    """The highest value seen while inside, looked at twice a second."""

    def __init__(self, look: Callable[[], int]) -> None:
        self.look, self.value = look, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._over.wait(0.5):
            self.value = max(self.value, self.look())

    def __enter__(self) -> "_Highest":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def prepare(room: Room) -> str:
    """Make databases, tables, a client; returns the product's own statement as a script for pgbench."""
    room.postgres.create_database("peer")
    room.django("migrate", "--verbosity", "0")
    room.django("migrate", "--verbosity", "0", **_peer(room))
    room.django("migrate", "--run-syncdb", "--verbosity", "0", **_peer(room))  # its own tables point at users
    with room.connect() as connection:
        connection.execute(bare.TABLES)
    _seed_peer(room)
    os.environ.update(room.environment)
    import django

    django.setup()
    return _seed_product()


def _peer(room: Room) -> dict[str, str]:
    return {"PEER_DATABASE_URL": room.postgres.url("peer"), "DJANGO_SETTINGS_MODULE": "bench.peer.settings"}


def _seed_peer(room: Room) -> None:
    from hashlib import sha256

    with room.connect("peer") as connection:
        connection.execute(
            "INSERT INTO auth_user (username, password, first_name, last_name, email, is_superuser, is_staff, is_active,"
            " date_joined) VALUES ('bench', '', '', '', '', false, false, true, now())"
        )
        connection.execute(
            "INSERT INTO peer_client (user_id, key_hash) SELECT id, %s FROM auth_user",
            [sha256(KEY.encode()).hexdigest()],
        )


def _seed_product() -> str:
    from django.db import connection
    from django.utils.timezone import now
    from psycopg import ClientCursor

    from payments import intake
    from payments.api.authentication import hash_key
    from payments.models import ApiClient, Channel, Merchant
    from payments.money import Money

    channel = Channel.objects.create(code="bank", adapter="bank", name_en="Bank", name_zh="银行", settings={})
    merchant = Merchant.objects.create(code="bench", name="Bench", default_channel=channel)
    client = ApiClient.objects.create(
        merchant=merchant,
        name="bench",
        key_hash=hash_key(KEY),
        key_hint=KEY[:8],
        scopes=[ApiClient.Scope.PAY, ApiClient.Scope.READ],
        rate_per_minute=10**9,  # counted, never refused
    )
    order = intake.PaymentOrder(
        customer_ref="C-:n",
        amount=Money(128_00, "CNY"),
        payment_token="tok_success",
        idempotency_key="payment-:n",
        order_no="A-:n",
    )
    values = intake._values(client=client, order=order, channel=channel, payment_id="0000000000:n", at=now())
    connection.ensure_connection()
    statement = ClientCursor(connection.connection).mogrify(
        intake._AT_ONCE, values | {"order_id": "0000000001:n", "payment_id": "0000000000:n"}
    )
    connection.close()
    return "\\set n random(1000000000000000, 9000000000000000)\n" + " ".join(statement.split())


def measure(size: Size) -> report.Report:
    """Start everything, measure, end everything."""
    with Room() as room:
        script = prepare(room)
        webs = {
            "bare": room.web("bare", "bench.bare:application", BENCH_CONNINFO=room.postgres.conninfo(DATABASE)),
            "product": room.web("product", "config.wsgi:application"),
            "peer": room.web("peer", "bench.peer.wsgi:application", **_peer(room)),
        }
        for name, path in (("bare", "/"), ("product", "/healthz"), ("peer", "/payments")):
            webs[name].wait_ready(path)
        measurement = Measurement(room, size, webs, script)
        measurement.throughput(1)  # imports, caches, connections
        measurement.found.clear()
        for number in range(size.rounds):
            print(f"round {number + 1} of {size.rounds}", flush=True)
            measurement.throughput(size.seconds)
        rate = report.of(measurement.found["product"]).median / 2
        for number in range(size.latency_rounds):
            print(f"latencies at {rate:.0f} requests/s, {number + 1} of {size.latency_rounds}", flush=True)
            measurement.latency(rate)
    return conclude(measurement.found, rate)


def conclude(found: dict[str, list[float]], rate: float) -> report.Report:
    """The report of what was found."""
    result = report.Report("intake")
    for name in ("bare", "product", "replay", "peer", "bare SQL", "product SQL"):
        result.figures[name] = report.of(found[name], "a second")
    for name in ("bare", "product", "peer"):
        result.figures[f"{name} web CPU"] = report.of(found[f"{name} web CPU"], "ms a request")
        result.figures[f"{name} database CPU"] = report.of(found[f"{name} database CPU"], "ms a request")
    result.figures["half rate"] = report.of([rate], "a second")
    for name in ("p50 at half rate", "p50, 100 waiting", "p99, 100 waiting"):
        result.figures[name] = report.of(found[name], "ms")
    for name in ("callers that waited", "connections", "connections, 100 waiting"):
        result.figures[name] = report.of(found[name], "")
    product = found["product"]
    result.ratios["product ÷ bare"] = report.of(report.ratios(product, found["bare"]), goal=0.4, stretch=0.6)
    result.ratios["product ÷ peer"] = report.of(report.ratios(product, found["peer"]), goal=4, stretch=6)
    result.ratios["replay ÷ product"] = report.of(report.ratios(found["replay"], product), goal=1.5)
    result.ratios["product SQL ÷ bare SQL"] = report.of(report.ratios(found["product SQL"], found["bare SQL"]))
    growth = report.ratios(found["p99, 100 waiting"], found["p99 at half rate"])
    result.ratios["p99 at half rate, ms"] = report.of(found["p99 at half rate"], goal=20, at_most=True)
    result.ratios["p99, 100 waiting ÷ nobody waiting"] = report.of(growth, goal=2, at_most=True)
    result.notes.append(f"Measured on {machine()}; {CONNECTIONS} connections; every commit on disk before its answer.")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench intake", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 short rounds, about a minute")
    measure(QUICK if parser.parse_args().quick else FULL).show()


if __name__ == "__main__":
    main()
