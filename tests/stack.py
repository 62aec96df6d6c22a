"""Real processes for tests that need them: the sandbox bank, web server, workers and beats on the test's database."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import urllib3
from django.db import connection

ROOT = Path(__file__).resolve().parents[1]
T = TypeVar("T")


def wait_for(condition: Callable[[], T], *, seconds: float = 30, what: str = "the condition", every: float = 0.02) -> T:
    """Return the first true answer of a condition; fail when none comes in time."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        pause.wait(every)
    raise AssertionError(f"{what} did not come about in {seconds} s")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class SandboxBank:
    """One sandbox bank process with its controls."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        self.store, self.arguments = directory / "sandbox.sqlite3", arguments
        self.http = urllib3.PoolManager(retries=False, timeout=10)
        self.port = self.control_port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "sandbox", "--store", str(self.store), "--latency-ms", "5"]
        command += ["--port", str(self.port), "--control-port", str(self.control_port), *self.arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.url, self.control_url = ready["url"], ready["control_url"]
        self.port, self.control_port = (int(url.rsplit(":", 1)[1]) for url in (self.url, self.control_url))

    def control(self, method: str, path: str, body: Any = None) -> Any:
        content = None if body is None else json.dumps(body).encode()
        reply = self.http.request(method, self.control_url + path, body=content)
        assert reply.status < 300, reply.data
        return json.loads(reply.data) if reply.data else None

    def faults(self, *scripts: dict[str, Any]) -> None:
        self.control("POST", "/control/faults", list(scripts))

    def ledger(self, reference: str | None = None) -> list[dict[str, Any]]:
        """What the bank really did with payments."""
        query = f"&reference={quote(reference)}" if reference else ""
        return self.control("GET", f"/ledger?operation=pay{query}")["entries"]  # type: ignore[no-any-return]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


class Stack:
    """The product's processes on the database of the running test."""

    def __init__(self, bank: SandboxBank | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="ch-stack-"))
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        database = connection.settings_dict
        address = os.environ["DATABASE_URL"].rsplit("/", 1)[0]
        self.environment = os.environ | {
            "DATABASE_URL": f"{address}/{database['NAME']}",
            "COUNTINGHOUSE_ENV": "test",
            "DATABASE_KEEP_IDLE": "24",
            "COUNTINGHOUSE_BASE_URL": self.base_url,
            "COUNTINGHOUSE_VAR": str(self.directory),
            "LOG_LEVEL": "WARNING",
            "STATIC_ROOT": str(self.directory / "static"),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.http = urllib3.PoolManager(retries=False, timeout=40, maxsize=200)

    def start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        log = (self.directory / f"{name}.log").open("ab")
        process = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT, env=self.environment, stdout=log, stderr=log, start_new_session=True
        )
        self.processes[name] = process
        return process

    def web(self, *, workers: int = 1) -> None:
        """A production web server; returns when it answers."""
        self.start(
            "web",
            *("-m", "granian", "--interface", "wsgi", "--workers", str(workers), "--blocking-threads", "128"),
            *("--workers-kill-timeout", "3", "--no-ws", "--host", "127.0.0.1", "--port", str(self.port)),
            "config.wsgi:application",
        )
        wait_for(self._web_answers, seconds=60, what="the web server")

    def _web_answers(self) -> bool:
        try:
            return self.http.request("GET", self.base_url + "/healthz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def worker(self, name: str, queues: str = "payments,upkeep") -> None:
        self.start(
            name,
            *(
                "-m",
                "celery",
                "-A",
                "config",
                "worker",
                "-P",
                "threads",
                "-c",
                "16",
                "-Q",
                queues,
                "-n",
                f"{name}@test",
            ),
            *("--without-gossip", "--without-mingle", "--loglevel", "WARNING"),
        )

    def beat(self, name: str = "beat") -> None:
        schedule = str(self.directory / f"{name}-schedule")
        self.start(name, "-m", "celery", "-A", "config", "beat", "-s", schedule, "--loglevel", "WARNING")

    def kill(self, name: str) -> None:
        """End a process and its children as a power cut would."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in self.processes.values():
            os.killpg(process.pid, signal.SIGTERM)
        for name, process in list(self.processes.items()):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                self.kill(name)

    def log(self, name: str) -> str:
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def call(self, method: str, path: str, *, key: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        """An API call; returns status, headers and the decoded body."""
        content = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"} | (headers or {})
        reply = self.http.request(method, self.base_url + path, body=content, headers=sent)
        return reply.status, reply.headers, json.loads(reply.data) if reply.data else None


@contextmanager
def running(*arguments: str) -> Iterator[tuple[SandboxBank, Stack]]:
    """A sandbox bank and an empty stack, both ended afterwards."""
    stack = Stack()
    bank = SandboxBank(stack.directory, *arguments)
    try:
        yield bank, stack
    finally:
        stack.stop()
        bank.stop()
