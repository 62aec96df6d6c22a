"""Who may call, for what, how often, and never for another merchant (K21)."""

import hashlib
import os
import subprocess
import sys
import time

import pytest
from django.core import serializers

from payments import reference_data
from payments.api.authentication import hash_key, new_key
from payments.models import ApiClient, Payment
from tests import factories
from tests.api.conftest import Caller, content_of, nothing_stored, problem_of
from tests.stack import ROOT

CALLS = [("POST", "/payments"), ("GET", "/payments?orderNo=A-1"), ("GET", "/payments/01K3F7D8V6JQ2R9M4A1C5E0NXT")]


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize(
    "header",
    [
        *(
            "",
            "Bearer",
            "Bearer ",
            "Bearer unknown",
            "Bearer chk_unknown",
            "Basic YTpi",
            "Token {key}",
            "{key}",
            "Bearer{key}",
        ),
        *(
            "Bearer {key}x",
            "Bearer x{key}",
            "Bearer {key},{key}",
            "Bearer \x00",
            "Bearer \xff\xfe",
            "Bearer " + "x" * 4000,
        ),
        "Bearer {hash}",
    ],
)
def test_without_a_known_key_every_call_is_401_with_a_challenge(caller, method, path, header):
    header = header.replace("{key}", caller.key).replace("{hash}", hash_key(caller.key))

    response = caller.call(method, path, headers={"Authorization": header})

    problem_of(response, 401)
    assert response["WWW-Authenticate"] == 'Bearer realm="countinghouse"'
    assert nothing_stored()


def test_the_scheme_is_read_in_any_case(caller):
    """RFC 9110: schemes are case-insensitive."""
    assert caller.get("/payments?orderNo=A", headers={"Authorization": f"bearer {caller.key}"}).status_code == 200


@pytest.mark.parametrize(
    ("scopes", "allowed"), [(["payments:read"], "GET"), (["payments:write"], "POST"), ([], None), (["console"], None)]
)
def test_a_key_does_only_what_its_scopes_say(merchant, scopes, allowed):
    caller = Caller(factories.an_api_client(merchant=merchant, scopes=scopes).key)

    for method, path in CALLS[:2]:
        response = caller.call(method, path, None if method == "GET" else {})
        if method == allowed:
            assert response.status_code in (200, 400)
        else:
            problem_of(response, 403, "permission_denied")


def test_no_caller_sees_another_merchants_payment(caller, channel):
    """K21, O57: 404 by id, nothing by any search, and nothing to replace."""
    other = Caller(factories.an_api_client(merchant=factories.a_merchant(channel=channel, code="other")).key)
    mine = content_of(caller.pay(orderNo="A-1"))

    problem_of(other.get(f"/payments/{mine['paymentId']}"), 404)
    for query in (
        "orderNo=A-1",
        "customerId=C12345",
        f"idempotencyKey={mine['idempotencyKey']}",
        f"orderNo=A-1&customerId=C12345&after={'7' + 'Z' * 25}",
    ):
        assert content_of(other.get(f"/payments?{query}"))["payments"] == []
    refusal = problem_of(
        other.pay(orderNo="A-1", idempotencyKey="theirs", replaces=mine["paymentId"]), 409, "replacement_refused"
    )
    assert "paymentId" not in refusal
    assert Payment.objects.count() == 1


def test_a_404_does_not_say_whether_another_merchant_has_the_payment(caller, channel):
    """K21."""
    other = Caller(factories.an_api_client(merchant=factories.a_merchant(channel=channel, code="other")).key)
    mine = content_of(caller.pay())["paymentId"]

    foreign, unknown = other.get(f"/payments/{mine}"), other.get("/payments/" + "0" * 26)

    assert foreign.content == unknown.content


def test_waiting_for_another_merchants_payment_is_404_at_once(caller, channel):
    other = Caller(factories.an_api_client(merchant=factories.a_merchant(channel=channel, code="other")).key)
    mine = content_of(caller.pay())["paymentId"]

    problem_of(other.get(f"/payments/{mine}", headers={"Prefer": "wait=25"}), 404)


def test_a_withdrawn_key_is_refused(caller, client_of_merchant):
    assert caller.get("/payments?orderNo=A").status_code == 200
    client_of_merchant.active = False
    client_of_merchant.save(update_fields=["active"])
    reference_data.forget()  # a process remembers a key for five seconds

    problem_of(caller.get("/payments?orderNo=A"), 401)


def test_above_its_rate_a_client_is_told_when_to_come_again(merchant, channel):
    """429 with Retry-After; other clients are not touched."""
    # Counters outlive the test, so this client is a new one to them by its id.
    slow = factories.an_api_client(merchant=merchant, name="slow", rate_per_minute=5, id=time.time_ns() // 1000)
    other = factories.an_api_client(merchant=merchant, name="other")

    answers = [Caller(slow.key).get("/payments?orderNo=A") for _ in range(12)]

    # A window may end in between: then there are five more, never ten above the limit.
    assert 2 <= sum(answer.status_code == 429 for answer in answers) <= 7
    assert [answer.status_code for answer in answers[:5]] == [200] * 5
    last = next(answer for answer in answers if answer.status_code == 429)
    problem_of(last, 429, "throttled")
    assert 1 <= int(last["Retry-After"]) <= 60
    assert Caller(other.key).get("/payments?orderNo=A").status_code == 200


def test_the_counters_client_is_imported_before_any_thread_counts():
    """RUN-1: while the broker's thread imports the same client, the first request of a process must not fail."""
    code = "import django; django.setup(); import payments.api.throttling, sys; print(sys.modules['redis'].__version__)"
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings"}

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)


def test_keys_are_random_and_only_their_hashes_are_kept(client_of_merchant):
    """K21: a copy of the database opens no door."""
    first, second = new_key(), new_key()
    assert first != second
    assert len(first) >= 40

    stored = serializers.serialize("json", ApiClient.objects.all())

    assert client_of_merchant.key not in stored
    assert client_of_merchant.key[len(client_of_merchant.key_hint) :] not in stored
    assert hashlib.sha256(client_of_merchant.key.encode()).hexdigest() in stored


def test_a_made_up_key_is_not_remembered(caller):
    """Made-up keys must not fill the memory of a process."""
    before = len(reference_data._kept)

    for number in range(50):
        caller.get("/payments?orderNo=A", headers={"Authorization": f"Bearer made-up-{number}"})

    assert len(reference_data._kept) <= before


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
def test_health_and_documentation_need_no_key(client, db, path):
    assert client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/payments", "/nowhere"])
def test_every_answer_carries_a_content_security_policy(client, db, path):
    """K21."""
    response = client.get(path)

    assert "frame-ancestors 'none'" in response["Content-Security-Policy"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert "unsafe-inline" not in response["Content-Security-Policy"]


def test_answers_about_payments_are_not_kept_by_anybody_between(caller):
    """K21: a shared cache must not show one merchant's answer to another."""
    response = caller.get(caller.pay()["Location"])

    assert response["Cache-Control"] == "no-store"
