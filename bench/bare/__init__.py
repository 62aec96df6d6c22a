"""The ceiling of an HTTP intake here: the product's web server, no framework, one prepared statement a request.

It stores the same kinds of rows (key, payment, change, event) in plain tables with only the indexes that make it a
payment system at all. It checks no caller and no field.
"""

import json
import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg

TABLES = """
CREATE SCHEMA bare;
CREATE TABLE bare.key (business_key text PRIMARY KEY, fingerprint text, request jsonb, payment_id text, created_at timestamptz);
CREATE TABLE bare.payment (
    id text PRIMARY KEY, order_no text UNIQUE, customer_ref text, payment_token text, amount_minor bigint, currency text,
    state text, accepted_at timestamptz, submit_due_at timestamptz
);
CREATE INDEX ON bare.payment (submit_due_at) WHERE state = 'QUEUED';
CREATE TABLE bare.change (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payment_id text, state text, event text, actor text, at timestamptz
);
CREATE INDEX ON bare.change (payment_id);
CREATE TABLE bare.event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, type text, subject_id text, due_at timestamptz
);
CREATE INDEX ON bare.event (due_at, id) WHERE due_at IS NOT NULL;
"""
INSERT = """
WITH key AS (
    INSERT INTO bare.key (business_key, fingerprint, request, payment_id, created_at)
    VALUES ({key}::text, '', {request}::jsonb, {id}::text, now()) ON CONFLICT DO NOTHING RETURNING payment_id
), pay AS (
    INSERT INTO bare.payment
    SELECT payment_id, {order_no}::text, {customer}::text, {token}::text, {amount_minor}::bigint, 'CNY', 'QUEUED', now(), now()
    FROM key RETURNING id
), change AS (
    INSERT INTO bare.change (payment_id, state, event, actor, at)
    SELECT id, 'QUEUED', 'accepted', 'client:bench', now() FROM pay
), event AS (
    INSERT INTO bare.event (type, subject_id, due_at) SELECT 'payment.accepted', id, now() FROM pay
)
SELECT id FROM pay
"""
_NAMES = ("key", "request", "id", "order_no", "customer", "token", "amount_minor")
_STATEMENT = INSERT.format(**{name: f"%({name})s" for name in _NAMES})
# The same by pgbench, without any Python. Its variables stand inside quotes, so it cannot prepare the statement.
SCRIPT = "\\set n random(1, 1000000000000000)\n" + " ".join(
    INSERT.format(
        key="'payment-:n'",
        request="""'{"customerId": "C-:n", "amount": 128.00, "currency": "CNY"}'""",
        id="lpad(':n', 26, '0')",
        order_no="'A-:n'",
        customer="'C-:n'",
        token="'tok_success'",
        amount_minor="12800",
    ).split()
)

_own = threading.local()


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Read, insert, answer. A request without a body is answered as alive."""
    body = environ["wsgi.input"].read()
    if not body:
        start_response("200 OK", [("Content-Length", "0")])
        return [b""]
    asked = json.loads(body)
    key = asked["idempotencyKey"]
    values = {
        "key": key,
        "request": body.decode(),
        "id": key[-12:].rjust(26, "0"),
        "order_no": asked["orderNo"],
        "customer": asked["customerId"],
        "token": asked["paymentToken"],
        "amount_minor": round(asked["amount"] * 100),
    }
    row = _connection().execute(_STATEMENT, values).fetchone()
    answer = json.dumps({"paymentId": row and row[0], "status": "PENDING"}).encode()
    start_response("202 Accepted", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [answer]


def _connection() -> psycopg.Connection:
    if not hasattr(_own, "connection"):
        _own.connection = psycopg.connect(os.environ["BENCH_CONNINFO"], autocommit=True)
    return _own.connection  # type: ignore[no-any-return]
