"""A real bank process on free ports, a signing merchant, and a receiver of notifications."""

import hashlib
import hmac
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import urllib3

ROOT = Path(__file__).resolve().parents[2]
KEY_ID, SECRET = "demo-1", "sandbox-demo-secret"
DEADLINE_SECONDS = 10


def wait_for(condition, what="the condition"):
    """Return the first true answer of a condition; fail when none comes in time."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        threading.Event().wait(0.01)
    raise AssertionError(f"{what} did not come about in {DEADLINE_SECONDS} s")


def sign(text, secret=SECRET):
    return "v1=" + hmac.new(secret.encode(), text.encode(), hashlib.sha256).hexdigest()


def verifies(headers, body, secret=SECRET):
    """Whether a reply or notification is signed by the bank."""
    digest = hashlib.sha256(body).hexdigest()
    return headers.get("X-Signature") == sign(f"{headers['X-Timestamp']}\n{headers['X-Nonce']}\n{digest}\n", secret)


class Bank:
    """One sandbox process, and a merchant that talks to it."""

    def __init__(self, store, *arguments):
        self.store, self.arguments = store, arguments
        # No retries: a dropped connection must be seen as one.
        self.http = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(DEADLINE_SECONDS), maxsize=50)
        self.start()

    def start(self, port=0, control_port=0):
        command = [sys.executable, "-W", "error", "-m", "sandbox", "--store", str(self.store)]
        command += ["--port", str(port), "--control-port", str(control_port), "--latency-ms", "5", *self.arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SANDBOX_")}
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env=environment)
        ready = json.loads(self.process.stdout.readline())
        self.url, self.control_url = ready["url"], ready["control_url"]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def end(self):
        """Ask it to end, and return its exit code and how long it took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(DEADLINE_SECONDS)
        self.process.stdout.close()
        return code, time.monotonic() - began

    # The merchant

    def headers(self, method, target, body, *, timestamp=None, nonce=None, key_id=KEY_ID, secret=SECRET):
        timestamp, nonce = timestamp or str(int(time.time())), nonce or secrets.token_hex(16)
        text = f"{method}\n{target}\n{timestamp}\n{nonce}\n{hashlib.sha256(body).hexdigest()}\n"
        return {
            "X-Key-Id": key_id,
            "X-Timestamp": timestamp,
            "X-Nonce": nonce,
            "X-Signature": sign(text, secret),
            "Content-Type": "application/json",
        }

    def call(self, method, target, fields=None, **signing):
        body = b"" if fields is None else json.dumps(fields).encode()
        return self.send(method, target, body, self.headers(method, target, body, **signing))

    def send(self, method, target, body, headers, **more):
        return self.http.request(method, self.url + target, body=body or None, headers=headers, **more)

    def pay(self, reference, value="10.00", **fields):
        return self.call("POST", "/v1/payments", payment(reference, value, **fields))

    def query(self, reference, path="payments"):
        return self.call("GET", f"/v1/{path}/{reference}")

    def cancel(self, reference, cancellation):
        return self.call("POST", f"/v1/payments/{reference}/cancel", {"merchantReference": cancellation})

    def refund(self, reference, original, value="10.00", **fields):
        order = payment(reference, value, originalReference=original, **fields)
        del order["paymentToken"]
        return self.call("POST", "/v1/refunds", order)

    def transfer(self, reference, value="10.00"):
        order = payment(reference, value, payeeAccount="6222000", payeeName="王五", payeeBank="ICBC")
        del order["paymentToken"]
        return self.call("POST", "/v1/transfers", order)

    # The control side

    def control(self, method, path, fields=None):
        return self.http.request(method, self.control_url + path, json=fields)

    def fault(self, effects, *, times=None, **match):
        reply = self.control("POST", "/control/faults", {"match": match, "effects": effects, "times": times})
        assert reply.status == 201, reply.data
        return reply.json()["ids"][0]

    def ledger(self, reference=None, operation=None):
        query = "&".join(f"{k}={v}" for k, v in (("reference", reference), ("operation", operation)) if v)
        return self.control("GET", f"/ledger?{query}").json()["entries"]


def payment(reference, value="10.00", *, currency="CNY", token="tok_success", **fields):
    return {
        "merchantId": "M-DEMO",
        "merchantReference": reference,
        "amount": {"value": value, "currency": currency},
        "paymentToken": token,
        "purpose": "订单",
        "requestedAt": "2026-03-01T10:00:00+08:00",
    } | fields


class InboxServer(ThreadingHTTPServer):
    request_queue_size = 200  # a burst of notifications must not wait for a connection to be tried again


class Inbox:
    """Receives notifications; answers as told."""

    def __init__(self):
        self.messages = []
        self.answer = (200, b'{"received":true}')
        inbox = self

        class Receive(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = json.loads(body) | {"signed": verifies(self.headers, body), "at": time.monotonic()}
                inbox.messages.append(message)
                status, answer = inbox.answer
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = InboxServer(("127.0.0.1", 0), Receive)
        self.url = f"http://127.0.0.1:{self.server.server_port}/notify"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def about(self, reference, number=1):
        """Return the messages about a reference once there are as many as asked."""

        def enough():
            found = [message for message in self.messages if message["merchantReference"] == reference]
            return found if len(found) >= number else None

        return wait_for(enough, f"{number} notifications about {reference}")


@pytest.fixture(scope="session")
def shared_bank(tmp_path_factory):
    bank = Bank(tmp_path_factory.mktemp("bank") / "ledger.sqlite3", "--notify-retry-scale", "0.0005")
    yield bank
    bank.kill()


@pytest.fixture
def bank(shared_bank):
    """The shared process with an empty ledger and no faults."""
    assert shared_bank.control("POST", "/control/reset").status == 200
    return shared_bank


@pytest.fixture
def start_bank(tmp_path):
    """Start a process of the test's own, to be killed, ended or set up otherwise."""
    banks = []

    def start(*arguments):
        banks.append(Bank(tmp_path / "ledger.sqlite3", *arguments))
        return banks[-1]

    yield start
    for bank in banks:
        if bank.process.poll() is None:
            bank.kill()


@pytest.fixture
def inbox():
    inbox = Inbox()
    yield inbox
    inbox.server.shutdown()
    inbox.server.server_close()


@pytest.fixture
def until():
    return wait_for


@pytest.fixture
def order():
    """A payment as a body, for tests that send it themselves."""
    return payment


@pytest.fixture
def is_signed():
    return verifies
