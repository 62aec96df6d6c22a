"""What the database itself guarantees: the forbidden thing is written by raw SQL and refused."""

import pytest
from django.db import DatabaseError, connection, transaction

from payments import confirmation
from payments.evidence import Outcome
from payments.models import Order, Payment
from payments.models.fields import new_id
from payments.units import constraint_of
from tests.factories import NOW, a_payment, cny, evidence, later

pytestmark = pytest.mark.django_db


def refused(sql, *values):
    """Run SQL that must be refused, and return the name of what refused it."""
    with pytest.raises(DatabaseError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, values)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    return constraint_of(error.value)


def copied(payment, **changes):
    """Insert a copy of a payment's row with other values; returns what refused it."""
    columns = [field.column for field in Payment._meta.concrete_fields]
    values = {"id": new_id(), "idempotency_key": "another"} | changes
    chosen = ", ".join("%s" if column in values else column for column in columns)
    parameters = [values[column] for column in columns if column in values]
    return refused(
        f"INSERT INTO payments_payment ({', '.join(columns)}) SELECT {chosen} FROM payments_payment WHERE id = %s",
        *parameters,
        payment.pk,
    )


def paid(client):
    payment = a_payment(client)
    submitted(payment)
    return confirmation.confirm_payment(payment_id=payment.pk, evidence=evidence(Outcome.SUCCEEDED)).payment


def submitted(payment):
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    payment.save(update_fields=["state", "submitted_at", "cause", "revision", "state_since"])


def edges_in_database(trigger):
    with connection.cursor() as cursor:
        cursor.execute("SELECT tgargs FROM pg_trigger WHERE tgname = %s", [trigger])
        return {edge.decode() for edge in bytes(cursor.fetchone()[0]).split(b"\0")[:-1]}


def edges_in_code(model):
    transitions = model._meta.get_field("state").get_all_transitions(model)
    return {f"{edge.source}>{edge.target}" for edge in transitions if edge.source != edge.target}


def test_one_idempotency_key_has_one_effect(client_of_merchant):
    """I1"""
    payment = a_payment(client_of_merchant)

    name = refused(
        "INSERT INTO payments_idempotencyrecord (merchant_id, scene, business_key, operation, fingerprint, request, state,"
        " payment_id, created_at) SELECT merchant_id, scene, business_key, operation, 'x', request, state, 'other', now()"
        " FROM payments_idempotencyrecord WHERE payment_id = %s",
        payment.pk,
    )

    assert name == "one_effect_per_idempotency_key"


def test_one_bank_transaction_belongs_to_one_payment_of_a_channel(client_of_merchant):
    """I2, PAY-12"""
    first, second = paid(client_of_merchant), a_payment(client_of_merchant)

    name = refused(
        "UPDATE payments_payment SET bank_transaction_id = %s WHERE id = %s", first.bank_transaction_id, second.pk
    )

    assert name == "bank_transaction_once_per_channel"


def test_an_order_has_one_live_and_one_waiting_payment_at_most(client_of_merchant):
    """I3, PAY-11"""
    payment = a_payment(client_of_merchant)

    assert copied(payment, state="QUEUED") == "one_live_payment_per_order"

    waiting = Payment.objects.get(pk=payment.pk)
    waiting_copy = {field.attname: getattr(waiting, field.attname) for field in Payment._meta.concrete_fields}
    Payment(**waiting_copy | {"id": new_id(), "state": "CREATED"}).save(force_insert=True)
    assert copied(payment, state="CREATED") == "one_waiting_payment_per_order"


@pytest.mark.parametrize("state", ["CREATED", "QUEUED"])
def test_a_paid_order_takes_no_payment_in_any_state(client_of_merchant, state):
    """I3, PAY-11: also one that would wait, which no unique index holds off."""
    payment = paid(client_of_merchant)

    name = copied(payment, state=state, bank_transaction_id=None, captured_minor=None, accounting="NOTHING")

    assert name in ("paid_order_takes_no_payment", "one_live_payment_per_order")


