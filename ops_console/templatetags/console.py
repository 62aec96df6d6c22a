"""Components of the console's pages."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django import template
from django.template.context import RequestContext
from django.templatetags.static import static
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timezone import localtime
from django.utils.translation import gettext as _

from payments.masking import masked_token
from payments.models import Attention, Payment
from payments.money import Money
from payments.story import Moment
from payments.words import TAG_WORDS, Tag, Words, tag_for

from .. import answers, wording
from ..masks import masked_customer
from ..timeline import PARTS, Timeline

register = template.Library()


@register.simple_tag
def icon(name: str) -> SafeString:
    """A picture beside a word that says the same."""
    return format_html(
        '<svg class="icon" aria-hidden="true" focusable="false"><use href="{}#{}"></use></svg>',
        static("icons.svg"),
        name,
    )


@register.simple_tag
def status(thing: Payment | Tag) -> SafeString:
    """A status of the lexicon: glyph and word, never colour alone."""
    tag = thing if isinstance(thing, Tag) else tag_for(thing)
    return format_html(
        '<span class="tag tag-{}"><span class="glyph" aria-hidden="true">{}</span>{}</span>',
        tag.value.replace("_", "-"),
        TAG_WORDS[tag][0],
        wording.tag_word(tag),
    )


@register.simple_tag
def charge(payment: Payment) -> SafeString:
    """Whether the customer was charged, in a list."""
    glyph, word = {
        answers.Charged.YES: ("✓", _("yes")),
        answers.Charged.NO: ("✕", _("no")),
        answers.Charged.UNKNOWN: ("?", _("not known yet")),
    }[(answer := answers.charged(payment)).charged]
    return format_html(
        '<span class="charged charged-{}"><span class="glyph" aria-hidden="true">{}</span>{}</span>',
        answer.charged.value,
        glyph,
        word,
    )


@register.simple_tag
def copyable(value: str, label: str = "", href: str = "") -> SafeString:
    """An id that one click copies; with an address it is also a link."""
    if not value:
        return SafeString("")
    shown = format_html("{}", label or value)
    if href:
        shown = format_html('<a href="{}" title="{}">{}</a>', href, value, shown)
    return format_html(
        '<span class="copyable"><span class="mono">{}</span><button type="button" class="copy needs-js" data-copy="{}" '
        'aria-label="{}">{}</button></span>',
        shown,
        value,
        _("Copy %(value)s") % {"value": value},
        icon("copy"),
    )


@register.simple_tag
def moment(at: datetime | None, form: str = "full") -> SafeString:
    """A time in the reader's zone: `full`, `clock` (with the date if it is not today's), or `ago`, which counts on."""
    if at is None:
        return SafeString("")
    local = localtime(at)
    full = local.strftime("%Y-%m-%d %H:%M:%S")
    text = local.strftime("%H:%M:%S") if form == "clock" and local.date() == localtime().date() else full
    ago = SafeString(" data-ago") if form == "ago" else ""
    return format_html(
        '<time datetime="{}" title="{} {}"{}>{}</time>', at.isoformat(), full, local.tzname() or "", ago, text
    )


@register.filter
def money(amount: Money | None) -> SafeString:
    """An amount with its currency set back a little."""
    if amount is None:
        return SafeString("")
    return format_html(
        '<span class="money">{} <span class="currency">{}</span></span>', f"{amount.major:,}", amount.currency
    )


@register.filter
def cause_word(payment: Payment) -> wording.Word:
    return wording.cause_of(payment)


@register.filter
def event_word(event: str) -> wording.Word:
    return wording.event_word(event)


@register.filter
def fact_word(name: str) -> wording.Word:
    return wording.fact_word(name)


@register.filter
def fact_value(fact: tuple[str, Any]) -> wording.Word:
    """The value of a (name, value) pair."""
    return wording.value_word(fact[0], str(fact[1]))


@register.filter
def actor_word(actor: str) -> wording.Word:
    return wording.actor_word(actor)


@register.filter
def actor_kind(actor: str) -> str:
    """The icon of whoever did something."""
    kind = actor.partition(":")[0]
    return {"system": "robot", "client": "plug", "user": "user"}.get(kind, "building-bank")


@register.filter
def channel_name(channel: Any) -> str:
    return wording.channel_name(channel)


@register.filter
def short_id(value: str) -> str:
    """An id for a narrow cell: its ends tell it apart, the whole of it is copied."""
    return f"{value[:6]}…{value[-6:]}"


@register.filter
def customer(payment: Payment) -> str:
    return masked_customer(payment.customer_ref)


@register.filter
def part_word(part: str) -> wording.Word:
    return wording.PARTS[part]


@register.filter
def role_word(role: str) -> wording.Word:
    return wording.ROLES[role]


@register.filter
def attention_word(kind: str) -> wording.Word:
    return wording.ATTENTIONS.get(kind, kind)


@register.filter
def attention_facts(attention: Attention) -> list[tuple[str, Any]]:
    return list(attention.facts.items())


@register.filter
def order_state_word(state: str) -> wording.Word:
    return wording.ORDER_STATES.get(state, state)


@register.filter
def state_word(state: str) -> wording.Word:
    return wording.STATES.get(state, state)


@register.filter
def rule_word(rule: str) -> wording.Word:
    return wording.RULES.get(rule, rule)


@register.filter
def answer_word(answer: str) -> wording.Word:
    return wording.ANSWERS[answer]


@register.filter
def evidence_word(fact: Any) -> wording.Word:
    """What a fact under a verdict says, by whether it holds."""
    holds, fails, unknown = wording.EVIDENCE.get(fact.name, (fact.name,) * 3)
    return unknown if fact.holds is None else holds if fact.holds else fails


@register.filter
def evidence_value(fact: Any) -> wording.Word:
    """The fact's value, where the sentence does not say it already."""
    match fact.name:
        case "state-final":
            return wording.STATES.get(fact.value, fact.value)
        case "not-charged":
            return wording.CAUSES.get(fact.value, fact.value)
        case "order-unpaid":
            return wording.ORDER_STATES.get(fact.value, fact.value)
        case "no-other-attempt":
            return "" if fact.holds else fact.value
    return str(fact.value)


