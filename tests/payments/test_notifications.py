"""NTF-1 … NTF-4, K10, K14: stored before they are acted on, applied through the one confirm function, never lost."""

import hashlib
import hmac
import json
from datetime import timedelta

import pytest

from payments import notifications, outbox
from payments.errors import NotificationRefused
from payments.models import Attention, InboundNotification, Payment, RefusedNotifications
from payments.models.fields import new_id
from tests.factories import NOW, a_payment, later

pytestmark = pytest.mark.django_db
State = Payment.State


def signed(body: bytes, *, at=NOW, secret="sandbox-demo-secret", key_id="demo-1", nonce="n-1"):
    """The headers a bank sends with a body: HMAC-SHA256 over time, nonce and the digest of the raw bytes."""
    timestamp = str(int(at.timestamp()))
    text = f"{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"
    signature = "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {"X-Key-Id": key_id, "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Signature": signature}


def news(reference, **changes):
    content = {
        "merchantId": "M-DEMO",
        "merchantReference": reference,
        "operation": "pay",
        "status": "SUCCEEDED",
        "bankTransactionId": "BANK-1",
        "amount": {"value": "128.00", "currency": "CNY"},
        "completedAt": "2026-09-01T10:30:00+08:00",
        "notificationId": "N-1",
    }
    return json.dumps(content | changes, ensure_ascii=False).encode()


def deliver(channel, body, *, at=NOW, **signing):
    return notifications.receive(channel=channel, body=body, headers=signed(body, at=at, **signing), at=at)


@pytest.fixture
def payment(client_of_merchant):
    payment = a_payment(client_of_merchant)
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    payment.save()
    return payment


def test_news_is_stored_first_and_applied_afterwards(payment):
    """NTF-1"""
    stored = deliver(payment.channel, news(payment.pk))
    payment.refresh_from_db()
    assert payment.state == State.SUBMITTED

    notifications.apply_due(at=NOW)

    payment.refresh_from_db()
    assert payment.state == State.SUCCEEDED
    assert payment.history.order_by("history_id").last().evidence == f"notification:{stored}"


def test_seven_deliveries_change_nothing_more_and_are_counted(payment):
    """NTF-3"""
    for hour in range(7):
        deliver(payment.channel, news(payment.pk, notificationId=f"N-{hour}"), at=later(hours=hour))
        notifications.apply_due(at=later(hours=hour))

    (stored,) = InboundNotification.objects.all()
    assert stored.deliveries == 7
    assert payment.history.filter(event="succeeded").count() == 1
    assert not Attention.objects.exists()


def test_equal_keys_with_other_content_are_both_kept_and_raised(payment):
    """NTF-3, K10 O24"""
    deliver(payment.channel, news(payment.pk))
    deliver(payment.channel, news(payment.pk, amount={"value": "1.00", "currency": "CNY"}))

    assert InboundNotification.objects.count() == 2
    assert Attention.objects.get().kind == "NOTIFICATION_MISMATCH"


def test_the_same_event_id_with_other_news_is_raised(payment):
    deliver(payment.channel, news(payment.pk))
    deliver(payment.channel, news(payment.pk, status="DECLINED", bankTransactionId=None))

    assert Attention.objects.get().kind == "NOTIFICATION_MISMATCH"


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": {"value": "0.01", "currency": "CNY"}},
        {"amount": {"value": "30.00", "currency": "CNY"}},
        {"amount": {"value": "128.00", "currency": "USD"}},
        {"amount": {"value": "sNaN", "currency": "CNY"}},
        {"amount": "128.00"},
    ],
)
def test_signed_news_about_other_money_moves_nothing_and_asks_at_once(payment, changes):
    """NTF-2, K14 O35"""
    for number in range(3):
        deliver(payment.channel, news(payment.pk, **changes), at=later(minutes=number))
        notifications.apply_due(at=later(minutes=number))

    payment.refresh_from_db()
    assert payment.state == State.SUBMITTED
    assert payment.next_query_at == NOW
    assert Attention.objects.get().times == 1
    assert InboundNotification.objects.get().state == "MISMATCH"


