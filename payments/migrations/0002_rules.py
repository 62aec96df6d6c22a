"""What the database itself guarantees: state edges (I9), append-only evidence (I10), fixed facts, paid orders (I3)."""

from django.db import migrations

GUARD_STATE = """
CREATE FUNCTION countinghouse_guard_state() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (OLD.state || '>' || NEW.state = ANY (TG_ARGV)) THEN
        RAISE EXCEPTION 'state % does not lead to %', OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION countinghouse_guard_start() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (NEW.state = ANY (TG_ARGV)) THEN
        RAISE EXCEPTION 'no life begins in state %', NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NEW;
END $$;
"""
GUARD_STATE_REVERSE = (
    "DROP FUNCTION countinghouse_guard_state() CASCADE; DROP FUNCTION countinghouse_guard_start() CASCADE;"
)

PAYMENT_EDGES = [
    "CREATED>QUEUED",
    "CREATED>CANCELLED",
    "QUEUED>SUBMITTED",
    "QUEUED>PENDING",
    "QUEUED>CANCELLED",
    "SUBMITTED>QUEUED",
    "SUBMITTED>PENDING",
    "SUBMITTED>SUCCEEDED",
    "SUBMITTED>FAILED",
    "SUBMITTED>CANCELLED",
    "SUBMITTED>CANCEL_PENDING",
    "SUBMITTED>REVIEW_REQUIRED",
    "PENDING>SUCCEEDED",
    "PENDING>FAILED",
    "PENDING>CANCELLED",
    "PENDING>CANCEL_PENDING",
    "PENDING>REVIEW_REQUIRED",
    "CANCEL_PENDING>PENDING",
    "CANCEL_PENDING>SUCCEEDED",
    "CANCEL_PENDING>FAILED",
    "CANCEL_PENDING>CANCELLED",
    "CANCEL_PENDING>REVIEW_REQUIRED",
    "REVIEW_REQUIRED>SUCCEEDED",
    "REVIEW_REQUIRED>FAILED",
    "REVIEW_REQUIRED>CANCELLED",
    "REVIEW_REQUIRED>CANCEL_PENDING",
]
ORDER_EDGES = ["CREATED>PAYING", "CREATED>CLOSED", "PAYING>PAID", "PAYING>CREATED"]


def state_triggers(table: str, name: str, edges: list[str], starts: list[str]) -> migrations.RunSQL:
    def literals(values: list[str]) -> str:
        return ", ".join(f"'{value}'" for value in values)

    return migrations.RunSQL(
        f"""
        CREATE TRIGGER {name}_state_edges BEFORE UPDATE ON {table} FOR EACH ROW
            WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION countinghouse_guard_state({literals(edges)});
        CREATE TRIGGER {name}_state_starts BEFORE INSERT ON {table} FOR EACH ROW
            EXECUTE FUNCTION countinghouse_guard_start({literals(starts)});
        """,
        f"DROP TRIGGER {name}_state_edges ON {table}; DROP TRIGGER {name}_state_starts ON {table};",
    )


APPEND_ONLY = """
CREATE FUNCTION countinghouse_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'append_only_' || TG_TABLE_NAME, TABLE = TG_TABLE_NAME;
END $$;
"""
APPEND_ONLY_TABLES = [
    "payments_historicalpayment",
    "payments_historicalorder",
    "payments_historicalchannel",
    "payments_historicalerrorcoderule",
    "payments_channelexchange",
    "payments_ledgerentry",
    "payments_ledgerline",
]


def append_only(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"""
        CREATE TRIGGER append_only_rows BEFORE UPDATE OR DELETE ON {table}
            FOR EACH ROW EXECUTE FUNCTION countinghouse_append_only();
        CREATE TRIGGER append_only_table BEFORE TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION countinghouse_append_only();
        """,
        f"DROP TRIGGER append_only_rows ON {table}; DROP TRIGGER append_only_table ON {table};",
    )


