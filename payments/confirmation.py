"""Where every result of a payment ends: reply, notification, query, statement, person (QRY-4).

`confirm_payment` takes the order's and the payment's lock, weighs the evidence against what is known and moves the state
once. What contradicts a final state never moves it: it becomes a receipt or a mark, and a person is told (PAY-4).
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from django.db import IntegrityError, transaction
from django.db.models import Q

from . import attentions, ledger, outbox
from .evidence import Evidence, Outcome, Source
from .models import Attention, Channel, ErrorCodeRule, Order, Payment, Receipt
from .models.history import Trace, save_traced
from .money import Money
from .nudges import nudge_on_commit
from .signals import attention_needed, attention_settled
from .units import constraint_of

logger = logging.getLogger(__name__)

State, Cause, Kind = Payment.State, Payment.Cause, Attention.Kind
Class = ErrorCodeRule.Classification

REVIEW_QUERY_EVERY = timedelta(days=1)
RESEND_BACKOFF_S = (1, 2, 5, 10, 20, 30)
SHOWS_KNOWLEDGE = frozenset({Outcome.PROCESSING, Outcome.SUCCEEDED, Outcome.DECLINED, Outcome.CANCELLED})
NO_MONEY = frozenset({Outcome.DECLINED, Outcome.CANCELLED, Outcome.NOT_FOUND, Outcome.REFUSED})
MONEY_SOURCES = (Source.REPLY, Source.QUERY, Source.STATEMENT)
STATE_FIELDS = [
    "state",
    "cause",
    "revision",
    "captured_minor",
    "captured_currency",
    "bank_transaction_id",
    "txn_scope",
    "failure_code",
    "failure_text",
    "accounting",
    "contradicted",
    "sent",
    "queued_at",
    "submitted_at",
    "state_since",
    "completed_at",
    *Payment.PLAN,
]


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a piece of evidence did.

    :ivar moved: the state changed
    :ivar mismatch: it speaks of other money than ours, or against a final state; the channel is asked
    """

    payment: Payment
    moved: bool = False
    mismatch: bool = False


@transaction.atomic
def confirm_payment(*, payment_id: str, evidence: Evidence) -> Confirmation:
    """Weigh evidence and move the payment's state at most once. Equal evidence again changes nothing.

    Lock order: order, then payment. Announces the change in the outbox, in the same transaction (EVT-1).

    :raises Payment.DoesNotExist: no such payment
    """
    order_id = Payment.objects.values_list("order_id", flat=True).get(pk=payment_id)
    order = Order.objects.select_for_update(no_key=True).get(pk=order_id)
    payment = Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=payment_id)
    _note_knowledge(payment, evidence)
    if payment.state in Payment.UNSENT:
        return _known_before_it_was_sent(payment, evidence)
    if payment.is_final:
        return _after_the_end(payment, evidence)
    return _while_open(order, payment, evidence)


@transaction.atomic
def withdraw_cancel(*, payment_id: str, evidence: Evidence) -> Confirmation:
    """The channel refuses to cancel: the payment's result is open as before, and asked for at once (FND-8)."""
    payment = Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("channel").get(pk=payment_id)
    if payment.state != State.CANCEL_PENDING:
        return Confirmation(payment)
    payment.doubt(cause=Cause.CANCEL_REFUSED, at=evidence.at)
    payment.next_query_at = evidence.at
    nudge_on_commit("query_due")
    return _moved(payment, evidence, "cancel_refused")


def _note_knowledge(payment: Payment, evidence: Evidence) -> None:
    """Keep that the channel has the payment, whoever said so: from then on *not found* is no proof of absence. And keep
    when it last said how an open payment stands, or confirmed a closed one's end; the pay-again verdict rests on it."""
    known: dict[str, datetime | bool] = {}
    if evidence.outcome in SHOWS_KNOWLEDGE and not payment.known_to_channel:
        known["known_to_channel"] = payment.known_to_channel = True
    if evidence.source in MONEY_SOURCES and evidence.outcome in _confirming(payment):
        known["answered_at"] = payment.answered_at = evidence.at
    if known:
        Payment.objects.filter(pk=payment.pk).update(**known)


