import select

from django.db.backends.postgresql import base


class DatabaseWrapper(base.DatabaseWrapper):
    """Whether a kept connection still stands is seen from its socket: on one at rest there is nothing to read until the
    server hangs up. Django's own check is a query, one more round trip in each request."""

    def is_usable(self) -> bool:
        if self.connection is None or self.connection.closed:
            return False
        socket = select.poll()
        socket.register(self.connection.fileno(), select.POLLIN)
        return not socket.poll(0)
