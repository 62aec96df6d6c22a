"""Finding a payment by whatever a person has in hand: exact, indexed, no guessing (PAY-13, OPS-1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from .models import InboundNotification, Payment, Receipt

MOST = 50
_ID_LENGTH = 26


@dataclass(frozen=True, slots=True)
class Found:
    """Hits by the field that matched, and the fields that were tried."""

    by: str
    payments: list[Payment]
    tried: tuple[str, ...]


def find(text: str, *, within: QuerySet[Payment] | None = None) -> Found:
    """Look a text up as payment id, order number, channel transaction id, idempotency key and customer reference, in
    that order; the first field that hits wins. At most fifty payments, newest first.

    :param within: the payments the asker may see; all of them if not given
    """
    visible = Payment.objects.all() if within is None else within
    wanted = text.strip()
    tried: list[str] = []
    if not wanted or not wanted.isprintable():
        return Found("", [], ())
    for by, filters in _ways(wanted):
        if by not in tried:
            tried.append(by)
        if filters is None:
            continue
        rows = visible.select_related("order", "channel", "merchant").filter(**filters).order_by("-pk")[:MOST]
        if payments := list(rows):
            return Found(by, payments, tuple(tried))
    return Found("", [], tuple(tried))


def _ways(wanted: str) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each way to look, in order; a text that nothing matches costs at most six queries."""
    if len(wanted) == _ID_LENGTH:
        yield "payment", {"pk": wanted.upper()}
    yield "order", {"order__order_no": wanted}
    yield "transaction", {"bank_transaction_id": wanted}
    told = Receipt.objects.filter(channel_txn_id=wanted).values_list("payment_id")
    told = told.union(
        InboundNotification.objects.filter(channel_txn_id=wanted, payment__isnull=False).values_list("payment_id")
    )
    ids = [row[0] for row in told[:MOST]]
    yield "transaction", {"pk__in": ids} if ids else None
    yield "key", {"idempotency_key": wanted}
    yield "customer", {"customer_ref": wanted}
