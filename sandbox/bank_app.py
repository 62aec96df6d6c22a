"""The bank as its merchants see it: ``/v1/...``, signed both ways, with the faults acted out."""

import asyncio
import json
from http import HTTPStatus
from typing import Any

from aiohttp import web

from sandbox.bank import BANK, Bank, RunningWrite
from sandbox.booking import book_cancel, book_order, not_found_result, result, running_result
from sandbox.clock import now_ms
from sandbox.contract import Order, Refused, check_reference, read_order
from sandbox.effects import Effects
from sandbox.ledger import Entry
from sandbox.listeners import Handler, abort_connection
from sandbox.signing import SignatureRefused, signed_headers, verify_request

# The key a request names, once it is known; its reply is signed with it.
KEY_ID = web.RequestKey("KEY_ID", str)
LARGEST_BODY = 64 * 1024
# A notification follows its reply by this much.
AFTER_REPLY_MS = 20
OTHER_REFERENCE = "SOMEBODY-ELSES-REFERENCE"
BAD_GATEWAY = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
UNAVAILABLE = "<html><head><title>503</title></head><body><h1>503 Service Temporarily Unavailable</h1></body></html>"
LOGIN_PAGE = "<html><head><title>Sign in</title></head><body><form><input name='user'></form></body></html>"


def add_bank_routes(app: web.Application) -> None:
    """Add the calls of the contract to an application."""
    app.middlewares.append(_speak_the_contract)
    for path, write, query in (
        ("/v1/payments", "pay", "query"),
        ("/v1/refunds", "refund", "query_refund"),
        ("/v1/transfers", "transfer", "query_transfer"),
    ):
        app.router.add_post(path, _writing(write))
        app.router.add_get(path + "/{reference}", _querying(query, write), allow_head=False)
    app.router.add_post("/v1/payments/{reference}/cancel", _writing("cancel"))


