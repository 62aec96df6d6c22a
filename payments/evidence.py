"""What a channel or a person says about a payment, in one form, whatever path it came by (QRY-4)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .money import Money


class Outcome(StrEnum):
    """What an answer amounts to. REFUSED is answered and provably without effect; UNKNOWN is everything that proves
    nothing; NOT_SENT only what failed before a byte could leave (PAY-2)."""

    SUCCEEDED = "SUCCEEDED"
    DECLINED = "DECLINED"
    REFUSED = "REFUSED"
    CANCELLED = "CANCELLED"
    PROCESSING = "PROCESSING"
    NOT_FOUND = "NOT_FOUND"
    UNKNOWN = "UNKNOWN"
    NOT_SENT = "NOT_SENT"


class Source(StrEnum):
    """The path by which evidence came."""

    REPLY = "REPLY"
    NOTIFICATION = "NOTIFICATION"
    QUERY = "QUERY"
    STATEMENT = "STATEMENT"
    PERSON = "PERSON"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One statement about one payment.

    :ivar reference: where the original is kept, as in `exchange:17` or `notification:4`
    :ivar asked_at: when the question behind it was put; news older than the newest submission proves no absence
    :ivar classification: class of a refusal by the mapping table, empty otherwise
    :ivar mapped: whether a rule of the table matched
    """

    source: Source
    outcome: Outcome
    at: datetime
    reference: str
    actor: str = "system"
    channel_txn_id: str = ""
    amount: Money | None = None
    completed_at: datetime | None = None
    code: str = ""
    message: str = ""
    classification: str = ""
    mapped: bool = True
    asked_at: datetime | None = None
