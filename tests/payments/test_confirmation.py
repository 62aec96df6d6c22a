"""QRY-4, PAY-2 … PAY-4, PAY-12, FND-5, NTF-2: how each piece of evidence moves each state, and what it leaves behind."""

import itertools
from datetime import timedelta

import pytest

from payments import confirmation
from payments.evidence import Outcome, Source
from payments.models import Attention, Order, OutboxEvent, Payment, Receipt
from payments.money import Money
from tests.factories import NOW, a_payment, cny, evidence, later

pytestmark = pytest.mark.django_db
State, Cause = Payment.State, Payment.Cause


@pytest.fixture
def payment(client_of_merchant):
    """A payment on its way to the bank."""
    payment = a_payment(client_of_merchant)
    return put(payment, State.SUBMITTED)


def put(payment, state):
    """Lead a queued payment to a state by the paths of life."""
    if state == State.QUEUED:
        return payment
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    save(payment)
    if state == State.PENDING:
        tell(payment, Outcome.UNKNOWN, source=Source.REPLY)
    elif state == State.CANCEL_PENDING:
        payment.await_cancel(cause=Cause.REPLACED, at=NOW)
        save(payment)
    elif state == State.REVIEW_REQUIRED:
        tell(payment, Outcome.SUCCEEDED, amount=cny(129_00))
    elif state == State.SUCCEEDED:
        tell(payment, Outcome.SUCCEEDED)
    elif state == State.FAILED:
        tell(payment, Outcome.DECLINED)
    elif state == State.CANCELLED:
        tell(payment, Outcome.CANCELLED)
    return Payment.objects.select_related("order", "channel").get(pk=payment.pk)


def save(payment):
    payment.save(update_fields=confirmation.STATE_FIELDS)


def tell(payment, outcome, **changes):
    return confirmation.confirm_payment(payment_id=payment.pk, evidence=evidence(outcome, **changes))


def stands(payment):
    payment.refresh_from_db()
    return payment.state, payment.cause


def open_kinds(payment):
    return set(payment.attentions.filter(settled_at__isnull=True).values_list("kind", flat=True))


OPEN = (State.SUBMITTED, State.PENDING, State.CANCEL_PENDING)


@pytest.mark.parametrize(
    ("state", "source"),
    [
        *itertools.product(OPEN, [Source.REPLY, Source.QUERY, Source.NOTIFICATION, Source.STATEMENT]),
        *itertools.product([State.REVIEW_REQUIRED], [Source.REPLY, Source.QUERY, Source.STATEMENT]),
    ],
)
def test_confirmed_money_ends_every_open_state_in_success(client_of_merchant, state, source):
    payment = put(a_payment(client_of_merchant), state)

    tell(payment, Outcome.SUCCEEDED, source=source, at=later(minutes=1))

    assert stands(payment) == (State.SUCCEEDED, Cause.CONFIRMED)
    assert payment.captured == cny(128_00)
    assert payment.bank_transaction_id == "BANK-1"
    assert Order.objects.get(pk=payment.order_id).state == Order.State.PAID


@pytest.mark.parametrize("state", [*OPEN, State.REVIEW_REQUIRED])
@pytest.mark.parametrize(
    ("outcome", "end", "cause"),
    [
        (Outcome.DECLINED, State.FAILED, Cause.DECLINED),
        (Outcome.CANCELLED, State.CANCELLED, Cause.CANCELLED_BY_CHANNEL),
    ],
)
def test_a_confirmed_end_without_money_reopens_the_order(client_of_merchant, state, outcome, end, cause):
    payment = put(a_payment(client_of_merchant), state)

    tell(payment, outcome, code="E1001", message="余额不足")

    assert stands(payment) == (end, cause)
    assert Order.objects.get(pk=payment.order_id).state == Order.State.CREATED


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.PROCESSING])
def test_no_answer_is_unknown_and_never_failed(payment, outcome):
    """PAY-2"""
    tell(payment, outcome, source=Source.REPLY, code="READ_TIMEOUT")

    assert payment.pk
    assert stands(payment)[0] == State.PENDING
    assert payment.next_query_at == later(seconds=5)


