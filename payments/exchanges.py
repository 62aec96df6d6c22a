"""Keeping what is said to and by channels, masked, and judging replies by the mapping table (PAY-15)."""

import json
from datetime import datetime

from .channels import ChannelReply, ChannelRequest
from .classification import classify
from .evidence import Evidence, Outcome, Source
from .masking import masked_token, plain, storable
from .models import Attention, ChannelExchange, ChannelHealth, Payment
from .signals import attention_needed

MAX_BODY = 20000


def record_request(
    *, payment: Payment, request: ChannelRequest, at: datetime, actor: str = "system"
) -> ChannelExchange:
    """Store a request before its first byte leaves (PAY-14)."""
    return ChannelExchange.objects.create(
        kind=ChannelExchange.Kind.REQUEST,
        channel_id=payment.channel_id,
        operation=request.operation,
        payment=payment,
        reference=request.reference,
        actor=actor,
        at=at,
        body=_stored(request),
    )


def _stored(request: ChannelRequest) -> str:
    """The body as it may be kept: payment tokens cut, no card number."""
    text = request.body.decode()
    for token in request.tokens:
        text = text.replace(json.dumps(token), json.dumps(masked_token(token), ensure_ascii=False))
    return storable(text, MAX_BODY, keep=(request.reference,))


def record_reply(*, request: ChannelExchange, payment: Payment, reply: ChannelReply, at: datetime) -> Evidence:
    """Store a reply, judge it by the mapping table and return it as evidence. The caller confirms in the same transaction."""
    verdict = None
    if reply.outcome in (Outcome.REFUSED, Outcome.DECLINED):
        verdict = classify(
            adapter=payment.channel.adapter,
            operation=request.operation,
            code=reply.code,
            message=reply.message,
            http_status=reply.http_status if not reply.code else None,
            fields=reply.fields,
        )
    stored = ChannelExchange.objects.create(
        kind=ChannelExchange.Kind.REPLY,
        request=request,
        channel_id=payment.channel_id,
        operation=request.operation,
        payment=payment,
        reference=request.reference,
        actor=request.actor,
        at=at,
        body=storable(reply.raw, MAX_BODY, keep=(request.reference, reply.channel_txn_id)),
        http_status=reply.http_status,
        outcome=reply.outcome,
        code=plain(reply.code, 64),
        message=storable(reply.message, 500),
        classification=verdict.classification if verdict else "",
        channel_txn_id=plain(reply.channel_txn_id, 64),
        latency_ms=reply.latency_ms,
    )
    if reply.code == "OTHER_REFERENCE":
        _raise_crossed(payment=payment, reply=stored, at=at)
    return Evidence(
        source=Source.QUERY if request.operation == "query" else Source.REPLY,
        outcome=reply.outcome,
        at=at,
        reference=f"exchange:{stored.pk}",
        actor=request.actor,
        channel_txn_id=stored.channel_txn_id,
        amount=reply.amount,
        completed_at=reply.completed_at,
        code=stored.code,
        message=stored.message,
        classification=stored.classification,
        mapped=verdict is None or verdict.mapped,
        asked_at=request.at,
    )


def _raise_crossed(*, payment: Payment, reply: ChannelExchange, at: datetime) -> None:
    """A reply that names another reference proves nothing and means that something is crossed: people must know."""
    attention_needed.send(
        sender=ChannelExchange,
        kind=Attention.Kind.REPLY_MISMATCH,
        subject=f"payment:{payment.pk}",
        payment=payment,
        priority=Attention.Priority.P1,
        facts={"reply": f"exchange:{reply.pk}"},
        cause_key=f"reply-mismatch:{payment.pk}",
        at=at,
    )


def note_health(*, channel_id: str, reply: ChannelReply, at: datetime) -> None:
    """Keep when the channel last answered or failed to, at most once a second: the verdict asks whether it is up."""
    answered = reply.http_status is not None and reply.http_status < 500
    column = "answered_at" if answered else "failed_at"
    values = {column: at} | ({} if answered else {"failure": reply.code[:80]})
    known = ChannelHealth.objects.filter(channel_id=channel_id)
    last = known.values_list(column, flat=True).first()
    if last is None:
        ChannelHealth.objects.update_or_create(channel_id=channel_id, defaults=values)
    elif (at - last).total_seconds() >= 1:
        known.update(**values)
