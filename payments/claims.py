"""Claiming due payments for a channel: a lease in the row, within the channel's rate, whoever else claims."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from .models import Channel
from .permits import take_permits


@dataclass(frozen=True, slots=True)
class DueWork:
    """One kind of due work on payments, as the fixed parts of its claim statement.

    :ivar due_column: the column with the due time
    :ivar condition: which payments it is about
    :ivar marks: what a claim writes beside the lease
    """

    due_column: str
    condition: str = "TRUE"
    marks: str = ""

    def claim(self, *, channel: Channel, limit: int, at: datetime, until: datetime) -> list[str]:
        """Lease up to `limit` due payments until `until` and return their ids. A lease that is lost comes due again.

        Only as many as the channel's rate permits now are claimed; the rest stays due.
        """
        chosen = f"""
            SELECT id FROM payments_payment
            WHERE {self.condition} AND {self.due_column} <= %(at)s AND channel_id = %(channel)s
            ORDER BY {self.due_column}, id LIMIT %(limit)s
        """
        values: dict[str, Any] = {"at": at, "until": until, "channel": channel.pk, "limit": limit}
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM ({chosen}) AS due", values)
            due = cursor.fetchone()[0]
            permitted = take_permits(channel=channel, wanted=due) if due else 0
            if not permitted:
                return []
            cursor.execute(
                f"UPDATE payments_payment SET {self.due_column} = %(until)s{self.marks} "
                f"WHERE id IN ({chosen} FOR UPDATE SKIP LOCKED) RETURNING id",
                values | {"limit": permitted},
            )
            return [row[0] for row in cursor.fetchall()]
