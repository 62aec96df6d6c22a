"""The payments list: filters out of the address, pages by key, counts that stop (K22).

A payment's id is a ULID: it sorts by the time it was made. So the key is also the index of the period; the exact border
is drawn by `accepted_at`, with some slack between the two for clocks that differ.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.http import QueryDict
from django.utils.dateparse import parse_date
from ulid import ULID

from payments.errors import PaymentsError
from payments.masking import holds_card_number
from payments.models import Payment
from payments.money import Money
from payments.words import Tag

from .access import visible_payments
from .people import Operator

PAGE = 50
MOST_COUNTED = 5000
MOST_EXPORTED = 10_000
DEFAULT_DAYS = 7
LONGEST_DAYS = 366
CLOCK_SLACK = timedelta(hours=1)
CUT_AFTER_MS = 3000
State, Cause = Payment.State, Payment.Cause
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}\Z")
_MOST_TEXT = 64

_ASIDE = Q(contradicted=True) | Q(state=State.REVIEW_REQUIRED)
_UNKNOWN = Q(state__in=[State.PENDING, State.CANCEL_PENDING]) & ~Q(cause=Cause.PROCESSING)
_ENDED = Q(state__in=Payment.FINAL)
# The status lexicon as conditions; a test holds it against `words.tag_for`.
BY_TAG: dict[Tag, Q] = {
    Tag.WAITING_OPERATOR: _ASIDE,
    Tag.SUCCEEDED: ~_ASIDE & Q(state=State.SUCCEEDED),
    Tag.FAILED: ~_ASIDE & Q(state=State.FAILED),
    Tag.CANCELLED: ~_ASIDE & Q(state=State.CANCELLED),
    Tag.UNKNOWN: ~_ASIDE & _UNKNOWN,
    Tag.IN_PROGRESS: ~_ASIDE & ~_ENDED & ~_UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Filter:
    """What the list is narrowed to. Days are whole days of `zone`, both ends included.

    :ivar wrong: names of what could not be read; it narrows nothing
    :ivar card_number: a card number was given; it is neither used nor kept
    """

    first: date
    last: date
    zone: ZoneInfo
    status: str = ""
    channel: str = ""
    customer: str = ""
    currency: str = ""
    least: str = ""
    most: str = ""
    after: str = ""
    wrong: tuple[str, ...] = ()
    card_number: bool = False
    given: tuple[tuple[str, str], ...] = field(default=())

    @classmethod
    def read(cls, query: QueryDict, *, zone: ZoneInfo, at: datetime) -> Self:
        """Read a filter out of an address; what cannot be read is named and left out."""
        given = {name: value.strip()[:_MOST_TEXT] for name in _NAMES if (value := query.get(name, "")).strip()}
        card_number = any(holds_card_number(value) for value in given.values())
        wrong = [name for name, value in given.items() if not value.isprintable()]
        kept = {name: value for name, value in given.items() if name not in wrong and not holds_card_number(value)}
        today = at.astimezone(zone).date()
        last = _day(kept, "to", wrong) or today
        first = _day(kept, "from", wrong) or min(last, today) - timedelta(days=DEFAULT_DAYS - 1)
        if not timedelta() <= last - first <= timedelta(days=LONGEST_DAYS):
            wrong.append("from")
            kept.pop("from", None)
            kept.pop("to", None)
            last, first = today, today - timedelta(days=DEFAULT_DAYS - 1)
        if kept.get("status") and kept["status"] not in set(Tag):
            wrong.append("status")
            del kept["status"]
        if kept.get("after") and not _ID.match(kept["after"]):
            del kept["after"]
        kept["currency"] = kept.get("currency", "").upper()[:3]
        for name in ("min", "max"):
            if name in kept and _minor(kept[name], kept["currency"] or "CNY") is None:
                wrong.append(name)
                del kept[name]
        return cls(
            first=first,
            last=last,
            zone=zone,
            status=kept.get("status", ""),
            channel=kept.get("channel", ""),
            customer=kept.get("customer", ""),
            currency=kept["currency"],
            least=kept.get("min", ""),
            most=kept.get("max", ""),
            after=kept.get("after", ""),
            wrong=tuple(wrong),
            card_number=card_number,
            given=tuple((name, value) for name, value in kept.items() if value and name != "after"),
        )

    @property
    def starts_at(self) -> datetime:
        return datetime.combine(self.first, time(), self.zone)

    @property
    def ends_at(self) -> datetime:
        """The first moment that is not in the period any more."""
        return datetime.combine(self.last + timedelta(days=1), time(), self.zone)

    @property
    def money_currency(self) -> str:
        """The currency the amounts of the filter are in."""
        return self.currency or "CNY"

    @property
    def narrows(self) -> bool:
        """Whether anything but the period narrows the list."""
        return any((self.status, self.channel, self.customer, self.currency, self.least, self.most))

    def apply(self, payments: QuerySet[Payment]) -> QuerySet[Payment]:
        """The payments of the filter, without regard to the page."""
        found = payments.filter(
            pk__gte=_first_id(self.starts_at - CLOCK_SLACK),
            pk__lt=_first_id(self.ends_at + CLOCK_SLACK),
            accepted_at__gte=self.starts_at,
            accepted_at__lt=self.ends_at,
        )
        if self.status:
            found = found.filter(BY_TAG[Tag(self.status)])
        if self.channel:
            found = found.filter(channel_id=self.channel)
        if self.customer:
            found = found.filter(customer_ref=self.customer)
        if self.least or self.most or self.currency:
            found = found.filter(currency_id=self.money_currency)
        if self.least:
            found = found.filter(amount_minor__gte=_minor(self.least, self.money_currency))
        if self.most:
            found = found.filter(amount_minor__lte=_minor(self.most, self.money_currency))
        return found


_NAMES = ("status", "channel", "customer", "currency", "min", "max", "from", "to", "after")


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the list, newest first.

    :ivar after: where the next page begins
    :ivar count: how many there are in all, up to `MOST_COUNTED` + 1; None if it could not be counted in time
    """

    payments: list[Payment]
    after: str
    count: int | None

    @property
    def capped(self) -> bool:
        return self.count is not None and self.count > MOST_COUNTED