def test_a_refusal_for_now_is_sent_again_later_under_the_same_reference(payment):
    tell(payment, Outcome.REFUSED, source=Source.REPLY, code="E0001", classification="TRANSIENT")

    assert stands(payment) == (State.QUEUED, Cause.CHANNEL_BUSY)
    assert payment.submit_due_at == later(seconds=1)
    assert payment.sent


def test_what_provably_never_left_is_queued_again(payment):
    tell(payment, Outcome.NOT_SENT, source=Source.REPLY, code="CONNECT_FAILED")

    assert stands(payment) == (State.QUEUED, Cause.NOT_SENT_YET)
    assert not payment.sent


@pytest.mark.parametrize(
    ("classification", "cause", "attention"),
    [("STRUCTURAL", Cause.REFUSED, {"STRUCTURAL_REFUSAL"}), ("SUSPECTED", Cause.SUSPECTED, {"SUSPECTED_REFUSAL"})],
)
def test_a_refusal_without_effect_fails_by_its_class(payment, classification, cause, attention):
    """PAY-3"""
    tell(payment, Outcome.REFUSED, source=Source.REPLY, code="E0003", classification=classification)

    assert stands(payment) == (State.FAILED, cause)
    assert open_kinds(payment) == attention


def test_a_code_nobody_has_classified_is_asked_about_first(payment):
    """SPL-4"""
    tell(payment, Outcome.REFUSED, source=Source.REPLY, code="E7777", classification="UNKNOWN", mapped=False)

    assert stands(payment) == (State.PENDING, Cause.UNMAPPED_CODE)
    assert open_kinds(payment) == {"UNMAPPED_CODE"}


class TestAbsence:
    """QRY-2: not found is final only by policy, and only after the window."""

    WINDOW = timedelta(seconds=900 + 31)

    def test_before_the_window_it_is_not_yet_visible(self, payment):
        at = NOW + self.WINDOW - timedelta(seconds=1)

        tell(payment, Outcome.NOT_FOUND, at=at)

        assert stands(payment)[0] == State.PENDING

    def test_after_the_window_it_proves_that_nothing_was_taken(self, payment):
        tell(payment, Outcome.NOT_FOUND, at=NOW + self.WINDOW)

        assert stands(payment) == (State.FAILED, Cause.ABSENT)

    def test_the_question_must_have_been_put_after_the_window(self, payment):
        tell(payment, Outcome.NOT_FOUND, at=NOW + self.WINDOW, asked_at=NOW + timedelta(seconds=899))

        assert stands(payment)[0] == State.PENDING

    def test_a_channel_whose_not_found_proves_nothing_is_asked_until_the_deadline(self, payment):
        payment.channel.not_found_is_final = False
        payment.channel.save()

        tell(payment, Outcome.NOT_FOUND, at=later(hours=23))
        assert stands(payment)[0] == State.PENDING

        tell(payment, Outcome.NOT_FOUND, at=later(days=1))
        assert stands(payment) == (State.REVIEW_REQUIRED, Cause.DEADLINE)
        assert open_kinds(payment) == {"PAYMENT_REVIEW"}

    def test_a_notification_or_reply_proves_no_absence(self, payment):
        tell(payment, Outcome.NOT_FOUND, source=Source.NOTIFICATION, at=NOW + self.WINDOW)

        assert stands(payment)[0] == State.PENDING


@pytest.mark.parametrize("outcome", [Outcome.NOT_FOUND, Outcome.UNKNOWN])
def test_an_early_question_does_not_disturb_a_request_under_way(payment, outcome):
    tell(payment, outcome, at=later(seconds=2))
    assert stands(payment)[0] == State.SUBMITTED

    tell(payment, Outcome.REFUSED, source=Source.REPLY, code="E0001", classification="TRANSIENT", at=later(seconds=3))
    assert stands(payment)[0] == State.QUEUED


