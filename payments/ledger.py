"""Posting to the ledger: balanced, once, in the transaction of the fact it books (FND-9, FND-10)."""

from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.db import connection, transaction
from django.db.models import Sum

from .models import Channel, LedgerAccount, LedgerEntry, LedgerLine, Payment, Receipt
from .money import Money

Account, Entry = LedgerAccount.Kind, LedgerEntry.Kind


@dataclass(frozen=True, slots=True)
class Posting:
    """What is to be booked: `amount` (above nought) moves from the credited to the debited account.

    :ivar number: which posting of this kind for the object, from 1
    :ivar channel_txn_id, our_number: what the channel names it by, where it names it
    """

    kind: str
    subject: str
    debit: str
    credit: str
    amount: Money
    evidence: str
    number: int = 1
    channel_txn_id: str = ""
    our_number: str = ""


# Entry, lines and accounts on first use are one statement; a posting that stands already inserts nothing.
_POST = """
WITH made AS (
    INSERT INTO payments_ledgeraccount (kind, merchant_id, channel_id, currency)
    SELECT kind, %(merchant)s, %(channel)s, %(currency)s FROM unnest(ARRAY[%(debit)s, %(credit)s]) AS kind
    WHERE NOT EXISTS (SELECT FROM payments_ledgeraccount known WHERE known.kind = kind.kind
        AND known.merchant_id = %(merchant)s AND known.channel_id = %(channel)s AND known.currency = %(currency)s)
    ON CONFLICT DO NOTHING RETURNING id, kind
), account AS (
    SELECT id, kind FROM made UNION ALL
    SELECT id, kind FROM payments_ledgeraccount
    WHERE merchant_id = %(merchant)s AND channel_id = %(channel)s AND currency = %(currency)s
      AND kind IN (%(debit)s, %(credit)s)
), entry AS (
    INSERT INTO payments_ledgerentry
        (kind, subject, number, payment_id, channel_id, channel_txn_id, our_number, business_date, posted_at, evidence)
    VALUES (%(kind)s, %(subject)s, %(number)s, %(payment)s, %(channel)s, %(txn)s, %(our_number)s, %(business_date)s, %(at)s,
        %(evidence)s)
    ON CONFLICT DO NOTHING RETURNING id
), line AS (
    INSERT INTO payments_ledgerline (entry_id, account_id, amount_minor, currency)
    SELECT entry.id, account.id, CASE account.kind WHEN %(debit)s THEN %(amount)s ELSE -%(amount)s END, %(currency)s
    FROM entry, account
    RETURNING id
)
SELECT (SELECT count(*) FROM entry), (SELECT count(*) FROM line)
"""


class _AccountMadeMeanwhile(Exception):
    """Another transaction made an account after this statement began: look again."""


def post(*, payment: Payment, posting: Posting, at: datetime) -> bool:
    """Book a posting about a payment's money in the running transaction; False if it stands already.

    :raises IntegrityError: at the commit, if what was written is not balanced
    """
    values = {
        "kind": posting.kind,
        "subject": posting.subject,
        "number": posting.number,
        "payment": payment.pk,
        "merchant": payment.merchant_id,
        "channel": payment.channel_id,
        "txn": posting.channel_txn_id,
        "our_number": posting.our_number,
        "business_date": business_date(payment.channel, at),
        "at": at,
        "evidence": posting.evidence,
        "debit": posting.debit,
        "credit": posting.credit,
        "amount": posting.amount.amount_minor,
        "currency": posting.amount.currency,
    }
    try:
        with transaction.atomic():
            return _insert(values)
    except _AccountMadeMeanwhile:
        return _insert(values)


def _insert(values: dict[str, Any]) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_POST, values)
        entries, lines = cursor.fetchone()
    if entries and lines != 2:
        raise _AccountMadeMeanwhile
    return bool(entries)


def capture(*, payment: Payment, captured: Money, evidence: str, at: datetime) -> bool:
    """Book what a payment captured: the channel owes it to us, and we owe it to the merchant."""
    posting = Posting(
        kind=Entry.CAPTURE,
        subject=f"payment:{payment.pk}",
        debit=Account.CLEARING,
        credit=Account.MERCHANT_PAYABLE,
        amount=captured,
        evidence=evidence,
        channel_txn_id=payment.bank_transaction_id or "",
        our_number=payment.pk,
    )
    return post(payment=payment, posting=posting, at=at)