@web.middleware
async def _speak_the_contract(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals into the contract's replies; during an outage of that kind answer 503 and do nothing."""
    if not request.path.startswith("/v1/"):
        return await handler(request)
    outage = request.app[BANK].port.outage
    if outage is not None and outage.kind == "http_503":
        return web.Response(status=503, text=UNAVAILABLE, content_type="text/html")
    try:
        return await handler(request)
    except Refused as refusal:
        return _signed(request, http=refusal.http, fields={"code": refusal.code, "text": refusal.text})
    except web.HTTPException as error:
        http = 400 if error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else error.status
        return _signed(request, http=http, fields={"code": "E0003", "text": f"报文格式错误 {error.reason}"})


def _writing(operation: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        bank = request.app[BANK]
        body = await _authenticated_body(request, bank)
        payment_reference = request.match_info.get("reference", "")
        if operation == "cancel":
            check_reference(payment_reference, "payment reference in the path")
        order = read_order(
            operation=operation,
            body=body,
            merchant_id=bank.settings.merchant_id,
            key_id=request[KEY_ID],
            payment_reference=payment_reference,
        )
        effects = bank.faults.choose(
            operation=operation,
            reference=order.reference,
            token=order.payment_token,
            other_reference=payment_reference or None,
            at_ms=now_ms(),
        )
        if _stops_before_booking(effects):
            return await _stop_before_booking(request, effects)
        return await _execute(request, bank, order, effects)

    return handle


def _querying(operation: str, write: str) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        bank = request.app[BANK]
        await _authenticated_body(request, bank)
        reference = check_reference(request.match_info["reference"], "merchantReference")
        effects = bank.faults.choose(operation=operation, reference=reference, at_ms=now_ms())
        if _stops_before_booking(effects):
            return await _stop_before_booking(request, effects)
        await _wait(effects.slow_before_ms)
        entry = bank.ledger.find_entry(operation=write, reference=reference)
        if entry is None or now_ms() < entry.visible_at_ms:
            fields = not_found_result(operation=write, reference=reference)
            return await _reply(request, http=404, fields=fields, effects=effects)
        return await _reply_result(request, entry, effects)

    return handle


async def _authenticated_body(request: web.Request, bank: Bank) -> bytes:
    """Return the body of a rightly signed request whose nonce is new.

    :raises Refused: 401 E0004
    """
    body = await request.read()
    at_ms = now_ms()
    claimed = request.headers.get("X-Key-Id", "")
    if claimed in bank.settings.keys:
        request[KEY_ID] = claimed
    try:
        key_id, nonce = verify_request(
            headers=request.headers,
            keys=bank.settings.keys,
            method=request.method,
            target=request.raw_path,
            body=body,
            at_seconds=at_ms // 1000,
        )
    except SignatureRefused as refusal:
        raise Refused(http=401, code="E0004", text=f"验签失败 {refusal}") from refusal
    if not bank.ledger.accept_nonce(key_id=key_id, nonce=nonce, at_ms=at_ms):
        raise Refused(http=401, code="E0004", text="验签失败 X-Nonce came before")
    return body


async def _execute(request: web.Request, bank: Bank, order: Order, effects: Effects) -> web.StreamResponse:
    """Carry out a write, once if the bank keeps that promise."""
    if bank.settings.idempotent:
        repeat = await _reply_to_repeat(request, bank, order, effects)
        if repeat is not None:
            return repeat
    claim = (order.operation, order.reference)
    running = bank.running[claim] = RunningWrite(order.fingerprint)
    try:
        await _wait(effects.slow_before_ms + bank.settings.latency_ms)
        entry = _book(bank, order, effects)
        if entry is None:
            fields = not_found_result(operation="cancel", reference=order.reference)
            return await _reply(request, http=404, fields=fields, effects=effects)
        if running.repeats:
            bank.ledger.count_repeats(entry.id, running.repeats)
        if effects.notify.early:
            await bank.notifier.send_before_reply(entry)
        return await _reply_result(request, entry, effects)
    finally:
        bank.running.pop(claim, None)


async def _reply_to_repeat(
    request: web.Request, bank: Bank, order: Order, effects: Effects
) -> web.StreamResponse | None:
    """Reply with the stored result, or 202 while the first request still runs; None if there was no earlier one.

    :raises Refused: 409 E0008, the earlier request had other content
    """
    running = bank.running.get((order.operation, order.reference))
    earlier = bank.ledger.find_entry(operation=order.operation, reference=order.reference)
    for known in (running, earlier):
        if known is not None and known.fingerprint != order.fingerprint:
            raise Refused(http=409, code="E0008", text="同流水号内容不一致")
    if earlier is not None:
        bank.ledger.count_repeats(earlier.id, 1)
    elif running is not None:
        running.repeats += 1
    if running is not None:
        return await _reply(request, http=202, fields=running_result(order), effects=effects)
    if earlier is not None:
        return await _reply_result(request, earlier, effects, headers={"Idempotent-Replay": "true"})
    return None


def _book(bank: Bank, order: Order, effects: Effects) -> Entry | None:
    at_ms = now_ms()
    book = book_cancel if order.operation == "cancel" else book_order
    entry = book(
        bank.ledger,
        order=order,
        effects=effects,
        replied_at_ms=at_ms + effects.slow_ms + AFTER_REPLY_MS,
        at_ms=at_ms,
    )
    bank.notifier.nudge()
    bank.entry_opened.set()
    return entry


def _stops_before_booking(effects: Effects) -> bool:
    return bool(effects.drop == "before" or effects.gateway_502 == "before" or effects.rate_limited or effects.refuse)


async def _stop_before_booking(request: web.Request, effects: Effects) -> web.StreamResponse:
    """Act out the first of: drop, 502, rate limit, refusal. Nothing is looked up or booked."""
    await _wait(effects.slow_before_ms + effects.slow_ms)
    if effects.drop == "before":
        return _dropped(request)
    if effects.gateway_502 == "before":
        return _bad_gateway()
    if effects.rate_limited:
        return _signed(request, http=429, fields={"code": "E0006", "text": "频率超限"}, headers={"Retry-After": "1"})
    assert effects.refuse is not None
    fields = {"code": effects.refuse.code, "text": effects.refuse.text}
    return _signed(request, http=effects.refuse.http, fields=fields)


async def _reply_result(
    request: web.Request, entry: Entry, effects: Effects, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    http = 200 if entry.is_final else 202
    return await _reply(request, http=http, fields=result(entry), effects=effects, headers=headers)


async def _reply(
    request: web.Request, *, http: int, fields: dict[str, Any], effects: Effects, headers: dict[str, str] | None = None
) -> web.StreamResponse:
    """Reply as the effects have it: late, then the first of drop, 502, empty, garbage; else the contract's reply."""
    await _wait(effects.slow_ms)
    if effects.drop == "after":
        return _dropped(request)
    if effects.gateway_502 == "after":
        return _bad_gateway()
    if effects.empty_200:
        return web.Response(status=200)
    if effects.garbage_200 == "html":
        return web.Response(text=LOGIN_PAGE, content_type="text/html")
    if effects.other_reference:
        fields = fields | {"merchantReference": OTHER_REFERENCE}
    forged = effects.bad_reply_signature
    if effects.garbage_200:
        return _signed(request, http=200, fields=fields, headers=headers, forged=forged, cut=True)
    return _signed(request, http=http, fields=fields, headers=headers, forged=forged)


def _signed(
    request: web.Request,
    *,
    http: int,
    fields: dict[str, Any],
    headers: dict[str, str] | None = None,
    forged: bool = False,
    cut: bool = False,
) -> web.Response:
    """Return a JSON reply signed with the key of the request; without a known key it goes out unsigned.

    :param cut: sends the first half only, under the signature of the whole
    """
    body = json.dumps(fields, ensure_ascii=False).encode()
    sent = body[: len(body) // 2] if cut else body
    response = web.Response(status=http, body=sent, content_type="application/json", headers=headers)
    key_id = request.get(KEY_ID)
    if key_id is not None:
        secret = request.app[BANK].settings.keys[key_id]
        response.headers.update(
            signed_headers(key_id=key_id, secret=secret, body=body, at_seconds=now_ms() // 1000, forged=forged)
        )
    return response


def _dropped(request: web.Request) -> web.Response:
    abort_connection(request.transport)
    return web.Response()


def _bad_gateway() -> web.Response:
    return web.Response(status=502, text=BAD_GATEWAY, content_type="text/html")


async def _wait(delay_ms: int) -> None:
    if delay_ms:
        await asyncio.sleep(delay_ms / 1000)
