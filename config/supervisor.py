"""Start all of Countinghouse on one machine, keep it running, and end all of it with Ctrl-C: bin/run calls this.

python -m config.supervisor [--host 127.0.0.1] [--port 8000] [--sandbox-port 8090] [--fresh] [--verbose]
"""

import argparse
import contextlib
import hashlib
import json
import os
import socket
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGTERM
from typing import Any

from config.embedded import (
    CHECKOUT,
    EmbeddedPostgres,
    EmbeddedServerError,
    EmbeddedValkey,
    FileLock,
    var_dir,
)
from config.processes import GivenUp, Keeper, Program, Runnable, Stopped, Terminal, end_leftovers

SANDBOX_PORT = 8090
START_TIMEOUT_SECONDS = 90
PYTHON = sys.executable


class KeptServer:
    """An embedded server as the keeper sees it: a log under var/log, and SIGKILL as the last word."""

    def __init__(self, server: EmbeddedPostgres | EmbeddedValkey) -> None:
        self.server = server
        self.name = server.title
        self.log_file = server.log_file

    @property
    def pid(self) -> int | None:
        """Return the server's process id."""
        return self.server.pid

    def start(self) -> None:
        """Start it unless it runs, also after a crash."""
        self.server.start()

    def poll(self) -> int | None:
        """Return the exit code once it has ended."""
        return self.server.poll()

    def signal_stop(self) -> None:
        """Ask it for a fast stop."""
        self.server.signal_stop()

    def kill(self) -> None:
        """End it; committed rows are safe."""
        self.server.kill()


@dataclass(frozen=True)
class Addresses:
    """Where people and programs find what runs."""

    host: str
    port: int
    sandbox_port: int
    sandbox_control_port: int

    @property
    def web(self) -> str:
        """The address to type into a browser."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}.get(self.host, self.host)  # noqa: S104
        return f"http://{f'[{host}]' if ':' in host and '[' not in host else host}:{self.port}"

    @property
    def sandbox(self) -> str:
        """The address of the bank that misbehaves on demand."""
        return f"http://127.0.0.1:{self.sandbox_port}"

    @property
    def sandbox_control(self) -> str:
        """Where the bank is told how to misbehave."""
        return f"http://127.0.0.1:{self.sandbox_control_port}"


# Ports


def is_free(host: str, port: int) -> bool:
    """Whether we could listen there and nobody else does."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError:
            return False
    return not accepts(host, port)  # some systems let two listen, one on every address and one on this


def accepts(host: str, port: int) -> bool:
    """Whether somebody listens there."""
    target = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104
    with contextlib.suppress(OSError), socket.create_connection((target, port), timeout=1):
        return True
    return False


def free_ports(count: int) -> list[int]:
    """Return ports nobody uses on the loopback."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def choose_addresses(host: str, port: int, sandbox_port: int | None) -> Addresses:
    """Settle every port before anything starts.

    :raises GivenUp: a port that was asked for is taken, or the address is not ours
    """
    try:
        socket.getaddrinfo(host or None, port, flags=socket.AI_PASSIVE)
    except (OSError, OverflowError):
        raise GivenUp(f"{host}:{port} is not an address to listen on; choose others with --host and --port.") from None
    if not is_free(host, port):
        raise GivenUp(f"Port {port} on {host} is taken or not ours to use; choose another one with --port.")
    wanted = [sandbox_port or SANDBOX_PORT, (sandbox_port or SANDBOX_PORT) + 1]
    taken = [one for one in wanted if one == port or not is_free("127.0.0.1", one)]
    if taken and sandbox_port:
        raise GivenUp(
            f"Port {taken[0]} on 127.0.0.1 is taken, and the sandbox needs it; choose another --sandbox-port."
        )
    if taken:
        wanted = free_ports(2)
    return Addresses(host, port, *wanted)


# The state of var/


def start_over(postgres: EmbeddedPostgres, valkey: EmbeddedValkey) -> None:
    """Delete what earlier runs have stored here: both servers' data, the sandbox's store, the log-ins of the demo."""
    postgres.destroy()
    valkey.destroy()
    for pattern in ("sandbox.sqlite3*", "demo.json", "celerybeat-schedule*"):
        for path in var_dir().glob(pattern):
            path.unlink()


def static_digest() -> str:
    """Return a value that changes when collectstatic has something to do."""
    digest = hashlib.sha256()
    paths = [CHECKOUT / "requirements.txt"]
    for app in [CHECKOUT / "static", *CHECKOUT.glob("*/static")]:
        paths += [path for path in sorted(app.rglob("*")) if path.is_file()]
    for path in paths:
        with contextlib.suppress(OSError):
            found = path.stat()
            digest.update(f"{path.relative_to(CHECKOUT)} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def demo_logins(path: Path) -> list[tuple[str, str]]:
    """Return (user name, password) of the demo's people, as seed_demo wrote them down; empty without a demo."""
    try:
        demo: Any = json.loads(path.read_text())
        return [(str(one["username"]), str(one["password"])) for one in demo["logins"].values()]
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return []


