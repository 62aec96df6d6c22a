"""The status lexicon: one source for page, API and the words to say (PAY-7, PAY-8)."""

from dataclasses import dataclass
from enum import StrEnum

from .models import Payment

State, Cause = Payment.State, Payment.Cause


class PublicStatus(StrEnum):
    """What callers see, beside the detailed state (PAY-7)."""

    PENDING = "PENDING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class Tag(StrEnum):
    """Words and glyphs of the console's status tags."""

    SUCCEEDED = "succeeded"
    IN_PROGRESS = "in_progress"
    UNKNOWN = "unknown"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WAITING_OPERATOR = "waiting_operator"


TAG_WORDS: dict[Tag, tuple[str, str, str]] = {
    Tag.SUCCEEDED: ("✓", "Succeeded", "已成功"),
    Tag.IN_PROGRESS: ("…", "In progress", "处理中"),
    Tag.UNKNOWN: ("?", "Outcome unknown", "结果未知"),
    Tag.FAILED: ("✕", "Failed, no money moved", "失败（未扣款）"),
    Tag.CANCELLED: ("⊘", "Cancelled, not charged", "已取消（未扣款）"),
    Tag.WAITING_OPERATOR: ("!", "Waiting for operator", "待人工处理"),
}


@dataclass(frozen=True, slots=True)
class Words:
    """What to tell the payer, and what not to say."""

    en: str
    zh: str
    never_en: str = ""
    never_zh: str = ""


_OPEN = Words(
    "Your payment has been submitted and is still being processed. Please do not pay again. "
    "We will look up the final result for you.",
    "付款请求已经提交，目前仍在处理中。请勿重复付款。客服人员将为您查询最终结果。",
    "Do not say that the payment failed, and do not ask the payer to pay again.",
    "不要说付款失败，也不要请客户重新付款。",
)
_SUCCEEDED = Words(
    "Your payment was successful.",
    "您的付款已经成功。",
    "Do not offer to take the payment again.",
    "不要再次发起付款。",
)
_DECLINED = Words(
    "The payment failed; you have not been charged. Please pay again, if you like with another card or account.",
    "付款失败，您没有被扣款。请重新支付，也可以更换银行卡或账户。",
    "Do not name risk reasons or the bank's internal codes.",
    "不要透露风控原因或银行内部代码。",
)
_FAILED_SILENTLY = Words(
    "You have not been charged. An agent can help you with the next step.",
    "您没有被扣款。客服人员可以协助您进行下一步操作。",
    "Do not say that the bank declined the payment.",
    "不要说银行拒绝了付款。",
)
_PAID_OTHERWISE = Words(
    "This attempt was not charged, and your order needs no further payment.",
    "这次付款没有扣款，您的订单无需再付款。",
    "Do not ask the payer to pay again.",
    "不要请客户重新付款。",
)
_CANCELLED = Words("The payment was cancelled; you have not been charged.", "付款已取消，您没有被扣款。")
_NEVER_SENT = Words(
    "You have not been charged: nothing was sent to the bank.",
    "您没有被扣款，付款请求没有发送到银行。",
    "Do not say that the bank declined the payment.",
    "不要说银行拒绝了付款。",
)

# Only these are an explicit decline; everything else must not be followed by "please pay again" (PAY-8).
DECLINES = frozenset({Cause.DECLINED, Cause.REFUSED})
NEVER_LEFT = frozenset({Cause.NEVER_SENT, Cause.AMOUNT_REVIEW, Cause.REPLACED})


def public_status(payment: Payment) -> PublicStatus:
    """The state as callers see it; a contradicted payment is shown as open until its case is closed (PAY-7)."""
    if payment.contradicted or not payment.is_final:
        return PublicStatus.PENDING
    return PublicStatus(payment.state)


def words_for(payment: Payment, *, answer: str) -> Words:
    """What to tell the payer about this payment now.

    :param answer: of the pay-again verdict; "please pay again" is said only with its YES (PAY-8)
    """
    match public_status(payment):
        case PublicStatus.SUCCEEDED:
            return _SUCCEEDED
        case PublicStatus.FAILED | PublicStatus.CANCELLED if answer == "NO":
            return _PAID_OTHERWISE
        case PublicStatus.FAILED:
            return _DECLINED if payment.cause in DECLINES and answer == "YES" else _FAILED_SILENTLY
        case PublicStatus.CANCELLED:
            return _NEVER_SENT if payment.cause in NEVER_LEFT and not payment.sent else _CANCELLED
    return _OPEN


def tag_for(payment: Payment) -> Tag:
    """The tag of the status lexicon for this payment."""
    if payment.contradicted or payment.state == State.REVIEW_REQUIRED:
        return Tag.WAITING_OPERATOR
    match payment.state:
        case State.SUCCEEDED:
            return Tag.SUCCEEDED
        case State.FAILED:
            return Tag.FAILED
        case State.CANCELLED:
            return Tag.CANCELLED
        case State.PENDING | State.CANCEL_PENDING if payment.cause != Cause.PROCESSING:
            return Tag.UNKNOWN
    return Tag.IN_PROGRESS
