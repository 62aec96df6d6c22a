"""PAY-4, PAY-7, QRY-2, NTF-2: what the channel has once shown to know is never declared absent, news that would free an order
is asked about before it is believed, and while two stories are told nothing more is sent."""

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils.timezone import now

from payments import enquiry, intake, notifications, submission, verdict
from payments.channels.bank import BankChannel
from payments.channels.http import HttpReply
from payments.channels.protocol import ChannelRequest
from payments.errors import ChannelNotUsable, ReplacementRefused
from payments.evidence import Outcome, Source
from payments.models import Attention, ChannelExchange, InboundNotification, Payment
from payments.models.fields import new_id
from payments.units import constraint_of
from payments.verdict import Answer
from payments.words import words_for
from tests import factories
from tests.factories import NOW, a_payment, a_request, cny, later
from tests.payments.test_confirmation import open_kinds, put, stands, tell
from tests.payments.test_notifications import deliver, news

pytestmark = pytest.mark.django_db
State, Cause = Payment.State, Payment.Cause
AFTER_THE_WINDOW = later(minutes=20)


def again(payment):
    return Payment.objects.select_related("channel", "order").get(pk=payment.pk)


def another(first, client, **changes):
    """A further payment of the same order."""
    return a_payment(client, customer_ref=first.customer_ref, order_no=first.order.order_no, **changes)


def replacing(first, client):
    request = a_request(customer_ref=first.customer_ref, order_no=first.order.order_no, replaces=first.pk)
    return Payment.objects.get(pk=intake.accept_payment(client=client, order=request, at=NOW).payment_id)


def answer(payment, at):
    return verdict.safe_to_pay_again(payment=again(payment), at=at).answer


class TestNotFoundAfterKnowledge:
    """QRY-2: absence is proven only of what nobody has ever heard of."""

    def test_a_reply_said_that_it_is_processing(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUBMITTED)
        tell(payment, Outcome.PROCESSING, source=Source.REPLY, at=later(seconds=1))

        tell(payment, Outcome.NOT_FOUND, at=AFTER_THE_WINDOW)

        assert stands(payment)[0] == State.PENDING

    def test_a_notification_came_before_it_was_sent(self, client_of_merchant):
        payment = a_payment(client_of_merchant)
        deliver(payment.channel, news(payment.pk))
        notifications.apply_due(at=NOW)

        tell(payment, Outcome.NOT_FOUND, at=AFTER_THE_WINDOW)

        assert stands(payment) == (State.PENDING, Cause.KNOWN_ELSEWHERE)

    def test_a_notification_spoke_of_other_money(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUBMITTED)
        tell(payment, Outcome.SUCCEEDED, source=Source.NOTIFICATION, amount=cny(129_00), at=later(seconds=1))

        tell(payment, Outcome.NOT_FOUND, at=AFTER_THE_WINDOW)

        assert stands(payment)[0] == State.PENDING
        assert answer(payment, later(minutes=20, seconds=1)) is not Answer.YES

    def test_money_was_found_in_a_review_at_the_deadline(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.PENDING)
        tell(payment, Outcome.UNKNOWN, at=later(days=2))

        tell(payment, Outcome.SUCCEEDED, at=later(days=3), amount=cny(200_00))
        assert stands(payment) == (State.REVIEW_REQUIRED, Cause.OVERCHARGED)
        assert payment.captured == cny(200_00)
        assert "OVERCHARGE" in open_kinds(payment)

        tell(payment, Outcome.NOT_FOUND, at=later(days=4))
        assert stands(payment)[0] == State.REVIEW_REQUIRED


class TestNoMoneyByNotification:
    """NTF-2: an order is free again only when the channel says so in answer to our question."""

    @pytest.mark.parametrize("status", ["DECLINED", "CANCELLED"])
    def test_it_is_asked_about_first(self, client_of_merchant, status):
        payment = put(a_payment(client_of_merchant), State.PENDING)
        deliver(payment.channel, news(payment.pk, status=status, bankTransactionId=None))

        notifications.apply_due(at=NOW)

        assert stands(payment)[0] == State.PENDING
        assert payment.next_query_at == NOW
        assert answer(payment, later(seconds=1)) is Answer.NOT_YET

    def test_the_channel_s_own_answer_then_ends_it(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.PENDING)
        deliver(payment.channel, news(payment.pk, status="DECLINED", bankTransactionId=None))
        notifications.apply_due(at=NOW)

        tell(payment, Outcome.DECLINED, code="E1001", at=later(seconds=1))

        assert stands(payment) == (State.FAILED, Cause.DECLINED)
        assert open_kinds(payment) == set()


