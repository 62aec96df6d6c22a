"""The console's addresses."""

from django.urls import path, register_converter

from .views import attentions, find, payment, payments, session


class PaymentId:
    """A payment's id: 26 characters of Crockford's alphabet."""

    regex = "[0-9A-HJKMNP-TV-Z]{26}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(PaymentId, "payment_id")

app_name = "ops_console"
urlpatterns = [
    path("login", session.LogIn.as_view(), name="login"),
    path("logout", session.LogOut.as_view(), name="logout"),
    path("find", find.find_payment, name="find"),
    path("payments", payments.payments, name="payments"),
    path("payments/export", payments.export, name="export_payments"),
    path("payments/<payment_id:payment_id>", payment.payment, name="payment"),
    path("payments/<payment_id:payment_id>/ask", payment.ask_bank, name="ask_bank"),
    path("payments/<payment_id:payment_id>/unmask", payment.unmask, name="unmask"),
    path("payments/<payment_id:payment_id>/copied", payment.copied, name="copied"),
    path("attentions", attentions.attentions, name="attentions"),
    path("me", session.me, name="me"),
    path("display", session.display, name="display"),
]
