"""Payments in telling states, made by the product's own operations; only the bank is faked."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.utils.timezone import now

from ops_console.roles import grant_role
from payments import enquiry, submission
from payments.channels import ChannelReply, ChannelRequest
from payments.channels.bank import BankChannel
from payments.evidence import Outcome
from payments.exchanges import note_health
from payments.models import ApiClient, Payment
from payments.money import Money
from tests import factories

PASSWORD = "a-long-enough-password"


class FakeBank:
    """A bank that says what the test laid out, and nothing readable once that is used up."""

    def __init__(self) -> None:
        self.replies: list[ChannelReply | Callable[[], ChannelReply]] = []
        self.asked: list[ChannelRequest] = []
        settings = {"base_url": "http://127.0.0.1:9", "merchant_id": "M", "key_id": "demo-1", "secret_env": "BANK_KEY"}
        self._real = BankChannel(settings=settings, connect_s=1, read_s=1, slots=1)

    def call(self, request: ChannelRequest, *, at: datetime) -> ChannelReply:
        self.asked.append(request)
        reply = self.replies.pop(0) if self.replies else silence()
        return reply() if callable(reply) else reply

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def silence() -> ChannelReply:
    return ChannelReply(Outcome.UNKNOWN, code="READ_TIMEOUT", latency_ms=5000)


def success(amount: Money, transaction: str = "BANK-1") -> ChannelReply:
    return ChannelReply(
        Outcome.SUCCEEDED,
        channel_txn_id=transaction,
        amount=amount,
        completed_at=now(),
        http_status=200,
        raw=f'{{"status":"SUCCEEDED","bankTransactionId":"{transaction}"}}',
        latency_ms=180,
    )


def decline(text: str = "余额不足 insufficient funds") -> ChannelReply:
    return ChannelReply(
        Outcome.DECLINED,
        code="D051",
        message=text,
        http_status=200,
        raw='{"status":"DECLINED","code":"D051"}',
        latency_ms=95,
    )


def processing() -> ChannelReply:
    return ChannelReply(Outcome.PROCESSING, http_status=200, raw='{"status":"PROCESSING"}', latency_ms=60)


def a_person(role: str | None = "ops", name: str = "") -> User:
    """A user with a role, or without one."""
    user = User.objects.create_user(name or role or "nobody", password=PASSWORD)
    if role:
        grant_role(user=user, role=role)
    return user


def queued(client: ApiClient, **changes: Any) -> Payment:
    return factories.a_payment(client, at=changes.pop("at", None) or now(), **changes)


def sent(client: ApiClient, reply: ChannelReply, *, ago: timedelta = timedelta(seconds=20), **changes: Any) -> Payment:
    """A payment sent some time ago, and the bank's reply to it two seconds later."""
    at = now() - ago
    payment = queued(client, at=at, **changes)
    payment, request, exchange = submission._prepare(payment_id=payment.pk, at=at + timedelta(seconds=1))
    assert request is not None
    assert exchange is not None
    submission.record_submission(exchange=exchange, payment=payment, reply=reply, at=at + timedelta(seconds=2))
    note_health(channel_id=payment.channel_id, reply=reply, at=at + timedelta(seconds=2))
    return fresh(payment)


def asked(payment: Payment, reply: ChannelReply, *, ago: timedelta = timedelta(0)) -> Payment:
    """The sweep asked about a payment some time ago."""
    at = now() - ago
    payment = fresh(payment)
    request = enquiry.adapter_for(payment.channel).query_request(reference=payment.pk)
    exchange = enquiry.record_request(payment=payment, request=request, at=at)
    enquiry.record_answer(exchange=exchange, payment=payment, reply=reply, at=at)
    note_health(channel_id=payment.channel_id, reply=reply, at=at)
    return fresh(payment)


def fresh(payment: Payment) -> Payment:
    return Payment.objects.select_related("order", "channel", "merchant").get(pk=payment.pk)


def succeeded(client: ApiClient, **changes: Any) -> Payment:
    amount = changes.get("amount", factories.cny(128_00))
    return sent(client, success(amount, changes.pop("transaction", "BANK-1")), **changes)


def unknown(client: ApiClient, **changes: Any) -> Payment:
    """Sent four minutes ago, no readable answer, asked once in between."""
    payment = sent(client, silence(), ago=timedelta(minutes=4), **changes)
    return asked(payment, silence(), ago=timedelta(minutes=1))


def declined(client: ApiClient, **changes: Any) -> Payment:
    """Declined just now: the verdict is YES."""
    return sent(client, decline(), ago=timedelta(seconds=4), **changes)


def overcharged(client: ApiClient, **changes: Any) -> Payment:
    payment = sent(client, processing(), **changes)
    return asked(payment, success(factories.cny(138_00), "BANK-OVER"))


def contradicted(client: ApiClient, **changes: Any) -> Payment:
    """Declined, and then the bank says by notification and by its own answer that it took the money."""
    payment = declined(client, **changes)
    return asked(payment, success(payment.amount, "BANK-LATE"))


def never_sent(client: ApiClient, **changes: Any) -> Payment:
    payment = queued(client, at=now() - timedelta(minutes=20), **changes)
    submission.submit_payment(payment_id=payment.pk, at=now())
    return fresh(payment)


SCENES = {
    "succeeded": succeeded,
    "unknown": unknown,
    "declined": declined,
    "overcharged": overcharged,
    "contradicted": contradicted,
    "queued": queued,
    "never_sent": never_sent,
}
