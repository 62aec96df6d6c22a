"""The OpenAPI document says what the API does: found out by generated calls, right ones and wrong ones."""

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter

import hypothesis
import jsonschema
import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from django.utils.timezone import now
from hypothesis import HealthCheck, Phase
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from tests import factories
from tests.api.conftest import NOTE, Caller, a_body
from tests.stack import ROOT, running

SEED = int(os.environ.get("API_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
EXAMPLES = 50
# A schema cannot say "one of these parameters", nor how many decimals which currency has; and the key that these calls
# carry is no generated one.
UNCHECKED = [positive_data_acceptance, ignored_auth]
OPERATIONS = ("requestPayment", "findPayments", "getPayment")


@pytest.fixture
def document(client, db):
    return client.get("/openapi.json").json()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["right", "wrong"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_the_api_keeps_to_its_document(client_of_merchant, name, mode):
    """No 5xx, and no status, content type, header or shape that the document does not know (K07)."""
    print(f"seed: {SEED} (repeat with API_SEED={SEED})")
    schema = schemathesis.openapi.from_wsgi("/openapi.json", get_wsgi_application())
    strategy = schema.find_operation_by_id(name).as_strategy(generation_mode=mode)
    known = factories.a_payment(client_of_merchant, at=now()).pk
    seen: Counter[int] = Counter()

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @hypothesis.given(case=strategy)
    def call(case):
        if mode is GenerationMode.POSITIVE:
            _lead_on(case, known, number=seen.total())
        response = case.call(headers={"Authorization": f"Bearer {client_of_merchant.key}"})
        seen[response.status_code] += 1
        case.validate_response(response, excluded_checks=UNCHECKED)

    call()

    print(name, dict(seen))
    assert sum(seen.values()) >= 20


def _lead_on(case, known: str, *, number: int) -> None:
    """Let every right call name a known payment, and every second one ask for what the rules between fields allow."""
    if "payment_id" in case.path_parameters:
        case.path_parameters["payment_id"] = known
    if isinstance(case.body, dict) and number % 2:
        allowed = {"amount": 12.5, "currency": "CNY", "channel": None, "replaces": None, "orderNo": f"A-{number}"}
        case.body |= allowed | {"idempotencyKey": f"key-{number}"}
        case.headers.pop("Idempotency-Key", None)


def test_the_document_is_valid_openapi_3_1(document):
    schemathesis.openapi.from_dict(document).validate()
    assert document["openapi"].startswith("3.1")
    assert {operation["operationId"] for path in document["paths"].values() for operation in path.values()} == set(
        OPERATIONS
    )


def test_the_request_of_the_note_is_valid_by_the_document(document):
    """PAY-5: and a number that is no amount is not."""
    validator = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/PaymentRequest", "components": document["components"]}
    )

    assert validator.is_valid(json.loads(NOTE))
    assert validator.is_valid(a_body(orderNo="A-1", purpose="für 茶", intended=True))
    for wrong in (
        {"amount": 0},
        {"amount": True},
        {"amount": "1,0"},
        {"currency": "cny"},
        {"purpose": "a\x00"},
        {"x": 1},
    ):
        assert not validator.is_valid(a_body(**wrong)), wrong


def test_patterns_of_the_document_are_understood_by_other_languages(document):
    """No lookaround: Go's and Rust's engines know none."""
    patterns = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', json.dumps(document))

    assert patterns
    assert not [pattern for pattern in patterns if "(?" in pattern]


def test_an_answer_has_the_shape_the_document_gives_it(caller: Caller, document):
    """Amounts are numbers, moments have an offset."""
    validator = jsonschema.Draft202012Validator(
        {"$ref": "#/components/schemas/PaymentBody", "components": document["components"]},
        format_checker=jsonschema.FormatChecker(),
    )

    validator.validate(caller.pay(NOTE).json())
    assert document["components"]["schemas"]["PaymentBody"]["properties"]["amount"]["type"] == "number"


@pytest.mark.django_db(transaction=True)
def test_the_documentation_page_loads_everything_from_here():
    """No asset of it comes from elsewhere: pages work without a way out."""
    with running() as (_, stack):
        collect = [sys.executable, "manage.py", "collectstatic", "--no-input", "--verbosity", "0"]
        subprocess.run(collect, cwd=ROOT, env=stack.environment, check=True)
        stack.web()

        page = stack.http.request("GET", stack.base_url + "/docs")
        assert page.status == 200
        assets = re.findall(r'(?:src|href)="([^"]+)"', page.data.decode())

        assert len(assets) >= 3
        for asset in assets:
            assert asset.startswith("/static/"), asset
            assert stack.http.request("GET", stack.base_url + asset).status == 200, asset
        assert b"/openapi.json" in page.data
        assert not re.search(rb"https?://(?!127\.0\.0\.1)", page.data)
