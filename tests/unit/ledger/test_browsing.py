"""What people leaf through: the newest first, in pages, with every filter, and counts that charts are drawn from."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from sqlalchemy import Connection, event, update

from tests.unit.ledger.examples import ACME, NOW, after, become, fired, key, memory, plan, planned, sent
from worker.ledger.browsing import LedgerBrowser, open_browser
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import action_log
from worker.model.commits import Baseline, Change, Changes, Commit, EventFilter, LogFilter, Observed, Record, RuleNow
from worker.model.errors import NotSafe
from worker.model.facts import EventId, FactKey, Known, PartnerId
from worker.model.writes import Outcomes, Settled, WriteFilter

OTHER = PartnerId("partner-id-other")
TOMORROW = NOW + timedelta(days=1)


@pytest.fixture
def browser(ledger: SqlLedger, url: str) -> Iterator[LedgerBrowser]:
    with open_browser(url) as opened:
        yield opened


def seqs(browser: LedgerBrowser, limit: int = 50, **wanted: Any) -> list[object]:  # noqa: ANN401 - fields of Wanted
    return [record["id"] for record in browser.newest(LogFilter(**wanted), limit)]


def three(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, memory=(memory(),)))
    records = (
        fired(NOW, event="e1"),
        Record(at=after(10), kind="held", reason="halt", partner=ACME, event=EventId("e2"), why="halted"),
        Record(at=after(20), kind="fired", partner=OTHER, event=EventId("e1"), why="x"),
    )
    ledger.apply(Commit(at=NOW, records=records))


def test_records_are_leafed_through_from_the_newest_on(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    three(ledger)
    assert seqs(browser) == [3, 2, 1]
    assert seqs(browser, limit=2) == [3, 2]
    assert seqs(browser, before_id=2) == [1]


FILTERS: tuple[tuple[dict[str, Any], list[int]], ...] = (
    ({"partner": ACME}, [2, 1]),
    ({"event": "e1", "partner": ACME}, [1]),
    ({"rule": "pause-cancelled"}, [1]),
    ({"kind": "fired"}, [3, 1]),
    ({"reason": "halt"}, [2]),
    ({"write": 9}, []),
    ({"since": after(10)}, [3, 2]),
    ({"until": after(10)}, [1]),
    ({"kind": "fired", "since": after(1)}, [3]),
)


def test_every_filter_narrows(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    three(ledger)
    for wanted, found in FILTERS:
        assert seqs(browser, **wanted) == found, wanted


def test_an_event_is_found_with_every_partner_that_is_known(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    three(ledger)
    assert seqs(browser, event="e1") == [1], "of the other partner nothing is remembered yet"
    planned(ledger, plan(key(event="e1", partner=OTHER)))
    assert set(browser.partners()) == {ACME, OTHER}
    assert seqs(browser, event="e1") == [4, 3, 1]


def test_writes_are_leafed_through_and_narrowed(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    first, second = planned(ledger, plan(key(1)), plan(key(2, event="e2")))
    become(ledger, second, "waiting", after(5))
    assert [one.id for one in browser.newest_writes(WriteFilter(), 9)] == [2, 1]
    assert [one.id for one in browser.newest_writes(WriteFilter(before_id=2), 9)] == [1]
    assert [one.id for one in browser.newest_writes(WriteFilter(state="waiting", event="e2"), 9)] == [2]
    assert [one.id for one in browser.writes_in(["planned", "waiting"], 9)] == [first.id, second.id]
    assert [one.id for one in browser.writes_in(["waiting", "planned"], 1)] == [second.id], (
        "the first state comes first"
    )


def test_counts_are_by_day_and_by_rule(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    first, second = planned(ledger, plan(key(1)), plan(key(2, event="e2")))
    done = become(ledger, sent(ledger, first, after(1)), "applied", after(2))
    become(ledger, done, "confirmed", after(9))
    assert browser.daily(NOW, TOMORROW) == (
        Outcomes(day="2026-01-31", state="confirmed", count=1),
        Outcomes(day="2026-01-31", state="planned", count=1),
    )
    assert browser.daily(TOMORROW, TOMORROW + timedelta(days=1)) == ()
    assert browser.daily(NOW - timedelta(days=1), NOW) == ()
    assert browser.settled(NOW, TOMORROW) == (Settled(day="2026-01-31", count=1, middle_s=9.0, slow_s=9.0),)
    assert browser.state_counts(second.key.rule) == {"confirmed": 1, "planned": 1}
    assert browser.oldest("planned") == NOW
    assert browser.oldest("unknown") is None


def test_half_and_most_of_a_day_are_told_apart(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    for episode, seconds in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 9, 100), start=1):
        become(ledger, planned(ledger, plan(key(episode)))[0], "confirmed", after(seconds))
    assert browser.settled(NOW, TOMORROW) == (Settled(day="2026-01-31", count=10, middle_s=5.0, slow_s=100.0),)
    assert browser.settled(TOMORROW, TOMORROW + timedelta(days=1)) == ()
    assert browser.settled(NOW - timedelta(days=1), NOW) == ()


def test_the_longest_unknown_is_measured_from_when_it_became_so(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    write = sent(ledger, planned(ledger)[0], after(1))
    unknown = become(ledger, write, "unknown", after(3), unknown_since=after(3))
    become(ledger, unknown, "unknown", after(60), unknown_since=after(3))
    assert browser.oldest("unknown") == after(3)


def seen(ledger: SqlLedger, event: str, title: str) -> None:
    fact = Known(value={"id": event, "title": title}, read_at=NOW)
    now = Observed(event=EventId(event), key=FactKey(name="event"), fact=fact, at=NOW)
    changes = Changes(partner=ACME, changes=(Change(now=now, before=None),))
    ledger.apply(Commit(at=NOW, changes=changes))


def test_events_are_found_by_a_part_of_their_id_or_title(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    seen(ledger, "e77", "Summer % Night")
    seen(ledger, "x-e7", "")
    seen(ledger, "e71", "")
    ledger.apply(Commit(at=NOW, memory=(memory(event="x-e7"), memory(event="e70"))))

    def found(text: str, limit: int = 9) -> list[str]:
        return [str(one.event) for one in browser.events(EventFilter(text=text), limit)[0]]

    assert found("e7") == ["e71", "e77", "x-e7"]
    assert found("night") == ["e77"]
    assert found("%") == ["e77"], "a wildcard is text"
    seen(ledger, "o1", "Messe in Österreich")
    seen(ledger, "o2", normalize("NFD", "Messe in Österreich"))
    asked = ("österreich", "ÖSTER", "in öster", "Österreich", normalize("NFD", "öster"))
    assert [found(one) for one in asked] == [["o1", "o2"]] * 5, "a letter and its dots may be one character or two"
    assert found("e7", 1) == ["e71"]
    assert browser.titles([(ACME, "e77"), (ACME, "e70")]) == {(ACME, "e77"): "Summer % Night"}
    assert browser.titles([]) == {}
    assert browser.rule_ids() == ("pause-cancelled",)
    assert [one.event for one in browser.memories_of("pause-cancelled", 9)] == ["e70", "x-e7"]


def test_how_rules_stand_is_counted_over_all_events(ledger: SqlLedger, browser: LedgerBrowser) -> None:
    three(ledger)
    quiet = replace(memory(event="e2"), baselines={"event": Baseline(value={"open": True, "x": "\0"}, seen_at=NOW)})
    memories = (
        replace(memory(event="e1"), open=True, held="surge"),
        quiet,
        replace(memory(event="e3"), open=True),
        replace(memory(event="e4"), stopped="a person rejected it"),
    )
    ledger.apply(Commit(at=NOW, memory=memories))
    waiting, _ = planned(ledger, plan(key(1), state="waiting"), plan(key(2)))
    become(ledger, waiting, "cancelled", after(20))
    found = browser.rules_now(after(10))["pause-cancelled"]
    assert found == RuleNow(2, 1, 1, NOW, {"cancelled": 1, "planned": 1})
    assert browser.rules_now(after(30), "pause-cancelled")["pause-cancelled"].writes == {"planned": 1}
    assert browser.rules_now(NOW, "another") == {}
    assert [event for _, event, _ in browser.open_pairs(["e1", "e2", "e3", "e9"])] == ["e1", "e3"]
    assert browser.open_states(["e1", "e2"]) == {(ACME, "e1"): {"planned": 1}}


def test_memories_that_say_nothing_cost_a_page_nothing(tmp_path: Path, ledger: SqlLedger) -> None:
    several = [replace(memory(event=f"e{number}"), open=number < 10) for number in range(1_000)]
    ledger.apply(Commit(at=NOW, memory=tuple(several)))
    ticks: list[int] = []

    def counting(connection: Connection, *_: object) -> None:
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(lambda: ticks.append(1), 1)

    with open_browser(f"sqlite:///{tmp_path}/worker.db") as browser:
        event.listen(browser._store.engine, "before_cursor_execute", counting)
        assert browser.rules_now(NOW)["pause-cancelled"].true == 10
    assert 0 < len(ticks) < 1_000, "steps of SQLite's: less than one a memory"


def test_a_record_that_was_tampered_with_is_not_shown_as_if_it_were_whole(
    ledger: SqlLedger, browser: LedgerBrowser
) -> None:
    ledger.apply(Commit(at=NOW, records=(fired(facts={"a": 1}),)))
    with ledger._store.writing() as connection:
        connection.execute(update(action_log).values(facts='{"a":  2}'))
    with pytest.raises(NotSafe, match="cannot be read"):
        browser.newest(LogFilter(), 9)


def test_there_must_be_a_ledger_of_this_revision(tmp_path: Path) -> None:
    with pytest.raises(NotSafe):
        open_browser(f"sqlite:///{tmp_path}/worker.db")
