"""Each fault does what it says, to whom it says, and the ledger keeps the truth."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3

DECLINED = {"code": "E1004", "text": "超限额"}
BUSY = {"http": 400, "code": "E0001", "text": "系统繁忙"}


def status_of(bank, reference):
    return [entry["status"] for entry in bank.ledger(reference)]


def test_a_decline_is_a_business_answer(bank):
    bank.fault({"decline": DECLINED}, reference="P-1")

    reply = bank.pay("P-1")

    assert (reply.status, reply.json()["status"], reply.json()["code"]) == (200, "DECLINED", "E1004")
    assert status_of(bank, "P-1") == ["DECLINED"]


def test_a_refusal_has_no_effect(bank):
    bank.fault({"refuse": BUSY}, reference="P-1", times=1)

    refused = bank.pay("P-1")
    absent = bank.ledger("P-1")
    again = bank.pay("P-1")

    assert (refused.status, refused.json()) == (400, {"code": "E0001", "text": "系统繁忙"})
    assert absent == []
    assert again.json()["status"] == "SUCCEEDED"


def test_a_rate_limit_says_when_to_come_back(bank):
    bank.fault({"rate_limited": True}, operation="pay")

    reply = bank.pay("P-1")

    assert (reply.status, reply.json()["code"], reply.headers["Retry-After"]) == (429, "E0006", "1")
    assert bank.ledger() == []


def test_a_slow_reply_books_at_once(bank, until):
    bank.fault({"slow_s": 0.5}, reference="P-1")
    with ThreadPoolExecutor() as pool:
        began = time.monotonic()
        reply = pool.submit(bank.pay, "P-1")
        until(lambda: bank.ledger("P-1"))
        booked_after = time.monotonic() - began

    assert booked_after < 0.5
    assert reply.result().status == 200
    assert time.monotonic() - began >= 0.5


@pytest.mark.parametrize(
    ("effects", "booked"),
    [
        ({"drop": "before"}, []),
        ({"lost_request": True}, []),
        ({"drop": "after"}, ["SUCCEEDED"]),
    ],
)
def test_a_dropped_connection_ends_without_a_byte(bank, effects, booked):
    bank.fault(effects, reference="P-1")

    with pytest.raises(urllib3.exceptions.ProtocolError) as dropped:
        bank.pay("P-1")

    assert isinstance(dropped.value.args[1], ConnectionResetError)
    assert status_of(bank, "P-1") == booked


@pytest.mark.parametrize(("when", "booked"), [("before", []), ("after", ["SUCCEEDED"])])
def test_a_gateway_answers_502_in_html(bank, when, booked):
    bank.fault({"gateway_502": when}, reference="P-1")

    reply = bank.pay("P-1")

    assert reply.status == 502
    assert b"<html>" in reply.data
    assert "X-Signature" not in reply.headers
    assert status_of(bank, "P-1") == booked


def test_an_empty_200_is_booked(bank):
    bank.fault({"empty_200": True}, reference="P-1")

    reply = bank.pay("P-1")

    assert (reply.status, reply.data) == (200, b"")
    assert status_of(bank, "P-1") == ["SUCCEEDED"]


@pytest.mark.parametrize("kind", [True, "html"])
def test_a_garbage_200_is_booked_and_no_json(bank, kind):
    bank.fault({"garbage_200": kind}, reference="P-1")

    reply = bank.pay("P-1")

    assert reply.status == 200
    with pytest.raises(ValueError):
        reply.json()
    assert status_of(bank, "P-1") == ["SUCCEEDED"]


def test_a_reply_can_carry_a_wrong_signature(bank, is_signed):
    bank.fault({"bad_reply_signature": True}, reference="P-1")

    reply = bank.pay("P-1")

    assert not is_signed(reply.headers, reply.data)
    assert reply.json()["status"] == "SUCCEEDED"


def test_a_reply_can_be_about_another_reference(bank, is_signed):
    bank.fault({"other_reference": True}, reference="P-1")

    reply = bank.pay("P-1")

    assert is_signed(reply.headers, reply.data)
    assert reply.json()["merchantReference"] != "P-1"


@pytest.mark.parametrize(
    ("then", "final"), [({}, ("SUCCEEDED", None)), ({"then_decline": DECLINED}, ("DECLINED", "E1004"))]
)
def test_a_payment_left_open_ends_by_itself(bank, inbox, until, then, final):
    bank.fault({"processing_s": 0.3} | then, reference="P-1")

    reply = bank.pay("P-1", notifyUrl=inbox.url)
    meanwhile = bank.query("P-1")
    until(lambda: bank.query("P-1").status == 200)

    assert (reply.status, reply.json()["status"]) == (202, "PROCESSING")
    assert (meanwhile.status, meanwhile.json()["status"]) == (202, "PROCESSING")
    message = inbox.about("P-1")[0]
    assert (message["status"], message["code"]) == final
    assert bank.query("P-1").json()["status"] == final[0]


def test_a_booked_payment_can_be_invisible_for_a_while(bank, until):
    bank.fault({"drop": "after", "invisible_s": 0.4}, reference="P-1")

    with pytest.raises(urllib3.exceptions.ProtocolError):
        bank.pay("P-1")

    assert bank.query("P-1").status == 404
    assert status_of(bank, "P-1") == ["SUCCEEDED"]
    until(lambda: bank.query("P-1").status == 200)


@pytest.mark.parametrize(
    ("effects", "value", "currency", "booked"),
    [
        ({"charge_more": "1.00"}, "10.00", "CNY", "11.00"),
        ({"charge_less": "1.00"}, "10.00", "CNY", "9.00"),
        ({"charge_more": "1.00"}, "10", "JPY", "11"),
        ({"charge_less": "99.00"}, "10.00", "CNY", "0.00"),
    ],
)
def test_another_amount_can_be_charged(bank, effects, value, currency, booked):
    bank.fault(effects, reference="P-1")

    assert bank.pay("P-1", value, currency=currency).json()["amount"]["value"] == booked
    assert bank.query("P-1").json()["amount"]["value"] == booked
    assert bank.ledger("P-1")[0]["amount"]["value"] == booked
    assert bank.ledger("P-1")[0]["requested"]["amount"]["value"] == value


@pytest.mark.parametrize(("code", "http", "status"), [("E2001", 200, "DECLINED"), ("E2002", 202, "PROCESSING")])
def test_a_cancel_can_be_refused(bank, code, http, status):
    bank.fault({"cancel_refused": code}, operation="cancel", reference="P-1")
    bank.pay("P-1", token="tok_processing")

    reply = bank.cancel("P-1", "C-1")

    assert (reply.status, reply.json()["status"], reply.json()["code"]) == (http, status, code)
    assert bank.query("P-1").json()["status"] == "PROCESSING"


def test_an_open_cancel_ends_as_its_payment_does(bank, until):
    bank.fault({"processing_s": 0.2}, operation="pay")
    bank.fault({"cancel_refused": "E2002", "processing_s": 0.1}, operation="cancel")
    bank.pay("P-1")
    bank.cancel("P-1", "C-1")

    until(lambda: status_of(bank, "C-1") == ["DECLINED"])

    assert status_of(bank, "P-1") == ["SUCCEEDED"]


@pytest.mark.parametrize(
    "effects", [{"rate_limited": True}, {"gateway_502": "after"}, {"refuse": BUSY}, {"empty_200": True}]
)
def test_a_query_can_be_faulted(bank, effects):
    bank.fault(effects, operation="query", times=1)
    bank.pay("P-1")

    faulted, good = bank.query("P-1"), bank.query("P-1")

    assert faulted.data == b"" or faulted.status in {400, 429, 502}
    assert good.json()["status"] == "SUCCEEDED"


def test_a_query_can_be_dropped(bank):
    bank.fault({"drop": "before"}, operation="query_refund")

    assert bank.query("R-1").status == 404
    with pytest.raises(urllib3.exceptions.ProtocolError):
        bank.query("R-1", "refunds")


def test_a_fault_without_operation_leaves_queries_alone(bank):
    bank.fault({"rate_limited": True})

    assert bank.query("P-1").status == 404
    assert bank.pay("P-1").status == 429
    assert bank.transfer("T-1").status == 429


def test_the_fault_added_last_wins(bank):
    bank.fault({"rate_limited": True})
    bank.fault({"decline": DECLINED}, reference="P-1")

    assert bank.pay("P-1", token="tok_overcharge").json()["code"] == "E1004"
    assert bank.pay("P-2").json()["code"] == "E0006"


def test_a_fault_acts_as_often_as_it_says(bank):
    fault_id = bank.fault({"refuse": BUSY}, token="tok_mine", times=2)

    statuses = [bank.pay("P-1", token="tok_mine").status for _ in range(3)]

    assert statuses == [400, 400, 200]
    fault = bank.control("GET", "/control/faults").json()["faults"][0]
    assert (fault["id"], fault["used"], fault["active"]) == (fault_id, 2, False)


def test_a_fault_keeps_to_its_time(bank, until):
    bank.fault({"rate_limited": True}, seconds=0.2)
    bank.fault({"rate_limited": True}, **{"from": "2999-01-01T00:00:00Z"})

    assert bank.pay("P-1").status == 429
    until(lambda: bank.pay("P-1").status == 200)


def test_a_rate_decides_the_same_way_under_the_same_seed(bank):
    def fates():
        bank.control("POST", "/control/reset")
        bank.fault({"refuse": BUSY}, rate=0.5)
        return [bank.pay(f"P-{number % 40}").status for number in range(80)]

    first, second = fates(), fates()

    assert first == second
    assert 20 <= first.count(400) <= 60
    assert first[:40] != first[40:]


def test_faults_and_their_uses_outlive_the_process(start_bank):
    bank = start_bank()
    bank.fault({"refuse": BUSY}, times=2)
    bank.pay("P-1")
    bank.kill()
    bank.start()

    assert [bank.pay("P-1").status for _ in range(2)] == [400, 200]


@pytest.mark.parametrize(
    ("token", "http", "code"),
    [
        ("tok_success", 200, None),
        ("anything", 200, None),
        ("tok_decline", 200, "E1001"),
        ("tok_expired_card", 200, "E1002"),
        ("tok_502", 502, None),
        ("tok_processing", 202, None),
        ("tok_processing_decline", 202, None),
        ("tok_garbage", 200, None),
        ("tok_unmapped", 400, "E7777"),
        ("tok_two_faced", 400, "E0001"),
    ],
)
def test_magic_tokens_answer_without_any_script(bank, token, http, code):
    reply = bank.pay("P-1", token=token)

    assert reply.status == http
    if code:
        assert reply.json()["code"] == code


@pytest.mark.parametrize(
    ("token", "booked"),
    [
        ("tok_drop", ["SUCCEEDED"]),
        ("tok_silent", ["SUCCEEDED"]),
        ("tok_invisible", ["SUCCEEDED"]),
        ("tok_wrong_amount", ["SUCCEEDED"]),
        ("tok_lost", []),
    ],
)
def test_magic_tokens_that_drop_let_the_repeat_through(bank, token, booked):
    with pytest.raises(urllib3.exceptions.ProtocolError):
        bank.pay("P-1", token=token)

    assert status_of(bank, "P-1") == booked
    assert bank.pay("P-1", token=token).json()["status"] == "SUCCEEDED"
    assert len(bank.ledger("P-1")) == 1


def test_a_busy_bank_takes_the_third_request(bank):
    assert [bank.pay("P-1", token="tok_busy").status for _ in range(3)] == [400, 400, 200]


@pytest.mark.parametrize(("token", "charged"), [("tok_overcharge", "11.00"), ("tok_short", "9.00")])
def test_magic_tokens_charge_another_amount(bank, token, charged):
    assert bank.pay("P-1", "10.00", token=token).json()["amount"]["value"] == charged
