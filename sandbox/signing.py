"""Signatures of the contract: HMAC-SHA256 over a short text, the same in both directions."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping

SKEW_SECONDS = 300
TIMESTAMP = re.compile(r"[0-9]{1,12}")
NONCE = re.compile(r"[\x21-\x7e]{1,128}")


class SignatureRefused(Exception):
    """A request is not signed as the contract asks; the message says which part failed."""


def request_text(*, method: str, target: str, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the text a request signs.

    :param target: the path as sent, with ``?query`` only if there is a query
    """
    return f"{method}\n{target}\n" + reply_text(timestamp=timestamp, nonce=nonce, body=body)


def reply_text(*, timestamp: str, nonce: str, body: bytes) -> str:
    """Return the text a reply or a notification signs."""
    return f"{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"


def signature(secret: str, text: str) -> str:
    """Return the value of ``X-Signature`` for a text."""
    return "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def signed_headers(*, key_id: str, secret: str, body: bytes, at_seconds: int, forged: bool = False) -> dict[str, str]:
    """Return the four headers of a signed reply or notification; forged ones carry a signature that never verifies."""
    nonce = secrets.token_hex(16)
    text = reply_text(timestamp=str(at_seconds), nonce=nonce, body=body)
    return {
        "X-Key-Id": key_id,
        "X-Timestamp": str(at_seconds),
        "X-Nonce": nonce,
        "X-Signature": signature(secrets.token_hex(16) if forged else secret, text),
    }


def verify_request(
    *, headers: Mapping[str, str], keys: Mapping[str, str], method: str, target: str, body: bytes, at_seconds: int
) -> tuple[str, str]:
    """Return the key id and the nonce of a rightly signed request. Whether the nonce is new is the ledger's to say.

    :raises SignatureRefused: a header is missing or malformed, the clock is off, or the signature is another
    """
    key_id = headers.get("X-Key-Id", "")
    timestamp = headers.get("X-Timestamp", "")
    nonce = headers.get("X-Nonce", "")
    if key_id not in keys:
        raise SignatureRefused("X-Key-Id is not known")
    if not TIMESTAMP.fullmatch(timestamp) or abs(at_seconds - int(timestamp)) > SKEW_SECONDS:
        raise SignatureRefused(f"X-Timestamp is not within {SKEW_SECONDS} s")
    if not NONCE.fullmatch(nonce):
        raise SignatureRefused("X-Nonce is missing or malformed")
    text = request_text(method=method, target=target, timestamp=timestamp, nonce=nonce, body=body)
    given = headers.get("X-Signature", "").encode(errors="surrogateescape")
    if not hmac.compare_digest(signature(keys[key_id], text).encode(), given):
        raise SignatureRefused("X-Signature does not verify")
    return key_id, nonce
