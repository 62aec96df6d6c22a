import pytest
from payments import confirmation
from payments.models import *
from payments.evidence import *
from tests.factories import *
from payments.models import Payment
from payments import intake, submission

@pytest.mark.django_db(transaction=True)
def test_it(client_of_merchant):
    p = a_payment(client_of_merchant)
    assert p.state == "QUEUED"
    submission.submit_payment(payment_id=p.pk, at=later(seconds=1))
    p.refresh_from_db()
    print(p.state, p.cause)
    p = Payment.objects.get(pk=p.pk)
    c = confirmation.confirm_payment(payment_id=p.pk, evidence=evidence(Outcome.SUCCEEDED, source=Source.NOTIFICATION, at=later(seconds=2)))
    print(c.payment.state, c.payment.cause)
    c = confirmation.confirm_payment(payment_id=p.pk, evidence=evidence(Outcome.SUCCEEDED, at=later(seconds=3)))
    print(c.payment.state, c.payment.cause)
    for h in Payment.history.filter(id=p.pk).order_by("history_id"): print(h.event, h.state, h.cause, h.source, h.evidence, h.reason)
    for e in OutboxEvent.objects.order_by("pk"): print(e.type, e.sequence)
    r = a_request()
    a = intake.accept_payment(client=client_of_merchant, order=r, at=NOW)
    b = intake.accept_payment(client=client_of_merchant, order=r, at=NOW)
    assert a.payment_id == b.payment_id

def test_api(client, client_of_merchant):
    h = {"HTTP_AUTHORIZATION": "Bearer " + client_of_merchant.key}
    body = '{"customerId":"C12345","amount":128.00,"currency":"CNY","paymentToken":"tok_xxxxx","idempotencyKey":"payment-C12345-20260901-01"}'
    r = client.post("/payments", body, content_type="application/json", **h)
    print(r.status_code, r.content.decode(), r.headers)
    r = client.post("/payments", body, content_type="application/json", **h)
    print(r.status_code, r.headers)
    r = client.get(r.headers["Location"], **h)
    print(r.status_code, r.content.decode())
    for bad in [body.replace("128.00","128.001"), body.replace("C12345",""), body.replace('"amount":128.00,',''), body.replace("payment-C","other-C"), body.replace("128.00","129.00"), "{", body.replace("tok_xxxxx","4111111111111111"), body.replace("CNY","XXX"), body.replace("CNY","AUD")]:
        r = client.post("/payments", bad, content_type="application/json", **h)
        print(r.status_code, r.content.decode())
    r = client.get("/payments?customerId=C12345", **h); print(r.content.decode())
    r = client.get("/openapi.json"); print(r.status_code, r.content.decode()[:600])
