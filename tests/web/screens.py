"""Takes the pictures of the page that the documents show: ``python -m tests.web.screens docs/screens``.

Every view, as wide as a desk and as narrow as a phone, of one story that is played anew. A browser makes each picture
and squeezes it itself, so that nothing else is needed. ``--dark`` takes them as the night sees them.
"""

import base64
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.virtual import EPOCH
from tests.web.conftest import OPTIONS, found_browser
from tests.web.scene import ANN, ENDS, PASSWORD, FixedClock, left_by, scene, status_of
from tests.worlds import Town, draft, happening, world
from worker.cli.page import RuleTestRun
from worker.config import load_config
from worker.web.pages import link

RULES = """
rules:
  - id: pause-cancelled
    description: Stop spending on events that will not happen.
    when: event.status == 'cancelled' || event.frontend_status == 'CANCELLED'
    do: [pause]
  - id: boost-drafts
    description: Publish a draft as soon as it is there.
    on_unknown: ask
    when: event.status == 'active' && setup.state == 'DRAFT' && event.city == 'Leipzig'
    do: [boost]
  - id: boost-hamburg
    description: Drafts in Hamburg, after somebody has looked at them.
    mode: approve
    when: event.status == 'active' && setup.state == 'DRAFT' && event.city == 'Hamburg'
    do: [boost]
  - id: slow-sellers
    description: Half of the seats are not asked for, and the event is near.
    mode: shadow
    when: event.predicted_sales_share < 0.3 && event.status == 'active'
    do: [{optimisation: "OFF"}]
"""
TESTS = """
tests:
  - name: a cancelled event is paused once
    rules: [pause-cancelled]
    given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}
    steps:
      - at: 6s
        set: {event: {status: cancelled}}
        expect: [{rule: pause-cancelled, action: pause}]
  - name: a draft in Hamburg waits for somebody
    rules: [boost-hamburg]
    given: {event: {id: e1, status: active, city: Hamburg}, setup: {state: DRAFT, total_budget: 500, goal: ROAS}}
    steps:
      - at: 0s
        expect: [{rule: boost-hamburg, action: boost}]
"""
VIEWS = {
    "now": "/",
    "events": "/events",
    "event": link("/event", event="summer-night"),
    "writes": "/writes",
    "write": "/write?id=3",
    "rules": "/rules",
    "rule": "/rule?rule=boost-hamburg",
    "log": "/log",
    "charts": "/charts",
}
WIDTHS = {"desktop": (1180, 1100), "phone": (380, 1000)}
SQUEEZE = """async (png) => {
  const picture = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height];
  canvas.getContext("2d").drawImage(picture, 0, 0);
  return canvas.toDataURL("image/webp", 0.45).split(",")[1];
}"""


def play(folder: Path) -> None:
    """Nine concerts: one is cancelled, one is paused by somebody, one answer is lost, one needs an operator."""
    place = world(
        happening("summer-night", title="Summer Night Open Air", predicted_sales_share=0.62),
        happening("winter-gala", title="Winter Gala", city="Berlin", start_date_time="2026-12-05T18:30:00Z"),
        draft("indie-weekend", 800, title="Indie Weekend"),
        draft("poetry-slam", 150, title="Poetry Slam Finals"),
        draft("harbour-jazz", 1200, title="Harbour Jazz", city="Hamburg"),
        draft("elbe-classics", 2500, title="Elbe Classics", city="Hamburg"),
        happening("techno-cellar", title="Techno Cellar", predicted_sales_share=0.18),
        happening("family-day", title="Family Day", city="Dresden"),
        happening("book-fair", title="Book Fair Reading", city="Berlin"),
    )

    async def story(acted: Town) -> None:
        acted.fault("answer_after", "POST", "/setup_processes/indie-weekend/boost", status=429)
        acted.fault("answer_before", "POST", "/setup_processes/poetry-slam/boost", status=500)
        await acted.run(9)
        await acted.becomes("summer-night", 12, status="cancelled")
        await acted.becomes("winter-gala", 15, client_campaign_status="PAUSED", by="person")
        acted.ledger.save_status(status_of(acted.clock.now()))

    left_by(folder, place, RULES, story)
    (folder / "rules" / "tests").mkdir()
    (folder / "rules" / "tests" / "all.yaml").write_text(TESTS, encoding="utf-8")


def taken(page: Page, to: Path) -> None:
    squeezed = page.context.new_page()
    shot = base64.b64encode(page.screenshot()).decode()
    to.write_bytes(base64.b64decode(squeezed.evaluate(SQUEEZE, shot)))
    squeezed.close()


def take(browser: Browser, address: str, folder: Path, **options: Any) -> None:  # noqa: ANN401 - Playwright's own
    for name, (width, height) in WIDTHS.items():
        context = browser.new_context(
            base_url=address,
            viewport={"width": width, "height": height},
            http_credentials={"username": "ann", "password": PASSWORD},
            timezone_id="Europe/Berlin",
            **options,
        )
        page = context.new_page()
        for view, path in VIEWS.items():
            page.goto(path)
            if view == "now":
                page.get_by_text("Decide", exact=False).nth(1).click()
            tall = min(height, round(page.evaluate("document.querySelector('footer').getBoundingClientRect().bottom")))
            page.set_viewport_size({"width": width, "height": tall})
            taken(page, folder / f"{view}-{name}.webp")
            page.set_viewport_size({"width": width, "height": height})
        context.close()


def main() -> None:
    folder, dark = Path(sys.argv[1]), "--dark" in sys.argv
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        story = Path(made) / "story"
        play(story)
        tested = RuleTestRun(load_config(story / "config.yaml"))
        while tested("").state == "running":
            time.sleep(0.1)
        clock = FixedClock(EPOCH + ENDS)
        with (
            sync_playwright() as driver,
            scene(story, keys=ANN, clock=clock, tested=lambda _rules: tested("")) as shown,
        ):
            browser = driver.chromium.launch(executable_path=found_browser(), headless=True, args=list(OPTIONS))
            take(browser, shown.address, folder, **({"color_scheme": "dark"} if dark else {}))
            browser.close()


if __name__ == "__main__":
    main()