@pytest.mark.parametrize(
    ("signing", "body", "reason"),
    [
        ({"secret": "another"}, None, "signature"),
        ({"key_id": "demo-9"}, None, "signature"),
        ({}, {"merchantId": "M-OTHER"}, "merchant"),
        ({}, {"merchantReference": ""}, "no reference or status"),
    ],
)
def test_what_the_bank_did_not_send_is_refused_and_counted(payment, signing, body, reason):
    """NTF-2"""
    content = news(payment.pk, **(body or {}))
    for _ in range(5):
        with pytest.raises(NotificationRefused):
            deliver(payment.channel, content, **signing)

    (refused,) = RefusedNotifications.objects.all()
    assert (refused.reason, refused.count) == (reason, 5)
    assert not InboundNotification.objects.exists()


def test_an_old_signature_is_refused(payment):
    body = news(payment.pk)

    with pytest.raises(NotificationRefused):
        notifications.receive(channel=payment.channel, body=body, headers=signed(body), at=later(seconds=301))


def test_one_changed_byte_is_refused(payment):
    body = news(payment.pk)

    with pytest.raises(NotificationRefused):
        notifications.receive(channel=payment.channel, body=body.replace(b"128", b"129"), headers=signed(body), at=NOW)


def test_news_that_comes_before_its_payment_is_parked_and_applied_when_it_appears(client_of_merchant, monkeypatch):
    """NTF-4, K10 O23"""
    coming = new_id()
    deliver(client_of_merchant.merchant.default_channel, news(coming))
    notifications.apply_due(at=NOW)
    assert InboundNotification.objects.get().state == "PARKED"

    monkeypatch.setattr("payments.intake.new_id", lambda: coming)
    a_payment(client_of_merchant, at=later(seconds=5))
    outbox.dispatch_due(at=later(seconds=5))
    notifications.apply_due(at=later(days=99))

    payment = Payment.objects.get(pk=coming)
    assert (payment.state, payment.cause) == (State.PENDING, Payment.Cause.KNOWN_ELSEWHERE)


def test_news_for_nobody_is_an_attention_after_an_hour(client_of_merchant):
    """NTF-4"""
    deliver(client_of_merchant.merchant.default_channel, news("NOBODY"))
    notifications.apply_due(at=NOW)
    at = NOW + timedelta(minutes=59)
    assert notifications.raise_unknown(at=at) == 0

    assert [notifications.raise_unknown(at=later(minutes=61)) for _ in range(2)] == [1, 0]
    assert Attention.objects.get().kind == "NOTIFICATION_UNKNOWN"


def test_news_of_another_channel_s_payment_is_not_applied(client_of_merchant, payment):
    from tests.factories import a_channel

    other = a_channel("bank-two")
    deliver(other, news(payment.pk))
    notifications.apply_due(at=NOW)

    payment.refresh_from_db()
    assert payment.state == State.SUBMITTED
    assert InboundNotification.objects.get().state == "PARKED"


def test_an_applied_notification_applied_again_does_nothing(payment):
    """K01"""
    stored = deliver(payment.channel, news(payment.pk))
    for _ in range(3):
        notifications.apply(notification_id=stored, at=NOW)

    assert payment.history.filter(event="succeeded").count() == 1


def test_a_card_number_in_a_notification_is_not_kept(payment):
    """K21 O58"""
    deliver(payment.channel, news(payment.pk, text="card 4111 1111 1111 1111 refused"))

    stored = InboundNotification.objects.get()
    assert "4111 1111 1111 1111" not in stored.body + stored.message
    assert "************1111" in stored.body


def test_the_content_of_a_repeat_in_another_field_order_is_the_same(payment):
    body = json.loads(news(payment.pk))
    deliver(payment.channel, news(payment.pk))
    deliver(payment.channel, json.dumps(dict(reversed(body.items()))).encode())

    assert InboundNotification.objects.get().deliveries == 2