def _confirming(payment: Payment) -> frozenset[Outcome]:
    """The outcomes that say something about this payment without speaking against its end."""
    match payment.state:
        case State.SUCCEEDED:
            return frozenset({Outcome.SUCCEEDED})
        case State.FAILED | State.CANCELLED:
            return NO_MONEY
    return frozenset(Outcome) - {Outcome.UNKNOWN, Outcome.NOT_SENT}


# While the result is open


def _while_open(order: Order, payment: Payment, evidence: Evidence) -> Confirmation:
    if evidence.source is Source.NOTIFICATION and _must_be_asked(payment, evidence):
        return _ask_again(payment, evidence)
    match evidence.outcome:
        case Outcome.SUCCEEDED:
            return _success(order, payment, evidence)
        case Outcome.DECLINED | Outcome.CANCELLED if evidence.amount not in (None, payment.amount):
            return _other_money(payment, evidence)
        case Outcome.DECLINED:
            return _failed(order, payment, evidence, Cause.DECLINED)
        case Outcome.CANCELLED:
            payment.cancel(
                cause=Cause.CANCELLED_BY_CHANNEL, at=evidence.at, completed_at=evidence.completed_at or evidence.at
            )
            return _ended(order, payment, evidence, "cancelled")
        case Outcome.REFUSED if evidence.source is Source.REPLY:
            return _refused(order, payment, evidence)
        case Outcome.NOT_SENT if evidence.source is Source.REPLY:
            return _resend(payment, evidence, cause=Cause.NOT_SENT_YET, left=False)
        case Outcome.NOT_FOUND if _proves_absence(payment, evidence):
            return _failed(order, payment, evidence, Cause.ABSENT)
    return _still_open(payment, evidence)


def _must_be_asked(payment: Payment, evidence: Evidence) -> bool:
    """Out of review leads a query, a statement or people. And that no money was taken frees the order for another payment,
    so it is believed only when the channel answers it to our own question."""
    return payment.state == State.REVIEW_REQUIRED or evidence.outcome in (Outcome.DECLINED, Outcome.CANCELLED)


def _success(order: Order, payment: Payment, evidence: Evidence) -> Confirmation:
    if evidence.amount is None or evidence.amount != payment.amount or not evidence.channel_txn_id:
        return _other_money(payment, evidence)
    if Receipt.objects.filter(channel_id=payment.channel_id, channel_txn_id=evidence.channel_txn_id).exists():
        return _txn_id_clash(payment, evidence)
    trace = _trace(evidence, "succeeded")
    try:
        with transaction.atomic():
            payment.succeed(
                captured=evidence.amount,
                bank_transaction_id=evidence.channel_txn_id,
                at=evidence.at,
                completed_at=evidence.completed_at or evidence.at,
            )
            payment.txn_scope = _txn_scope(payment, evidence)
            save_traced(payment, trace, fields=STATE_FIELDS)
    except IntegrityError as error:
        if constraint_of(error) != "bank_transaction_once_per_channel":
            raise
        return _txn_id_clash(payment, evidence)
    ledger.capture(payment=payment, captured=evidence.amount, evidence=evidence.reference, at=evidence.at)
    if order.state == Order.State.PAYING:
        order.pay()
        save_traced(order, trace.named("paid"), fields=["state"])
    return _ended(order, payment, evidence, "succeeded", saved=True)


def _txn_scope(payment: Payment, evidence: Evidence) -> str:
    """The day within which a transaction id is unique, where the channel's policy says so (PAY-12)."""
    if payment.channel.txn_scope == Channel.TxnScope.CHANNEL:
        return ""
    return (evidence.completed_at or evidence.at).astimezone(ZoneInfo(payment.channel.time_zone)).date().isoformat()


