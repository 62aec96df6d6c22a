"""Ledger and control: what the bank really did, and what it shall do wrong next. No keys; for the loopback."""

import json
import sqlite3
from typing import Any

from aiohttp import web

from sandbox.amounts import Amount
from sandbox.bank import BANK
from sandbox.booking import result
from sandbox.clock import now_ms, rfc3339
from sandbox.contract import REFERENCE, BadJson, parse_json
from sandbox.fault_scripts import BadScript, read_notify, read_seconds
from sandbox.ledger import OPERATIONS, Entry, Ledger, Notification
from sandbox.listeners import OUTAGES, Handler
from sandbox.notifications import plan_notifications
from sandbox.page import ledger_page

PAGE_ENTRIES = 100


def add_control_routes(app: web.Application) -> None:
    """Add ledger, control and the page for people to an application."""
    app.middlewares.append(_name_the_field)
    app.router.add_get("/", _page)
    app.router.add_get("/ledger", _ledger, allow_head=False)
    app.router.add_get("/ledger/summary", _summary)
    app.router.add_get("/control/faults", _list_faults)
    app.router.add_post("/control/faults", _add_faults)
    app.router.add_delete("/control/faults", _delete_faults)
    app.router.add_delete("/control/faults/{id}", _delete_fault)
    app.router.add_get("/control/outage", _show_outage)
    app.router.add_post("/control/outage", _begin_outage)
    app.router.add_delete("/control/outage", _end_outage)
    app.router.add_post("/control/reset", _reset)
    app.router.add_post("/control/notify", _notify)


