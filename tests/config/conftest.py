"""Servers of our own in a directory that the database's user can enter, and a way to wait for what will be true."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.embedded import EmbeddedPostgres, EmbeddedValkey


def wait_until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Return once the condition holds; it is looked at again and again, not waited for by the clock."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


@pytest.fixture
def eventually() -> Callable[..., None]:
    return wait_until


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A short directory everybody may walk through; pytest's own is closed to the user PostgreSQL runs as."""
    path = Path(tempfile.mkdtemp(prefix="house-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def postgres(place: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(place / "postgres", place / "run", {"fsync": "off"}, lock_patience=5)
    server.start()
    server.wait_ready()
    yield server
    server.destroy()


@pytest.fixture(scope="module")
def valkey(place: Path) -> Iterator[EmbeddedValkey]:
    server = EmbeddedValkey(place / "valkey", place / "run", lock_patience=5)
    server.start()
    server.wait_ready()
    yield server
    server.destroy()
