"""The currencies registered from the start (FND-2) and the error-code table (SPL-5)."""

import csv
from pathlib import Path

import iso4217
from django.db import migrations

SAME_CURRENCY = ("CNY", "USD", "EUR", "GBP", "HKD", "JPY", "KRW", "SGD", "THB", "IDR", "VND", "KWD", "BHD", "AED")
CLASSES = {
    "transient": "TRANSIENT",
    "structural": "STRUCTURAL",
    "suspected_structural": "SUSPECTED",
    "unknown_result": "UNKNOWN",
}
ERROR_CODES = Path(__file__).resolve().parent.parent / "data" / "error_codes.csv"


def register(apps, schema_editor):
    currency = apps.get_model("payments", "Currency")
    currency.objects.bulk_create(
        currency(code=code, minor_digits=iso4217.Currency(code).exponent, fx_policy="SAME_CURRENCY")
        for code in SAME_CURRENCY
    )
    rule = apps.get_model("payments", "ErrorCodeRule")
    with ERROR_CODES.open(encoding="utf-8", newline="") as file:
        rule.objects.bulk_create(
            rule(
                adapter=row["channel"],
                operation=row["operation"],
                code=row["code"],
                message_contains=row["message_contains"],
                classification=CLASSES[row["classification"]],
                meaning_en=row["meaning_en"],
                meaning_zh=row["meaning_zh"],
                source=row["source"],
            )
            for row in csv.DictReader(file)
        )


def unregister(apps, schema_editor):
    apps.get_model("payments", "ErrorCodeRule").objects.all().delete()
    apps.get_model("payments", "Currency").objects.all().delete()


class Migration(migrations.Migration):
    dependencies = [("payments", "0002_rules")]

    operations = [migrations.RunPython(register, unregister)]
