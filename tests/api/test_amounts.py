"""From JSON to minor units and back, no cent is lost (FND-1, K13)."""

import json
from decimal import Decimal

import pytest

from payments.api.bodies import read_payment_request
from payments.money import Money
from payments.strict_json import loads
from tests.api.conftest import a_body, content_of


def amount_in(text: str, currency: str = "CNY") -> Money:
    """The amount of a request whose JSON holds it as written here."""
    body = json.dumps(a_body(currency=currency)).replace('"128.00"', text)
    return read_payment_request(loads(body.encode()), header_key=None).amount


def test_all_amounts_up_to_a_hundred_are_exact_as_number_and_as_text():
    """K13: a float on the way would miss 573 of these ten thousand."""
    for minor in range(1, 100_01):
        text = f"{minor // 100}.{minor % 100:02}"
        assert amount_in(text) == amount_in(f'"{text}"') == Money(minor, "CNY")
        assert str(Money(minor, "CNY").major) == text


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [
        ("80", "JPY", 80),
        ("80.0", "JPY", 80),
        ("1000", "KRW", 1000),
        ("1.234", "KWD", 1234),
        ("1.2", "KWD", 1200),
        ("0.001", "KWD", 1),
        ("0.01", "CNY", 1),
        ("19.99", "CNY", 1999),
        ("128", "CNY", 12800),
        ("128.0", "CNY", 12800),
        ("128.000000", "CNY", 12800),
        ("0.1", "CNY", 10),
        ("9999999999999.99", "CNY", 999999999999999),
    ],
)
def test_minor_units_follow_the_digits_of_the_currency(text, currency, minor):
    """FND-1, K13: JPY 0, CNY 2, KWD 3; never a fixed factor."""
    assert amount_in(text, currency) == amount_in(f'"{text}"', currency) == Money(minor, currency)


@pytest.mark.parametrize(
    ("text", "currency", "shown"),
    [("80", "JPY", b"80"), ("1.2", "KWD", b"1.200"), ("0.1", "CNY", b"0.10"), ("9999999999999.99", "CNY", None)],
)
def test_an_answer_writes_the_amount_with_its_currencys_digits(caller, text, currency, shown):
    response = caller.pay(json.dumps(a_body(currency=currency)).replace('"128.00"', text).encode())

    assert response.status_code == 202, response.content
    assert b'"amount":' + (shown or text.encode()) + b"," in response.content
    assert content_of(response)["amount"] == Decimal(text)
