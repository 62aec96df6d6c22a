"""Set-based writing keeps the history true: its statements name every column the models have."""

import pytest
from django.db import connection

from payments import intake
from payments.models import OutboxEvent, Payment
from tests.factories import a_payment

pytestmark = pytest.mark.django_db


def test_the_one_statement_intake_leaves_the_rows_that_the_models_would(client_of_merchant):
    """K06: one history row for payment and order each, equal to what the row says, and one event."""
    payment = a_payment(client_of_merchant)

    (change,) = Payment.history.filter(id=payment.pk)
    copied = [field.attname for field in change.tracked_fields]
    assert {name: getattr(change, name) for name in copied} == {name: getattr(payment, name) for name in copied}
    assert (change.event, change.source, change.actor) == ("accepted", "API", "client:ivr")
    assert payment.order.history.count() == 1
    assert OutboxEvent.objects.filter(subject_id=payment.pk).count() == 1


def test_every_column_of_the_payment_is_written_or_has_a_default():
    """A new field breaks this test, not the log."""
    named = {name.strip() for name in intake._PAYMENT_COLUMNS.split(",")}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'payments_payment'"
            " AND is_nullable = 'NO' AND column_default IS NULL"
        )
        needed = {row[0] for row in cursor.fetchall()}

    assert needed <= named
    assert named <= {field.column for field in Payment._meta.concrete_fields}
