"""A caller that cannot wait for the bank waits for us, and nobody else has to (PAY-6)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from django.test import RequestFactory
from django.utils.timezone import now

from payments import confirmation, waiting
from payments.api.views import MAX_WAIT_S, _wait_seconds
from payments.evidence import Outcome, Source
from payments.models import IdempotencyRecord, Payment
from tests import factories
from tests.api.conftest import content_of
from tests.stack import running, wait_for

CALLERS = 100


def sent(payment: Payment) -> Payment:
    at = now()
    payment.submit(at=at, ask_at=at, query_deadline=at)
    payment.save()
    return payment


def succeed(payment_id: str, number: int = 1) -> None:
    evidence = factories.evidence(
        Outcome.SUCCEEDED, source=Source.NOTIFICATION, at=now(), channel_txn_id=f"BANK-{number}"
    )
    confirmation.confirm_payment(payment_id=payment_id, evidence=evidence)


@pytest.mark.django_db(transaction=True)
def test_a_hundred_waiting_callers_hold_up_nobody_and_no_connection():
    """PAY-6: they hold no database connection, ordinary calls go on, and each is answered when its payment is final."""
    with running() as (_, stack):
        stack.environment["DATABASE_URL"] += "?application_name=web-under-test"
        stack.environment["API_MAX_WAITERS"] = str(CALLERS)
        client = factories.an_api_client(merchant=factories.a_merchant(channel=factories.a_channel()))
        payments = [sent(factories.a_payment(client, at=now())) for _ in range(CALLERS)]
        other = factories.a_payment(client, at=now())
        stack.web(workers=1)

        def wait(payment_id):
            answer = stack.call("GET", f"/payments/{payment_id}", key=client.key, headers={"Prefer": "wait=20"})
            return time.monotonic(), answer

        with ThreadPoolExecutor(CALLERS) as callers:
            calls = [callers.submit(wait, payment.pk) for payment in payments]
            wait_for(lambda: _all_begun(calls) and _web_connections() < 30, what="callers that only wait")

            durations = []
            for _ in range(150):
                begun = time.monotonic()
                status, _, _ = stack.call("GET", f"/payments/{other.pk}", key=client.key)
                durations.append(time.monotonic() - begun)
                assert status == 200
            assert not [done for done in calls if done.done()]
            assert _web_connections() < 30
            durations.sort()
            print(
                f"ordinary GET: p50 {durations[75]:.3f} s, p99 {durations[148]:.3f} s; {_web_connections()} connections"
            )
            assert durations[148] < 1
            assert durations[-1] < 2

            final_at = []
            for number, payment in enumerate(payments):
                succeed(payment.pk, number)
                final_at.append(time.monotonic())
            answers = [done.result() for done in calls]

        for final, (answered, (status, _, body)) in zip(final_at, answers, strict=True):
            assert (status, body["status"]) == (200, "SUCCEEDED")
            assert answered - final < 1.5
        assert "Internal Server Error" not in stack.log("web")


def _all_begun(calls) -> bool:
    return all(call.running() for call in calls)


def _web_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'web-under-test'")
        return cursor.fetchone()[0]


@pytest.mark.django_db(transaction=True)
def test_without_an_end_a_caller_is_told_pending_after_its_seconds(caller):
    """PAY-6: 202 for the request, 200 for the question, both PENDING."""
    begun = time.monotonic()
    posted = caller.pay(headers={"Prefer": "wait=1"})
    between = time.monotonic()
    asked = caller.get(posted["Location"], headers={"Prefer": "respond-async, Wait=1"})
    over = time.monotonic()

    assert (posted.status_code, content_of(posted)["status"]) == (202, "PENDING")
    assert (asked.status_code, content_of(asked)["status"]) == (200, "PENDING")
    assert 1 <= between - begun < 3
    assert 1 <= over - between < 3


@pytest.mark.django_db(transaction=True)
def test_a_request_that_becomes_final_while_its_caller_waits_is_answered_201(caller):
    """PAY-5, PAY-6: and the record keeps what was answered (PAY-9)."""

    def call():
        try:
            begun = time.monotonic()
            return caller.pay(headers={"Prefer": "wait=20"}), time.monotonic() - begun
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        payment = wait_for(lambda: Payment.objects.select_related("channel").first(), what="the payment")
        succeed(sent(payment).pk)
        response, took = answer.result()

    assert response.status_code == 201
    assert content_of(response)["status"] == "SUCCEEDED"
    assert took < 10
    record = IdempotencyRecord.objects.get()
    assert (record.response["status"], record.response_status) == ("SUCCEEDED", 201)


@pytest.mark.django_db(transaction=True)
def test_a_final_payment_is_waited_for_by_nobody(caller):
    payment_id = content_of(caller.pay())["paymentId"]
    succeed(sent(Payment.objects.select_related("channel").get()).pk)

    begun = time.monotonic()
    response = caller.get(f"/payments/{payment_id}", headers={"Prefer": "wait=20"})

    assert content_of(response)["status"] == "SUCCEEDED"
    assert time.monotonic() - begun < 2


@pytest.mark.django_db(transaction=True)
def test_two_callers_of_one_payment_are_both_answered(caller):
    """PAY-13: the IVR and the agent may wait for the same payment."""
    payment_id = content_of(caller.pay())["paymentId"]
    sent(Payment.objects.select_related("channel").get())

    def call(_):
        try:
            return caller.get(f"/payments/{payment_id}", headers={"Prefer": "wait=20"})
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(call, number) for number in range(2)]
        wait_for(lambda: len(waiting._awaited.get(payment_id, [])) == 2, what="two waiting callers")
        succeed(payment_id)

        assert {content_of(answer.result())["status"] for answer in answers} == {"SUCCEEDED"}
    assert not waiting._awaited


@pytest.mark.django_db(transaction=True)
def test_callers_beyond_the_limit_are_answered_at_once(caller, settings):
    """PAY-6: waiting must not use up the threads that answer others."""
    settings.API_MAX_WAITERS = 0

    begun = time.monotonic()
    response = caller.pay(headers={"Prefer": "wait=20"})

    assert (response.status_code, content_of(response)["status"]) == (202, "PENDING")
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("wish", "seconds"),
    [
        *(("wait=5", 5), ("wait=25", 25), ("wait=26", MAX_WAIT_S), ("wait=9999", MAX_WAIT_S), ("wait=0", 0), ("", 0)),
        *(("WAIT=7", 7), ("respond-async, wait=7", 7), ("wait=7; foo=bar", 7), ("wait = 7, respond-async", 7)),
        *(("nowait=7", 0), ("wait=7s", 0), ("wait=-7", 0), ("wait=7.5", 0), ("wait=99999", 0), ("wait=٧", 0)),
    ],
)
def test_a_longer_wish_is_cut_to_25_seconds_and_an_unreadable_one_is_none(wish, seconds):
    """PAY-6, RFC 7240."""
    assert _wait_seconds(RequestFactory().get("/", headers={"Prefer": wish})) == seconds
