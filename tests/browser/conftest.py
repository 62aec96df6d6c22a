"""One Chromium for all browser tests, a live server, and a person at the console."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests import factories
from tests.ops_console import scenes

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's own loop runs in this thread
PLAIN_STORAGE = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        pytest.fail("The browser tests need Chromium; on Debian and Ubuntu: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _plain_files_and_quick_passwords(settings: Any) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    settings.STORAGES = settings.STORAGES | {"staticfiles": PLAIN_STORAGE}


@pytest.fixture
def bank(monkeypatch: pytest.MonkeyPatch) -> scenes.FakeBank:
    fake = scenes.FakeBank()
    monkeypatch.setattr("payments.submission.adapter_for", lambda channel: fake)
    monkeypatch.setattr("payments.enquiry.adapter_for", lambda channel: fake)
    return fake


@pytest.fixture
def merchant_client(transactional_db: None) -> Any:
    return factories.an_api_client(merchant=factories.a_merchant(channel=factories.a_channel()))


class Person:
    """Somebody at the console: a page, logged in, and what the browser complained about."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.base = base
        self.context = context
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _hear(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and "status of 4" not in text:
            self.complaints.append(text)

    def open(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page


@pytest.fixture
def at_console(chromium: Browser, live_server: Any, transactional_db: None) -> Iterator[Any]:
    """Make persons: `at_console("ops", language="zh-hans", color_scheme="dark")`."""
    contexts = []

    def make(role: str = "ops", *, language: str = "en", **options: Any) -> Person:
        session = Client()
        session.force_login(scenes.a_person(role))
        context = chromium.new_context(**{"viewport": {"width": 1366, "height": 768}, "locale": "en-US"} | options)
        context.set_default_timeout(10_000)
        cookies = {"language": language, "sessionid": session.cookies["sessionid"].value}
        context.add_cookies([{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()])
        contexts.append(context)
        return Person(context, live_server.url)

    yield make
    for context in contexts:
        context.close()
