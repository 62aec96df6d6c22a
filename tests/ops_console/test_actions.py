"""The one door: permission, effect and record together (AUD-2, AUD-3, K20)."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.urls import get_resolver, reverse
from django.utils.timezone import now

from ops_console import actions
from ops_console import urls as console_urls
from ops_console.actions import Action, Effect, perform
from ops_console.errors import NotPermitted, ReasonMissing, TokenMisused, TooOften
from ops_console.models import OperatorAction
from ops_console.people import operator_of
from payments.errors import NothingToAsk
from payments.models import Payment
from tests.ops_console import scenes
from tests.ops_console.test_access import TOKEN, post_ask
from tests.together import run_together

pytestmark = pytest.mark.django_db

# These change nothing of the business and keep nothing of it: everything else must pass the door.
NOT_ACTIONS = {"login", "logout", "display", "me", "find"}


def do(role="ops", action=Action.COPY_WORDS, run=None, **values):
    actor = operator_of(scenes.a_person(role, f"{role}-{uuid4().hex[:6]}"))
    settings = {"target": "payment:X", "at": now(), **values}
    return perform(action=action, actor=actor, run=run or (lambda: Effect("done", {"n": 1})), **settings)


def outcomes():
    return list(OperatorAction.objects.order_by("pk").values_list("outcome", flat=True))


def test_an_action_inside_is_one_row_with_its_effect():
    done = do()

    row = OperatorAction.objects.get()
    assert (row.operation_id, row.outcome, row.detail, row.role) == (done.operation_id, "DONE", {"n": 1}, "ops")


def test_an_effect_that_breaks_off_leaves_no_record_of_success():
    def breaks():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        do(run=breaks)

    assert outcomes() == []


@pytest.mark.django_db(transaction=True)
def test_an_action_outside_is_recorded_before_and_after_and_spans_no_transaction():
    inside = []

    do(action=Action.ASK_BANK, run=lambda: Effect(inside.append(connection.in_atomic_block) or "x"))

    assert inside == [False]
    assert outcomes() == ["STARTED", "DONE"]
    assert len(set(OperatorAction.objects.values_list("operation_id"))) == 1


@pytest.mark.django_db(transaction=True)
def test_a_crash_outside_is_recorded():
    def breaks():
        raise RuntimeError

    with pytest.raises(RuntimeError):
        do(action=Action.ASK_BANK, run=breaks)

    assert outcomes() == ["STARTED", "FAILED"]


def test_refusals_are_recorded():
    def refuses():
        raise NothingToAsk

    with pytest.raises(NothingToAsk):
        do(action=Action.ASK_BANK, run=refuses)
    with pytest.raises(NotPermitted):
        do("auditor", Action.ASK_BANK)
    with pytest.raises(ReasonMissing):
        do(action=Action.UNMASK, reason="  ")

    assert outcomes() == ["STARTED", "REFUSED", "DENIED", "REFUSED"]


def test_one_person_asks_at_most_twenty_times_a_minute():
    actor = operator_of(scenes.a_person("ops"))
    values = {"action": Action.ASK_BANK, "actor": actor, "target": "payment:X", "run": lambda: Effect(1)}
    at = now()
    for _ in range(20):
        perform(**values, at=at)

    with pytest.raises(TooOften):
        perform(**values, at=at)

    perform(**values, at=at + timedelta(seconds=61))


def test_a_token_belongs_to_one_operation():
    actor = operator_of(scenes.a_person("ops"))
    token = uuid4()
    values = {"actor": actor, "run": lambda: Effect(1), "at": now(), "token": token}
    first = perform(action=Action.COPY_WORDS, target="payment:X", **values)

    again = perform(action=Action.COPY_WORDS, target="payment:X", **values)
    with pytest.raises(TokenMisused):
        perform(action=Action.COPY_WORDS, target="payment:Y", **values)

    assert again.repeated
    assert again.operation_id == first.operation_id
    assert outcomes() == ["DONE"]


def test_card_numbers_in_a_reason_are_hidden():
    do(action=Action.UNMASK, reason="card 4111 1111 1111 1111 was named")

    assert OperatorAction.objects.get().reason == "card ************1111 was named"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ops_console_operatoraction SET reason = 'other'",
        "DELETE FROM ops_console_operatoraction",
        "TRUNCATE ops_console_operatoraction",
    ],
)
def test_the_record_cannot_be_changed_by_sql(statement):
    do()

    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert outcomes() == ["DONE"]


@pytest.mark.django_db(transaction=True)
def test_a_double_click_asks_once(client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    before = len(bank.asked)
    client = Client()
    client.force_login(scenes.a_person("ops"))

    answers = run_together(lambda: post_ask(client, payment), lambda: post_ask(client, payment))

    assert len(bank.asked) - before == 1
    assert [answer.status_code for answer in answers] == [302, 302]
    assert outcomes() == ["STARTED", "DONE"]


def test_the_same_form_again_shows_the_first_result(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    bank.replies = [scenes.success(payment.amount)]
    post_ask(ops, payment)

    again = post_ask(ops, payment, follow=True)

    assert "asked once already by this form" in again.content.decode()
    assert "Succeeded" in again.content.decode()
    assert outcomes() == ["STARTED", "DONE"]


def test_a_stale_page_does_nothing_and_says_what_changed(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    shown = payment.revision
    scenes.asked(payment, scenes.decline())
    before = len(bank.asked)

    answer = post_ask(ops, payment, revision=shown)

    page = answer.content.decode()
    assert answer.status_code == 409
    assert "The payment has changed since this page was shown" in page
    assert "Failed, no money moved" in page.partition('id="notice"')[2].partition("</div></div>")[0]
    assert len(bank.asked) == before
    assert OperatorAction.objects.last().detail == {"code": "page_stale"}


def test_asking_too_soon_is_refused_in_place(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    post_ask(ops, payment)

    answer = post_ask(ops, payment, token=str(uuid4()))

    assert answer.status_code == 429
    assert "The bank was asked moments ago" in answer.content.decode()


def test_a_payment_that_was_never_sent_cannot_be_asked_about(ops, client_of_merchant, bank):
    payment = scenes.never_sent(client_of_merchant)

    answer = post_ask(ops, payment)

    assert answer.status_code == 409
    assert "there is nothing to ask the bank" in answer.content.decode()
    assert bank.asked == []


def test_the_answer_moves_the_payment_and_stands_in_the_timeline(ops, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)
    bank.replies = [scenes.success(payment.amount)]

    answer = post_ask(ops, payment, headers={"HX-Request": "true"})

    page = answer.content.decode()
    assert Payment.objects.get(pk=payment.pk).state == "SUCCEEDED"
    assert page.lstrip().startswith('<div id="answer"')
    assert "The bank was asked and answered" in page
    assert "Asked the bank from the console" in page


def test_silence_is_not_called_an_answer(ops, client_of_merchant, bank):
    payment = scenes.declined(client_of_merchant)

    page = post_ask(ops, payment, follow=True).content.decode()

    assert "gave no readable answer" in page
    assert "answered" not in page.partition('id="notice"')[2].partition("</div></div>")[0]


@pytest.mark.parametrize(("token", "revision"), [("", "1"), ("x", "1"), (TOKEN, ""), (TOKEN, "-1"), (TOKEN, "9" * 30)])
def test_a_form_without_its_token_or_revision_does_nothing(ops, client_of_merchant, bank, token, revision):
    payment = scenes.unknown(client_of_merchant)
    before = len(bank.asked)

    answer = ops.post(reverse("ops_console:ask_bank", args=[payment.pk]), {"token": token, "revision": revision})

    assert answer.status_code == 422
    assert len(bank.asked) == before


def test_copying_the_words_is_recorded(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)

    answer = ops.post(reverse("ops_console:copied", args=[payment.pk]), {"language": "zh"})

    row = OperatorAction.objects.get()
    assert answer.status_code == 204
    assert (row.action, row.target, row.detail["language"]) == ("copy_words", f"payment:{payment.pk}", "zh")


class _Reached(Exception):
    pass


def test_every_post_route_passes_the_door(client_of_merchant, monkeypatch):
    payment = scenes.queued(client_of_merchant)
    client = Client()
    client.force_login(scenes.a_person("admin"))

    def reached(**kwargs):
        raise _Reached

    monkeypatch.setattr(actions, "perform", reached)
    values = {"token": TOKEN, "revision": "1", "reason": "why", "language": "zh", "filter": ""}
    walked = 0
    for pattern in console_urls.urlpatterns:
        methods = getattr(pattern.callback, "methods", ("GET", "POST"))
        if "POST" not in methods or pattern.name in NOT_ACTIONS:
            continue
        walked += 1
        args = [payment.pk] if "payment_id" in str(pattern.pattern) else []
        with pytest.raises(_Reached):
            client.post(reverse(f"ops_console:{pattern.name}", args=args), values)
    assert walked == len(Action)


def test_no_address_of_the_console_is_outside_this_walk():
    prefixes = [p for p in get_resolver().url_patterns if getattr(p, "app_name", None) == "ops_console"]

    assert len(prefixes) == 1
    assert {pattern.name for pattern in console_urls.urlpatterns} >= NOT_ACTIONS
