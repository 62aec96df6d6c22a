"""One bank in one process: what its two applications share."""

import asyncio
from dataclasses import dataclass, field

from aiohttp import web

from sandbox.booking import complete_due
from sandbox.clock import now_ms, wait_until
from sandbox.faults import FaultBook
from sandbox.ledger import Ledger
from sandbox.listeners import BankPort
from sandbox.notifications import Notifier
from sandbox.settings import Settings


@dataclass
class RunningWrite:
    """A write that is being carried out: the digest of its content, and repeats that came before it was booked."""

    fingerprint: str
    repeats: int = 0


@dataclass
class Bank:
    """The parts of the running bank."""

    settings: Settings
    ledger: Ledger
    faults: FaultBook
    notifier: Notifier
    port: BankPort
    # Writes whose first request has not been answered yet, by operation and reference.
    running: dict[tuple[str, str], RunningWrite] = field(default_factory=dict)
    # Set when an entry with a due time was booked.
    entry_opened: asyncio.Event = field(default_factory=asyncio.Event)

    async def keep_completing(self) -> None:
        """Finish open entries as they come due, until cancelled."""
        while True:
            self.entry_opened.clear()
            if complete_due(self.ledger, at_ms=now_ms()):
                self.notifier.nudge()
            await wait_until(self.ledger.next_entry_due_ms(), or_event=self.entry_opened)


BANK = web.AppKey("BANK", Bank)