def test_unknown_at_the_deadline_a_person_decides_and_asking_goes_on_daily(payment):
    """QRY-3, QRY-1"""
    tell(payment, Outcome.UNKNOWN, at=later(days=1, seconds=1))

    assert stands(payment) == (State.REVIEW_REQUIRED, Cause.DEADLINE)
    assert payment.next_query_at == later(days=2, seconds=1)


class TestOtherMoney:
    """FND-5 and NTF-2"""

    @pytest.mark.parametrize("source", [Source.REPLY, Source.QUERY])
    @pytest.mark.parametrize(
        ("amount", "cause", "attention"),
        [
            (cny(128_01), Cause.OVERCHARGED, "OVERCHARGE"),
            (cny(127_99), Cause.UNDERCHARGED, "PAYMENT_REVIEW"),
            (Money(128_00, "USD"), Cause.OTHER_CURRENCY, "PAYMENT_REVIEW"),
        ],
    )
    def test_the_channel_s_own_answer_puts_the_payment_under_review(self, payment, source, amount, cause, attention):
        tell(payment, Outcome.SUCCEEDED, source=source, amount=amount)

        assert stands(payment) == (State.REVIEW_REQUIRED, cause)
        assert payment.captured == amount
        assert payment.amount == cny(128_00)
        assert open_kinds(payment) == {attention}

    @pytest.mark.parametrize("amount", [cny(1), cny(30_00), Money(128_00, "USD"), None])
    def test_a_notification_only_makes_us_ask(self, payment, amount):
        for _ in range(3):
            tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION, amount=amount)

        assert stands(payment)[0] == State.SUBMITTED
        assert payment.next_query_at == NOW
        (attention,) = payment.attentions.all()
        assert (attention.kind, attention.times) == ("NOTIFICATION_MISMATCH", 3)

    def test_a_lying_decline_moves_nothing(self, payment):
        tell(payment, Outcome.DECLINED, source=Source.NOTIFICATION, amount=cny(5))

        assert stands(payment)[0] == State.SUBMITTED

    def test_the_channel_s_true_answer_settles_the_mismatch(self, payment):
        tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION, amount=cny(1))

        tell(payment, Outcome.SUCCEEDED)

        assert stands(payment)[0] == State.SUCCEEDED
        assert open_kinds(payment) == set()

    def test_out_of_review_leads_no_notification_but_the_question_it_causes(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.REVIEW_REQUIRED)

        tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION, at=later(minutes=1))

        assert stands(payment)[0] == State.REVIEW_REQUIRED
        assert payment.next_query_at == later(minutes=1)

    def test_review_ends_by_itself_when_the_channel_confirms_what_was_asked(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.REVIEW_REQUIRED)

        tell(payment, Outcome.SUCCEEDED)

        assert stands(payment)[0] == State.SUCCEEDED
        assert open_kinds(payment) == set()


def test_a_clash_of_transaction_ids_loses_nothing(client_of_merchant):
    """PAY-12"""
    put(a_payment(client_of_merchant), State.SUCCEEDED)
    second = put(a_payment(client_of_merchant), State.SUBMITTED)

    tell(second, Outcome.SUCCEEDED)

    assert stands(second) == (State.REVIEW_REQUIRED, Cause.TXN_ID_CLASH)
    (attention,) = second.attentions.all()
    assert attention.facts["channelTransactionId"] == "BANK-1"


def test_a_channel_may_repeat_its_transaction_ids_day_by_day(client_of_merchant, channel):
    """PAY-12, by policy; the day is the channel's own."""
    channel.txn_scope = "BUSINESS_DATE"
    channel.save()
    first, second = (put(a_payment(client_of_merchant), State.SUBMITTED) for _ in range(2))

    tell(first, Outcome.SUCCEEDED, completed_at=NOW)
    tell(second, Outcome.SUCCEEDED, completed_at=later(hours=14))

    assert stands(second)[0] == State.SUCCEEDED
    assert (first.txn_scope, second.txn_scope) == ("", "2026-09-02")


