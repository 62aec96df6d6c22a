"""The console in a real browser: accessible, quiet, quick to answer, and useful without JavaScript."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from payments.models import Payment
from tests import factories
from tests.ops_console import scenes

pytestmark = pytest.mark.django_db(transaction=True)

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], "resultTypes": ["violations"]}
BY_THEME = {"runOnly": {"type": "rule", "values": ["color-contrast"]}, "resultTypes": ["violations"]}
AXE = Axe()


@pytest.fixture
def telling(merchant_client, bank):
    """A payment in each telling state."""
    return {
        name: make(merchant_client, order_no=f"DEMO-{name}", customer_ref="C-MANY" if name != "unknown" else "C-1")
        for name, make in scenes.SCENES.items()
    }


def see_every_page(person, telling):
    """Open each page in turn."""
    for path in (
        "/console/find",
        "/console/find?q=C-MANY",
        "/console/find?q=nothing",
        "/console/payments",
        "/console/payments?status=failed&customer=none",
        "/console/attentions",
        "/console/me",
        "/console/no-such-page",
        *(f"/console/payments/{payment.pk}" for name, payment in telling.items() if name != "queued"),
    ):
        yield path, person.open(path)


def violations(page, rules=RULES):
    return [(page.url, v["id"], v["nodes"][0]["html"]) for v in AXE.run(page, options=rules).response["violations"]]


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_every_page_is_accessible_in_both_themes_and_the_browser_has_no_complaint(at_console, telling, language):
    person = at_console("ops", language=language)
    found = []

    for _path, page in see_every_page(person, telling):
        page.emulate_media(color_scheme="light")
        found += violations(page)
        page.emulate_media(color_scheme="dark")  # a theme changes colours alone
        found += violations(page, BY_THEME)

    assert found == []
    assert person.complaints == []


def test_logging_in_leads_to_the_page_asked_for(chromium, live_server, telling):
    scenes.a_person("ops")
    page = chromium.new_page()
    page.goto(f"{live_server.url}/console/payments")

    page.fill("[name=username]", "ops")
    page.fill("[name=password]", scenes.PASSWORD)
    page.keyboard.press("Enter")

    page.wait_for_url("**/console/payments")
    page.close()


def test_the_log_in_page_is_accessible(chromium, live_server):
    for theme in ("light", "dark"):
        page = chromium.new_page(color_scheme=theme)
        page.goto(f"{live_server.url}/console/login")

        assert violations(page) == []
        page.close()


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_no_page_is_wider_than_the_window(at_console, telling, language):
    person = at_console("support", language=language)
    wider = []

    for path, page in see_every_page(person, telling):
        for width in (390, 1000, 1280):
            page.set_viewport_size({"width": width, "height": 768})
            if page.evaluate("document.documentElement.scrollWidth") > width:
                wider.append((width, path))

    assert wider == []


def test_one_paste_and_enter_answers_above_the_fold(at_console, telling):
    page = at_console("support").open("/console/payments")

    page.keyboard.press("/")
    page.keyboard.insert_text("DEMO-unknown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/payments/*")

    for place in ("#amount", ".hero .tag", "#charged .big", "#verdict .big", "#words-en", "#words-zh", "#ask"):
        box = page.locator(place).bounding_box()
        assert box is not None, place
        assert box["y"] + box["height"] <= 768, place
    assert "Not known yet" in page.locator("#charged").inner_text()


def test_asking_the_bank_keeps_the_page_and_the_focus(at_console, telling, bank):
    person = at_console("ops")
    page = person.open(f"/console/payments/{telling['unknown'].pk}")
    bank.replies = [scenes.success(factories.cny(128_00), "BANK-9")]

    page.locator("#ask").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#notice")

    refresh(page)
    page.wait_for_selector("[hx-trigger='every 30s']")

    assert "The bank was asked and answered. The result is final." in page.locator("#notice").inner_text()
    assert "Succeeded" in page.locator(".hero .tag").inner_text()
    assert page.url.endswith(telling["unknown"].pk)
    assert page.evaluate("document.activeElement.id") == "ask"
    assert person.complaints == []


def test_a_double_click_asks_once(at_console, telling, bank):
    page = at_console("ops").open(f"/console/payments/{telling['unknown'].pk}")
    before = len(bank.asked)

    page.locator("#ask").dblclick()
    page.wait_for_selector("#notice")

    assert len(bank.asked) - before == 1


def test_a_stale_page_is_refused_in_place(at_console, telling, bank):
    payment = telling["unknown"]
    page = at_console("ops").open(f"/console/payments/{payment.pk}")
    page.locator("[data-pause]").click()
    scenes.asked(payment, scenes.decline())

    page.locator("#ask").click()
    page.wait_for_selector("#notice")

    assert "The payment has changed since this page was shown" in page.locator("#notice").inner_text()
    assert "Failed, no money moved" in page.locator(".hero .tag").inner_text()


def test_a_refresh_keeps_focus_typed_text_and_open_messages(at_console, telling):
    payment = telling["unknown"]
    page = at_console("ops").open(f"/console/payments/{payment.pk}")
    page.locator(".raw summary").first.click()
    page.locator("#reason").fill("the caller asks")
    scenes.asked(payment, scenes.success(payment.amount, "BANK-5"))

    refresh(page)
    page.wait_for_selector(".tag-succeeded")

    assert page.evaluate("document.activeElement.id") == "reason"
    assert page.locator("#reason").input_value() == "the caller asks"
    assert page.locator(".raw[open]").count() == 1


def test_refreshing_can_be_paused(at_console, telling):
    page = at_console("ops").open(f"/console/payments/{telling['unknown'].pk}")
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/console/" in request.url else None)
    page.locator("[data-pause]").click()

    refresh(page)
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    assert asked == []
    assert "auto-refresh paused" in page.locator("#as-of").inner_text()


def test_a_yes_expires_on_the_page_by_itself_even_while_paused(at_console, telling):
    payment = telling["declined"]
    person = at_console("ops")
    page = person.page
    page.clock.install()
    person.open(f"/console/payments/{payment.pk}")
    page.locator("[data-pause]").click()
    before = page.locator("#verdict .big:visible").inner_text()

    page.clock.fast_forward(61_000)

    assert "YES" in before
    assert "NOT YET" in page.locator("#verdict .big:visible").inner_text()
    assert "has expired" in page.locator("#verdict").inner_text()


def test_a_yes_that_expired_is_asked_for_again(at_console, telling):
    payment = telling["declined"]
    person = at_console("ops")
    page = person.page
    page.clock.install()
    person.open(f"/console/payments/{payment.pk}")
    Payment.objects.filter(pk=payment.pk).update(answered_at=factories.NOW)

    with page.expect_response("**/console/payments/*") as answer:
        page.clock.fast_forward(61_000)

    assert answer.value.request.headers["hx-request"] == "true"
    page.wait_for_selector(".verdict-not_yet")


def test_copying_words_and_ids(at_console, telling):
    person = at_console("support")
    person.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = person.open(f"/console/payments/{telling['declined'].pk}")

    with page.expect_response("**/copied") as logged:
        page.locator("[data-copy-from=words-zh]").click()
    words = page.evaluate("navigator.clipboard.readText()")
    page.locator(".crumbs .copy").click()
    page.locator("#said", has_text="Copied").wait_for(state="attached")

    assert logged.value.status == 204
    assert words.startswith("付款失败，您没有被扣款。")
    assert page.evaluate("navigator.clipboard.readText()") == telling["declined"].pk


def test_keys_lead_through_the_console(at_console, telling):
    page = at_console("ops").open("/console/find")
    page.locator("#main").focus()

    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/console/payments")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    page.keyboard.press("Enter")

    page.wait_for_url("**/console/payments/0*")


def test_shortcuts_can_be_switched_off(at_console, telling):
    page = at_console("ops").open("/console/me")
    page.get_by_label("Keyboard shortcuts").uncheck()
    page.get_by_role("button", name="Save").click()
    page.wait_for_selector(".notice.good")

    page.keyboard.press("?")

    assert not page.locator("#help").is_visible()


def test_the_theme_is_there_from_the_first_byte(at_console, telling):
    page = at_console("ops").open("/console/payments")

    page.get_by_role("button", name="Theme: light").click()
    page.get_by_role("button", name="Theme: dark").click()
    page.wait_for_selector("html[data-theme=dark]")

    assert page.url.endswith("/console/payments")
    assert page.evaluate("getComputedStyle(document.body).colorScheme") == "dark"


def test_the_essentials_work_without_javascript(at_console, telling, bank):
    person = at_console("ops", java_script_enabled=False)
    page = person.open("/console/find")

    page.fill("[name=q]", "DEMO-unknown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/payments/*")
    asked_about = page.locator("#charged").inner_text()
    bank.replies = [scenes.success(factories.cny(128_00), "BANK-9")]
    page.locator("#ask").click()
    page.wait_for_selector("#notice")

    assert "Not known yet" in asked_about
    assert "Yes, 128.00 CNY" in " ".join(page.locator("#charged").inner_text().split())
    assert page.locator("[data-pause]").count() == 0 or not page.locator("[data-pause]").is_visible()


def test_without_javascript_a_yes_reloads_when_it_expires(at_console, telling):
    page = at_console("ops", java_script_enabled=False).open(f"/console/payments/{telling['declined'].pk}")

    seconds = page.locator("meta[http-equiv=refresh]").get_attribute("content").partition(";")[0]

    assert 0 < int(seconds) <= 60


def test_nothing_is_loaded_from_elsewhere_and_little_at_all(at_console, telling):
    person = at_console("ops")
    loaded = []
    person.page.on("request", lambda request: loaded.append(request.url))

    person.open("/console/payments")

    assert all(url.startswith(person.base) for url in loaded)
    assert len(loaded) <= 6


def refresh(page) -> None:
    """What the timer does, now."""
    page.evaluate("htmx.trigger(document.getElementById('live'), 'every')")
