"""Words for people, in their language: states, causes, events, facts, rules, refusals (OPS-11).

Every word the ground floor can say has an entry here, and a test holds the lists against its enumerations. What comes
from outside (codes, texts, names) is shown as it came.
"""

from django.utils.functional import Promise
from django.utils.text import format_lazy
from django.utils.translation import get_language, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from payments.models import Attention, Channel, InboundNotification, Order, Payment
from payments.words import TAG_WORDS, Tag

from .actions import Action
from .roles import Capability, Role

Word = str | Promise
State, Cause, Kind = Payment.State, Payment.Cause, Attention.Kind

STATES: dict[str, Word] = {
    State.CREATED: _("accepted, may not be sent yet"),
    State.QUEUED: _("may be sent"),
    State.SUBMITTED: _("request on its way to the bank"),
    State.PENDING: _("result open"),
    State.SUCCEEDED: _("money taken"),
    State.FAILED: _("no money taken"),
    State.CANCEL_PENDING: _("cancellation under way"),
    State.CANCELLED: _("cancelled, no money taken"),
    State.REVIEW_REQUIRED: _("a person decides"),
}
CAUSES: dict[str, Word] = {
    Cause.WAITING_FOR_FIRST: _("waits until the payment it replaces has ended"),
    Cause.WAITING_TO_SEND: _("accepted, about to be sent"),
    Cause.NOT_SENT_YET: _("the bank could not be reached; nothing was sent"),
    Cause.CHANNEL_BUSY: _("the bank refused for now; it is sent again"),
    Cause.AWAITING_REPLY: _("sent, reply awaited"),
    Cause.PROCESSING: _("the bank is processing it"),
    Cause.NO_ANSWER: _("no readable answer; the bank is being asked"),
    Cause.CANCEL_REFUSED: _("the bank refused to cancel; it is being asked"),
    Cause.KNOWN_ELSEWHERE: _("the bank told of it before it was sent"),
    Cause.UNMAPPED_CODE: _("refused with a code nobody has classified"),
    Cause.CONFIRMED: _("confirmed by the bank"),
    Cause.DECLINED: _("declined by the bank"),
    Cause.REFUSED: _("refused by the bank, nothing done"),
    Cause.SUSPECTED: _("refused by the bank, probably our request"),
    Cause.ABSENT: _("the bank proves that it has no such payment"),
    Cause.NEVER_SENT: _("never sent"),
    Cause.REPLACED: _("closed for another payment of its order"),
    Cause.CANCELLED_BY_CHANNEL: _("the bank confirms the cancellation"),
    Cause.AMOUNT_REVIEW: _("stopped before sending: more than the order's payable amount"),
    Cause.OVERCHARGED: _("the bank charged more than asked"),
    Cause.UNDERCHARGED: _("the bank charged less than asked"),
    Cause.OTHER_CURRENCY: _("the bank charged another currency"),
    Cause.TXN_ID_CLASH: _("the bank's transaction id belongs to another payment"),
    Cause.DEADLINE: _("still unknown at the query deadline"),
}
CONTRADICTED = _("the bank contradicts our final state; a person decides")
ORDER_STATES: dict[str, Word] = {
    Order.State.CREATED: _("may be paid"),
    Order.State.PAYING: _("a payment is under way"),
    Order.State.PAID: _("paid in full"),
    Order.State.CLOSED: _("takes no payment any more"),
}
ATTENTIONS: dict[str, Word] = {
    Kind.PAYMENT_REVIEW: _("Payment in review"),
    Kind.CONTRADICTION: _("The bank contradicts a final state"),
    Kind.OVERCHARGE: _("Payer charged more than agreed"),
    Kind.UNKNOWN_TOO_LONG: _("Result unknown for too long"),
    Kind.AMOUNT_STOPPED: _("Stopped before sending: amount above the payable"),
    Kind.SUSPECTED_REFUSAL: _("Refused, probably because of our request"),
    Kind.STRUCTURAL_REFUSAL: _("Refused by the bank until something changes"),
    Kind.UNMAPPED_CODE: _("A code nobody has classified"),
    Kind.NOTIFICATION_MISMATCH: _("A signed notification contradicts our record"),
    Kind.NOTIFICATION_UNKNOWN: _("A notification for a payment we do not know"),
    Kind.REPLY_MISMATCH: _("A reply for another reference"),
    Kind.DEAD_LETTER: _("An event could not be delivered"),
    Kind.STRANDED: _("An open thing without a due time"),
}
EVENTS: dict[str, Word] = {
    "accepted": _("Payment accepted"),
    "queued": _("Ready to be sent"),
    "promoted": _("Ready to be sent: the earlier payment has ended"),
    "submitted": _("Request leaves for the bank"),
    "requeued": _("Had no effect; to be sent again"),
    "pending": _("Result open"),
    "succeeded": _("Succeeded"),
    "failed": _("Failed, no money moved"),
    "cancelled": _("Cancelled, not charged"),
    "cancel_pending": _("Cancellation begun"),
    "cancel_requested": _("Cancellation begun"),
    "cancel_refused": _("Cancellation refused; result open"),
    "review_required": _("Put before a person"),
    "contradicted": _("Contradicted by the bank"),
    "contradiction_ended": _("The bank confirms our record after all"),
    "edited": _("Record changed"),
    "receipt": _("Money received after the end"),
    "posting_capture": _("Posted: the captured amount"),
    "posting_receipt": _("Posted: money in suspense"),
    "notification": _("Notification from the bank"),
    "outbox_event": _("Event announced"),
    "order_accepted": _("Order created"),
    "order_created": _("Order created"),
    "order_paying": _("Order: a payment begins"),
    "order_paid": _("Order paid in full"),
    "order_reopened": _("Order may be paid again"),
    "order_closed": _("Order closed"),
    "order_edited": _("Order record changed"),
    "pay_request": _("Payment request to the bank"),
    "pay_reply": _("Bank's reply to the payment request"),
    "query_request": _("Question to the bank"),
    "query_reply": _("Bank's answer to the question"),
    "cancel_request": _("Cancellation request to the bank"),
    "cancel_reply": _("Bank's reply to the cancellation"),
    "attention_settled": _("Attention settled"),
    **{f"attention_{kind.lower()}": word for kind, word in ATTENTIONS.items()},
    **{
        f"action_{action}": word
        for action, word in {
            Action.ASK_BANK: _("Asked the bank from the console"),
            Action.UNMASK: _("Looked at unmasked data"),
            Action.COPY_WORDS: _("Copied the words to say"),
            Action.EXPORT_PAYMENTS: _("Exported payments"),
        }.items()
    },
}
ACCOUNTS: dict[str, Word] = {
    "CLEARING": _("clearing at the channel"),
    "MERCHANT_PAYABLE": _("owed to the merchant"),
    "SUSPENSE": _("suspense"),
}
FACTS: dict[str, Word] = {
    "debit": _("Debit"),
    "credit": _("Credit"),
    "cause": _("Cause"),
    "source": _("Source"),
    "evidence": _("Evidence"),
    "reason": _("Reason"),
    "transaction": _("Bank transaction"),
    "channelTransactionId": _("Bank transaction"),
    "key": _("Idempotency key"),
    "reference": _("Our reference"),
    "outcome": _("Outcome"),
    "http": _("HTTP status"),
    "code": _("Code"),
    "text": _("Text"),
    "classification": _("Class"),
    "latency": _("Took"),
    "answers": _("Answers"),
    "handled": _("Handled"),
    "deliveries": _("Deliveries"),
    "priority": _("Priority"),
    "times": _("Times"),
    "kind": _("Kind"),
    "by": _("By"),
    "type": _("Type"),
    "sequence": _("Revision"),
    "delivery": _("Delivery"),
    "error": _("Error"),
    "asked": _("Asked for"),
    "confirmed": _("Confirmed"),
    "captured": _("Captured"),
    "received": _("Received"),
    "ours": _("Our record"),
    "theirs": _("Bank's word"),
    "state": _("State"),
    "since": _("Since"),
    "questions": _("Questions asked"),
    "lastAnswer": _("Last answer"),
    "operation": _("Operation"),
    "otherPayment": _("Other payment"),
    "payable": _("Payable"),
    "amount": _("Amount"),
    "revision": _("Revision"),
    "attempts": _("Attempts"),
    "channel": _("Channel"),
    "event": _("Event"),
    "payerFeeBps": _("Payer's fee, 1/100 %"),
    "request": _("Request"),
    "sameKeyAs": _("Same key as"),
    "rows": _("Rows"),
    "role": _("Role"),
}
VALUES: dict[str, Word] = {
    "REPLY": _("bank's reply"),
    "NOTIFICATION": _("notification"),
    "QUERY": _("our question"),
    "STATEMENT": _("statement"),
    "PERSON": _("a person"),
    "SUBMISSION": _("submission"),
    "API": _("API"),
    "SEND_LIMIT": _("send limit"),
    "DECLINED": _("declined"),
    "REFUSED": _("refused"),
    "PROCESSING": _("being processed"),
    "NOT_FOUND": _("not found"),
    "UNKNOWN": _("nothing proven"),
    "NOT_SENT": _("not sent"),
    "TRANSIENT": _("no effect, passes by itself"),
    "STRUCTURAL": _("no effect, refused until something changes"),
    "SUSPECTED": _("no effect, probably our request"),
    InboundNotification.State.RECEIVED: _("to be applied"),
    InboundNotification.State.PARKED: _("its payment is not known yet"),
    InboundNotification.State.APPLIED: _("applied"),
    InboundNotification.State.STALE: _("changes nothing any more"),
    InboundNotification.State.MISMATCH: _("contradicts our record; the bank is asked"),
    "dispatched": _("delivered"),
    "due": _("to be delivered"),
    "dead": _("undeliverable"),
    "STARTED": _("begun"),
    "DONE": _("done"),
    "DENIED": _("not allowed"),
    "unreadable": _("unreadable"),
    "pay": _("payment"),
    "query": _("question"),
    "cancel": _("cancellation"),
}
PARTS: dict[str, Word] = {
    "state": _("States"),
    "bank": _("Bank"),
    "notification": _("Notifications"),
    "ledger": _("Ledger"),
    "event": _("Events"),
    "attention": _("Attentions"),
    "people": _("People"),
}
# What each fact under a verdict says: when it holds, when it does not, and when it is not known.
EVIDENCE: dict[str, tuple[Word, Word, Word]] = {
    "state-final": (_("The result is final"), _("The result is still open"), _("The result is still open")),
    "not-charged": (_("No money was taken"), _("Money was taken"), _("Not known whether money was taken")),
    "no-other-attempt": (
        _("No other payment of this order"),
        _("Another payment of this order is open or paid"),
        _("Other payments of this order are not known"),
    ),
    "order-unpaid": (
        _("The order is unpaid"),
        _("The order takes no payment"),
        _("The state of the order is not known"),
    ),
    "bank-answer-fresh": (
        _("The bank's answer is fresh"),
        _("The bank's answer is too old, or there is none"),
        _("The bank has not answered"),
    ),
    "late-window-closed": (
        _("No late success can arrive any more"),
        _("A late success may still arrive"),
        _("Not known whether a late success may arrive"),
    ),
    "channel-reachable": (
        _("The bank answers"),
        _("The bank does not answer"),
        _("The bank has not been heard of yet"),
    ),
}
RULES: dict[str, Word] = {
    "contradiction-open": _("The bank contradicts what we recorded. Nobody pays again until the case is closed."),
    "already-paid": _("This order is paid. Paying again would charge the customer twice."),
    "order-takes-no-payment": _("This order takes no further payment."),
    "another-attempt-open": _("Another payment of this order is still open and may take the money."),
    "result-open": _("The result is not known yet. The money may have been taken."),
    "never-sent": _("Nothing was ever sent to the bank, so nothing can have been taken."),
    "late-success-window-open": _(
        "Nothing was taken so far, but a late success of this or another attempt may still arrive."
    ),
    "channel-not-reachable": _("The bank does not answer at the moment, so what it said may be out of date."),
    "bank-answer-too-old": _("The bank said that nothing was taken, but too long ago. Ask it again."),
    "declined": _("The bank declined it and confirmed that just now: nothing was taken."),
    "proven-not-charged": _("The bank confirmed just now that nothing was taken."),
}
ANSWERS: dict[str, Word] = {
    "YES": pgettext_lazy("verdict", "YES"),
    "NO": pgettext_lazy("verdict", "NO"),
    "NOT_YET": pgettext_lazy("verdict", "NOT YET"),
}
ROLES: dict[str, Word] = {
    Role.SUPPORT: _("support"),
    Role.OPS: _("ops"),
    Role.ADMIN: _("admin"),
    Role.AUDITOR: _("auditor"),
}
CAPABILITIES: dict[str, Word] = {
    Capability.LOOK_UP: _("Look up payments, see verdict and timeline"),
    Capability.UNMASK: _("Unmask personal data (with a reason, logged)"),
    Capability.RAW_MESSAGES: _("See the messages to and from the bank"),
    Capability.ASK_BANK: _("Ask the bank now"),
}
REFUSALS: dict[str, Word] = {
    "not_permitted": _("Your role may not do this. The attempt was recorded."),
    "reason_missing": _("Give a reason: it is kept in the action log."),
    "too_often": _("You did this many times within a minute. Wait a little."),
    "page_stale": _("The payment has changed since this page was shown. Nothing was done; look again below."),
    "token_misused": _("This form belongs to another operation. Nothing was done; the page is fresh now."),
    "too_many_rows": _("More than 10,000 rows match. Narrow the filter and export again."),
    "too_slow": _("The list took longer than three seconds and was cut"),
    "nothing_to_ask": _("This payment was never sent, so there is nothing to ask the bank."),
    "asked_just_now": _("The bank was asked moments ago. Wait three seconds and ask again."),
}
# What came of an action, said where the action was.
NOTICES: dict[str, Word] = {
    "final": _("The bank was asked and answered. The result is final."),
    "open": _("The bank was asked and answered. The result is still open."),
    "silent": _("The bank was asked and gave no readable answer. Nothing is known that was not known before."),
    "asked_before": _("The bank was asked once already by this form; this is what came of it."),
    "unmasked": _("Customer and token are shown in full for this view. The look was recorded."),
    "used_up": _("This look was shown already. To see it again, give the reason again."),
    "card_number": _("A card number does not belong in a reason. It was not kept."),
}
FOUND_BY: dict[str, Word] = {
    "payment": _("Payment id"),
    "order": _("Order number"),
    "transaction": _("Bank transaction id"),
    "key": _("Idempotency key"),
    "customer": _("Customer"),
}


