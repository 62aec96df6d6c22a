"""What the payment page shows, gathered with a fixed number of queries."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from django.db.models import Q
from django.http import Http404

from payments import verdict, words
from payments.errors import PaymentsError
from payments.models import ChannelHealth, Payment

from . import answers, timeline
from .access import visible_payments
from .errors import ConsoleRefusal
from .masks import masked_customer
from .people import Operator
from .roles import Capability

State = Payment.State
MOST_RELATED = 6
YOUNG = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Related:
    """Another payment of the same order or the same customer."""

    payment: Payment
    same_order: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the payment since a page was shown."""

    at: datetime
    actor: str
    event: str


@dataclass(frozen=True, slots=True)
class Notice:
    """What just came of an action, shown in place.

    :ivar code: of `wording.NOTICES` or `wording.REFUSALS`
    :ivar tone: `good`, `bad`, or empty where nothing was gained or lost
    """

    code: str
    tone: str = ""
    changes: tuple[Change, ...] = ()


def load_payment(*, operator: Operator, payment_id: str) -> Payment:
    """Return a payment this person may see, with all that its page reads of other tables. One query.

    :raises Http404: no such payment, or not for this person
    """
    related = ("order", "channel", "channel__health", "merchant", "client")
    payment = visible_payments(operator.user).select_related(*related).filter(pk=payment_id).first()
    if payment is None:
        raise Http404
    return payment


def page_context(
    *,
    operator: Operator,
    payment: Payment,
    at: datetime,
    chosen: str = "",
    oldest_first: bool = False,
    page: int = 1,
    bare: bool = False,
    notice: Notice | None = None,
) -> dict[str, Any]:
    """Everything the page shows. Ten queries beside the payment's own.

    :param bare: personal data is shown in full, for this view
    """
    same_order, same_customer = _related(operator, payment)
    health: ChannelHealth | None = getattr(payment.channel, "health", None)
    judged = verdict.judge(payment=payment, order=payment.order, others=same_order, health=health, at=at)
    rows = timeline.whole_story(payment)
    told = timeline.page_of(
        rows,
        payment=payment,
        chosen=chosen,
        oldest_first=oldest_first,
        page=page,
        raw=operator.may(Capability.RAW_MESSAGES),
        bare=bare,
    )
    return {
        "payment": payment,
        "tag": words.tag_for(payment),
        "charged": answers.charged(payment),
        "change": timeline.last_change(rows),
        "last_word": timeline.last_word(rows),
        "verdict": judged,
        "yes_lasts_ms": _milliseconds_left(judged, at),
        "words": words.words_for(payment, answer=judged.answer),
        "attentions": timeline.open_attentions(rows),
        "timeline": told,
        "own_query": {
            "part": told.chosen,
            "order": "oldest" if told.oldest_first else "",
            "page": told.page if told.page > 1 else "",
        },
        "related": [Related(row, True) for row in same_order] + [Related(row, False) for row in same_customer],
        "customer": payment.customer_ref if bare else masked_customer(payment.customer_ref),
        "bare": bare,
        "asking": _why_not_ask(operator, payment),
        "may_unmask": operator.may(Capability.UNMASK),
        "may_see_raw": operator.may(Capability.RAW_MESSAGES),
        "token": uuid4(),
        "unmask_token": uuid4(),
        "as_of": at,
        "poll_seconds": 0 if bare or not operator.preferences.refresh else _poll_seconds(payment, judged, at),
        "notice": notice,
    }


def changes_since(*, payment: Payment, revision: int) -> tuple[Change, ...]:
    """What happened to a payment after the revision a page showed. One query."""
    later = Payment.history.filter(id=payment.pk, revision__gt=revision).order_by("history_id")[:20]
    return tuple(Change(row.state_since or row.history_date, row.actor, row.event) for row in later)


def refusal_notice(refusal: PaymentsError | ConsoleRefusal, changes: tuple[Change, ...] = ()) -> Notice:
    """A refusal as the page shows it."""
    return Notice(refusal.code, "bad", changes)


def asked_notice(payment: Payment) -> Notice:
    """What came of asking the bank: an answer counts only if it came after the question."""
    if payment.answered_at is None or payment.asked_at is None or payment.answered_at < payment.asked_at:
        return Notice("silent")
    return Notice("final", "good") if payment.is_final else Notice("open")


def _related(operator: Operator, payment: Payment) -> tuple[list[Payment], list[Payment]]:
    """All other payments of the order, which the verdict needs whole, and the customer's newest few. One query."""
    of_customer = (
        visible_payments(operator.user)
        .filter(merchant_id=payment.merchant_id, customer_ref=payment.customer_ref)
        .exclude(order_id=payment.order_id)
        .order_by("-pk")
        .values("pk")[:MOST_RELATED]
    )
    found = (
        Payment.objects.filter(Q(order_id=payment.order_id) | Q(pk__in=of_customer))
        .exclude(pk=payment.pk)
        .select_related("order")
        .order_by("-pk")
    )
    same_order: list[Payment] = []
    same_customer: list[Payment] = []
    for row in found:
        (same_order if row.order_id == payment.order_id else same_customer).append(row)
    return same_order, same_customer


def _why_not_ask(operator: Operator, payment: Payment) -> str:
    """Why the bank cannot be asked: a refusal's code, or nothing."""
    if not operator.may(Capability.ASK_BANK):
        return "role"
    if payment.state in Payment.UNSENT or (not payment.sent and payment.submitted_at is None):
        return "nothing_to_ask"
    return ""


def _milliseconds_left(judged: verdict.Verdict, at: datetime) -> int | None:
    if judged.answer is not verdict.Answer.YES or judged.valid_until is None:
        return None
    return max(0, int((judged.valid_until - at).total_seconds() * 1000))


def _poll_seconds(payment: Payment, judged: verdict.Verdict, at: datetime) -> int:
    """How soon the page looks again: soon while the result is open, seldom once it is final."""
    if payment.is_final and not payment.contradicted:
        return 15 if judged.answer is verdict.Answer.YES else 30
    return 3 if at - payment.accepted_at < YOUNG else 10
