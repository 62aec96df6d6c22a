"""The payment page tells the truth, and all of it (OPS-1, AUD-4)."""

from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse

from ops_console import answers
from ops_console.answers import Charged
from payments.models import ChannelExchange, Payment
from tests import factories
from tests.ops_console import scenes

CHARGED = {
    "succeeded": Charged.YES,
    "unknown": Charged.UNKNOWN,
    "declined": Charged.NO,
    "overcharged": Charged.YES,
    "contradicted": Charged.UNKNOWN,
    "queued": Charged.UNKNOWN,
    "never_sent": Charged.NO,
}


def see(client: Client, payment, **query) -> str:
    return client.get(reverse("ops_console:payment", args=[payment.pk]), query).content.decode()


@pytest.mark.parametrize("scene", list(scenes.SCENES))
def test_was_the_customer_charged(client_of_merchant, bank, scene):
    payment = scenes.SCENES[scene](client_of_merchant)

    assert answers.charged(payment).charged is CHARGED[scene]


def test_an_overcharge_names_both_amounts(ops, client_of_merchant, bank):
    page = see(ops, scenes.overcharged(client_of_merchant))

    assert "138.00" in page
    assert "asked for: 128.00 CNY" in page
    assert "Payer charged more than agreed" in page
    assert "P0" in page


@pytest.mark.parametrize(
    ("scene", "verdict", "words"),
    [
        ("succeeded", "NO", "Your payment was successful."),
        ("unknown", "NOT YET", "Please do not pay again."),
        ("declined", "YES", "The payment failed; you have not been charged."),
        ("contradicted", "NOT YET", "Please do not pay again."),
        ("never_sent", "YES", "nothing was sent to the bank"),
    ],
)
def test_the_verdict_and_the_words_of_each_state(ops, client_of_merchant, bank, scene, verdict, words):
    page = see(ops, scenes.SCENES[scene](client_of_merchant))

    assert f"</span>{verdict}</p>" in page
    assert words in page


def test_nothing_open_is_called_succeeded(ops, client_of_merchant, bank):
    page = see(ops, scenes.unknown(client_of_merchant))

    assert "Succeeded" not in page
    assert "successful" not in page


def test_a_yes_says_how_long_it_holds(ops, client_of_merchant, bank):
    page = see(ops, scenes.declined(client_of_merchant))

    assert "Holds until" in page
    assert 'data-lasts="' in page
    assert "<noscript><meta http-equiv=" in page


def test_a_refresh_gets_the_living_part_alone(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)

    answer = ops.get(reverse("ops_console:payment", args=[payment.pk]), headers={"HX-Request": "true"})

    page = answer.content.decode()
    assert page.lstrip().startswith('<div id="live"')
    assert "<html" not in page


def test_personal_data_is_masked_until_a_reason_is_given(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant, customer_ref="CUSTOMER-77", payment_token="tok_secret_0001")
    url = reverse("ops_console:unmask", args=[payment.pk])
    token = "0f1d8f4e-6a1b-4a55-9d0c-3f2f3f3f3f3f"

    masked = see(ops, payment)
    without_reason = ops.post(url, {"token": token, "reason": " "})
    bare = ops.post(url, {"token": token, "reason": "refund to the right customer"}).content.decode()
    again = ops.post(url, {"token": token, "reason": "refund to the right customer"})
    after = see(ops, payment)

    assert "CUSTOMER-77" not in masked + after
    assert "tok_secret_0001" not in masked + after
    assert without_reason.status_code == 422
    assert "CUSTOMER-77" in bare
    assert "tok_secret_0001" in bare
    assert again.status_code == 409
    assert "CUSTOMER-77" not in again.content.decode()
    assert "hx-get" not in bare  # a refresh would hide it again, or keep it open for ever


