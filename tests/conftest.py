"""What all tests share."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db.backends.postgresql.operations import DatabaseOperations

from payments import reference_data
from tests import factories

# Filled by migrations and never changed by the product's users: a flush keeps them.
REFERENCE_TABLES = {"payments_currency", "payments_errorcoderule", "django_migrations", "django_content_type"}


@pytest.fixture(autouse=True, scope="session")
def _flush_past_the_append_only_rules() -> Iterator[None]:
    """Between tests with real commits, tables are emptied past the triggers that forbid it. Needs a superuser, which
    the product never is; DELETE is ten times faster than TRUNCATE on so many small tables."""
    original = DatabaseOperations.sql_flush

    def flush(self: Any, style: Any, tables: list[str], **kwargs: Any) -> list[str]:
        names = [self.quote_name(table) for table in tables if table not in REFERENCE_TABLES]
        return ["SET LOCAL session_replication_role = replica", *[f"DELETE FROM {name}" for name in names]]

    DatabaseOperations.sql_flush = flush  # type: ignore[method-assign]
    yield
    DatabaseOperations.sql_flush = original  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """No test sees the reference data another one kept in the process."""
    reference_data.forget()
    yield
    reference_data.forget()


@pytest.fixture
def channel(db: None) -> Any:
    return factories.a_channel()


@pytest.fixture
def merchant(channel: Any) -> Any:
    return factories.a_merchant(channel=channel)


@pytest.fixture
def client_of_merchant(merchant: Any) -> Any:
    return factories.an_api_client(merchant=merchant)
