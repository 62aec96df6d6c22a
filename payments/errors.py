"""The refusals this app makes on purpose. Each has a stable `code`; the API answers with it as a problem document."""

from datetime import timedelta


class PaymentsError(Exception):
    """Base of every refusal; `str()` is fit for an operator to read, `field` names the input at fault, if one is."""

    code = "refused"
    status = 422
    field: str | None = None


class InvalidField(PaymentsError):
    """One field of a request cannot be taken as it is."""

    code = "invalid_field"
    status = 400

    def __init__(self, *, field: str, reason: str) -> None:
        self.field = field
        super().__init__(reason)


class AmountError(PaymentsError):
    """Base of what is wrong with an amount of money."""

    status = 400
    field = "amount"


class AmountNotReadable(AmountError):
    """The amount is not a plain decimal number in range."""

    code = "amount_not_readable"

    def __init__(self, *, text: str) -> None:
        super().__init__(f"{text!r} is not a plain decimal amount such as 128.00.")


class TooManyDecimals(AmountError):
    """The amount is finer than the currency's minor unit."""

    code = "too_many_decimals"

    def __init__(self, *, amount: str, currency: str, digits: int) -> None:
        super().__init__(f"{amount} has more decimals than {currency} has ({digits}).")


class UnknownCurrency(PaymentsError):
    """The code is no ISO 4217 currency with a minor unit."""

    code = "unknown_currency"
    status = 400
    field = "currency"

    def __init__(self, *, currency: str) -> None:
        super().__init__(f"{currency!r} is not an ISO 4217 currency code.")


class CurrencyNotRegistered(PaymentsError):
    """The currency is not registered here with its FX policy (FND-2)."""

    code = "currency_not_registered"
    status = 400
    field = "currency"

    def __init__(self, *, currency: str) -> None:
        super().__init__(f"{currency} is not registered with a precision and an FX policy, so it takes no payment.")


class CurrencyMismatch(PaymentsError):
    """Two amounts of different currencies were put together."""

    code = "currency_mismatch"

    def __init__(self, *, left: str, right: str) -> None:
        super().__init__(f"{left} and {right} are different currencies.")


class CardNumberRefused(PaymentsError):
    """A field that is free text or a token holds what is a card number (PAY-10); nothing was stored."""

    code = "card_number_refused"
    status = 400

    def __init__(self, *, field: str) -> None:
        self.field = field
        super().__init__("This looks like a card number. Send a token instead; nothing was stored.")


class IdempotencyKeyReused(PaymentsError):
    """The key came before with other content (PAY-9)."""

    code = "idempotency_key_reused"
    field = "idempotencyKey"

    def __init__(self, *, payment_id: str) -> None:
        self.payment_id = payment_id
        super().__init__(f"This key stands for payment {payment_id}, which was requested with other content.")


class RequestInProgress(PaymentsError):
    """The first request with this key is still running (PAY-9)."""

    code = "request_in_progress"
    status = 409
    retry_after = 1

    def __init__(self) -> None:
        super().__init__(
            "A request with this key, or of this customer, is still being taken in. Ask again in a second."
        )


class OrderHasLivePayment(PaymentsError):
    """The order has a payment that may still take the money, or has taken it (PAY-11)."""

    code = "order_has_live_payment"
    status = 409

    def __init__(self, *, payment_id: str, state: str) -> None:
        self.payment_id, self.state = payment_id, state
        super().__init__(f"Payment {payment_id} of this order is {state}. Look it up; do not pay again.")


class OrderTakesNoPayment(PaymentsError):
    """The order is paid, refunded or closed (PAY-11), or a contradiction about its money is open (PAY-7)."""

    code = "order_takes_no_payment"
    status = 409

    def __init__(self, *, order_no: str, reason: str, payment_id: str | None = None) -> None:
        self.payment_id = payment_id
        super().__init__(f"Order {order_no} {reason}.")


class OrderAmountDiffers(PaymentsError):
    """The payment is not over what the order's payer agreed to pay (FND-4)."""

    code = "order_amount_differs"
    field = "amount"

    def __init__(self, *, asked: object, payable: object) -> None:
        super().__init__(f"The order is over {payable}, the payment over {asked}.")


class OrderHasOtherCustomer(PaymentsError):
    """The order belongs to another customer than the one who would pay."""

    code = "order_has_other_customer"
    field = "customerId"

    def __init__(self, *, order_no: str) -> None:
        super().__init__(f"Order {order_no} belongs to another customer.")


class LooksLikeSecondPayment(PaymentsError):
    """Same customer and amount as a payment that is open or has just succeeded (PAY-17)."""

    code = "looks_like_second_payment"
    status = 409

    def __init__(self, *, payment_id: str, window: timedelta) -> None:
        self.payment_id = payment_id
        minutes = int(window.total_seconds() // 60)
        super().__init__(
            f"Payment {payment_id} of this customer over the same amount is open or succeeded within {minutes} minutes. "
            'If a second payment is meant, say "intended": true.'
        )


class ReplacementRefused(PaymentsError):
    """The payment that should be replaced cannot be (PAY-18)."""

    code = "replacement_refused"
    status = 409
    field = "replaces"

    def __init__(self, *, reason: str, payment_id: str | None = None) -> None:
        self.payment_id = payment_id
        super().__init__(reason)


class ChannelNotUsable(PaymentsError):
    """The channel does not exist, is switched off, or does not take this currency."""

    code = "channel_not_usable"
    status = 400
    field = "channel"

    def __init__(self, *, channel: str, reason: str) -> None:
        super().__init__(f"Channel {channel!r} {reason}.")


class NothingToAsk(PaymentsError):
    """The payment was never sent, so its bank knows nothing of it."""

    code = "nothing_to_ask"
    status = 409

    def __init__(self) -> None:
        super().__init__("This payment was never sent, so there is nothing to ask the bank.")


class AskedJustNow(PaymentsError):
    """The bank was asked moments ago; its limits are respected (QRY-5)."""

    code = "asked_just_now"
    status = 429

    def __init__(self, *, seconds: int) -> None:
        self.retry_after = seconds
        super().__init__(f"The bank was asked moments ago. Ask again in {seconds} s.")


class NotificationRefused(PaymentsError):
    """A notification is not what its channel would send; nothing of it moves a state (NTF-2)."""

    code = "notification_refused"
    status = 401

    def __init__(self, *, reason: str, status: int = 401) -> None:
        self.reason, self.status = reason, status
        super().__init__(f"The notification is refused: {reason}.")
