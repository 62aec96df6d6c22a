"""The whole story of a payment from its rows, oldest first: why did this money become this? (AUD-4)"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import groupby

from .models import (
    Attention,
    ChannelExchange,
    IdempotencyRecord,
    InboundNotification,
    LedgerLine,
    Order,
    OutboxEvent,
    Payment,
    Receipt,
)
from .money import Money

# Changes that enter no state, and the first one.
_DATED_BY_WRITING = ("accepted", "edited", "contradicted")
LONG_SILENCE = timedelta(minutes=2)


class Part(StrEnum):
    """Whose part of the story a moment is; the timeline filters by it."""

    STATE = "state"
    BANK = "bank"
    NOTIFICATION = "notification"
    EVENT = "event"
    LEDGER = "ledger"
    ATTENTION = "attention"


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened.

    :ivar event: a stable word for it, such as `succeeded` or `query_reply`
    :ivar anchor: names the row it is told from, as in `exchange:17`; also the anchor on the page
    :ivar facts: name and value, in the order to show them
    :ivar raw: masked body of a message, where there is one
    """

    at: datetime
    part: Part
    event: str
    actor: str
    anchor: str
    state: str = ""
    money: Money | None = None
    facts: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    silence_before: timedelta | None = None


def tell(payment: Payment) -> list[Moment]:
    """Return every moment of a payment, oldest first. Nine queries, whatever its length."""
    return _with_silences(sorted(_all_moments(payment), key=lambda moment: (moment.at, _rank(moment))))


def _rank(moment: Moment) -> int:
    """The order of what has one time stamp: a state is left before the question goes out, and entered on its answer."""
    if moment.event in ("accepted", "order_created", "submitted"):
        return 0
    if moment.part in (Part.BANK, Part.NOTIFICATION):
        return 1 if moment.event.endswith("_request") else 2
    return {Part.STATE: 3, Part.ATTENTION: 4}.get(moment.part, 5)


def _all_moments(payment: Payment) -> Iterator[Moment]:
    yield from _changes(payment)
    yield from _order_changes(payment)
    yield from _exchanges(payment)
    yield from _notifications(payment)
    yield from _receipts(payment)
    yield from _postings(payment)
    yield from _attentions(payment)
    yield from _events(payment)


def _facts(**named: object) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in named.items() if value not in (None, ""))


def _changes(payment: Payment) -> Iterator[Moment]:
    record = IdempotencyRecord.objects.filter(payment_id=payment.pk).first()
    for row in Payment.history.filter(id=payment.pk).order_by("history_id"):
        first = row.event == "accepted" and record is not None
        yield Moment(
            at=row.history_date if row.event in _DATED_BY_WRITING else row.state_since or row.history_date,
            part=Part.STATE,
            event=row.event,
            actor=row.actor,
            anchor=f"change:{row.history_id}",
            state=row.state,
            money=payment.amount if row.event == "accepted" else _captured(row),
            facts=_facts(
                cause=row.cause,
                source=row.source,
                evidence=row.evidence,
                reason=row.reason,
                transaction=row.bank_transaction_id,
                key=record.business_key if first and record else "",
            ),
        )


def _captured(row: Payment) -> Money | None:
    return None if row.captured_minor is None else Money(row.captured_minor, row.captured_currency)


def _order_changes(payment: Payment) -> Iterator[Moment]:
    for row in Order.history.filter(id=payment.order_id).order_by("history_id"):
        yield Moment(
            at=row.history_date,
            part=Part.STATE,
            event=f"order_{row.event}",
            actor=row.actor,
            anchor=f"order-change:{row.history_id}",
            state=row.state,
            facts=_facts(source=row.source, evidence=row.evidence),
        )


def _exchanges(payment: Payment) -> Iterator[Moment]:
    for row in ChannelExchange.objects.filter(payment=payment).order_by("id"):
        sent = row.kind == ChannelExchange.Kind.REQUEST
        yield Moment(
            at=row.at,
            part=Part.BANK,
            event=f"{row.operation}_{'request' if sent else 'reply'}",
            actor=row.actor if sent else row.channel_id,
            anchor=f"exchange:{row.pk}",
            facts=_facts(
                reference=row.reference if sent else "",
                outcome=row.outcome,
                http=row.http_status,
                code=row.code,
                text=row.message,
                classification=row.classification,
                transaction=row.channel_txn_id,
                latency=f"{row.latency_ms} ms" if row.latency_ms is not None else "",
                answers=f"exchange:{row.request_id}" if row.request_id else "",
            ),
            raw=row.body,
        )


