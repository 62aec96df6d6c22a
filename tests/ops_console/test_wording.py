"""Every word has both languages (OPS-11)."""

import re
from pathlib import Path

import pytest
from django.utils.translation import override

from ops_console import wording
from ops_console.actions import Action
from ops_console.models import OperatorAction
from ops_console.roles import Capability, Role
from payments import verdict, words
from payments.evidence import Outcome, Source
from payments.models import Attention, ErrorCodeRule, InboundNotification, Order, Payment

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = ROOT / "locale/zh_Hans/LC_MESSAGES/django.po"


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        (wording.STATES, Payment.State),
        (wording.CAUSES, Payment.Cause),
        (wording.ORDER_STATES, Order.State),
        (wording.ATTENTIONS, Attention.Kind),
        (wording.ROLES, Role),
        (wording.CAPABILITIES, Capability),
        (wording.ANSWERS, verdict.Answer),
    ],
)
def test_every_word_of_the_ground_floor_is_listed(listed, said):
    assert set(listed) == {str(word) for word in said}


def test_values_events_and_actions_are_listed():
    values = {*Source, *InboundNotification.State, *OperatorAction.Outcome, *ErrorCodeRule.Classification}
    outcomes = set(Outcome) - {"SUCCEEDED", "CANCELLED"}  # these two are said as states
    assert {str(value) for value in values | outcomes} - {"REFUSED", "FAILED"} <= set(wording.VALUES)
    assert {f"action_{action}" for action in Action} <= set(wording.EVENTS)


def test_every_rule_and_fact_of_the_verdict_is_listed():
    source = Path(verdict.__file__).read_text()

    assert set(re.findall(r'verdict\(Answer\.\w+, "([a-z-]+)"', source)) <= set(wording.RULES)
    assert {"declined", "proven-not-charged"} <= set(wording.RULES)
    assert set(re.findall(r'Fact\(\s*"([a-z-]+)"', source)) == set(wording.EVIDENCE)


def test_every_event_that_is_written_is_listed():
    written = set()
    for path in (ROOT / "payments").glob("*.py"):
        text = path.read_text()
        written |= set(re.findall(r'(?:Trace\(|named\(|_moved\(payment, evidence, )"([a-z_]+)"', text))
        written |= set(re.findall(r'_ended\([^)]*"([a-z_]+)"', text))

    order_only = {"paid", "reopened", "paying"}
    assert written - order_only <= set(wording.EVENTS)
    assert {f"order_{event}" for event in order_only} <= set(wording.EVENTS)


def test_every_listed_word_is_chinese_to_a_chinese_reader():
    own = {name: value for name, value in vars(wording).items() if name != "TAG_WORDS"}
    lists = [value for name, value in own.items() if name.isupper() and isinstance(value, dict)]

    assert len(lists) >= 14
    with override("zh-hans"):
        for words_of in lists:
            for key, word in words_of.items():
                said = [str(part) for part in word] if isinstance(word, tuple) else [str(word)]
                assert all(re.search("[\u4e00-\u9fff]", text) for text in said), key


def test_nothing_is_untranslated():
    entries = CATALOGUE.read_text().split("\n\n")[1:]

    assert len(entries) > 400
    for entry in entries:
        assert "fuzzy" not in entry, entry
        assert not re.search(r'^msgstr(\[0\])? ""$(?!\n")', entry, re.M), entry


def test_the_compiled_catalogue_is_the_written_one():
    import gettext

    with (CATALOGUE.with_suffix(".mo")).open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    for entry in CATALOGUE.read_text().split("\n\n")[1:]:
        found = re.search(r'^msgid "(.+)"\nmsgstr "(.+)"', entry, re.M)
        if found and "msgctxt" not in entry and "\\" not in entry:
            assert compiled.gettext(found[1]) == found[2]


def test_templates_hold_no_text_outside_the_catalogue():
    """Every run of letters between tags is inside a translation, a variable, or a name that is the same everywhere."""
    same_everywhere = {"EN", "English", "Enter", "Copy", "P", "g", "l", "p", "t", "m", "j", "k"}
    for path in (ROOT / "templates").rglob("*.html"):
        text = path.read_text()
        text = re.sub(
            r"{%\s*blocktranslate.*?endblocktranslate\s*%}|<svg.*?</svg>|<code>.*?</code>", "", text, flags=re.S
        )
        text = re.sub(r"{%.*?%}|{{.*?}}", "", text, flags=re.S)
        for run in re.findall(r">([^<>]+)<", text):
            for word in re.findall(r"[A-Za-z]+", run):
                assert word in same_everywhere, (path.name, run.strip())


def test_the_lexicon_is_shown_in_the_readers_language():
    with override("zh-hans"):
        assert wording.tag_word(words.Tag.UNKNOWN) == "结果未知"
        assert str(wording.CAUSES["NO_ANSWER"]) == "没有可读的应答，正在向银行查询"
    with override("en"):
        assert wording.tag_word(words.Tag.UNKNOWN) == "Outcome unknown"


def test_what_comes_from_outside_is_not_translated():
    with override("zh-hans"):
        assert wording.value_word("code", "DECLINED") == "DECLINED"
        assert wording.actor_word("bank") == "bank"
        assert wording.actor_word("user:ada") == "ada"
