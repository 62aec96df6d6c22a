"""FND-9, FND-10, I8: balanced, append-only, each fact posted once whatever path reports it."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError, connection, transaction

from payments import confirmation, ledger
from payments.evidence import Outcome, Source
from payments.models import LedgerAccount, LedgerEntry, LedgerLine, Payment
from payments.money import Money
from payments.units import constraint_of
from tests.factories import NOW, a_payment, cny, evidence, later
from tests.together import run_together

pytestmark = pytest.mark.django_db


def on_its_way(client, **changes):
    payment = a_payment(client, **changes)
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    payment.save(update_fields=confirmation.STATE_FIELDS)
    return payment


def told(payment, outcome=Outcome.SUCCEEDED, **changes):
    changes.setdefault("channel_txn_id", f"B-{payment.pk}")
    return confirmation.confirm_payment(payment_id=payment.pk, evidence=evidence(outcome, **changes))


def balances(on=None):
    return {
        (found.account.kind, found.amount.currency): found.amount.amount_minor for found in ledger.trial_balance(on=on)
    }


def test_a_capture_is_owed_by_the_channel_to_us_and_by_us_to_the_merchant(client_of_merchant):
    payment = on_its_way(client_of_merchant)

    told(payment)

    assert balances() == {("CLEARING", "CNY"): 128_00, ("MERCHANT_PAYABLE", "CNY"): -128_00}
    entry = LedgerEntry.objects.get()
    assert (entry.subject, entry.kind, entry.channel_txn_id) == (f"payment:{payment.pk}", "CAPTURE", f"B-{payment.pk}")
    payment.refresh_from_db()
    assert payment.accounting == "POSTED"


@pytest.mark.django_db(transaction=True)
def test_reply_notification_and_question_together_post_once(client_of_merchant):
    """FND-9, also for two payments that use an account for the first time at the same moment."""
    for _ in range(20):
        payments = [on_its_way(client_of_merchant) for _ in range(2)]

        outcomes = run_together(
            *[
                lambda p=payment, s=source: told(p, source=s)
                for payment in payments
                for source in (Source.REPLY, Source.NOTIFICATION, Source.QUERY)
            ]
        )

        assert [outcome for outcome in outcomes if isinstance(outcome, Exception)] == []
        for payment in payments:
            assert payment.ledger_entries.count() == 1
    assert ledger.check() == []


def test_money_for_a_dead_payment_stands_in_suspense(client_of_merchant):
    """PAY-4"""
    payment = on_its_way(client_of_merchant)
    told(payment, Outcome.DECLINED)

    for _ in range(3):
        told(payment, source=Source.NOTIFICATION, at=later(hours=26))

    assert balances() == {("CLEARING", "CNY"): 128_00, ("SUSPENSE", "CNY"): -128_00}
    payment.refresh_from_db()
    assert payment.accounting == "NOTHING"
    assert ledger.check() == []


def test_the_business_date_is_the_channel_s_own(client_of_merchant):
    told(on_its_way(client_of_merchant), at=later(hours=13, minutes=29))
    told(on_its_way(client_of_merchant), at=later(hours=13, minutes=31))

    days = [str(day) for day in LedgerEntry.objects.order_by("pk").values_list("business_date", flat=True)]
    assert days == ["2026-09-01", "2026-09-02"]
    assert balances(on=LedgerEntry.objects.order_by("pk")[0].business_date)["CLEARING", "CNY"] == 128_00


def test_currencies_never_mix(client_of_merchant):
    told(on_its_way(client_of_merchant))
    yen = Money(80, "JPY")
    told(on_its_way(client_of_merchant, amount=yen), amount=yen)

    assert balances()["CLEARING", "CNY"] == 128_00
    assert balances()["CLEARING", "JPY"] == 80


def test_a_payment_cannot_succeed_without_its_posting_state(client_of_merchant):
    payment = on_its_way(client_of_merchant)

    with pytest.raises(IntegrityError) as error, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE payments_payment SET state = 'SUCCEEDED', captured_minor = 1, bank_transaction_id = 'B' WHERE id = %s",
            [payment.pk],
        )

    assert constraint_of(error.value) == "payment_and_accounting_move_together"


class TestRawSql:
    """I8: what the database refuses at the commit."""

    @pytest.fixture
    def entry(self, client_of_merchant):
        told(on_its_way(client_of_merchant))
        return LedgerEntry.objects.get()

    def refused(self, *statements):
        with pytest.raises(DatabaseError) as error, transaction.atomic(), connection.cursor() as cursor:
            for sql, values in statements:
                cursor.execute(sql, values)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return constraint_of(error.value)

    def a_line(self, entry, amount, currency="CNY", kind="CLEARING"):
        account = LedgerAccount.objects.get(kind=kind)
        return (
            "INSERT INTO payments_ledgerline (entry_id, account_id, amount_minor, currency) VALUES (%s, %s, %s, %s)",
            [entry.pk, account.pk, amount, currency],
        )

    def test_an_unbalanced_entry(self, entry):
        assert self.refused(self.a_line(entry, 1)) == "ledger_entry_balanced"

    def test_two_currencies_in_one_account(self, entry):
        lines = self.a_line(entry, 1, "JPY"), self.a_line(entry, -1, "JPY", "MERCHANT_PAYABLE")

        assert self.refused(*lines) == "line_in_the_currency_of_its_account"

    def test_an_entry_without_lines(self, entry):
        copy = (
            "INSERT INTO payments_ledgerentry (kind, subject, number, payment_id, channel_id, channel_txn_id, our_number,"
            " business_date, posted_at, evidence) SELECT kind, 'other', 1, payment_id, channel_id, '', '', business_date,"
            " posted_at, '' FROM payments_ledgerentry"
        )
        assert self.refused((copy, [])) == "ledger_entry_balanced"

    @pytest.mark.parametrize(
        ("subject", "txn", "name"),
        [
            ("subject", "''", "one_posting_per_object_and_kind"),
            ("'other'", "channel_txn_id", "one_posting_per_channel_transaction"),
        ],
    )
    def test_the_same_posting_twice(self, entry, subject, txn, name):
        copy = (
            "INSERT INTO payments_ledgerentry (kind, subject, number, payment_id, channel_id, channel_txn_id, our_number,"
            f" business_date, posted_at, evidence) SELECT kind, {subject}, number, payment_id, channel_id, {txn}, our_number,"
            " business_date, posted_at, evidence FROM payments_ledgerentry"
        )
        assert self.refused((copy, [])) == name

    @pytest.mark.parametrize("table", ["payments_ledgerentry", "payments_ledgerline"])
    @pytest.mark.parametrize("statement", ["UPDATE {} SET id = id", "DELETE FROM {}"])
    def test_what_was_posted_stays(self, entry, table, statement):
        assert self.refused((statement.format(table), [])) == f"append_only_{table}"


class TestCheck:
    def test_a_sound_ledger_is_said_to_be_in_order(self, client_of_merchant):
        told(on_its_way(client_of_merchant))
        out = io.StringIO()

        call_command("check_ledger", stdout=out)

        assert "MERCHANT_PAYABLE" in out.getvalue()
        assert "In order" in out.getvalue()

    def test_a_capture_nobody_posted_is_found(self, client_of_merchant):
        payment = on_its_way(client_of_merchant)
        told(payment)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("DELETE FROM payments_ledgerline")
            cursor.execute("DELETE FROM payments_ledgerentry")
            cursor.execute("SET LOCAL session_replication_role = origin")

        (fault,) = ledger.check()
        assert fault.subject == f"payment:{payment.pk}"
        assert "is not posted" in fault.says
        with pytest.raises(CommandError, match="1 faults"):
            call_command("check_ledger", stdout=io.StringIO())

    def test_a_posting_of_another_amount_is_found(self, client_of_merchant):
        payment = on_its_way(client_of_merchant)
        told(payment)
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute("UPDATE payments_payment SET captured_minor = 1 WHERE id = %s", [payment.pk])
            cursor.execute("SET LOCAL session_replication_role = origin")

        assert "posted as 12800 CNY, not 1 CNY" in ledger.check()[0].says


def test_a_review_posts_nothing_until_it_ends(client_of_merchant):
    """FND-5: what the channel confirms beside what was asked waits for a decision."""
    payment = on_its_way(client_of_merchant)
    told(payment, amount=cny(129_00))

    assert not LedgerLine.objects.exists()
    assert Payment.objects.get(pk=payment.pk).accounting == "NOTHING"
