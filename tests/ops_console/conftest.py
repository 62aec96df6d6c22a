"""People at the console, and a bank that says what it is told."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.ops_console import scenes


@pytest.fixture(autouse=True)
def _plain_files_and_quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    storage = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = settings.STORAGES | {"staticfiles": storage}


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> scenes.FakeBank:
    fake = scenes.FakeBank()
    monkeypatch.setattr("payments.submission.adapter_for", lambda channel: fake)
    monkeypatch.setattr("payments.enquiry.adapter_for", lambda channel: fake)
    return fake


@pytest.fixture
def log_in(db: None) -> Callable[..., Client]:
    """A test client of a new person with this role."""

    def make(role: str | None = "ops", name: str = "") -> Client:
        client = Client()
        client.force_login(scenes.a_person(role, name))
        return client

    return make


@pytest.fixture
def ops(log_in: Callable[..., Client]) -> Client:
    return log_in("ops")