@pytest.mark.parametrize(("model", "trigger"), [(Payment, "payment_state_edges"), (Order, "order_state_edges")])
def test_the_database_knows_the_same_edges_as_the_state_machine(model, trigger):
    """I9, PAY-1"""
    assert edges_in_database(trigger) == edges_in_code(model)


def test_no_undeclared_edge_can_be_written(client_of_merchant):
    """I9: every pair of states the machine does not declare, by raw SQL."""
    payment = a_payment(client_of_merchant)
    declared = edges_in_code(Payment)
    for source in Payment.State:
        for target in Payment.State:
            if source == target or f"{source}>{target}" in declared:
                continue
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL session_replication_role = replica")
                cursor.execute(
                    "UPDATE payments_payment SET state = %s, captured_minor = 1, bank_transaction_id = 'B', accounting = %s"
                    " WHERE id = %s",
                    [source, "POSTED" if source == "SUCCEEDED" else "NOTHING", payment.pk],
                )
                cursor.execute("SET LOCAL session_replication_role = origin")
            name = refused("UPDATE payments_payment SET state = %s WHERE id = %s", target, payment.pk)
            assert name == "payment_state_edges", f"{source} > {target}"


def test_no_life_begins_in_the_middle(client_of_merchant):
    """I9"""
    payment = a_payment(client_of_merchant)

    assert copied(payment, state="SUBMITTED") == "payment_state_starts"


def test_success_without_its_money_is_no_success(client_of_merchant):
    payment = a_payment(client_of_merchant)
    submitted(payment)

    name = refused("UPDATE payments_payment SET state = 'SUCCEEDED', accounting = 'POSTED' WHERE id = %s", payment.pk)

    assert name == "succeeded_payment_names_its_money"


@pytest.mark.parametrize(
    "change",
    [
        "amount_minor = 1",
        "currency = 'USD'",
        "order_id = 'other'",
        "payment_token = 'tok_other'",
        "accepted_at = now()",
    ],
)
def test_what_was_asked_for_never_changes(client_of_merchant, change):
    """FND-4"""
    payment = a_payment(client_of_merchant)

    assert refused(f"UPDATE payments_payment SET {change} WHERE id = %s", payment.pk) == "payment_facts_fixed"


def test_a_payment_is_never_deleted(client_of_merchant):
    payment = a_payment(client_of_merchant)

    assert refused("DELETE FROM payments_payment WHERE id = %s", payment.pk) == "payment_is_kept"


def test_an_unregistered_currency_cannot_be_stored(client_of_merchant):
    """I14, FND-2"""
    payment = a_payment(client_of_merchant)
    Payment.objects.filter(pk=payment.pk)

    assert "currency" in copied(payment, state="QUEUED", currency="AUD", order_id=other_order(client_of_merchant))


def other_order(client):
    order = Order(
        merchant=client.merchant,
        order_no="other",
        customer_ref="C",
        payable_minor=cny(1).amount_minor,
        currency_id="CNY",
        created_at=NOW,
    )
    order.save(force_insert=True)
    return order.pk


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "table",
    [
        "payments_historicalpayment",
        "payments_historicalorder",
        "payments_historicalchannel",
        "payments_channelexchange",
    ],
)
@pytest.mark.parametrize("statement", ["UPDATE {} SET {} = {}", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
def test_evidence_is_append_only(client_of_merchant, table, statement):
    """I10, AUD-3"""
    payment = a_payment(client_of_merchant)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO payments_channelexchange (kind, channel_id, operation, payment_id, reference, actor, at, body,"
            " outcome, code, message, classification, channel_txn_id) VALUES"
            " ('REQUEST', 'bank', 'pay', %s, '', '', now(), '', '', '', '', '', '')",
            [payment.pk],
        )
    column = "body" if table.endswith("exchange") else "reason"

    assert refused(statement.format(table, column, column)) == f"append_only_{table}"
