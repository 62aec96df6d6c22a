"""FND-1, K13: exact amounts, ISO 4217 digits, one rounding."""

from decimal import Decimal

import pytest

from payments.errors import AmountNotReadable, CurrencyMismatch, PaymentsError, TooManyDecimals, UnknownCurrency
from payments.money import Money, iso_digits


@pytest.mark.parametrize(
    ("text", "currency", "minor"),
    [("80", "JPY", 80), ("1000", "KRW", 1000), ("1.234", "KWD", 1234), ("0.01", "CNY", 1), ("128", "CNY", 12800)],
)
def test_an_amount_is_counted_in_the_minor_unit_of_its_currency(text, currency, minor):
    assert Money.parse(text, currency) == Money(minor, currency)


def test_every_price_up_to_a_hundred_survives_text_and_decimal():
    for minor in range(1, 10001):
        text = f"{minor // 100}.{minor % 100:02}"

        assert Money.parse(text, "CNY").amount_minor == minor
        assert Money.from_major(Decimal(text), "CNY").amount_minor == minor
        assert str(Money(minor, "CNY").major) == text


@pytest.mark.parametrize("amount", ["80.5", "80.01"])
def test_yen_have_no_decimals(amount):
    with pytest.raises(TooManyDecimals, match="JPY"):
        Money.parse(amount, "JPY")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 10 ",
        "1,000.00",
        "１２.３４",
        "NaN",
        "sNaN",
        "Infinity",
        "1e5",
        "+1",
        "-1",
        ".5",
        "1.",
        "00.5",
        "1_000",
        "1\n",
    ],
)
def test_only_a_plain_decimal_is_an_amount(text):
    with pytest.raises(AmountNotReadable):
        Money.parse(text, "CNY")


@pytest.mark.parametrize(
    "value", [Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e400"), Decimal(10) ** 30]
)
def test_a_number_out_of_range_is_refused_and_never_crashes(value):
    with pytest.raises(PaymentsError):
        Money.from_major(value, "CNY")


@pytest.mark.parametrize("code", ["XXX", "XAU", "ABC", "cny", ""])
def test_what_is_no_currency_has_no_digits(code):
    with pytest.raises(UnknownCurrency):
        iso_digits(code)


@pytest.mark.parametrize(
    ("amount", "currency", "minor"), [("0.005", "CNY", 1), ("0.0049", "CNY", 0), ("1.5", "JPY", 2), ("2.5", "JPY", 3)]
)
def test_rounding_happens_once_and_half_up(amount, currency, minor):
    assert Money.rounded(Decimal(amount), currency).amount_minor == minor


def test_two_currencies_do_not_add_up():
    with pytest.raises(CurrencyMismatch):
        Money(1, "CNY") + Money(1, "USD")
