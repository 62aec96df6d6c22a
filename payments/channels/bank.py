"""The bank: a JSON web service with HMAC signatures (the contract is in docs/sandbox.md)."""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from urllib.parse import quote

from django.conf import settings as django_settings
from django.utils.dateparse import parse_datetime

from ..errors import ChannelNotUsable, NotificationRefused, PaymentsError
from ..evidence import Outcome
from ..money import Money
from ..strict_json import NotStrictJSON, loads
from .http import ChannelHttp, HttpReply
from .protocol import ChannelReply, ChannelRequest, ReportedPayment

MAX_SKEW_S = 300
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_STATUS = {
    "ACCEPTED": Outcome.PROCESSING,
    "PROCESSING": Outcome.PROCESSING,
    "SUCCEEDED": Outcome.SUCCEEDED,
    "DECLINED": Outcome.DECLINED,
    "CANCELLED": Outcome.CANCELLED,
    "NOT_FOUND": Outcome.NOT_FOUND,
}


class BankChannel:
    """Adapter for a bank of this contract.

    Settings: `base_url`, `merchant_id`, `key_id`, `secret_env` (the variable `<secret_env>_<KEY ID>` holds each secret),
    `accept_key_ids` (further keys valid for what the bank signs, during a rotation).
    """

    def __init__(self, *, settings: dict[str, Any], connect_s: float, read_s: float, slots: int) -> None:
        self._merchant_id = settings["merchant_id"]
        self._key_id = settings["key_id"]
        self._secret_env = settings["secret_env"]
        self._accepted_keys = {self._key_id, *settings.get("accept_key_ids", ())}
        self._http = ChannelHttp(
            base_url=settings["base_url"], connect_s=connect_s, read_s=read_s, connections=max(slots, 4) * 2
        )

    # Requests

    def pay_request(
        self,
        *,
        reference: str,
        amount: Money,
        token: str,
        purpose: str,
        expires_at: datetime,
        notify_url: str,
        at: datetime,
    ) -> ChannelRequest:
        """A payment request; the same reference and content is the same payment at the bank.

        :raises ChannelNotUsable: no secret to sign with
        """
        self._secret(self._key_id)
        body = {
            "merchantId": self._merchant_id,
            "merchantReference": reference,
            "amount": {"value": str(amount.major), "currency": amount.currency},
            "paymentToken": token,
            "purpose": purpose,
            "requestedAt": at.isoformat(timespec="seconds"),
            "expiresAt": expires_at.isoformat(timespec="seconds"),
            "notifyUrl": notify_url,
        }
        return ChannelRequest("pay", reference, "POST", "/v1/payments", _encoded(body), tokens=(token,))

    def query_request(self, *, reference: str) -> ChannelRequest:
        """A question after a payment, by our own reference.

        :raises ChannelNotUsable: no secret to sign with
        """
        self._secret(self._key_id)
        return ChannelRequest("query", reference, "GET", f"/v1/payments/{quote(reference, safe='')}", b"")

    def cancel_request(self, *, reference: str, cancel_reference: str) -> ChannelRequest:
        """A cancellation with a reference of its own."""
        body = {"merchantId": self._merchant_id, "merchantReference": cancel_reference}
        path = f"/v1/payments/{quote(reference, safe='')}/cancel"
        return ChannelRequest("cancel", cancel_reference, "POST", path, _encoded(body))

    def call(self, request: ChannelRequest, *, at: datetime) -> ChannelReply:
        """Sign and send, then judge the reply. Never raises for what the bank or the network does."""
        reply = self._http.call(
            method=request.method, path=request.path, body=request.body, headers=self._signed(request, at)
        )
        return self._judged(request, reply, at)

    # Replies

    def _judged(self, request: ChannelRequest, reply: HttpReply, at: datetime) -> ChannelReply:
        def reported(outcome: Outcome, **known: Any) -> ChannelReply:
            return ChannelReply(
                outcome=outcome,
                http_status=reply.status,
                raw=reply.body[:20000].decode("utf-8", "replace"),
                latency_ms=reply.latency_ms,
                left=reply.left,
                **known,
            )

        answer: Callable[..., ChannelReply] = reported
        if reply.status is None:
            return answer(Outcome.UNKNOWN if reply.left else Outcome.NOT_SENT, code=reply.failure)
        if reply.status >= 500:
            return answer(Outcome.UNKNOWN, code=f"HTTP_{reply.status}")
        if not self._signature_holds(reply.body, reply.headers, at):
            return answer(Outcome.UNKNOWN, code="UNREADABLE_REPLY", message="The reply's signature does not hold.")
        try:
            content = loads(reply.body)
        except NotStrictJSON as error:
            return answer(Outcome.UNKNOWN, code="UNREADABLE_REPLY", message=str(error))
        if not isinstance(content, dict):
            return answer(Outcome.UNKNOWN, code="UNREADABLE_REPLY", message="The reply is no object.")
        answer = partial(answer, fields={name: value for name, value in content.items() if isinstance(value, str)})
        code, text = _text(content, "code"), _text(content, "text")
        foreign = content.get("merchantReference") not in (None, request.reference)
        if request.operation == "query" and foreign:
            return answer(Outcome.UNKNOWN, code="OTHER_REFERENCE", message="The reply is for another reference.")
        if request.operation in ("query", "cancel") and reply.status == 404 and content.get("status") == "NOT_FOUND":
            return answer(Outcome.NOT_FOUND, code=code, message=text)
        if reply.status >= 400:
            if request.operation == "query" or not code:
                # A question refused says nothing about the payment; a refusal without a code proves nothing.
                return answer(Outcome.UNKNOWN, code=code or f"HTTP_{reply.status}", message=text)
            return answer(Outcome.REFUSED, code=code, message=text)
        if content.get("merchantReference") != request.reference:
            return answer(Outcome.UNKNOWN, code="OTHER_REFERENCE", message="The reply is for another reference.")
        if _text(content, "operation") not in ("", "cancel" if request.operation == "cancel" else "pay"):
            return answer(Outcome.UNKNOWN, code="OTHER_OPERATION", message="The reply is about another operation.")
        return self._result(content, answer, code, text)

    @staticmethod
    def _result(content: dict[str, Any], answer: Any, code: str, text: str) -> ChannelReply:
        outcome = _STATUS.get(content.get("status"), Outcome.UNKNOWN)  # type: ignore[arg-type]
        if outcome in (Outcome.UNKNOWN, Outcome.NOT_FOUND):
            return answer(Outcome.UNKNOWN, code=code or "UNKNOWN_STATUS", message=text)  # type: ignore[no-any-return]
        txn_id = _text(content, "bankTransactionId")
        amount = _amount(content)
        if outcome is Outcome.SUCCEEDED and (amount is None or not txn_id):
            return answer(  # type: ignore[no-any-return]
                Outcome.UNKNOWN, code="UNREADABLE_REPLY", message="Success without a readable amount or transaction id."
            )
        return answer(  # type: ignore[no-any-return]
            outcome, code=code, message=text, channel_txn_id=txn_id, amount=amount, completed_at=_moment(content)
        )

    # Notifications

    def read_notification(self, *, body: bytes, headers: Mapping[str, str], at: datetime) -> ReportedPayment:
        """Verify the raw bytes, then read them (NTF-2).

        :raises NotificationRefused: bad signature, stale clock, another merchant, or no result in it
        """
        if not self._signature_holds(body, headers, at):
            raise NotificationRefused(reason="signature")
        try:
            content = loads(body)
        except NotStrictJSON:
            raise NotificationRefused(reason="not JSON", status=400) from None
        if not isinstance(content, dict):
            raise NotificationRefused(reason="not an object", status=400)
        if content.get("merchantId") != self._merchant_id:
            raise NotificationRefused(reason="merchant", status=403)
        reference, status = _text(content, "merchantReference"), _text(content, "status")
        if not reference or not status:
            raise NotificationRefused(reason="no reference or status", status=400)
        txn_id, amount = _text(content, "bankTransactionId"), _amount(content)
        known = {name: value for name, value in content.items() if name != "notificationId"}
        return ReportedPayment(
            reference=reference,
            outcome=_STATUS.get(status, Outcome.UNKNOWN),
            duplicate_key=f"{_text(content, 'operation')}|{txn_id or reference}|{status}",
            content=known,
            channel_event_id=_text(content, "notificationId"),
            code=_text(content, "code"),
            message=_text(content, "text"),
            channel_txn_id=txn_id,
            amount=amount,
            occurred_at=_moment(content),
            operation=_text(content, "operation") or "pay",
        )

    def notification_answer(self) -> tuple[str, bytes]:
        """What the bank takes for "received": content type and body."""
        return "application/json", b'{"received":true}'

    # Signatures: HMAC-SHA256 over the raw bytes

    def _signed(self, request: ChannelRequest, at: datetime) -> dict[str, str]:
        timestamp, nonce = str(int(at.timestamp())), secrets.token_hex(16)
        text = f"{request.method}\n{request.path}\n{_tail(timestamp, nonce, request.body)}"
        return {
            "Content-Type": "application/json",
            "X-Key-Id": self._key_id,
            "X-Timestamp": timestamp,
            "X-Nonce": nonce,
            "X-Signature": "v1=" + _digest(self._secret(self._key_id), text),
        }

    def _signature_holds(self, body: bytes, headers: Mapping[str, str], at: datetime) -> bool:
        lowered = {name.lower(): value for name, value in headers.items()}
        key_id, timestamp = lowered.get("x-key-id", ""), lowered.get("x-timestamp", "")
        given, nonce = lowered.get("x-signature", ""), lowered.get("x-nonce", "")
        if (
            key_id not in self._accepted_keys
            or not timestamp.isascii()
            or not timestamp.isdigit()
            or len(timestamp) > 12
        ):
            return False
        if abs(int(timestamp) - at.timestamp()) > MAX_SKEW_S:
            return False
        try:
            secret = self._secret(key_id)
        except ChannelNotUsable:
            return False
        expected = "v1=" + _digest(secret, _tail(timestamp, nonce, body))
        return hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))

    def _secret(self, key_id: str) -> str:
        name = f"{self._secret_env}_{key_id}".upper().replace("-", "_")
        return secret_named(name)


