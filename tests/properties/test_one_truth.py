"""The three promises over random lives: small cases of everything that can happen to an order, against the bank's ledger."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils.timezone import now
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from payments import enquiry, intake, ledger, notifications, outbox, submission
from payments.errors import PaymentsError
from payments.models import InboundNotification, Order, Payment
from payments.models.fields import new_id
from tests import factories
from tests.payments.test_notifications import news, signed
from tests.stack import SandboxBank, wait_for

State = Payment.State
HIDDEN_S = 0.15

# What the bank does to a payment with this token, beyond its magic ones; short enough to wait for.
SCRIPTS = {
    "tok_p_drop_hidden": {"drop": "after", "invisible_s": HIDDEN_S},
    "tok_p_processing": {"processing_s": HIDDEN_S},
    "tok_p_late_decline": {"processing_s": HIDDEN_S, "then_decline": {"code": "E1003", "text": "拒绝"}},
    "tok_p_lost_502": {"gateway_502": "before"},
}
TOKENS = [
    *SCRIPTS,
    "tok_success",
    "tok_decline",
    "tok_drop",
    "tok_lost",
    "tok_502",
    "tok_garbage",
    "tok_busy",
    "tok_unmapped",
    "tok_two_faced",
    "tok_overcharge",
    "tok_short",
]

bank: SandboxBank  # the running bank of the test


class OrderLife(RuleBasedStateMachine):
    """One merchant, two orders, and everything that payers, workers and the bank do to them in any order."""

    @initialize()
    def begin(self) -> None:
        bank.control("POST", "/control/reset", {})
        bank.faults(*({"match": {"token": t, "operation": "pay"}, "effects": e} for t, e in SCRIPTS.items()))
        code = f"b-{new_id().lower()}"
        self.channel = factories.a_channel(
            code,
            settings={"base_url": bank.url, "merchant_id": "M-DEMO", "key_id": "demo-1", "secret_env": "BANK_KEY"},
            connect_timeout_s=5,
            read_timeout_s=20,  # so that the bank has decided when a submission returns, however loaded the machine is
        )
        self.client = factories.an_api_client(merchant=factories.a_merchant(channel=self.channel, code=code))
        self.requests: list[intake.PaymentOrder] = []
        self.pay_count = 0

    def mine(self) -> list[Payment]:
        return list(Payment.objects.filter(channel=self.channel).select_related("order").order_by("pk"))

    def some(self, number: int, *states: str) -> Payment | None:
        found = [payment for payment in self.mine() if payment.state in states]
        return found[number % len(found)] if found else None

    @rule(order=st.integers(0, 1), token=st.sampled_from(TOKENS))
    def request(self, order: int, token: str) -> None:
        self.pay_count += 1
        request = factories.a_request(
            order_no=f"O-{order}", customer_ref="C", payment_token=token, idempotency_key=f"k-{self.pay_count}"
        )
        self.try_request(request)

    @rule(number=st.integers(0, 9))
    def repeat_a_request(self, number: int) -> None:
        if self.requests:
            self.try_request(self.requests[number % len(self.requests)])

    @rule(number=st.integers(0, 9), token=st.sampled_from(TOKENS))
    def change_the_channel(self, number: int, token: str) -> None:
        first = self.some(number, State.QUEUED, State.SUBMITTED, State.PENDING)
        if first is None:
            return
        self.pay_count += 1
        request = factories.a_request(
            order_no=first.order.order_no,
            customer_ref="C",
            payment_token=token,
            idempotency_key=f"k-{self.pay_count}",
            replaces=first.pk,
        )
        self.try_request(request)

    def try_request(self, request: intake.PaymentOrder) -> None:
        try:
            intake.accept_payment(client=self.client, order=request, at=now())
        except PaymentsError:
            return
        self.requests.append(request)

    @rule(number=st.integers(0, 9))
    def send(self, number: int) -> None:
        if payment := self.some(number, State.QUEUED):
            submission.submit_payment(payment_id=payment.pk, at=now())

    @rule(number=st.integers(0, 9))
    def crash_before_sending(self, number: int) -> None:
        if payment := self.some(number, State.QUEUED):
            submission._prepare(payment_id=payment.pk, at=now())

    @rule(number=st.integers(0, 9))
    def ask(self, number: int) -> None:
        if payment := self.some(number, *State):
            enquiry.ask(payment_id=payment.pk, at=now())

    @rule(number=st.integers(0, 9))
    def give_up_sending(self, number: int) -> None:
        if payment := self.some(number, State.QUEUED, State.CREATED):
            submission.cancel_if_unsent(payment_id=payment.pk, at=now() + timedelta(days=2))

    @rule(number=st.integers(0, 9), lie=st.sampled_from([{}, {}, {"amount": {"value": "0.01", "currency": "CNY"}}]))
    def the_bank_notifies(self, number: int, lie: dict[str, object]) -> None:
        """News as the bank's ledger has it, or about other money."""
        if payment := self.some(number, *State):
            for entry in bank.ledger(payment.pk):
                told = {name: entry[name] for name in ("status", "bankTransactionId", "amount", "completedAt")}
                body = news(payment.pk, **told | lie, notificationId=f"N-{number}")
                headers = signed(body, at=now())
                notifications.receive(channel=self.channel, body=body, headers=headers, at=now())

    @rule()
    def work(self) -> None:
        notifications.apply_due(at=now())
        outbox.dispatch_due(at=now())

    @rule(number=st.integers(0, 9))
    def apply_a_notification_again(self, number: int) -> None:
        stored = list(InboundNotification.objects.filter(channel=self.channel).order_by("pk"))
        if stored:
            notifications.apply(notification_id=stored[number % len(stored)].pk, at=now())

    @invariant()
    def an_order_is_paid_at_most_once(self) -> None:
        if not hasattr(self, "channel"):
            return
        for order in Order.objects.filter(merchant=self.client.merchant):
            states = [payment.state for payment in order.payments.all()]
            assert states.count(State.SUCCEEDED) <= 1
            assert sum(state not in Payment.DEAD_OR_WAITING for state in states) <= 1
            assert (order.state == "PAID") == (State.SUCCEEDED in states)
            assert (order.state == "CREATED") == all(state in Payment.DEAD_OR_WAITING for state in states)

    def teardown(self) -> None:
        if not hasattr(self, "channel"):
            return
        wait_for(self.settle, seconds=20, what="an end of every payment")
        taken_per_order: dict[str, int] = {}
        for payment in self.mine():
            self.compare(payment, taken_per_order)
        assert all(count <= 1 for count in taken_per_order.values()), taken_per_order
        assert ledger.check() == []

    def settle(self) -> bool:
        """Let time pass until nothing is open: send, ask, and ask again after every window."""
        self.work()
        for payment in self.mine():
            self.lead_on(payment)
        return all(payment.is_final or payment.state == State.REVIEW_REQUIRED for payment in self.mine())

    def lead_on(self, payment: Payment) -> None:
        if payment.state == State.QUEUED:
            submission.submit_payment(payment_id=payment.pk, at=now())
            return
        if payment.state == State.CREATED or payment.is_final:
            return
        if now() - payment.state_since < timedelta(seconds=HIDDEN_S + 0.1):
            return  # the bank keeps its promise about its windows: what it hides it shows before they end
        enquiry.ask(payment_id=payment.pk, at=now() + timedelta(hours=1))

    @staticmethod
    def compare(payment: Payment, taken_per_order: dict[str, int]) -> None:
        entries = bank.ledger(payment.pk)
        taken = [entry for entry in entries if entry["status"] == "SUCCEEDED"]
        story = json.dumps({"ours": f"{payment.state}/{payment.cause}", "bank": entries}, ensure_ascii=False)
        taken_per_order[payment.order_id] = taken_per_order.get(payment.order_id, 0) + len(taken)
        assert all(entry["timesReceived"] == 1 or payment.cause == "CHANNEL_BUSY" or not taken for entry in entries), (
            story
        )
        if payment.state == State.SUCCEEDED:
            assert [entry["bankTransactionId"] for entry in taken] == [payment.bank_transaction_id], story
        elif payment.state == State.REVIEW_REQUIRED:
            assert taken, story
            assert taken[0]["amount"]["value"] != "128.00", story
        else:
            assert not taken, story
        assert not payment.contradicted, story


@pytest.fixture
def _bank(tmp_path):
    global bank
    bank = SandboxBank(tmp_path)
    yield
    bank.stop()


@pytest.mark.django_db
@pytest.mark.timeout(240)
@pytest.mark.usefixtures("_bank")
def test_whatever_happens_to_an_order_our_story_is_the_bank_s(pytestconfig: pytest.Config) -> None:
    """PAY-1 … PAY-4, PAY-11, PAY-14, PAY-16, PAY-18, QRY-2, QRY-4, NTF-2, NTF-3"""
    machine: Callable[[], RuleBasedStateMachine] = OrderLife
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=checks, print_blob=True
        ),
    )
