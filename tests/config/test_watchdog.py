"""K02: a worker that takes nothing while messages wait is ended; a busy or idle one is left alone."""

import pytest
from celery import Celery

from config.watchdog import Watchdog


@pytest.fixture
def app(request):
    """A Celery application on the test broker with a queue of its own."""
    from django.conf import settings

    app = Celery("watched", broker=settings.BROKER_URL)
    app.conf.update(task_default_queue=f"watched-{request.node.name[:40]}", broker_connection_timeout=1)
    app.amqp.queues.select_add(app.conf.task_default_queue)
    with app.connection_for_write() as connection:
        connection.channel().queue_declare(app.conf.task_default_queue)
    return app


def waiting(app):
    app.send_task("some.task")


def test_messages_that_wait_for_an_idle_worker_mean_that_it_is_stuck(app):
    dog = Watchdog(app, patience_s=0)
    assert not dog.is_stuck()

    waiting(app)

    assert dog.is_stuck()


def test_a_worker_that_has_just_taken_one_is_not_stuck(app):
    dog = Watchdog(app, patience_s=30)
    waiting(app)

    assert not dog.is_stuck()


def test_a_worker_busy_with_a_long_task_is_not_stuck(app):
    dog = Watchdog(app, patience_s=0)
    waiting(app)
    dog.took(+1)
    assert not dog.is_stuck()

    dog.took(-1)
    assert dog.is_stuck()


def test_without_a_broker_nobody_is_to_blame():
    app = Celery("watched", broker="redis+socket:///nowhere/valkey.sock")
    app.conf.update(broker_connection_timeout=1, broker_transport_options={"socket_connect_timeout": 1})

    assert not Watchdog(app, patience_s=0).is_stuck()