def _notifications(payment: Payment) -> Iterator[Moment]:
    for row in InboundNotification.objects.filter(reference=payment.pk).order_by("id"):
        yield Moment(
            at=row.received_at,
            part=Part.NOTIFICATION,
            event="notification",
            actor=row.channel_id,
            anchor=f"notification:{row.pk}",
            money=None if row.amount_minor is None else Money(row.amount_minor, row.currency),
            facts=_facts(
                outcome=row.outcome,
                handled=row.state,
                deliveries=row.deliveries,
                code=row.code,
                text=row.message,
                transaction=row.channel_txn_id,
            ),
            raw=row.body,
        )


def _receipts(payment: Payment) -> Iterator[Moment]:
    for row in Receipt.objects.filter(payment=payment).order_by("id"):
        yield Moment(
            at=row.received_at,
            part=Part.STATE,
            event="receipt",
            actor=row.channel_id,
            anchor=f"receipt:{row.pk}",
            state=row.state,
            money=row.amount,
            facts=_facts(transaction=row.channel_txn_id, source=row.source, evidence=row.evidence),
        )


def _postings(payment: Payment) -> Iterator[Moment]:
    lines = LedgerLine.objects.filter(entry__payment=payment).select_related("entry", "account")
    for _, posted in groupby(lines.order_by("entry_id", "-amount_minor"), key=lambda line: line.entry_id):
        debit, *credits = posted
        yield Moment(
            at=debit.entry.posted_at,
            part=Part.LEDGER,
            event=f"posting_{debit.entry.kind.lower()}",
            actor="system",
            anchor=f"entry:{debit.entry_id}",
            money=debit.amount,
            facts=_facts(
                debit=debit.account.kind,
                credit=", ".join(line.account.kind for line in credits),
                evidence=debit.entry.evidence,
            ),
        )


def _attentions(payment: Payment) -> Iterator[Moment]:
    for row in Attention.objects.filter(payment=payment).order_by("id"):
        facts = _facts(priority=f"P{row.priority}", times=row.times if row.times > 1 else "", **row.facts)
        yield Moment(
            at=row.opened_at,
            part=Part.ATTENTION,
            event=f"attention_{row.kind.lower()}",
            actor="system",
            anchor=f"attention:{row.pk}",
            facts=facts,
        )
        if row.settled_at is not None:
            yield Moment(
                at=row.settled_at,
                part=Part.ATTENTION,
                event="attention_settled",
                actor="system",
                anchor=f"attention-end:{row.pk}",
                facts=_facts(kind=row.kind, by=row.settled_by),
            )


def _events(payment: Payment) -> Iterator[Moment]:
    for row in OutboxEvent.objects.filter(subject_id=payment.pk).order_by("id"):
        status = "dead" if row.dead_at else "dispatched" if row.dispatched_at else "due"
        yield Moment(
            at=row.created_at,
            part=Part.EVENT,
            event="outbox_event",
            actor="system",
            anchor=f"event:{row.pk}",
            facts=_facts(type=row.type, sequence=row.sequence, delivery=status, error=row.last_error),
        )


def _with_silences(moments: list[Moment]) -> list[Moment]:
    """Mark where the channel said nothing for long: a gap is part of the story."""
    told: list[Moment] = []
    asked: datetime | None = None
    for moment in moments:
        silence = None
        if moment.part in (Part.BANK, Part.NOTIFICATION):
            if asked is not None and not moment.event.endswith("_request") and moment.at - asked >= LONG_SILENCE:
                silence = moment.at - asked
            if moment.event.endswith("_request"):
                asked = asked or moment.at
            elif not any(name == "outcome" and value in ("UNKNOWN", "NOT_SENT") for name, value in moment.facts):
                asked = None
        told.append(
            moment
            if silence is None
            else Moment(
                **{name: getattr(moment, name) for name in Moment.__slots__ if name != "silence_before"},
                silence_before=silence,
            )
        )
    return told