class TestAfterTheEnd:
    """PAY-4, K11: a final state never moves; what contradicts it is kept and raised."""

    @pytest.mark.parametrize("state", [State.SUCCEEDED, State.FAILED, State.CANCELLED])
    @pytest.mark.parametrize("outcome", list(Outcome))
    @pytest.mark.parametrize("source", list(Source))
    def test_no_news_moves_a_final_state(self, client_of_merchant, state, outcome, source):
        payment = put(a_payment(client_of_merchant), state)

        done = tell(payment, outcome, source=source, at=later(days=2))

        assert not done.moved
        assert stands(payment)[0] == state

    @pytest.mark.parametrize("state", [State.FAILED, State.CANCELLED])
    def test_money_for_a_dead_payment_is_a_receipt_and_an_alarm(self, client_of_merchant, state):
        payment = put(a_payment(client_of_merchant), state)

        for _ in range(3):
            tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION, at=later(hours=26))

        (receipt,) = Receipt.objects.all()
        assert (receipt.amount, receipt.channel_txn_id) == (cny(128_00), "BANK-1")
        payment.refresh_from_db()
        assert payment.contradicted
        (attention,) = payment.attentions.filter(kind="CONTRADICTION")
        assert attention.priority == 0
        assert OutboxEvent.objects.filter(type="payment.contradicted").count() == 1
        assert payment.history.filter(event="contradicted").count() == 1

    def test_a_second_transaction_for_one_payment_is_a_receipt(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUCCEEDED)

        tell(payment, Outcome.SUCCEEDED, channel_txn_id="BANK-2", source=Source.NOTIFICATION)

        assert Receipt.objects.get().channel_txn_id == "BANK-2"

    def test_the_same_news_again_changes_nothing(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUCCEEDED)
        before = payment.history.count(), OutboxEvent.objects.count()

        for source in (Source.REPLY, Source.QUERY, Source.NOTIFICATION):
            tell(payment, Outcome.SUCCEEDED, source=source)

        assert (payment.history.count(), OutboxEvent.objects.count()) == before
        assert not Receipt.objects.exists()
        assert not Attention.objects.exists()

    def test_a_late_failure_notice_for_a_paid_payment_is_asked_about_not_believed(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUCCEEDED)

        tell(payment, Outcome.DECLINED, source=Source.NOTIFICATION, at=later(minutes=5))
        payment.refresh_from_db()
        assert payment.next_query_at == later(minutes=5)

        tell(payment, Outcome.SUCCEEDED, at=later(minutes=6))
        payment.refresh_from_db()
        assert payment.next_query_at is None
        assert not payment.contradicted

    def test_a_channel_that_takes_its_word_back_is_a_contradiction(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUCCEEDED)

        tell(payment, Outcome.CANCELLED, at=later(minutes=5))

        payment.refresh_from_db()
        assert payment.contradicted
        assert not Receipt.objects.exists()


def test_a_payment_the_bank_knows_before_it_was_sent_is_never_sent(client_of_merchant):
    payment = a_payment(client_of_merchant)

    tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION)

    assert stands(payment) == (State.PENDING, Cause.KNOWN_ELSEWHERE)
    assert payment.next_query_at == NOW
    assert payment.submit_due_at is None


def test_each_move_leaves_one_change_and_one_event_with_the_evidence(payment):
    """AUD-1, EVT-1"""
    tell(payment, Outcome.UNKNOWN, source=Source.REPLY, reference="exchange:7", code="READ_TIMEOUT")
    tell(payment, Outcome.SUCCEEDED, reference="exchange:9")

    changes = list(payment.history.order_by("history_id").values_list("event", "source", "evidence", "reason"))
    assert changes[-2:] == [
        ("pending", "REPLY", "exchange:7", "READ_TIMEOUT"),
        ("succeeded", "QUERY", "exchange:9", ""),
    ]
    events = list(OutboxEvent.objects.filter(subject_id=payment.pk).order_by("pk").values_list("type", "sequence"))
    assert events[-2:] == [("payment.pending", 3), ("payment.succeeded", 4)]
