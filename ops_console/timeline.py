"""The timeline of a payment: its story and what people did, filtered, turned and paged for the page."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from operator import attrgetter

from django.utils.timezone import localdate

from payments import story
from payments.models import Payment

from . import masks
from .models import OperatorAction

PAGE = 100
PEOPLE = "people"
PARTS = (*story.Part, PEOPLE)


@dataclass(frozen=True, slots=True)
class Row:
    """A moment as the page shows it.

    :ivar new_day: the first row of its day, in the reader's zone
    :ivar differs: its amount is another one than was asked for
    """

    moment: story.Moment
    part: str
    new_day: bool = False
    differs: bool = False


@dataclass(frozen=True, slots=True)
class OpenAttention:
    """What needs a person now, told from its moment."""

    kind: str
    priority: str
    opened_at: datetime
    anchor: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One page of the timeline with its filter and the counts beside it."""

    rows: list[Row]
    total: int
    counts: dict[str, int]
    chosen: str
    oldest_first: bool
    page: int
    pages: int


def whole_story(payment: Payment) -> list[Row]:
    """Everything that happened and everything people did, oldest first. Nine queries, whatever the length."""
    rows = [Row(moment, moment.part, differs=_differs(moment, payment)) for moment in story.tell(payment)]
    rows += [Row(_of_action(action), PEOPLE) for action in _actions(payment)]
    return sorted(rows, key=lambda row: row.moment.at)


def page_of(
    rows: list[Row], *, payment: Payment, chosen: str, oldest_first: bool, page: int, raw: bool, bare: bool = False
) -> Timeline:
    """One page of the story.

    :param chosen: a part, or empty for all
    :param raw: whether the reader may see messages at all
    :param bare: whether personal data in them stays readable
    """
    shown = [row for row in rows if not chosen or row.part == chosen]
    ordered = shown if oldest_first else shown[::-1]
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(max(page, 1), pages)
    cut = ordered[(page - 1) * PAGE : page * PAGE]
    readable = [_readable(row, payment, raw=raw, bare=bare) for row in cut]
    return Timeline(
        rows=list(_with_days(readable)),
        total=len(shown),
        counts=Counter(row.part for row in rows),
        chosen=chosen,
        oldest_first=oldest_first,
        page=page,
        pages=pages,
    )


def open_attentions(rows: list[Row]) -> list[OpenAttention]:
    """What needs a person now, most urgent first: the attentions of the story that have no end."""
    told = [row.moment for row in rows if row.part == story.Part.ATTENTION]
    ended = {moment.anchor.removeprefix("attention-end:") for moment in told if moment.event == "attention_settled"}
    found = []
    for moment in told:
        kind, _sep, key = moment.anchor.partition(":")
        if kind == "attention" and key not in ended:
            facts = tuple(fact for fact in moment.facts if fact[0] != "priority")
            priority = dict(moment.facts).get("priority", "")
            name = moment.event.removeprefix("attention_").upper()
            found.append(OpenAttention(name, priority, moment.at, moment.anchor, facts))
    return sorted(found, key=attrgetter("priority", "opened_at"))


def last_change(rows: list[Row]) -> story.Moment | None:
    """The newest moment that moved the payment's state: the evidence behind what the page says."""
    return next((row.moment for row in reversed(rows) if row.moment.anchor.startswith("change:")), None)


def last_word(rows: list[Row]) -> story.Moment | None:
    """The newest thing the channel said."""
    spoken = (row.moment for row in reversed(rows) if row.part in (story.Part.BANK, story.Part.NOTIFICATION))
    return next((moment for moment in spoken if not moment.event.endswith("_request")), None)


def _actions(payment: Payment) -> Iterable[OperatorAction]:
    return OperatorAction.objects.filter(target=f"payment:{payment.pk}").order_by("id")


def _of_action(action: OperatorAction) -> story.Moment:
    detail = [(name, str(value)) for name, value in action.detail.items()]
    facts = [("outcome", action.outcome), ("role", action.role), ("reason", action.reason), *detail]
    return story.Moment(
        at=action.at,
        part=story.Part.STATE,
        event=f"action_{action.action}",
        actor=f"user:{action.actor}",
        anchor=f"action:{action.pk}",
        facts=tuple(fact for fact in facts if fact[1]),
    )


def _differs(moment: story.Moment, payment: Payment) -> bool:
    return moment.money is not None and moment.money != payment.amount


def _readable(row: Row, payment: Payment, *, raw: bool, bare: bool) -> Row:
    """The row with its message as this reader may see it."""
    if not row.moment.raw:
        return row
    body = row.moment.raw if bare else masks.masked_message(row.moment.raw, payment)
    return replace(row, moment=replace(row.moment, raw=body if raw else ""))


def _with_days(rows: list[Row]) -> Iterable[Row]:
    before = None
    for row in rows:
        day = localdate(row.moment.at)
        yield replace(row, new_day=day != before)
        before = day
