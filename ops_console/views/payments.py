"""The list of payments and its export."""

from datetime import timedelta
from typing import Any

from django.db import OperationalError
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.utils.timezone import now
from django.utils.translation import gettext as _

from payments.models import Channel, Currency
from payments.words import TAG_WORDS, Tag

from .. import actions, exports, listing, wording
from ..access import ConsoleRequest, console_page, source_ip
from ..actions import Action, Effect
from ..errors import ConsoleRefusal

DAYS = (1, 7, 30, 90)


@console_page("GET")
def payments(request: ConsoleRequest) -> HttpResponse:
    """A page of the list; filters and place stand in the address."""
    chosen = listing.Filter.read(request.GET, zone=request.operator.zone, at=now())
    return _page(request, chosen)


@console_page("POST")
def export(request: ConsoleRequest) -> HttpResponse:
    """The filtered payments as CSV, logged with the filter."""
    at = now()
    chosen = listing.Filter.read(QueryDict(request.POST.get("filter", "")), zone=request.operator.zone, at=at)

    def run() -> Effect[str]:
        rows = listing.every_payment(operator=request.operator, chosen=chosen)
        content, count = exports.payments_csv(rows, zone=chosen.zone, at=at)
        return Effect(content, {"rows": count, "filter": dict(chosen.given), "zone": chosen.zone.key})

    try:
        done = actions.perform(
            action=Action.EXPORT_PAYMENTS,
            actor=request.operator,
            target="payments",
            run=run,
            at=at,
            source_ip=source_ip(request),
        )
    except ConsoleRefusal as refusal:
        return _page(request, chosen, refusal=refusal.code, status=refusal.status)
    except OperationalError:
        return _page(request, chosen, refusal="too_slow", status=503)
    response = HttpResponse(done.result, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="payments-{chosen.first}-{chosen.last}.csv"'
    return response


def _page(request: ConsoleRequest, chosen: listing.Filter, *, refusal: str = "", status: int = 200) -> HttpResponse:
    page = None
    try:
        page = listing.list_payments(operator=request.operator, chosen=chosen)
    except OperationalError:
        status = 503
    today = now().astimezone(chosen.zone).date()
    channels = list(Channel.objects.order_by("code"))
    context: dict[str, Any] = {
        "chosen": chosen,
        "page": page,
        "most_counted": listing.MOST_COUNTED,
        "refusal": wording.REFUSALS.get(refusal, ""),
        "tags": [{"tag": tag, "glyph": TAG_WORDS[tag][0], "word": wording.tag_word(tag)} for tag in Tag],
        "channels": [{"code": channel.pk, "name": wording.channel_name(channel)} for channel in channels],
        "currencies": list(Currency.objects.filter(enabled=True).order_by("code").values_list("code", flat=True)),
        "chips": _chips(chosen, {channel.pk: wording.channel_name(channel) for channel in channels}),
        "periods": [{"days": days, "from": today - timedelta(days=days - 1), "to": today} for days in DAYS],
        "query": _query(chosen),
        "own_query": {**dict(chosen.given), "after": chosen.after},
        "as_of": now(),
    }
    return render(request, "ops_console/payments.html", context, status=status)


def _query(chosen: listing.Filter, *, without: tuple[str, ...] = ()) -> str:
    query = QueryDict(mutable=True)
    for name, value in chosen.given:
        if name not in without:
            query[name] = value
    return query.urlencode()


def _chips(chosen: listing.Filter, channels: dict[str, str]) -> list[dict[str, str]]:
    """The filters at work, each with the address of the list without it."""
    words = {
        "channel": channels.get(chosen.channel, chosen.channel),
        "customer": f"{_('Customer')}: {chosen.customer}",
        "currency": chosen.currency,
        "min": f"≥ {chosen.least} {chosen.money_currency}",
        "max": f"≤ {chosen.most} {chosen.money_currency}",
    }
    return [
        {"name": name, "word": words[name], "query": _query(chosen, without=(name,))}
        for name, _kept in chosen.given
        if name in words
    ]
