"""Whether this process is up, and whether it can do its work (RUN-3)."""

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.utils.timezone import now

from payments.models import InboundNotification, OutboxEvent, Payment


def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Database reachable, migrations applied, and how old the oldest due work is: progress, not process, is health."""
    try:
        executor = MigrationExecutor(connection)
        missing = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
        oldest = _oldest_due()
    except Error as error:
        return JsonResponse({"status": "unavailable", "database": type(error).__name__}, status=503)
    ready = missing == 0
    content = {"status": "ok" if ready else "unavailable", "migrationsMissing": missing, "oldestDueSeconds": oldest}
    return JsonResponse(content, status=200 if ready else 503)


def _oldest_due() -> dict[str, int]:
    at = now()
    due = {
        "submissions": Payment.objects.filter(state=Payment.State.QUEUED, submit_due_at__lte=at).order_by(
            "submit_due_at"
        ),
        "queries": Payment.objects.filter(next_query_at__lte=at).order_by("next_query_at"),
        "notifications": InboundNotification.objects.filter(due_at__lte=at).order_by("due_at"),
        "events": OutboxEvent.objects.filter(due_at__lte=at).order_by("due_at"),
    }
    columns = {
        "submissions": "submit_due_at",
        "queries": "next_query_at",
        "notifications": "due_at",
        "events": "due_at",
    }
    first = {name: rows.values_list(columns[name], flat=True).first() for name, rows in due.items()}
    return {name: int((at - moment).total_seconds()) if moment else 0 for name, moment in first.items()}
