"""What the bank does to its books: pay, refund, transfer, cancel, and finish what was left open."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sandbox.amounts import Amount
from sandbox.clock import rfc3339
from sandbox.contract import Order, Refused
from sandbox.effects import Effects, NotifyEffects, Words
from sandbox.ledger import Entry, Ledger, NewEntry
from sandbox.notifications import plan_notifications

OPEN_CANCEL_MS = 10_000
LOOK_AT_PAYMENT_AGAIN_MS = 500
TOO_LATE = Words(code="E2001", text="已处理，无法撤销")
CANCEL_TAKEN = Words(code="E2002", text="撤销已受理，结果未定")
ABOVE_REFUNDABLE = Words(code="E3001", text="退款金额超限")
NO_ORIGINAL = Words(code="E3002", text="原交易不存在或未成功")


@dataclass(frozen=True)
class Outcome:
    """How an order is booked: its status, the bank's words, and for an open one when and how it ends."""

    status: str
    words: Words | None = None
    due_at_ms: int | None = None
    due_words: Words | None = None


def result(entry: Entry) -> dict[str, Any]:
    """Return the contract's result object of an entry."""
    amount = entry.amount
    return {
        "merchantReference": entry.reference,
        "operation": entry.operation,
        "status": entry.status,
        "bankTransactionId": entry.bank_transaction_id,
        "amount": amount.as_json() if amount else None,
        "fee": Amount(0, amount.currency).as_json() if amount else None,
        "code": entry.code,
        "text": entry.text,
        "acceptedAt": rfc3339(entry.booked_at_ms),
        "completedAt": rfc3339(entry.completed_at_ms),
    }


def running_result(order: Order) -> dict[str, Any]:
    """Return the result of an order whose first request still runs."""
    return {
        "merchantReference": order.reference,
        "operation": order.operation,
        "status": "PROCESSING",
        "bankTransactionId": None,
        "amount": order.amount.as_json() if order.amount else None,
        "fee": None,
        "code": None,
        "text": None,
        "acceptedAt": None,
        "completedAt": None,
    }


def not_found_result(*, operation: str, reference: str) -> dict[str, Any]:
    """Return the answer for a reference the books do not show."""
    return {
        "merchantReference": reference,
        "operation": operation,
        "status": "NOT_FOUND",
        "code": "E4040",
        "text": "查无此交易",
    }


def book_order(ledger: Ledger, *, order: Order, effects: Effects, replied_at_ms: int, at_ms: int) -> Entry:
    """Book a payment, refund or transfer, and put its notifications in line. One transaction.

    :param replied_at_ms: when the reply will be on its way; notifications follow it
    :raises Refused: a refund in another currency than its payment; nothing is booked
    """
    assert order.amount is not None, "read_order gives every operation but cancel an amount"
    amount = order.amount
    with ledger.transaction():
        refusal = _refund_refusal(ledger, order, amount) if order.operation == "refund" else None
        outcome = Outcome("DECLINED", refusal) if refusal else _outcome(effects, at_ms)
        if outcome.status != "DECLINED":
            amount = amount.plus(effects.charge_difference)
        entry = _add(ledger, order=order, effects=effects, outcome=outcome, amount=amount, at_ms=at_ms)
        _announce(ledger, entry, at_ms=at_ms if effects.notify.early else replied_at_ms)
    return entry


def book_cancel(ledger: Ledger, *, order: Order, effects: Effects, replied_at_ms: int, at_ms: int) -> Entry | None:
    """Cancel a payment that is still open; None if there is no such payment, and nothing is kept of the cancel.

    A payment already done is declined with E2001, one that came to nothing is confirmed as cancelled.
    """
    with ledger.transaction():
        payment = ledger.find_entry(operation="pay", reference=order.original_reference or "")
        if payment is None:
            return None
        outcome = _cancel_outcome(payment, effects, at_ms)
        cancel = _add(ledger, order=order, effects=effects, outcome=outcome, amount=payment.amount, at_ms=at_ms)
        if outcome.status == "CANCELLED" and not payment.is_final:
            cancelled = ledger.finish_entry(payment.id, status="CANCELLED", code=None, text=None, at_ms=at_ms)
            _announce(ledger, cancelled, at_ms=replied_at_ms)
        _announce(ledger, cancel, at_ms=replied_at_ms)
    return cancel


def complete_due(ledger: Ledger, *, at_ms: int) -> int:
    """Finish every open entry whose time has come, and return how many were looked at."""
    with ledger.transaction():
        due = ledger.due_entries(at_ms)
        for entry in due:
            if entry.operation == "cancel":
                _complete_cancel(ledger, entry, at_ms)
            else:
                _complete_order(ledger, entry, at_ms)
    return len(due)