@web.middleware
async def _name_the_field(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer what cannot be read with 400 and the field; the contract's own paths are left alone."""
    if request.path.startswith("/v1/"):
        return await handler(request)
    try:
        return await handler(request)
    except BadScript as error:
        return web.json_response({"error": str(error)}, status=400)
    except web.HTTPException as error:
        return web.json_response({"error": error.text or error.reason}, status=error.status, headers=_allow(error))


def _allow(error: web.HTTPException) -> dict[str, str]:
    return {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}


async def _json(request: web.Request) -> Any:
    try:
        return parse_json(await request.read())
    except BadJson as error:
        raise BadScript(f"body: {error}") from error


async def _json_object(request: web.Request, known: set[str]) -> dict[str, Any]:
    fields = await _json(request)
    if not isinstance(fields, dict):
        raise BadScript("body: must be an object")
    for name in fields:
        if name not in known:
            raise BadScript(f"{name[:40]}: is not known here")
    return fields


# Ledger


async def _ledger(request: web.Request) -> web.StreamResponse:
    """Stream the entries page by page, so that a ledger of any size can be read."""
    reference, operation = _ledger_filter(request)
    ledger = request.app[BANK].ledger
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    totals = _totals(ledger.totals(reference=reference, operation=operation))
    await response.write(f'{{"totals": {json.dumps(totals)}, "entries": ['.encode())
    separator = ""
    for page in ledger.entry_pages(reference=reference, operation=operation):
        texts = [json.dumps(_entry(entry, ledger.notifications_of(entry.id))) for entry in page]
        await response.write((separator + ",\n".join(texts)).encode())
        separator = ",\n"
    await response.write(b"]}\n")
    await response.write_eof()
    return response


async def _summary(request: web.Request) -> web.StreamResponse:
    ledger = request.app[BANK].ledger
    return web.json_response(ledger.summary() | {"totals": _totals(ledger.totals(reference=None, operation=None))})


def _ledger_filter(request: web.Request) -> tuple[str | None, str | None]:
    reference = request.query.get("reference") or None
    operation = request.query.get("operation") or None
    if reference is not None and not REFERENCE.fullmatch(reference):
        raise BadScript("reference: must be 1 to 32 of A-Z a-z 0-9 _ -")
    _check_operation(operation)
    return reference, operation


def _check_operation(operation: object) -> None:
    if operation is not None and operation not in OPERATIONS:
        raise BadScript(f"operation: must be one of {', '.join(OPERATIONS)}")


def _totals(rows: list[sqlite3.Row]) -> dict[str, Any]:
    """Return count and sum by operation, currency and status; a cancel moves no money."""
    totals: dict[str, Any] = {}
    for row in rows:
        by_currency = totals.setdefault(row["operation"], {}).setdefault(row["currency"] or "none", {})
        by_currency[row["status"]] = {"count": row["count"]}
        if row["currency"]:
            by_currency[row["status"]]["value"] = Amount(row["minor"], row["currency"]).as_json()["value"]
    return totals


def _entry(entry: Entry, notifications: list[Notification]) -> dict[str, Any]:
    return result(entry) | {
        "merchantId": entry.merchant_id,
        "originalReference": entry.original_reference,
        "requested": json.loads(entry.requested),
        "bookedAt": rfc3339(entry.booked_at_ms),
        "timesReceived": entry.times_received,
        "notifications": [
            {
                "notificationId": notification.notification_id,
                "url": notification.url,
                "state": notification.state,
                "dueAt": rfc3339(notification.due_at_ms),
                "attempts": json.loads(notification.attempts),
                "body": json.loads(notification.body),
                "forgedSignature": bool(notification.forged_signature),
            }
            for notification in notifications
        ],
    }


# Faults


async def _list_faults(request: web.Request) -> web.StreamResponse:
    at_ms = now_ms()
    return web.json_response({"faults": [fault.as_json(at_ms) for fault in request.app[BANK].faults.listed()]})


async def _add_faults(request: web.Request) -> web.StreamResponse:
    scripts = await _json(request)
    ids = request.app[BANK].faults.add(scripts if isinstance(scripts, list) else [scripts], at_ms=now_ms())
    return web.json_response({"ids": ids}, status=201)


async def _delete_faults(request: web.Request) -> web.StreamResponse:
    return web.json_response({"removed": request.app[BANK].faults.remove()})


async def _delete_fault(request: web.Request) -> web.StreamResponse:
    if not request.app[BANK].faults.remove(request.match_info["id"]):
        raise web.HTTPNotFound(text="id: there is no such fault")
    return web.json_response({"removed": 1})


# Outage and reset


async def _show_outage(request: web.Request) -> web.StreamResponse:
    outage = request.app[BANK].port.outage
    return web.json_response({"outage": outage.as_json() if outage else None})


async def _begin_outage(request: web.Request) -> web.StreamResponse:
    fields = await _json_object(request, {"kind", "seconds"})
    if fields.get("kind") not in OUTAGES:
        raise BadScript(f"kind: must be one of {', '.join(OUTAGES)}")
    seconds = fields.get("seconds")
    outage = await request.app[BANK].port.begin_outage(
        kind=fields["kind"],
        duration_ms=None if seconds is None else read_seconds(seconds, "seconds"),
        spare=request.protocol,
    )
    return web.json_response({"outage": outage.as_json()})


async def _end_outage(request: web.Request) -> web.StreamResponse:
    await request.app[BANK].port.end_outage()
    return web.json_response({"outage": None})


async def _reset(request: web.Request) -> web.StreamResponse:
    bank = request.app[BANK]
    bank.ledger.clear()
    bank.faults.forget()
    await bank.port.end_outage()
    return web.json_response({"reset": True})


# Notifications


async def _notify(request: web.Request) -> web.StreamResponse:
    """Send or forge a notification about an entry now; unforged it repeats the last one under its id."""
    bank = request.app[BANK]
    fields = await _json(request)
    effects = read_notify(fields, "", more=("reference", "operation"))
    entry = _entry_to_notify(bank.ledger, fields)
    if effects.url is None and entry.notify_url is None:
        raise BadScript("url: the request named no notifyUrl")
    earlier = bank.ledger.notifications_of(entry.id)
    with bank.ledger.transaction():
        ids = plan_notifications(
            bank.ledger,
            entry=entry,
            result=result(entry),
            effects=effects,
            at_ms=now_ms(),
            notification_id=earlier[-1].notification_id if earlier and not effects.forges else None,
        )
    bank.notifier.nudge()
    return web.json_response({"notificationIds": ids}, status=202)


def _entry_to_notify(ledger: Ledger, fields: dict[str, Any]) -> Entry:
    reference, operation = fields.get("reference"), fields.get("operation", "pay")
    if not isinstance(reference, str) or not REFERENCE.fullmatch(reference):
        raise BadScript("reference: must be 1 to 32 of A-Z a-z 0-9 _ -")
    _check_operation(operation)
    entry = ledger.find_entry(operation=operation, reference=reference)
    if entry is None:
        raise web.HTTPNotFound(text=f"reference: the ledger has no {operation} of this reference")
    return entry


# The page for people


async def _page(request: web.Request) -> web.StreamResponse:
    bank = request.app[BANK]
    text = ledger_page(
        entries=bank.ledger.newest_entries(PAGE_ENTRIES),
        summary=bank.ledger.summary(),
        faults=bank.faults.listed(),
        outage=bank.port.outage,
        at_ms=now_ms(),
    )
    return web.Response(text=text, content_type="text/html")
