"""The durable ledger: what the bank really booked, whom it told, and what it still has to do. One SQLite file."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from sandbox.amounts import Amount
from sandbox.clock import now_ms

OPERATIONS = ("pay", "refund", "transfer", "cancel")
FINAL = frozenset({"SUCCEEDED", "DECLINED", "CANCELLED"})
LEDGER_PAGE = 500
NONCE_KEPT_MS = 20 * 60 * 1000

ALL_ENTRIES = (
    "SELECT * FROM entry WHERE id > ? AND id <= ? AND (? IS NULL OR operation = ?) AND ? IS NULL ORDER BY id LIMIT ?"
)
ENTRIES_OF_REFERENCE = (
    "SELECT * FROM entry WHERE id > ? AND id <= ? AND (? IS NULL OR operation = ?) AND reference = ? "
    "ORDER BY id LIMIT ?"
)

SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    merchant_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    reference TEXT NOT NULL,
    bank_transaction_id TEXT UNIQUE,
    status TEXT NOT NULL,
    amount_minor INTEGER,
    currency TEXT,
    code TEXT,
    text TEXT,
    requested TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    key_id TEXT NOT NULL,
    notify_url TEXT,
    notify_effects TEXT NOT NULL,
    original_reference TEXT,
    booked_at_ms INTEGER NOT NULL,
    completed_at_ms INTEGER,
    visible_at_ms INTEGER NOT NULL,
    due_at_ms INTEGER,
    due_code TEXT,
    due_text TEXT,
    times_received INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX IF NOT EXISTS entry_by_reference ON entry (reference, operation);
CREATE INDEX IF NOT EXISTS entry_by_original ON entry (original_reference, operation)
    WHERE original_reference IS NOT NULL;
CREATE INDEX IF NOT EXISTS entry_due ON entry (due_at_ms) WHERE due_at_ms IS NOT NULL;
CREATE TABLE IF NOT EXISTS notification (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    notification_id TEXT NOT NULL,
    entry_id INTEGER NOT NULL REFERENCES entry (id),
    url TEXT NOT NULL,
    key_id TEXT NOT NULL,
    body TEXT NOT NULL,
    forged_signature INTEGER NOT NULL,
    attempts TEXT NOT NULL DEFAULT '[]',
    state TEXT NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'delivered', 'given_up')),
    due_at_ms INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS notification_due ON notification (due_at_ms) WHERE state = 'due';
CREATE INDEX IF NOT EXISTS notification_by_entry ON notification (entry_id);
CREATE TABLE IF NOT EXISTS nonce (
    key_id TEXT NOT NULL,
    nonce TEXT NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    PRIMARY KEY (key_id, nonce)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS nonce_by_age ON nonce (seen_at_ms);
CREATE TABLE IF NOT EXISTS fault (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    script TEXT NOT NULL,
    added_at_ms INTEGER NOT NULL,
    used INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS fault_meeting (
    fault_id TEXT NOT NULL,
    operation TEXT NOT NULL,
    reference TEXT NOT NULL,
    times INTEGER NOT NULL,
    PRIMARY KEY (fault_id, operation, reference)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Entry:
    """One row of the ledger: something the bank accepted, booked or declined."""

    id: int
    merchant_id: str
    operation: str
    reference: str
    bank_transaction_id: str | None
    status: str
    amount_minor: int | None
    currency: str | None
    code: str | None
    text: str | None
    requested: str
    fingerprint: str
    key_id: str
    notify_url: str | None
    notify_effects: str
    original_reference: str | None
    booked_at_ms: int
    completed_at_ms: int | None
    visible_at_ms: int
    due_at_ms: int | None
    due_code: str | None
    due_text: str | None
    times_received: int

    @property
    def amount(self) -> Amount | None:
        """What was really booked; a cancel of something without money has none."""
        if self.amount_minor is None or self.currency is None:
            return None
        return Amount(self.amount_minor, self.currency)

    @property
    def is_final(self) -> bool:
        """Whether the bank will not change this entry by itself any more."""
        return self.status in FINAL


@dataclass(frozen=True)
class NewEntry:
    """What an entry is booked with; the ledger adds its number."""

    merchant_id: str
    operation: str
    reference: str
    bank_transaction_id: str | None
    status: str
    amount: Amount | None
    code: str | None
    text: str | None
    requested: dict[str, Any]
    fingerprint: str
    key_id: str
    notify_url: str | None
    notify_effects: str
    original_reference: str | None
    booked_at_ms: int
    completed_at_ms: int | None
    visible_at_ms: int
    due_at_ms: int | None
    due_code: str | None
    due_text: str | None


@dataclass(frozen=True)
class Notification:
    """One message to the merchant, as it will be sent however often it is tried."""

    id: int
    notification_id: str
    entry_id: int
    url: str
    key_id: str
    body: str
    forged_signature: int
    attempts: str
    state: str
    due_at_ms: int


class Ledger:
    """The store, through one connection; every write is committed before its caller goes on."""

    def __init__(self, path: Path) -> None:
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        # A commit in WAL reaches the kernel before it returns: killing this process loses nothing.
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=5000", "wal_autocheckpoint=4000"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.executescript(SCHEMA)
        self._transaction_numbers = count(1)

    def close(self) -> None:
        """Close the file; the ledger is not used after it."""
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make several writes one; never awaits inside, so nothing else comes between them."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def next_transaction_id(self) -> str:
        """Return a bank transaction id that no ledger of this bank ever used, a restart or reset in between or not."""
        return f"BANK-{now_ms()}{next(self._transaction_numbers) % 100_000:05d}"

    def accept_nonce(self, *, key_id: str, nonce: str, at_ms: int) -> bool:
        """Keep a nonce; answer False if it came before."""
        self._db.execute("DELETE FROM nonce WHERE seen_at_ms < ?", (at_ms - NONCE_KEPT_MS,))
        return self._db.execute("INSERT OR IGNORE INTO nonce VALUES (?, ?, ?)", (key_id, nonce, at_ms)).rowcount == 1

    # Entries

    def add_entry(self, entry: NewEntry) -> Entry:
        """Book an entry and return it with its number."""
        values = dict(vars(entry))
        amount = values.pop("amount")
        values["amount_minor"] = amount.minor if amount else None
        values["currency"] = amount.currency if amount else None
        values["requested"] = json.dumps(entry.requested)
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        cursor = self._db.execute(
            f"INSERT INTO entry ({columns}) VALUES ({marks}) RETURNING *",  # noqa: S608 - names of NewEntry only
            tuple(values.values()),
        )
        return Entry(**cursor.fetchall()[0])

    def get_entry(self, entry_id: int) -> Entry:
        """Return one entry by its number."""
        return Entry(**self._db.execute("SELECT * FROM entry WHERE id = ?", (entry_id,)).fetchone())

    def find_entry(self, *, operation: str, reference: str) -> Entry | None:
        """Return the latest entry of a reference, or None."""
        row = self._db.execute(
            "SELECT * FROM entry WHERE reference = ? AND operation = ? ORDER BY id DESC LIMIT 1", (reference, operation)
        ).fetchone()
        return Entry(**row) if row else None

    def entries_of(self, *, operation: str, reference: str) -> list[Entry]:
        """Return every entry of a reference in the order they were booked."""
        rows = self._db.execute(
            "SELECT * FROM entry WHERE reference = ? AND operation = ? ORDER BY id", (reference, operation)
        )
        return [Entry(**row) for row in rows]

    def refunded_minor(self, original_reference: str) -> int:
        """Return what refunds of a payment hold or paid back, in minor units."""
        row = self._db.execute(
            "SELECT COALESCE(SUM(amount_minor), 0) FROM entry WHERE original_reference = ? AND operation = 'refund' "
            "AND status IN ('PROCESSING', 'SUCCEEDED')",
            (original_reference,),
        ).fetchone()
        return int(row[0])

    def count_repeats(self, entry_id: int, repeats: int) -> None:
        """Count more requests that named the same entry."""
        self._db.execute("UPDATE entry SET times_received = times_received + ? WHERE id = ?", (repeats, entry_id))

    def finish_entry(self, entry_id: int, *, status: str, code: str | None, text: str | None, at_ms: int) -> Entry:
        """Give an open entry its final status."""
        self._db.execute(
            "UPDATE entry SET status = ?, code = ?, text = ?, completed_at_ms = ?, due_at_ms = NULL WHERE id = ?",
            (status, code, text, at_ms, entry_id),
        )
        return self.get_entry(entry_id)

    def postpone_entry(self, entry_id: int, *, due_at_ms: int) -> None:
        """Look at an open entry again later."""
        self._db.execute("UPDATE entry SET due_at_ms = ? WHERE id = ?", (due_at_ms, entry_id))

    def due_entries(self, at_ms: int) -> list[Entry]:
        """Return open entries whose time has come, the oldest first."""
        rows = self._db.execute(
            "SELECT * FROM entry WHERE due_at_ms <= ? ORDER BY due_at_ms, id LIMIT ?", (at_ms, LEDGER_PAGE)
        )
        return [Entry(**row) for row in rows]

    def next_entry_due_ms(self) -> int | None:
        """Return when the next open entry comes due, or None."""
        return self._db.execute("SELECT MIN(due_at_ms) FROM entry WHERE due_at_ms IS NOT NULL").fetchone()[0]

    def entry_pages(self, *, reference: str | None, operation: str | None) -> Iterator[list[Entry]]:
        """Yield the entries there are now, page by page; what is booked meanwhile is left out."""
        newest = self._db.execute("SELECT COALESCE(MAX(id), 0) FROM entry").fetchone()[0]
        # Two texts, so that a reference is looked up by its index and the whole ledger is read in order.
        query = ENTRIES_OF_REFERENCE if reference else ALL_ENTRIES
        last = 0
        while True:
            rows = self._db.execute(query, (last, newest, operation, operation, reference, LEDGER_PAGE)).fetchall()
            if not rows:
                return
            last = rows[-1]["id"]
            yield [Entry(**row) for row in rows]

    def newest_entries(self, limit: int) -> list[Entry]:
        """Return the entries booked last, the newest first."""
        return [Entry(**row) for row in self._db.execute("SELECT * FROM entry ORDER BY id DESC LIMIT ?", (limit,))]

    def totals(self, *, reference: str | None, operation: str | None) -> list[sqlite3.Row]:
        """Return count and sum of the entries by operation, currency and status."""
        return self._db.execute(
            "SELECT operation, currency, status, COUNT(*) AS count, SUM(amount_minor) AS minor FROM entry "
            "WHERE (? IS NULL OR reference = ?) AND (? IS NULL OR operation = ?) "
            "GROUP BY operation, currency, status ORDER BY operation, currency, status",
            (reference, reference, operation, operation),
        ).fetchall()

    def summary(self) -> dict[str, Any]:
        """Return the counts of the ledger: entries, requests, references booked twice, notifications."""
        entries, received = self._db.execute("SELECT COUNT(*), COALESCE(SUM(times_received), 0) FROM entry").fetchone()
        twice = self._db.execute(
            "SELECT COUNT(*) FROM (SELECT 1 FROM entry WHERE status = 'SUCCEEDED' "
            "GROUP BY merchant_id, operation, reference HAVING COUNT(*) > 1)"
        ).fetchone()[0]
        states = self._db.execute("SELECT state, COUNT(*) FROM notification GROUP BY state").fetchall()
        return {
            "entries": entries,
            "requestsReceived": received,
            "referencesBookedTwice": twice,
            "notifications": {"due": 0, "delivered": 0, "given_up": 0} | dict(states),
        }

    # Notifications

    def add_notification(
        self, *, notification_id: str, entry: Entry, url: str, body: str, forged_signature: bool, due_at_ms: int
    ) -> int:
        """Put a message in line and return its number."""
        cursor = self._db.execute(
            "INSERT INTO notification (notification_id, entry_id, url, key_id, body, forged_signature, due_at_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (notification_id, entry.id, url, entry.key_id, body, forged_signature, due_at_ms),
        )
        return int(cursor.lastrowid or 0)

    def due_notifications(self, *, at_ms: int, limit: int) -> list[Notification]:
        """Return messages whose time has come, the oldest first."""
        rows = self._db.execute(
            "SELECT * FROM notification WHERE state = 'due' AND due_at_ms <= ? ORDER BY due_at_ms, id LIMIT ?",
            (at_ms, limit),
        )
        return [Notification(**row) for row in rows]

    def next_notification_due_ms(self, *, after_ms: int) -> int | None:
        """Return when the next message after a moment comes due, or None."""
        return self._db.execute(
            "SELECT MIN(due_at_ms) FROM notification WHERE state = 'due' AND due_at_ms > ?", (after_ms,)
        ).fetchone()[0]

    def notifications_of(self, entry_id: int) -> list[Notification]:
        """Return the messages about one entry in the order they were put in line."""
        rows = self._db.execute("SELECT * FROM notification WHERE entry_id = ? ORDER BY id", (entry_id,))
        return [Notification(**row) for row in rows]

    def record_attempt(self, notification_id: int, *, attempts: list[dict[str, Any]], state: str, due_ms: int) -> None:
        """Keep how a delivery went, and when the next one is due."""
        self._db.execute(
            "UPDATE notification SET attempts = ?, state = ?, due_at_ms = ? WHERE id = ?",
            (json.dumps(attempts), state, due_ms, notification_id),
        )

    # Faults

    def add_fault(self, *, fault_id: str, script: str, at_ms: int) -> None:
        """Keep a fault's script."""
        self._db.execute("INSERT INTO fault (id, script, added_at_ms) VALUES (?, ?, ?)", (fault_id, script, at_ms))

    def faults(self) -> list[sqlite3.Row]:
        """Return the scripts in the order they were added."""
        return self._db.execute("SELECT id, script, added_at_ms, used FROM fault ORDER BY position").fetchall()

    def count_fault_use(self, fault_id: str) -> None:
        """Count that a request met a fault."""
        self._db.execute("UPDATE fault SET used = used + 1 WHERE id = ?", (fault_id,))

    def count_meeting(self, *, fault_id: str, operation: str, reference: str) -> int:
        """Return which request of a reference this is for a fault: 1 for the first."""
        cursor = self._db.execute(
            "INSERT INTO fault_meeting VALUES (?, ?, ?, 1) "
            "ON CONFLICT (fault_id, operation, reference) DO UPDATE SET times = times + 1 RETURNING times",
            (fault_id, operation, reference),
        )
        return int(cursor.fetchall()[0][0])

    def delete_faults(self, fault_id: str | None = None) -> int:
        """Remove one fault or all, with what was counted for them; return how many went."""
        with self.transaction():
            if fault_id is None:
                self._db.execute("DELETE FROM fault_meeting")
                return self._db.execute("DELETE FROM fault").rowcount
            self._db.execute("DELETE FROM fault_meeting WHERE fault_id = ?", (fault_id,))
            return self._db.execute("DELETE FROM fault WHERE id = ?", (fault_id,)).rowcount

    def clear(self) -> None:
        """Empty everything but the nonces: an old request must not become new again."""
        with self.transaction():
            for table in ("notification", "entry", "fault", "fault_meeting"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 - names written here
            self._db.execute("DELETE FROM sqlite_sequence WHERE name = 'fault'")
