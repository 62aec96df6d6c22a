"""`manage.py dead_letters`: list events nobody took, and replay them (EVT-2)."""

from argparse import ArgumentParser
from getpass import getuser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.timezone import now

from payments import outbox
from payments.models import OutboxEvent


class Command(BaseCommand):
    help = "List dead letters, or make them due again with --replay ID … or --replay all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--replay", nargs="+", metavar="ID", help="event ids, or the word all")

    def handle(self, *args: Any, **options: Any) -> None:
        dead = OutboxEvent.objects.filter(dead_at__isnull=False).order_by("pk")
        if options["replay"] is None:
            for event in dead:
                self.stdout.write(
                    f"{event.pk}  {event.type}  {event.subject_id}  {event.dead_at:%F %T}  {event.last_error}"
                )
            self.stdout.write(f"{dead.count()} dead letters.")
            return
        for event_id in self._chosen(options["replay"], list(dead.values_list("pk", flat=True))):
            outbox.replay(event_id=event_id, at=now(), actor=f"shell:{getuser()}")
            self.stdout.write(f"Event {event_id} is due again.")

    def _chosen(self, words: list[str], dead: list[int]) -> list[int]:
        if words == ["all"]:
            return dead
        chosen = [int(word) for word in words if word.isascii() and word.isdigit()]
        if len(chosen) != len(words) or set(chosen) - set(dead):
            raise CommandError("Give ids of dead letters, as the list shows them. Nothing was replayed.")
        return chosen
