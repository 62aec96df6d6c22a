"""Who may come in, and what each role may do (OPS-8)."""

import pytest
from django.test import Client
from django.urls import reverse

from ops_console.models import OperatorAction
from ops_console.roles import MATRIX, Capability, Role, allows, role_among
from tests.ops_console import scenes

PAGES = ("find", "payments", "attentions", "me")
POSTS_ON_A_PAYMENT = ("ask_bank", "unmask", "copied")

# The documented permission matrix, row by row: support, ops, admin, auditor.
DOCUMENTED = {
    Capability.LOOK_UP: (True, True, True, True),
    Capability.UNMASK: (False, True, True, True),
    Capability.RAW_MESSAGES: (False, True, True, True),
    Capability.ASK_BANK: (True, True, True, False),
}


def test_the_matrix_is_the_documented_one():
    in_code = {capability: tuple(role in MATRIX[capability] for role in Role) for capability in Capability}

    assert in_code == DOCUMENTED


def test_what_is_not_listed_is_denied():
    assert not any(allows(role=None, capability=capability) for capability in Capability)
    assert role_among([]) is None
    assert role_among(["strangers"]) is None
    assert role_among(["ops", "auditor"]) is None  # two roles at once are none
    assert role_among(["strangers", "ops"]) is Role.OPS


@pytest.mark.parametrize("name", PAGES)
def test_a_stranger_is_sent_to_log_in_and_back(client: Client, db, name):
    path = reverse(f"ops_console:{name}")

    answer = client.get(path)

    assert answer.status_code == 302
    assert answer["Location"] == f"{reverse('ops_console:login')}?next={path}"


@pytest.mark.parametrize("name", POSTS_ON_A_PAYMENT)
def test_a_stranger_can_do_nothing(client: Client, client_of_merchant, name):
    payment = scenes.queued(client_of_merchant)

    answer = client.post(reverse(f"ops_console:{name}", args=[payment.pk]))

    assert answer.status_code == 302
    assert reverse("ops_console:login") in answer["Location"]
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("name", PAGES)
def test_every_role_reads_every_page(log_in, role, name):
    assert log_in(role).get(reverse(f"ops_console:{name}")).status_code == 200


@pytest.mark.parametrize("name", PAGES)
def test_without_a_role_a_page_says_so_and_shows_nothing(log_in, name):
    answer = log_in(None).get(reverse(f"ops_console:{name}"))

    assert answer.status_code == 403
    assert "You have no role here yet" in answer.content.decode()


@pytest.mark.parametrize("role", list(Role))
def test_only_roles_with_the_capability_may_ask_the_bank(log_in, client_of_merchant, bank, role):
    payment = scenes.unknown(client_of_merchant)
    before = len(bank.asked)

    answer = post_ask(log_in(role), payment)

    allowed = DOCUMENTED[Capability.ASK_BANK][list(Role).index(role)]
    assert answer.status_code == (302 if allowed else 403)
    assert len(bank.asked) - before == (1 if allowed else 0)
    assert OperatorAction.objects.filter(outcome="DENIED").count() == (0 if allowed else 1)


@pytest.mark.parametrize("role", list(Role))
def test_only_roles_with_the_capability_may_unmask(log_in, client_of_merchant, role):
    payment = scenes.queued(client_of_merchant, customer_ref="CUSTOMER-77")

    answer = log_in(role).post(
        reverse("ops_console:unmask", args=[payment.pk]), {"token": TOKEN, "reason": "caller names another number"}
    )

    allowed = DOCUMENTED[Capability.UNMASK][list(Role).index(role)]
    assert answer.status_code == (200 if allowed else 403)
    assert ("CUSTOMER-77" in answer.content.decode()) is allowed
    record = OperatorAction.objects.get()
    assert (record.outcome, record.reason) == ("DONE" if allowed else "DENIED", "caller names another number")


@pytest.mark.parametrize("role", list(Role))
def test_messages_are_shown_to_roles_with_the_capability_and_masked(log_in, client_of_merchant, bank, role):
    payment = scenes.unknown(client_of_merchant, payment_token="tok_secret_0001", customer_ref="CUSTOMER-77")

    page = log_in(role).get(reverse("ops_console:payment", args=[payment.pk])).content.decode()

    allowed = DOCUMENTED[Capability.RAW_MESSAGES][list(Role).index(role)]
    assert ("merchantReference" in page) is allowed
    assert "tok_secret_0001" not in page
    assert "CUSTOMER-77" not in page


def test_a_denied_control_stays_visible_with_its_reason(log_in, client_of_merchant, bank):
    payment = scenes.unknown(client_of_merchant)

    page = log_in("auditor").get(reverse("ops_console:payment", args=[payment.pk])).content.decode()

    assert "Your role may not ask the bank" in page
    assert 'id="ask" disabled' in page


@pytest.mark.django_db
def test_logging_in_and_out():
    scenes.a_person("ops")
    client = Client()

    refused = client.post(reverse("ops_console:login"), {"username": "ops", "password": "wrong"})
    came_in = client.post(reverse("ops_console:login"), {"username": "ops", "password": scenes.PASSWORD})
    went_out = client.post(reverse("ops_console:logout"))

    assert (refused.status_code, came_in.status_code, went_out.status_code) == (200, 302, 302)
    assert came_in["Location"] == reverse("ops_console:find")
    assert client.get(reverse("ops_console:find")).status_code == 302
    assert client.get(reverse("ops_console:logout")).status_code == 405


@pytest.mark.django_db
def test_forms_need_the_csrf_token(client_of_merchant):
    payment = scenes.queued(client_of_merchant)
    client = Client(enforce_csrf_checks=True)
    client.force_login(scenes.a_person("ops"))

    answers = [client.post(reverse(f"ops_console:{name}", args=[payment.pk])) for name in POSTS_ON_A_PAYMENT]

    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert "This form is too old" in answers[0].content.decode()


def test_pages_stay_in_no_cache(ops, client_of_merchant):
    payment = scenes.queued(client_of_merchant)

    answer = ops.get(reverse("ops_console:payment", args=[payment.pk]))

    assert "no-store" in answer["Cache-Control"]


def test_an_expired_log_in_sends_a_refresh_to_the_log_in_page(client: Client, client_of_merchant):
    payment = scenes.queued(client_of_merchant)

    answer = client.get(reverse("ops_console:payment", args=[payment.pk]), headers={"HX-Request": "true"})

    assert answer["HX-Redirect"].startswith(reverse("ops_console:login"))


def test_a_refresh_after_the_role_was_taken_shows_the_whole_page(log_in, client_of_merchant):
    payment = scenes.queued(client_of_merchant)

    answer = log_in(None).get(reverse("ops_console:payment", args=[payment.pk]), headers={"HX-Request": "true"})

    assert answer["HX-Refresh"] == "true"


TOKEN = "6f1d8f4e-6a1b-4a55-9d0c-3f2f3f3f3f3f"


def post_ask(client: Client, payment, *, token: str = TOKEN, revision: int | None = None, **extra):
    values = {"token": token, "revision": payment.revision if revision is None else revision}
    return client.post(reverse("ops_console:ask_bank", args=[payment.pk]), values, **extra)
