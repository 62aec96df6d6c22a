"""QRY-4, PAY-9, PAY-11, K04, K05, K08, K10: several at once through a barrier, on real connections."""

import pytest
from django.db.models import QuerySet
from django.utils.timezone import now

from payments import confirmation, intake, submission
from payments.errors import OrderHasLivePayment
from payments.evidence import Outcome, Source
from payments.models import OutboxEvent, Payment
from tests.factories import NOW, a_payment, a_request, evidence, later
from tests.stack import SandboxBank
from tests.together import run_together

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 100


def on_its_way(client):
    payment = a_payment(client)
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    payment.save(update_fields=confirmation.STATE_FIELDS)
    return payment


def confirmed_by(payment, source):
    news = evidence(Outcome.SUCCEEDED, source=source, channel_txn_id=f"BANK-{payment.pk}")
    return lambda: confirmation.confirm_payment(payment_id=payment.pk, evidence=news)


def racing(payment):
    return run_together(
        *(confirmed_by(payment, source) for source in (Source.REPLY, Source.NOTIFICATION, Source.QUERY))
    )


def traces(payment):
    """How often a payment's success was written: changes, events."""
    return (
        payment.history.filter(event="succeeded").count(),
        OutboxEvent.objects.filter(subject_id=payment.pk, type="payment.succeeded").count(),
        payment.order.history.filter(event="paid").count(),
    )


def test_reply_notification_and_query_at_once_confirm_a_payment_once(client_of_merchant):
    """O09, O22: a hundred rounds, one transition, one change, one event each; the others are told it is done."""
    for _ in range(ROUNDS):
        payment = on_its_way(client_of_merchant)

        outcomes = racing(payment)

        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        assert sorted(outcome.moved for outcome in outcomes) == [False, False, True]
        assert traces(payment) == (1, 1, 1)


def test_without_the_lock_the_state_still_moves_once(client_of_merchant, monkeypatch):
    """The control: with the row locks taken away, stale copies are refused and the constraints hold."""
    monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **kwargs: self)
    refused = 0
    for _ in range(ROUNDS // 4):
        payment = on_its_way(client_of_merchant)

        outcomes = racing(payment)

        refused += sum(isinstance(outcome, Exception) for outcome in outcomes)
        assert traces(payment) == (1, 1, 1)
        payment.refresh_from_db()
        assert payment.state == "SUCCEEDED"
    assert refused > 0


def test_success_and_decline_at_once_leave_one_end_and_lose_no_money(client_of_merchant):
    """PAY-4: whichever comes first stands; money against a failure is a receipt, never a transition."""
    for _ in range(ROUNDS // 4):
        payment = on_its_way(client_of_merchant)
        decline = evidence(Outcome.DECLINED, source=Source.NOTIFICATION, code="E1001")

        run_together(
            confirmed_by(payment, Source.QUERY),
            lambda payment=payment, decline=decline: confirmation.confirm_payment(
                payment_id=payment.pk, evidence=decline
            ),
        )

        payment.refresh_from_db()
        if payment.state == "FAILED":
            assert payment.contradicted
            assert payment.receipts.count() == 1
        else:
            assert payment.state == "SUCCEEDED"
            assert not payment.receipts.exists()


def test_two_workers_send_a_payment_once(client_of_merchant, tmp_path):
    """O08"""
    bank = SandboxBank(tmp_path)
    channel = client_of_merchant.merchant.default_channel
    channel.settings |= {"base_url": bank.url}
    channel.save()
    try:
        for _ in range(20):
            payment = a_payment(client_of_merchant, at=now())

            run_together(*[lambda p=payment: submission.submit_payment(payment_id=p.pk, at=now())] * 4)

            (entry,) = bank.ledger(payment.pk)
            assert entry["timesReceived"] == 1
            payment.refresh_from_db()
            assert payment.state == "SUCCEEDED"
    finally:
        bank.stop()


def test_two_requests_for_one_order_at_once_make_one_payment(client_of_merchant):
    """PAY-11"""
    for number in range(30):

        def request(key, number=number):
            order = a_request(order_no=f"RACE-{number}", customer_ref="C", idempotency_key=f"{key}-{number}")
            return lambda: intake.accept_payment(client=client_of_merchant, order=order, at=now())

        outcomes = run_together(request("a"), request("b"), request("c"))

        kinds = sorted(type(outcome).__name__ for outcome in outcomes)
        assert kinds == ["Accepted", "OrderHasLivePayment", "OrderHasLivePayment"], outcomes
        (live,) = Payment.objects.filter(order__order_no=f"RACE-{number}")
        refusals = [outcome for outcome in outcomes if isinstance(outcome, OrderHasLivePayment)]
        assert {refusal.payment_id for refusal in refusals} == {live.pk}


def test_one_key_at_once_is_one_payment(client_of_merchant):
    """I1, PAY-9"""
    for number in range(20):
        order = a_request(idempotency_key=f"one-{number}", order_no=None)

        outcomes = run_together(
            *[lambda order=order: intake.accept_payment(client=client_of_merchant, order=order, at=now())] * 8
        )

        assert len({outcome.payment_id for outcome in outcomes}) == 1, outcomes
        assert sum(outcome.new for outcome in outcomes) == 1


def test_two_payments_confirmed_with_one_transaction_id_at_once(client_of_merchant):
    """PAY-12, O18: the loser's work commits too, as a case for people."""
    for number in range(20):
        first, second = on_its_way(client_of_merchant), on_its_way(client_of_merchant)
        news = evidence(Outcome.SUCCEEDED, channel_txn_id=f"CLASH-{number}")

        outcomes = run_together(
            *[
                lambda p=payment, news=news: confirmation.confirm_payment(payment_id=p.pk, evidence=news)
                for payment in (first, second)
            ]
        )

        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        first.refresh_from_db()
        second.refresh_from_db()
        assert sorted([first.state, second.state]) == ["REVIEW_REQUIRED", "SUCCEEDED"]
