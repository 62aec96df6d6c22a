"""QRY-1 … QRY-6: everything open is asked, by due times in the rows."""

from datetime import timedelta

import pytest
from django.utils.timezone import now

from payments import enquiry, submission
from payments.errors import AskedJustNow, NothingToAsk
from payments.models import ChannelExchange, Payment
from tests.factories import a_payment

pytestmark = pytest.mark.django_db
State, Cause = Payment.State, Payment.Cause


def sent(client, token):
    payment = a_payment(client, at=now(), payment_token=token)
    submission.submit_payment(payment_id=payment.pk, at=now())
    payment.refresh_from_db()
    return payment


def test_questions_back_off_by_the_channel_s_policy(client_at_bank, bank):
    """QRY-1"""
    payment = sent(client_at_bank, "tok_processing")
    channel = payment.channel
    waits = []
    for _ in range(8):
        payment.refresh_from_db()
        waits.append(round((payment.next_query_at - (payment.answered_at or now())).total_seconds()))
        assert enquiry.claim_due(channel=channel, limit=5, at=payment.next_query_at) == [payment.pk]
        enquiry.ask(payment_id=payment.pk, at=now())

    assert waits == [5, 15, 45, 120, 300, 600, 1800, 1800]


def test_a_request_stranded_by_a_crash_is_asked_about(client_at_bank, bank):
    """PAY-14: SUBMITTED, and nothing heard of it."""
    payment = a_payment(client_at_bank, at=now())
    submission._prepare(payment_id=payment.pk, at=now())
    due = now() + timedelta(seconds=10)

    assert enquiry.claim_due(channel=payment.channel, limit=5, at=now()) == []
    assert enquiry.claim_due(channel=payment.channel, limit=5, at=due) == [payment.pk]
    enquiry.ask(payment_id=payment.pk, at=due)

    payment.refresh_from_db()
    assert payment.state in (State.SUBMITTED, State.PENDING)
    assert payment.next_query_at is not None


def test_a_person_may_ask_now_and_is_named(client_at_bank, bank):
    """QRY-5"""
    payment = sent(client_at_bank, "tok_drop")

    enquiry.ask_now(payment_id=payment.pk, actor="user:ada", at=now())

    payment.refresh_from_db()
    assert payment.state == State.SUCCEEDED
    assert set(ChannelExchange.objects.filter(operation="query").values_list("actor", flat=True)) == {"user:ada"}
    assert payment.history.order_by("history_id").last().actor == "user:ada"


def test_asking_again_at_once_is_refused(client_at_bank):
    payment = sent(client_at_bank, "tok_processing")
    enquiry.ask_now(payment_id=payment.pk, actor="user:ada", at=now())

    with pytest.raises(AskedJustNow):
        enquiry.ask_now(payment_id=payment.pk, actor="user:bob", at=now())


def test_what_was_never_sent_cannot_be_asked_about(client_at_bank):
    with pytest.raises(NothingToAsk):
        enquiry.ask_now(payment_id=a_payment(client_at_bank, at=now()).pk, actor="user:ada", at=now())


def test_unknown_for_too_long_opens_one_attention_and_asking_goes_on(client_at_bank):
    """QRY-3"""
    payment = sent(client_at_bank, "tok_processing")
    at = now() + timedelta(minutes=31)

    assert [enquiry.raise_overdue(at=at), enquiry.raise_overdue(at=at)] == [1, 0]

    payment.refresh_from_db()
    assert payment.attentions.get().kind == "UNKNOWN_TOO_LONG"
    assert payment.next_query_at is not None


def test_an_open_payment_without_any_plan_is_found_and_raised(client_at_bank):
    """Promise 3"""
    payment = sent(client_at_bank, "tok_processing")
    assert enquiry.check_open_things(at=now()) == 0
    Payment.objects.filter(pk=payment.pk).update(next_query_at=None)

    assert enquiry.check_open_things(at=now()) == 1
    assert payment.attentions.get().kind == "STRANDED"


def test_a_failed_answer_plans_the_next_question(client_at_bank, bank):
    payment = sent(client_at_bank, "tok_drop")
    bank.faults({"match": {"operation": "query"}, "effects": {"drop": "before"}})

    enquiry.ask(payment_id=payment.pk, at=now())

    payment.refresh_from_db()
    assert payment.state == State.PENDING
    assert payment.next_query_at > now()
    assert payment.answered_at is None


class TestReplacement:
    """PAY-18: a payer who changes the channel never pays twice."""

    def replace(self, client, first):
        return a_payment(
            client,
            at=now(),
            order_no=first.order.order_no,
            customer_ref=first.customer_ref,
            payment_token="tok_success",
            replaces=first.pk,
        )

    def test_a_payment_that_never_left_is_closed_at_once(self, client_at_bank):
        first = a_payment(client_at_bank, at=now())

        second = self.replace(client_at_bank, first)

        first.refresh_from_db()
        assert (first.state, first.cause) == (State.CANCELLED, Cause.REPLACED)
        assert second.state == State.QUEUED

    def test_the_second_waits_until_the_bank_confirms_the_close(self, client_at_bank, bank):
        first = sent(client_at_bank, "tok_processing")

        second = self.replace(client_at_bank, first)
        first.refresh_from_db()
        assert (first.state, second.state) == (State.CANCEL_PENDING, State.CREATED)

        enquiry.ask(payment_id=first.pk, at=now())
        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.state, second.state) == (State.CANCELLED, State.QUEUED)
        assert {entry["status"] for entry in bank.ledger(first.pk)} == {"CANCELLED"}

    def test_if_the_first_succeeds_after_all_the_second_is_never_sent(self, client_at_bank, bank):
        first = sent(client_at_bank, "tok_drop")

        second = self.replace(client_at_bank, first)
        enquiry.ask(payment_id=first.pk, at=now())

        first.refresh_from_db()
        second.refresh_from_db()
        assert first.state == State.SUCCEEDED
        assert (second.state, second.cause) == (State.CANCELLED, Cause.NEVER_SENT)

    def test_a_payment_refused_for_now_is_asked_about_and_closed_never_sent_again(self, client_at_bank, bank):
        first = sent(client_at_bank, "tok_busy")
        assert (first.state, first.sent) == (State.QUEUED, True)

        second = self.replace(client_at_bank, first)
        first.refresh_from_db()
        assert (first.state, second.state) == (State.CANCEL_PENDING, State.CREATED)

        enquiry.ask(payment_id=first.pk, at=now() + timedelta(hours=1))
        first.refresh_from_db()
        second.refresh_from_db()
        assert first.state in (State.FAILED, State.CANCELLED)
        assert second.state == State.QUEUED

    def test_a_refused_close_leaves_the_question_open(self, client_at_bank, bank):
        first = sent(client_at_bank, "tok_processing")
        second = self.replace(client_at_bank, first)
        bank.faults({"match": {"operation": "cancel"}, "effects": {"cancel_refused": "E2001"}})

        enquiry.ask(payment_id=first.pk, at=now())

        first.refresh_from_db()
        second.refresh_from_db()
        assert (first.state, first.cause) == (State.PENDING, Cause.CANCEL_REFUSED)
        assert second.state == State.CREATED
        assert first.next_query_at <= now()
