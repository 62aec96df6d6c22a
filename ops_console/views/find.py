"""Look-up: whatever the caller has in hand, one paste and Enter (OPS-1, PAY-13)."""

from urllib.parse import urlencode

from django.db import OperationalError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from payments.lookup import MOST, find
from payments.masking import holds_card_number

from .. import wording
from ..access import ConsoleRequest, console_page, visible_payments
from ..listing import cut_short

LONGEST = 300
MOST_RECENT = 8
TRIED = ("payment", "order", "transaction", "key", "customer")


@console_page("GET", "POST")
def find_payment(request: ConsoleRequest) -> HttpResponse:
    """The form posts, so that what is typed in stands in no address before it is known to be no card number."""
    wanted = (request.POST if request.method == "POST" else request.GET).get("q", "").strip()
    if holds_card_number(wanted):
        return _page(request, trouble="card_number", status=422)
    if len(wanted) > LONGEST:
        return _page(request, trouble="too_long", status=422)
    if not wanted:
        return _page(request)
    try:
        with cut_short():
            found = find(wanted, within=visible_payments(request.operator.user))
    except OperationalError:
        return _page(request, q=wanted, trouble="too_slow", status=503)
    if len(found.payments) == 1:
        payment = found.payments[0]
        _remember(request, payment.pk)
        return redirect("ops_console:payment", payment.pk)
    if request.method == "POST" and wanted.isprintable():
        return redirect(f"{reverse('ops_console:find')}?{urlencode({'q': wanted})}")
    return _page(
        request,
        q=wanted if wanted.isprintable() else "",
        trouble="" if found.payments else "nothing",
        hits=found.payments,
        by=wording.FOUND_BY.get(found.by, ""),
        capped=len(found.payments) == MOST,
        tried=[wording.FOUND_BY[name] for name in TRIED],
    )


def _page(
    request: ConsoleRequest, *, q: str = "", trouble: str = "", status: int = 200, **more: object
) -> HttpResponse:
    recent = [] if q else _recent(request)
    context = {"q": q, "trouble": trouble, "recent": recent, "own_lookup": True, **more}
    return render(request, "ops_console/find.html", context, status=status)


def _remember(request: ConsoleRequest, payment_id: str) -> None:
    """Keep which payments were looked up in this log-in; what was typed in is not kept."""
    earlier = [key for key in request.session.get("recent", []) if key != payment_id]
    request.session["recent"] = [payment_id, *earlier][:MOST_RECENT]


def _recent(request: ConsoleRequest) -> list[object]:
    keys = request.session.get("recent", [])
    if not keys:
        return []
    rows = visible_payments(request.operator.user).select_related("order", "channel").in_bulk(keys)
    return [rows[key] for key in keys if key in rows]
