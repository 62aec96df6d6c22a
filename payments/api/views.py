"""POST /payments, GET /payments, GET /payments/{id}, POST /notifications/{channel}."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.timezone import now
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from .. import enquiry, intake, notifications, queries, verdict, waiting
from ..channels import adapter_for
from ..errors import InvalidField, NotificationRefused
from ..models import ApiClient, IdempotencyRecord, Payment
from ..reference_data import channel_named
from .bodies import PaymentBody, PaymentPage, Problem, payment_body, read_payment_request
from .problems import answer
from .schema import find_payments_schema, pay_schema, payment_schema

MAX_WAIT_S = 25
MAX_LIMIT = 100
_WAIT = re.compile(r"(?:^|,)\s*wait\s*=\s*([0-9]{1,4})\s*(?:,|;|$)", re.ASCII)
_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}\Z", re.ASCII)


class PaymentsView(APIView):
    """Request payments and find them again."""

    scopes = {"POST": ApiClient.Scope.PAY, "GET": ApiClient.Scope.READ}

    @pay_schema
    def post(self, request: Request) -> Response:
        """Request a payment: 202 while its result is open, 201 when it is final (PAY-5)."""
        wait = _wait_seconds(request)
        order = read_payment_request(request.data, header_key=request.META.get("HTTP_IDEMPOTENCY_KEY"))
        accepted = intake.accept_payment(client=request.auth, order=order, at=now())
        if wait:
            waiting.wait_until_final(payment_id=accepted.payment_id, seconds=wait)
        payment = queries.payment_of_merchant(payment_id=accepted.payment_id, merchant_id=request.auth.merchant_id)
        body = _body(payment, now())
        final = body.status != "PENDING"
        if wait and accepted.new and final:
            _keep_first_answer(payment, body)
        headers = {"Location": f"/payments/{payment.pk}"}
        if not accepted.new:
            headers["Idempotent-Replay"] = "true"
        return Response(body, status=201 if final else 202, headers=headers)

    @find_payments_schema
    def get(self, request: Request) -> Response:
        """Find payments by order number, customer or key, newest first, in pages."""
        named = _query_texts(request, {"orderNo": 255, "customerId": 64, "idempotencyKey": 255, "after": 26})
        if not named.keys() & {"orderNo", "customerId", "idempotencyKey"}:
            raise InvalidField(field="orderNo", reason="Name an orderNo, a customerId or an idempotencyKey.")
        limit = _limit(request)
        page = queries.find_payments(
            merchant_id=request.auth.merchant_id,
            order_no=named.get("orderNo"),
            customer_ref=named.get("customerId"),
            idempotency_key=named.get("idempotencyKey"),
            after=named.get("after"),
            limit=limit,
        )
        at = now()
        following = f"/payments?{urlencode(named | {'limit': limit, 'after': page.after})}" if page.after else None
        return Response(PaymentPage([_body(payment, at) for payment in page.payments], following))


class PaymentView(APIView):
    """One payment."""

    scopes = {"GET": ApiClient.Scope.READ}

    @payment_schema
    def get(self, request: Request, payment_id: str) -> Response:
        """The present truth about a payment. A failed payment whose evidence has aged is asked about again."""
        wait = _wait_seconds(request)
        merchant_id = request.auth.merchant_id
        payment = _own_payment(payment_id, merchant_id)
        if wait and not payment.is_final:
            waiting.wait_until_final(payment_id=payment.pk, seconds=wait)
            payment = _own_payment(payment_id, merchant_id)
        at = now()
        judged = verdict.safe_to_pay_again(payment=payment, at=at)
        if verdict.needs_fresh_answer(payment, judged):
            enquiry.ask_soon(payment=payment, at=at)
        return Response(payment_body(payment, verdict=judged, at=at))


def _own_payment(payment_id: str, merchant_id: int) -> Payment:
    try:
        return queries.payment_of_merchant(payment_id=payment_id, merchant_id=merchant_id)
    except Payment.DoesNotExist:
        raise Http404 from None


def _body(payment: Payment, at: datetime) -> PaymentBody:
    return payment_body(payment, verdict=verdict.safe_to_pay_again(payment=payment, at=at), at=at)


def _keep_first_answer(payment: Payment, body: PaymentBody) -> None:
    """The record keeps the first answer as evidence, also when the caller waited for it (PAY-9)."""
    IdempotencyRecord.objects.filter(payment_id=payment.pk).update(
        response={"paymentId": payment.pk, "status": body.status}, response_status=201, completed_at=now()
    )


def _wait_seconds(request: Request) -> int:
    """Seconds a caller is ready to wait (PAY-6); a longer wish is cut to 25."""
    match = _WAIT.search(request.META.get("HTTP_PREFER", ""))
    return min(int(match.group(1)), MAX_WAIT_S) if match else 0


def _query_texts(request: Request, limits: dict[str, int]) -> dict[str, str]:
    """The named query parameters, each given once, not blank, without control characters.

    :raises InvalidField: naming the parameter
    """
    texts: dict[str, str] = {}
    for name in request.query_params:
        if name not in limits and name != "limit":
            raise InvalidField(field=name[:60], reason="There is no such parameter.")
    for name, longest in limits.items():
        values = request.query_params.getlist(name)
        if len(values) > 1:
            raise InvalidField(field=name, reason="Give it once.")
        if not values:
            continue
        if not values[0].strip() or len(values[0]) > longest or not values[0].isprintable():
            raise InvalidField(field=name, reason=f"Give 1 to {longest} printable characters.")
        texts[name] = values[0]
    if "after" in texts and not _ID.match(texts["after"]):
        raise InvalidField(field="after", reason="Take it from the page before.")
    return texts


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(queries.PAGE))
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_LIMIT):
        raise InvalidField(field="limit", reason=f"Give a whole number from 1 to {MAX_LIMIT}.")
    return int(text)


@csrf_exempt
@require_POST
def notify(request: HttpRequest, channel_code: str) -> HttpResponse:
    """Take a channel's notification: verify, store, answer; nothing slow, and success only after the commit (NTF-1)."""
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
    except NotificationRefused as refusal:
        return _refusal(refusal.status, refusal.code, str(refusal))
    content_type, content = adapter_for(channel).notification_answer()
    return HttpResponse(content, content_type=content_type)


def _headers(request: HttpRequest) -> dict[str, Any]:
    return dict(request.headers)


def _refusal(status: int, code: str, detail: str) -> HttpResponse:
    return answer(Problem(type=f"urn:countinghouse:{code}", title="Refused", status=status, detail=detail, code=code))