def _outcome(effects: Effects, at_ms: int) -> Outcome:
    """Decide an order: a decline wins over being left open, which wins over success."""
    if effects.decline:
        return Outcome("DECLINED", effects.decline)
    if effects.processing_ms is not None:
        return Outcome("PROCESSING", None, at_ms + effects.processing_ms, effects.then_decline)
    return Outcome("SUCCEEDED")


def _cancel_outcome(payment: Entry, effects: Effects, at_ms: int) -> Outcome:
    if effects.cancel_refused == "E2001":
        return Outcome("DECLINED", TOO_LATE)
    if effects.cancel_refused == "E2002":
        return Outcome("PROCESSING", CANCEL_TAKEN, at_ms + (effects.processing_ms or OPEN_CANCEL_MS))
    if payment.status == "SUCCEEDED":
        return Outcome("DECLINED", TOO_LATE)
    return Outcome("CANCELLED")


def _refund_refusal(ledger: Ledger, order: Order, amount: Amount) -> Words | None:
    """Return why a refund is declined: no captured original, or more than is left of it."""
    original_reference = order.original_reference or ""
    payments = [
        payment
        for payment in ledger.entries_of(operation="pay", reference=original_reference)
        if payment.status == "SUCCEEDED" and order.original_bank_transaction_id in (None, payment.bank_transaction_id)
    ]
    if not payments:
        return NO_ORIGINAL
    if payments[0].currency != amount.currency:
        raise Refused(http=400, code="E0003", text="报文格式错误 amount.currency: differs from the original payment")
    captured = sum(payment.amount_minor or 0 for payment in payments)
    if ledger.refunded_minor(original_reference) + amount.minor > captured:
        return ABOVE_REFUNDABLE
    return None


def _add(
    ledger: Ledger, *, order: Order, effects: Effects, outcome: Outcome, amount: Amount | None, at_ms: int
) -> Entry:
    moves_money = order.operation != "cancel" and outcome.status != "DECLINED"
    return ledger.add_entry(
        NewEntry(
            merchant_id=order.merchant_id,
            operation=order.operation,
            reference=order.reference,
            bank_transaction_id=ledger.next_transaction_id() if moves_money else None,
            status=outcome.status,
            amount=amount,
            code=outcome.words.code if outcome.words else None,
            text=outcome.words.text if outcome.words else None,
            requested=order.requested,
            fingerprint=order.fingerprint,
            key_id=order.key_id,
            notify_url=order.notify_url,
            notify_effects=json.dumps(asdict(effects.notify)),
            original_reference=order.original_reference,
            booked_at_ms=at_ms,
            completed_at_ms=None if outcome.status == "PROCESSING" else at_ms,
            visible_at_ms=at_ms + effects.invisible_ms,
            due_at_ms=outcome.due_at_ms,
            due_code=outcome.due_words.code if outcome.due_words else None,
            due_text=outcome.due_words.text if outcome.due_words else None,
        )
    )


def _complete_order(ledger: Ledger, entry: Entry, at_ms: int) -> None:
    status = "DECLINED" if entry.due_code else "SUCCEEDED"
    done = ledger.finish_entry(entry.id, status=status, code=entry.due_code, text=entry.due_text, at_ms=at_ms)
    _announce(ledger, done, at_ms=at_ms)


def _complete_cancel(ledger: Ledger, cancel: Entry, at_ms: int) -> None:
    """Say how an open cancel ended once its payment is final; until then look again."""
    payment = ledger.find_entry(operation="pay", reference=cancel.original_reference or "")
    if payment is None or not payment.is_final:
        ledger.postpone_entry(cancel.id, due_at_ms=at_ms + LOOK_AT_PAYMENT_AGAIN_MS)
        return
    if payment.status == "SUCCEEDED":
        done = ledger.finish_entry(cancel.id, status="DECLINED", code=TOO_LATE.code, text=TOO_LATE.text, at_ms=at_ms)
    else:
        done = ledger.finish_entry(cancel.id, status="CANCELLED", code=None, text=None, at_ms=at_ms)
    _announce(ledger, done, at_ms=at_ms)


def _announce(ledger: Ledger, entry: Entry, *, at_ms: int) -> None:
    """Put the notifications of a final entry in line; an open one is announced when it ends."""
    if entry.is_final:
        effects = NotifyEffects(**json.loads(entry.notify_effects))
        plan_notifications(ledger, entry=entry, result=result(entry), effects=effects, at_ms=at_ms)