def take_into_suspense(*, receipt: Receipt, at: datetime) -> bool:
    """Book money that came for a payment already final: nobody's until it is refunded or kept (PAY-4)."""
    posting = Posting(
        kind=Entry.RECEIPT,
        subject=f"receipt:{receipt.pk}",
        debit=Account.CLEARING,
        credit=Account.SUSPENSE,
        amount=receipt.amount,
        evidence=receipt.evidence,
        channel_txn_id=receipt.channel_txn_id,
        our_number=receipt.payment_id,
    )
    return post(payment=receipt.payment, posting=posting, at=at)


def business_date(channel: Channel, at: datetime) -> date:
    """The day a moment belongs to at a channel, in the channel's own time zone."""
    return at.astimezone(ZoneInfo(channel.time_zone)).date()


@dataclass(frozen=True, slots=True)
class Balance:
    """What an account holds at the end of a day: debits less credits."""

    account: LedgerAccount
    amount: Money


def trial_balance(*, on: date | None = None) -> list[Balance]:
    """Every account with its balance at the end of a business date, or now; per currency they add up to nought."""
    lines = LedgerLine.objects.all()
    if on is not None:
        lines = lines.filter(entry__business_date__lte=on)
    sums = dict(lines.values_list("account_id").annotate(total=Sum("amount_minor")).order_by())
    accounts = LedgerAccount.objects.filter(pk__in=sums).select_related("merchant", "channel")
    ordered = accounts.order_by("currency_id", "merchant_id", "channel_id", "kind")
    return [Balance(account, Money(sums[account.pk], account.currency_id)) for account in ordered]


@dataclass(frozen=True, slots=True)
class LedgerFault:
    """One thing the ledger and our other records do not agree on."""

    subject: str
    says: str


def check(*, limit: int = 1000) -> list[LedgerFault]:
    """Compare the ledger with what it books: each captured payment and receipt posted once with its amount, every entry
    balanced, nothing posted that did not happen (FND-10). Returns at most `limit` faults."""
    with connection.cursor() as cursor:
        cursor.execute(_CHECK, {"limit": limit})
        return [LedgerFault(*row) for row in cursor.fetchall()]


_CHECK = """
WITH posted AS (
    SELECT entry.subject, entry.kind, entry.id, sum(line.amount_minor) AS balance,
        sum(line.amount_minor) FILTER (WHERE line.amount_minor > 0) AS amount, min(line.currency) AS currency
    FROM payments_ledgerentry entry LEFT JOIN payments_ledgerline line ON line.entry_id = entry.id
    GROUP BY entry.id
), owed AS (
    SELECT 'payment:' || id AS subject, 'CAPTURE' AS kind, captured_minor AS amount, captured_currency AS currency
    FROM payments_payment WHERE state = 'SUCCEEDED'
    UNION ALL
    SELECT 'receipt:' || id, 'RECEIPT', amount_minor, currency FROM payments_receipt
)
SELECT coalesce(owed.subject, posted.subject),
    CASE WHEN posted.id IS NULL THEN owed.kind || ' of ' || owed.amount || ' ' || owed.currency || ' is not posted'
         WHEN owed.subject IS NULL THEN posted.kind || ' of ' || posted.amount || ' is posted and did not happen'
         WHEN posted.balance IS DISTINCT FROM 0 THEN 'entry ' || posted.id || ' is not balanced'
         ELSE posted.kind || ' is posted as ' || posted.amount || ' ' || posted.currency || ', not ' || owed.amount
              || ' ' || owed.currency END
FROM owed FULL JOIN posted ON posted.subject = owed.subject AND posted.kind = owed.kind
WHERE posted.id IS NULL OR owed.subject IS NULL OR posted.balance IS DISTINCT FROM 0
   OR posted.amount <> owed.amount OR posted.currency <> owed.currency
ORDER BY 1 LIMIT %(limit)s
"""
