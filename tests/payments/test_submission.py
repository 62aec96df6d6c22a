"""PAY-2, PAY-14, PAY-16, FND-4, K09: sending over real HTTP, and never twice."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from payments import enquiry, submission
from payments.models import ChannelExchange, Payment
from payments.money import Money
from tests.factories import a_payment

pytestmark = pytest.mark.django_db
State, Cause = Payment.State, Payment.Cause


def paid_with(client, token, **changes):
    """A payment with a magic token, sent once."""
    payment = a_payment(client, at=now(), payment_token=token, **changes)
    submission.submit_payment(payment_id=payment.pk, at=now())
    payment.refresh_from_db()
    return payment


def booked(bank, payment):
    return [entry for entry in bank.ledger(payment.pk) if entry["status"] == "SUCCEEDED"]


@pytest.mark.parametrize(
    ("token", "state", "cause", "money_taken"),
    [
        ("tok_success", State.SUCCEEDED, Cause.CONFIRMED, 1),
        ("tok_decline", State.FAILED, Cause.DECLINED, 0),
        ("tok_drop", State.PENDING, Cause.NO_ANSWER, 1),
        ("tok_lost", State.PENDING, Cause.NO_ANSWER, 0),
        ("tok_502", State.PENDING, Cause.NO_ANSWER, 1),
        ("tok_slow", State.PENDING, Cause.NO_ANSWER, 1),
        ("tok_garbage", State.PENDING, Cause.NO_ANSWER, 1),
        ("tok_wrong_signature", State.PENDING, Cause.NO_ANSWER, 1),
        ("tok_processing", State.PENDING, Cause.PROCESSING, 0),
        ("tok_busy", State.QUEUED, Cause.CHANNEL_BUSY, 0),
        ("tok_two_faced", State.FAILED, Cause.REFUSED, 0),
        ("tok_unmapped", State.PENDING, Cause.UNMAPPED_CODE, 0),
        ("tok_overcharge", State.REVIEW_REQUIRED, Cause.OVERCHARGED, 1),
        ("tok_short", State.REVIEW_REQUIRED, Cause.UNDERCHARGED, 1),
    ],
)
def test_the_first_answer_is_judged_for_what_it_proves(client_at_bank, bank, token, state, cause, money_taken):
    payment = paid_with(client_at_bank, token)

    assert (payment.state, payment.cause) == (state, cause)
    assert len(booked(bank, payment)) == money_taken


@pytest.mark.parametrize("token", ["tok_drop", "tok_502", "tok_slow", "tok_garbage"])
def test_a_question_finds_what_a_lost_answer_hid(client_at_bank, bank, token):
    payment = paid_with(client_at_bank, token)

    enquiry.ask(payment_id=payment.pk, at=now())

    payment.refresh_from_db()
    (entry,) = booked(bank, payment)
    assert payment.state == State.SUCCEEDED
    assert payment.bank_transaction_id == entry["bankTransactionId"]
    assert entry["timesReceived"] == 1


def test_a_refused_connection_is_not_sent_and_goes_again_under_the_same_reference(client_at_bank, bank):
    """K09 O20"""
    bank.control("POST", "/control/outage", {"kind": "refuse", "seconds": 60})
    payment = paid_with(client_at_bank, "tok_success")
    assert (payment.state, payment.cause, payment.sent) == (State.QUEUED, Cause.NOT_SENT_YET, False)

    bank.control("DELETE", "/control/outage")
    submission.submit_payment(payment_id=payment.pk, at=now())

    payment.refresh_from_db()
    assert payment.state == State.SUCCEEDED
    assert len(booked(bank, payment)) == 1


def test_a_connection_reset_is_unknown_because_a_byte_may_have_left(client_at_bank, bank):
    bank.control("POST", "/control/outage", {"kind": "reset", "seconds": 60})

    payment = paid_with(client_at_bank, "tok_success")

    assert (payment.state, payment.cause) == (State.PENDING, Cause.NO_ANSWER)
    bank.control("DELETE", "/control/outage")


def test_a_repeated_submission_sends_nothing(client_at_bank, bank):
    """K01"""
    payment = paid_with(client_at_bank, "tok_drop")

    for _ in range(3):
        submission.submit_payment(payment_id=payment.pk, at=now())

    assert bank.ledger(payment.pk)[0]["timesReceived"] == 1
    assert ChannelExchange.objects.filter(payment=payment, operation="pay", kind="REQUEST").count() == 1


def test_request_and_reply_are_kept_with_latency_and_outcome(client_at_bank):
    """PAY-15"""
    payment = paid_with(client_at_bank, "tok_decline")

    request, reply = ChannelExchange.objects.filter(payment=payment).order_by("pk")
    assert request.reference == payment.pk
    assert (reply.outcome, reply.code, reply.classification) == ("DECLINED", "E1001", "STRUCTURAL")
    assert reply.latency_ms > 0
    assert payment.pk in request.body


def test_a_payment_not_sent_within_its_limit_is_cancelled_and_its_order_free(client_at_bank, bank):
    """PAY-16"""
    payment = a_payment(client_at_bank, at=now())
    after = now() + timedelta(seconds=901)

    submission.submit_payment(payment_id=payment.pk, at=after)

    payment.refresh_from_db()
    assert (payment.state, payment.cause) == (State.CANCELLED, Cause.NEVER_SENT)
    assert payment.order.state == "CREATED"
    assert bank.ledger(payment.pk) == []


def test_the_sweep_applies_the_send_limit_to_what_no_worker_sends(client_at_bank):
    """PAY-16"""
    payment = a_payment(client_at_bank, at=now())
    before, after = now() + timedelta(seconds=899), now() + timedelta(seconds=901)
    assert submission.find_unsent(at=before) == []

    assert submission.find_unsent(at=after) == [payment.pk]
    submission.cancel_if_unsent(payment_id=payment.pk, at=before)
    payment.refresh_from_db()
    assert payment.state == State.QUEUED

    submission.cancel_if_unsent(payment_id=payment.pk, at=after)
    payment.refresh_from_db()
    assert payment.state == State.CANCELLED


def test_what_left_once_is_asked_about_before_it_is_given_up(client_at_bank, bank):
    """PAY-16: refused for now, then over the limit: the bank is asked, nothing is called cancelled."""
    payment = paid_with(client_at_bank, "tok_busy")

    submission.cancel_if_unsent(payment_id=payment.pk, at=now() + timedelta(seconds=901))

    payment.refresh_from_db()
    assert payment.state == State.PENDING
    assert payment.next_query_at is not None


@pytest.mark.parametrize(("fee_bps", "state"), [(0, State.SUCCEEDED), (1, State.CANCELLED)])
def test_amount_and_highest_fee_never_exceed_what_the_payer_agreed_to(client_at_bank, bank, fee_bps, state):
    """FND-4"""
    client_at_bank.merchant.default_channel.payer_fee_bps = fee_bps
    client_at_bank.merchant.default_channel.save()

    payment = paid_with(client_at_bank, "tok_success")

    assert payment.state == state
    assert len(booked(bank, payment)) == (1 if state == State.SUCCEEDED else 0)
    if state == State.CANCELLED:
        assert payment.cause == Cause.AMOUNT_REVIEW
        assert payment.attentions.get().kind == "AMOUNT_STOPPED"


def test_a_reply_for_another_reference_proves_nothing_and_alarms(client_at_bank, bank):
    bank.faults({"match": {"operation": "pay"}, "effects": {"other_reference": True}})

    payment = paid_with(client_at_bank, "tok_plain")

    assert payment.state == State.PENDING
    assert payment.attentions.get().kind == "REPLY_MISMATCH"


def test_not_found_about_another_reference_proves_nothing(client_at_bank, bank):
    """QRY-2, K09"""
    payment = paid_with(client_at_bank, "tok_lost")
    bank.faults({"match": {"operation": "query"}, "effects": {"other_reference": True}})

    enquiry.ask(payment_id=payment.pk, at=now() + timedelta(hours=1))

    payment.refresh_from_db()
    assert payment.state == State.PENDING
    assert payment.attentions.get().kind == "REPLY_MISMATCH"


@pytest.mark.parametrize(
    ("currency", "minor"), [("JPY", 80), ("KRW", 1000), ("KWD", 1234), ("IDR", 10_000_00), ("CNY", 1)]
)
def test_the_bank_is_asked_for_the_true_amount_in_every_currency(client_at_bank, bank, currency, minor):
    """K13 O31"""
    payment = paid_with(client_at_bank, "tok_success", amount=Money(minor, currency))

    (entry,) = booked(bank, payment)
    assert payment.captured == Money(minor, currency)
    assert entry["amount"] == {"value": str(Money(minor, currency).major), "currency": currency}


def test_claims_lease_and_respect_the_channel_s_rate(client_at_bank):
    """K17 and the channel's rate limit, across callers: the permits are one shared row."""
    channel = client_at_bank.merchant.default_channel
    channel.rate_per_s = 3
    channel.save()
    for _ in range(5):
        a_payment(client_at_bank, at=now())

    first = submission.claim_due(channel=channel, limit=10, at=now())
    second = submission.claim_due(channel=channel, limit=10, at=now())

    assert len(first) == 3
    assert second == []


def test_a_lost_lease_comes_due_again(client_at_bank):
    payment = a_payment(client_at_bank, at=now())
    channel = payment.channel
    assert submission.claim_due(channel=channel, limit=10, at=now()) == [payment.pk]
    assert submission.claim_due(channel=channel, limit=10, at=now()) == []

    assert submission.claim_due(channel=channel, limit=10, at=now() + timedelta(seconds=61)) == [payment.pk]
