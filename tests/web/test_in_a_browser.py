"""The page as people meet it: in a real Chromium, with a mouse, with a keyboard, on a phone, without a script."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, HttpCredentials, Page, expect

from tests.calling import call
from tests.web.scene import ANN, HOSTILE_ID, HOSTILE_TITLE, PASSWORD, Scene, scene
from worker.model.commits import LogFilter
from worker.web.pages import link

LIMIT_MS = 10_000
KINDS_OF_PAGE = (
    "/",
    "/events",
    link("/event", event="summer-night"),
    "/rules",
    "/charts",
    "/log?kind=nonsense&since=yesterday&event=winter-gala",
    "/write?id=2",
    "/rule?rule=hide-archived",
    "/events?text=over",
)
PAGES = (*KINDS_OF_PAGE, "/log", "/writes", link("/event", event=HOSTILE_ID), "/write?id=9999")


@pytest.fixture(scope="module")
def shown(story: Path) -> Iterator[Scene]:
    """The page over the story as Ann sees it, for tests that decide nothing."""
    with scene(story, keys=ANN) as found:
        yield found


@contextmanager
def looking(browser: Browser, place: Scene, at: str = "/", **options: Any) -> Iterator[Page]:  # noqa: ANN401 - Playwright's own options
    """A tab of its own on an address; it must end without a word in the console and without a dialog."""
    signed_in: HttpCredentials = {"username": "ann", "password": PASSWORD}
    context = browser.new_context(base_url=place.address, http_credentials=signed_in, **options)
    troubles: list[str] = []
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.on("console", lambda said: troubles.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(f"a dialog: {dialog.message}"))
    try:
        page.goto(at)
        yield page
    finally:
        context.close()
    assert [one for one in troubles if "404" not in one] == []


def decided(scene: Scene, write: int) -> tuple[str, list[Any]]:
    """A write's state, and who is named in the records about it."""
    return scene.state_of(write), [record["by"] for record in scene.ledger.newest(LogFilter(write=write), 20)]


def test_who_paused_an_event_and_why_is_found_with_one_click(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown) as page:
        page.get_by_role("link", name="summer-night", exact=True).click()
        answer = page.locator(".answers li").filter(has_text="client_campaign_status").inner_text()
        parts = ("is PAUSED", "By the worker", "pause-cancelled", "event.status is 'cancelled'")
        assert [part for part in parts if part not in answer] == []


def test_that_another_hand_paused_an_event_is_found_by_a_word_of_its_title(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown) as page:
        page.get_by_role("searchbox").fill("event winter")
        page.get_by_role("button", name="Find").click()
        page.get_by_role("link", name="winter-gala").click()
        assert "Not by the worker" in page.locator(".answers").inner_text()


def test_waiting_writes_are_approved_and_rejected_with_a_reason_by_who_signed_in(browser: Browser, own: Scene) -> None:
    with looking(browser, own) as page:
        row = page.get_by_role("row").filter(has_text="over-1").filter(has_text="waiting").first
        number = int(row.get_by_role("link", name="write").inner_text().split()[1])
        row.get_by_text("Decide").click()
        row.get_by_label("Why").fill("the hall says so")
        row.get_by_role("button", name="Approve").click()
        assert f"write {number}: waiting → planned" in page.get_by_role("status").inner_text()
        state, names = decided(own, number)
        assert (state, names[0]) == ("planned", "ann (page)")

        page.get_by_text("Decide all 2 together").click()
        card = page.locator(".card").filter(has_text="Decide all 2 together")
        card.get_by_label("Why").first.fill("a wrong import")
        card.get_by_role("button", name="Reject all 2").click()
        expect(page.get_by_text("waiting → cancelled")).to_have_count(1)
        assert own.ledger.state_counts().get("waiting", 0) == 0


def test_what_needs_a_person_is_resolved(browser: Browser, own: Scene) -> None:
    with looking(browser, own, "/write?id=2") as page:
        page.get_by_text("Decide", exact=False).first.click()
        page.get_by_label("Why").fill("the event page shows it published")
        page.get_by_role("button", name="It took effect").click()
        assert "confirmed" in page.get_by_role("heading", level=1).inner_text()
        assert "a person" in page.locator(".facts-list").inner_text()
    assert decided(own, 2)[0] == "confirmed"