def _txn_id_clash(payment: Payment, evidence: Evidence) -> Confirmation:
    """The channel names a transaction that belongs to another payment: nothing is lost, a person decides (PAY-12)."""
    payment.refresh_from_db()
    same = Q(bank_transaction_id=evidence.channel_txn_id) | Q(receipts__channel_txn_id=evidence.channel_txn_id)
    other = Payment.objects.filter(same, channel=payment.channel).exclude(pk=payment.pk).first()
    facts = {"channelTransactionId": evidence.channel_txn_id, "otherPayment": other.pk if other else ""}
    return _to_review(payment, evidence, cause=Cause.TXN_ID_CLASH, kind=Kind.PAYMENT_REVIEW, priority=0, facts=facts)


def _other_money(payment: Payment, evidence: Evidence) -> Confirmation:
    """A result about other money than was asked for. A notification only makes us ask (NTF-2); the channel's own answer
    puts the payment under review when it says that money was taken (FND-5)."""
    if evidence.source is Source.NOTIFICATION:
        return _mismatch(payment, evidence)
    if evidence.outcome is Outcome.SUCCEEDED and evidence.amount not in (None, payment.amount):
        assert evidence.amount is not None
        return _charged_other_money(payment, evidence, evidence.amount)
    return _still_open(payment, evidence)


def _charged_other_money(payment: Payment, evidence: Evidence, amount: Money) -> Confirmation:
    facts = {"asked": str(payment.amount), "confirmed": str(amount), "channelTransactionId": evidence.channel_txn_id}
    if amount.currency != payment.currency_id:
        cause, kind, priority = Cause.OTHER_CURRENCY, Kind.PAYMENT_REVIEW, 0
    elif amount > payment.amount:
        cause, kind, priority = Cause.OVERCHARGED, Kind.OVERCHARGE, 0
    else:
        cause, kind, priority = Cause.UNDERCHARGED, Kind.PAYMENT_REVIEW, 1
    payment.captured_minor, payment.captured_currency = amount.amount_minor, amount.currency
    return _to_review(payment, evidence, cause=cause, kind=kind, priority=priority, facts=facts)


def _to_review(
    payment: Payment, evidence: Evidence, *, cause: str, kind: str, priority: int, facts: dict[str, str]
) -> Confirmation:
    payment.next_query_at = evidence.at + REVIEW_QUERY_EVERY
    if payment.state == State.REVIEW_REQUIRED and payment.cause == cause:
        Payment.objects.filter(pk=payment.pk).update(next_query_at=payment.next_query_at)
        return Confirmation(payment)
    if payment.state == State.REVIEW_REQUIRED:
        payment.learn_in_review(cause=cause)
    else:
        payment.review(cause=cause, at=evidence.at)
    save_traced(payment, _trace(evidence, "review_required"), fields=STATE_FIELDS)
    outbox.record(type_="payment.review_required", payment=payment, at=evidence.at)
    nudge_on_commit("dispatch_events")
    _raise(payment, kind, priority, {**facts, "cause": cause}, f"review:{payment.pk}:{kind}", evidence.at)
    return Confirmation(payment, moved=True)


