"""The bank keeps its contract: signatures, formats, idempotency, refunds, cancels, transfers."""

import hashlib
import hmac
import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest


def test_the_signed_text_is_the_one_the_contract_writes_down(bank):
    body = b""
    timestamp, nonce = str(int(time.time())), "nonce-of-the-vector"
    text = f"GET\n/v1/payments/P-1?a=b\n{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"
    signature = "v1=" + hmac.new(b"sandbox-demo-secret", text.encode(), hashlib.sha256).hexdigest()
    headers = {"X-Key-Id": "demo-1", "X-Timestamp": timestamp, "X-Nonce": nonce, "X-Signature": signature}

    assert bank.send("GET", "/v1/payments/P-1?a=b", body, headers).status == 404
    # The same signature does not cover another query.
    assert bank.send("GET", "/v1/payments/P-1?a=c", body, headers | {"X-Nonce": "another"}).status == 401


@pytest.mark.parametrize(
    "change",
    [
        {"X-Signature": "v1=" + "0" * 64},
        {"X-Signature": "v1=\u00e9"},
        {"X-Signature": ""},
        {"X-Key-Id": "nobody"},
        {"X-Timestamp": "soon"},
        {"X-Nonce": ""},
    ],
)
def test_a_signature_that_does_not_hold_is_refused(bank, order, change):
    body = json.dumps(order("P-1")).encode()
    headers = bank.headers("POST", "/v1/payments", body) | change

    reply = bank.send("POST", "/v1/payments", body, headers)

    assert (reply.status, reply.json()["code"]) == (401, "E0004")
    assert bank.ledger() == []


@pytest.mark.parametrize(("drift", "status"), [(-310, 401), (310, 401), (-290, 404), (290, 404)])
def test_the_clock_may_be_off_by_300_seconds(bank, drift, status):
    assert bank.call("GET", "/v1/payments/P-1", timestamp=str(int(time.time()) + drift)).status == status


def test_a_nonce_is_accepted_once_even_after_a_restart(start_bank):
    bank = start_bank()
    headers = bank.headers("GET", "/v1/payments/P-1", b"", nonce="only-once")

    first = bank.send("GET", "/v1/payments/P-1", b"", headers)
    second = bank.send("GET", "/v1/payments/P-1", b"", headers)
    bank.kill()
    bank.start()
    third = bank.send("GET", "/v1/payments/P-1", b"", headers)

    assert [first.status, second.status, third.status] == [404, 401, 401]


def test_two_keys_are_valid_at_a_time(start_bank, is_signed):
    bank = start_bank("--key", "old:one", "--key", "new:two")

    for key_id, secret in (("old", "one"), ("new", "two")):
        reply = bank.call("GET", "/v1/payments/P-1", key_id=key_id, secret=secret)
        assert reply.status == 404
        assert is_signed(reply.headers, reply.data, secret)


def test_a_payment_succeeds_with_a_signed_result(bank, is_signed):
    reply = bank.pay("P-1", "10.00")

    result = reply.json()
    assert reply.status == 200
    assert is_signed(reply.headers, reply.data)
    assert result["status"] == "SUCCEEDED"
    assert result["amount"] == {"value": "10.00", "currency": "CNY"}
    assert result["bankTransactionId"].startswith("BANK-")
    assert bank.query("P-1").json() == result


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"merchantReference": "a b"}, "merchantReference"),
        ({"merchantReference": "x" * 33}, "merchantReference"),
        ({"merchantId": None}, "merchantId"),
        ({"amount": "10.00"}, "amount"),
        ({"amount": {"value": 10, "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "10.0", "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "10.00", "currency": "JPY"}}, "amount.value"),
        ({"amount": {"value": "10.00", "currency": "KWD"}}, "amount.value"),
        ({"amount": {"value": "-1.00", "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "0.00", "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "1e1", "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "١.٠٠", "currency": "CNY"}}, "amount.value"),
        ({"amount": {"value": "1.00", "currency": "XXX"}}, "amount.currency"),
        ({"paymentToken": None}, "paymentToken"),
        ({"requestedAt": "2026-03-01T10:00:00"}, "requestedAt"),
        ({"notifyUrl": "ftp://example.org/"}, "notifyUrl"),
        ({"purpose": 7}, "purpose"),
    ],
)
def test_a_format_error_names_its_field(bank, order, change, field):
    reply = bank.call("POST", "/v1/payments", order("P-1") | change)

    assert (reply.status, reply.json()["code"]) == (400, "E0003")
    assert field in reply.json()["text"]
    assert bank.ledger() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b'{"a": NaN}', b'{"a": "\\ud800"}', b"[" * 60_000])
def test_a_body_that_is_no_json_object_is_a_format_error(bank, body):
    reply = bank.send("POST", "/v1/payments", body, bank.headers("POST", "/v1/payments", body))

    assert (reply.status, reply.json()["code"]) == (400, "E0003")


@pytest.mark.parametrize(("value", "currency"), [("100", "JPY"), ("1.234", "KWD"), ("99999999999999.99", "CNY")])
def test_each_currency_has_its_own_digits(bank, value, currency):
    assert bank.pay("P-1", value, currency=currency).json()["amount"] == {"value": value, "currency": currency}


def test_a_foreign_merchant_is_refused(bank):
    reply = bank.pay("P-1", merchantId="M-OTHER")

    assert (reply.status, reply.json()["code"]) == (403, "E0005")


