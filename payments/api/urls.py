from django.urls import path, register_converter

from . import views


class PaymentIdConverter:
    """A payment's id in an address: a ULID, nothing else."""

    regex = "[0-9A-HJKMNP-TV-Z]{26}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(PaymentIdConverter, "ulid")

urlpatterns = [
    path("payments", views.PaymentsView.as_view(), name="payments"),
    path("payments/<ulid:payment_id>", views.PaymentView.as_view(), name="payment"),
    path("notifications/<slug:channel_code>", views.notify, name="notify"),
]