def in_chinese() -> bool:
    """Whether the page is in Chinese."""
    return (get_language() or "").startswith("zh")


def tag_word(tag: Tag) -> str:
    """The lexicon's word for a status."""
    return TAG_WORDS[tag][2 if in_chinese() else 1]


def channel_name(channel: Channel) -> str:
    """The channel's name in the reader's language."""
    return channel.name_zh if in_chinese() else channel.name_en


def cause_of(payment: Payment) -> Word:
    """Why the payment stands as it does."""
    return CONTRADICTED if payment.contradicted else CAUSES.get(payment.cause, payment.cause)


def event_word(event: str) -> Word:
    """What happened; an event without an entry is shown by its name."""
    return EVENTS.get(event, event.replace("_", " "))


def fact_word(name: str) -> Word:
    """The name of a fact."""
    return FACTS.get(name, name)


def value_word(name: str, value: str) -> Word:
    """The value of a fact: our own words are translated, what came from outside is not."""
    match name:
        case "cause" if value in CAUSES:
            return CAUSES[value]
        case "debit" | "credit" if value in ACCOUNTS:
            return ACCOUNTS[value]
        case "kind" if value in ATTENTIONS:
            return ATTENTIONS[value]
        case "state" | "ours" | "theirs" | "lastAnswer" | "outcome" if value in STATES:
            return STATES[value]
        case "classification" if value == "UNKNOWN":
            return _("not classified")
        case "source" | "outcome" | "classification" | "handled" | "delivery" | "theirs" | "lastAnswer" | "operation":
            return VALUES.get(value, value)
        case "role" if value in ROLES:
            return ROLES[value]
    return value


def actor_word(actor: str) -> Word:
    """Who did it: the system, a client's system, a person, or the channel itself."""
    kind, _sep, name = actor.partition(":")
    if actor == "system":
        return _("system")
    if kind == "client" and name:
        return format_lazy("{} {}", _("client"), name)
    return name if kind == "user" and name else actor
