"""POST /notifications/bank: verify, check, store, answer (NTF-1 … NTF-3)."""

import hashlib
import hmac
import json
import secrets
import time

import pytest
from django.db import connection
from django.utils.timezone import now

from payments import reference_data
from payments.models import Attention, InboundNotification, Payment, RefusedNotifications
from tests import factories
from tests.api.conftest import problem_of

SECRET = "sandbox-demo-secret"


def signed(body: bytes, *, age_s: int = 0, secret: str = SECRET, key_id: str = "demo-1") -> dict[str, str]:
    """The headers the bank sends: HMAC-SHA256 over timestamp, nonce and the digest of the raw bytes."""
    timestamp, nonce = str(int(time.time()) - age_s), secrets.token_hex(16)
    text = f"{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"
    digest = hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()
    return {"X-Key-Id": key_id, "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Signature": f"v1={digest}"}


def news(reference: str = "01K3F7D8V6JQ2R9M4A1C5E0NXT", **changes) -> dict:
    content = {
        "notificationId": "NTF-1",
        "merchantId": "M-DEMO",
        "merchantReference": reference,
        "operation": "pay",
        "status": "SUCCEEDED",
        "bankTransactionId": "BANK-9842517",
        "amount": {"value": "128.00", "currency": "CNY"},
        "completedAt": "2026-09-01T10:32:48+08:00",
    }
    return {name: value for name, value in (content | changes).items() if value is not None}


def encoded(content: dict) -> bytes:
    return json.dumps(content, ensure_ascii=False).encode()


def deliver(client, body: bytes, headers: dict[str, str] | None = None, *, channel: str = "bank"):
    sent = signed(body) if headers is None else headers
    return client.post(f"/notifications/{channel}", body, content_type="application/json", headers=sent)


def refusals() -> dict[str, int]:
    return dict(RefusedNotifications.objects.values_list("reason", "count"))


@pytest.fixture(autouse=True)
def _bank(channel):
    return channel


def test_a_signed_notification_is_stored_and_answered_as_the_bank_expects(client):
    """NTF-1: due until it is applied."""
    body = encoded(news())

    response = deliver(client, body)

    assert (response.status_code, response.content) == (200, b'{"received":true}')
    stored = InboundNotification.objects.get()
    assert (stored.reference, stored.outcome, stored.channel_txn_id) == (
        news()["merchantReference"],
        "SUCCEEDED",
        "BANK-9842517",
    )
    assert (stored.amount_minor, stored.currency) == (128_00, "CNY")
    assert stored.body == body.decode()
    assert stored.due_at is not None
    assert stored.state == "RECEIVED"


def test_the_endpoint_moves_no_payment_itself(client, client_of_merchant):
    """NTF-1: no slow work inside; the stored row is applied afterwards."""
    payment = factories.a_payment(client_of_merchant, at=now())

    deliver(client, encoded(news(payment.pk)))

    assert Payment.objects.get().state == "QUEUED"
    assert InboundNotification.objects.get().payment_id is None


@pytest.mark.parametrize(
    "change",
    [
        {"X-Signature": "v1=" + "0" * 64},
        {"X-Signature": ""},
        {"X-Signature": "v2=abc"},
        {"X-Signature": "\xff"},
        {"X-Nonce": "another"},
        {"X-Key-Id": "unknown"},
        {"X-Key-Id": ""},
        {"X-Key-Id": "demo-1\x00"},
        {"X-Timestamp": "yesterday"},
        {"X-Timestamp": ""},
        {"X-Timestamp": "-1"},
        {"X-Timestamp": "١٢٣"},
        {"X-Timestamp": "9" * 13},
        {"X-Timestamp": "9" * 5000},
    ],
)
def test_a_notification_whose_signature_does_not_hold_is_refused(client, change):
    """NTF-2."""
    body = encoded(news())

    response = deliver(client, body, signed(body) | change)

    problem_of(response, 401, "notification_refused")
    assert not InboundNotification.objects.exists()
    assert refusals() == {"signature": 1}


def test_a_notification_without_any_signature_is_refused(client):
    problem_of(deliver(client, encoded(news()), {}), 401, "notification_refused")


