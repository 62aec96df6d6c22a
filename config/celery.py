"""The Celery application: messages only wake workers up; what is due stands in the database."""

import os

from celery import Celery

from . import watchdog

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

app = Celery("countinghouse")
app.conf.update(
    timezone="UTC",
    enable_utc=True,
    task_ignore_result=True,
    # A message is only a nudge, so it is acknowledged when it is taken. Late acknowledgement would guard nothing here, and
    # after a lost connection it is sent on a dead channel, which ends the whole worker (seen with Celery 5.7).
    task_acks_late=False,
    task_default_queue="upkeep",
    # Payers' payments have a queue of their own: nothing else stands before them.
    task_routes={"payments.tasks.submit_due": {"queue": "payments"}},
    worker_prefetch_multiplier=1,
    worker_hijack_root_logger=False,
    broker_connection_timeout=1,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    task_publish_retry=False,
    broker_transport_options={
        "socket_connect_timeout": 1,
        "socket_timeout": 2,
        "retry_on_timeout": False,
        "max_retries": 0,
        "visibility_timeout": 150,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
    },
)


@app.on_configure.connect  # type: ignore[misc]
def _from_settings(sender: Celery, **kwargs: object) -> None:
    from django.conf import settings

    sender.conf.update(broker_url=settings.BROKER_URL)


def _tick(task: str, seconds: float) -> dict[str, object]:
    # An unread tick is worth nothing once the next is due; without `expires` a stopped worker meets a flood of them.
    return {"task": f"payments.tasks.{task}", "schedule": seconds, "options": {"expires": max(seconds, 2)}}


app.conf.beat_schedule = {
    "submit-due": _tick("submit_due", 1),
    "query-due": _tick("query_due", 1),
    "apply-notifications": _tick("apply_notifications", 1),
    "dispatch-events": _tick("dispatch_events", 1),
    "cancel-unsent": _tick("cancel_unsent", 5),
    "raise-overdue": _tick("raise_overdue", 5),
    "check-open-things": _tick("check_open_things", 3600),
}
app.autodiscover_tasks()
watchdog.install(app)