@pytest.mark.parametrize("operation", ["refund", "cancel", "transfer"])
@pytest.mark.parametrize("status", ["SUCCEEDED", "DECLINED"])
def test_news_of_another_operation_is_never_applied_to_a_payment(client_of_merchant, operation, status):
    """K14: kept and raised."""
    payment = put(a_payment(client_of_merchant), State.PENDING)
    deliver(payment.channel, news(payment.pk, operation=operation, status=status, bankTransactionId="BANK-R1"))

    notifications.apply_due(at=NOW)

    assert stands(payment)[0] == State.PENDING
    assert InboundNotification.objects.get().state == "MISMATCH"
    assert Attention.objects.get().kind == "NOTIFICATION_UNKNOWN"


def test_success_without_a_transaction_id_is_asked_about(client_of_merchant):
    """PAY-12"""
    payment = put(a_payment(client_of_merchant), State.SUBMITTED)
    deliver(payment.channel, news(payment.pk, bankTransactionId=None))
    notifications.apply_due(at=NOW)
    assert stands(payment)[0] == State.SUBMITTED

    tell(payment, Outcome.SUCCEEDED, source=Source.REPLY, at=later(seconds=2))

    assert stands(payment)[0] == State.SUCCEEDED
    assert not payment.contradicted


@pytest.mark.parametrize(
    "moment", ["0001-01-01T00:00:00+08:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"]
)
def test_a_date_that_no_clock_shows_is_no_date(client_of_merchant, moment):
    payment = put(a_payment(client_of_merchant), State.SUBMITTED)
    deliver(payment.channel, news(payment.pk, completedAt=moment))

    notifications.apply_due(at=NOW)

    assert again(payment).state == State.SUCCEEDED
    assert again(payment).completed_at == NOW


class TestWhileTwoStoriesAreTold:
    """PAY-4, PAY-7"""

    def test_a_payment_already_queued_is_not_sent(self, client_of_merchant):
        first = put(a_payment(client_of_merchant), State.FAILED)
        second = another(first, client_of_merchant, at=later(minutes=1))
        tell(first, Outcome.SUCCEEDED, at=later(minutes=2))

        payment, request, _ = submission._prepare(payment_id=second.pk, at=later(minutes=3))

        assert request is None
        assert (payment.state, payment.cause) == (State.CANCELLED, Cause.NEVER_SENT)

    def test_a_waiting_replacement_is_not_let_go(self, client_of_merchant):
        first = put(a_payment(client_of_merchant), State.FAILED)
        second = put(another(first, client_of_merchant, at=NOW), State.SUBMITTED)
        third = replacing(second, client_of_merchant)
        tell(first, Outcome.SUCCEEDED, at=later(minutes=2))

        tell(second, Outcome.CANCELLED, at=later(minutes=3))

        assert again(third).state == State.CANCELLED

    def test_the_database_takes_no_payment_for_the_order(self, client_of_merchant):
        first = put(a_payment(client_of_merchant), State.FAILED)
        tell(first, Outcome.SUCCEEDED, at=later(minutes=2))
        copy = Payment.objects.get(pk=first.pk)
        values = {field.attname: getattr(copy, field.attname) for field in Payment._meta.concrete_fields}
        values |= {"id": new_id(), "state": "QUEUED", "contradicted": False, "completed_at": None}

        with pytest.raises(DatabaseError) as error, transaction.atomic():
            Payment(**values).save(force_insert=True)

        assert constraint_of(error.value) == "contradicted_order_takes_no_payment"

    def test_a_dead_payment_that_is_being_processed_is_a_contradiction(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.PENDING)
        tell(payment, Outcome.NOT_FOUND, at=AFTER_THE_WINDOW)
        assert stands(payment) == (State.FAILED, Cause.ABSENT)

        tell(payment, Outcome.PROCESSING, at=later(minutes=25))

        assert again(payment).contradicted
        assert answer(payment, later(minutes=25, seconds=1)) is Answer.NOT_YET

    def test_it_ends_when_the_channel_confirms_our_end_after_all(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.FAILED)
        tell(payment, Outcome.PROCESSING, at=later(minutes=1))
        assert again(payment).contradicted

        tell(payment, Outcome.DECLINED, at=later(minutes=2))

        assert not again(payment).contradicted
        assert open_kinds(payment) == set()
        assert answer(payment, later(minutes=2, seconds=1)) is Answer.YES

    def test_money_that_came_is_not_confirmed_away(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.FAILED)
        tell(payment, Outcome.SUCCEEDED, at=later(minutes=1))

        tell(payment, Outcome.DECLINED, at=later(minutes=2))

        assert again(payment).contradicted

    def test_money_of_no_amount_is_no_receipt_but_told(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.FAILED)

        tell(payment, Outcome.SUCCEEDED, amount=cny(0), at=later(minutes=1))

        assert again(payment).contradicted
        assert not payment.receipts.exists()

    def test_failure_news_about_a_paid_payment_stays_until_the_channel_confirms_it(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.SUCCEEDED)
        deliver(payment.channel, news(payment.pk, status="DECLINED"))
        notifications.apply_due(at=NOW)

        tell(payment, Outcome.NOT_FOUND, at=later(minutes=1))
        assert open_kinds(payment) == {"NOTIFICATION_MISMATCH"}
        assert again(payment).next_query_at is not None

        tell(payment, Outcome.SUCCEEDED, at=later(minutes=2))
        assert open_kinds(payment) == set()
        assert again(payment).next_query_at is None