@contextmanager
def cut_short() -> Iterator[None]:
    """Within it the database cuts a query that takes longer than three seconds."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(CUT_AFTER_MS)])
        yield


def list_payments(*, operator: Operator, chosen: Filter) -> Page:
    """A page of the payments this person may see. Two queries, whatever the size; no offset and no full count.

    :raises OperationalError: it took longer than three seconds
    """
    found = chosen.apply(visible_payments(operator.user))
    with cut_short():
        rows = found.select_related("order", "channel").order_by("-pk")
        if chosen.after:
            rows = rows.filter(pk__lt=chosen.after)
        payments = list(rows[: PAGE + 1])
        count = len(payments) if len(payments) <= PAGE and not chosen.after else _count(found)
    after = payments[PAGE - 1].pk if len(payments) > PAGE else ""
    return Page(payments[:PAGE], after, count)


def _count(found: QuerySet[Payment]) -> int:
    return found.order_by("-pk").values("pk")[: MOST_COUNTED + 1].count()


def every_payment(*, operator: Operator, chosen: Filter) -> Iterator[Payment]:
    """The payments of a filter for an export, newest first, at most `MOST_EXPORTED` + 1."""
    found = chosen.apply(visible_payments(operator.user)).select_related("order", "channel")
    yield from found.order_by("-pk")[: MOST_EXPORTED + 1]


def _day(kept: dict[str, str], name: str, wrong: list[str]) -> date | None:
    if name not in kept:
        return None
    try:
        day = parse_date(kept[name])
    except ValueError:
        day = None
    if day is None or not 2000 <= day.year <= 2200:
        wrong.append(name)
        del kept[name]
        return None
    return day


def _minor(text: str, currency: str) -> int | None:
    try:
        return Money.parse(text, currency).amount_minor
    except PaymentsError:
        return None


def _first_id(at: datetime) -> str:
    """The smallest id that can have been made at this moment."""
    milliseconds = max(0, int(at.timestamp() * 1000))
    return str(ULID.from_bytes(milliseconds.to_bytes(6, "big") + bytes(10)))
