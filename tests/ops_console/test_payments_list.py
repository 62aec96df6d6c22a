"""The payments list: filters, pages by key, one zone, harmless export (K21, K22)."""

import csv
import io
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.timezone import now
from ulid import ULID

from ops_console import exports, listing
from ops_console.models import OperatorAction
from payments.models import Attention, Payment
from payments.words import Tag, tag_for
from tests import factories
from tests.ops_console import scenes

LIST = reverse("ops_console:payments")
EXPORT = reverse("ops_console:export_payments")
SHANGHAI = ZoneInfo("Asia/Shanghai")


def see(client, **query) -> str:
    return client.get(LIST, query).content.decode()


def shown(client, **query) -> list[str]:
    page = see(client, **query)
    return [pk for pk in Payment.objects.order_by("-pk").values_list("pk", flat=True) if pk in page]


def exported(client, filter_: str = "") -> list[list[str]]:
    content = client.post(EXPORT, {"filter": filter_}).content.decode("utf-8-sig")
    return list(csv.reader(io.StringIO(content)))


def at_moment(client, monkeypatch, at: datetime, **changes) -> Payment:
    """A payment accepted at a moment, with the id it would have got then."""
    monkeypatch.setattr("payments.intake.new_id", lambda: str(ULID.from_datetime(at)))
    payment = scenes.queued(client, at=at, **changes)
    monkeypatch.undo()
    return payment


@pytest.mark.django_db
def test_the_status_filter_is_the_lexicon(client_of_merchant):
    payment = scenes.queued(client_of_merchant)
    for state in Payment.State:
        for cause in ("PROCESSING", "NO_ANSWER", "UNMAPPED_CODE", "DECLINED"):  # the lexicon tells the first apart
            for contradicted in (False, True):
                payment.__dict__.update(state=state, cause=cause, contradicted=contradicted)
                assert [tag for tag, rule in listing.BY_TAG.items() if rule.check(facts(payment))] == [tag_for(payment)]
    assert set(listing.BY_TAG) == set(Tag)


def facts(payment):
    return {"state": payment.state, "cause": payment.cause, "contradicted": payment.contradicted}


def test_each_filter_narrows(ops, client_of_merchant, bank):
    paid = scenes.succeeded(client_of_merchant, customer_ref="C-1")
    failed = scenes.declined(client_of_merchant, customer_ref="C-2", amount=factories.cny(50_00))

    assert shown(ops) == [failed.pk, paid.pk]
    assert shown(ops, status="succeeded") == [paid.pk]
    assert shown(ops, status="failed") == [failed.pk]
    assert shown(ops, customer="C-1") == [paid.pk]
    assert shown(ops, channel="bank") == [failed.pk, paid.pk]
    assert shown(ops, channel="other") == []
    assert shown(ops, min="100") == [paid.pk]
    assert shown(ops, max="100.00") == [failed.pk]
    assert shown(ops, currency="JPY") == []


def test_pages_follow_each_other_by_key(ops, client_of_merchant, monkeypatch):
    monkeypatch.setattr(listing, "PAGE", 2)
    keys = [scenes.queued(client_of_merchant).pk for _ in range(5)][::-1]

    first = shown(ops)
    second = shown(ops, after=first[-1])
    third = shown(ops, after=second[-1])

    assert [first, second, third] == [keys[:2], keys[2:4], keys[4:]]


@pytest.mark.parametrize("name", ["payments", "attentions"])
def test_the_number_of_queries_is_fixed_and_no_query_skips_or_counts_all(
    ops, client_of_merchant, name, django_assert_num_queries
):
    def queries(rows):
        for _ in range(rows):
            an_attention(scenes.queued(client_of_merchant))
        with CaptureQueriesContext(
            connection,
        ) as captured:
            ops.get(reverse(f"ops_console:{name}"))
        return captured.captured_queries

    few, many = queries(2), queries(30)

    assert len(few) == len(many) <= 11
    for query in many:
        assert "OFFSET" not in query["sql"]
        assert "COUNT(" not in query["sql"] or "LIMIT" in query["sql"]


def test_counts_stop(ops, client_of_merchant, monkeypatch):
    monkeypatch.setattr(listing, "MOST_COUNTED", 3)
    monkeypatch.setattr(listing, "PAGE", 2)
    for _ in range(5):
        scenes.queued(client_of_merchant)

    assert "5,000+" in see(ops)


def test_a_day_is_the_same_in_list_count_and_file(ops, client_of_merchant, monkeypatch):
    day = now().astimezone(SHANGHAI).date() - timedelta(days=2)
    midnight = datetime(day.year, day.month, day.day, tzinfo=SHANGHAI)
    before = at_moment(client_of_merchant, monkeypatch, midnight - timedelta(milliseconds=100))
    first = at_moment(client_of_merchant, monkeypatch, midnight)
    last = at_moment(client_of_merchant, monkeypatch, midnight + timedelta(days=1) - timedelta(milliseconds=100))
    after = at_moment(client_of_merchant, monkeypatch, midnight + timedelta(days=1))

    listed = shown(ops, **{"from": day.isoformat(), "to": day.isoformat()})
    page = see(ops, **{"from": day.isoformat(), "to": day.isoformat()})
    rows = exported(ops, f"from={day}&to={day}")

    assert listed == [last.pk, first.pk]
    assert "<strong>2</strong>" in page
    assert "Asia/Shanghai" in page
    assert rows[0][0] == "Created (Asia/Shanghai)"
    assert [row[1] for row in rows[1:]] == [last.pk, first.pk]
    assert before.pk not in page
    assert after.pk not in page


