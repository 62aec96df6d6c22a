"""Django's PostgreSQL backend with connections that threads hand to each other."""

import os
import select
from typing import Any

from django.conf import settings
from django.db.backends.postgresql import base
from psycopg.pq import TransactionStatus

# Idle connections of this process, the last one used first: its statements are prepared and its caches warm. A web process
# has far more threads than work at a time, and a connection for each would be opened in the middle of a burst.
_idle: list[Any] = []
os.register_at_fork(after_in_child=_idle.clear)


class DatabaseWrapper(base.DatabaseWrapper):
    """`close` leaves the connection to the next thread that needs one; with DATABASE_KEEP_IDLE=0 it closes it."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take the idle connection used last, or open one."""
        while _idle:
            try:
                kept = _idle.pop()
            except IndexError:  # another thread was faster
                break
            if kept.info.dbname == conn_params["dbname"] and _stands(kept):
                return kept
            kept.close()
        return super().get_new_connection(conn_params)

    def _close(self) -> None:
        kept = self.connection
        if (
            kept is None
            or len(_idle) >= settings.DATABASE_KEEP_IDLE
            or kept.closed
            or kept.info.transaction_status != TransactionStatus.IDLE
        ):
            super()._close()  # type: ignore[misc]
        else:
            _idle.append(kept)

    def is_usable(self) -> bool:
        """Whether the connection still stands, seen from its socket: Django's own check is a query in each request."""
        return self.connection is not None and _stands(self.connection)


def _stands(connection: Any) -> bool:
    """On a connection at rest there is nothing to read until the server hangs up."""
    if connection.closed:
        return False
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN)
    return not socket.poll(0)
