"""Reads that join or look up."""

from dataclasses import dataclass

from .models import Payment

PAGE = 50


@dataclass(frozen=True, slots=True)
class Page:
    """Payments, newest first, and the id after which the next page begins."""

    payments: list[Payment]
    after: str | None


def payment_of_merchant(*, payment_id: str, merchant_id: int) -> Payment:
    """Return a merchant's own payment with its order and channel. One query.

    :raises Payment.DoesNotExist: no such payment, or another merchant's
    """
    return Payment.objects.select_related("order", "channel").get(pk=payment_id, merchant_id=merchant_id)


def find_payments(
    *,
    merchant_id: int,
    order_no: str | None = None,
    customer_ref: str | None = None,
    idempotency_key: str | None = None,
    after: str | None = None,
    limit: int = PAGE,
) -> Page:
    """A page of a merchant's payments by exact order number, customer and key, newest first; paged by id, not by offset."""
    found = Payment.objects.select_related("order", "channel").filter(merchant_id=merchant_id)
    if order_no is not None:
        found = found.filter(order__order_no=order_no, order__merchant_id=merchant_id)
    if customer_ref is not None:
        found = found.filter(customer_ref=customer_ref)
    if idempotency_key is not None:
        found = found.filter(idempotency_key=idempotency_key)
    if after is not None:
        found = found.filter(pk__lt=after)
    payments = list(found.order_by("-pk")[: limit + 1])
    return Page(payments[:limit], payments[limit - 1].pk if len(payments) > limit else None)
