"""docs/api.md is true to the code: what a caller can meet stands in it."""

import re

import pytest

from payments import errors, verdict
from payments.models import ApiClient, Payment
from payments.words import PublicStatus
from tests.stack import ROOT

TEXT = (ROOT / "docs" / "api.md").read_text()
CODED = set(re.findall(r"`([A-Za-z_-]+)`", TEXT))
# What only operators meet, or what a program raises against itself.
ELSEWHERE = {"NothingToAsk", "AskedJustNow", "NotSupported", "CurrencyMismatch"}


@pytest.mark.parametrize(
    "refusal",
    [
        refusal
        for refusal in vars(errors).values()
        if isinstance(refusal, type) and "code" in vars(refusal) and refusal is not errors.PaymentsError
    ],
    ids=lambda refusal: refusal.__name__,
)
def test_every_refusal_stands_in_the_table_with_its_status(refusal):
    if refusal.__name__ in ELSEWHERE:
        assert refusal.code not in CODED
    else:
        assert re.search(rf"^\| {refusal.status} .*`{refusal.code}`", TEXT, re.MULTILINE), refusal.code


def test_every_state_cause_status_and_scope_is_explained():
    words = {*Payment.State.values, *Payment.Cause.values, *PublicStatus, "CONTRADICTED"}

    assert not {str(word) for word in words} - CODED
    assert all(f"`{scope}`" in TEXT for scope in ApiClient.Scope.values)


def test_every_rule_of_the_verdict_is_named():
    source = (ROOT / "payments" / "verdict.py").read_text()
    rules = set(re.findall(r'Answer\.[A-Z_]+, "([a-z-]+)"', source)) | {"declined", "proven-not-charged"}

    assert len(rules) == 11
    assert not rules - CODED
    assert {str(answer) for answer in verdict.Answer} <= CODED
