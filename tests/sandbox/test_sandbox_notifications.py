"""Notifications come signed, again until they are acknowledged, and wrong when a script says so."""

import time

import pytest


def test_a_success_is_announced_once_and_signed(bank, inbox, until):
    result = bank.pay("P-1", notifyUrl=inbox.url).json()

    message = inbox.about("P-1")[0]
    assert message["signed"]
    assert message["merchantId"] == "M-DEMO"
    assert message["notificationId"].startswith("NTF-")
    assert result.items() <= message.items()
    until(lambda: bank.ledger("P-1")[0]["notifications"][0]["state"] == "delivered")
    assert len(inbox.messages) == 1


@pytest.mark.parametrize("answer", [(500, b""), (200, b"OK"), (200, b'{"received":false}'), (302, b"")])
def test_what_is_not_acknowledged_comes_again(bank, inbox, until, answer):
    inbox.answer = answer
    bank.pay("P-1", notifyUrl=inbox.url)
    inbox.about("P-1", 2)

    inbox.answer = (200, b'{"received":true}')
    until(lambda: bank.ledger("P-1")[0]["notifications"][0]["state"] == "delivered")

    assert len({message["notificationId"] for message in inbox.messages}) == 1


def test_after_seven_attempts_the_bank_gives_up(start_bank, inbox, until):
    inbox.answer = (503, b"")
    bank = start_bank("--notify-retry-scale", "0.000001")

    bank.pay("P-1", notifyUrl=inbox.url)
    until(lambda: bank.ledger("P-1")[0]["notifications"][0]["state"] == "given_up")

    assert len(inbox.messages) == 7


def test_refunds_transfers_and_declines_are_announced(bank, inbox):
    bank.pay("P-1", notifyUrl=inbox.url, token="tok_decline")
    bank.pay("P-2", notifyUrl=inbox.url)
    bank.refund("R-1", "P-2", notifyUrl=inbox.url)

    assert inbox.about("P-1")[0]["status"] == "DECLINED"
    assert inbox.about("R-1")[0]["operation"] == "refund"


def test_a_notification_can_come_before_the_reply(bank, inbox):
    bank.fault({"notify": {"early": True}, "slow_s": 0.2}, reference="P-1")

    bank.pay("P-1", notifyUrl=inbox.url)
    replied_at = time.monotonic()

    assert inbox.about("P-1")[0]["at"] < replied_at - 0.15


def test_a_notification_can_be_late_or_never_come(bank, inbox):
    bank.fault({"notify": {"delay_s": 0.3}}, reference="P-1")
    bank.fault({"notify": {"send": False}}, reference="P-2")
    bank.pay("P-2", notifyUrl=inbox.url)
    began = time.monotonic()
    bank.pay("P-1", notifyUrl=inbox.url)

    assert inbox.about("P-1")[0]["at"] - began >= 0.3
    assert bank.ledger("P-2")[0]["notifications"] == []


@pytest.mark.parametrize(
    ("wrong", "field", "value"),
    [
        ({"wrong_amount": "0.01"}, "amount", {"value": "0.01", "currency": "CNY"}),
        ({"wrong_currency": "USD"}, "amount", {"value": "10.00", "currency": "USD"}),
        ({"wrong_merchant": True}, "merchantId", "M-FOREIGN"),
        ({"wrong_signature": True}, "signed", False),
        ({"status": "DECLINED"}, "status", "DECLINED"),
    ],
)
def test_a_wrong_notification_can_be_followed_by_the_correct_one(bank, inbox, wrong, field, value):
    bank.fault({"notify": wrong | {"then_correct": True}}, reference="P-1")

    bank.pay("P-1", "10.00", notifyUrl=inbox.url)

    forged, correct = inbox.about("P-1", 2)
    assert forged[field] == value
    assert correct[field] != value
    assert forged["notificationId"] != correct["notificationId"]


def test_a_notification_can_name_another_reference(bank, inbox):
    bank.fault({"notify": {"wrong_reference": "P-9"}}, reference="P-1")

    bank.pay("P-1", notifyUrl=inbox.url)

    assert inbox.about("P-9")[0]["signed"]


def test_copies_share_their_id(bank, inbox):
    bank.pay("P-1", token="tok_duplicate_notifications", notifyUrl=inbox.url)

    assert len({message["notificationId"] for message in inbox.about("P-1", 7)}) == 1


def test_an_old_state_can_come_last(bank, inbox):
    bank.pay("P-1", token="tok_out_of_order", notifyUrl=inbox.url)

    assert [message["status"] for message in inbox.about("P-1", 2)] == ["SUCCEEDED", "PROCESSING"]


def test_control_sends_again_under_the_same_id(bank, inbox):
    bank.pay("P-1", notifyUrl=inbox.url)
    first = inbox.about("P-1")[0]

    reply = bank.control("POST", "/control/notify", {"reference": "P-1", "copies": 2})

    assert reply.status == 202
    assert {message["notificationId"] for message in inbox.about("P-1", 3)} == {first["notificationId"]}


def test_control_forges_a_notification_to_another_address(bank, inbox):
    bank.pay("P-1")

    forged = {"reference": "P-1", "url": inbox.url, "wrong_amount": "99.00", "wrong_signature": True}
    assert bank.control("POST", "/control/notify", forged).status == 202

    message = inbox.about("P-1")[0]
    assert (message["amount"]["value"], message["signed"]) == ("99.00", False)


def test_due_notifications_go_on_after_a_kill(start_bank, inbox):
    bank = start_bank()
    bank.fault({"notify": {"delay_s": 1}}, reference="P-1")
    bank.pay("P-1", notifyUrl=inbox.url)
    bank.kill()
    assert inbox.messages == []

    bank.start()

    assert inbox.about("P-1")[0]["status"] == "SUCCEEDED"


def test_hundreds_of_notifications_go_out_together(bank, inbox):
    for number in range(200):
        bank.pay(f"P-{number}", notifyUrl=inbox.url)

    assert inbox.about("P-199")
    assert bank.control("GET", "/ledger/summary").json()["notifications"]["given_up"] == 0
