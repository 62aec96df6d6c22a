"""K05, O10: a protected state can be refreshed and checked, and written only by a transition."""

import pytest
from django_fsm import ConcurrentTransition, TransitionNotAllowed

from payments.models import Payment
from tests.factories import NOW, a_payment, later
from tests.together import run_together

pytestmark = pytest.mark.django_db


def submit(payment):
    payment.submit(at=NOW, ask_at=later(seconds=31), query_deadline=later(days=1))
    payment.save()


def test_a_refresh_shows_the_database_s_state(client_of_merchant):
    payment = a_payment(client_of_merchant)
    submit(Payment.objects.get(pk=payment.pk))

    payment.refresh_from_db()
    assert payment.state == "SUBMITTED"

    payment.refresh_from_db(fields=["state"])
    payment.full_clean()
    assert payment.state == "SUBMITTED"


def test_direct_assignment_is_refused_also_after_a_refresh_that_failed(client_of_merchant):
    payment = a_payment(client_of_merchant)
    with pytest.raises(Payment.DoesNotExist):
        Payment(pk="0" * 26).refresh_from_db()

    with pytest.raises(AttributeError):
        payment.state = "SUCCEEDED"


def test_an_undeclared_transition_is_refused(client_of_merchant):
    payment = a_payment(client_of_merchant)

    with pytest.raises(TransitionNotAllowed):
        payment.promote(at=NOW, send_before=NOW)


def test_a_stale_copy_cannot_be_saved_over_a_newer_state(client_of_merchant):
    """O09"""
    stale = a_payment(client_of_merchant)
    submit(Payment.objects.get(pk=stale.pk))

    stale.doubt(cause="NO_ANSWER", at=NOW)
    with pytest.raises(ConcurrentTransition, match="changed by somebody else"):
        stale.save()


@pytest.mark.django_db(transaction=True)
def test_many_threads_refresh_without_opening_the_protection(client_of_merchant):
    payments = [a_payment(client_of_merchant) for _ in range(8)]

    def refresh(payment):
        for _ in range(50):
            payment.refresh_from_db()
        with pytest.raises(AttributeError):
            payment.state = "SUCCEEDED"

    outcomes = run_together(*[lambda p=payment: refresh(p) for payment in payments])

    assert outcomes == [None] * 8
