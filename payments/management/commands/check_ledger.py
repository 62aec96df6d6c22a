"""`manage.py check_ledger`: does the ledger book what happened, once, balanced? (FND-9, FND-10)"""

from argparse import ArgumentParser
from datetime import date
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from payments import ledger


class Command(BaseCommand):
    help = "Compare the ledger with payments and receipts and print the trial balance; exit 1 on a fault."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--on", type=date.fromisoformat, metavar="YYYY-MM-DD", help="balances at the end of this date"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        totals: dict[str, int] = {}
        for balance in ledger.trial_balance(on=options["on"]):
            account = balance.account
            self.stdout.write(
                f"{account.merchant.code:12} {account.channel_id:12} {account.kind:18} {balance.amount!s:>24}"
            )
            totals[account.currency_id] = totals.get(account.currency_id, 0) + balance.amount.amount_minor
        faults = ledger.check()
        for fault in faults:
            self.stdout.write(self.style.ERROR(f"{fault.subject}: {fault.says}"))
        unbalanced = [currency for currency, total in totals.items() if total]
        if faults or unbalanced:
            raise CommandError(
                f"{len(faults)} faults; currencies that do not add up: {', '.join(unbalanced) or 'none'}."
            )
        self.stdout.write(
            f"In order: {len(totals)} currencies add up to nought, every capture and receipt is posted once."
        )
