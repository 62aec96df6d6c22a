"""Notifications: planned as rows in the booking's transaction, sent from the rows, tried again for a day."""

import asyncio
import json
import logging
import secrets
from collections.abc import Mapping
from decimal import Decimal
from http import HTTPStatus
from typing import Any

import aiohttp

from sandbox.clock import now_ms, rfc3339, wait_until
from sandbox.effects import NotifyEffects
from sandbox.ledger import Entry, Ledger, Notification
from sandbox.signing import signed_headers

logger = logging.getLogger(__name__)

# Source: the contract. Waits between one attempt and the next, in seconds.
RETRY_WAITS = (60, 5 * 60, 15 * 60, 60 * 60, 6 * 60 * 60, 24 * 60 * 60)
AFTER_THE_WRONG_ONE_MS = 250
OUT_OF_ORDER_MS = 500
FOREIGN_MERCHANT = "M-FOREIGN"
MOST_AT_ONCE = 100
ANSWER_TIMEOUT_SECONDS = 10
LONGEST_ANSWER = 4096
GATHER_SECONDS = 0.005


def plan_notifications(
    ledger: Ledger,
    *,
    entry: Entry,
    result: Mapping[str, Any],
    effects: NotifyEffects,
    at_ms: int,
    notification_id: str | None = None,
) -> list[str]:
    """Put the messages about an entry in line and return their notification ids; copies share one.

    :param notification_id: repeats an earlier message under its id
    """
    url = effects.url or entry.notify_url
    if url is None or not effects.send:
        return []
    plain = dict(result) | {"merchantId": entry.merchant_id}
    due_at_ms = at_ms + (0 if effects.early else effects.delay_ms)
    ids: list[str] = []

    def put(fields: dict[str, Any], *, after_ms: int = 0, copies: int = 1, forged: bool = False) -> None:
        sent_id = notification_id if notification_id and not ids else f"NTF-{secrets.token_hex(12)}"
        body = json.dumps(fields | {"notificationId": sent_id}, ensure_ascii=False)
        for _ in range(copies):
            ledger.add_notification(
                notification_id=sent_id,
                entry=entry,
                url=url,
                body=body,
                forged_signature=forged,
                due_at_ms=due_at_ms + after_ms,
            )
        ids.append(sent_id)

    put(_forged(plain, effects), copies=effects.copies, forged=effects.wrong_signature)
    if effects.then_correct and effects.forges:
        put(plain, after_ms=AFTER_THE_WRONG_ONE_MS)
    if effects.out_of_order:
        put(plain | {"status": "PROCESSING", "completedAt": None}, after_ms=OUT_OF_ORDER_MS)
    return ids


def _forged(plain: dict[str, Any], effects: NotifyEffects) -> dict[str, Any]:
    """Return the message with what the effects put wrong."""
    fields = dict(plain)
    amount = dict(fields["amount"] or {})
    if effects.wrong_amount is not None:
        amount["value"] = effects.wrong_amount
    if effects.wrong_currency is not None:
        amount["currency"] = effects.wrong_currency
    fields["amount"] = amount or None
    if effects.wrong_reference is not None:
        fields["merchantReference"] = effects.wrong_reference
    if effects.status is not None:
        fields["status"] = effects.status
    if effects.wrong_merchant:
        fields["merchantId"] = FOREIGN_MERCHANT
    return fields


class Notifier:
    """Sends what is due and records how it went. The rows are the queue; a nudge only makes it look sooner."""

    def __init__(self, *, ledger: Ledger, keys: Mapping[str, str], retry_scale: Decimal) -> None:
        self._ledger = ledger
        self._keys = keys
        self._retry_scale = retry_scale
        self._in_flight: dict[int, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self._client: aiohttp.ClientSession | None = None

    def nudge(self) -> None:
        """Look for due messages now."""
        self._wake.set()

    async def run(self) -> None:
        """Send due messages until cancelled."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_TIMEOUT_SECONDS)
        connector = aiohttp.TCPConnector(limit=MOST_AT_ONCE)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as client:
            self._client = client
            while True:
                self._wake.clear()
                at_ms = now_ms()
                due = self._ledger.due_notifications(at_ms=at_ms, limit=MOST_AT_ONCE + len(self._in_flight))
                for notification in due:
                    if len(self._in_flight) < MOST_AT_ONCE:
                        self._start(notification)
                await wait_until(self._ledger.next_notification_due_ms(after_ms=at_ms), or_event=self._wake)
                await asyncio.sleep(GATHER_SECONDS)

    async def send_before_reply(self, entry: Entry) -> None:
        """Send the due messages about an entry now and wait for their answers, whatever these are."""
        at_ms = now_ms()
        due = [row for row in self._ledger.notifications_of(entry.id) if row.state == "due" and row.due_at_ms <= at_ms]
        tasks = [self._start(notification) for notification in due]
        if tasks:
            await asyncio.wait(tasks, timeout=ANSWER_TIMEOUT_SECONDS)

    def _start(self, notification: Notification) -> asyncio.Task[None]:
        if notification.id in self._in_flight:
            return self._in_flight[notification.id]
        task = asyncio.create_task(self._deliver(notification))
        self._in_flight[notification.id] = task
        task.add_done_callback(lambda _: self._landed(notification.id))
        return task

    def _landed(self, notification_id: int) -> None:
        del self._in_flight[notification_id]
        self.nudge()

    async def _deliver(self, notification: Notification) -> None:
        received, answer = await self._post(notification)
        attempts = [*json.loads(notification.attempts), {"at": rfc3339(now_ms()), "answer": answer}]
        state, due_ms = "delivered", notification.due_at_ms
        if not received:
            state, due_ms = self._retry(len(attempts))
        self._ledger.record_attempt(notification.id, attempts=attempts, state=state, due_ms=due_ms)

    def _retry(self, attempts: int) -> tuple[str, int]:
        if attempts > len(RETRY_WAITS):
            return "given_up", now_ms()
        return "due", now_ms() + max(1, round(RETRY_WAITS[attempts - 1] * 1000 * self._retry_scale))

    async def _post(self, notification: Notification) -> tuple[bool, str]:
        """Post one message; return whether it was acknowledged, and what came back in words."""
        assert self._client is not None
        body = notification.body.encode()
        # A key taken out of service since then gives way to one the merchant still holds.
        key_id = notification.key_id if notification.key_id in self._keys else next(iter(self._keys))
        headers = signed_headers(
            key_id=key_id,
            secret=self._keys[key_id],
            body=body,
            at_seconds=now_ms() // 1000,
            forged=bool(notification.forged_signature),
        )
        headers["Content-Type"] = "application/json"
        try:
            async with self._client.post(
                notification.url, data=body, headers=headers, allow_redirects=False
            ) as response:
                answer = await response.content.read(LONGEST_ANSWER)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return False, f"no answer: {type(error).__name__}"
        if response.status == HTTPStatus.OK and _says_received(answer):
            return True, "received"
        return False, f"HTTP {response.status}"


def _says_received(answer: bytes) -> bool:
    try:
        fields = json.loads(answer)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("received") is True
