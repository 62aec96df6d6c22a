"""The process: outages, kills, endings, many connections, and a control side that explains what it refuses."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import urllib3


def test_a_refusing_outage_closes_the_port_and_opens_it_again(bank, until):
    bank.pay("P-1")

    bank.control("POST", "/control/outage", {"kind": "refuse", "seconds": 0.5})

    with pytest.raises(urllib3.exceptions.NewConnectionError):
        bank.query("P-1")
    assert bank.control("GET", "/ledger/summary").json()["entries"] == 1
    assert bank.control("GET", "/control/outage").json()["outage"]["kind"] == "refuse"
    until(lambda: bank.control("GET", "/control/outage").json()["outage"] is None)
    assert bank.query("P-1").status == 200


def test_a_request_under_way_still_ends_when_the_port_closes(bank, until):
    bank.fault({"slow_s": 0.3}, reference="P-1")
    with ThreadPoolExecutor() as pool:
        under_way = pool.submit(bank.pay, "P-1")
        until(lambda: bank.ledger("P-1"))
        bank.control("POST", "/control/outage", {"kind": "refuse"})

    assert under_way.result().status == 200
    with pytest.raises(urllib3.exceptions.NewConnectionError):
        bank.query("P-1")


def test_a_request_under_way_is_booked_though_its_connection_is_reset(bank, until):
    bank.fault({"slow_before_s": 0.3}, reference="P-1")
    with ThreadPoolExecutor() as pool:
        under_way = pool.submit(bank.pay, "P-1")
        until(lambda: bank.control("GET", "/control/faults").json()["faults"][0]["used"])
        bank.control("POST", "/control/outage", {"kind": "reset"})

    assert isinstance(under_way.exception(), urllib3.exceptions.ProtocolError)
    until(lambda: bank.ledger("P-1"))


def test_a_resetting_outage_cuts_connections_old_and_new(bank):
    bank.pay("P-1")

    bank.control("POST", "/control/outage", {"kind": "reset"})

    for _ in range(2):
        with pytest.raises(urllib3.exceptions.ProtocolError) as cut:
            bank.query("P-1")
        assert isinstance(cut.value.args[1], ConnectionError)
    bank.control("DELETE", "/control/outage")
    assert bank.query("P-1").status == 200


def test_an_outage_of_503_does_nothing(bank):
    bank.control("POST", "/control/outage", {"kind": "http_503"})

    reply = bank.pay("P-1")

    assert (reply.status, b"<html>" in reply.data) == (503, True)
    assert bank.ledger() == []
    bank.control("DELETE", "/control/outage")
    assert bank.pay("P-1").status == 200


def test_one_outage_takes_the_place_of_another(bank):
    for kind in ("refuse", "reset", "http_503", "reset", "refuse"):
        assert bank.control("POST", "/control/outage", {"kind": kind, "seconds": 60}).status == 200

    bank.control("DELETE", "/control/outage")
    bank.control("DELETE", "/control/outage")

    assert bank.pay("P-1").status == 200


def test_control_on_the_bank_port_answers_before_it_closes(bank):
    reply = bank.http.request("POST", bank.url + "/control/outage", json={"kind": "reset", "seconds": 60})

    assert reply.json()["outage"]["kind"] == "reset"
    with pytest.raises(urllib3.exceptions.HTTPError):
        bank.query("P-1")


def test_a_kill_loses_nothing_that_was_answered(start_bank):
    bank = start_bank()
    answered, killed = [], threading.Event()

    def pay_until_killed(worker):
        for number in range(10_000):
            try:
                answered.append(bank.pay(f"P-{worker}-{number}").json())
            except urllib3.exceptions.HTTPError:
                assert killed.is_set()
                return

    with ThreadPoolExecutor(8) as pool:
        payers = [pool.submit(pay_until_killed, worker) for worker in range(8)]
        while len(answered) < 300:
            killed.wait(0.005)
        killed.set()
        bank.kill()
    for payer in payers:
        payer.result()
    bank.start()

    booked = {entry["merchantReference"]: entry["bankTransactionId"] for entry in bank.ledger()}
    assert {result["merchantReference"]: result["bankTransactionId"] for result in answered}.items() <= booked.items()
    assert len(set(booked.values())) == len(booked)


def test_an_open_payment_ends_after_a_kill(start_bank, inbox, until):
    bank = start_bank()
    bank.fault({"processing_s": 0.5}, reference="P-1")
    assert bank.pay("P-1", notifyUrl=inbox.url).status == 202
    bank.kill()

    bank.start()

    until(lambda: bank.query("P-1").json()["status"] == "SUCCEEDED")
    assert inbox.about("P-1")[0]["status"] == "SUCCEEDED"


def test_sigterm_ends_it_within_a_second_even_with_a_request_open(start_bank, until):
    bank = start_bank()
    bank.fault({"slow_s": 30}, reference="P-1")
    with ThreadPoolExecutor() as pool:
        hanging = pool.submit(bank.pay, "P-1")
        until(lambda: bank.ledger("P-1"))
        code, seconds = bank.end()

    assert isinstance(hanging.exception(), urllib3.exceptions.HTTPError)
    assert code == 0
    assert seconds < 1


def test_hundreds_of_connections_are_served_at_once(bank):
    bank.fault({"slow_s": 1}, operation="pay")
    together = urllib3.PoolManager(maxsize=300, retries=False, timeout=10)
    bank_http, bank.http = bank.http, together
    try:
        with ThreadPoolExecutor(250) as pool:
            statuses = list(pool.map(lambda number: bank.pay(f"P-{number}").status, range(250)))
    finally:
        bank.http = bank_http

    assert statuses == [200] * 250


def test_the_ledger_shows_what_was_asked_and_what_was_done(bank):
    bank.pay("P-1", "10.00", token="tok_overcharge")
    bank.pay("P-2", "5.00", token="tok_decline")
    bank.refund("R-1", "P-1", "2.00")

    entry = bank.ledger("P-1", "pay")[0]
    whole = bank.control("GET", "/ledger").json()

    assert (entry["requested"]["amount"]["value"], entry["amount"]["value"]) == ("10.00", "11.00")
    assert entry["bookedAt"]
    assert entry["completedAt"]
    assert whole["totals"]["pay"]["CNY"] == {
        "DECLINED": {"count": 1, "value": "5.00"},
        "SUCCEEDED": {"count": 1, "value": "11.00"},
    }
    assert [entry["merchantReference"] for entry in whole["entries"]] == ["P-1", "P-2", "R-1"]
    assert [entry["operation"] for entry in bank.ledger(operation="refund")] == ["refund"]


def test_a_long_ledger_comes_whole(bank):
    with ThreadPoolExecutor(20) as pool:
        list(pool.map(lambda number: bank.pay(f"P-{number}"), range(1100)))

    assert len({entry["merchantReference"] for entry in bank.ledger()}) == 1100


def test_the_page_shows_ledger_and_faults_without_running_what_was_sent(bank):
    bank.fault({"decline": {"code": "E1003", "text": "<script>alert(1)</script>"}})
    bank.pay("P-1")

    page = bank.control("GET", "/").data.decode()

    assert "P-1" in page
    assert "&lt;script&gt;" in page
    assert "<script>" not in page


def test_page_and_documentation_name_the_same_magic_tokens(bank):
    page = bank.control("GET", "/").data.decode()
    text = (Path(__file__).resolve().parents[2] / "docs" / "sandbox.md").read_text(encoding="utf-8")

    assert re.findall(r"<td><code>(tok_\w+)", page) == re.findall(r"^\| `(tok_\w+)`", text, re.MULTILINE)


@pytest.mark.parametrize(
    ("fault", "field"),
    [
        (7, "fault"),
        ({}, "effects"),
        ({"effects": {}}, "effects"),
        ({"effects": {"explode": True}}, "effects.explode"),
        ({"effects": {"slow_s": "8"}}, "effects.slow_s"),
        ({"effects": {"slow_s": -1}}, "effects.slow_s"),
        ({"effects": {"slow_s": True}}, "effects.slow_s"),
        ({"effects": {"slow_s": 1e400}}, "body"),
        ({"effects": {"drop": "sometimes"}}, "effects.drop"),
        ({"effects": {"drop": []}}, "effects.drop"),
        ({"effects": {"refuse": {"http": 200, "code": "E", "text": "t"}}}, "effects.refuse.http"),
        ({"effects": {"decline": {"code": "E1001"}}}, "effects.decline.text"),
        ({"effects": {"charge_more": 1}}, "effects.charge_more"),
        ({"effects": {"then_decline": {"code": "E", "text": "t"}}}, "effects.then_decline"),
        ({"effects": {"notify": {"copies": 1000}}}, "effects.notify.copies"),
        ({"effects": {"notify": {"louder": True}}}, "effects.notify.louder"),
        ({"effects": {"slow_s": 1}, "match": {"rate": 2}}, "match.rate"),
        ({"effects": {"slow_s": 1}, "match": {"operation": "steal"}}, "match.operation"),
        ({"effects": {"slow_s": 1}, "match": {"colour": "red"}}, "match.colour"),
        ({"effects": {"slow_s": 1}, "match": []}, "match"),
        ({"effects": {"slow_s": 1}, "times": 0}, "times"),
        ({"effects": {"slow_s": 1}, "until": "tomorrow"}, "until"),
        ({"effects": {"slow_s": 1}, "until": "9999-12-31T23:00:00-14:00"}, "until"),
        ({"effects": {"slow_s": 1}, "match": {"from": "0001-01-01T00:00:00+14:00"}}, "match.from"),
        ({"effects": {"decline": {"code": "E", "text": "t"}}, "match": {"operation": "query"}}, "effects.decline"),
        ([{"effects": {"slow_s": 1}, "id": "A"}, {"effects": {"slow_s": 1}, "id": "A"}], "id"),
    ],
)
def test_a_fault_that_cannot_be_read_names_its_field(bank, fault, field):
    reply = bank.control("POST", "/control/faults", fault)

    assert reply.status == 400, reply.data
    assert reply.json()["error"].startswith(f"{field}:")
    assert bank.control("GET", "/control/faults").json() == {"faults": []}


@pytest.mark.parametrize(
    ("path", "fields", "status", "field"),
    [
        ("/control/outage", {"kind": "flood"}, 400, "kind"),
        ("/control/outage", {"kind": []}, 400, "kind"),
        ("/control/outage", {"kind": "reset", "seconds": "x"}, 400, "seconds"),
        ("/control/outage", {"kind": "reset", "hours": 1}, 400, "hours"),
        ("/control/outage", [], 400, "body"),
        ("/control/notify", [], 400, "body"),
        ("/control/notify", {}, 400, "reference"),
        ("/control/notify", {"reference": "P-0"}, 404, "reference"),
        ("/control/notify", {"reference": "P-1"}, 400, "url"),
        ("/control/notify", {"reference": "P-1", "operation": "query"}, 400, "operation"),
        ("/control/notify", {"reference": "P-1", "operation": {}}, 400, "operation"),
        ("/control/notify", {"reference": "P-1", "url": "http://["}, 400, "url"),
        ("/control/notify", {"reference": "P-1", "wrong_amount": 1}, 400, "wrong_amount"),
    ],
)
def test_other_bad_control_input_names_its_field(bank, path, fields, status, field):
    bank.pay("P-1")

    reply = bank.control("POST", path, fields)

    assert reply.status == status, reply.data
    assert reply.json()["error"].startswith(f"{field}:")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'"\\ud800"', b"9" * 5000])
def test_a_control_body_that_is_no_json_is_refused(bank, body):
    for path in ("/control/faults", "/control/outage", "/control/notify"):
        reply = bank.http.request("POST", bank.control_url + path, body=body)
        assert reply.status == 400, reply.data
        assert json.loads(reply.data)["error"]


def test_bad_questions_to_the_ledger_are_refused(bank):
    assert bank.control("GET", "/ledger?operation=steal").status == 400
    assert bank.control("GET", "/ledger?reference=a%20b").status == 400
    assert bank.control("GET", "/nowhere").status == 404
    assert bank.control("DELETE", "/control/faults/F-99").status == 404


def test_faults_are_removed_one_by_one_or_all(bank):
    ids = [bank.fault({"rate_limited": True}) for _ in range(3)]

    assert bank.control("DELETE", f"/control/faults/{ids[0]}").json() == {"removed": 1}
    assert bank.control("DELETE", "/control/faults").json() == {"removed": 2}
    assert bank.pay("P-1").status == 200


def test_reset_empties_ledger_and_faults_but_never_repeats_a_transaction_id(bank):
    before = bank.pay("P-1").json()["bankTransactionId"]
    bank.fault({"rate_limited": True})

    bank.control("POST", "/control/reset")

    assert bank.ledger() == []
    assert bank.pay("P-1").json()["bankTransactionId"] != before