# The run


class Run:
    """One run of the whole product, from free ports to the last process ended."""

    def __init__(self, addresses: Addresses, terminal: Terminal, *, verbose: bool) -> None:
        self.addresses = addresses
        self.terminal = terminal
        self.var = var_dir()
        self.log = self.var / "log"
        self.postgres = EmbeddedPostgres(log_file=self.log / "postgres.log")
        self.valkey = EmbeddedValkey(log_file=self.log / "valkey.log")
        self.keeper = Keeper(terminal, self.var / "processes.json", verbose=verbose)
        self.servers: list[Runnable] = []
        self.programs: list[Runnable] = []
        self.environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "COUNTINGHOUSE_ENV": os.environ.get("COUNTINGHOUSE_ENV", "demo"),
            "COUNTINGHOUSE_VAR": str(self.var),
            "COUNTINGHOUSE_BASE_URL": addresses.web,
            "COUNTINGHOUSE_SANDBOX_URL": addresses.sandbox,
            "COUNTINGHOUSE_SANDBOX_CONTROL_URL": addresses.sandbox_control,
            "PYTHONUNBUFFERED": "1",
            "PYTHONUTF8": "1",
        }

    def start(self) -> None:
        """Start everything and return when it serves.

        :raises GivenUp: something fails; the text says what
        :raises Stopped: somebody asked for the end meanwhile
        """
        sandbox = self._sandbox()
        self._keep(sandbox)
        statics = self._begin_collectstatic()
        self._start_servers()
        self.keeper.run(self._manage("migrate", "migrate", "--no-input"))
        if statics:
            self.keeper.finish(statics)
            self._static_stamp.write_text(static_digest())
        a = self.addresses
        self._wait_for_sandbox()
        self.keeper.run(
            self._manage(
                "seed_demo",
                *(
                    "seed_demo",
                    "--base-url",
                    a.web,
                    "--sandbox-url",
                    a.sandbox,
                    "--sandbox-control-url",
                    a.sandbox_control,
                ),
            )
        )
        for program in (self._beat(), self._worker("upkeep"), self._worker("payments"), self._web()):
            self._keep(program)
        self.keeper.wait_for(self._web_answers, timeout=START_TIMEOUT_SECONDS, what=f"The web server on {a.web}")

    def stop(self) -> None:
        """End everything, the servers after their clients; nothing is left."""
        self.keeper.stop(list(reversed(self.programs)), self.servers)

    def greet(self, seconds: float) -> None:
        """Tell a person where to go."""
        say = self.terminal.say
        say()
        say(f"Countinghouse is ready ({seconds:.1f} s):  {self.addresses.web}", "1;32")
        demo = self.var / "demo.json"
        logins = demo_logins(demo)
        wide = max((len(name) for name, _ in logins), default=0)
        for number, (name, password) in enumerate(logins):
            say(f"  {'' if number else 'Log in as':<12}  {name:<{wide}}  {password}")
        if logins:
            say(f"  API keys      {demo}")
        say(f"  Sandbox bank  {self.addresses.sandbox}   told how to misbehave at {self.addresses.sandbox_control}")
        say(f"  Logs          {self.log}")
        say("  Ctrl-C stops everything.")
        say()

    def _keep(self, program: Program) -> None:
        self.programs.append(program)
        self.keeper.start(program)

    def _start_servers(self) -> None:
        """Start both servers and wait for both, unless the environment names others."""
        postgres = None if os.environ.get("DATABASE_URL") else self.postgres
        elsewhere = os.environ.get("REDIS_URL") or (os.environ.get("BROKER_URL") and os.environ.get("CACHE_URL"))
        valkey = None if elsewhere else self.valkey
        waiting = [server for server in (valkey, postgres) if server]
        for server in waiting:
            kept = KeptServer(server)
            self.servers.append(kept)
            self.keeper.start(kept)
        for server in waiting:
            self.keeper.wait_for(server.answers, timeout=START_TIMEOUT_SECONDS, what=server.title)
        if postgres:
            postgres.create_database()

    def _begin_collectstatic(self) -> Program | None:
        if self._static_stamp.exists() and self._static_stamp.read_text() == static_digest():
            return None
        return self.keeper.begin(self._manage("collectstatic", "collectstatic", "--no-input", "--clear", "-v", "0"))

    @property
    def _static_stamp(self) -> Path:
        return self.var / "static.stamp"

    def _wait_for_sandbox(self) -> None:
        a = self.addresses
        self.keeper.wait_for(
            lambda: accepts("127.0.0.1", a.sandbox_port) and accepts("127.0.0.1", a.sandbox_control_port),
            timeout=START_TIMEOUT_SECONDS,
            what="The sandbox bank",
        )

    def _web_answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.addresses.web}/healthz", timeout=2) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def _program(self, name: str, arguments: Iterable[str], **how: Any) -> Program:
        return Program(
            name=name,
            command=[PYTHON, *arguments],
            log_file=self.log / f"{name}.log",
            environment=self.environment,
            directory=CHECKOUT,
            **how,
        )

    def _manage(self, name: str, *arguments: str) -> Program:
        return self._program(name, ["manage.py", *arguments])

    def _seed_demo(self) -> Program:
        a = self.addresses
        urls = ["--base-url", a.web, "--sandbox-url", a.sandbox, "--sandbox-control-url", a.sandbox_control]
        return self._manage("seed_demo", "seed_demo", *urls)

    def _sandbox(self) -> Program:
        a = self.addresses
        ports = ["--port", str(a.sandbox_port), "--control-port", str(a.sandbox_control_port)]
        store = ["--store", str(self.var / "sandbox.sqlite3"), "--notify-retry-scale", "0.02"]
        return self._program("sandbox", ["-m", "sandbox", "--host", "127.0.0.1", *ports, *store])

    def _web(self) -> Program:
        # Its workers are processes of their own, which only a SIGTERM lets it end.
        size = ["--workers", "2", "--blocking-threads", "128", "--workers-kill-timeout", "3", "--no-ws"]
        address = ["--host", self.addresses.host, "--port", str(self.addresses.port)]
        arguments = ["-m", "granian", "--interface", "wsgi", *size, *address, "config.wsgi:application"]
        return self._program("web", arguments, on_orphaned=SIGTERM)

    def _worker(self, queue: str) -> Program:
        size = ["-P", "threads", "-c", "32", "-Q", queue, "-n", f"{queue}@%h", "--without-gossip", "--without-mingle"]
        return self._program(f"worker-{queue}", ["-m", "celery", "-A", "config", "worker", *size])

    def _beat(self) -> Program:
        schedule = str(self.var / "celerybeat-schedule")
        pid_file = ["--pidfile="]  # a stale one would keep it from starting; ours is the only beat under this lock
        return self._program("beat", ["-m", "celery", "-A", "config", "beat", "-s", schedule, *pid_file])


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run until somebody ends it; return the exit code."""
    started = time.monotonic()
    var = var_dir()
    try:
        (var / "log").mkdir(parents=True, exist_ok=True)
        lock = FileLock(var / "supervisor.lock")
        alone = lock.acquire()
    except PermissionError:
        terminal.fail(f"{var} belongs to another user. Run as that user, or set COUNTINGHOUSE_VAR to another place.")
        return 1
    if not alone:
        noted = lock.noted()
        where = f"process {noted.get('process', '?')}, {noted.get('address', 'still starting')}"
        terminal.fail(f"Countinghouse already runs from this checkout ({where}). End it with Ctrl-C there.")
        return 1
    current: Run | None = None
    try:
        end_leftovers(var / "processes.json")
        addresses = choose_addresses(options.host, options.port, options.sandbox_port)
        lock.note(process=os.getpid(), address=addresses.web)
        current = Run(addresses, terminal, verbose=options.verbose)
        current.keeper.listen_to_signals()
        if options.fresh:
            terminal.say("Deleting the data of earlier runs ...")
            start_over(current.postgres, current.valkey)
        terminal.say("Starting Countinghouse ...")
        current.start()
        current.greet(time.monotonic() - started)
        current.keeper.keep_running()
    except (Stopped, KeyboardInterrupt):
        terminal.say("\nStopping ...")
        return 0
    except (GivenUp, EmbeddedServerError) as refusal:
        terminal.fail(str(refusal))
        return 1
    finally:
        if current:
            current.stop()
        lock.release()
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(prog="bin/run", description="Start Countinghouse; Ctrl-C stops everything.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="port of the web server (default %(default)s)")
    parser.add_argument(
        "--sandbox-port",
        type=int,
        help=f"port of the sandbox bank; the next one controls it (default {SANDBOX_PORT}, or any free one)",
    )
    parser.add_argument("--fresh", action="store_true", help="delete the data of earlier runs and start over")
    parser.add_argument("--verbose", action="store_true", help="show every log line here, not only in var/log")
    return run(parser.parse_args(arguments), Terminal())


if __name__ == "__main__":
    sys.exit(main())
