"""Lists as CSV: every cell is text to a spreadsheet, whatever a stranger wrote into it (K21)."""

import csv
import io
from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo

from django.utils.translation import gettext as _

from payments.masking import mask_card_numbers
from payments.models import Payment
from payments.words import tag_for

from . import wording
from .answers import Charged, charged
from .errors import TooManyRows
from .listing import MOST_EXPORTED
from .masks import masked_customer

# What makes a spreadsheet take a cell for a formula, full-width forms and control characters included.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def harmless(text: str) -> str:
    """The text so that no spreadsheet calculates with it: an apostrophe before what would begin a formula."""
    text = mask_card_numbers(text)
    return (
        f"'{text}" if text.lstrip(" \u00a0\u3000").startswith(_FORMULA_STARTS) or text[:1] in _FORMULA_STARTS else text
    )


def payments_csv(payments: Iterable[Payment], *, zone: ZoneInfo, at: datetime) -> tuple[str, int]:
    """The file's content and its number of rows. Customers are masked; times are in `zone`, which the header names.

    :raises TooManyRows: more than ten thousand; a cut list would pass for a whole one
    """
    out = io.StringIO()
    out.write("\ufeff")  # spreadsheets take the file for UTF-8 only with this mark
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(
        [
            f"{_('Created')} ({zone.key})",
            _("Payment"),
            _("Order"),
            _("Customer"),
            _("Amount"),
            _("Currency"),
            _("Status"),
            _("Cause"),
            _("Charged?"),
            _("Captured"),
            _("Channel"),
            _("Bank transaction"),
            _("Code"),
            _("Text"),
        ]
    )
    rows = 0
    for payment in payments:
        rows += 1
        if rows > MOST_EXPORTED:
            raise TooManyRows
        writer.writerow([harmless(cell) for cell in _cells(payment, zone)])
    return out.getvalue(), rows


def _cells(payment: Payment, zone: ZoneInfo) -> list[str]:
    answer = charged(payment)
    words = {Charged.YES: _("yes"), Charged.NO: _("no"), Charged.UNKNOWN: _("not known yet")}
    return [
        payment.accepted_at.astimezone(zone).isoformat(sep=" ", timespec="milliseconds"),
        payment.pk,
        payment.order.order_no,
        masked_customer(payment.customer_ref),
        str(payment.amount.major),
        payment.currency_id,
        wording.tag_word(tag_for(payment)),
        str(wording.cause_of(payment)),
        words[answer.charged],
        str(payment.captured.major) if payment.captured else "",
        wording.channel_name(payment.channel),
        payment.bank_transaction_id or "",
        payment.failure_code,
        payment.failure_text,
    ]