class TestReplacing:
    """PAY-18"""

    def test_what_is_with_a_person_is_not_replaced(self, client_of_merchant):
        payment = put(a_payment(client_of_merchant), State.REVIEW_REQUIRED)

        with pytest.raises(ReplacementRefused, match="with a person"):
            replacing(payment, client_of_merchant)

        assert stands(payment) == (State.REVIEW_REQUIRED, Cause.OVERCHARGED)

    @pytest.mark.parametrize(
        ("status", "body"),
        [
            (404, b'{"status":"NOT_FOUND","code":"E4040","text":""}'),
            (429, b'{"code":"E0006","text":""}'),
            (400, '{"code":"E0001","text":"系统繁忙"}'.encode()),
        ],
    )
    def test_a_cancellation_the_bank_cannot_take_yet_is_asked_for_again(
        self, client_of_merchant, monkeypatch, status, body
    ):
        payment = put(a_payment(client_of_merchant), State.CANCEL_PENDING)
        settings = {"base_url": "http://127.0.0.1:9", "merchant_id": "M", "key_id": "demo-1", "secret_env": "BANK_KEY"}
        bank = BankChannel(settings=settings, connect_s=1, read_s=1, slots=1)
        monkeypatch.setattr(bank, "_signature_holds", lambda *arguments: True)
        request = ChannelRequest("cancel", f"C-{payment.pk}", "POST", "/", b"")
        exchange = ChannelExchange.objects.create(
            kind="REQUEST", channel=payment.channel, operation="cancel", payment=payment, reference="C", at=NOW
        )

        reply = bank._judged(request, HttpReply(status, {}, body, True, "", 1), NOW)
        enquiry.record_cancel_answer(exchange=exchange, payment=payment, reply=reply, at=NOW)

        assert stands(payment)[0] == State.CANCEL_PENDING

    def test_a_waiting_payment_the_channel_knows_is_asked_about_not_sent(self, client_of_merchant):
        first = put(a_payment(client_of_merchant), State.SUBMITTED)
        waiting = replacing(first, client_of_merchant)
        tell(waiting, Outcome.SUCCEEDED, source=Source.NOTIFICATION, channel_txn_id="BANK-9")
        tell(first, Outcome.CANCELLED, at=later(minutes=1))
        assert again(waiting).state == State.QUEUED

        payment, request, _ = submission._prepare(payment_id=waiting.pk, at=later(minutes=2))

        assert request is None
        assert (payment.state, payment.cause) == (State.PENDING, Cause.KNOWN_ELSEWHERE)


class TestVerdictOfTheOrder:
    def test_another_attempt_s_late_window_holds_the_yes_back(self, client_of_merchant):
        first = put(a_payment(client_of_merchant), State.SUBMITTED)
        refusal = {"source": Source.REPLY, "code": "E0003", "classification": "SUSPECTED", "at": later(seconds=1)}
        tell(first, Outcome.REFUSED, **refusal)
        second = put(another(first, client_of_merchant, at=later(seconds=10)), State.SUBMITTED)
        tell(second, Outcome.DECLINED, source=Source.REPLY, at=later(seconds=12))

        judged = verdict.safe_to_pay_again(payment=again(second), at=later(seconds=13))

        assert (judged.answer, judged.rule) == (Answer.NOT_YET, "late-success-window-open")

    @pytest.mark.parametrize("end", [Outcome.DECLINED, Outcome.CANCELLED])
    def test_nobody_is_told_to_pay_an_order_that_is_paid(self, client_of_merchant, end):
        """PAY-8"""
        first = put(a_payment(client_of_merchant), State.SUBMITTED)
        tell(first, end)
        second = put(another(first, client_of_merchant, at=later(minutes=1)), State.SUBMITTED)
        tell(second, Outcome.SUCCEEDED, at=later(minutes=1), channel_txn_id="BANK-2")

        told = words_for(again(first), answer=answer(first, later(minutes=2)))

        assert "needs no further payment" in told.en
        assert "无需再付款" in told.zh


