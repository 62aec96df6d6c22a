"""The payment: one attempt to take an order's money over one channel, and what is known of it (PAY-1)."""

from datetime import datetime
from typing import Self

from django.db import models
from django.db.models import Q
from django_fsm import transition

from ..money import Money
from .fields import StateField, Stateful, new_id
from .history import history


class PaymentQuerySet(models.QuerySet["Payment"]):
    """Filters in the field's words."""

    def live(self) -> Self:
        """Payments that may still take money or have taken it; an order has at most one (I3)."""
        return self.exclude(state__in=Payment.DEAD_OR_WAITING)

    def unresolved(self) -> Self:
        """Payments without a final state."""
        return self.exclude(state__in=Payment.FINAL)


class Payment(Stateful):
    """State, money and plan of one payment. `id` is also the merchant reference the channel knows it by (PAY-12).

    Amounts are in minor units of `currency`. `next_query_at` and `submit_due_at` are plans: due times that the sweeps
    claim; they and the fixed facts stay out of the history.
    """

    class State(models.TextChoices):
        CREATED = "CREATED", "accepted, may not be sent yet"
        QUEUED = "QUEUED", "may be sent"
        SUBMITTED = "SUBMITTED", "request on its way to the channel"
        PENDING = "PENDING", "result unknown or in progress"
        SUCCEEDED = "SUCCEEDED", "money taken"
        FAILED = "FAILED", "no money taken"
        CANCEL_PENDING = "CANCEL_PENDING", "cancellation under way"
        CANCELLED = "CANCELLED", "cancelled, no money taken"
        REVIEW_REQUIRED = "REVIEW_REQUIRED", "a person decides"

    class Cause(models.TextChoices):
        """Why the state is what it is: the second half of the status lexicon."""

        WAITING_FOR_FIRST = "WAITING_FOR_FIRST", "waits until the payment it replaces has ended"
        WAITING_TO_SEND = "WAITING_TO_SEND", "accepted, about to be sent"
        NOT_SENT_YET = "NOT_SENT_YET", "the channel could not be reached; nothing was sent"
        CHANNEL_BUSY = "CHANNEL_BUSY", "the channel refused for now; it is sent again"
        AWAITING_REPLY = "AWAITING_REPLY", "sent, reply awaited"
        PROCESSING = "PROCESSING", "the channel is processing it"
        NO_ANSWER = "NO_ANSWER", "no readable answer; the channel is being asked"
        CANCEL_REFUSED = "CANCEL_REFUSED", "the channel refused to cancel; it is being asked"
        KNOWN_ELSEWHERE = "KNOWN_ELSEWHERE", "the channel told of it before it was sent"
        UNMAPPED_CODE = "UNMAPPED_CODE", "refused with a code nobody has classified"
        CONFIRMED = "CONFIRMED", "confirmed by the channel"
        DECLINED = "DECLINED", "declined by the channel"
        REFUSED = "REFUSED", "refused by the channel, nothing done"
        SUSPECTED = "SUSPECTED", "refused by the channel, probably our request"
        ABSENT = "ABSENT", "the channel proves that it has no such payment"
        NEVER_SENT = "NEVER_SENT", "never sent"
        REPLACED = "REPLACED", "closed for another payment of its order"
        CANCELLED_BY_CHANNEL = "CANCELLED_BY_CHANNEL", "the channel confirms the cancellation"
        AMOUNT_REVIEW = "AMOUNT_REVIEW", "stopped before sending: more than the order's payable amount"
        OVERCHARGED = "OVERCHARGED", "the channel charged more than asked"
        UNDERCHARGED = "UNDERCHARGED", "the channel charged less than asked"
        OTHER_CURRENCY = "OTHER_CURRENCY", "the channel charged another currency"
        TXN_ID_CLASH = "TXN_ID_CLASH", "the channel's transaction id belongs to another payment"
        DEADLINE = "DEADLINE", "still unknown at the query deadline"

    class Accounting(models.TextChoices):
        """Where the payment stands in the ledger (FND-10); it moves in the transaction that moves the state."""

        NOTHING = "NOTHING", "nothing posted"
        POSTED = "POSTED", "its capture is posted"

    FINAL = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
    DEAD_OR_WAITING = (State.CREATED, State.FAILED, State.CANCELLED)
    UNSENT = (State.CREATED, State.QUEUED)
    AT_CHANNEL = (State.SUBMITTED, State.PENDING, State.CANCEL_PENDING, State.REVIEW_REQUIRED)

    id = models.CharField(max_length=26, primary_key=True, default=new_id)
    merchant = models.ForeignKey("payments.Merchant", models.PROTECT, related_name="payments", db_index=False)
    order = models.ForeignKey("payments.Order", models.PROTECT, related_name="payments")
    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+", db_index=False)
    client = models.ForeignKey(
        "payments.ApiClient", models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    idempotency_key = models.CharField(max_length=255)
    customer_ref = models.CharField(max_length=64)
    payment_token = models.CharField(max_length=128)
    purpose = models.CharField(max_length=140, default="", db_default="", blank=True)
    amount_minor = models.BigIntegerField()
    currency = models.ForeignKey(
        "payments.Currency", models.PROTECT, db_column="currency", related_name="+", db_index=False
    )
    replaces = models.ForeignKey(
        "self", models.PROTECT, null=True, blank=True, related_name="replaced_by", db_index=False
    )
    accepted_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    state = StateField(choices=State, default=State.QUEUED)
    cause = models.CharField(max_length=24, choices=Cause, default=Cause.WAITING_TO_SEND)
    revision = models.PositiveIntegerField(default=1, db_default=1)
    captured_minor = models.BigIntegerField(null=True, blank=True)
    captured_currency = models.CharField(max_length=3, default="", db_default="", blank=True)
    bank_transaction_id = models.CharField(max_length=64, null=True, blank=True)
    txn_scope = models.CharField(max_length=10, default="", db_default="", blank=True)
    failure_code = models.CharField(max_length=64, default="", db_default="", blank=True)
    failure_text = models.CharField(max_length=500, default="", db_default="", blank=True)
    known_to_channel = models.BooleanField(
        default=False,
        db_default=False,
        help_text="The channel has shown that it has it: not found proves nothing more.",
    )
    accounting = models.CharField(
        max_length=8, choices=Accounting, default=Accounting.NOTHING, db_default=Accounting.NOTHING
    )
    contradicted = models.BooleanField(default=False, db_default=False)
    sent = models.BooleanField(default=False, db_default=False, help_text="Bytes may have reached the channel once.")
    queued_at = models.DateTimeField(null=True, blank=True)
    submitted_at = models.DateTimeField(null=True, blank=True)
    state_since = models.DateTimeField()
    completed_at = models.DateTimeField(null=True, blank=True)

    submit_due_at = models.DateTimeField(null=True, blank=True)
    send_before = models.DateTimeField(null=True, blank=True)
    submit_attempts = models.PositiveSmallIntegerField(default=0, db_default=0)
    next_query_at = models.DateTimeField(null=True, blank=True)
    query_count = models.PositiveIntegerField(default=0, db_default=0)
    query_deadline = models.DateTimeField(null=True, blank=True)
    asked_at = models.DateTimeField(null=True, blank=True)
    answered_at = models.DateTimeField(
        null=True, blank=True, help_text="When the channel last said how this payment stands."
    )
    alerted_at = models.DateTimeField(null=True, blank=True)

    FIXED = (
        "merchant",
        "order",
        "channel",
        "client",
        "idempotency_key",
        "customer_ref",
        "payment_token",
        "purpose",
        "amount_minor",
        "currency",
        "replaces",
        "accepted_at",
        "expires_at",
    )
    PLAN = (
        "submit_due_at",
        "send_before",
        "submit_attempts",
        "next_query_at",
        "query_count",
        "query_deadline",
        "asked_at",
        "answered_at",
        "alerted_at",
    )
    history = history(leave_out=FIXED + PLAN)
    objects = PaymentQuerySet.as_manager()
    only_attempt = False  # True where a read found that its order has no other payment

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["order"],
                condition=~Q(state__in=["CREATED", "FAILED", "CANCELLED"]),
                name="one_live_payment_per_order",
            ),
            models.UniqueConstraint(
                fields=["order"], condition=Q(state="CREATED"), name="one_waiting_payment_per_order"
            ),
            models.UniqueConstraint(
                fields=["bank_transaction_id", "channel", "txn_scope"],
                condition=Q(bank_transaction_id__isnull=False),
                name="bank_transaction_once_per_channel",
            ),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="payment_amount_positive"),
            models.CheckConstraint(condition=~Q(bank_transaction_id=""), name="bank_transaction_id_says_something"),
            models.CheckConstraint(
                condition=Q(captured_minor__isnull=True) | Q(captured_minor__gte=0),
                name="payment_captured_not_negative",
            ),
            models.CheckConstraint(
                condition=~Q(state="SUCCEEDED") | Q(captured_minor__isnull=False, bank_transaction_id__isnull=False),
                name="succeeded_payment_names_its_money",
            ),
            models.CheckConstraint(
                condition=Q(state="SUCCEEDED", accounting="POSTED") | ~Q(state="SUCCEEDED") & Q(accounting="NOTHING"),
                name="payment_and_accounting_move_together",
            ),
        ]
        indexes = [
            models.Index(fields=["submit_due_at"], condition=Q(state="QUEUED"), name="payment_submit_due"),
            models.Index(fields=["next_query_at"], condition=Q(next_query_at__isnull=False), name="payment_query_due"),
            models.Index(
                fields=["send_before"], condition=Q(state__in=["CREATED", "QUEUED"]), name="payment_send_limit"
            ),
            models.Index(fields=["idempotency_key"], name="payment_by_key"),
            models.Index(fields=["customer_ref", "id"], name="payment_by_customer"),
            models.Index(
                fields=["submitted_at"],
                condition=Q(state__in=["SUBMITTED", "PENDING", "CANCEL_PENDING"]),
                name="payment_unknown_age",
            ),
            models.Index(
                fields=["id"],
                condition=Q(
                    next_query_at__isnull=True, state__in=["SUBMITTED", "PENDING", "CANCEL_PENDING", "REVIEW_REQUIRED"]
                ),
                name="payment_without_question",
            ),
        ]

    def __str__(self) -> str:
        return self.pk

    @property
    def amount(self) -> Money:
        """What was asked for."""
        return Money(self.amount_minor, self.currency_id)

    @property
    def captured(self) -> Money | None:
        """What the channel took, which may be another amount than was asked (FND-5)."""
        return None if self.captured_minor is None else Money(self.captured_minor, self.captured_currency)

    @property
    def is_final(self) -> bool:
        return self.state in self.FINAL

    @transition(field=state, source=State.CREATED, target=State.QUEUED)
    def promote(self, *, at: datetime, send_before: datetime) -> None:
        """The payment it replaces has ended: it may be sent."""
        self._enter(self.Cause.WAITING_TO_SEND, at)
        self.queued_at = self.submit_due_at = at
        self.send_before = send_before

    @transition(field=state, source=State.QUEUED, target=State.SUBMITTED)
    def submit(self, *, at: datetime, ask_at: datetime, query_deadline: datetime) -> None:
        """The request is about to leave. If nothing is heard of it, the channel is asked at `ask_at`."""
        self._enter(self.Cause.AWAITING_REPLY, at)
        self.submitted_at = at
        self.submit_attempts += 1
        self.submit_due_at = None
        self.next_query_at = ask_at
        self.query_deadline = query_deadline

    @transition(field=state, source=State.SUBMITTED, target=State.QUEUED)
    def requeue(self, *, cause: str, at: datetime, due_at: datetime, left: bool) -> None:
        """The attempt provably had no effect: the same reference is sent again at `due_at`."""
        self._enter(cause, at)
        self.sent = self.sent or left
        self.submit_due_at = due_at
        self.next_query_at = None

    @transition(field=state, source=[State.QUEUED, State.SUBMITTED, State.CANCEL_PENDING], target=State.PENDING)
    def doubt(self, *, cause: str, at: datetime) -> None:
        """Its result is open: it is asked for and never sent again."""
        self._enter(cause, at)
        self.sent = True
        self.submit_due_at = None

    @transition(
        field=state,
        source=[State.SUBMITTED, State.PENDING, State.CANCEL_PENDING, State.REVIEW_REQUIRED],
        target=State.SUCCEEDED,
    )
    def succeed(self, *, captured: Money, bank_transaction_id: str, at: datetime, completed_at: datetime) -> None:
        """The channel took the money."""
        self._enter(self.Cause.CONFIRMED, at)
        self.sent = True
        self.captured_minor, self.captured_currency = captured.amount_minor, captured.currency
        self.bank_transaction_id = bank_transaction_id
        self.failure_code = self.failure_text = ""
        self.accounting = self.Accounting.POSTED
        self._complete(completed_at)

    @transition(
        field=state,
        source=[State.SUBMITTED, State.PENDING, State.CANCEL_PENDING, State.REVIEW_REQUIRED],
        target=State.FAILED,
    )
    def fail(self, *, cause: str, code: str, text: str, at: datetime, completed_at: datetime) -> None:
        """The channel declined it, or proves that it has no such payment (PAY-3)."""
        self._enter(cause, at)
        self.sent = True
        self.failure_code, self.failure_text = code[:64], text[:500]
        self._complete(completed_at)

    @transition(field=state, source=[State.CREATED, State.QUEUED], target=State.CANCELLED)
    def cancel_unsent(self, *, cause: str, at: datetime) -> None:
        """It provably never left (PAY-16)."""
        self._enter(cause, at)
        self.submit_due_at = None
        self._complete(at)

    @transition(
        field=state,
        source=[State.SUBMITTED, State.PENDING, State.CANCEL_PENDING, State.REVIEW_REQUIRED],
        target=State.CANCELLED,
    )
    def cancel(self, *, cause: str, at: datetime, completed_at: datetime) -> None:
        """The channel confirms that it did not and will not happen (PAY-3)."""
        self._enter(cause, at)
        self._complete(completed_at)

    @transition(
        field=state, source=[State.SUBMITTED, State.PENDING, State.REVIEW_REQUIRED], target=State.CANCEL_PENDING
    )
    def await_cancel(self, *, cause: str, at: datetime) -> None:
        """A cancellation is under way; the channel is asked first (FND-8)."""
        self._enter(cause, at)
        self.sent = True
        self.next_query_at = at

    @transition(
        field=state, source=[State.SUBMITTED, State.PENDING, State.CANCEL_PENDING], target=State.REVIEW_REQUIRED
    )
    def review(self, *, cause: str, at: datetime) -> None:
        """What is known does not fit, or the deadline has passed: a person decides."""
        self._enter(cause, at)
        self.sent = True

    def learn_in_review(self, *, cause: str) -> None:
        """While a person decides, the channel says something weightier: the cause is that from now on."""
        self.cause = cause
        self.revision += 1

    def _enter(self, cause: str, at: datetime) -> None:
        self.cause = cause
        self.state_since = at
        self.revision += 1

    def _complete(self, completed_at: datetime) -> None:
        self.completed_at = completed_at
        self.next_query_at = None


