"""Statements of the hot path: planned once per connection, not with each call."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection


@contextmanager
def prepared_cursor() -> Iterator[Any]:
    """Django's cursor over one that binds in the server, so that a statement it runs again is prepared. Parameters
    need casts where PostgreSQL cannot tell their type. Settings: `prepare_threshold` in DATABASES."""
    with connection.cursor() as cursor:
        cursor.cursor = psycopg.Cursor(connection.connection)
        yield cursor
