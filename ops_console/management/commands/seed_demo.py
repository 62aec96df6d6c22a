"""Demo merchants, keys, log-ins and a few telling payments, for a system on loopback only."""

import json
import secrets
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils.timezone import now

from config import embedded
from payments import intake
from payments.api.authentication import hash_key, new_key
from payments.models import ApiClient, Channel, Merchant
from payments.money import Money

from ...roles import grant_role

LOGINS = ("support", "ops", "admin", "auditor")
PAYMENTS = (
    ("C20009", "99.00", "tok_drop", "Membership, one year"),
    ("C20010", "30.00", "tok_success", "Top-up"),
    ("C20011", "66.60", "tok_decline", "Top-up"),
    ("C20012", "250.00", "tok_processing", "Course"),
    ("C20013", "88.00", "tok_invisible", "Course"),
    ("C20014", "12.50", "tok_502", "Tokens"),
    ("C20015", "19.99", "tok_overcharge", "Tokens"),
    ("C20016", "45.00", "tok_wrong_amount", "Top-up"),
    ("C20017", "300.00", "tok_silent", "Hotel deposit"),
    ("C20018", "75.00", "tok_unmapped", "Top-up"),
    ("C20019", "9.90", "tok_duplicate_notifications", "Stickers"),
)


class Command(BaseCommand):
    help = "Fill an empty demo system and write var/demo.json; run again it changes nothing but the addresses."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--base-url", required=True)
        parser.add_argument("--sandbox-url", required=True)
        parser.add_argument("--sandbox-control-url", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        if settings.PRODUCTION:
            raise CommandError("Demo data has no place in production.")
        path = embedded.var_dir() / "demo.json"
        channel = self._channel(options["sandbox_url"], options["base_url"])
        first = not Merchant.objects.exists()
        known = json.loads(path.read_text()) if path.exists() else {}
        with transaction.atomic():
            keys = self._clients(channel, known.get("api_keys", {}))
            logins = self._logins(known.get("logins", {}))
        content = {
            "base_url": options["base_url"],
            "sandbox_url": options["sandbox_url"],
            "sandbox_control_url": options["sandbox_control_url"],
            "api_keys": keys,
            "logins": logins,
        }
        self._write(path, content)
        if first:
            self._payments()
        self.stdout.write(f"Demo data ready; log-ins and keys are in {path}.")

    def _channel(self, sandbox_url: str, base_url: str) -> Channel:
        """The sandbox bank, with windows short enough to watch it find the truth within a minute."""
        values = {
            "adapter": "bank",
            "name_en": "Sandbox bank",
            "name_zh": "沙箱银行",
            "settings": {
                "base_url": sandbox_url,
                "merchant_id": "M-DEMO",
                "key_id": "demo-1",
                "secret_env": "BANK_KEY",
                "notify_url": f"{base_url}/notifications/bank",
            },
            "read_timeout_s": 5,
            "query_backoff_s": [2, 3, 5, 10, 10, 10, 15, 30],
            "not_found_window_s": 30,
            "alert_age_s": 120,
        }
        channel, made = Channel.objects.get_or_create(code="bank", defaults=values)
        if not made and channel.settings != values["settings"]:
            channel.settings = values["settings"]
            channel.save(update_fields=["settings"])
        return channel

    def _clients(self, channel: Channel, known: dict[str, str]) -> dict[str, str]:
        demo, _ = Merchant.objects.get_or_create(
            code="demo", defaults={"name": "Demo Trading", "default_channel": channel}
        )
        other, _ = Merchant.objects.get_or_create(
            code="other", defaults={"name": "Other Merchant", "default_channel": channel}
        )
        wanted = {"ivr": (demo, "ivr"), "web": (demo, "web"), "other_merchant": (other, "web")}
        return {name: self._key(merchant, client, known.get(name)) for name, (merchant, client) in wanted.items()}

    def _key(self, merchant: Merchant, name: str, known: str | None) -> str:
        """The client's key: the one written down, or a new one when that is lost."""
        client = ApiClient.objects.filter(merchant=merchant, name=name).first()
        if client and known and client.key_hash == hash_key(known):
            return known
        key = new_key()
        values = {"key_hash": hash_key(key), "key_hint": key[:8], "scopes": [ApiClient.Scope.PAY, ApiClient.Scope.READ]}
        ApiClient.objects.update_or_create(merchant=merchant, name=name, defaults=values)
        return key

    def _logins(self, known: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        logins = {}
        for role in LOGINS:
            user, made = User.objects.get_or_create(username=role, defaults={"email": f"{role}@example.com"})
            password = known.get(role, {}).get("password", "")
            if made or not password or not user.check_password(password):
                password = secrets.token_urlsafe(9)
                user.set_password(password)
                user.save()
            grant_role(user=user, role=role)
            logins[role] = {"username": role, "password": password}
        return logins

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=2) + "\n")

    def _payments(self) -> None:
        client = ApiClient.objects.select_related("merchant").get(merchant__code="demo", name="ivr")
        for number, (customer, amount, token, purpose) in enumerate(PAYMENTS, start=1):
            order = intake.PaymentOrder(
                customer_ref=customer,
                amount=Money.parse(amount, "CNY"),
                payment_token=token,
                idempotency_key=f"demo-{number:03}",
                order_no=f"DEMO-{number:03}",
                purpose=purpose,
            )
            intake.accept_payment(client=client, order=order, at=now())
