"""A sandbox bank process for the tests of the sending and asking paths."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import factories
from tests.stack import SandboxBank


@pytest.fixture(scope="module")
def bank_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxBank]:
    bank = SandboxBank(Path(tmp_path_factory.mktemp("bank")))
    yield bank
    bank.stop()


@pytest.fixture
def bank(bank_process: SandboxBank) -> SandboxBank:
    """The bank, with an empty ledger and no faults."""
    bank_process.control("POST", "/control/reset", {})
    return bank_process


@pytest.fixture
def client_at_bank(db: None, bank: SandboxBank):
    """An API client whose channel is the real sandbox bank, with limits short enough to wait for."""
    channel = factories.a_channel(
        settings={"base_url": bank.url, "merchant_id": "M-DEMO", "key_id": "demo-1", "secret_env": "BANK_KEY"},
        connect_timeout_s=1,
        read_timeout_s=1,
    )
    return factories.an_api_client(merchant=factories.a_merchant(channel=channel))
