"""Keep a set of programs running: start them, restart what crashes, end all of it together."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from config.embedded import EmbeddedServerError, dying_with_parent, tail

POLL_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 10.0
FAILURES_ALLOWED = 5
FAILURE_WINDOW_SECONDS = 30.0
KEPT_LOGS = 3


class Stopped(Exception):
    """Somebody asked for the end: Ctrl-C, SIGTERM or a closed terminal."""


class GivenUp(Exception):
    """It cannot go on; the text says why, fit for a person to read."""


class Terminal:
    """Short lines for a person; colour only where it is seen."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self.stream = stream or sys.stdout
        self.colour = self.stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"

    def say(self, text: str = "", code: str = "") -> None:
        """Print a line; a terminal that has gone away is no reason to fail."""
        if code and self.colour:
            text = f"\x1b[{code}m{text}\x1b[0m"
        with contextlib.suppress(OSError, ValueError):
            print(text, file=self.stream, flush=True)

    def warn(self, text: str) -> None:
        """Print what a person should notice."""
        self.say(text, "33")

    def fail(self, text: str) -> None:
        """Print why it ends."""
        self.say(text, "31")


class Runnable(Protocol):
    """What the keeper keeps running: a program of ours or an embedded server."""

    name: str
    log_file: Path

    def start(self) -> None:
        """Start it unless it runs."""

    def poll(self) -> int | None:
        """Return the exit code once it has ended."""

    def signal_stop(self) -> None:
        """Ask it to stop, and do not wait."""

    def kill(self) -> None:
        """End it and everything it started."""

    @property
    def pid(self) -> int | None:
        """Return its process id."""


