"""POST /payments, GET /payments, GET /payments/{id}, POST /notifications/{channel}."""

import re
from datetime import datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

import msgspec
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.timezone import now
from django.views.decorators.csrf import csrf_exempt
from rest_framework.request import Request

from .. import enquiry, intake, notifications, queries, verdict, waiting
from ..channels import adapter_for
from ..errors import NotificationRefused
from ..models import ApiClient, ChannelHealth, IdempotencyRecord, Payment
from ..reference_data import channel_named
from .authentication import caller
from .bodies import PaymentBody, PaymentPage, PaymentSearch, Problem, payment_body, read_payment_request, read_search
from .dispatch import Answer, MoneyView
from .problems import answer
from .schema import find_payments_schema, pay_schema, payment_schema

MAX_WAIT_S = 25
_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*([0-9]{1,4})\s*(?:,|;|$)", re.ASCII | re.IGNORECASE)


class PaymentsView(MoneyView):
    """Request payments and find them again."""

    http_method_names = ["get", "post", "head"]
    scopes = {"POST": ApiClient.Scope.PAY, "GET": ApiClient.Scope.READ}

    @pay_schema
    def post(self, request: Request) -> Answer:
        """Request a payment: 202 while its result is open, 201 when it is final (PAY-5)."""
        wait = _wait_seconds(request)
        order = read_payment_request(request.data, header_key=request.META.get("HTTP_IDEMPOTENCY_KEY"))
        accepted = intake.accept_payment(client=caller(request), order=order, at=now())
        if wait:
            waiting.wait_until_final(payment_id=accepted.payment_id, seconds=wait)
        payment = None if wait else accepted.alone
        if payment is None:
            payment = queries.payment_of_merchant(
                payment_id=accepted.payment_id, merchant_id=caller(request).merchant_id
            )
        body = _body(payment, now())
        final = body.status != "PENDING"
        if wait and accepted.new and final:
            _keep_first_answer(payment, body)
        headers = {"Location": f"/payments/{payment.pk}"}
        if not accepted.new:
            headers["Idempotent-Replay"] = "true"
        return Answer(body, status=201 if final else 202, headers=headers)

    @find_payments_schema
    def get(self, request: Request) -> Answer:
        """Find payments by order number, customer or key, newest first, in pages."""
        search = read_search(request.query_params)
        page = queries.find_payments(
            merchant_id=caller(request).merchant_id,
            order_no=search.order_no,
            customer_ref=search.customer_id,
            idempotency_key=search.idempotency_key,
            after=search.after,
            limit=search.limit,
        )
        at = now()
        following = _address(msgspec.structs.replace(search, after=page.after)) if page.after else None
        return Answer(PaymentPage(_bodies(page.payments, at), following))


class PaymentView(MoneyView):
    """One payment."""

    http_method_names = ["get", "head"]
    scopes = {"GET": ApiClient.Scope.READ}

    @payment_schema
    def get(self, request: Request, payment_id: str) -> Answer:
        """The present truth about a payment. A failed payment whose evidence has aged is asked about again."""
        wait = _wait_seconds(request)
        merchant_id = caller(request).merchant_id
        payment = _own_payment(payment_id, merchant_id)
        if wait and not payment.is_final:
            waiting.wait_until_final(payment_id=payment.pk, seconds=wait)
            payment = _own_payment(payment_id, merchant_id)
        at = now()
        judged = verdict.answer_for(payment=payment, at=at)
        if verdict.needs_fresh_answer(payment, judged):
            enquiry.ask_soon(payment=payment, at=at)
        return Answer(payment_body(payment, verdict=judged, at=at))


def _own_payment(payment_id: str, merchant_id: int) -> Payment:
    try:
        return queries.payment_of_merchant(payment_id=payment_id, merchant_id=merchant_id)
    except Payment.DoesNotExist:
        raise Http404 from None


def _body(payment: Payment, at: datetime) -> PaymentBody:
    return payment_body(payment, verdict=verdict.answer_for(payment=payment, at=at), at=at)


def _bodies(payments: list[Payment], at: datetime) -> list[PaymentBody]:
    """The answers about a page of payments, with as many queries for one as for a hundred."""
    attempts: dict[str, list[Payment]] = {payment.order_id: [] for payment in payments}
    for attempt in verdict.attempts_of(attempts):
        attempts[attempt.order_id].append(attempt)
    health = ChannelHealth.objects.in_bulk({payment.channel_id for payment in payments})
    bodies = []
    for payment in payments:
        others = [attempt for attempt in attempts[payment.order_id] if attempt.pk != payment.pk]
        judged = verdict.judge(
            payment=payment, order=payment.order, others=others, health=health.get(payment.channel_id), at=at
        )
        bodies.append(payment_body(payment, verdict=judged, at=at))
    return bodies


def _keep_first_answer(payment: Payment, body: PaymentBody) -> None:
    """The record keeps the first answer as evidence, also when the caller waited for it (PAY-9)."""
    IdempotencyRecord.objects.filter(payment_id=payment.pk).update(
        response={"paymentId": payment.pk, "status": body.status}, response_status=201, completed_at=now()
    )


def _address(search: PaymentSearch) -> str:
    """The address that answers this search."""
    given = {name: value for name, value in msgspec.to_builtins(search).items() if value is not None}
    return f"/payments?{urlencode(given)}"


def _wait_seconds(request: Request) -> int:
    """Seconds a caller is ready to wait (PAY-6); a longer wish is cut to 25."""
    match = _WAIT.search(request.META.get("HTTP_PREFER", ""))
    return min(int(match.group(1)), MAX_WAIT_S) if match else 0


@csrf_exempt
def notify(request: HttpRequest, channel_code: str) -> HttpResponse:
    """Take a channel's notification: verify, store, answer; nothing slow, and success only after the commit (NTF-1)."""
    if request.method != "POST":
        refusal = _refusal(405, "method_not_allowed", "Notifications are posted.")
        refusal["Allow"] = "POST"
        return refusal
    channel = channel_named(channel_code)
    if channel is None:
        return _refusal(404, "unknown_channel", "There is no such channel.")
    try:
        body = request.body
    except RequestDataTooBig:
        notifications.count_refusal(channel_code=channel.pk, reason="too long", body=b"", at=now())
        return _refusal(413, "body_too_large", "The notification is too long.")
    try:
        notifications.receive(channel=channel, body=body, headers=_headers(request), at=now())
    except NotificationRefused as error:
        return _refusal(error.status, error.code, str(error))
    content_type, content = adapter_for(channel).notification_answer()
    return HttpResponse(content, content_type=content_type)


def _headers(request: HttpRequest) -> dict[str, Any]:
    return dict(request.headers)


def _refusal(status: int, code: str, detail: str) -> HttpResponse:
    return answer(
        Problem(
            type=f"urn:countinghouse:{code}", title=HTTPStatus(status).phrase, status=status, detail=detail, code=code
        )
    )
