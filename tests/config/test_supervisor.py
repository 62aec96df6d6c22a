"""What bin/run promises: clear refusals, crashes mended, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from config import supervisor
from config.embedded import CHECKOUT, FileLock
from config.processes import GivenUp, Keeper, Program, Terminal, end_leftovers

# A keeper with two programs, one of which has a child of its own; the programs write their pids into files.
KEEPER = """
import os, sys
from pathlib import Path
from signal import SIGTERM
from config.processes import GivenUp, Keeper, Program, Stopped, Terminal
place = Path(sys.argv[1])
def program(name, code):
    return Program(name, [sys.executable, "-c", code, str(place)], place / (name + ".log"), dict(os.environ), place)
SIMPLE = "import os, sys, time; open(sys.argv[1] + '/simple.pid', 'w').write(str(os.getpid())); time.sleep(600)"
FAMILY = '''
import os, signal, subprocess, sys
DEAF = 'import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)'
child = subprocess.Popen([sys.executable, '-c', DEAF])
signal.signal(15, signal.SIG_IGN)
open(sys.argv[1] + '/family.pid', 'w').write(str(os.getpid()))
open(sys.argv[1] + '/child.pid', 'w').write(str(child.pid))
child.wait()
'''
keeper = Keeper(Terminal(), place / "processes.json", grace_seconds=0.5, first_pause_seconds=0.05)
keeper.listen_to_signals()
try:
    keeper.start(program("simple", SIMPLE))
    keeper.start(program("family", FAMILY))
    keeper.wait_for(lambda: (place / "child.pid").exists() and (place / "simple.pid").exists(), timeout=20, what="all")
    print("ready", flush=True)
    keeper.keep_running()
except Stopped:
    print("stopped", flush=True)
finally:
    keeper.stop()
"""


def pid_of(place: Path, name: str) -> int:
    try:
        return int((place / f"{name}.pid").read_text())
    except (OSError, ValueError):
        return 0


def lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def kept(tmp_path):
    """A running keeper in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", KEEPER, str(tmp_path)], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()
    end_leftovers(tmp_path / "processes.json")


