"""PAY-14, K04, K23: killed between any two lines of the submission path, the payment ends as the bank says, sent once."""

import os
import subprocess
import sys
from datetime import timedelta

import pytest
from django.db import connection
from django.utils.timezone import now

from payments import enquiry, submission
from payments.models import Payment
from tests import factories
from tests.stack import ROOT, SandboxBank, wait_for

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(240)]
State = Payment.State


class Crasher:
    """The forking process, with its pipe."""

    def __init__(self):
        address = os.environ["DATABASE_URL"].rsplit("/", 1)[0]
        environment = os.environ | {
            "DATABASE_URL": f"{address}/{connection.settings_dict['NAME']}",
            "DJANGO_SETTINGS_MODULE": "config.settings",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.crash_child"],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def submit(self, payment, *, dying_at):
        self.process.stdin.write(f"{payment.pk} {dying_at}\n")
        fate, executed = self.process.stdout.readline().split()
        return fate, int(executed)

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


@pytest.fixture
def crasher():
    crasher = Crasher()
    yield crasher
    crasher.end()


@pytest.fixture
def bank(tmp_path):
    bank = SandboxBank(tmp_path)
    yield bank
    bank.stop()


@pytest.fixture
def client(bank):
    channel = factories.a_channel(
        settings={"base_url": bank.url, "merchant_id": "M-DEMO", "key_id": "demo-1", "secret_env": "BANK_KEY"},
        connect_timeout_s=1,
        read_timeout_s=1,
    )
    return factories.an_api_client(merchant=factories.a_merchant(channel=channel))


def recover(payment):
    """What a restarted worker does later on: send what is due to be sent, ask about what is due to be asked."""

    def work_on():
        at = now() + timedelta(minutes=14)  # inside the send limit, past every lease
        for payment_id in submission.claim_due(channel=payment.channel, limit=10, at=at):
            submission.submit_payment(payment_id=payment_id, at=at)
        at = now() + timedelta(hours=1)
        for payment_id in enquiry.claim_due(channel=payment.channel, limit=10, at=at):
            enquiry.ask(payment_id=payment_id, at=at)
        payment.refresh_from_db()
        return payment.is_final

    # The database needs a moment to notice that the dead process holds its locks no more.
    wait_for(work_on, seconds=10, what=f"an end of {payment.pk}")


@pytest.mark.parametrize("token", ["tok_success", "tok_drop", "tok_decline"])
def test_a_crash_at_any_line_of_the_submission_path_leaves_the_truth_to_be_found(crasher, client, bank, token):
    crashes = 0
    for line in range(1, 2000):
        payment = factories.a_payment(client, at=now(), payment_token=token)
        fate, _ = crasher.submit(payment, dying_at=line)
        recover(payment)

        entries = bank.ledger(payment.pk)
        taken = [entry for entry in entries if entry["status"] == "SUCCEEDED"]
        told = f"killed before line {line}: {payment.state}/{payment.cause}, bank: {entries}"
        assert payment.state == (State.SUCCEEDED if taken else State.FAILED), told
        assert len(taken) <= 1, told
        assert all(entry["timesReceived"] == 1 for entry in entries), told
        assert payment.history.filter(state=payment.state).count() == 1, told
        if fate == "done":
            break
        crashes += 1
    print(f"{token}: killed before each of {crashes} lines")
    assert crashes > 150, "the path has become suspiciously short"
