"""Money: a whole number of minor units and a currency (FND-1). No binary float comes in or out."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, localcontext
from functools import cache
from typing import Self

import iso4217

from .errors import AmountNotReadable, CurrencyMismatch, TooManyDecimals, UnknownCurrency

# 18 digits before the point and 6 after it: what a bigint of minor units holds with room to spare.
_DECIMAL_TEXT = re.compile(r"(0|[1-9][0-9]{0,14})(\.[0-9]{1,6})?\Z", re.ASCII)
MAX_MINOR = 10**15
_EXACT = 60  # digits kept while an amount is read; the default of 28 would round a longer one before it is judged


@cache
def iso_digits(currency: str) -> int:
    """Return the number of decimals of a currency. Source: ISO 4217 (CNY 2, JPY 0, KWD 3).

    :raises UnknownCurrency: the code is none of ISO 4217, or has no minor unit there (XXX, XAU)
    """
    try:
        digits = iso4217.Currency(currency).exponent
    except ValueError:
        digits = None
    if digits is None:
        raise UnknownCurrency(currency=currency)
    return int(digits)


@dataclass(frozen=True, slots=True, order=False)
class Money:
    """An exact amount: `amount_minor` in the currency's ISO 4217 minor unit."""

    amount_minor: int
    currency: str

    @classmethod
    def from_major(cls, amount: Decimal | int, currency: str) -> Self:
        """Read an exact decimal amount as in 12.50; nothing is rounded.

        :raises AmountNotReadable: not a finite number, or beyond what an account can hold
        :raises TooManyDecimals: finer than the currency's minor unit (JPY 80.5)
        """
        value = Decimal(amount)
        if not value.is_finite() or abs(value) >= MAX_MINOR:
            raise AmountNotReadable(text=str(amount))
        with localcontext(prec=_EXACT):
            minor = value.scaleb(iso_digits(currency))
            whole = minor == minor.to_integral_value()
        if not whole or len(value.as_tuple().digits) > _EXACT:
            raise TooManyDecimals(amount=str(amount)[:40], currency=currency, digits=iso_digits(currency))
        if abs(minor) >= MAX_MINOR:
            raise AmountNotReadable(text=str(amount))
        return cls(int(minor), currency)

    @classmethod
    def parse(cls, text: str, currency: str) -> Self:
        """Read a plain decimal text: ASCII digits, one point, no sign, exponent, blank or separator.

        :raises AmountNotReadable, TooManyDecimals: as `from_major`
        """
        if not _DECIMAL_TEXT.match(text):
            raise AmountNotReadable(text=text[:40])
        return cls.from_major(Decimal(text), currency)

    @classmethod
    def rounded(cls, amount: Decimal, currency: str) -> Self:
        """Round once, at the edge, HALF_UP, to the currency's minor unit (FND-1)."""
        minor = amount.scaleb(iso_digits(currency)).quantize(Decimal(1), rounding=ROUND_HALF_UP)
        return cls(int(minor), currency)

    @property
    def major(self) -> Decimal:
        """The amount in major units, with exactly the currency's decimals."""
        digits = iso_digits(self.currency)
        return Decimal(self.amount_minor).scaleb(-digits).quantize(Decimal(1).scaleb(-digits))

    def __str__(self) -> str:
        return f"{self.major:,} {self.currency}"

    def __add__(self, other: "Money") -> "Money":
        return Money(self.amount_minor + self._same(other), self.currency)

    def __sub__(self, other: "Money") -> "Money":
        return Money(self.amount_minor - self._same(other), self.currency)

    def __lt__(self, other: "Money") -> bool:
        return self.amount_minor < self._same(other)

    def __le__(self, other: "Money") -> bool:
        return self.amount_minor <= self._same(other)

    def __gt__(self, other: "Money") -> bool:
        return self.amount_minor > self._same(other)

    def __ge__(self, other: "Money") -> bool:
        return self.amount_minor >= self._same(other)

    def _same(self, other: "Money") -> int:
        if other.currency != self.currency:
            raise CurrencyMismatch(left=self.currency, right=other.currency)
        return other.amount_minor