@pytest.mark.parametrize(("age_s", "status"), [(295, 200), (305, 401), (-295, 200), (-305, 401)])
def test_a_signature_holds_for_five_minutes_on_both_sides(client, age_s, status):
    """NTF-2: clocks differ, but an old recording is worth nothing."""
    body = encoded(news())

    assert deliver(client, body, signed(body, age_s=age_s)).status_code == status


def test_the_signature_is_over_the_raw_bytes(client):
    """NTF-2: the same JSON written in another way is not what was signed."""
    body = encoded(news())
    other = json.dumps(json.loads(body), indent=1).encode()

    problem_of(deliver(client, other, signed(body)), 401)
    assert deliver(client, other, signed(other)).status_code == 200


@pytest.mark.parametrize(
    "rewrite",
    [
        lambda body: body.replace(b", ", b",\r\n"),
        lambda body: b"\r\n " + body + b" \r\n",
        lambda body: body.replace(b"BANK", b"\\u0042ANK"),
        lambda body: body.replace(b'"NTF-1"', '"通知-1"'.encode()),
    ],
    ids=["crlf", "blanks", "escapes", "utf-8"],
)
def test_any_way_of_writing_json_is_read_once_its_bytes_verify(client, rewrite):
    body = rewrite(encoded(news()))

    assert deliver(client, body).status_code == 200
    assert InboundNotification.objects.get().channel_txn_id == "BANK-9842517"


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(news(text="成功"), ensure_ascii=False).encode("gbk"),
        b"\xef\xbb\xbf" + encoded(news()),
        encoded(news()).decode().encode("utf-16"),
        b"",
        b"not json",
        b"a=1&b=2",
        b"<xml/>",
        b"\x00",
        encoded(news()).replace(b"128.00", b"128\\u0000.00"),
        encoded(news()).replace(b'"pay"', b'"pay", "operation": "refund"'),
        b"[" * 10_000,
        b"NaN",
        b"[]",
        b"null",
        b'"text"',
        encoded({"merchantId": "M-DEMO"}),
        encoded(news(status=None)),
        encoded(news(merchantReference=17)),
    ],
)
def test_a_signed_body_that_says_nothing_readable_is_refused_and_counted(client, body):
    """NTF-2, K07: GBK, BOM, UTF-16, NUL, no JSON, no object, no reference."""
    response = deliver(client, body)

    problem_of(response, 400, "notification_refused")
    assert not InboundNotification.objects.exists()
    assert sum(refusals().values()) == 1


def test_a_notification_for_another_merchant_is_refused(client):
    """NTF-2: a foreign app id."""
    problem_of(deliver(client, encoded(news(merchantId="M-OTHER"))), 403, "notification_refused")
    assert refusals() == {"merchant": 1}


@pytest.mark.parametrize(
    "amount",
    ["sNaN", "NaN", "1e400", "１２.３４", "1,000.00", " 10 ", "", None, True, [], 12.345, "-0.00", "1" + "0" * 30],
)
def test_an_amount_that_cannot_be_read_is_stored_as_none_and_moves_nothing(client, client_of_merchant, amount):
    """K07: the original stays as evidence."""
    payment = factories.a_payment(client_of_merchant, at=now())

    response = deliver(client, encoded(news(payment.pk, amount={"value": amount, "currency": "CNY"})))

    assert response.status_code == 200
    stored = InboundNotification.objects.get()
    assert stored.amount_minor is None
    assert Payment.objects.get().state == "QUEUED"


@pytest.mark.parametrize("size", [64 * 1024 + 1, 200 * 1024, 1024 * 1024])
def test_a_notification_above_64_kib_is_refused(client, size):
    """NTF-2: bounded storage."""
    body = encoded(news(text="x" * size))

    problem_of(deliver(client, body), 413)
    assert not InboundNotification.objects.exists()
    assert refusals() == {"too long": 1}


def test_a_notification_of_64_kib_is_stored(client):
    body = encoded(news()).ljust(64 * 1024)

    assert deliver(client, body).status_code == 200


