"""Every page as JSON, the list of events, how rules stand, and the news that pages renew themselves by."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.builders import NOW
from tests.calling import call
from tests.unit.ledger.examples import open_ledger
from tests.virtual import EPOCH
from tests.web.scene import ANN, HOSTILE_ID, HOSTILE_TITLE, PASSWORD, FixedClock, Scene, copied, scene
from tests.worlds import PARTNER
from worker.cli.page import RuleTestRun
from worker.model.commits import Change, Changes, Commit, Observed, Record
from worker.model.errors import NotSafe
from worker.model.facts import EventId, FactKey, Known
from worker.web.app import ASK_EVERY_S, STREAM_FOR_S, STREAMS_MAX, Watchers, json_path
from worker.web.pages import PAGES, link
from worker.web.views import SeenByTests

ARGUMENTS = {"/write": "?id=2", "/event": "?event=summer-night", "/rule": "?rule=pause-cancelled"}


def data(page: Scene, path: str) -> Any:  # noqa: ANN401 - JSON
    answer = page.get(path)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    return json.loads(answer.text)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_there_for_programs(shown: Scene, path: str) -> None:
    found = data(shown, json_path(path) + ARGUMENTS.get(path, ""))
    assert found["at"] == "2026-03-01T12:01:00.000Z"
    assert len(found) > 2
    assert "object at" not in json.dumps(found)


def test_writes_are_as_the_command_prints_them(shown: Scene) -> None:
    printed = json.loads(call("writes", "--format", "json", config=shown.folder / "config.yaml").out)
    assert data(shown, "/writes.json")["writes"] == printed[::-1]
    assert data(shown, "/write.json?id=2")["one"] == printed[1]


def test_what_is_not_there_is_said_in_json(shown: Scene) -> None:
    assert data(shown, "/write.json?id=99") == {"error": "There is no write 99."}


def test_a_program_whose_filter_is_not_understood_is_told_so_and_given_nothing(shown: Scene) -> None:
    for path, why in (("/writes.json?state=wating", "no state"), ("/log.json?since=noon&kind=held", "is no time")):
        assert shown.get(path).status_code == 400
        assert [*data(shown, path)] == ["error"]
        assert why in data(shown, path)["error"]


def names(page: Scene, **asked: object) -> list[str]:
    return [one["seen"]["event"] for one in data(page, link("/events.json", **asked))["events"]]


def test_events_are_listed_with_what_they_are_now(shown: Scene) -> None:
    found = {one["seen"]["event"]: one for one in data(shown, "/events.json")["events"]}
    assert len(found) == 7
    night = found["summer-night"]
    record = night["seen"]["fact"]["value"]
    shown_of_it = [record[name] for name in ("title", "status", "client_campaign_status")]
    assert shown_of_it == ["Summer Night", "cancelled", "PAUSED"]
    assert (night["true"], night["writes"], night["gone_since"]) == (["pause-cancelled"], {}, None)
    assert found["needs-you"]["writes"] == {"needs_human": 1}
    assert found[HOSTILE_ID]["seen"]["fact"]["value"]["title"] == HOSTILE_TITLE


def test_events_are_narrowed_by_what_they_are(shown: Scene) -> None:
    assert names(shown, status="cancelled") == ["summer-night"]
    assert names(shown, client_campaign_status="PAUSED") == ["summer-night", "winter-gala"]
    assert names(shown, client_campaign_status="PAUSED", status="active") == ["winter-gala"]
    assert names(shown, status='cancelled","x":"') == []
    assert names(shown, text="NIGHT") == ["summer-night"]
    assert names(shown, partner="nobody") == []
    assert names(shown, after="over-1", after_partner="partner-id-one") == ["over-2", "summer-night", "winter-gala"]


def test_an_event_that_a_filter_leaves_out_is_not_said_to_be_in_no_list(own: Scene) -> None:
    with open_ledger(own.folder) as ledger:
        record = Record(at=NOW, kind="observed", partner=PARTNER, event=EventId("long-ago"))
        ledger.apply(Commit(at=NOW, records=(record,)))
    found = [
        data(own, link("/events.json", text=text, **more))["elsewhere"]
        for text, more in (("long-ago", {}), ("summer-night", {"status": "active"}), ("summer-night", {"partner": "x"}))
    ]
    assert found == [[PARTNER], [], []]


def test_events_are_leafed_through(shown: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.web.pages.EVENTS", 3)
    found, query = [], ""
    while True:
        page = data(shown, f"/events.json?{query}")
        found += [one["seen"]["event"] for one in page["events"]]
        query = page["older"]
        if not query:
            break
    assert found == sorted(found)
    assert len(found) == 7


def test_where_a_filter_leaves_out_all_that_were_looked_at_it_is_said_that_there_are_more(
    own: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    fact = Known(value={"id": "a", "adplatform": {"status": "cancelled"}}, read_at=NOW)
    first = Observed(event=EventId("a"), key=FactKey(name="event"), fact=fact, at=NOW)
    with open_ledger(own.folder) as ledger:
        changes = Changes(partner=PARTNER, changes=(Change(now=first, before=None),))
        ledger.apply(Commit(at=NOW, changes=changes))
    monkeypatch.setattr("worker.web.pages.EVENTS", 1)
    assert names(own, status="cancelled") == []
    text = own.get("/events?status=cancelled").text
    assert ("No event is like that" in text, "there are more" in text, ">More</a>" in text) == (False, True, True)


def test_an_event_shows_its_facts(shown: Scene) -> None:
    facts = {one["key"]["name"]: one for one in data(shown, "/event.json?event=summer-night")["facts"]}
    assert facts["event"]["fact"]["value"]["client_campaign_status"] == "PAUSED"
    assert facts["event"]["at"] == facts["event"]["fact"]["read_at"], (
        "the poll that saw it change was the last to be noted"
    )
    assert facts["partner"]["event"] == "", "a fact of the whole partner"
    assert (facts["setup"]["fact"]["code"], facts["setup"]["fact"]["why"]) == ("unread", "not read yet")


def test_rules_are_listed_with_how_they_stand(shown: Scene) -> None:
    found = {one["id"]: one for one in data(shown, "/rules.json")["rules"]}
    assert found["pause-cancelled"]["now"]["last_fired"].startswith("2026-03-01T12:00:1")
    assert found["pause-cancelled"]["now"]["true"] == 1
    assert found["boost-drafts"]["now"]["writes"] == {"confirmed": 1, "needs_human": 1}
    assert found["boost-drafts"]["troubles"] == [["bad", "operator needed: 1"]]
    assert found["hide-archived"]["troubles"] == [["warn", "waiting for approval: 3"]]
    assert found["pause-cancelled"]["troubles"] == []


def test_charts_are_of_the_days_that_are_asked_for(shown: Scene) -> None:
    assert data(shown, "/charts.json")["days"] == 30
    assert [one["day"] for one in data(shown, "/charts.json?days=7")["writes_a_day"]] == ["2026-03-01"] * 3
    assert "2026-02-28" in shown.get("/charts?days=7&until=2026-02-28").text
    assert data(shown, "/charts.json?days=8&until=2027-13-01") == data(shown, "/charts.json")
    before = data(shown, "/charts.json?days=7&until=2026-02-28")
    assert (before["writes_a_day"], before["time_to_confirmed"]) == ([], [])
    for long_ago in ("until=0001-01-01", "until=0001-01-20&days=365"):
        assert shown.get(f"/charts?{long_ago}").status_code == 200


class Ticking(FixedClock):
    """A clock whose time passes by sleeping alone."""

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def said(news: Watchers, most: int) -> list[str]:
    async def heard() -> list[str]:
        found = []
        async for one in news.stream():
            found.append(one)
            if len(found) == most:
                break
        return found

    return asyncio.run(heard())


def newest(*words: str) -> Callable[[], str]:
    left: Iterator[str] = iter(words)
    return lambda: next(left)


def test_news_is_told_once_and_a_silence_is_a_comment() -> None:
    news = Watchers(newest("1", "1", "2", "2"), Ticking(EPOCH))
    assert said(news, 4) == ["data: 1\n\n", ":\n\n", "data: 2\n\n", ":\n\n"]


def test_a_stream_ends_by_itself() -> None:
    clock = Ticking(EPOCH)
    assert len(said(Watchers(lambda: "1", clock), 10_000)) == STREAM_FOR_S / ASK_EVERY_S


def test_a_ledger_that_cannot_be_read_ends_the_stream_and_no_more() -> None:
    def broken() -> str:
        raise NotSafe("it cannot be read", hint="wait")

    assert said(Watchers(broken, Ticking(EPOCH)), 1) == []


def test_the_ledger_is_asked_once_however_many_watch() -> None:
    asked: list[int] = []

    def counted() -> str:
        asked.append(1)
        return "1"

    async def watched() -> None:
        news = Watchers(counted, Ticking(EPOCH))
        streams = [news.stream() for _ in range(STREAMS_MAX)]
        for one in streams:
            assert await anext(one) == "data: 1\n\n"
        assert news.full
        for one in streams:
            await one.aclose()  # type: ignore[attr-defined] # it is a generator
        assert not news.full

    asyncio.run(watched())
    assert len(asked) == 1


def test_who_watches_hears_of_a_decision_and_a_stranger_of_nothing(own: Scene) -> None:
    assert own.get("/news", auth=None).status_code == 401
    with own.browser() as ann, ann.stream("GET", "/news") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        words = (line.removeprefix("data: ") for line in stream.iter_lines() if line.startswith("data: "))
        first = int(next(words).split()[0])
        assert call("halt", "--because", "looking into it", config=own.folder / "config.yaml").code == 0
        assert int(next(words).split()[0]) == first + 1


def test_more_than_enough_watchers_are_turned_away(own: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.web.app.STREAMS_MAX", 0)
    answer = own.get("/news")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")


def test_a_page_that_is_watched_ends_without_waiting_for_who_watches(
    story: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with httpx.Client(auth=("ann", PASSWORD), trust_env=False) as ann:
        with scene(copied(story, tmp_path / "own"), keys=ANN) as page:
            stream = ann.stream("GET", page.address + "/news")
            assert stream.__enter__().status_code == 200
        assert [one.message for one in caplog.records if "graceful" in one.message] == []
        stream.__exit__(None, None, None)


TESTS = """
tests:
  - name: a cancelled event is paused
    given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}
    rules: [pause-cancelled]
    steps:
      - at: 6s
        set: {event: {status: cancelled}}
        expect: [{rule: pause-cancelled, action: pause}]
  - name: an active one is paused
    given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}
    rules: [pause-cancelled]
    steps:
      - at: 6s
        expect: [{rule: pause-cancelled, action: pause}]
