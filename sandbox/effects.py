"""Effects: what the bank does wrong with one request."""

from dataclasses import dataclass, field
from decimal import Decimal


@dataclass(frozen=True)
class Words:
    """A code of the bank and its text, with the HTTP status they come under."""

    code: str
    text: str
    http: int = 200


@dataclass(frozen=True)
class NotifyEffects:
    """What goes wrong with the notifications of an entry. Source: the ``notify`` part of a fault."""

    send: bool = True
    copies: int = 1
    delay_ms: int = 0
    early: bool = False
    out_of_order: bool = False
    wrong_signature: bool = False
    wrong_amount: str | None = None
    wrong_currency: str | None = None
    wrong_reference: str | None = None
    wrong_merchant: bool = False
    then_correct: bool = False
    status: str | None = None
    url: str | None = None

    @property
    def forges(self) -> bool:
        """Whether the message says something else than the ledger, or is not signed by the bank."""
        wrong = (self.wrong_amount, self.wrong_currency, self.wrong_reference, self.status)
        return self.wrong_signature or self.wrong_merchant or any(value is not None for value in wrong)


@dataclass(frozen=True)
class Effects:
    """What the bank does wrong with one request; the default is to do everything right."""

    decline: Words | None = None
    refuse: Words | None = None
    rate_limited: bool = False
    slow_ms: int = 0
    slow_before_ms: int = 0
    drop: str | None = None
    gateway_502: str | None = None
    empty_200: bool = False
    garbage_200: str | None = None
    bad_reply_signature: bool = False
    other_reference: bool = False
    processing_ms: int | None = None
    then_decline: Words | None = None
    invisible_ms: int = 0
    charge_difference: Decimal = Decimal(0)
    cancel_refused: str | None = None
    notify: NotifyEffects = field(default_factory=NotifyEffects)


WELL_BEHAVED = Effects()
