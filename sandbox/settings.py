"""What the process is told at its start, by argument or by environment."""

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

DEFAULT_KEY = "demo-1:sandbox-demo-secret"
SWITCHED_ON = {"1", "true", "yes", "on"}


@dataclass(frozen=True)
class Settings:
    """One bank: where it listens, where its ledger is kept, whom it serves, and its standing habits."""

    host: str
    port: int
    control_port: int
    store: Path
    merchant_id: str
    keys: Mapping[str, str]
    latency_ms: int
    notify_retry_scale: Decimal
    idempotent: bool
    seed: str


def read_settings(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read the command line; what it leaves out comes from ``SANDBOX_...`` variables, then from the defaults."""
    parser = _parser(environment)
    given = parser.parse_args(arguments)
    keys_text = given.key or [pair for pair in environment.get("SANDBOX_KEYS", DEFAULT_KEY).split(",") if pair]
    try:
        keys = dict(_key(pair) for pair in keys_text)
    except ValueError as error:
        parser.error(str(error))
    return Settings(
        host=given.host,
        port=given.port,
        control_port=given.control_port,
        store=given.store,
        merchant_id=given.merchant_id,
        keys=keys,
        latency_ms=given.latency_ms,
        notify_retry_scale=given.notify_retry_scale,
        idempotent=not given.not_idempotent,
        seed=given.seed,
    )


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sandbox", description="A bank that misbehaves on demand.")

    def option(name: str, default: str, help_text: str, kind: type | None = None, **more: object) -> None:
        variable = "SANDBOX_" + name.upper().replace("-", "_")
        parser.add_argument(
            f"--{name}",
            default=environment.get(variable, default),
            type=kind or str,
            help=f"{help_text} (default {default or 'none'}; or {variable})",
            **more,  # type: ignore[arg-type]
        )

    option("host", "127.0.0.1", "address of both listeners")
    option("port", "8090", "port of the bank; 0 takes a free one", _port)  # type: ignore[arg-type]
    option("control-port", "8091", "port of ledger and control; 0 takes a free one", _port)  # type: ignore[arg-type]
    option("store", "sandbox.sqlite3", "file of the ledger", Path)
    option("merchant-id", "M-DEMO", "the merchant this bank serves")
    option("latency-ms", "50", "how long a booking takes", _whole_number)  # type: ignore[arg-type]
    option("notify-retry-scale", "1.0", "factor on the waits between notifications", _scale)  # type: ignore[arg-type]
    option("seed", "1", "seed of every fault with a rate")
    parser.add_argument("--key", action="append", metavar="KEYID:SECRET", help="may be repeated (or SANDBOX_KEYS)")
    parser.add_argument(
        "--not-idempotent",
        action="store_true",
        default=environment.get("SANDBOX_NOT_IDEMPOTENT", "").lower() in SWITCHED_ON,
        help="book every repeat of a reference again (or SANDBOX_NOT_IDEMPOTENT=1)",
    )
    return parser


def _key(pair: str) -> tuple[str, str]:
    key_id, colon, secret = pair.strip().partition(":")
    if not (key_id and colon and secret):
        raise ValueError("a key is written KEYID:SECRET")
    return key_id, secret


def _port(text: str) -> int:
    number = int(text)
    if not 0 <= number <= 65535:
        raise argparse.ArgumentTypeError("a port is 0 to 65535")
    return number


def _whole_number(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("must not be below zero")
    return number


def _scale(text: str) -> Decimal:
    try:
        scale = Decimal(text)
    except InvalidOperation as error:
        raise argparse.ArgumentTypeError("must be a number") from error
    if not scale.is_finite() or scale < 0:
        raise argparse.ArgumentTypeError("must be a number, not below zero")
    return scale
