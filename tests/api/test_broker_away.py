"""Without the broker, payments are accepted as ever; when it is back, they are sent (RUN-1)."""

import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from config.embedded import EmbeddedValkey
from payments.models import Payment
from tests import factories
from tests.api.conftest import a_body
from tests.stack import Stack, running, wait_for

AWAY = 100
FROZEN = 20
PAUSE_S = 0.6  # between requests: the broker is away for a minute


@contextmanager
def a_broker_of_its_own() -> Iterator[EmbeddedValkey]:
    place = Path(tempfile.mkdtemp(prefix="ch-kv-", dir="/tmp"))
    broker = EmbeddedValkey(place / "data", place / "run")
    broker.start()
    broker.wait_ready()
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(place, ignore_errors=True)


def web_memory(stack: Stack) -> int:
    """Bytes that the web server and its workers hold."""
    server = psutil.Process(stack.processes["web"].pid)
    return sum(process.memory_info().rss for process in [server, *server.children(recursive=True)])


def pay(stack: Stack, key: str, number: int) -> float:
    """Request a payment; returns how long the answer took."""
    begun = time.monotonic()
    body = a_body(idempotencyKey=f"key-{number}", orderNo=f"A-{number}", paymentToken="tok_success")
    status, _, answer = stack.call("POST", "/payments", key=key, body=body)
    assert status == 202, answer
    return time.monotonic() - begun


def all_succeeded(count: int) -> bool:
    return Payment.objects.filter(state="SUCCEEDED").count() == count


@pytest.mark.django_db(transaction=True)
def test_payments_are_accepted_while_the_broker_is_dead_or_frozen_and_sent_when_it_is_back():
    """RUN-1, QRY-1: no request waits for it, nothing piles up in memory, and each payment is charged once."""
    with a_broker_of_its_own() as broker, running() as (bank, stack):
        urls = broker.urls()
        stack.environment |= {"BROKER_URL": urls.broker, "CACHE_URL": urls.cache, "REDIS_URL": urls.broker}
        channel = factories.a_channel(
            settings={"base_url": bank.url, "merchant_id": "M-DEMO", "key_id": "demo-1", "secret_env": "BANK_KEY"}
        )
        client = factories.an_api_client(merchant=factories.a_merchant(channel=channel))
        stack.web()
        stack.worker("worker")
        stack.beat()
        for number in range(10):
            pay(stack, client.key, number)
        wait_for(lambda: all_succeeded(10), seconds=30, what="payments with the broker there")
        pause = threading.Event()

        before = web_memory(stack)
        broker.kill()
        dead = []
        for number in range(100, 100 + AWAY):
            dead.append(pay(stack, client.key, number))
            pause.wait(PAUSE_S)
        grown = web_memory(stack) - before
        broker.start()
        broker.wait_ready()
        back = time.monotonic()
        wait_for(lambda: all_succeeded(10 + AWAY), seconds=90, what="an end for the payments of the outage", every=0.2)
        caught_up = time.monotonic() - back

        assert broker.pid is not None
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            frozen = []
            for number in range(1000, 1000 + FROZEN):
                frozen.append(pay(stack, client.key, number))
                pause.wait(PAUSE_S)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        wait_for(
            lambda: all_succeeded(10 + AWAY + FROZEN),
            seconds=60,
            what="an end for the payments of the frost",
            every=0.2,
        )

        print(
            f"slowest request: dead {max(dead):.3f} s, frozen {max(frozen):.3f} s; memory +{grown / 2**20:.1f} MiB; "
            f"caught up in {caught_up:.1f} s"
        )
        assert max(dead) < 2
        assert max(frozen) < 2
        assert grown < 40 * 2**20
        assert len(bank.ledger()) == 10 + AWAY + FROZEN
