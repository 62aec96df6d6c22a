"""Reads that join or look up."""

from dataclasses import dataclass

from django.db import connection

from .models import Order, Payment
from .prepared import prepared_cursor
from .reference_data import channel_named

PAGE = 50


@dataclass(frozen=True, slots=True)
class Page:
    """Payments, newest first, and the id after which the next page begins."""

    payments: list[Payment]
    after: str | None


_PAYMENT_COLUMNS = [field.column for field in Payment._meta.concrete_fields]
_ORDER_COLUMNS = [field.column for field in Order._meta.concrete_fields]
_OF_MERCHANT = f"""
SELECT {", ".join(f"p.{column}" for column in _PAYMENT_COLUMNS)}, {", ".join(f"o.{column}" for column in _ORDER_COLUMNS)},
    EXISTS (SELECT FROM payments_payment other WHERE other.order_id = p.order_id AND other.id <> p.id)
FROM payments_payment p JOIN payments_order o ON o.id = p.order_id
WHERE p.id = %s::text AND p.merchant_id = %s::bigint
"""  # noqa: S608 - column names of our own models


def payment_of_merchant(*, payment_id: str, merchant_id: int) -> Payment:
    """Return a merchant's own payment with its order and channel; `payment.only_attempt` says that its order has no
    other. One query, by hand: callers poll, and the ORM takes several times as long as the database to make this one.

    :raises Payment.DoesNotExist: no such payment, or another merchant's
    """
    with prepared_cursor() as cursor:
        cursor.execute(_OF_MERCHANT, [payment_id, merchant_id])
        row = cursor.fetchone()
    if row is None:
        raise Payment.DoesNotExist
    width = len(_PAYMENT_COLUMNS)
    payment = Payment.from_db(connection.alias, [field.attname for field in Payment._meta.concrete_fields], row[:width])
    payment.order = Order.from_db(
        connection.alias, [field.attname for field in Order._meta.concrete_fields], row[width:-1]
    )
    if (channel := channel_named(payment.channel_id)) is not None:
        payment.channel = channel
    payment.only_attempt = not row[-1]
    return payment


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
