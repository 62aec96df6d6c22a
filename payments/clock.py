"""One clock for what is compared across hosts: the database's (RUN-1, clock skew between hosts)."""

from datetime import datetime

from django.db import connection


def database_now() -> datetime:
    """The moment by the database's clock. Whether absence proves anything hangs on the time between sending and asking,
    and these may be done by two hosts."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]  # type: ignore[no-any-return]
