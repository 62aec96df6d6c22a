"""AUD-4: one command tells why this money became this."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.utils.timezone import now

from payments import enquiry, submission
from tests.factories import a_payment

pytestmark = pytest.mark.django_db


def explained(text, **options):
    out = io.StringIO()
    call_command("explain", text, stdout=out, **options)
    return out.getvalue()


@pytest.fixture
def found_out(client_at_bank):
    """A payment whose answer was lost and found by a question."""
    payment = a_payment(client_at_bank, at=now(), payment_token="tok_drop")
    submission.submit_payment(payment_id=payment.pk, at=now())
    enquiry.ask(payment_id=payment.pk, at=now())
    payment.refresh_from_db()
    return payment


def test_the_story_is_told_from_any_id(found_out):
    stories = {
        explained(text)
        for text in (
            found_out.pk,
            found_out.order.order_no,
            found_out.bank_transaction_id,
            found_out.idempotency_key,
            found_out.customer_ref,
        )
    }

    assert len({story.split("safe to pay again")[0] for story in stories}) == 1


def test_it_names_states_exchanges_evidence_and_words_in_order(found_out):
    story = explained(found_out.pk)

    steps = [
        "accepted",
        "submitted",
        "pay_request",
        "pay_reply",
        "pending",
        "query_request",
        "query_reply",
        "succeeded",
    ]
    places = [story.index(f"  {step}") for step in steps]
    assert places == sorted(places)
    assert "NO_REPLY" in story
    assert found_out.bank_transaction_id in story
    assert "您的付款已经成功" in story


def test_raw_messages_are_shown_on_request(found_out):
    assert '"merchantReference"' not in explained(found_out.pk)
    assert '"merchantReference"' in explained(found_out.pk, raw=True)


def test_an_unknown_id_says_what_was_tried(db):
    with pytest.raises(CommandError, match="tried order, transaction, key, customer"):
        explained("nothing-of-that-name")
