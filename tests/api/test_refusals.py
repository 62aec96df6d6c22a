"""What an order and a customer's other payments forbid (PAY-7, PAY-11, PAY-17)."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils.timezone import now

from payments import confirmation, reference_data
from payments.evidence import Outcome, Source
from payments.models import Currency, Payment
from tests import factories
from tests.api.conftest import content_of, problem_of


def told(payment_id, outcome, *, at=None, **changes):
    """The channel's word about a payment that has been sent."""
    at = at or now()
    payment = Payment.objects.select_related("channel").get(pk=payment_id)
    if payment.state == Payment.State.QUEUED:
        payment.submit(at=at, ask_at=at, query_deadline=at)
        payment.save()
    evidence = factories.evidence(outcome, source=Source.QUERY, at=at, **changes)
    confirmation.confirm_payment(payment_id=payment_id, evidence=evidence)


def test_an_order_with_a_live_payment_takes_no_second_one(caller):
    """PAY-11: the 409 names the payment to look up."""
    live = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]

    refusal = problem_of(caller.pay(idempotencyKey="k2", orderNo="A-1"), 409, "order_has_live_payment")

    assert refusal["paymentId"] == live


def test_a_paid_order_takes_no_further_payment(caller):
    """PAY-11."""
    paid = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]
    told(paid, Outcome.SUCCEEDED)

    refusal = problem_of(caller.pay(idempotencyKey="k2", orderNo="A-1"), 409, "order_takes_no_payment")

    assert refusal["paymentId"] == paid


def test_a_declined_order_is_paid_again_with_a_new_key(caller):
    """PAY-11: FAILED is not live."""
    declined = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]
    told(declined, Outcome.DECLINED, code="E1001")

    again = caller.pay(idempotencyKey="k2", orderNo="A-1")

    assert again.status_code == 202
    assert content_of(again)["paymentId"] != declined
    page = content_of(caller.get("/payments?orderNo=A-1"))
    assert [payment["paymentId"] for payment in page["payments"]] == [content_of(again)["paymentId"], declined]


def test_the_key_of_a_declined_payment_still_means_that_payment(caller):
    """PAY-9: a repeat never pays again."""
    declined = content_of(caller.pay(orderNo="A-1"))["paymentId"]
    told(declined, Outcome.DECLINED, code="E1001")

    repeat = caller.pay(orderNo="A-1")

    assert repeat.status_code == 201
    assert (content_of(repeat)["paymentId"], content_of(repeat)["status"]) == (declined, "FAILED")


def test_an_order_with_an_open_contradiction_takes_no_payment(caller):
    """PAY-7: money was reported for a payment that had failed."""
    payment_id = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]
    told(payment_id, Outcome.DECLINED, code="E1001")
    told(payment_id, Outcome.SUCCEEDED)

    refusal = problem_of(caller.pay(idempotencyKey="k2", orderNo="A-1"), 409, "order_takes_no_payment")

    assert refusal["paymentId"] == payment_id
    assert "do not pay again" in refusal["detail"]


@pytest.mark.parametrize("changes", [{"amount": "127.99"}, {"amount": "128.01"}, {"amount": "128", "currency": "JPY"}])
def test_another_amount_than_the_orders_is_refused(caller, changes):
    """FND-4: the payer agreed to the order's amount."""
    declined = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]
    told(declined, Outcome.DECLINED, code="E1001")

    problem_of(caller.pay(idempotencyKey="k2", orderNo="A-1", **changes), 422, "order_amount_differs", "amount")


def test_without_order_number_a_second_payment_like_an_open_one_is_refused(caller):
    """PAY-17."""
    open_one = content_of(caller.pay(idempotencyKey="k1"))["paymentId"]

    refusal = problem_of(caller.pay(idempotencyKey="k2"), 409, "looks_like_second_payment")

    assert refusal["paymentId"] == open_one
    assert "intended" in refusal["detail"]


def test_a_second_payment_that_is_intended_is_accepted(caller):
    """PAY-17: with the key that was refused before."""
    caller.pay(idempotencyKey="k1")
    problem_of(caller.pay(idempotencyKey="k2"), 409)

    assert caller.pay(idempotencyKey="k2", intended=True).status_code == 202


@pytest.mark.parametrize("changes", [{"amount": "128.01"}, {"customerId": "C2"}, {"orderNo": "A-2"}])
def test_another_amount_customer_or_a_named_order_is_no_second_payment(caller, changes):
    """PAY-17."""
    caller.pay(idempotencyKey="k1")

    assert caller.pay(idempotencyKey="k2", **changes).status_code == 202


