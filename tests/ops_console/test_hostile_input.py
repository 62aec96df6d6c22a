"""What strangers write is text, and nothing they send breaks a page (K21)."""

import pytest
from django.urls import reverse
from django.utils.timezone import now

from payments.models import Attention, Payment
from tests.ops_console import scenes
from tests.ops_console.test_access import TOKEN

PROBES = ["<img src=x onerror=alert(1)>", "\"'><script>alert(1)</script>", "</script><svg onload=alert(1)>"]
CONTROL = [
    "\x01",
    "\x1f\x7f",
    "a\nb",
    "a\r\nSet-Cookie: x=1",
    "\u2028",
    "\u202e",
    "\ufffe",
    "😀" * 50,
    "%",
    "\\",
    "'" * 40,
]


@pytest.mark.parametrize("probe", PROBES)
def test_markup_is_shown_as_text_everywhere(ops, client_of_merchant, bank, probe):
    payment = scenes.sent(
        client_of_merchant,
        scenes.decline(probe),
        order_no=probe[:200],
        customer_ref=probe[:60],
        purpose=probe,
        idempotency_key=probe,
        payment_token=probe[:60],
    )
    Payment.objects.filter(pk=payment.pk).update(failure_code=probe[:60])
    Attention.objects.create(
        kind="UNMAPPED_CODE",
        priority=1,
        cause_key="probe",
        subject="payment:x",
        payment=payment,
        facts={probe: probe},
        opened_at=now(),
        last_at=now(),
    )
    page = reverse("ops_console:payment", args=[payment.pk])

    pages = [
        ops.get(page),
        ops.post(reverse("ops_console:unmask", args=[payment.pk]), {"token": TOKEN, "reason": probe}),
        ops.get(page),
        ops.get(reverse("ops_console:payments"), {"customer": probe, "status": probe, "channel": probe, "min": probe}),
        ops.get(reverse("ops_console:payments")),
        ops.get(reverse("ops_console:find"), {"q": probe + "x"}),
        ops.get(reverse("ops_console:attentions"), {"kind": probe}),
        ops.get(reverse("ops_console:find")),
        ops.get("/console/" + "x"),
    ]

    for answer in pages:
        shown = answer.content.decode()
        assert probe not in shown
        assert "<img src=x" not in shown
        assert "<script>alert" not in shown
        assert "<svg onload" not in shown
    assert "&lt;" in pages[0].content.decode()


ADDRESSES = {
    "find": ("q",),
    "payments": ("status", "channel", "customer", "currency", "min", "max", "from", "to", "after"),
    "attentions": ("kind", "priority", "after"),
    "me": ("x",),
    "login": ("next",),
}


@pytest.mark.parametrize("name", list(ADDRESSES))
def test_no_parameter_breaks_a_page(ops, client_of_merchant, name):
    for parameter in ADDRESSES[name]:
        for value in [*CONTROL, "9" * 5000, "0000-00-00", "2026-99-99", "1~9999-99-99T99:99:99+00:00~1", "-1"]:
            answer = ops.get(reverse(f"ops_console:{name}"), {parameter: value})
            assert answer.status_code < 500, (parameter, value)


def test_no_parameter_breaks_the_payment_page(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)
    for parameter in ("part", "order", "page"):
        for value in [*CONTROL, "9" * 5000, "-1", "٣", "0"]:
            answer = ops.get(reverse("ops_console:payment", args=[payment.pk]), {parameter: value})
            assert answer.status_code == 200, (parameter, value)


@pytest.mark.parametrize("path", ["/console/find?q=%00", "/console/payments?customer=a%00b", "/console/payments/%00"])
def test_a_nul_is_refused(ops, path):
    assert ops.get(path).status_code in (400, 404)


def test_a_nul_in_a_form_is_refused(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)

    answers = [
        ops.post(reverse("ops_console:find"), {"q": "a\x00b"}),
        ops.post(reverse("ops_console:unmask", args=[payment.pk]), {"token": TOKEN, "reason": "a\x00b"}),
        ops.post(reverse("ops_console:ask_bank", args=[payment.pk]), {"token": "\x00", "revision": "\x00"}),
        ops.post(reverse("ops_console:copied", args=[payment.pk]), {"language": "\x00"}),
        ops.post(reverse("ops_console:export_payments"), {"filter": "customer=%00"}),
        ops.post(reverse("ops_console:me"), {"theme": "\x00"}),
        ops.post(reverse("ops_console:display"), {"theme": "\x00", "next": "\x00"}),
        ops.post(reverse("ops_console:login"), {"username": "\x00", "password": "\x00"}),
    ]

    assert all(answer.status_code < 500 for answer in answers)


@pytest.mark.parametrize("path", ["/console/payments/nothing", f"/console/payments/{'0' * 26}", "/console/nope"])
def test_what_does_not_exist_has_a_page(ops, path):
    answer = ops.get(path)

    assert answer.status_code == 404
    assert "There is nothing here" in answer.content.decode()


def test_a_card_number_in_a_reason_is_refused(ops, client_of_merchant):
    from ops_console.models import OperatorAction

    payment = scenes.queued(client_of_merchant)

    answer = ops.post(
        reverse("ops_console:unmask", args=[payment.pk]), {"token": TOKEN, "reason": "4111 1111 1111 1111"}
    )

    assert answer.status_code == 422
    assert "1111 1111" not in answer.content.decode()
    assert not OperatorAction.objects.exists()
