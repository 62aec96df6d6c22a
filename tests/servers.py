"""PostgreSQL and Valkey for the tests, started before the settings are read; a pytest plugin (`-p tests.servers`).

With DATABASE_URL and REDIS_URL in the environment the tests use those servers instead.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from config.embedded import EmbeddedPostgres, EmbeddedValkey

FAST = {"fsync": "off", "full_page_writes": "off"}  # a crash of a test server loses nothing anybody wants

servers: list[EmbeddedPostgres | EmbeddedValkey] = []
_place: Path | None = None


def _start() -> None:
    """Start what the environment does not name. Workers of a parallel run inherit the addresses."""
    global _place
    os.environ["COUNTINGHOUSE_ENV"] = "test"
    os.environ["DATABASE_KEEP_IDLE"] = "0"  # a test database is dropped only when nobody holds on to it
    if "DATABASE_URL" in os.environ and "REDIS_URL" in os.environ:
        return
    _place = Path(tempfile.mkdtemp(prefix="ch-test-", dir="/tmp"))
    os.chmod(_place, 0o755)  # the database's own user must reach its directory below
    postgres = EmbeddedPostgres(_place / "postgres", _place / "pg", settings=FAST)
    valkey = EmbeddedValkey(_place / "valkey", _place / "kv")
    servers.extend([postgres, valkey])
    for server in servers:
        server.start()
    for server in servers:
        server.wait_ready()
    os.environ["DATABASE_URL"] = postgres.url("postgres")
    os.environ["BROKER_URL"] = valkey.urls().broker
    os.environ["CACHE_URL"] = valkey.urls().cache
    os.environ["REDIS_URL"] = valkey.urls().broker


_start()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    for server in reversed(servers):
        server.stop()
    if _place is not None:
        shutil.rmtree(_place, ignore_errors=True)