@pytest.mark.parametrize(("minutes", "status"), [(9, 409), (11, 202)])
def test_within_ten_minutes_of_a_success_a_payment_like_it_is_refused(caller, minutes, status):
    """PAY-17."""
    paid = content_of(caller.pay(idempotencyKey="k1"))["paymentId"]
    told(paid, Outcome.SUCCEEDED, at=now() - timedelta(minutes=minutes))

    assert caller.pay(idempotencyKey="k2").status_code == status


def test_after_a_decline_the_customer_may_pay_again_at_once(caller):
    """PAY-8, PAY-17."""
    declined = content_of(caller.pay(idempotencyKey="k1"))["paymentId"]
    told(declined, Outcome.DECLINED, code="E1001")

    assert caller.pay(idempotencyKey="k2").status_code == 202


def test_a_contradicted_payment_counts_as_open_for_the_guard(caller):
    """PAY-7, PAY-17."""
    payment_id = content_of(caller.pay(idempotencyKey="k1"))["paymentId"]
    told(payment_id, Outcome.DECLINED, code="E1001")
    told(payment_id, Outcome.SUCCEEDED)

    assert problem_of(caller.pay(idempotencyKey="k2"), 409)["paymentId"] == payment_id


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("changes", "accepted"),
    [({}, 1), ({"orderNo": "A-1"}, 1), ({"intended": True}, 2)],
    ids=["guarded", "order", "meant"],
)
def test_two_callers_at_once_do_not_pay_the_same_twice(caller, changes, accepted):
    """PAY-11, PAY-17: other keys, same customer and amount; the second sees the first. Meant ones both pass."""
    for round_ in range(5):
        barrier = threading.Barrier(2)

        def pay(key, round_=round_, barrier=barrier):
            try:
                barrier.wait()
                named = {"orderNo": f"A-{round_}"} if "orderNo" in changes else {}
                return caller.pay(idempotencyKey=key, customerId=f"C-{round_}", **changes | named)
            finally:
                connection.close()

        with ThreadPoolExecutor(2) as callers:
            answers = list(callers.map(pay, [f"a-{round_}", f"b-{round_}"]))

        assert sorted(answer.status_code for answer in answers) == ([202, 409] if accepted == 1 else [202, 202])
        assert Payment.objects.filter(customer_ref=f"C-{round_}").count() == accepted
        if accepted == 1:
            ids = {content_of(answer)["paymentId"] for answer in answers}
            assert len(ids) == 1


def test_replacing_a_payment_that_was_not_sent_cancels_it_and_starts_the_second(caller):
    """PAY-18."""
    first = content_of(caller.pay(idempotencyKey="k1", orderNo="A-1"))["paymentId"]

    second = content_of(caller.pay(idempotencyKey="k2", orderNo="A-1", replaces=first))

    assert second["replaces"] == first
    assert second["status"] == "PENDING"
    shown = content_of(caller.get(f"/payments/{first}"))
    assert (shown["status"], shown["cause"]) == ("CANCELLED", "REPLACED")
    assert "nothing was sent" in shown["words"]["en"]


@pytest.mark.parametrize("order_no", ["A-1", "A-2", None])
def test_only_the_live_payment_of_the_order_can_be_replaced(caller, order_no):
    """PAY-18."""
    caller.pay(idempotencyKey="k1", orderNo="A-1")

    problem_of(
        caller.pay(idempotencyKey="k2", orderNo=order_no, replaces="0" * 26), 409, "replacement_refused", "replaces"
    )


def test_an_order_is_paid_for_its_own_customer_only(caller):
    """A free order, after a decline: nobody else's request may take it over."""
    first = content_of(caller.pay(orderNo="A-1"))["paymentId"]
    told(first, Outcome.DECLINED)

    refused = caller.pay(orderNo="A-1", idempotencyKey="k2", customerId="SOMEBODY")

    assert refused.status_code == 422
    assert content_of(refused)["field"] == "customerId"


@pytest.mark.parametrize("what", ["channel", "currency"])
def test_a_repeat_finds_its_payment_although_its_channel_or_currency_takes_no_new_ones(caller, channel, what):
    """PAY-9: a refusal would say that nothing was stored, and the payer would pay elsewhere."""
    first = content_of(caller.pay())["paymentId"]
    row = channel if what == "channel" else Currency.objects.get(pk="CNY")
    row.enabled = False
    row.save()
    reference_data.forget()

    repeat = caller.pay()

    assert (repeat.status_code, content_of(repeat)["paymentId"]) == (202, first)