def test_a_transaction_kept_as_a_receipt_is_no_other_payment_s_success(client_of_merchant):
    """PAY-12"""
    first = put(a_payment(client_of_merchant), State.FAILED)
    tell(first, Outcome.SUCCEEDED, at=later(minutes=1))
    second = put(a_payment(client_of_merchant), State.SUBMITTED)

    tell(second, Outcome.SUCCEEDED, at=later(minutes=2))

    assert stands(second) == (State.REVIEW_REQUIRED, Cause.TXN_ID_CLASH)
    assert second.attentions.get().facts["otherPayment"] == first.pk


def test_a_process_that_slept_after_the_commit_sends_nothing(client_of_merchant, monkeypatch):
    """PAY-14: by then others may have given the payment up."""
    payment = a_payment(client_of_merchant, at=now())
    real = submission._prepare

    def prepare(**arguments):
        prepared = real(**arguments)
        prepared[0].submitted_at -= timedelta(minutes=10)
        return prepared

    monkeypatch.setattr(submission, "_prepare", prepare)
    done = submission.submit_payment(payment_id=payment.pk, at=now())

    assert (done.state, done.cause) == (State.QUEUED, Cause.NOT_SENT_YET)
    assert ChannelExchange.objects.get(kind="REPLY").code == "TOO_LATE_TO_SEND"


def test_a_channel_without_its_secret_sends_nothing_and_strands_nothing(db):
    settings = {"base_url": "http://127.0.0.1:9", "merchant_id": "M", "key_id": "gone", "secret_env": "BANK_KEY"}
    channel = factories.a_channel("second", settings=settings)
    client = factories.an_api_client(merchant=factories.a_merchant(channel=channel, code="second"))
    payment = a_payment(client, at=now())

    with pytest.raises(ChannelNotUsable, match="no secret"):
        submission.submit_payment(payment_id=payment.pk, at=now())

    assert again(payment).state == State.QUEUED
    assert not ChannelExchange.objects.exists()


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("DELETE FROM payments_order", "kept_payments_order"),
        ("UPDATE payments_order SET payable_minor = 1", "kept_payments_order"),
        ("DELETE FROM payments_receipt", "kept_payments_receipt"),
        ("UPDATE payments_receipt SET amount_minor = 1", "kept_payments_receipt"),
        ("DELETE FROM payments_inboundnotification", "kept_payments_inboundnotification"),
        ("UPDATE payments_inboundnotification SET body = ''", "kept_payments_inboundnotification"),
        ("DELETE FROM payments_idempotencyrecord", "kept_payments_idempotencyrecord"),
        ("UPDATE payments_idempotencyrecord SET fingerprint = ''", "kept_payments_idempotencyrecord"),
        ("UPDATE payments_payment SET bank_transaction_id = 'X'", "payment_facts_fixed"),
        ("UPDATE payments_payment SET captured_minor = 1", "payment_facts_fixed"),
    ],
)
def test_recorded_facts_cannot_be_changed_or_removed_by_sql(client_of_merchant, statement, name):
    """AUD-3"""
    payment = put(a_payment(client_of_merchant), State.FAILED)
    deliver(payment.channel, news(payment.pk))
    notifications.apply_due(at=NOW)

    with pytest.raises(DatabaseError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert constraint_of(error.value) == name


def test_every_unknown_notification_is_raised_however_many_there_are(channel):
    """NTF-4"""
    for number in range(3):
        deliver(channel, news(new_id(), notificationId=f"N{number}", bankTransactionId=f"B{number}"))
    notifications.apply_due(at=later(seconds=5))

    raised = [notifications.raise_unknown(at=later(hours=2), limit=1) for _ in range(4)]

    assert raised == [1, 1, 1, 0]


def test_news_that_can_never_be_applied_becomes_a_matter_for_people(client_of_merchant, monkeypatch):
    payment = a_payment(client_of_merchant)
    deliver(payment.channel, news(payment.pk))
    monkeypatch.setattr(notifications, "confirm_payment", lambda **arguments: 1 / 0)

    for minute in range(6):
        notifications.apply_due(at=later(minutes=2 * minute))

    assert Attention.objects.get().cause_key.startswith("notification-stuck:")
    assert InboundNotification.objects.get().due_at is not None
