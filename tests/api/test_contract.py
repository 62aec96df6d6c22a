"""The contract of the first field note: request, answer, question, end."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.utils.timezone import now

from payments import confirmation
from payments.evidence import Outcome, Source
from payments.models import IdempotencyRecord, Payment
from tests import factories
from tests.api.conftest import NOTE, Caller, content_of, problem_of


def _sent(payment_id):
    """The payment as the workers leave it once its request may have reached the bank."""
    payment = Payment.objects.select_related("channel").get(pk=payment_id)
    at = now()
    payment.submit(at=at, ask_at=at, query_deadline=at)
    payment.save()
    return payment


def _told(payment_id, outcome, **changes):
    changes = {"source": Source.QUERY, "at": now()} | changes
    confirmation.confirm_payment(payment_id=payment_id, evidence=factories.evidence(outcome, **changes))


def test_the_request_of_the_note_is_accepted_with_202_and_its_address(caller):
    """PAY-5."""
    response = caller.pay(NOTE)

    body = content_of(response)
    assert response.status_code == 202
    assert response["Content-Type"] == "application/json"
    assert response["Location"] == f"/payments/{body['paymentId']}"
    assert body["status"] == "PENDING"
    assert body["message"].startswith("Payment submitted; final status is not yet available.")
    assert len(body["paymentId"]) == 26


def test_the_answer_names_the_amount_with_the_digits_of_its_currency(caller):
    """FND-1: 128.00 stays 128.00, as a JSON number."""
    response = caller.pay(NOTE)

    assert b'"amount":128.00,' in response.content


def test_an_open_payment_is_told_as_pending_with_words_that_forbid_to_pay_again(caller):
    """PAY-7, PAY-8."""
    address = caller.pay(NOTE)["Location"]

    body = content_of(caller.get(address))

    assert (body["status"], body["state"]) == ("PENDING", "QUEUED")
    assert body["safeToPayAgain"] is False
    assert body["verdict"]["answer"] == "NOT_YET"
    assert "请勿重复付款" in body["words"]["zh"]
    assert "do not pay again" in body["words"]["en"]
    assert body["bankTransactionId"] is None
    assert body["completedAt"] is None
    assert body["nextPollAfterSeconds"] == 1


def test_a_payment_that_succeeded_names_its_bank_transaction_and_the_moment_with_the_banks_offset(caller):
    """PAY-5: the final shape of the note."""
    address = caller.pay(NOTE)["Location"]
    _sent(address.rsplit("/", 1)[1])
    at = datetime(2026, 9, 1, 2, 32, 48, tzinfo=UTC)
    _told(address.rsplit("/", 1)[1], Outcome.SUCCEEDED, channel_txn_id="BANK-9842517", completed_at=at)

    response = caller.get(address)

    body = content_of(response)
    assert response.status_code == 200
    assert body["status"] == "SUCCEEDED"
    assert body["bankTransactionId"] == "BANK-9842517"
    assert body["completedAt"] == "2026-09-01T10:32:48+08:00"
    assert body["capturedAmount"] == Decimal("128.00")
    assert body["safeToPayAgain"] is False
    assert body["nextPollAfterSeconds"] is None


def test_a_repeat_answers_201_once_the_result_is_final(caller):
    """PAY-5, PAY-9: the same payment with its present state."""
    first = content_of(caller.pay(NOTE))
    _sent(first["paymentId"])
    _told(first["paymentId"], Outcome.SUCCEEDED)

    repeat = caller.pay(NOTE)

    assert repeat.status_code == 201
    assert repeat["Idempotent-Replay"] == "true"
    assert repeat["Location"] == f"/payments/{first['paymentId']}"
    assert content_of(repeat)["status"] == "SUCCEEDED"
    assert IdempotencyRecord.objects.get().response == {"paymentId": first["paymentId"], "status": "PENDING"}


def test_only_an_explicit_decline_invites_to_pay_again(caller):
    """PAY-8."""
    declined = content_of(caller.pay(NOTE))["paymentId"]
    _sent(declined)
    _told(declined, Outcome.DECLINED, code="E1001")

    body = content_of(caller.get(f"/payments/{declined}"))

    assert (body["status"], body["cause"], body["failureCode"]) == ("FAILED", "DECLINED", "E1001")
    assert "Please pay again" in body["words"]["en"]


def test_a_contradicted_payment_is_shown_as_pending(caller):
    """PAY-4, PAY-7: money reported for a failed payment."""
    payment_id = content_of(caller.pay(NOTE))["paymentId"]
    _sent(payment_id)
    _told(payment_id, Outcome.DECLINED, code="E1001")
    _told(payment_id, Outcome.SUCCEEDED)

    body = content_of(caller.get(f"/payments/{payment_id}"))

    assert (body["status"], body["state"], body["cause"]) == ("PENDING", "FAILED", "CONTRADICTED")
    assert body["safeToPayAgain"] is False
    assert body["completedAt"] is None
    assert "do not pay again" in body["words"]["en"]


def test_a_lost_answer_is_found_by_its_key(caller):
    """PAY-5."""
    payment_id = content_of(caller.pay(NOTE))["paymentId"]

    page = content_of(caller.get("/payments?idempotencyKey=payment-C12345-20260901-01"))

    assert [payment["paymentId"] for payment in page["payments"]] == [payment_id]
    assert page["next"] is None


def test_a_payment_without_order_number_is_found_by_its_key_as_order_number(caller):
    """PAY-17."""
    payment_id = content_of(caller.pay(NOTE))["paymentId"]

    page = content_of(caller.get("/payments?orderNo=payment-C12345-20260901-01"))

    assert [payment["paymentId"] for payment in page["payments"]] == [payment_id]


def test_what_is_accepted_as_a_key_can_be_searched_for(caller):
    """PAY-5: one rule for the field and for the search."""
    key = "付款　C12345/2026 & 01 ? ü"
    payment_id = content_of(caller.pay(idempotencyKey=key))["paymentId"]

    response = caller.http.get("/payments", {"idempotencyKey": key}, headers={"Authorization": f"Bearer {caller.key}"})

    assert [payment["paymentId"] for payment in content_of(response)["payments"]] == [payment_id]


def test_pages_show_every_payment_once_while_new_ones_arrive(caller, client_of_merchant):
    """Keyset pages: nothing twice, nothing missing."""
    old = [factories.a_payment(client_of_merchant, customer_ref="C-1", at=now()).pk for _ in range(7)]
    seen = []
    address = "/payments?customerId=C-1&limit=2"

    while address:
        page = content_of(caller.get(address))
        seen += [payment["paymentId"] for payment in page["payments"]]
        factories.a_payment(client_of_merchant, customer_ref="C-1", at=now())
        address = page["next"]

    assert seen == sorted(old, reverse=True)


def test_a_page_has_as_many_queries_for_ten_payments_as_for_one(caller, client_of_merchant, django_assert_num_queries):
    """K22: client, payments, attempts of their orders, health of their channels."""
    for _ in range(10):
        factories.a_payment(client_of_merchant, customer_ref="C-1", at=now())
    caller.get("/payments?customerId=C-1&limit=1")

    for limit in (1, 10):
        with django_assert_num_queries(3):
            caller.get(f"/payments?customerId=C-1&limit={limit}")


def test_the_header_stands_for_the_key_of_the_body(caller):
    """PAY-9."""
    response = caller.pay(idempotencyKey=None, headers={"Idempotency-Key": "from-the-header"})

    assert content_of(response)["idempotencyKey"] == "from-the-header"


def test_header_and_body_may_name_the_same_key(caller):
    response = caller.pay(headers={"Idempotency-Key": "payment-C12345-20260901-01"})

    assert response.status_code == 202


def test_header_and_body_that_name_two_keys_are_refused(caller):
    response = caller.pay(headers={"Idempotency-Key": "another"})

    problem_of(response, 400, "invalid_field", "idempotencyKey")


def test_a_key_in_the_header_is_the_same_key_in_the_body(caller):
    """PAY-9."""
    first = caller.pay(idempotencyKey="key-1")

    repeat = caller.pay(idempotencyKey=None, headers={"Idempotency-Key": "key-1"})

    assert content_of(repeat)["paymentId"] == content_of(first)["paymentId"]


def test_without_any_key_nothing_is_paid(caller):
    problem_of(caller.pay(idempotencyKey=None), 400, "invalid_field", "idempotencyKey")

    assert not Payment.objects.exists()


@pytest.mark.parametrize(("age", "pause"), [(0, 1), (9.9, 1), (10, 5), (119, 5), (120, 30), (86400, 30)])
def test_callers_are_told_when_to_ask_again(client_of_merchant, age, pause):
    """PAY-6: every second for ten seconds, every 5 s for two minutes, then every 30 s."""
    from payments.api.bodies import poll_after

    payment = factories.a_payment(client_of_merchant)

    assert poll_after(payment, factories.later(seconds=age)) == pause


def test_head_answers_as_get_does(caller: Caller):
    address = caller.pay(NOTE)["Location"]

    assert caller.call("HEAD", address).status_code == 200
