"""Was the customer charged? Yes, no, or not known yet, with the source and time of the evidence."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from payments.models import Payment
from payments.money import Money

State, Cause = Payment.State, Payment.Cause

# In review, the channel's own answer has confirmed that it took money, only another amount than was asked.
_TOOK_OTHER_MONEY = frozenset({Cause.OVERCHARGED, Cause.UNDERCHARGED, Cause.OTHER_CURRENCY})


class Charged(StrEnum):
    """The three answers."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the customer was charged.

    :ivar amount: what was taken
    :ivar differs: it is another amount than was asked
    :ivar at: when the evidence came, or when the state it rests on began
    """

    charged: Charged
    at: datetime | None
    amount: Money | None = None
    differs: bool = False


def charged(payment: Payment) -> Answer:
    """Answer from the payment's row alone, and fail to *not known yet*: only a final state that nothing contradicts, or
    the channel's own word about another amount, says yes or no."""
    at = payment.answered_at or payment.state_since
    if payment.contradicted:
        return Answer(Charged.UNKNOWN, at)
    if payment.state == State.SUCCEEDED:
        return Answer(Charged.YES, at, payment.captured, payment.captured != payment.amount)
    if payment.state == State.REVIEW_REQUIRED and payment.cause in _TOOK_OTHER_MONEY and payment.captured:
        return Answer(Charged.YES, at, payment.captured, differs=True)
    if payment.state in (State.FAILED, State.CANCELLED):
        return Answer(Charged.NO, payment.completed_at or at)
    return Answer(Charged.UNKNOWN, at)