def test_new_writes_are_halted_and_resumed(browser: Browser, own: Scene) -> None:
    with looking(browser, own) as page:
        page.get_by_text("Halt new writes").click()
        form = page.locator("form").filter(has_text="For how long")
        form.get_by_label("Why").fill("looking into it")
        form.get_by_role("button", name="Halt").click()
        assert "looking into it" in page.locator(".card.warn").first.inner_text()
        page.goto("/log")
        expect(page.get_by_text("New writes are halted")).to_be_visible()
        assert found_by_axe(page) == []
        page.goto("/")
        page.get_by_text("Resume").first.click()
        form = page.locator("form").filter(has=page.get_by_role("button", name="Resume"))
        form.get_by_label("Why").fill("understood")
        form.get_by_role("button", name="Resume").click()
        assert "resumed" in page.get_by_role("status").inner_text()
    newest = own.ledger.newest(LogFilter(), 2)
    assert [(one["kind"], one["why"]) for one in newest] == [("resumed", "understood"), ("halted", "looking into it")]


def test_filters_live_in_the_address(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown, "/log") as page:
        page.get_by_label("Event", exact=True).fill("summer-night")
        page.get_by_label("Kind").select_option("sending")
        page.get_by_role("button", name="Show").click()
        assert "event=summer-night" in page.url
        assert "kind=sending" in page.url
        address = page.url
        expect(page.locator("table.log tbody tr")).to_have_count(1)
        page.goto("/")
        page.goto(address)
        assert page.get_by_label("Kind").input_value() == "sending"
        expect(page.locator("table.log tbody tr")).to_have_count(1)


def test_everything_can_be_done_with_the_keyboard(browser: Browser, own: Scene) -> None:
    with looking(browser, own) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        for _ in range(40):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.tagName + document.activeElement.textContent").startswith(
                "SUMMARYDecide all 3"
            ):
                break
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("the storm is real")
        page.keyboard.press("Enter")
        assert own.ledger.state_counts()["waiting"] == 3, "Enter in a field decides nothing"
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Approve all 3"
        with page.expect_navigation():
            page.keyboard.press("Enter")
        assert "waiting" not in own.ledger.state_counts()


def found_by_axe(page: Page, **options: Any) -> list[str]:  # noqa: ANN401 - axe's own options
    """What the accessibility check has to say of a page with everything on it opened."""
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    results = Axe().run(page, options={"resultTypes": ["violations"], **options})
    return [f"{one['id']}: {one['help']}: {one['nodes'][0]['html']}" for one in results.response["violations"]]


def test_axe_finds_nothing_on_any_page(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown) as page:
        for address in KINDS_OF_PAGE:
            page.goto(address)
            assert found_by_axe(page) == [], address


def test_axe_finds_every_colour_readable_in_the_dark(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown, color_scheme="dark") as page:
        for address in KINDS_OF_PAGE[:3]:
            page.goto(address)
            assert found_by_axe(page, runOnly=["color-contrast"]) == [], address


def test_axe_would_find_something(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown) as page:
        page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=/static/icon.svg>')")
        assert [one.partition(":")[0] for one in found_by_axe(page, runOnly=["image-alt"])] == ["image-alt"]


def test_no_page_is_wider_than_a_narrow_phone(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown, viewport={"width": 340, "height": 700}, has_touch=True) as page:
        for address in PAGES:
            page.goto(address)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
            assert page.evaluate("document.documentElement.scrollWidth") <= 340, address
        page.goto("/")
        button = page.get_by_role("button", name="Approve", exact=True).first
        page.get_by_text("Decide", exact=False).nth(2).tap()
        box = button.bounding_box() if button.is_visible() else page.get_by_text("Decide").first.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 340


def test_why_an_event_was_paused_is_still_said_when_nothing_is_left_to_do(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown, "/rule?rule=pause-cancelled") as page:
        page.get_by_role("link", name="explained for summer-night").click()
        card = page.locator(".card").filter(has=page.get_by_role("link", name="pause-cancelled", exact=True)).last
        said = card.inner_text()
        assert "true, nothing to do" in said
        assert re.search(r"fired 2026-03-01 12:00:1\d", " ".join(said.split())), said
        card.get_by_text("Its condition, part by part").click()
        assert "event.status == 'cancelled'" in card.inner_text()


def test_hostile_titles_and_ids_are_shown_as_text(browser: Browser, shown: Scene) -> None:
    with looking(browser, shown) as page:
        link_to_it = page.get_by_role("link", name=HOSTILE_ID).first
        assert link_to_it.inner_text() == HOSTILE_ID
        link_to_it.click()
        expect(page).to_have_title(f"Event {HOSTILE_ID} · campaign-worker")
        assert page.get_by_role("heading", level=1).inner_text() == f"Event {HOSTILE_ID}"
        assert HOSTILE_TITLE in page.locator("main").inner_text()
        expect(page.locator("main script, main img")).to_have_count(0)


