"""The faults in force: which one a request meets, and how often it has acted."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sandbox.effects import WELL_BEHAVED, Effects
from sandbox.fault_scripts import BadScript, Fault, read_fault
from sandbox.ledger import Ledger


@dataclass(frozen=True)
class MagicToken:
    """A payment token with a built-in fault, for as many first requests of a reference as stated (None: all)."""

    effects: Effects
    first_requests: int | None
    meaning: str


class FaultBook:
    """The faults in force. The one added last that meets a request wins; without any, the payment token decides."""

    def __init__(self, *, ledger: Ledger, magic_tokens: dict[str, MagicToken], seed: str) -> None:
        self._ledger = ledger
        self._magic_tokens = magic_tokens
        self._seed = seed
        self._faults: dict[str, Fault] = {}
        for row in ledger.faults():
            fault = read_fault(json.loads(row["script"]), default_id=row["id"], at_ms=row["added_at_ms"])
            fault.used = row["used"]
            self._faults[fault.id] = fault

    def add(self, scripts: list[Any], *, at_ms: int) -> list[str]:
        """Take in scripts, all of them or none, and return their ids.

        :raises BadScript: names the first field that cannot be read
        """
        number = max((int(i[2:]) for i in self._faults if i[:2] == "F-" and i[2:].isdecimal()), default=0)
        faults = [read_fault(script, default_id=f"F-{number + n}", at_ms=at_ms) for n, script in enumerate(scripts, 1)]
        ids = [fault.id for fault in faults]
        for fault_id in ids:
            if fault_id in self._faults or ids.count(fault_id) > 1:
                raise BadScript(f"id: {fault_id!r} is taken")
        with self._ledger.transaction():
            for fault in faults:
                self._ledger.add_fault(fault_id=fault.id, script=json.dumps(fault.script), at_ms=at_ms)
        self._faults |= {fault.id: fault for fault in faults}
        return ids

    def remove(self, fault_id: str | None = None) -> int:
        """Remove one fault or all; return how many there were."""
        removed = self._ledger.delete_faults(fault_id)
        if fault_id is None:
            self._faults.clear()
        else:
            self._faults.pop(fault_id, None)
        return removed

    def forget(self) -> None:
        """Forget the faults after the ledger was cleared."""
        self._faults.clear()

    def listed(self) -> list[Fault]:
        """Return the faults in the order they were added."""
        return list(self._faults.values())

    def choose(
        self,
        *,
        operation: str,
        reference: str,
        at_ms: int,
        token: str | None = None,
        other_reference: str | None = None,
    ) -> Effects:
        """Return what goes wrong with a request, and count it.

        :param other_reference: for a cancel, the payment; a fault may name either
        """
        references = (reference,) if other_reference is None else (reference, other_reference)
        for fault in reversed(self._faults.values()):
            if fault.concerns(operation=operation, references=references, token=token, at_ms=at_ms) and self._falls(
                fault, operation, reference
            ):
                fault.used += 1
                self._ledger.count_fault_use(fault.id)
                return fault.effects
        magic = self._magic_tokens.get(token or "") if operation == "pay" else None
        if magic is None:
            return WELL_BEHAVED
        if magic.first_requests is None:
            return magic.effects
        times = self._ledger.count_meeting(fault_id=token or "", operation=operation, reference=reference)
        return magic.effects if times <= magic.first_requests else WELL_BEHAVED

    def _falls(self, fault: Fault, operation: str, reference: str) -> bool:
        """Throw the die of a rate: the n-th request of a reference meets the same fate under the same seed."""
        if fault.rate is None:
            return True
        times = self._ledger.count_meeting(fault_id=fault.id, operation=operation, reference=reference)
        digest = hashlib.sha256(f"{self._seed}\n{fault.id}\n{operation}\n{reference}\n{times}".encode()).digest()
        return int.from_bytes(digest[:8]) < fault.rate * 2**64