def test_the_timeline_filters_turns_and_pages(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    fill_timeline(payment, 250)

    first, oldest, bank_only, third = (
        see(ops, payment),
        see(ops, payment, order="oldest"),
        see(ops, payment, part="bank"),
        see(ops, payment, page="3"),
    )

    assert first.count('class="moment ') == 100
    assert "1 / 3" in first
    assert oldest.index("Payment accepted") < oldest.index("Payment request to the bank")
    assert "Payment accepted" not in bank_only
    assert 0 < third.count('class="moment ') < 100


def test_silence_is_marked(ops, client_of_merchant, bank):
    assert "no answer from the bank for 2 min 59 s" in see(ops, scenes.unknown(client_of_merchant))


def test_the_payment_page_takes_at_most_fifteen_queries_with_five_hundred_events(
    ops, client_of_merchant, bank, django_assert_max_num_queries
):
    payment = scenes.declined(client_of_merchant, customer_ref="C-MANY")
    fill_timeline(payment, 500)
    for _ in range(8):
        scenes.declined(client_of_merchant, customer_ref="C-MANY", intended=True)

    with django_assert_max_num_queries(15):
        page = see(ops, payment)

    assert "Other payments of this order and customer" in page


def test_other_payments_of_the_order_and_the_customer_are_shown(ops, client_of_merchant, bank):
    first = scenes.declined(client_of_merchant, order_no="ORDER-5", customer_ref="C-55")
    second = scenes.declined(client_of_merchant, order_no="ORDER-5", customer_ref="C-55")
    third = scenes.queued(client_of_merchant, customer_ref="C-55", intended=True)

    page = see(ops, second)

    assert "same order" in page
    assert first.pk in page
    assert third.pk in page


def test_times_are_in_the_persons_zone(ops, client_of_merchant):
    payment = factories.a_payment(client_of_merchant)  # 02:30 UTC
    ops.post(reverse("ops_console:me"), PREFERENCES | {"time_zone": "America/New_York"})

    assert "2026-08-31 22:30:00" in see(ops, payment)


def test_preferences_are_kept_and_applied(ops, client_of_merchant):
    ops.post(
        reverse("ops_console:me"), PREFERENCES | {"theme": "dark", "density": "comfortable", "language": "zh-hans"}
    )

    page = ops.get(reverse("ops_console:me")).content.decode()

    assert 'lang="zh-hans"' in page
    assert 'data-theme="dark" data-density="comfortable"' in page
    assert "data-shortcuts" not in page
    assert "偏好设置" in page


def test_refresh_switched_off_stops_the_polling(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)
    before = see(ops, payment)
    ops.post(reverse("ops_console:me"), PREFERENCES)

    assert "hx-trigger" in before
    assert "hx-trigger" not in see(ops, payment)


def test_the_switches_in_the_top_bar_return_to_the_page_and_nowhere_else(ops):
    url = reverse("ops_console:display")

    back = ops.post(url, {"theme": "dark", "next": "/console/payments?status=failed"})
    away = ops.post(url, {"theme": "light", "next": "https://evil.example/"})

    assert back["Location"] == "/console/payments?status=failed"
    assert away["Location"] == reverse("ops_console:find")


@pytest.mark.parametrize("wrong", [{"theme": "neon"}, {"time_zone": "Mars/Base"}, {"language": "xx"}])
def test_choices_that_do_not_exist_are_not_kept(ops, wrong):
    assert ops.post(reverse("ops_console:me"), PREFERENCES | wrong).status_code == 422


def test_language_follows_the_person_to_another_browser(db):
    user = scenes.a_person("ops")
    first = Client()
    first.force_login(user)
    first.post(reverse("ops_console:me"), PREFERENCES | {"language": "zh-hans"})

    other = Client()
    other.post(reverse("ops_console:login"), {"username": "ops", "password": scenes.PASSWORD})

    assert "查询付款" in other.get(reverse("ops_console:find")).content.decode()


PREFERENCES = {"theme": "system", "density": "compact", "language": "", "time_zone": ""}


def fill_timeline(payment: Payment, count: int) -> None:
    ChannelExchange.objects.bulk_create(
        ChannelExchange(
            kind="REQUEST",
            channel_id=payment.channel_id,
            operation="query",
            payment=payment,
            reference=payment.pk,
            at=payment.accepted_at + timedelta(seconds=3, milliseconds=number),
        )
        for number in range(count)
    )