def _refused(order: Order, payment: Payment, evidence: Evidence) -> Confirmation:
    """A refusal provably without effect, by its class (SPL-4 for payments)."""
    if not evidence.mapped:
        facts = {"code": evidence.code, "text": evidence.message, "operation": "pay"}
        key = f"unmapped:{payment.channel_id}:pay:{evidence.code}"
        _raise(payment, Kind.UNMAPPED_CODE, 2, facts, key, evidence.at)
        return _still_open(payment, evidence, cause=Cause.UNMAPPED_CODE)
    match evidence.classification:
        case Class.TRANSIENT:
            return _resend(payment, evidence, cause=Cause.CHANNEL_BUSY, left=True)
        case Class.STRUCTURAL:
            facts = {"code": evidence.code, "text": evidence.message, "operation": "pay"}
            key = f"refused:{payment.channel_id}:pay:{evidence.code}"
            _raise(payment, Kind.STRUCTURAL_REFUSAL, 1, facts, key, evidence.at)
            return _failed(order, payment, evidence, Cause.REFUSED)
        case Class.SUSPECTED:
            facts = {"code": evidence.code, "text": evidence.message, "operation": "pay"}
            key = f"suspected:{payment.channel_id}:pay:{evidence.code}"
            _raise(payment, Kind.SUSPECTED_REFUSAL, 2, facts, key, evidence.at)
            return _failed(order, payment, evidence, Cause.SUSPECTED)
    return _still_open(payment, evidence)


def _resend(payment: Payment, evidence: Evidence, *, cause: str, left: bool) -> Confirmation:
    """The attempt had no effect: the same reference goes again, by and by, within the send limit (PAY-16)."""
    if payment.state != State.SUBMITTED:
        return _still_open(payment, evidence)
    wait = RESEND_BACKOFF_S[min(payment.submit_attempts, len(RESEND_BACKOFF_S)) - 1]
    payment.requeue(cause=cause, at=evidence.at, due_at=evidence.at + timedelta(seconds=wait), left=left)
    return _moved(payment, evidence, "requeued")


def _failed(order: Order, payment: Payment, evidence: Evidence, cause: str) -> Confirmation:
    payment.fail(
        cause=cause,
        code=evidence.code,
        text=evidence.message,
        at=evidence.at,
        completed_at=evidence.completed_at or evidence.at,
    )
    return _ended(order, payment, evidence, "failed")


def _ended(order: Order, payment: Payment, evidence: Evidence, event: str, *, saved: bool = False) -> Confirmation:
    """The payment has ended: move the order with it, tell of it, and close what waited for its end."""
    if not saved:
        save_traced(payment, _trace(evidence, event), fields=STATE_FIELDS)
    outbox.record(type_=f"payment.{event}", payment=payment, at=evidence.at)
    nudge_on_commit("dispatch_events")
    settle_order(order=order, ended=payment, trace=_trace(evidence, event), at=evidence.at)
    attentions.settle_attentions_of(
        payment=payment,
        kinds=(Kind.PAYMENT_REVIEW, Kind.OVERCHARGE, Kind.UNKNOWN_TOO_LONG, Kind.STRANDED),
        by=f"payment {event} by {evidence.source.lower()}",
        at=evidence.at,
    )
    _settle_mismatch(payment, evidence)
    return Confirmation(payment, moved=True)


def settle_order(*, order: Order, ended: Payment, trace: Trace, at: datetime) -> None:
    """After a payment's end: reopen its order unless it is paid, and let a waiting replacement go or end (PAY-16/18).

    While two stories about the order's money are told, nothing more is sent for it. The caller holds the order's lock.
    """
    waiting = order.payments.select_for_update(no_key=True, of=("self",)).filter(state=State.CREATED).first()
    if ended.state == State.SUCCEEDED or has_open_contradiction(order):
        if waiting and waiting.pk != ended.pk:
            waiting.cancel_unsent(cause=Cause.NEVER_SENT, at=at)
            save_traced(waiting, trace.named("cancelled"), fields=STATE_FIELDS)
            outbox.record(type_="payment.cancelled", payment=waiting, at=at)
        return
    if waiting and waiting.pk != ended.pk:
        waiting.promote(at=at, send_before=at + timedelta(seconds=waiting.channel.send_limit_s))
        save_traced(waiting, trace.named("promoted"), fields=STATE_FIELDS)
        outbox.record(type_="payment.queued", payment=waiting, at=at)
        nudge_on_commit("submit_due")
    elif order.state == Order.State.PAYING and not order.payments.live().exists():
        order.reopen()
        save_traced(order, trace.named("reopened"), fields=["state"])