# What was asked for never changes; a payment is never deleted, so that its history keeps its subject.
FIXED_FACTS = """
CREATE FUNCTION payments_payment_fixed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a payment is never deleted'
            USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'payment_is_kept', TABLE = TG_TABLE_NAME;
    END IF;
    RAISE EXCEPTION 'what a payment was asked for never changes'
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'payment_facts_fixed', TABLE = TG_TABLE_NAME;
END $$;
CREATE TRIGGER payment_facts_fixed BEFORE UPDATE ON payments_payment FOR EACH ROW
    WHEN ((OLD.id, OLD.merchant_id, OLD.order_id, OLD.channel_id, OLD.client_id, OLD.idempotency_key, OLD.customer_ref,
           OLD.payment_token, OLD.purpose, OLD.amount_minor, OLD.currency, OLD.replaces_id, OLD.accepted_at, OLD.expires_at)
          IS DISTINCT FROM
          (NEW.id, NEW.merchant_id, NEW.order_id, NEW.channel_id, NEW.client_id, NEW.idempotency_key, NEW.customer_ref,
           NEW.payment_token, NEW.purpose, NEW.amount_minor, NEW.currency, NEW.replaces_id, NEW.accepted_at, NEW.expires_at))
    EXECUTE FUNCTION payments_payment_fixed();
CREATE TRIGGER final_money_fixed BEFORE UPDATE ON payments_payment FOR EACH ROW
    WHEN (OLD.state IN ('SUCCEEDED', 'FAILED', 'CANCELLED')
          AND (OLD.captured_minor, OLD.captured_currency, OLD.bank_transaction_id, OLD.txn_scope) IS DISTINCT FROM
              (NEW.captured_minor, NEW.captured_currency, NEW.bank_transaction_id, NEW.txn_scope))
    EXECUTE FUNCTION payments_payment_fixed();
CREATE TRIGGER payment_is_kept BEFORE DELETE ON payments_payment FOR EACH ROW EXECUTE FUNCTION payments_payment_fixed();
"""

# Facts beside the payment: what an order was agreed over, what money came, what was told and asked stay as they are.
KEPT = """
CREATE FUNCTION countinghouse_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'what % records is kept as it is', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'kept_' || TG_TABLE_NAME, TABLE = TG_TABLE_NAME;
END $$;
CREATE TRIGGER kept BEFORE DELETE ON payments_order FOR EACH ROW EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER facts_kept BEFORE UPDATE ON payments_order FOR EACH ROW
    WHEN ((OLD.id, OLD.merchant_id, OLD.order_no, OLD.customer_ref, OLD.payable_minor, OLD.currency, OLD.created_at)
          IS DISTINCT FROM
          (NEW.id, NEW.merchant_id, NEW.order_no, NEW.customer_ref, NEW.payable_minor, NEW.currency, NEW.created_at))
    EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER kept BEFORE DELETE ON payments_receipt FOR EACH ROW EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER facts_kept BEFORE UPDATE ON payments_receipt FOR EACH ROW
    WHEN ((OLD.id, OLD.payment_id, OLD.channel_id, OLD.channel_txn_id, OLD.amount_minor, OLD.currency, OLD.received_at)
          IS DISTINCT FROM
          (NEW.id, NEW.payment_id, NEW.channel_id, NEW.channel_txn_id, NEW.amount_minor, NEW.currency, NEW.received_at))
    EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER kept BEFORE DELETE ON payments_inboundnotification FOR EACH ROW EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER facts_kept BEFORE UPDATE ON payments_inboundnotification FOR EACH ROW
    WHEN ((OLD.channel_id, OLD.duplicate_key, OLD.content_digest, OLD.reference, OLD.outcome, OLD.amount_minor, OLD.body)
          IS DISTINCT FROM
          (NEW.channel_id, NEW.duplicate_key, NEW.content_digest, NEW.reference, NEW.outcome, NEW.amount_minor, NEW.body))
    EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER kept BEFORE DELETE ON payments_idempotencyrecord FOR EACH ROW EXECUTE FUNCTION countinghouse_kept();
CREATE TRIGGER facts_kept BEFORE UPDATE ON payments_idempotencyrecord FOR EACH ROW
    WHEN ((OLD.merchant_id, OLD.scene, OLD.business_key, OLD.operation, OLD.fingerprint, OLD.request, OLD.payment_id)
          IS DISTINCT FROM
          (NEW.merchant_id, NEW.scene, NEW.business_key, NEW.operation, NEW.fingerprint, NEW.request, NEW.payment_id))
    EXECUTE FUNCTION countinghouse_kept();
"""

# AFTER, so that a payment inserted together with its order sees it. The order's lock makes two of them take turns.
PAID_ORDERS = """
CREATE FUNCTION payments_order_takes_payment() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    order_state text;
BEGIN
    SELECT state INTO order_state FROM payments_order WHERE id = NEW.order_id FOR NO KEY UPDATE;
    IF EXISTS (SELECT FROM payments_payment WHERE order_id = NEW.order_id AND contradicted) THEN
        RAISE EXCEPTION 'an order with an open contradiction takes no payment'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'contradicted_order_takes_no_payment', TABLE = TG_TABLE_NAME;
    END IF;
    IF order_state NOT IN ('CREATED', 'PAYING') THEN
        RAISE EXCEPTION 'an order in state % takes no payment', order_state
            USING ERRCODE = 'check_violation', CONSTRAINT = 'paid_order_takes_no_payment', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER paid_order_takes_no_payment AFTER INSERT ON payments_payment
    FOR EACH ROW EXECUTE FUNCTION payments_order_takes_payment();
CREATE TRIGGER paid_order_takes_no_payment_again AFTER UPDATE ON payments_payment
    FOR EACH ROW WHEN (NEW.state = 'QUEUED' AND OLD.state = 'CREATED') EXECUTE FUNCTION payments_order_takes_payment();
"""

