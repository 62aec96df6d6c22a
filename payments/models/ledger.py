"""The double-entry ledger: what was posted, once, for good (FND-9)."""

from django.db import models
from django.db.models import Q

from ..money import Money


class LedgerAccount(models.Model):
    """One account of the chart: a kind, for a merchant where it is the merchant's, at a channel, in a currency.

    Debits are positive. Clearing and fees grow by debit; what is owed to merchants, payees and payers grows by credit.
    """

    class Kind(models.TextChoices):
        CLEARING = "CLEARING", "money at the channel, on its way to us"
        MERCHANT_PAYABLE = "MERCHANT_PAYABLE", "owed to the merchant"
        PAYEE_PAYABLE = "PAYEE_PAYABLE", "held for payees"
        FEES = "FEES", "fees of the channel"
        REFUNDS = "REFUNDS", "refunds on their way to payers"
        FX_ROUNDING = "FX_ROUNDING", "tails of conversions"
        SUSPENSE = "SUSPENSE", "money that nobody has claimed yet"

    kind = models.CharField(max_length=20, choices=Kind)
    merchant = models.ForeignKey("payments.Merchant", models.PROTECT, related_name="+")
    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+")
    currency = models.ForeignKey("payments.Currency", models.PROTECT, db_column="currency", related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["merchant", "channel", "kind", "currency"], name="one_account_of_a_kind")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.merchant_id}/{self.channel_id} {self.currency_id}"


class LedgerEntry(models.Model):
    """One posting about one of our objects. Its lines add up to nought in each currency, by the database (I8).

    Unique by (object, kind, number), and by (channel, its transaction, kind, our number) where the channel named one: so
    reply, notification, question and statement together post once.
    """

    class Kind(models.TextChoices):
        CAPTURE = "CAPTURE", "a payment was captured"
        RECEIPT = "RECEIPT", "money came that nobody expected"
        REFUND = "REFUND", "money went back to the payer"
        FEE = "FEE", "the channel kept a fee"
        CORRECTION = "CORRECTION", "an earlier posting is set right"

    kind = models.CharField(max_length=20, choices=Kind)
    subject = models.CharField(max_length=64, help_text="`payment:<id>`, `receipt:<id>`, `refund:<id>` …")
    number = models.PositiveIntegerField(default=1)
    payment = models.ForeignKey("payments.Payment", models.PROTECT, related_name="ledger_entries")
    channel = models.ForeignKey("payments.Channel", models.PROTECT, related_name="+", db_index=False)
    channel_txn_id = models.CharField(max_length=64, default="")
    our_number = models.CharField(max_length=40, default="")
    business_date = models.DateField(help_text="Day of the channel's own zone.")
    posted_at = models.DateTimeField()
    evidence = models.CharField(max_length=80, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject", "kind", "number"], name="one_posting_per_object_and_kind"),
            models.UniqueConstraint(
                fields=["channel_txn_id", "channel", "kind", "our_number"],
                condition=~Q(channel_txn_id=""),
                name="one_posting_per_channel_transaction",
            ),
        ]
        indexes = [models.Index(fields=["business_date", "id"], name="entry_by_business_date")]


class LedgerLine(models.Model):
    """One side of an entry: minor units, a debit above nought, a credit below."""

    entry = models.ForeignKey(LedgerEntry, models.PROTECT, related_name="lines")
    account = models.ForeignKey(LedgerAccount, models.PROTECT, related_name="lines")
    amount_minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)

    class Meta:
        constraints = [models.CheckConstraint(condition=~Q(amount_minor=0), name="ledger_line_says_something")]

    @property
    def amount(self) -> Money:
        return Money(self.amount_minor, self.currency)
