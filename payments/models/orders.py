"""The order: what a payer agreed to pay. Its row is the lock for all money of the order."""

from django.db import models
from django_fsm import transition

from ..money import Money
from .fields import StateField, Stateful, new_id
from .history import history


class Order(Stateful):
    """One order of a merchant, and where its money stands (EVT-3). Later states come with refunds and fulfilment."""

    class State(models.TextChoices):
        CREATED = "CREATED", "may be paid"
        PAYING = "PAYING", "a payment is under way"
        PAID = "PAID", "paid in full"
        CLOSED = "CLOSED", "takes no payment any more"

    id = models.CharField(max_length=26, primary_key=True, default=new_id)
    merchant = models.ForeignKey("payments.Merchant", models.PROTECT, related_name="orders", db_index=False)
    order_no = models.CharField(max_length=255)
    customer_ref = models.CharField(max_length=64)
    payable_minor = models.BigIntegerField()
    currency = models.ForeignKey(
        "payments.Currency", models.PROTECT, db_column="currency", related_name="+", db_index=False
    )
    state = StateField(choices=State, default=State.CREATED)
    created_at = models.DateTimeField()

    history = history(leave_out=("merchant", "order_no", "customer_ref", "payable_minor", "currency", "created_at"))

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order_no", "merchant"], name="order_no_once_per_merchant"),
            models.CheckConstraint(condition=models.Q(payable_minor__gt=0), name="order_payable_positive"),
        ]

    def __str__(self) -> str:
        return self.order_no

    @property
    def payable(self) -> Money:
        return Money(self.payable_minor, self.currency_id)

    @property
    def takes_payment(self) -> bool:
        """Whether the state lets a payment begin (PAY-11); the database's trigger holds the same rule."""
        return self.state in (self.State.CREATED, self.State.PAYING)

    @transition(field=state, source=State.CREATED, target=State.PAYING)
    def start_paying(self) -> None:
        """A payment was accepted."""

    @transition(field=state, source=State.PAYING, target=State.PAID)
    def pay(self) -> None:
        """A payment over the payable amount succeeded."""

    @transition(field=state, source=State.PAYING, target=State.CREATED)
    def reopen(self) -> None:
        """Its payment failed or was cancelled, so another may come."""

    @transition(field=state, source=State.CREATED, target=State.CLOSED)
    def close(self) -> None:
        """It takes no payment any more."""