def run_supervisor(var: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COUNTINGHOUSE_VAR": str(var)}
    return subprocess.run(
        [sys.executable, "-m", "config.supervisor", *arguments],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@pytest.fixture
def taken_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(kept, tmp_path, number):
    pids = [pid_of(tmp_path, name) for name in ("simple", "family", "child")]
    assert all(lives(pid) for pid in pids)

    kept.send_signal(number)
    output, _ = kept.communicate(timeout=10)

    assert "stopped" in output
    assert not any(lives(pid) for pid in pids)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells a child of its parent's death")
def test_programs_die_with_a_killed_keeper(kept, tmp_path, eventually):
    pids = [pid_of(tmp_path, name) for name in ("simple", "family")]

    kept.kill()

    eventually(lambda: not any(lives(pid) for pid in pids))


def test_the_next_run_ends_what_a_killed_keeper_left(kept, tmp_path):
    child = pid_of(tmp_path, "child")
    kept.kill()
    kept.wait()
    assert lives(child)  # a grandchild is told of nothing

    end_leftovers(tmp_path / "processes.json")

    assert not lives(child)


def test_leftovers_are_not_mistaken_for_a_stranger_with_the_same_number(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    try:
        entry = {"group": stranger.pid, "since": psutil.Process(stranger.pid).create_time(), "program": "/bin/other"}
        (tmp_path / "processes.json").write_text(json.dumps([entry]))

        assert end_leftovers(tmp_path / "processes.json") == 0
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_crashed_program_is_started_again(kept, tmp_path, eventually):
    first, child = pid_of(tmp_path, "family"), pid_of(tmp_path, "child")

    os.kill(first, signal.SIGKILL)

    eventually(lambda: pid_of(tmp_path, "family") not in (0, first) and pid_of(tmp_path, "child") not in (0, child))
    assert not lives(child), "what the crashed program had started is ended too"
    assert kept.stdout.readline() == "family was killed by SIGKILL; it is started again in 0.05 s.\n"


def test_a_program_that_never_starts_ends_everything_with_its_log(tmp_path):
    keeper = Keeper(Terminal(), tmp_path / "processes.json", first_pause_seconds=0.01)
    broken = Program(
        "broken",
        [sys.executable, "-c", "raise SystemExit('no such table')"],
        tmp_path / "broken.log",
        dict(os.environ),
        tmp_path,
    )
    try:
        keeper.start(broken)
        with pytest.raises(GivenUp, match=r"(?s)broken ended with exit code 1, the 5th time.*no such table"):
            keeper.keep_running()
    finally:
        keeper.stop()


def test_a_failed_step_shows_the_end_of_its_log(tmp_path):
    keeper = Keeper(Terminal(), tmp_path / "processes.json")
    step = Program("migrate", [sys.executable, "-c", "1 / 0"], tmp_path / "migrate.log", dict(os.environ), tmp_path)

    with pytest.raises(GivenUp, match=r"(?s)migrate failed\..*ZeroDivisionError"):
        keeper.run(step)


def test_a_taken_port_is_said_before_anything_starts(tmp_path, taken_port):
    refused = run_supervisor(tmp_path, "--port", str(taken_port))

    assert refused.returncode == 1
    assert f"Port {taken_port} on 127.0.0.1 is taken" in refused.stdout
    assert "--port" in refused.stdout
    assert not (tmp_path / "postgres").exists()
    assert not list((tmp_path / "log").iterdir())


def test_a_sandbox_port_that_was_asked_for_and_is_taken_is_refused(taken_port):
    web = supervisor.free_ports(1)[0]

    with pytest.raises(GivenUp, match="--sandbox-port"):
        supervisor.choose_addresses("127.0.0.1", web, taken_port)


def test_the_sandbox_moves_when_its_usual_port_is_taken(taken_port, monkeypatch):
    monkeypatch.setattr(supervisor, "SANDBOX_PORT", taken_port)

    chosen = supervisor.choose_addresses("127.0.0.1", supervisor.free_ports(1)[0], None)

    assert taken_port not in (chosen.sandbox_port, chosen.sandbox_control_port)


def test_a_second_run_on_one_checkout_is_refused(tmp_path):
    lock = FileLock(tmp_path / "supervisor.lock")
    assert lock.acquire()
    lock.note(process=os.getpid(), address="http://127.0.0.1:8000")
    try:
        refused = run_supervisor(tmp_path, "--port", str(supervisor.free_ports(1)[0]))
    finally:
        lock.release()

    assert refused.returncode == 1
    assert f"already runs from this checkout (process {os.getpid()}, http://127.0.0.1:8000)" in refused.stdout


def test_an_address_for_people_is_one_they_can_open():
    assert supervisor.Addresses("0.0.0.0", 80, 1, 2).web == "http://127.0.0.1:80"
    assert supervisor.Addresses("::1", 80, 1, 2).web == "http://[::1]:80"


def test_a_new_static_file_makes_collectstatic_run(tmp_path, monkeypatch):
    monkeypatch.setattr(supervisor, "CHECKOUT", tmp_path)
    (tmp_path / "static").mkdir()
    before = supervisor.static_digest()

    (tmp_path / "static" / "a.css").write_text("a{}")

    assert supervisor.static_digest() != before


def test_the_log_ins_of_the_demo_are_shown_and_their_absence_is_no_error(tmp_path):
    demo = tmp_path / "demo.json"
    assert supervisor.demo_logins(demo) == []

    demo.write_text(json.dumps({"logins": {"ops": {"username": "ops", "password": "s3"}}, "api_keys": {}}))

    assert supervisor.demo_logins(demo) == [("ops", "s3")]
