"""SPL-4: code and text are judged together, the most specific rule wins."""

import pytest

from payments.classification import classify
from payments.models import ErrorCodeRule

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("系统繁忙，请稍后重试", "TRANSIENT"),
        ("系 统 繁 忙", "TRANSIENT"),
        ("收款账户已销户", "STRUCTURAL"),
        ("日切处理中", "TRANSIENT"),
        ("别的原因", "UNKNOWN"),
    ],
)
def test_one_code_has_a_class_for_each_of_its_texts(text, expected):
    assert classify(adapter="bank", operation="pay", code="E0001", message=text).classification == expected


def test_a_code_nobody_has_classified_is_unknown_and_says_so():
    verdict = classify(adapter="bank", operation="pay", code="E7777", message="")

    assert verdict.classification == "UNKNOWN"
    assert not verdict.mapped


def test_the_operation_s_own_rule_comes_before_the_general_one():
    ErrorCodeRule.objects.create(adapter="bank", operation="pay", code="E0006", classification="SUSPECTED")

    assert classify(adapter="bank", operation="pay", code="E0006", message="").classification == "SUSPECTED"
    assert classify(adapter="bank", operation="query", code="E0006", message="").classification == "TRANSIENT"


def test_a_rule_may_look_at_a_field_of_the_reply():
    rule = {"adapter": "bank", "operation": "pay", "code": "E9", "message_contains": "field:fund_change=Y"}
    ErrorCodeRule.objects.create(classification="STRUCTURAL", **rule)

    def found(**fields):
        return classify(adapter="bank", operation="pay", code="E9", message="", fields=fields)

    assert found(fund_change="Y").classification == "STRUCTURAL"
    assert not found(fund_change="N").mapped


def test_every_rule_of_the_shipped_table_is_loaded():
    assert ErrorCodeRule.objects.count() == 728