# I8. At the commit, each entry has lines and they add up to nought in each currency.
BALANCED = """
CREATE FUNCTION payments_ledger_balanced() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    checked bigint := CASE TG_TABLE_NAME WHEN 'payments_ledgerline' THEN (to_jsonb(NEW) ->> 'entry_id')::bigint
        ELSE (to_jsonb(NEW) ->> 'id')::bigint END;
BEGIN
    IF NOT EXISTS (SELECT FROM payments_ledgerline WHERE entry_id = checked) OR EXISTS (
        SELECT FROM payments_ledgerline WHERE entry_id = checked GROUP BY currency HAVING sum(amount_minor) <> 0
    ) THEN
        RAISE EXCEPTION 'ledger entry % is not balanced', checked
            USING ERRCODE = 'check_violation', CONSTRAINT = 'ledger_entry_balanced', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_entry_balanced AFTER INSERT ON payments_ledgerline
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION payments_ledger_balanced();
CREATE CONSTRAINT TRIGGER ledger_entry_has_lines AFTER INSERT ON payments_ledgerentry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION payments_ledger_balanced();
-- A line's currency is its account's, so that no account mixes two.
CREATE FUNCTION payments_line_currency() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.currency <> (SELECT currency FROM payments_ledgeraccount WHERE id = NEW.account_id) THEN
        RAISE EXCEPTION 'a line in % on an account of another currency', NEW.currency
            USING ERRCODE = 'check_violation', CONSTRAINT = 'line_in_the_currency_of_its_account', TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER line_in_the_currency_of_its_account AFTER INSERT ON payments_ledgerline
    FOR EACH ROW EXECUTE FUNCTION payments_line_currency();
"""

# PAY-17. The lock makes requests for one customer and amount take turns. The function is VOLATILE, so its query has a
# snapshot of its own, taken after the lock: it sees what the one before has committed.
SECOND_PAYMENT = """
CREATE FUNCTION payments_second_payment(
    merchant bigint, customer text, amount bigint, asked_currency text, key text, recently timestamptz
) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended(concat_ws('|', merchant, customer, amount, asked_currency), 0));
    RETURN (
        SELECT id FROM payments_payment
        WHERE merchant_id = merchant AND customer_ref = customer AND amount_minor = amount AND currency = asked_currency
          AND idempotency_key <> key
          AND (state NOT IN ('SUCCEEDED', 'FAILED', 'CANCELLED') OR contradicted
               OR (state = 'SUCCEEDED' AND state_since > recently))
        ORDER BY id DESC LIMIT 1
    );
END $$;
"""

# Ids are compared whole, never by LIKE: the pattern indexes would only slow every insert down.
NO_PATTERN_INDEXES = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT indexname FROM pg_indexes
        WHERE schemaname = current_schema() AND tablename LIKE 'payments\\_%' AND indexname LIKE '%\\_like'
    LOOP
        EXECUTE format('DROP INDEX %I', name);
    END LOOP;
END $$;
"""


class Migration(migrations.Migration):
    dependencies = [("payments", "0001_initial")]

    operations = [
        migrations.RunSQL(GUARD_STATE, GUARD_STATE_REVERSE),
        state_triggers("payments_payment", "payment", PAYMENT_EDGES, ["CREATED", "QUEUED"]),
        state_triggers("payments_order", "order", ORDER_EDGES, ["CREATED", "PAYING"]),
        migrations.RunSQL(APPEND_ONLY, "DROP FUNCTION countinghouse_append_only() CASCADE;"),
        *[append_only(table) for table in APPEND_ONLY_TABLES],
        migrations.RunSQL(FIXED_FACTS, "DROP FUNCTION payments_payment_fixed() CASCADE;"),
        migrations.RunSQL(KEPT, "DROP FUNCTION countinghouse_kept() CASCADE;"),
        migrations.RunSQL(PAID_ORDERS, "DROP FUNCTION payments_order_takes_payment() CASCADE;"),
        migrations.RunSQL(
            BALANCED,
            "DROP FUNCTION payments_ledger_balanced() CASCADE; DROP FUNCTION payments_line_currency() CASCADE;",
        ),
        migrations.RunSQL(SECOND_PAYMENT, "DROP FUNCTION payments_second_payment;"),
        migrations.RunSQL(NO_PATTERN_INDEXES, migrations.RunSQL.noop),
    ]
