from django.apps import AppConfig


class PaymentsConfig(AppConfig):
    name = "payments"

    def ready(self) -> None:
        from . import consumers, receivers  # noqa: F401  (their decorators connect them)
