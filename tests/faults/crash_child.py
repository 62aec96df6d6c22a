"""A process that forks children which send a payment and die at a given line: run by the crash tests.

Reads `<payment id> <line number>` from standard input, one per line, and answers `<killed|done> <lines executed>`. The child
kills itself (SIGKILL) before it executes the n-th line of the submission path, as a power cut would; no `finally` runs.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

PATH = (
    "submission.py",
    "channels/bank.py",
    "channels/http.py",
    "exchanges.py",
    "confirmation.py",
    "ledger.py",
    "outbox.py",
    "history.py",
    "attentions.py",
)
ROOM = str(Path(__file__).resolve().parents[2] / "payments")


def submit_and_die(payment_id: str, at_line: int, answer: int) -> None:
    from django.utils.timezone import now

    from payments import submission

    executed = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal executed
        name = frame.f_code.co_filename
        if not (name.startswith(ROOM) and name.endswith(PATH)):
            return None
        if event == "line":
            executed += 1
            if executed == at_line:
                os.write(answer, f"killed {executed}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)
    submission.submit_payment(payment_id=payment_id, at=now())
    sys.settrace(None)
    os.write(answer, f"done {executed}\n".encode())
    os._exit(0)


def main() -> None:
    import django

    django.setup()
    from payments import submission  # noqa: F401  (loaded before the forks)

    for line in sys.stdin:
        payment_id, at_line = line.split()
        child = os.fork()
        if child == 0:
            submit_and_die(payment_id, int(at_line), sys.stdout.fileno())
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