def has_open_contradiction(order: Order) -> bool:
    """Whether the channel tells another story than ours about any payment of the order (PAY-4, PAY-7)."""
    return order.payments.filter(contradicted=True).exists()


def _still_open(payment: Payment, evidence: Evidence, *, cause: str | None = None) -> Confirmation:
    """Nothing proven: the payment is, or stays, unknown and is asked again (PAY-2)."""
    overdue = payment.query_deadline is not None and evidence.at >= payment.query_deadline
    if overdue and payment.state != State.REVIEW_REQUIRED:
        facts = {"lastAnswer": evidence.code or evidence.outcome, "questions": str(payment.query_count)}
        return _to_review(payment, evidence, cause=Cause.DEADLINE, kind=Kind.PAYMENT_REVIEW, priority=1, facts=facts)
    payment.next_query_at = next_query_time(payment, evidence.at)
    if payment.state == State.SUBMITTED and not _reply_may_still_come(payment, evidence):
        payment.doubt(cause=cause or _open_cause(evidence), at=evidence.at)
        return _moved(payment, evidence, "pending")
    Payment.objects.filter(pk=payment.pk).update(next_query_at=payment.next_query_at)
    return Confirmation(payment)


def _reply_may_still_come(payment: Payment, evidence: Evidence) -> bool:
    """An early question while the request is on its way proves nothing about it."""
    if evidence.source is Source.REPLY or evidence.outcome is Outcome.PROCESSING or payment.submitted_at is None:
        return False
    return evidence.at < payment.submitted_at + reply_patience(payment.channel)


def reply_patience(channel: Channel) -> timedelta:
    """How long a request may be under way before it counts as stranded."""
    return timedelta(seconds=channel.connect_timeout_s + channel.read_timeout_s + 3)


def _open_cause(evidence: Evidence) -> str:
    return Cause.PROCESSING if evidence.outcome is Outcome.PROCESSING else Cause.NO_ANSWER


def next_query_time(payment: Payment, at: datetime) -> datetime:
    """When to ask next: by the channel's back-off, daily in review (QRY-1)."""
    if payment.state == State.REVIEW_REQUIRED:
        return at + REVIEW_QUERY_EVERY
    waits = payment.channel.query_backoff_s
    return at + timedelta(seconds=waits[min(payment.query_count, len(waits) - 1)])


def _proves_absence(payment: Payment, evidence: Evidence) -> bool:
    """Not found is final only by the channel's policy, asked after its window since submission (QRY-2)."""
    if evidence.source is not Source.QUERY or not payment.channel.not_found_is_final:
        return False
    if payment.submitted_at is None or evidence.asked_at is None or payment.known_to_channel:
        return False
    if payment.state == State.REVIEW_REQUIRED and payment.cause != Cause.DEADLINE:
        return False
    window = timedelta(seconds=payment.channel.not_found_window_s) + reply_patience(payment.channel)
    return evidence.asked_at >= payment.submitted_at + window


def _mismatch(payment: Payment, evidence: Evidence) -> Confirmation:
    """Signed, but about other money than ours: alarm once, ask at once, move nothing (NTF-2)."""
    facts = {
        "ours": str(payment.amount),
        "theirs": str(evidence.amount) if evidence.amount else "unreadable",
        "source": evidence.source,
        "channelTransactionId": evidence.channel_txn_id,
    }
    _raise(payment, Kind.NOTIFICATION_MISMATCH, 1, facts, f"mismatch:{payment.pk}", evidence.at)
    if payment.next_query_at is None or payment.next_query_at > evidence.at:
        payment.next_query_at = evidence.at
        Payment.objects.filter(pk=payment.pk).update(next_query_at=evidence.at)
    nudge_on_commit("query_due")
    return Confirmation(payment, mismatch=True)


# Before it was sent, and after the end