def test_a_repeat_gets_the_stored_result_and_books_nothing(bank):
    first = bank.pay("P-1")
    repeat = bank.pay("P-1", requestedAt="2026-03-01T11:00:00+08:00")

    assert repeat.json() == first.json()
    assert "Idempotent-Replay" not in first.headers
    assert repeat.headers["Idempotent-Replay"] == "true"
    assert [entry["timesReceived"] for entry in bank.ledger("P-1")] == [2]


def test_a_repeat_with_other_content_is_refused(bank):
    bank.pay("P-1", "10.00")

    reply = bank.pay("P-1", "11.00")

    assert (reply.status, reply.json()["code"]) == (409, "E0008")
    assert [entry["amount"]["value"] for entry in bank.ledger("P-1")] == ["10.00"]


def test_a_repeat_while_the_first_still_runs_answers_processing(bank, until):
    bank.fault({"slow_s": 0.5}, reference="P-1", times=1)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(bank.pay, "P-1")
        until(lambda: bank.ledger("P-1"))
        repeat = bank.pay("P-1")

    assert (repeat.status, repeat.json()["status"]) == (202, "PROCESSING")
    assert first.result().json()["status"] == "SUCCEEDED"
    assert len(bank.ledger("P-1")) == 1


def test_a_thousand_repeats_at_once_book_one_payment(bank):
    with ThreadPoolExecutor(50) as pool:
        replies = list(pool.map(lambda _: bank.pay("P-1").status, range(1000)))

    assert set(replies) <= {200, 202}
    assert [entry["timesReceived"] for entry in bank.ledger("P-1")] == [1000]


def test_the_same_reference_may_name_a_payment_and_a_transfer(bank):
    assert bank.pay("X-1").json()["operation"] == "pay"
    assert bank.transfer("X-1").json()["operation"] == "transfer"
    assert bank.query("X-1", "transfers").json()["status"] == "SUCCEEDED"


def test_refunds_never_exceed_what_was_captured(bank):
    bank.pay("P-1", "10.00")

    assert bank.refund("R-1", "P-1", "6.00").json()["status"] == "SUCCEEDED"
    assert bank.refund("R-2", "P-1", "4.01").json()["code"] == "E3001"
    assert bank.refund("R-3", "P-1", "4.00").json()["status"] == "SUCCEEDED"
    assert bank.query("R-2", "refunds").json()["status"] == "DECLINED"


def test_a_refund_needs_a_captured_original(bank):
    bank.pay("P-1", token="tok_decline")
    bank.pay("P-2")

    assert bank.refund("R-1", "P-0").json()["code"] == "E3002"
    assert bank.refund("R-2", "P-1").json()["code"] == "E3002"
    assert bank.refund("R-3", "P-2", originalBankTransactionId="BANK-0").json()["code"] == "E3002"


def test_a_refund_in_another_currency_is_refused(bank):
    bank.pay("P-1", "10.00", currency="CNY")

    reply = bank.refund("R-1", "P-1", "1.00", currency="USD")

    assert (reply.status, reply.json()["code"]) == (400, "E0003")
    assert bank.ledger("R-1") == []


def test_a_cancel_stops_an_open_payment_for_good(bank, inbox):
    bank.pay("P-1", token="tok_processing", notifyUrl=inbox.url)

    reply = bank.cancel("P-1", "C-1")

    assert (reply.json()["merchantReference"], reply.json()["status"]) == ("C-1", "CANCELLED")
    assert bank.query("P-1").json()["status"] == "CANCELLED"
    assert inbox.about("P-1")[0]["status"] == "CANCELLED"
    assert bank.cancel("P-1", "C-1").headers["Idempotent-Replay"] == "true"


def test_a_cancel_of_a_captured_payment_is_declined(bank):
    bank.pay("P-1")

    assert bank.cancel("P-1", "C-1").json()["code"] == "E2001"
    assert bank.query("P-1").json()["status"] == "SUCCEEDED"


def test_a_cancel_of_an_unknown_payment_does_not_stop_a_late_one(bank):
    early = bank.cancel("P-1", "C-1")

    assert (early.status, early.json()["status"]) == (404, "NOT_FOUND")
    assert bank.pay("P-1").json()["status"] == "SUCCEEDED"


def test_a_cancel_can_overtake_its_payment(bank, until):
    bank.fault({"slow_before_s": 0.4}, reference="P-1", operation="pay")
    with ThreadPoolExecutor() as pool:
        late = pool.submit(bank.pay, "P-1")
        until(lambda: bank.control("GET", "/control/faults").json()["faults"][0]["used"])
        overtaking = bank.cancel("P-1", "C-1")
        absent = bank.query("P-1")

    assert [overtaking.status, absent.status] == [404, 404]
    assert late.result().json()["status"] == "SUCCEEDED"


def test_an_unknown_reference_is_not_found(bank):
    reply = bank.query("P-1")

    assert (reply.status, reply.json()["status"], reply.json()["code"]) == (404, "NOT_FOUND", "E4040")


def test_a_path_outside_the_contract_answers_in_json(bank):
    assert bank.call("GET", "/v1/nothing").json()["code"] == "E0003"
    assert bank.call("PUT", "/v1/payments").status == 405


def test_a_bank_without_the_promise_books_every_repeat(start_bank):
    bank = start_bank("--not-idempotent")

    first, second = bank.pay("P-1").json(), bank.pay("P-1").json()

    assert first["bankTransactionId"] != second["bankTransactionId"]
    assert len(bank.ledger("P-1")) == 2
    assert bank.control("GET", "/ledger/summary").json()["referencesBookedTwice"] == 1
