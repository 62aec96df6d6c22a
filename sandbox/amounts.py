"""Money on the wire and in the ledger: whole minor units and a currency, decimal strings outside."""

import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal

# Source: ISO 4217, the currencies this bank keeps accounts in.
MINOR_DIGITS = {
    "AED": 2, "AUD": 2, "BHD": 3, "CAD": 2, "CHF": 2, "CNY": 2, "EUR": 2, "GBP": 2, "HKD": 2, "IDR": 2,
    "JOD": 3, "JPY": 0, "KRW": 0, "KWD": 3, "MOP": 2, "MYR": 2, "NZD": 2, "OMR": 3, "PHP": 2, "SGD": 2,
    "THB": 2, "TWD": 2, "USD": 2, "VND": 0,
}  # fmt: skip

DECIMAL = re.compile(r"(0|[1-9][0-9]*)(?:\.([0-9]+))?")
LONGEST_VALUE = 18


class BadAmount(ValueError):
    """The text is not an amount of this currency; the message says what was expected."""


@dataclass(frozen=True)
class Amount:
    """A whole number of minor units in one currency."""

    minor: int
    currency: str

    def as_json(self) -> dict[str, str]:
        """Return the amount as the contract writes it: a decimal string with exactly the currency's digits."""
        digits = MINOR_DIGITS[self.currency]
        if digits == 0:
            return {"value": str(self.minor), "currency": self.currency}
        whole, part = divmod(self.minor, 10**digits)
        return {"value": f"{whole}.{part:0{digits}d}", "currency": self.currency}

    def plus(self, difference: Decimal) -> "Amount":
        """Return this amount moved by a decimal difference, cut to whole minor units, never below zero."""
        moved = int((difference.scaleb(MINOR_DIGITS[self.currency])).to_integral_value(rounding=ROUND_DOWN))
        return Amount(max(0, self.minor + moved), self.currency)


def parse_amount(value: str, currency: str) -> Amount:
    """Read a decimal string with exactly the currency's digits, above zero.

    :raises BadAmount: another number of digits, a sign, an exponent, zero, or a currency this bank does not keep
    """
    if currency not in MINOR_DIGITS:
        raise BadAmount(f"currency {currency[:8]!r} is not kept here")
    digits = MINOR_DIGITS[currency]
    match = DECIMAL.fullmatch(value)
    if match is None or len(value) > LONGEST_VALUE or len(match[2] or "") != digits:
        raise BadAmount(f"must be a decimal string with exactly {digits} decimals for {currency}")
    minor = int(match[1] + (match[2] or ""))
    if minor == 0:
        raise BadAmount("must be above zero")
    return Amount(minor, currency)
