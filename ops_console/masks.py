"""What people see of personal data until they ask for more and say why."""

from payments.masking import mask_card_numbers, masked_token
from payments.models import Payment

_HIDDEN = "•••"


def masked_customer(customer_ref: str) -> str:
    """Enough of a customer reference to tell two apart."""
    if len(customer_ref) < 5:
        return _HIDDEN
    return customer_ref[:2] + _HIDDEN + customer_ref[-2:]


def masked_message(body: str, payment: Payment) -> str:
    """A stored message without the payment's token and customer; card numbers are hidden again, to be safe."""
    for secret, shown in (
        (payment.payment_token, masked_token(payment.payment_token)),
        (payment.customer_ref, masked_customer(payment.customer_ref)),
    ):
        if len(secret) > len(_HIDDEN):
            body = body.replace(secret, shown)
    return mask_card_numbers(body)
