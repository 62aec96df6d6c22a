"""Is it safe to pay again? One answer for API and console, and it fails closed.

YES needs proof that nothing was taken and can be taken by this payment or any other of its order: a final state, the
channel's own word not older than its freshness limit, no late-success window open, the channel reachable. Whatever is
missing makes it NOT_YET. A YES expires by itself.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from django.db.models import QuerySet

from .models import ChannelHealth, Order, Payment
from .words import DECLINES, NEVER_LEFT

RULES_VERSION = "1"
DOWN_AFTER = timedelta(seconds=5)
State, Cause = Payment.State, Payment.Cause


class Answer(StrEnum):
    """The verdict's three answers."""

    YES = "YES"
    NO = "NO"
    NOT_YET = "NOT_YET"


@dataclass(frozen=True, slots=True)
class Fact:
    """One row of evidence under a verdict: `holds` is True, False or None for not known."""

    name: str
    value: str
    source: str
    at: datetime | None
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer with the rule that gave it.

    :ivar valid_until: when a YES expires
    :ivar next_question_at: when the channel will be asked next
    """

    answer: Answer
    rule: str
    facts: tuple[Fact, ...]
    valid_until: datetime | None = None
    next_question_at: datetime | None = None

    @property
    def rule_id(self) -> str:
        return f"{self.rule}/v{RULES_VERSION}"


def safe_to_pay_again(*, payment: Payment, at: datetime) -> Verdict:
    """Judge whether another payment for this payment's order is safe now. At most two queries beside loaded relations."""
    others = list(attempts_of([payment.order_id]).exclude(pk=payment.pk))
    health = ChannelHealth.objects.filter(pk=payment.channel_id).first()
    return judge(payment=payment, order=payment.order, others=others, health=health, at=at)


def attempts_of(order_ids: Iterable[str]) -> QuerySet[Payment]:
    """The payments of these orders with all that `judge` looks at in other attempts."""
    attempts = Payment.objects.filter(order_id__in=list(order_ids)).select_related("channel")
    return attempts.only(
        "order_id", "state", "cause", "contradicted", "sent", "accepted_at", "submitted_at", "completed_at", "channel"
    )


def answer_for(*, payment: Payment, at: datetime) -> Verdict:
    """As `safe_to_pay_again` for who shows no facts: reads only what can change the answer."""
    if not payment.only_attempt or payment.is_final:
        return safe_to_pay_again(payment=payment, at=at)
    return judge(payment=payment, order=payment.order, others=[], health=None, at=at)


def judge(
    *, payment: Payment, order: Order, others: list[Payment], health: ChannelHealth | None, at: datetime
) -> Verdict:
    """The rules themselves, free of any read, first match wins."""
    facts = tuple(_facts(payment, order, others, health, at))

    def verdict(answer: Answer, rule: str, valid_until: datetime | None = None) -> Verdict:
        return Verdict(answer, rule, facts, valid_until, payment.next_query_at if answer is Answer.NOT_YET else None)

    if payment.contradicted or any(other.contradicted for other in others):
        return verdict(Answer.NOT_YET, "contradiction-open")
    if payment.state == State.SUCCEEDED or any(other.state == State.SUCCEEDED for other in others):
        return verdict(Answer.NO, "already-paid")
    if not order.takes_payment:
        return verdict(Answer.NO, "order-takes-no-payment")
    if any(other.state not in Payment.FINAL for other in others):
        return verdict(Answer.NOT_YET, "another-attempt-open")
    if not payment.is_final:
        return verdict(Answer.NOT_YET, "result-open")
    if any(late_success_until(attempt) > at for attempt in (payment, *others)):
        return verdict(Answer.NOT_YET, "late-success-window-open")
    if never_left(payment):
        return verdict(Answer.YES, "never-sent", at + timedelta(seconds=payment.channel.verdict_freshness_s))
    if is_down(health, at):
        return verdict(Answer.NOT_YET, "channel-not-reachable")
    fresh_until = _fresh_until(payment)
    if fresh_until is None or fresh_until <= at:
        return verdict(Answer.NOT_YET, "bank-answer-too-old")
    return verdict(Answer.YES, "declined" if payment.cause in DECLINES else "proven-not-charged", fresh_until)


def late_success_until(payment: Payment) -> datetime:
    """Until when money may still turn up after an end that rests on absence or on a refusal of our request."""
    assert payment.completed_at is not None
    if payment.cause in DECLINES or payment.submitted_at is None or never_left(payment):
        return datetime.min.replace(tzinfo=UTC)
    return payment.submitted_at + timedelta(seconds=payment.channel.not_found_window_s)


def never_left(payment: Payment) -> bool:
    """Whether the payment ended without a byte of it having left."""
    return payment.cause in NEVER_LEFT and not payment.sent


def is_down(health: ChannelHealth | None, at: datetime) -> bool:
    """Whether calls have failed for some seconds without an answer in between: one lost call is not an outage."""
    if health is None or health.failed_at is None:
        return False
    return health.answered_at is None or health.failed_at > health.answered_at + DOWN_AFTER


def _fresh_until(payment: Payment) -> datetime | None:
    """Until when the channel's last word on this payment counts as fresh."""
    if payment.answered_at is None:
        return None
    return payment.answered_at + timedelta(seconds=payment.channel.verdict_freshness_s)


def needs_fresh_answer(payment: Payment, verdict: Verdict) -> bool:
    """Whether asking the channel again could turn this verdict into a YES."""
    return payment.is_final and verdict.rule in ("bank-answer-too-old", "channel-not-reachable")


def _facts(
    payment: Payment, order: Order, others: list[Payment], health: ChannelHealth | None, at: datetime
) -> list[Fact]:
    source = payment.channel_id
    facts = [
        Fact("state-final", payment.state, "countinghouse", payment.state_since, payment.is_final),
        Fact("not-charged", payment.cause, source, payment.completed_at, _not_charged(payment)),
    ]
    open_others = [other for other in others if other.state not in Payment.FINAL or other.state == State.SUCCEEDED]
    value = ", ".join(f"{other.pk} {other.state}" for other in open_others)
    newest = max((other.accepted_at for other in others), default=None)
    facts.append(Fact("no-other-attempt", value, "countinghouse", newest, not open_others))
    facts.append(Fact("order-unpaid", order.state, "countinghouse", None, order.takes_payment))
    if payment.submitted_at is not None:
        fresh_until = _fresh_until(payment)
        facts.append(Fact("bank-answer-fresh", "", source, payment.answered_at, bool(fresh_until and fresh_until > at)))
        if payment.is_final and payment.state != State.SUCCEEDED:
            until = late_success_until(payment)
            facts.append(Fact("late-window-closed", "", source, until, until <= at))
    down = is_down(health, at)
    last = health.failed_at if health and down else health.answered_at if health else None
    facts.append(
        Fact(
            "channel-reachable",
            health.failure if health and down else "",
            source,
            last,
            None if last is None else not down,
        )
    )
    return facts


def _not_charged(payment: Payment) -> bool | None:
    if payment.contradicted or not payment.is_final:
        return None
    return payment.state != State.SUCCEEDED