def test_refusals_are_one_row_a_day_with_one_bounded_sample(client):
    """NTF-2: whatever is sent, the storage does not grow with it."""
    for number in range(30):
        deliver(client, encoded(news(text="x" * 5000, number=number)), {})
    deliver(client, b"\x00\xff", {})

    row = RefusedNotifications.objects.get()
    assert row.count == 31
    assert len(row.sample) <= 2000


def test_a_sample_of_a_refusal_holds_no_card_number(client):
    """K21."""
    deliver(client, encoded(news(text="card 4111 1111 1111 1111")), {})

    assert "4111 1111 1111 1111" not in RefusedNotifications.objects.get().sample


def test_a_stored_notification_holds_no_card_number(client):
    """PAY-10, K21."""
    deliver(client, encoded(news(text="card 4111111111111111")))

    stored = InboundNotification.objects.get()
    assert "4111111111111111" not in stored.body + stored.message


def test_an_unknown_channel_is_404_and_stores_nothing(client):
    problem_of(deliver(client, encoded(news()), channel="nowhere"), 404, "unknown_channel")
    assert not RefusedNotifications.objects.exists()


def test_a_channel_that_takes_no_new_payments_still_tells_how_old_ones_ended(client, channel):
    """RUN-1: money under way does not stop at a switch."""
    channel.enabled = False
    channel.save()

    assert deliver(client, encoded(news())).status_code == 200


def test_seven_deliveries_are_one_row_and_are_counted(client):
    """NTF-3: each is answered with success."""
    for _ in range(7):
        assert deliver(client, encoded(news())).status_code == 200

    stored = InboundNotification.objects.get()
    assert stored.deliveries == 7
    assert stored.last_received_at > stored.received_at
    assert not Attention.objects.exists()


def test_the_same_news_under_another_notification_id_is_the_same_row(client):
    """NTF-3: the key is made of what is told, not of the envelope."""
    deliver(client, encoded(news()))
    deliver(client, encoded(news(notificationId="NTF-2")))

    assert InboundNotification.objects.get().deliveries == 2


def test_an_equal_key_with_other_content_is_kept_beside_the_first_and_raised(client):
    """NTF-3: evidence is never overwritten."""
    deliver(client, encoded(news()))
    response = deliver(client, encoded(news(amount={"value": "1.00", "currency": "CNY"})))

    assert response.status_code == 200
    assert sorted(InboundNotification.objects.values_list("amount_minor", flat=True)) == [100, 12800]
    raised = Attention.objects.get()
    assert raised.kind == Attention.Kind.NOTIFICATION_MISMATCH
    assert raised.settled_at is None


def test_a_state_that_changed_is_news_and_no_mismatch(client):
    """NTF-3: PROCESSING and then SUCCEEDED are two facts."""
    deliver(client, encoded(news(status="PROCESSING", notificationId="NTF-0")))
    deliver(client, encoded(news()))

    assert InboundNotification.objects.count() == 2
    assert not Attention.objects.exists()


def test_a_rotated_key_is_accepted_beside_the_present_one(client, channel, settings):
    """The bank signs with the new key before we are told to."""
    settings.CHANNEL_SECRETS = settings.CHANNEL_SECRETS | {"BANK_KEY_DEMO_2": "the-next-secret"}
    body = encoded(news())
    before = deliver(client, body, signed(body, key_id="demo-2", secret="the-next-secret"))
    channel.settings["accept_key_ids"] = ["demo-2"]
    channel.save()
    reference_data.forget()

    after = deliver(client, body, signed(body, key_id="demo-2", secret="the-next-secret"))

    assert (before.status_code, after.status_code) == (401, 200)


@pytest.mark.django_db(transaction=True)
def test_success_is_answered_only_after_the_commit(client):
    """NTF-1: what could not be stored is not received, so that the bank comes again."""
    client.raise_request_exception = False
    with connection.cursor() as cursor:  # the database takes the row and refuses the commit
        cursor.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no room'; END $$;"
            "CREATE CONSTRAINT TRIGGER no_room AFTER INSERT ON payments_inboundnotification"
            " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION no_room()"
        )
    try:
        response = deliver(client, encoded(news()))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP FUNCTION no_room() CASCADE")

    assert response.status_code == 500
    assert b"received" not in response.content
    assert not InboundNotification.objects.exists()