def _known_before_it_was_sent(payment: Payment, evidence: Evidence) -> Confirmation:
    """The channel knows a payment that we have not sent: it is never sent again, and the channel is asked."""
    if evidence.outcome in (Outcome.NOT_FOUND, Outcome.UNKNOWN, Outcome.NOT_SENT):
        return Confirmation(payment)
    if payment.state == State.CREATED:
        facts = {"theirs": evidence.outcome, "state": payment.state, "reference": evidence.reference}
        _raise(payment, Kind.NOTIFICATION_MISMATCH, 1, facts, f"mismatch:{payment.pk}", evidence.at)
        return Confirmation(payment, mismatch=True)
    payment.doubt(cause=Cause.KNOWN_ELSEWHERE, at=evidence.at)
    payment.submitted_at = payment.submitted_at or evidence.at
    payment.query_deadline = evidence.at + timedelta(seconds=payment.channel.query_deadline_s)
    payment.next_query_at = evidence.at
    nudge_on_commit("query_due")
    return _moved(payment, evidence, "pending")


def _after_the_end(payment: Payment, evidence: Evidence) -> Confirmation:
    """A final state never moves again (PAY-4)."""
    if evidence.outcome is Outcome.SUCCEEDED:
        return _money_after_the_end(payment, evidence)
    if _speaks_against(payment, evidence):
        if evidence.source is Source.NOTIFICATION:
            return _ask_again(payment, evidence)
        return _contradicted(payment, evidence, {"ours": payment.state, "theirs": evidence.outcome})
    _close_questions(payment, evidence)
    _settle_mismatch(payment, evidence)
    _end_contradiction(payment, evidence)
    return Confirmation(payment)


def _speaks_against(payment: Payment, evidence: Evidence) -> bool:
    """Whether news that is no success contradicts the end: success taken back, or what is dead being processed."""
    if payment.state == State.SUCCEEDED:
        return evidence.outcome in (Outcome.DECLINED, Outcome.CANCELLED)
    return evidence.outcome is Outcome.PROCESSING


def _end_contradiction(payment: Payment, evidence: Evidence) -> None:
    """The channel confirms our end after all: a contradiction without a receipt is over (PAY-4)."""
    if not payment.contradicted or evidence.source not in MONEY_SOURCES or payment.receipts.exists():
        return
    if evidence.outcome not in _confirming(payment):
        return
    payment.contradicted = False
    payment.revision += 1
    save_traced(payment, _trace(evidence, "contradiction_ended"), fields=["contradicted", "revision"])
    outbox.record(type_="payment.contradiction_ended", payment=payment, at=evidence.at)
    by = f"the channel confirms {payment.state}"
    attention_settled.send(sender=Payment, cause_key=f"contradiction:{payment.pk}", by=by, at=evidence.at)


def _money_after_the_end(payment: Payment, evidence: Evidence) -> Confirmation:
    ours = payment.bank_transaction_id
    if payment.state == State.SUCCEEDED and (evidence.channel_txn_id == ours or not evidence.channel_txn_id):
        if evidence.amount == payment.captured:
            _close_questions(payment, evidence)
            _settle_mismatch(payment, evidence)
            _end_contradiction(payment, evidence)
            return Confirmation(payment)
        if evidence.source is Source.NOTIFICATION:
            return _mismatch(payment, evidence)
        return _contradicted(payment, evidence, {"captured": str(payment.captured), "theirs": str(evidence.amount)})
    if evidence.amount is None or not evidence.channel_txn_id:
        return _ask_again(payment, evidence)
    if evidence.amount.amount_minor <= 0:
        return _contradicted(payment, evidence, {"state": payment.state, "received": str(evidence.amount)})
    receipt, new = Receipt.objects.get_or_create(
        channel_id=payment.channel_id,
        channel_txn_id=evidence.channel_txn_id,
        payment=payment,
        defaults={
            "amount_minor": evidence.amount.amount_minor,
            "currency": evidence.amount.currency,
            "source": evidence.source,
            "evidence": evidence.reference,
            "received_at": evidence.at,
        },
    )
    if not new:
        _close_questions(payment, evidence)
        return Confirmation(payment)
    ledger.take_into_suspense(receipt=receipt, at=evidence.at)
    facts = {"state": payment.state, "received": str(evidence.amount), "channelTransactionId": evidence.channel_txn_id}
    return _contradicted(payment, evidence, facts)


