"""Safe to pay again? It fails closed: 10,000 generated situations against an oracle written from the promise."""

from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payments import confirmation, submission, verdict
from payments.evidence import Outcome, Source
from payments.models import Channel, ChannelHealth, Order, Payment
from payments.verdict import Answer
from payments.words import public_status, words_for
from tests.factories import NOW, a_payment, evidence, later

State, Cause = Payment.State, Payment.Cause
CHANNEL = Channel(code="bank", adapter="bank", verdict_freshness_s=60, not_found_window_s=900)

moments = st.integers(-3000, 0).map(lambda seconds: NOW + timedelta(seconds=seconds))
maybe = st.none() | moments


@dataclass
class Case:
    payment: Payment
    order: Order
    others: list[Payment]
    health: ChannelHealth | None


@st.composite
def attempts(draw):
    state = draw(st.sampled_from(list(State)))
    payment = Payment(
        channel=CHANNEL,
        amount_minor=1,
        currency_id="CNY",
        state_since=NOW,
        accepted_at=NOW,
        cause=draw(st.sampled_from(list(Cause))),
        contradicted=draw(st.booleans()),
        sent=draw(st.booleans()),
        submitted_at=draw(maybe),
        answered_at=draw(maybe),
        completed_at=draw(moments) if state in Payment.FINAL else None,
    )
    payment.__dict__["state"] = state
    return payment


@st.composite
def cases(draw):
    payment = draw(attempts())
    order = Order(order_no="A", currency_id="CNY", payable_minor=1)
    order.__dict__["state"] = draw(st.sampled_from(list(Order.State)))
    others = []
    for _ in range(draw(st.integers(0, 2))):
        others.append(draw(attempts()))
    health = draw(st.none() | st.builds(ChannelHealth, answered_at=maybe, failed_at=maybe))
    return Case(payment, order, others, health)


def may_be_yes(case, at):
    """The oracle: every condition under which nothing was taken and nothing can be taken any more."""
    payment, everyone = case.payment, [case.payment, *case.others]
    if any(p.contradicted or p.state == State.SUCCEEDED or p.state not in Payment.FINAL for p in everyone):
        return False
    if case.order.state not in (Order.State.CREATED, Order.State.PAYING):
        return False
    if any(may_still_take_money(attempt, at) for attempt in everyone):
        return False
    if never_left(payment):
        return True
    health = case.health
    if health and health.failed_at:
        silence = timedelta(seconds=5)
        if not health.answered_at or health.failed_at - health.answered_at > silence:
            return False
    return payment.answered_at is not None and at - payment.answered_at < timedelta(seconds=60)


def never_left(payment):
    return not payment.sent and payment.cause in (Cause.NEVER_SENT, Cause.REPLACED, Cause.AMOUNT_REVIEW)


def may_still_take_money(payment, at):
    """An end that rests on absence or on a refusal of our request: money may turn up within the channel's window."""
    if never_left(payment) or payment.cause in (Cause.DECLINED, Cause.REFUSED) or payment.submitted_at is None:
        return False
    return at < payment.submitted_at + timedelta(seconds=900)


@settings(max_examples=10_000, deadline=None, derandomize=True)
@given(case=cases(), wait=st.integers(0, 300))
def test_a_yes_is_given_exactly_when_the_promise_allows_it(case, wait):
    at = NOW + timedelta(seconds=wait)

    judged = verdict.judge(payment=case.payment, order=case.order, others=case.others, health=case.health, at=at)

    assert (judged.answer is Answer.YES) == may_be_yes(case, at)
    if judged.answer is Answer.YES:
        assert judged.valid_until > at


@pytest.mark.django_db
class TestOfRealPayments:
    def declined(self, client):
        payment = a_payment(client)
        payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
        payment.save()
        confirmation.confirm_payment(
            payment_id=payment.pk, evidence=evidence(Outcome.DECLINED, source=Source.REPLY, code="E1001")
        )
        return Payment.objects.select_related("order", "channel").get(pk=payment.pk)

    def test_a_declined_payment_may_be_paid_again_until_the_answer_has_aged(self, client_of_merchant):
        payment = self.declined(client_of_merchant)

        fresh = verdict.safe_to_pay_again(payment=payment, at=later(seconds=59))
        aged = verdict.safe_to_pay_again(payment=payment, at=later(seconds=60))

        assert (fresh.answer, fresh.rule, fresh.valid_until) == (Answer.YES, "declined", later(seconds=60))
        assert (aged.answer, aged.rule) == (Answer.NOT_YET, "bank-answer-too-old")

    def test_please_pay_again_is_said_only_after_an_explicit_decline(self, client_of_merchant):
        """PAY-8"""
        payment = self.declined(client_of_merchant)
        assert "pay again" in words_for(payment, answer="YES").en
        assert "重新支付" in words_for(payment, answer="YES").zh
        for answer in ("NO", "NOT_YET"):
            assert "Please pay again" not in words_for(payment, answer=answer).en

        for cause in (Cause.ABSENT, Cause.SUSPECTED):
            payment.cause = cause
            assert "pay again" not in words_for(payment, answer="YES").en
            assert "重新支付" not in words_for(payment, answer="YES").zh

    def test_a_contradicted_payment_is_open_to_callers(self, client_of_merchant):
        """PAY-7"""
        payment = self.declined(client_of_merchant)
        confirmation.confirm_payment(payment_id=payment.pk, evidence=evidence(Outcome.SUCCEEDED, at=later(seconds=5)))
        payment.refresh_from_db()

        judged = verdict.safe_to_pay_again(payment=payment, at=later(seconds=6))

        assert public_status(payment) == "PENDING"
        assert "Please do not pay again" in words_for(payment, answer="NOT_YET").en
        assert judged.answer is Answer.NOT_YET

    def test_never_sent_is_said_as_nothing_was_sent(self, client_of_merchant):
        """PAY-16"""
        payment = a_payment(client_of_merchant)
        submission.cancel_if_unsent(payment_id=payment.pk, at=later(minutes=16))
        payment.refresh_from_db()

        assert "nothing was sent" in words_for(payment, answer="NOT_YET").en
        assert verdict.safe_to_pay_again(payment=payment, at=later(minutes=16)).answer is Answer.YES
