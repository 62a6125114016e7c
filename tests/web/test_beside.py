"""The page lives beside the daemon and never in its way."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.calling import settle_in
from tests.crowded import crowded, last_moment
from tests.web.scene import FixedClock, scene
from tests.worlds import PAUSE, Town, happening, town, world
from worker.ledger.browsing import LedgerBrowser
from worker.ledger.log import end_of_chain
from worker.web.pages import RECORDS

SOON_S = 20.0


def said(address: str) -> str:
    return httpx.get(address, timeout=SOON_S, trust_env=False).text


def test_a_page_that_stands_still_in_mid_read_holds_up_no_look_and_no_write(tmp_path: Path) -> None:
    reading, read_on = threading.Event(), threading.Event()

    def standing(ledger: LedgerBrowser) -> bytes:
        with ledger._store.reading() as connection:
            seen = end_of_chain(connection)
            reading.set()
            assert read_on.wait(SOON_S)
            assert end_of_chain(connection) == seen
        return b"read"

    async def story(acted: Town) -> None:
        await acted.run(9)
        with scene(tmp_path, measured=standing) as page, ThreadPoolExecutor(1) as browser:
            asked = browser.submit(said, f"{page.address}/metrics")
            assert reading.wait(SOON_S)
            acted.reports.clear()
            await acted.becomes("e1", 30, status="cancelled")
            assert (acted.only.state, len(acted.reports)) == ("confirmed", 10)
            assert all(report.complete for report in acted.reports)
            assert said(f"{page.address}/healthz") == "alive\n"
            assert not asked.done()
            read_on.set()
            assert asked.result(SOON_S) == "read"

    settle_in(tmp_path, rules=PAUSE)
    with town(tmp_path, world(happening("e1")), PAUSE) as (_, go):
        go(story)


def test_a_long_history_is_drawn_and_its_newest_records_are_listed(tmp_path: Path) -> None:
    settle_in(tmp_path)
    crowded(tmp_path, records=900, events=1, waiting=3).close()
    with scene(tmp_path, clock=FixedClock(last_moment(900))) as page:
        text = said(f"{page.address}/event?event=event-0&partner=partner-id-north")
        assert text.count('<tr id="seq-') == RECORDS
        assert 'class="timeline"' in text
        writes = text.rpartition('">All its writes</a>')[0].rpartition('href="')[2].replace("&amp;", "&")
        assert said(page.address + writes).count('data-label="Write"') == text.count('data-label="Write"') > 40
        older = text.rpartition('">Older</a>')[0].rpartition('href="')[2].replace("&amp;", "&")
        assert said(page.address + older).count('<tr id="seq-') == RECORDS