def test_decisions_need_no_script(browser: Browser, own: Scene) -> None:
    with looking(browser, own, "/write?id=2", java_script_enabled=False) as page:
        page.locator("details.decide summary").first.click()
        page.get_by_label("Why").fill("seen by hand")
        page.get_by_role("button", name="Give it up").click()
        assert "cancelled" in page.get_by_role("heading", level=1).inner_text()


def test_a_page_renews_itself_when_there_is_news_and_never_under_the_hand(browser: Browser, own: Scene) -> None:
    config = own.folder / "config.yaml"
    with looking(browser, own, "/log") as page:
        assert call("halt", "--because", "looking into it", config=config).code == 0
        page.get_by_text("looking into it").wait_for()
        expect(page.get_by_text("New writes are halted")).to_be_visible()
        page.goto("/")
        page.get_by_text("Decide all 3 together").click()
        assert call("resume", "--because", "understood", config=config).code == 0
        page.get_by_text("There is something new.").wait_for()
        expect(page.locator(".card.warn").get_by_text("looking into it")).to_be_visible()
        page.get_by_text("Decide all 3 together").click()
        page.locator("footer").click()  # outside of what is renewed
        page.locator(".card.warn").get_by_text("looking into it").wait_for(state="detached")
        assert page.get_by_text("There is something new.").is_hidden()


def test_a_link_from_elsewhere_spoils_no_form_that_is_open(browser: Browser, own: Scene) -> None:
    with looking(browser, own, "/write?id=2") as page:
        page.get_by_text("Decide", exact=False).first.click()
        other = page.context.new_page()
        other.set_content(f'<a href="{own.address}/log">from a message</a>')
        other.get_by_role("link").click()
        other.wait_for_url("**/log")
        page.get_by_label("Why").fill("the event page shows it published")
        page.get_by_role("button", name="It took effect").click()
        assert "confirmed" in page.get_by_role("heading", level=1).inner_text()


def test_news_take_neither_the_keyboards_place_nor_close_what_was_opened(browser: Browser, own: Scene) -> None:
    config = own.folder / "config.yaml"
    with looking(browser, own, "/write?id=3") as page:
        page.locator(".life details:not([open]) summary").first.click()
        opened = page.locator(".life details[open]").count()
        page.evaluate("document.querySelector('main h1').dataset.before = ''")
        assert call("halt", "--because", "looking into it", config=config).code == 0
        expect(page.locator("h1[data-before]")).to_have_count(0)
        assert page.locator(".life details[open]").count() == opened
        page.locator(".life summary").first.focus()
        page.keyboard.press("Tab")
        assert call("resume", "--because", "understood", config=config).code == 0
        page.get_by_text("There is something new.").wait_for()
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


def test_a_time_is_the_readers_own_also_on_a_page_that_has_renewed_itself(browser: Browser, own: Scene) -> None:
    with looking(browser, own, "/log", timezone_id="Asia/Kolkata") as page:
        assert call("halt", "--because", "looking into it", config=own.folder / "config.yaml").code == 0
        page.get_by_text("looking into it").wait_for()
        page.get_by_role("textbox", name="Since").fill("2026-03-01 17:30")
        page.get_by_role("textbox", name="Until").fill("2026-03-01")
        page.get_by_role("button", name="Show").click()
        assert "since=2026-03-01T12%3A00%3A00Z" in page.url
        assert "until=2026-03-01T18%3A30%3A00Z" in page.url, "to the end of the day"


def test_times_are_the_readers_own(browser: Browser, shown: Scene) -> None:
    at = "/log?event=summer-night&kind=fired"
    with looking(browser, shown, at, timezone_id="Asia/Kolkata") as page:
        page.get_by_text("times are those of Asia/").wait_for()
        assert page.locator("table.log time").first.inner_text().startswith("2026-03-01 17:30:1")
        page.get_by_role("textbox", name="Since").fill("2026-03-01 17:30")
        page.get_by_role("button", name="Show").click()
        assert "since=2026-03-01T12%3A00%3A00Z" in page.url
        expect(page.locator("table.log tbody tr")).to_have_count(1)
    with looking(browser, shown, at, java_script_enabled=False) as page:
        assert page.locator("table.log time").first.inner_text().startswith("2026-03-01 12:00:1")
        expect(page.get_by_text("times are UTC")).to_be_visible()
