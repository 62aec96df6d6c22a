"""The payment page and what can be done from it."""

from datetime import datetime

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.timezone import now
from django.views.decorators.debug import sensitive_post_parameters

from payments import enquiry
from payments.errors import PaymentsError
from payments.models import Payment

from .. import actions, timeline
from ..access import ConsoleRequest, console_page, source_ip
from ..actions import Action, Effect
from ..errors import ConsoleRefusal, PageStale
from ..forms import AskForm, CopiedForm, ReasonForm
from ..payment_page import Notice, asked_notice, changes_since, load_payment, page_context, refusal_notice

_TEMPLATE = "ops_console/payment.html"
# A refresh replaces the living part; an action replaces it together with the notice above it, which so outlives refreshes.
_LIVE, _ANSWER = f"{_TEMPLATE}#live", f"{_TEMPLATE}#answer"

_DID = "did"


@console_page("GET")
def payment(request: ConsoleRequest, payment_id: str) -> HttpResponse:
    """Zones A to E; a refresh gets the living part alone."""
    row = load_payment(operator=request.operator, payment_id=payment_id)
    did = request.session.pop(_DID, None)
    notice = _notice_of(did[1], row) if did and did[0] == row.pk else None
    return _page(request, row, at=now(), notice=notice)


@console_page("POST")
def ask_bank(request: ConsoleRequest, payment_id: str) -> HttpResponse:
    """Ask the bank now (QRY-5), once per rendered form, and only about what the page showed."""
    row = load_payment(operator=request.operator, payment_id=payment_id)
    form = AskForm(request.POST)
    if not form.is_valid():
        return _page(request, row, at=now(), notice=Notice("token_misused", "bad"), status=422)
    shown: int = form.cleaned_data["revision"]

    def run() -> Effect[Payment]:
        if Payment.objects.values_list("revision", flat=True).get(pk=row.pk) != shown:
            raise PageStale(shown=shown)
        asked = enquiry.ask_now(payment_id=row.pk, actor=request.operator.actor, at=now())
        return Effect(asked, {"state": asked.state, "cause": asked.cause, "revision": asked.revision})

    try:
        done = actions.perform(
            action=Action.ASK_BANK,
            actor=request.operator,
            target=f"payment:{row.pk}",
            run=run,
            at=now(),
            token=form.cleaned_data["token"],
            source_ip=source_ip(request),
        )
    except (PaymentsError, ConsoleRefusal) as refusal:
        fresh = load_payment(operator=request.operator, payment_id=payment_id)
        changes = changes_since(payment=fresh, revision=shown) if isinstance(refusal, PageStale) else ()
        return _page(request, fresh, at=now(), notice=refusal_notice(refusal, changes), status=refusal.status)
    code = "asked_before" if done.repeated else "asked"
    if not request.htmx:
        request.session[_DID] = [row.pk, code]
        return redirect("ops_console:payment", row.pk)
    fresh = load_payment(operator=request.operator, payment_id=payment_id)
    return _page(request, fresh, at=now(), notice=_notice_of(code, fresh))


@sensitive_post_parameters("reason")
@console_page("POST")
def unmask(request: ConsoleRequest, payment_id: str) -> HttpResponse:
    """Show customer and token in full, for this one view, with a reason that is kept."""
    row = load_payment(operator=request.operator, payment_id=payment_id)
    form = ReasonForm(request.POST)
    if not form.is_valid():
        code = "card_number" if "reason" in form.errors else "token_misused"
        return _page(request, row, at=now(), notice=Notice(code, "bad"), status=422)
    try:
        done = actions.perform(
            action=Action.UNMASK,
            actor=request.operator,
            target=f"payment:{row.pk}",
            run=lambda: Effect(True),
            at=now(),
            reason=form.cleaned_data["reason"],
            token=form.cleaned_data["token"],
            source_ip=source_ip(request),
        )
    except ConsoleRefusal as refusal:
        return _page(request, row, at=now(), notice=refusal_notice(refusal), status=refusal.status)
    if done.repeated:  # a reload of the answer: each look needs a record of its own
        return _page(request, row, at=now(), notice=Notice("used_up", "bad"), status=409)
    return _page(request, row, at=now(), bare=True, notice=Notice("unmasked", "good"))


@console_page("POST")
def copied(request: ConsoleRequest, payment_id: str) -> HttpResponse:
    """The words to say were copied; the log keeps which."""
    row = load_payment(operator=request.operator, payment_id=payment_id)
    form = CopiedForm(request.POST)
    if not form.is_valid():
        return HttpResponse(status=422)
    detail = {"language": form.cleaned_data["language"], "state": row.state, "cause": row.cause}
    try:
        actions.perform(
            action=Action.COPY_WORDS,
            actor=request.operator,
            target=f"payment:{row.pk}",
            run=lambda: Effect(True, detail),
            at=now(),
            source_ip=source_ip(request),
        )
    except ConsoleRefusal as refusal:
        return HttpResponse(status=refusal.status)
    return HttpResponse(status=204)


def _page(
    request: ConsoleRequest,
    row: Payment,
    *,
    at: datetime,
    bare: bool = False,
    notice: Notice | None = None,
    status: int = 200,
) -> HttpResponse:
    chosen = request.GET.get("part", "")
    context = page_context(
        operator=request.operator,
        payment=row,
        at=at,
        chosen=chosen if chosen in timeline.PARTS else "",
        oldest_first=request.GET.get("order") == "oldest",
        page=_number(request.GET.get("page", "")),
        bare=bare,
        notice=notice,
    )
    part = _TEMPLATE if not request.htmx else _LIVE if request.method == "GET" else _ANSWER
    return render(request, part, context, status=status)


def _notice_of(code: str, row: Payment) -> Notice:
    return asked_notice(row) if code == "asked" else Notice(code)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 1