@register.filter
def notice_word(code: str) -> wording.Word:
    return wording.NOTICES.get(code) or wording.REFUSALS.get(code, code)


@register.filter
def refusal_word(code: str) -> wording.Word:
    return wording.REFUSALS.get(code, code)


@register.filter
def tag_word(tag: Tag) -> str:
    return wording.tag_word(tag)


@register.filter
def slug_tag(tag: Tag) -> str:
    return tag.value.replace("_", "-")


@register.filter
def source_of(change: Moment) -> wording.Word:
    """By which path the evidence of a change came."""
    source = dict(change.facts).get("source", "")
    return wording.value_word("source", source) if source else wording.event_word(change.event)


@register.filter
def moment_state(moment: Moment) -> wording.Word:
    """The state a moment led to: an order's, a receipt's or the payment's."""
    words = wording.ORDER_STATES if moment.event.startswith("order_") else wording.STATES
    return words.get(moment.state, "")


@register.filter
def is_anchor(fact: tuple[str, str]) -> bool:
    """Whether a fact names another row of the timeline."""
    return fact[0] in ("evidence", "answers") and fact[1].partition(":")[0] in ("exchange", "notification")


@register.filter
def all_parts(timeline: Timeline) -> list[dict[str, Any]]:
    """The parts that occur, with their counts."""
    return [{"name": part, "count": timeline.counts[part]} for part in PARTS if timeline.counts.get(part)]


@register.simple_tag
def clock(at: datetime) -> SafeString:
    """The time of day, where the day stands above."""
    local = localtime(at)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        local.strftime("%H:%M:%S"),
    )


@register.filter
def day(at: datetime) -> str:
    return localtime(at).strftime("%Y-%m-%d")


@register.filter
def both_languages(words: Words) -> list[tuple[str, str, str]]:
    """The words to say and not to say, the reader's language first."""
    both = [("zh", words.zh, words.never_zh), ("en", words.en, words.never_en)]
    return both if wording.in_chinese() else both[::-1]


@register.filter
def token(value: str) -> str:
    return masked_token(value)


@register.filter
def seconds_up(milliseconds: int) -> int:
    """Whole seconds, rounded up."""
    return -(-milliseconds // 1000)


@register.filter
def duration(span: Any) -> str:
    """A span in the two largest units people count in."""
    seconds = int(span.total_seconds())
    if seconds >= 86400:
        return _("%(days)d d %(hours)d h") % {"days": seconds // 86400, "hours": seconds % 86400 // 3600}
    if seconds >= 3600:
        return _("%(hours)d h %(minutes)d min") % {"hours": seconds // 3600, "minutes": seconds % 3600 // 60}
    if seconds >= 60:
        return _("%(minutes)d min %(seconds)d s") % {"minutes": seconds // 60, "seconds": seconds % 60}
    return _("%(seconds)d s") % {"seconds": seconds}


@register.simple_tag(takes_context=True)
def here(context: RequestContext, path: str, **changes: object) -> str:
    """An address with what the page took from its own (`own_query`), some of it changed; an empty value takes one out.

    What the page refused, such as a card number, is not in `own_query` and so in no link.
    """
    query = {**context["own_query"], **changes}
    kept = {name: value for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path
