"""A channel's rate limit, held across all processes by one row (a token bucket on the database's clock)."""

from typing import Any

from django.db import connection

from .models import Channel

# Refill by elapsed time up to one second's worth, then take what is asked for or as much as is there.
_TAKE = """
WITH had AS (
    SELECT channel_id, least(%(rate)s::numeric,
        permits + %(rate)s * greatest(extract(epoch FROM clock_timestamp() - counted_at), 0)) AS permits
    FROM payments_channelpace WHERE channel_id = %(channel)s FOR UPDATE
)
UPDATE payments_channelpace AS pace
SET permits = had.permits - least(floor(had.permits), %(wanted)s), counted_at = clock_timestamp()
FROM had WHERE pace.channel_id = had.channel_id
RETURNING least(floor(had.permits), %(wanted)s)::int
"""
_BEGIN = """
INSERT INTO payments_channelpace (channel_id, permits, counted_at) VALUES (%(channel)s, %(rate)s, clock_timestamp())
ON CONFLICT DO NOTHING
"""


def take_permits(*, channel: Channel, wanted: int) -> int:
    """Take up to `wanted` calls from the channel's limit and return how many may be made now."""
    values: dict[str, Any] = {"channel": channel.pk, "rate": channel.rate_per_s, "wanted": wanted}
    with connection.cursor() as cursor:
        cursor.execute(_TAKE, values)
        if (row := cursor.fetchone()) is None:
            cursor.execute(_BEGIN, values)
            cursor.execute(_TAKE, values)
            row = cursor.fetchone()
    return int(row[0])
