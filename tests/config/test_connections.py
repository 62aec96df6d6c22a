"""Threads hand their database connections to each other, and never a broken or busy one."""

import threading

import pytest
from django.db import connection, connections, transaction

from config.database import base

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _keeping(settings):
    """Keep idle connections for the test alone: a test database is dropped only when nobody holds on to it."""
    settings.DATABASE_KEEP_IDLE = 4
    yield
    connection.close()
    while base._idle:
        base._idle.pop().close()


def backend():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]


def in_a_thread(call):
    found = []

    def run():
        found.append(call())
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(10)
    return found[0]


def test_the_next_thread_gets_the_connection_the_last_one_gave_back():
    assert in_a_thread(backend) == in_a_thread(backend)


def test_two_at_a_time_have_two():
    mine = backend()

    assert in_a_thread(backend) != mine


def test_a_connection_the_server_has_ended_is_not_handed_on():
    mine = backend()
    dead = in_a_thread(backend)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 5000)", [dead])

    assert in_a_thread(backend) not in (dead, mine)


def test_a_connection_left_in_the_middle_of_a_transaction_is_not_handed_on():
    def leave():
        transaction.set_autocommit(False)
        return backend()

    left = in_a_thread(leave)

    assert base._idle == []
    assert in_a_thread(backend) != left


def test_no_more_are_kept_than_the_setting_says(settings):
    settings.DATABASE_KEEP_IDLE = 1
    gate = threading.Barrier(3)

    def hold():
        backend()
        gate.wait(10)
        connections.close_all()

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)

    assert len(base._idle) == 1
