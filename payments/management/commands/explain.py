"""`manage.py explain <any id>`: the whole story of a payment (AUD-4)."""

from argparse import ArgumentParser
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from django.utils.timezone import now

from payments import lookup, story, verdict
from payments.models import Payment
from payments.words import TAG_WORDS, tag_for, words_for


class Command(BaseCommand):
    help = "Tell the whole story of a payment: by payment id, order number, transaction id, key or customer."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("id", help="payment id, order number, bank transaction id, idempotency key or customer")
        parser.add_argument("--raw", action="store_true", help="show the (masked) messages too")

    def handle(self, *args: Any, **options: Any) -> None:
        found = lookup.find(options["id"])
        if not found.payments:
            raise CommandError(f"Nothing found for {options['id']!r}; tried {', '.join(found.tried) or 'nothing'}.")
        for payment in found.payments:
            self._explain(payment, raw=options["raw"])

    def _explain(self, payment: Payment, *, raw: bool) -> None:
        zone = ZoneInfo(payment.channel.time_zone)
        glyph, en, zh = TAG_WORDS[tag_for(payment)]
        at = now()
        judged = verdict.safe_to_pay_again(payment=payment, at=at)
        words = words_for(payment, answer=judged.answer)
        line = self.stdout.write
        line(f"Payment {payment.pk} · order {payment.order.order_no} · {payment.amount}")
        line(
            f"  {glyph} {en} / {zh} · {payment.state} since {payment.state_since.astimezone(zone):%Y-%m-%d %H:%M:%S %z}"
        )
        line(f"  cause: {payment.cause} ({payment.get_cause_display()})")
        if payment.contradicted:
            line("  CONTRADICTED: the channel tells another story; see below")
        captured = payment.captured
        line(
            f"  captured: {captured or 'nothing known'} · bank transaction: {payment.bank_transaction_id or 'none known'}"
        )
        line(f"  order state: {payment.order.state} · channel: {payment.channel_id} · customer: {payment.customer_ref}")
        line(f"  safe to pay again? {judged.answer} ({judged.rule_id})")
        if payment.next_query_at:
            next_at = f"{payment.next_query_at.astimezone(zone):%H:%M:%S}"
            line(f"  the channel is asked next at {next_at}; asked {payment.query_count} times so far")
        line(f"  say: {words.en}\n       {words.zh}")
        line("")
        for moment in story.tell(payment):
            self._moment(moment, zone, raw=raw)
        line("")

    def _moment(self, moment: story.Moment, zone: ZoneInfo, *, raw: bool) -> None:
        if moment.silence_before is not None:
            self.stdout.write(f"           … no answer for {int(moment.silence_before.total_seconds())} s")
        money = f" {moment.money}" if moment.money else ""
        state = f" → {moment.state}" if moment.state else ""
        facts = " ".join(f"{name}={value}" for name, value in moment.facts)
        stamp = f"{moment.at.astimezone(zone):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        self.stdout.write(f"  {stamp}  {moment.event}{state}{money}  by {moment.actor}  {facts}  [{moment.anchor}]")
        if raw and moment.raw:
            self.stdout.write(f"      {moment.raw}")
