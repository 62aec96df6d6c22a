"""One key, one effect, whatever is repeated, raced or refused (PAY-9, K23)."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.utils.timezone import now

from payments import intake
from payments.models import IdempotencyRecord, Order, OutboxEvent, Payment
from tests import factories
from tests.api.conftest import Caller, a_body, content_of, problem_of
from tests.stack import running


def test_a_repeat_gets_the_same_payment_and_says_so(caller):
    """PAY-9."""
    first, repeat = caller.pay(), caller.pay()

    assert "Idempotent-Replay" not in first
    assert repeat["Idempotent-Replay"] == "true"
    assert repeat.status_code == 202
    assert content_of(first)["paymentId"] == content_of(repeat)["paymentId"]
    assert Payment.objects.count() == Order.objects.count() == OutboxEvent.objects.count() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": "128.01"},
        {"amount": "128", "currency": "JPY"},
        {"customerId": "C12346"},
        {"paymentToken": "tok_other"},
        {"orderNo": "A-1"},
        {"channel": "bank"},
        {"purpose": "another"},
    ],
)
def test_a_key_with_other_content_is_refused_and_names_the_payment_it_stands_for(caller, changes):
    """PAY-9: 422."""
    first = content_of(caller.pay())

    refusal = problem_of(caller.pay(**changes), 422, "idempotency_key_reused", "idempotencyKey")

    assert refusal["paymentId"] == first["paymentId"]
    assert Payment.objects.count() == 1


def test_form_and_order_of_the_fields_do_not_matter(caller):
    """K23: the fingerprint is of the content."""
    first = content_of(caller.pay(orderNo="A-1"))
    fields = list(a_body(orderNo="A-1").items())
    others = [
        json.dumps(dict(reversed(fields)), indent=4).encode(),
        json.dumps(dict(fields)).replace('"128.00"', "128").encode(),
        json.dumps(dict(fields)).replace('"128.00"', '"128.000"').encode(),
        json.dumps(dict(fields) | {"replaces": None, "channel": None, "purpose": "", "intended": True}).encode(),
        json.dumps(dict(fields)).replace("C12345", "\\u004312345").encode(),
    ]

    answers = [content_of(caller.pay(body))["paymentId"] for body in others]

    assert answers == [first["paymentId"]] * len(others)


def test_a_refused_request_does_not_burn_its_key(caller):
    """PAY-9, K23: by shape, by card number, by currency, by the order's state."""
    caller.pay(idempotencyKey="live", orderNo="A-1")
    refusals = [
        caller.pay(amount="128.001"),
        caller.pay(paymentToken="4111111111111111"),
        caller.pay(currency="AUD"),
        caller.pay(orderNo="A-1"),
        caller.pay(),
    ]
    assert [refusal.status_code for refusal in refusals] == [400, 400, 400, 409, 409]

    corrected = caller.pay(orderNo="A-2")

    assert corrected.status_code == 202
    assert IdempotencyRecord.objects.count() == 2


def test_two_merchants_with_one_key_never_meet(caller, channel):
    """K23."""
    other = Caller(factories.an_api_client(merchant=factories.a_merchant(channel=channel, code="other")).key)

    mine, theirs = caller.pay(orderNo="A-1"), other.pay(orderNo="A-1", amount="1.00")

    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert content_of(mine)["paymentId"] != content_of(theirs)["paymentId"]
    assert content_of(theirs)["amount"] == 1


def test_two_clients_of_one_merchant_share_its_keys(caller, merchant):
    """PAY-13: IVR and agent work on the same payment."""
    agent = Caller(factories.an_api_client(merchant=merchant, name="agent").key)

    assert content_of(caller.pay())["paymentId"] == content_of(agent.pay())["paymentId"]


def test_the_record_keeps_the_first_request_masked(caller):
    """PAY-10: evidence without the token in clear."""
    caller.pay(paymentToken="tok_secret_0123456789")

    record = IdempotencyRecord.objects.get()
    assert record.request["paymentToken"] == "tok_…6789"
    assert record.request["amount"] == "128.00"
    assert record.response == {"paymentId": record.payment_id, "status": "PENDING"}
    assert record.completed_at is not None


@pytest.mark.django_db(transaction=True)
def test_twenty_equal_requests_at_once_are_one_payment():
    """PAY-9, over real connections to a real server; with and without order number, so on both ways in."""
    with running() as (_, stack):
        client = factories.an_api_client(merchant=factories.a_merchant(channel=factories.a_channel()))
        stack.web()
        for name, order_no in (("plain", None), ("ordered", "A-1"), ("known", "A-1")):
            amount = "200.00" if name == "plain" else "128.00"
            body = a_body(idempotencyKey=name, orderNo=order_no, customerId=name, amount=amount)
            barrier = threading.Barrier(20)

            def pay(body=body, barrier=barrier):
                barrier.wait()
                return stack.call("POST", "/payments", key=client.key, body=body)

            with ThreadPoolExecutor(20) as callers:
                answers = [done.result() for done in [callers.submit(pay) for _ in range(20)]]

            if name == "known":  # another key for an order that has its payment
                assert {status for status, _, _ in answers} == {409}
                live = Payment.objects.get(idempotency_key="ordered").pk
                assert {answer["paymentId"] for _, _, answer in answers} == {live}
            else:
                assert {status for status, _, _ in answers} == {202}
                assert len({answer["paymentId"] for _, _, answer in answers}) == 1
                assert sum("Idempotent-Replay" not in headers for _, headers, _ in answers) == 1
                assert Payment.objects.filter(idempotency_key=name).count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("order_no", [None, "A-1"])
def test_a_repeat_while_the_first_is_running_waits_two_seconds_and_is_told_to_come_again(caller, order_no):
    """PAY-9: 409 with Retry-After, and never a second effect."""
    client = _client(caller)
    taken, over = threading.Event(), threading.Event()

    def first():
        request = factories.a_request(
            customer_ref="C12345",
            idempotency_key=a_body()["idempotencyKey"],
            payment_token="tok_xxxxx",
            order_no=order_no,
        )
        try:
            with transaction.atomic():
                accepted = intake.accept_payment(client=client, order=request, at=now())
                taken.set()
                over.wait(20)
            return accepted.payment_id
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        running_first = other.submit(first)
        assert taken.wait(10)
        begun = time.monotonic()
        response = caller.pay(orderNo=order_no)
        waited = time.monotonic() - begun
        over.set()
        payment_id = running_first.result()

    problem_of(response, 409, "request_in_progress")
    assert response["Retry-After"] == "1"
    assert 1.5 < waited < 3.5
    assert content_of(caller.pay(orderNo=order_no))["paymentId"] == payment_id
    assert Payment.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_repeat_whose_first_is_rolled_back_is_the_first(caller):
    """K23: the claim and its effect share one transaction, so a crash between them leaves neither."""
    client = _client(caller)
    request = factories.a_request(idempotency_key=a_body()["idempotencyKey"])
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        intake.accept_payment(client=client, order=request, at=now())
        _ = 1 / 0

    response = caller.pay()

    assert response.status_code == 202
    assert "Idempotent-Replay" not in response


def _client(caller):
    from payments.api.authentication import hash_key
    from payments.models import ApiClient

    return ApiClient.objects.select_related("merchant").get(key_hash=hash_key(caller.key))
