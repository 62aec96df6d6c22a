"""A unit of work that lost to another transaction is run again as a whole, with fresh reads (K08)."""

import functools
import random
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.db import connection
from django.db.utils import DatabaseError

P = ParamSpec("P")
R = TypeVar("R")

# Serialisation failure, deadlock; lock not available. Source: PostgreSQL, appendix A.
CONFLICTS = frozenset({"40001", "40P01"})
LOCK_NOT_AVAILABLE = frozenset({"55P03"})
TRIES = 5


def sqlstate(error: DatabaseError) -> str:
    """The five-character code of a database error, or an empty text."""
    return getattr(error.__cause__, "sqlstate", None) or ""


def constraint_of(error: DatabaseError) -> str:
    """The name of the constraint that refused, or an empty text."""
    diag = getattr(error.__cause__, "diag", None)
    return getattr(diag, "constraint_name", None) or ""


def repeated_on(codes: frozenset[str]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Retry a function when the database refuses with one of these codes. Inside a transaction it runs once: only the
    outermost unit can be repeated."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            for attempt in range(1, TRIES + 1):
                try:
                    return function(*args, **kwargs)
                except DatabaseError as error:
                    if connection.in_atomic_block or attempt == TRIES or sqlstate(error) not in codes:
                        raise
                    time.sleep(random.uniform(0, 0.05 * attempt))
            raise AssertionError("unreachable")

        return run

    return decorate


whole_unit = repeated_on(CONFLICTS | LOCK_NOT_AVAILABLE)
whole_unit_without_waiting = repeated_on(CONFLICTS)