"""


@pytest.fixture
def rule_tests(own: Scene) -> Path:
    """The folder of the tests, with two of them."""
    tests = own.folder / "rules" / "tests"
    tests.mkdir()
    (tests / "t.yaml").write_text(TESTS, "utf-8")
    return tests


def await_run() -> None:
    for thread in threading.enumerate():
        if thread.name == "rule tests":
            thread.join(60)


def settled(run: RuleTestRun) -> SeenByTests:
    found = run("h")
    await_run()
    assert found.state == "running"
    return run("h")


def test_a_link_to_nothing_beside_the_rule_tests_harms_no_page(own: Scene, rule_tests: Path) -> None:
    (rule_tests / "gone.yaml").symlink_to(rule_tests / "nothing.yaml")
    with closing(RuleTestRun(own.config)) as run:
        assert run("h").state == "running"


@pytest.mark.usefixtures("rule_tests")
def test_rule_tests_that_were_ended_are_run_again_when_somebody_looks(own: Scene) -> None:
    with closing(RuleTestRun(own.config)) as run:
        command, run._command = run._command, ["sh", "-c", "kill -9 $$"]
        run("h")  # it may have ended before anybody looks
        await_run()
        assert run("h").state == "failed"
        await_run()
        run._command = command
        assert run("h").state == "failed", "until the next run has ended"
        await_run()
        assert run("h").state == "done"


def test_what_the_rule_tests_say_stands_beside_each_rule(
    own: Scene, rule_tests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(2)")  # nothing of the folder in which the worker stands is run
    monkeypatch.chdir(tmp_path)
    with closing(RuleTestRun(own.config)) as run:
        found = settled(run)
        assert found.state == "done"
        assert dict(found.passed) == dict(found.failed) == {"pause-cancelled": 1}
        (rule_tests / "t.yaml").write_text("tests: [nonsense]", "utf-8")
        assert settled(run).state == "failed"
        with scene(own.folder, keys=ANN, tested=lambda _rules: found) as page:
            text = page.get("/rules").text
            assert "1 of 2 fail" in text
            assert "no test sees it fire" in text
            assert data(page, "/rules.json")["tests"]["failed"] == {"pause-cancelled": 1}