def secret_named(name: str) -> str:
    """Return a channel secret: from the environment, or the public ones of the demo.

    :raises ChannelNotUsable: none of that name
    """
    secret = os.environ.get(name) or django_settings.CHANNEL_SECRETS.get(name)
    if not secret:
        raise ChannelNotUsable(channel=name, reason="has no secret in the environment")
    return secret  # type: ignore[no-any-return]


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def _tail(timestamp: str, nonce: str, body: bytes) -> str:
    return f"{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"


def _digest(secret: str, text: str) -> str:
    return hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def _text(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    return value[:500] if isinstance(value, str) else ""


def _amount(content: dict[str, Any]) -> Money | None:
    """The amount of a result, or None when it is not exactly readable."""
    amount = content.get("amount")
    if (
        not isinstance(amount, dict)
        or not isinstance(amount.get("value"), str)
        or not isinstance(amount.get("currency"), str)
    ):
        return None
    try:
        return Money.parse(amount["value"], amount["currency"])
    except PaymentsError:
        return None


def _moment(content: dict[str, Any]) -> datetime | None:
    try:
        moment = parse_datetime(_text(content, "completedAt"))
    except (ValueError, OverflowError):
        return None
    if moment is None or moment.tzinfo is None:
        return None
    # A clock at year 1 is a bank's "no date"; one far ahead is no completion either, and neither may reach a column.
    return moment if EARLIEST <= moment <= datetime.now(UTC) + timedelta(days=1) else None
