"""What needs a person: the open attentions, most urgent and oldest first."""

import re

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.utils.dateparse import parse_datetime
from django.utils.timezone import now

from payments.models import Attention

from .. import wording
from ..access import ConsoleRequest, console_page, visible_attentions

PAGE = 50
_AFTER = re.compile(r"([0-3])~([0-9T:.+-]{19,32})~([0-9]{1,18})\Z", re.ASCII)


@console_page("GET")
def attentions(request: ConsoleRequest) -> HttpResponse:
    """A page of the open attentions, paged by (priority, age, id)."""
    kind, priority = request.GET.get("kind", ""), request.GET.get("priority", "")
    kind = kind if kind in set(Attention.Kind) else ""
    priority = priority if priority in ("0", "1", "2", "3") else ""
    found = visible_attentions(request.operator.user).filter(settled_at__isnull=True)
    if kind:
        found = found.filter(kind=kind)
    if priority:
        found = found.filter(priority=int(priority))
    if after := _after(request.GET.get("after", "")):
        found = found.filter(after)
    rows = list(found.select_related("payment__order").order_by("priority", "opened_at", "pk")[: PAGE + 1])
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    context = {
        "rows": rows[:PAGE],
        "after": f"{last.priority}~{last.opened_at.isoformat()}~{last.pk}" if last else "",
        "paged": bool(after),
        "own_query": {"kind": kind, "priority": priority},
        "kind": kind,
        "priority": priority,
        "kinds": [{"kind": value, "word": word} for value, word in wording.ATTENTIONS.items()],
        "priorities": ["0", "1", "2", "3"],
        "as_of": now(),
    }
    return render(request, "ops_console/attentions.html", context)


def _after(text: str) -> Q | None:
    match = _AFTER.match(text)
    try:
        opened_at = parse_datetime(match[2]) if match else None
    except ValueError:
        return None
    if match is None or opened_at is None or opened_at.tzinfo is None:
        return None
    priority, pk = int(match[1]), int(match[3])
    return (
        Q(priority__gt=priority)
        | Q(priority=priority, opened_at__gt=opened_at)
        | Q(priority=priority, opened_at=opened_at, pk__gt=pk)
    )