@dataclass
class Program:
    """A command in a process group of its own, with a log file.

    :param on_orphaned: the signal it gets when the keeper dies (Linux). SIGTERM suits what has children to end.
    """

    name: str
    command: Sequence[str]
    log_file: Path
    environment: Mapping[str, str]
    directory: Path
    on_orphaned: signal.Signals = signal.SIGKILL
    stop_signal: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Return its process id, which is also its group's; None before the first start."""
        return self.process.pid if self.process else None

    def start(self) -> None:
        """Start it unless it runs."""
        if self.process is not None and self.process.poll() is None:
            return
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.directory,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(self.on_orphaned),
            )

    def poll(self) -> int | None:
        """Return the exit code once it has ended."""
        return self.process.poll() if self.process else None

    def signal_stop(self) -> None:
        """Ask it to stop, and do not wait."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop_signal)

    def kill(self) -> None:
        """End it and everything it started, also what outlived it."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def exit_reason(code: int) -> str:
    """Say in words how a process ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def rotate(log_file: Path) -> None:
    """Put the log of the last run aside; a few are kept."""
    for number in range(KEPT_LOGS, 0, -1):
        older = log_file.with_name(f"{log_file.name}.{number}")
        newer = log_file.with_name(f"{log_file.name}.{number - 1}") if number > 1 else log_file
        if newer.exists():
            newer.replace(older)


@dataclass
class _Kept:
    runnable: Runnable
    failures: list[float] = field(default_factory=list)
    restart_at: float | None = None
    shown: int = 0  # bytes of its log already on the terminal


class Keeper:
    """Runs everything from one thread, so that children live and die with the process and no step hides a signal.

    :param records: where the process groups are written down, for the next run to clean up after a killed keeper
    """

    def __init__(
        self,
        terminal: Terminal,
        records: Path,
        *,
        verbose: bool = False,
        grace_seconds: float = 3.5,
        first_pause_seconds: float = 0.5,
    ) -> None:
        self.terminal = terminal
        self.records = records
        self.verbose = verbose
        self.grace_seconds = grace_seconds
        self.first_pause_seconds = first_pause_seconds
        self._kept: list[_Kept] = []
        self._stop_asked = 0

    def listen_to_signals(self) -> None:
        """Take Ctrl-C, SIGTERM and SIGHUP as the wish to end; a second one ends at once."""

        def ask(*_: object) -> None:
            self._stop_asked += 1

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, ask)

    def start(self, runnable: Runnable) -> None:
        """Start something and keep it running from now on."""
        self._check_stop()
        rotate(runnable.log_file)
        kept = _Kept(runnable)
        self._kept.append(kept)
        try:
            runnable.start()
        except (EmbeddedServerError, OSError) as refusal:
            raise GivenUp(str(refusal)) from refusal
        self._write_records()

    def run(self, program: Program) -> None:
        """Run a program to its end, watching the rest meanwhile.

        :raises GivenUp: it failed
        """
        self.finish(self.begin(program))

    def begin(self, program: Program) -> Program:
        """Start a program that is expected to end; ``finish`` waits for it."""
        self._check_stop()
        rotate(program.log_file)
        program.start()
        return program

    def finish(self, program: Program) -> None:
        """Wait for a program that was begun.

        :raises GivenUp: it failed
        """
        try:
            self.wait_for(lambda: program.poll() is not None)
        except BaseException:
            program.kill()
            raise
        if program.poll():
            raise GivenUp(self._with_log(f"{program.name} failed.", program.log_file))

    def wait_for(self, condition: Callable[[], bool], *, timeout: float | None = None, what: str = "") -> None:
        """Wait for something while keeping everything running.

        :raises GivenUp: it did not happen in ``timeout`` seconds, or a program fails again and again
        :raises Stopped: somebody asked for the end
        """
        deadline = time.monotonic() + timeout if timeout is not None else None
        while not condition():
            if deadline is not None and time.monotonic() > deadline:
                raise GivenUp(f"{what} was not ready within {timeout:g} s.")
            self.tick()
            time.sleep(POLL_SECONDS)
        self.tick()

    def keep_running(self) -> None:
        """Stay until somebody asks for the end (``Stopped``) or it cannot go on (``GivenUp``)."""
        self.wait_for(lambda: False)

    def tick(self) -> None:
        """Notice who has ended, restart whose pause is over, show logs if asked to."""
        self._check_stop()
        now = time.monotonic()
        for kept in self._kept:
            if kept.restart_at is not None:
                if now >= kept.restart_at:
                    self._restart(kept)
            elif (code := kept.runnable.poll()) is not None:
                self._note_failure(kept, exit_reason(code))
        if self.verbose:
            self._show_logs()

    def _restart(self, kept: _Kept) -> None:
        kept.restart_at = None
        try:
            kept.runnable.start()
        except (EmbeddedServerError, OSError) as refusal:
            self._note_failure(kept, f"did not start: {refusal}")
        self._write_records()

    def _note_failure(self, kept: _Kept, reason: str) -> None:
        now = time.monotonic()
        kept.runnable.kill()  # what it started may have outlived it
        kept.failures = [at for at in kept.failures if now - at < FAILURE_WINDOW_SECONDS] + [now]
        if len(kept.failures) >= FAILURES_ALLOWED:
            told = f"{kept.runnable.name} {reason}, the {FAILURES_ALLOWED}th time within {FAILURE_WINDOW_SECONDS:g} s."
            raise GivenUp(self._with_log(told, kept.runnable.log_file))
        pause = min(LONGEST_PAUSE_SECONDS, self.first_pause_seconds * 2 ** (len(kept.failures) - 1))
        kept.restart_at = now + pause
        self.terminal.warn(f"{kept.runnable.name} {reason}; it is started again in {pause:g} s.")

    def stop(self, *layers: Sequence[Runnable]) -> None:
        """End everything, layer by layer: first what was started last unless ``layers`` say otherwise."""
        order = layers or [[kept.runnable] for kept in reversed(self._kept)]
        asked_before = self._stop_asked
        for layer in order:
            for runnable in layer:
                runnable.signal_stop()
            deadline = time.monotonic() + (self.grace_seconds if layer is order[0] else 2)
            while any(runnable.poll() is None and runnable.pid for runnable in layer):
                if time.monotonic() > deadline or self._stop_asked > asked_before:
                    break
                if self.verbose:
                    self._show_logs()
                time.sleep(POLL_SECONDS)
            for runnable in layer:
                runnable.kill()
        with contextlib.suppress(OSError):
            self.records.unlink(missing_ok=True)

    def _check_stop(self) -> None:
        if self._stop_asked:
            raise Stopped

    def _with_log(self, text: str, log_file: Path) -> str:
        return f"{text} The end of {log_file}:\n{tail(log_file) or '(empty)'}"

    def _show_logs(self) -> None:
        for kept in self._kept:
            for line in self._new_lines(kept):
                self.terminal.say(f"{kept.runnable.name:>10} | {line}")

    def _new_lines(self, kept: _Kept) -> Iterator[str]:
        with contextlib.suppress(OSError), kept.runnable.log_file.open("rb") as log:
            log.seek(kept.shown)
            fresh = log.read()
            whole = fresh[: fresh.rfind(b"\n") + 1]
            kept.shown += len(whole)
            yield from whole.decode(errors="replace").splitlines()

    def _write_records(self) -> None:
        import psutil

        found = []
        for kept in self._kept:
            if isinstance(kept.runnable, Program) and kept.runnable.pid:
                with contextlib.suppress(psutil.Error):
                    process = psutil.Process(kept.runnable.pid)
                    found.append({"group": process.pid, "since": process.create_time(), "program": process.exe()})
        self.records.write_text(json.dumps(found))


def end_leftovers(records: Path) -> int:
    """End what a killed keeper left running; return how many processes.

    Where the system does not tell children of their parent's death (macOS) that is everything. A process counts as
    ours when it is in a recorded group, is not older than it, and runs the recorded program.
    """
    import psutil

    try:
        recorded = json.loads(records.read_text())
        groups = {entry["group"]: entry for entry in recorded}
    except (OSError, ValueError, TypeError, KeyError):
        return 0
    ours = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            entry = groups.get(os.getpgid(process.pid))
            if entry and process.exe() == entry["program"] and process.create_time() >= entry["since"] - 1:
                ours.append(process)
    for process in ours:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(ours, timeout=5)
    records.unlink(missing_ok=True)
    return len(ours)
