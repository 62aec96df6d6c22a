"""EVT-1, EVT-2, K19: events are dispatched until taken, each claim is one statement, dead letters can be replayed."""

import io
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command

from payments import outbox
from payments.models import Attention, OutboxEvent
from tests.factories import NOW, a_payment, later

pytestmark = pytest.mark.django_db


@pytest.fixture
def consumed(monkeypatch):
    """The sequence numbers a consumer of accepted payments was given; it fails as often as told."""
    seen = []
    failing = {"times": 0}

    def consumer(event):
        if failing["times"]:
            failing["times"] -= 1
            raise ValueError("receiver away")
        seen.append(event.subject_id)

    monkeypatch.setitem(outbox._consumers, "payment.accepted", [consumer])
    return seen, failing


def test_an_event_is_dispatched_once_it_is_due(client_of_merchant, consumed):
    payment = a_payment(client_of_merchant)

    assert [outbox.dispatch_due(at=NOW), outbox.dispatch_due(at=later(days=9))] == [1, 0]

    assert consumed[0] == [payment.pk]
    assert OutboxEvent.objects.get().dispatched_at == NOW


def test_a_failing_consumer_is_tried_after_1_5_15_minutes_and_more_then_it_is_a_dead_letter(
    client_of_merchant, consumed
):
    a_payment(client_of_merchant)
    consumed[1]["times"] = 99
    waits, at = [], NOW
    while outbox.dispatch_due(at=at):
        event = OutboxEvent.objects.get()
        if event.due_at is None:
            break
        waits.append(event.due_at - at)
        at = event.due_at

    assert waits == [timedelta(minutes=m) for m in (1, 5, 15, 60, 240, 720)]
    assert event.dead_at == at
    assert "receiver away" in event.last_error
    assert Attention.objects.get().kind == "DEAD_LETTER"


def test_a_person_replays_a_dead_letter(client_of_merchant, consumed):
    payment = a_payment(client_of_merchant)
    OutboxEvent.objects.update(due_at=None, dead_at=NOW)

    outbox.replay(event_id=OutboxEvent.objects.get().pk, at=later(hours=1), actor="user:ada")
    outbox.dispatch_due(at=later(hours=1))

    assert consumed[0] == [payment.pk]


def test_one_event_s_failure_is_only_its_own(client_of_merchant, consumed):
    payments = [a_payment(client_of_merchant) for _ in range(3)]
    consumed[1]["times"] = 1

    outbox.dispatch_due(at=NOW)

    assert consumed[0] == [payment.pk for payment in payments[1:]]
    assert OutboxEvent.objects.filter(due_at__isnull=False).count() == 1


def test_a_crashed_dispatcher_s_events_come_due_again(client_of_merchant):
    payment = a_payment(client_of_merchant)
    claimed = outbox.claim_due(at=NOW)
    assert outbox.claim_due(at=NOW) == []

    again = outbox.claim_due(at=later(seconds=61))

    assert [event.pk for event in again] == [event.pk for event in claimed]
    assert again[0].subject_id == payment.pk


@pytest.mark.django_db(transaction=True)
def test_two_dispatchers_never_claim_the_same_event(client_of_merchant):
    from tests.together import run_together

    for _ in range(40):
        a_payment(client_of_merchant)

    claims = run_together(*[lambda: outbox.claim_due(at=NOW, limit=15)] * 4)

    ids = [event.pk for claim in claims for event in claim]
    assert len(ids) == len(set(ids)) == 40
    assert max(map(len, claims)) <= 15


def test_the_command_lists_dead_letters_and_replays_the_chosen(client_of_merchant):
    a_payment(client_of_merchant)
    OutboxEvent.objects.update(due_at=None, dead_at=NOW, last_error="receiver away")
    event = OutboxEvent.objects.get()
    out = io.StringIO()

    call_command("dead_letters", stdout=out)
    with pytest.raises(CommandError, match="Nothing was replayed"):
        call_command("dead_letters", replay=[str(event.pk), "999999999"])
    assert f"{event.pk}  payment.accepted" in out.getvalue()

    call_command("dead_letters", replay=[str(event.pk)], stdout=out)
    event.refresh_from_db()
    assert event.dead_at is None
    assert event.due_at is not None
