"""Plain functions that make what tests need; amounts and times are written out."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from payments import intake
from payments.api.authentication import hash_key, new_key
from payments.evidence import Evidence, Outcome, Source
from payments.models import ApiClient, Channel, Merchant, Payment
from payments.money import Money

NOW = datetime(2026, 9, 1, 2, 30, tzinfo=UTC)


def cny(minor: int) -> Money:
    return Money(minor, "CNY")


def a_channel(code: str = "bank", **changes: Any) -> Channel:
    values: dict[str, Any] = {
        "adapter": "bank",
        "name_en": "Sandbox bank",
        "name_zh": "沙箱银行",
        "settings": {
            "base_url": "http://127.0.0.1:9",
            "merchant_id": "M-DEMO",
            "key_id": "demo-1",
            "secret_env": "BANK_KEY",
        },
    }
    return Channel.objects.create(code=code, **values | changes)


def a_merchant(*, channel: Channel, code: str = "acme") -> Merchant:
    return Merchant.objects.create(code=code, name=code.title(), default_channel=channel)


def an_api_client(*, merchant: Merchant, name: str = "ivr", **changes: Any) -> ApiClient:
    """A client whose key stands in `client.key` for this test alone."""
    key = new_key()
    client = ApiClient.objects.create(
        merchant=merchant,
        name=name,
        key_hash=hash_key(key),
        key_hint=key[:8],
        **{"scopes": ["payments:write", "payments:read"]} | changes,
    )
    client.key = key  # type: ignore[attr-defined]
    return client


def a_request(**changes: Any) -> intake.PaymentOrder:
    unique = uuid4().hex[:12]
    values: dict[str, Any] = {
        "customer_ref": f"C-{unique}",
        "amount": cny(128_00),
        "payment_token": "tok_success",
        "idempotency_key": f"key-{unique}",
        "order_no": f"A-{unique}",
    }
    return intake.PaymentOrder(**values | changes)


def a_payment(client: ApiClient, *, at: datetime = NOW, **changes: Any) -> Payment:
    """A payment as intake leaves it: QUEUED."""
    accepted = intake.accept_payment(client=client, order=a_request(**changes), at=at)
    return Payment.objects.select_related("channel", "order").get(pk=accepted.payment_id)


def evidence(outcome: Outcome, *, source: Source = Source.QUERY, at: datetime = NOW, **changes: Any) -> Evidence:
    """Evidence about a payment of 128.00 CNY; a success names its money."""
    values: dict[str, Any] = {"reference": "exchange:0", "asked_at": at}
    if outcome is Outcome.SUCCEEDED:
        values |= {"channel_txn_id": "BANK-1", "amount": cny(128_00), "completed_at": at}
    return Evidence(source=source, outcome=outcome, at=at, **values | changes)


def later(**span: float) -> datetime:
    return NOW + timedelta(**span)
