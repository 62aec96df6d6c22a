"""Look-up by whatever the caller has in hand (OPS-1, PAY-13, K21)."""

import logging

import pytest
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.urls import reverse

from payments import lookup
from tests.ops_console import scenes

FIND = reverse("ops_console:find")
CARD = "4111 1111 1111 1111"


@pytest.mark.parametrize("by", ["payment", "order", "transaction", "key", "customer"])
def test_one_hit_opens_the_payment(ops, client_of_merchant, bank, by):
    payment = scenes.succeeded(client_of_merchant, transaction="BANK-77")
    wanted = {
        "payment": payment.pk.lower(),
        "order": f"  {payment.order.order_no} ",
        "transaction": "BANK-77",
        "key": payment.idempotency_key,
        "customer": payment.customer_ref,
    }[by]

    by_post, by_link = ops.post(FIND, {"q": wanted}), ops.get(FIND, {"q": wanted})

    page = reverse("ops_console:payment", args=[payment.pk])
    assert (by_post["Location"], by_link["Location"]) == (page, page)


def test_several_hits_are_listed(ops, client_of_merchant):
    payments = [scenes.queued(client_of_merchant, customer_ref="C-MANY", intended=True) for _ in range(3)]

    page = ops.post(FIND, {"q": "C-MANY"}, follow=True).content.decode()

    assert "3 payments" in page
    assert all(payment.pk in page for payment in payments)


def test_no_hit_says_what_was_tried(ops):
    page = ops.post(FIND, {"q": "NOWHERE-1"}, follow=True).content.decode()

    assert "Nothing matches exactly." in page
    assert "Payment id, Order number, Bank transaction id, Idempotency key, Customer" in page
    assert 'value="NOWHERE-1"' in page


@pytest.mark.parametrize("typed", [CARD, "4111111111111111", "card 4111-1111-1111-1111 please"])
def test_a_card_number_is_refused_and_kept_nowhere(ops, client_of_merchant, caplog, typed):
    caplog.set_level(logging.DEBUG)

    answers = [ops.post(FIND, {"q": typed}), ops.get(FIND, {"q": typed})]

    for answer in answers:
        page = answer.content.decode()
        assert answer.status_code == 422
        assert "looks like a card number" in page
        assert "1111" not in page
    kept = " ".join(str(row.get_decoded()) for row in Session.objects.all())
    assert "1111" not in kept
    assert "1111" not in "".join(
        record.getMessage() for record in caplog.records if record.name != "django.db.backends"
    )


def test_the_latest_look_ups_are_offered(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)
    ops.post(FIND, {"q": payment.order.order_no})

    page = ops.get(FIND).content.decode()

    assert "Looked up lately" in page
    assert payment.pk in page


def test_a_search_that_takes_too_long_keeps_the_text_and_does_not_repeat(ops, monkeypatch):
    def slow(*args, **kwargs):
        raise OperationalError("canceling statement due to statement timeout")

    monkeypatch.setattr("ops_console.views.find.find", slow)

    answer = ops.get(FIND, {"q": "ORD-1"})

    assert answer.status_code == 503
    assert 'value="ORD-1"' in answer.content.decode()
    assert "does not repeat by itself" in answer.content.decode()


def test_look_up_goes_through_the_persons_scope(ops, client_of_merchant, monkeypatch):
    payment = scenes.queued(client_of_merchant)
    nothing = lambda user: type(payment).objects.none()  # noqa: E731
    for module in ("views.find", "payment_page", "listing"):
        monkeypatch.setattr(f"ops_console.{module}.visible_payments", nothing)

    found = ops.get(FIND, {"q": payment.pk})
    page = ops.get(reverse("ops_console:payment", args=[payment.pk]))
    listed = ops.get(reverse("ops_console:payments"))

    assert "Nothing matches exactly." in found.content.decode()
    assert page.status_code == 404
    assert payment.pk not in listed.content.decode()


@pytest.mark.django_db
def test_what_the_page_says_it_tried_is_what_look_up_tries():
    from ops_console.views.find import TRIED

    assert tuple(dict.fromkeys(by for by, _ in lookup._ways("x" * 26))) == TRIED


def test_a_card_number_does_not_travel_through_the_log_in(client, db):
    answer = client.get(FIND, {"q": CARD})

    assert "1111" not in answer["Location"]
    assert "1111" not in client.get(answer["Location"]).content.decode()