def _contradicted(payment: Payment, evidence: Evidence, facts: dict[str, str]) -> Confirmation:
    """Mark the payment and alarm: two stories about one money need a person (PAY-4). Asking goes on meanwhile."""
    payment.next_query_at = evidence.at + REVIEW_QUERY_EVERY
    Payment.objects.filter(pk=payment.pk).update(next_query_at=payment.next_query_at)
    _raise(payment, Kind.CONTRADICTION, 0, facts, f"contradiction:{payment.pk}", evidence.at)
    if payment.contradicted:
        return Confirmation(payment, mismatch=True)
    payment.contradicted = True
    payment.revision += 1
    save_traced(payment, _trace(evidence, "contradicted"), fields=["contradicted", "revision"])
    outbox.record(type_="payment.contradicted", payment=payment, at=evidence.at)
    nudge_on_commit("dispatch_events")
    return Confirmation(payment, mismatch=True)


def _ask_again(payment: Payment, evidence: Evidence) -> Confirmation:
    """This news is not believed on its word: people are told, and the channel is asked at once."""
    if payment.is_final:
        facts = {"ours": payment.state, "theirs": evidence.outcome, "source": evidence.source}
        _raise(payment, Kind.NOTIFICATION_MISMATCH, 1, facts, f"mismatch:{payment.pk}", evidence.at)
    plan: dict[str, datetime] = {"next_query_at": evidence.at}
    if payment.is_final:
        plan["query_deadline"] = evidence.at + timedelta(seconds=payment.channel.query_deadline_s)
    Payment.objects.filter(pk=payment.pk).update(**plan)
    nudge_on_commit("query_due")
    return Confirmation(payment, mismatch=True)


def _close_questions(payment: Payment, evidence: Evidence) -> None:
    """A question about a final payment is answered, or given up at its deadline; else it is put again."""
    if evidence.source is not Source.QUERY:
        return
    unanswered = evidence.outcome not in _confirming(payment)
    again = unanswered and payment.query_deadline is not None and evidence.at < payment.query_deadline
    Payment.objects.filter(pk=payment.pk).update(next_query_at=next_query_time(payment, evidence.at) if again else None)


# What each change leaves behind


def _moved(payment: Payment, evidence: Evidence, event: str) -> Confirmation:
    save_traced(payment, _trace(evidence, event), fields=STATE_FIELDS)
    outbox.record(type_=f"payment.{event}", payment=payment, at=evidence.at)
    return Confirmation(payment, moved=True)


def _trace(evidence: Evidence, event: str) -> Trace:
    reason = f"{evidence.code} {evidence.message}".strip()
    return Trace(event, evidence.source, evidence.actor, evidence.reference, reason)


def _settle_mismatch(payment: Payment, evidence: Evidence) -> None:
    """The channel's own word on how the payment ended settles what a notification said otherwise."""
    if evidence.source in MONEY_SOURCES and evidence.outcome in _confirming(payment):
        by = f"the channel confirms {payment.captured or payment.state}"
        attention_settled.send(sender=Payment, cause_key=f"mismatch:{payment.pk}", by=by, at=evidence.at)


def _raise(payment: Payment, kind: str, priority: int, facts: dict[str, str], cause_key: str, at: datetime) -> None:
    attention_needed.send(
        sender=Payment,
        kind=kind,
        subject=f"payment:{payment.pk}",
        payment=payment,
        priority=priority,
        facts=facts,
        cause_key=cause_key,
        at=at,
    )