def test_a_day_with_a_clock_change_has_its_own_length():
    from django.http import QueryDict

    berlin = ZoneInfo("Europe/Berlin")
    chosen = listing.Filter.read(
        QueryDict("from=2026-10-25&to=2026-10-25"), zone=berlin, at=datetime(2026, 10, 26, tzinfo=UTC)
    )

    assert chosen.ends_at.astimezone(UTC) - chosen.starts_at.astimezone(UTC) == timedelta(hours=25)


def test_the_default_period_is_seven_days_and_named(ops, client_of_merchant, monkeypatch):
    today = now().astimezone(SHANGHAI).date()
    old = at_moment(client_of_merchant, monkeypatch, now() - timedelta(days=8))
    new = scenes.queued(client_of_merchant)

    assert shown(ops) == [new.pk]
    assert f"{today - timedelta(days=6)} – {today}" in see(ops)
    assert shown(ops, **{"from": (today - timedelta(days=9)).isoformat()}) == [new.pk, old.pk]


def test_the_three_empty_lists_differ(ops, client_of_merchant, monkeypatch):
    nothing = see(ops)
    scenes.queued(client_of_merchant)
    no_match = see(ops, status="failed")
    monkeypatch.setattr(listing, "CUT_AFTER_MS", 0)

    def cut(**kwargs):
        from django.db import OperationalError

        raise OperationalError

    monkeypatch.setattr(listing, "list_payments", cut)
    cut_off = ops.get(LIST)

    assert "No payments in this period" in nothing
    assert "Nothing matches" in no_match
    assert "Clear the filters" in no_match
    assert cut_off.status_code == 503
    assert "took longer than three seconds" in cut_off.content.decode()


def test_the_database_cuts_a_list_that_takes_too_long(db):
    from django.db import OperationalError

    with pytest.raises(OperationalError), listing.cut_short(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('statement_timeout', '20', true)")
        cursor.execute("SELECT pg_sleep(5)")


def test_cutting_ends_with_its_block(db):
    with connection.cursor() as cursor:
        cursor.execute("SHOW statement_timeout")
        before = cursor.fetchone()
        with listing.cut_short():
            cursor.execute("SHOW statement_timeout")
            within = cursor.fetchone()

    assert within == ("3s",)
    assert before != within


def test_the_export_holds_the_filtered_rows_masked_and_is_logged(ops, client_of_merchant, bank):
    paid = scenes.succeeded(client_of_merchant, customer_ref="CUSTOMER-77")
    scenes.declined(client_of_merchant)

    rows = exported(ops, "status=succeeded")

    assert [row[1] for row in rows[1:]] == [paid.pk]
    assert rows[1][3] == "CU•••77"
    record = OperatorAction.objects.get()
    assert (record.action, record.detail["rows"], record.detail["filter"]) == (
        "export_payments",
        1,
        {"status": "succeeded"},
    )


@pytest.mark.parametrize(
    "poison",
    ["=1+1", "+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1+1", "＋1", "－1", "＠SUM(1)", " =1+1", "　＝1"],
)
def test_no_cell_is_a_formula(poison):
    assert exports.harmless(poison) == f"'{poison}"


def test_a_cell_with_quote_comma_and_newline_does_not_shift_columns(ops, client_of_merchant, bank):
    scenes.sent(client_of_merchant, scenes.decline('=HYPERLINK("http://evil","x"),\nnext'), order_no='@A"1,2')

    rows = exported(ops)

    assert {len(row) for row in rows} == {14}
    assert rows[1][2] == "'@A\"1,2"
    assert rows[1][13] == '\'=HYPERLINK("http://evil","x"),\nnext'


def test_too_long_an_export_is_refused_whole(ops, client_of_merchant, monkeypatch):
    monkeypatch.setattr(exports, "MOST_EXPORTED", 1)
    scenes.queued(client_of_merchant)
    scenes.queued(client_of_merchant)

    answer = ops.post(EXPORT, {"filter": ""})

    assert answer.status_code == 422
    assert "More than 10,000 rows match" in answer.content.decode()
    assert OperatorAction.objects.get().outcome == "REFUSED"


def test_a_card_number_in_a_filter_is_not_used_and_not_shown(ops):
    page = see(ops, customer="4111 1111 1111 1111")

    assert "looks like a card number" in page
    assert "4111" not in page


def test_attentions_come_most_urgent_and_oldest_first(ops, client_of_merchant):
    a, b, c = (scenes.queued(client_of_merchant) for _ in range(3))
    an_attention(a, priority=2)
    an_attention(b, priority=0)
    an_attention(c, priority=0, ago=timedelta(hours=1))

    page = ops.get(reverse("ops_console:attentions")).content.decode()

    assert page.index(c.pk) < page.index(b.pk) < page.index(a.pk)
    assert '<span class="count">3</span>' in page


def test_attentions_page_by_key(ops, client_of_merchant, monkeypatch):
    monkeypatch.setattr("ops_console.views.attentions.PAGE", 2)
    payments = [scenes.queued(client_of_merchant) for _ in range(3)]
    for number, payment in enumerate(payments):
        an_attention(payment, priority=1, ago=timedelta(hours=3 - number))
    first = ops.get(reverse("ops_console:attentions"))

    second = ops.get(reverse("ops_console:attentions"), {"after": first.context["after"]}).content.decode()

    assert payments[2].pk in second
    assert payments[0].pk not in second


def an_attention(payment, *, priority=1, ago=timedelta()):
    at = now() - ago
    return Attention.objects.create(
        kind=Attention.Kind.PAYMENT_REVIEW,
        priority=priority,
        cause_key=f"test:{payment.pk}",
        subject=f"payment:{payment.pk}",
        payment=payment,
        facts={"cause": "OVERCHARGED"},
        opened_at=at,
        last_at=at,
    )
