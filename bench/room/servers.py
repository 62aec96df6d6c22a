"""A room for one measurement: PostgreSQL and Valkey in a temporary directory, web servers beside them.

Everything in the room ends with it, also after Ctrl-C, SIGTERM or a closed terminal.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import psycopg

from config.embedded import EmbeddedPostgres, EmbeddedValkey, dying_with_parent, postgres_program, tail

ROOT = Path(__file__).resolve().parents[2]
# What a payment is worth: a commit is on disk before it is answered.
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}
DATABASE = "countinghouse"


@dataclass
class WebServer:
    """One granian with its workers."""

    name: str
    port: int
    process: subprocess.Popen[bytes]
    log_file: Path

    def wait_ready(self, path: str, seconds: float = 60) -> None:
        """Return when it answers below 500."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", path)
                if connection.getresponse().status < 500:
                    return
            except (OSError, HTTPException):
                time.sleep(0.05)
            finally:
                connection.close()
        raise RuntimeError(f"{self.name} did not answer. The end of its log:\n{tail(self.log_file)}")

    def cpu_seconds(self) -> float:
        """Processor time its processes have used so far."""
        return _cpu_seconds(self.process.pid)


class Room:
    """The servers of a measurement, and the environment that leads the product to them."""

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ch-bench-", dir="/tmp"))
        self.directory.chmod(0o755)  # the database's own user must reach its directory below
        self.postgres = EmbeddedPostgres(
            self.directory / "postgres", self.directory / "pg", settings={**DURABLE, **(settings or {})}
        )
        self.valkey = EmbeddedValkey(self.directory / "valkey", self.directory / "kv")
        self._webs: list[WebServer] = []
        self.environment = os.environ | {
            "COUNTINGHOUSE_ENV": "demo",
            "COUNTINGHOUSE_VAR": str(self.directory),
            "DATABASE_URL": self.postgres.url(DATABASE),
            "BROKER_URL": self.valkey.urls().broker,
            "CACHE_URL": self.valkey.urls().cache,
            "STATIC_ROOT": str(self.directory / "static"),
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }

    def __enter__(self) -> Self:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _end)
        try:
            for server in (self.postgres, self.valkey):
                server.start()
            for server in (self.postgres, self.valkey):
                server.wait_ready()
            self.postgres.create_database(DATABASE)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for web in self._webs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(web.process.pid, signal.SIGTERM)
        for web in self._webs:
            with contextlib.suppress(subprocess.TimeoutExpired):
                web.process.wait(6)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(web.process.pid, signal.SIGKILL)
            web.process.wait()
        for server in (self.valkey, self.postgres):
            server.stop(15)
            server.destroy()
        shutil.rmtree(self.directory, ignore_errors=True)

    def web(self, name: str, application: str, *, workers: int = 2, **environment: str) -> WebServer:
        """Start a web server the way bin/run does; `wait_ready` tells when it answers."""
        port, log_file = _free_port(), self.directory / f"{name}.log"
        size = ["--workers", str(workers), "--blocking-threads", "128", "--workers-kill-timeout", "3", "--no-ws"]
        command = [sys.executable, "-m", "granian", "--interface", "wsgi", *size, "--port", str(port), application]
        with log_file.open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dying_with_parent(signal.SIGTERM),
            )
        web = WebServer(name, port, process, log_file)
        self._webs.append(web)
        return web

    def django(self, *arguments: str, **environment: str) -> str:
        """Run a management command to its end and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "django", *arguments],
            cwd=ROOT,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def connect(self, database: str = DATABASE) -> psycopg.Connection:
        """An autocommit connection of our own."""
        return psycopg.connect(self.postgres.conninfo(database), autocommit=True, application_name="bench")

    def database_cpu_seconds(self) -> float:
        """Processor time PostgreSQL's processes have used so far. What ended meanwhile is in its parent's account."""
        assert self.postgres.pid is not None
        return _cpu_seconds(self.postgres.pid)

    def pgbench(self, script: str, *, clients: int, seconds: float, database: str = DATABASE) -> float:
        """Run one script over and over by clients without Python; returns transactions per second."""
        file = self.directory / "script.sql"
        file.write_text(script)
        size = ["-n", "-M", "simple", "-c", str(clients), "-j", "2", "-T", str(max(1, round(seconds)))]
        place = ["-h", str(self.postgres.socket_dir), "-U", "postgres", database]
        command = [str(postgres_program("pgbench")), *size, "-f", str(file), *place]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
        if done.returncode or found is None:
            raise RuntimeError(f"pgbench failed:\n{done.stdout}{done.stderr}")
        return float(found.group(1))


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _cpu_seconds(pid: int) -> float:
    """Of a process and its children, living and waited for."""
    total = 0.0
    process = psutil.Process(pid)
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.Error):
            times = one.cpu_times()
            total += times.user + times.system
            if one is process:
                total += times.children_user + times.children_system
    return total


def machine() -> str:
    """What the figures were measured on, in one line."""
    names: Sequence[str] = ()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = psutil.virtual_memory().total / 2**30
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{psutil.cpu_count()} × {names[0] if names else 'processor'}, {memory:.0f} GiB, Python {python}"
