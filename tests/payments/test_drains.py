"""SPL-19, K01: a channel's due work is done within its slots, once per process, and delays no other channel."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from django.utils.timezone import now

from payments import drains
from payments.drains import Drain, drain_all
from payments.models import Channel
from tests.stack import wait_for


class Desk:
    """Due work of fake ids per channel; handling waits for a gate."""

    def __init__(self, **due: int) -> None:
        self.lock = threading.Lock()
        self.due = {code: [f"{code}-{number}" for number in range(count)] for code, count in due.items()}
        self.gates = {code: threading.Event() for code in due}
        self.handled: list[str] = []
        self.busy, self.most_busy = 0, 0

    def claim(self, *, channel, limit, at):
        with self.lock:
            ids, self.due[channel.pk] = self.due[channel.pk][:limit], self.due[channel.pk][limit:]
            return ids

    def handle(self, *, payment_id, at):
        with self.lock:
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        self.gates[payment_id.split("-")[0]].wait(10)
        with self.lock:
            self.busy -= 1
            self.handled.append(payment_id)

    def drain(self, channel):
        return Drain(work="test", channel=channel, claim=self.claim, handle=self.handle)


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """The work here is imaginary, so no database tells the time."""
    monkeypatch.setattr(drains, "database_now", now)


def a_channel(code, slots=3):
    return Channel(code=code, slots=slots)


def test_a_channel_never_gets_more_calls_at_once_than_it_has_slots():
    desk = Desk(slow=20)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(desk.drain(a_channel("slow")).run)
        wait_for(lambda: desk.busy == 3, seconds=5)
        desk.gates["slow"].set()

        assert run.result(10) == 20
    assert (desk.most_busy, len(desk.handled)) == (3, 20)


def test_a_second_run_only_makes_the_first_look_again():
    desk, channel = Desk(slow=1), a_channel("slow")
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(desk.drain(channel).run)
        wait_for(lambda: desk.busy == 1, seconds=5)
        desk.due["slow"].append("slow-new")

        assert desk.drain(channel).run() == 0
        desk.gates["slow"].set()

        assert run.result(10) == 2


def test_a_slow_channel_delays_no_other():
    desk = Desk(slow=5, quick=50)
    desk.gates["quick"].set()
    with ThreadPoolExecutor(1) as pool:
        channels = [a_channel("slow"), a_channel("quick")]
        run = pool.submit(drain_all, work="test", claim=desk.claim, handle=desk.handle, due=lambda at: channels)

        wait_for(lambda: len(desk.handled) == 50, seconds=5, what="the quick channel's work")
        assert desk.busy == 3
        desk.gates["slow"].set()
        assert run.result(10) == 55


def test_sending_and_asking_are_timed_by_the_database_s_clock_not_the_host_s(monkeypatch):
    """RUN-1: two hosts send and ask; were their clocks apart, a payment just sent would count as absent (QRY-2)."""
    of_the_database = datetime(2026, 9, 1, 2, 30, tzinfo=UTC)
    monkeypatch.setattr(drains, "database_now", lambda: of_the_database)
    desk, seen = Desk(quick=1), []

    def claim(*, channel, limit, at):
        seen.append(at)
        return desk.claim(channel=channel, limit=limit, at=at)

    Drain(work="test", channel=a_channel("quick"), claim=claim, handle=lambda *, payment_id, at: seen.append(at)).run()

    assert len(seen) > 1
    assert set(seen) == {of_the_database}


def test_one_failure_is_only_its_own():
    desk, channel = Desk(quick=3), a_channel("quick", slots=1)
    desk.gates["quick"].set()

    def handle(*, payment_id, at):
        if payment_id == "quick-0":
            raise RuntimeError("broken")
        desk.handle(payment_id=payment_id, at=at)

    assert Drain(work="test", channel=channel, claim=desk.claim, handle=handle).run() == 3
    assert desk.handled == ["quick-1", "quick-2"]


def test_a_stopping_process_finishes_what_is_under_way_and_claims_no_more():
    desk = Desk(slow=9)
    try:
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(desk.drain(a_channel("slow")).run)
            wait_for(lambda: desk.busy == 3, seconds=5)
            drains.stop_all()
            desk.gates["slow"].set()

            assert run.result(10) == 3
    finally:
        drains._stopping.clear()