class Receipt(models.Model):
    """Money that came for a payment already final, or twice for one (PAY-4): in suspense until refunded or kept."""

    class State(models.TextChoices):
        SUSPENSE = "SUSPENSE", "in suspense"

    id = models.CharField(max_length=26, primary_key=True, default=new_id)
    payment = models.ForeignKey(Payment, models.PROTECT, related_name="receipts")
    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+", db_index=False)
    channel_txn_id = models.CharField(max_length=64)
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    state = models.CharField(max_length=16, choices=State, default=State.SUSPENSE)
    source = models.CharField(max_length=16)
    evidence = models.CharField(max_length=80)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["channel", "channel_txn_id", "payment"], name="receipt_once"),
            models.CheckConstraint(condition=Q(amount_minor__gt=0), name="receipt_positive"),
        ]
        indexes = [models.Index(fields=["channel_txn_id"], name="receipt_by_txn")]

    @property
    def amount(self) -> Money:
        return Money(self.amount_minor, self.currency)


class IdempotencyRecord(models.Model):
    """One effect per (merchant, scene, business number, operation), with the first request and answer (PAY-9/10)."""

    class State(models.TextChoices):
        ACCEPTED = "ACCEPTED", "the effect stands"

    merchant = models.ForeignKey("payments.Merchant", models.PROTECT, related_name="+", db_index=False)
    scene = models.CharField(max_length=24)
    business_key = models.CharField(max_length=255)
    operation = models.CharField(max_length=24)
    fingerprint = models.CharField(max_length=64)
    request = models.JSONField()
    response = models.JSONField(null=True)
    response_status = models.PositiveSmallIntegerField(null=True)
    state = models.CharField(max_length=16, choices=State, default=State.ACCEPTED)
    payment_id = models.CharField(max_length=26)
    created_at = models.DateTimeField()
    completed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["merchant", "scene", "business_key", "operation"], name="one_effect_per_idempotency_key"
            )
        ]
