"""What machines ask of the page, what is too much for it, and that it lets the daemon live."""

import asyncio
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import Connection, event

from tests.builders import NOW, a_write
from tests.calling import settle_in
from tests.crowded import crowded, last_moment
from tests.unit.ledger.examples import in_memory_ledger, open_ledger
from tests.web.scene import ANN, FixedClock, Scene, left_by, scene
from tests.worlds import PARTNER, Town, draft, world
from worker.cli.common import ledger_url
from worker.cli.run import Pulse
from worker.engine.ports import CycleReport
from worker.ledger.log import Head, read_export, verified
from worker.ledger.places import place_of
from worker.model.commits import Commit, DaemonStatus, LogFilter, Move, Record
from worker.model.errors import LedgerUnwritable, UsageError
from worker.model.facts import Json, PartnerId, RuleId
from worker.model.rules import Truth
from worker.rules.load import read_rules
from worker.web.app import WAITING_MAX, PageServer, TooBusy, Turns, listening
from worker.web.metrics import METRICS, PREFIX, Meter
from worker.web.pages import FOUND, LOOKED_AT


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_log_is_exported_with_its_head_and_can_be_verified(shown: Scene, form: str) -> None:
    answer = shown.get(f"/log.{form}")
    head = Head.parse(answer.headers["x-chain-head"])
    assert f"{head.seq}-{head.hash[:12]}.{form}" in answer.headers["content-disposition"]
    assert head.seq == shown.ledger.last_seq()
    assert verified(read_export(answer.text.splitlines(keepends=True)), [head]) == ({"": head}, None)


def test_an_export_ends_with_its_head_while_the_log_goes_on(own: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    log = own.ledger.log

    def later(wanted: LogFilter) -> Iterator[dict[str, Json]]:
        with open_ledger(own.folder) as ledger:
            ledger.apply(Commit(at=NOW, records=(Record(at=NOW, kind="halted", why="meanwhile"),)))
        return log(wanted)

    monkeypatch.setattr(own.ledger, "log", later)
    answer = own.get("/log.jsonl")
    head = Head.parse(answer.headers["x-chain-head"])
    assert verified(read_export(answer.text.splitlines(keepends=True)), [head]) == ({"": head}, None)


def chain_of_a_partner(own: Scene) -> None:
    """As in a fleet, the partner has a chain of its own."""
    with closing(sqlite3.connect(own.folder / "worker.db")) as ledger, ledger:
        ledger.execute("UPDATE partners SET seq = 5, hash = ? WHERE partner = ?", ("ab" * 32, PARTNER))


def test_in_a_fleet_an_export_says_how_each_chain_ends(own: Scene) -> None:
    chain_of_a_partner(own)
    heads = own.get("/log.jsonl").headers["x-chain-head"].split(", ")
    assert heads == [str(own.ledger.head()), f"{PARTNER}:5:{'ab' * 6}"]
    with closing(sqlite3.connect(own.folder / "worker.db")) as ledger, ledger:
        many = [(f"partner-id-{number:032}", 1, "cd" * 32) for number in range(100)]
        ledger.executemany("INSERT INTO partners (partner, seq, hash, body) VALUES (?, ?, ?, '{}')", many)
    assert own.get("/log.jsonl").headers["x-chain-head"] == str(own.ledger.head()), "a proxy would refuse all of them"
    heads = own.get(f"/log.jsonl?partner={PARTNER}").headers["x-chain-head"].split(", ")
    assert heads == [str(own.ledger.head()), f"{PARTNER}:5:{'ab' * 6}"]


def test_an_export_is_narrowed_as_the_page_is_or_refused(shown: Scene) -> None:
    records = list(read_export(shown.get("/log.jsonl?event=winter-gala").text.splitlines(keepends=True)))
    assert {record["event"] for record in records} == {"winter-gala"}
    records = list(read_export(shown.get("/log.jsonl?kind=fired&before=3").text.splitlines(keepends=True)))
    assert {record["kind"] for record in records} == {"fired"}, "the whole of it, and not a page"
    assert max(cast(int, record["seq"]) for record in records) > 3
    assert shown.get("/log.csv?since=noon").status_code == 400
    page = shown.get("/log?kind=fired&event=winter-gala&until=1h").text
    files = re.findall(r'href="/log[.](?:csv|jsonl)[?]([^"]*)"', page)
    assert files == ["event=winter-gala&amp;kind=fired&amp;until=1h"] * 2, "what the page links to is what it shows"


@pytest.mark.parametrize(
    ("scope", "said"),
    [
        ({}, "This ends every halt that is in force."),
        ({"partner": PARTNER}, f"This ends every halt that is in force and names {PARTNER}."),
        ({"rule": RuleId("pause-cancelled")}, "This ends every halt that is in force and names pause-cancelled."),
        ({"partner": PARTNER, "rule": RuleId("pause-cancelled")}, ""),
    ],
)
def test_beside_a_resume_stands_what_it_ends_as_well(own: Scene, scope: dict[str, Any], said: str) -> None:
    with open_ledger(own.folder) as ledger:
        ledger.append_halt(because="looking into it", by="bob", at=own.clock.now(), **scope)
    hints = re.findall(r"This ends[^<]*", own.get("/").text)
    assert hints == [said] * bool(said)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/write?id=x", 404),
        ("/write", 404),
        ("/event", 404),
        ("/event?event=nobody", 404),
        ("/event.json?event=nobody", 404),
        ("/rule?rule=none", 404),
        ("/rule?rule=pause-cancelled", 200),
        ("/events?text=2", 200),
        ("/events?after=e&after_partner=p", 200),
        ("/log?before=99999999999999999999", 200),
        ("/writes?state=waiting&before=5", 200),
        ("/healthz", 200),
        ("/static/../app.py", 404),
    ],
)
def test_every_address_has_an_answer(shown: Scene, path: str, status: int) -> None:
    assert shown.get(path).status_code == status


def test_a_rule_that_was_published_has_its_place_in_the_folder_that_says_the_same(own: Scene) -> None:
    """Its file is a name without a folder, and was looked for where the worker was started."""
    text = (own.folder / "rules" / "rules.yaml").read_text("utf-8")
    with scene(own.folder, keys=ANN, rules=read_rules({"rules.yaml": text}).rules) as found:
        shown = found.get("/rule?rule=boost-drafts").text
    assert re.search(r"<dd>rules/rules\.yaml:\d+</dd>", shown)
    assert "do: [boost]" in shown


def test_a_rule_that_was_edited_since_is_not_shown_as_if_it_were_in_force(own: Scene) -> None:
    def stands() -> tuple[bool, bool]:
        said = "are not what is in force" not in own.get("/rules").text
        return said, "do: [boost]" in own.get("/rule?rule=boost-drafts").text

    assert stands() == (True, True)
    assert re.search(
        r"<dd>rules/rules\.yaml:\d+</dd>\s*<dt>Mode</dt><dd>live</dd>", own.get("/rule?rule=boost-drafts").text
    )
    file = own.folder / "rules" / "rules.yaml"
    file.write_text(file.read_text("utf-8").replace("do: [boost]", "do: [run]"), "utf-8")
    assert stands() == (False, False)
    file.unlink()
    assert stands() == (False, False)


WATCHING = """
rules:
  - id: boost-on-new
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: setup.state == 'DRAFT'
    do: [boost]
"""


def test_a_rule_that_watches_a_change_is_not_said_to_be_false(tmp_path: Path) -> None:
    async def story(here: Town) -> None:
        await here.run(15)
        here.suggest("e1", 2)
        await here.until(lambda: here.states() == ["confirmed"], "boosted")

    left_by(tmp_path, world(draft("e1")), WATCHING, story)
    with scene(tmp_path) as shown:
        text = shown.get("/rule?rule=boost-on-new").text

    assert ">no change waits<" in text
    assert "false at" not in text
    assert re.search(r'data-label="Fired"><time[^>]*>[^<]*</time>, episode 1<', text)


def test_how_far_a_first_list_is_stands_on_the_page(tmp_path: Path) -> None:
    settle_in(tmp_path)
    partner: Json = {"last_ok_at": None, "last_error": None, "first_list": [40, 200]}
    body: dict[str, Json] = {"cycle_ms": None, "partners": {"partner-id-acme": partner}}
    with open_ledger(tmp_path) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body=body))
    with scene(tmp_path) as shown:
        text = shown.get("/").text

    assert "40 of 200 pages of the first list" in text
    assert '<progress value="40" max="200"' in text
    assert "The first list of events is being read." in text
    assert "last poll took" not in text


def test_a_ledger_that_could_not_be_started_on_again_is_said_to_be_one(own: Scene) -> None:
    assert "is not one to go on with" not in own.get("/").text
    place_of(ledger_url(own.config)).mark.unlink()

    text = own.get("/").text

    assert "The ledger as it lies there now is not one to go on with." in text
    assert "worker.db.mark is missing; `campaign-worker run` will refuse it: " in text


def test_an_event_shows_its_title_and_why_each_rule_did_or_did_not_fire(shown: Scene) -> None:
    text = shown.get("/event?event=summer-night").text
    assert "Summer Night, partner-id-one" in text
    facts = text[text.index("Facts, as they were read last") : text.index("History")]
    assert re.search(r"<dt>client_campaign_status</dt><dd>PAUSED</dd>", facts)
    whys = text[text.index("Why each rule did or did not fire") :]
    rules = re.findall(r'<h3><a class="id" href="/rule\?rule=([\w-]+)">', whys)
    assert rules == ["pause-cancelled", "boost-drafts", "hide-archived"], "the one that fired comes first"
    inner = '<li class="deep1"><span class="pill quiet">false</span> <code>event.status == &#39;archived&#39;</code>'
    assert inner in whys
    assert 'last <span class="pill busy">fired</span>' in whys
    found = shown.get("/events?text=mer+Nig").text
    assert "summer-night" in found
    assert "Summer Night" in found, "a title is found as well, and shown"


def test_of_a_long_life_it_is_said_that_there_is_more_and_why_it_began(own: Scene) -> None:
    """A write that was held on and off, and a rule that has fired often since: the page showed neither how the write
    was sent nor which firing it is of, and said of the event that no field of it had changed."""
    (write,) = [one for one in own.ledger.writes() if one.key.event == "summer-night"]
    key, at = write.key, own.clock.now()
    held = Record(at=at, kind="held", partner=key.partner, event=key.event, rule=key.rule, write=write.id)
    later = [Record(at=at, kind="fired", partner=key.partner, event=key.event, rule=key.rule, episode=2)] * FOUND
    with open_ledger(own.folder) as ledger:
        ledger.apply(Commit(at=at, records=(*[held] * LOOKED_AT, *later)))
    life = own.get(f"/write?id={write.id}").text
    assert 'datetime="2026-03-01T12:00:16' in life[life.index("Its life") :].partition("</details>")[0]
    older = own.get(re.findall(r'href="([^"]*)">Older<', life)[0].replace("&amp;", "&")).text
    assert ">sending</span>" in older
    about = own.get("/event?event=summer-night").text
    assert "No field that a rule looks at has changed" not in about
    assert ">every change of a field</a>" in about


def figures(text: str) -> dict[str, float]:
    """Every sample of a scrape by its name and labels, as Prometheus' own parser reads it."""
    return {
        f"{sample.name.removeprefix(PREFIX)}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_what_the_ledger_knows_is_measured_at_the_scrape(shown: Scene) -> None:
    text = shown.get("/metrics").text
    found = figures(text)
    states = {state: found[f"writes[('state', '{state}')]"] for state in ("needs_human", "waiting", "rejected")}
    assert states == {"needs_human": 1, "waiting": 3, "rejected": 0}
    assert found["oldest_needs_human_seconds[]"] > found["oldest_unknown_seconds[]"] == 0
    head = shown.ledger.head()
    assert found["log_records[('chain', '')]"] == head.seq
    log_head = int(found["log_head[('chain', '')]"])
    assert f"{log_head:013x}" == head.hash[:13], "a figure that holds each of its digits"
    command = re.findall(r"`(printf .*?)`", Path("docs/auditing.md").read_text("utf-8"))[0]
    for name in ("records", "head"):
        shown_as = re.findall(rf"^{PREFIX}log_{name}\{{.*\}} (.*)$", text, re.MULTILINE)[0]
        command = command.replace(name.upper(), shown_as)
    said = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout
    assert said == f"{head.seq}:{head.hash[:13]}\n", "as an auditor types it, with the figures as they are printed"
    assert found["budget_requests_per_minute[('partner', 'partner-id-one')]"] == 300


@pytest.mark.parametrize(
    ("partners", "hours_ago"),
    [({"p": {"last_ok_at": "2026-03-01T11:00:00.000Z"}, "q": {"last_ok_at": None}}, {"p": 1, "q": 0}), ({}, {"": 0})],
    ids=["one was never seen whole", "nobody is known yet"],
)
def test_whom_no_poll_has_got_through_to_is_measured_from_the_start(
    tmp_path: Path, partners: dict[str, Json], hours_ago: dict[str, int]
) -> None:
    settle_in(tmp_path)
    with open_ledger(tmp_path) as ledger:
        ledger.save_status(DaemonStatus(pid=1, since=NOW, seen_at=NOW, body={"partners": partners}))
    with scene(tmp_path) as shown:
        found, name = figures(shown.get("/metrics").text), "last_complete_cycle_timestamp_seconds"
    assert {one: at for one, at in found.items() if name in one} == {
        f"{name}[('partner', '{partner}')]": (NOW - timedelta(hours=ago)).timestamp()
        for partner, ago in hours_ago.items()
    }


def test_in_a_fleet_the_end_of_each_chain_is_measured(own: Scene) -> None:
    chain_of_a_partner(own)
    found = figures(own.get("/metrics").text)
    assert found[f"log_records[('chain', '{PARTNER}')]"] == 5
    assert found[f"log_head[('chain', '{PARTNER}')]"] == int("ab" * 6 + "a", 16)


def test_what_the_daemon_does_is_counted(shown: Scene) -> None:
    meter, ledger = Meter(), in_memory_ledger(NOW)
    partner, rule = PartnerId("p"), RuleId("r")
    judged = {(rule, Truth.UNKNOWN): 2, (rule, Truth.TRUE): 1}
    report = CycleReport(partner=partner, events=3, complete=True, fired=0, open_writes=0, took_ms=40, judged=judged)
    meter.cycle(report)
    meter.cycle(CycleReport(partner=partner, events=0, complete=False, fired=0, open_writes=0, took_ms=9, error="x"))
    meter.request("read", "p", "429", timedelta(hours=1))
    meter.request("read", "q", "429", timedelta(hours=1))
    meter.request("read", "q", "200", None)
    meter.record(Record(at=NOW, kind="fired", rule=rule))
    seconds = iter([1.0, 1.5]).__next__
    timed = meter.timed(ledger, seconds)
    timed.apply(Commit(at=NOW))
    timed.apply(Commit(at=NOW, records=(Record(at=NOW, kind="started"),)))
    assert timed.halts(NOW) == (), "whatever else a ledger can do is passed on"
    done = a_write(state="confirmed", changed_at=NOW + timedelta(seconds=8))
    meter.commit(0.1, [Move(before=a_write(state="applied"), after=done)])
    found = figures(meter.measured(shown.ledger, NOW).decode())
    assert found["cycles_total[('partner', 'p'), ('result', 'complete')]"] == 1
    assert found["cycles_total[('partner', 'p'), ('result', 'error')]"] == 1
    assert found["rule_evaluations_total[('rule', 'r'), ('truth', 'unknown')]"] == 2
    assert found["requests_total[('kind', 'read'), ('partner', 'p'), ('status', '429')]"] == 1
    assert found["retry_after_seconds[('partner', 'p')]"] == 3600
    assert found["retry_after_seconds[('partner', 'q')]"] == 0, "it has answered since"
    assert found["fired_total[('rule', 'r')]"] == 1
    assert (found["ledger_commit_seconds_count[]"], found["ledger_commit_seconds_sum[]"]) == (2, 0.6)
    assert found["change_to_confirmed_seconds_sum[]"] == 8


def test_a_commit_that_failed_is_counted_and_still_fails() -> None:
    class Broken:
        def apply(self, _: Commit) -> None:
            raise LedgerUnwritable("the disk is full")

    meter = Meter()
    timed = meter.timed(Broken(), lambda: 0.0)  # type: ignore[arg-type] # only what is asked of it
    with pytest.raises(LedgerUnwritable):
        timed.apply(Commit(at=NOW, records=(Record(at=NOW, kind="started"),)))
    text = meter._registry.get_sample_value(f"{PREFIX}ledger_failures_total")
    assert text == 1


def test_every_figure_of_the_table_is_measured(shown: Scene) -> None:
    text = shown.get("/metrics").text
    missing = [name for name in METRICS if f"# HELP {PREFIX}{name.removesuffix('_total')}" not in text]
    assert missing == []


STEPS_A_RECORD, STEPS_OF_CHARTS = 8, 25
"""What a record more may cost a page. Charts cost more: they count what is drawn of every write."""
EVERY_PAGE = (
    "/",
    "/log",
    "/log?event=event-4",
    "/log?kind=needs_human",
    "/log?reason=halt",
    "/writes?rule=rare-rule",
    "/write?id=40",
    "/event?event=event-4",
    "/events",
    "/events?text=99&status=active",
    "/rules",
    "/rule?rule=pause-cancelled",
    "/charts",
    "/metrics",
)


def steps(folder: Path, records: int) -> dict[str, int]:
    """How many of its own steps SQLite takes for each page, over a ledger of so many records: what no load disturbs."""
    folder.mkdir()
    settle_in(folder)
    crowded(folder, records=records).close()
    taken = [0]

    def tick() -> None:
        taken[0] += 10

    def counting(connection: Connection, *_: object) -> None:
        raw: Any = connection.connection.driver_connection
        raw.set_progress_handler(tick, 10)

    found = {}
    with scene(folder, clock=FixedClock(last_moment(records))) as page, page.browser() as client:
        event.listen(page.ledger._store.engine, "before_cursor_execute", counting)
        for path in EVERY_PAGE:
            taken[0] = 0
            assert client.get(path).status_code == 200
            found[path] = taken[0]
    return found


def test_a_page_over_a_long_log_walks_it_once_at_most(tmp_path: Path) -> None:
    few, many = steps(tmp_path / "few", 350), steps(tmp_path / "many", 3_500)
    more = {path: (many[path] - few[path]) / 3_150 for path in EVERY_PAGE}
    assert min(many.values()) > 0
    assert more.pop("/charts") < STEPS_OF_CHARTS
    assert {path: one for path, one in more.items() if one > STEPS_A_RECORD} == {}
    assert max(more[path] for path in ("/write?id=40", "/event?event=event-4")) < 1, "an index leads there"


class Hours:
    """A clock for turns: each piece of work takes what it says."""

    def __init__(self) -> None:
        self.at = 0.0
        self.slept: list[float] = []

    def now(self) -> None:
        raise AssertionError("turns have no use for the time of day")

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.slept.append(max(0.0, round(seconds, 3)))
        self.at += max(0.0, seconds)

    def working(self, seconds: float) -> Callable[[], float]:
        def work() -> float:
            self.at += seconds
            return seconds

        return work


async def test_after_each_page_the_next_one_waits_for_as_long_as_it_took() -> None:
    clock = Hours()
    turns = Turns(clock)  # type: ignore[arg-type] # a clock without a time of day
    await asyncio.gather(*(turns.run(clock.working(seconds)) for seconds in (0.1, 0.2, 3.0, 0.1)))
    assert clock.slept == [0.0, 0.1, 0.2, 0.5], "half of the time at most, and never a long rest"


async def test_who_would_wait_too_long_is_turned_away() -> None:
    clock, gate = Hours(), threading.Event()
    turns = Turns(clock)  # type: ignore[arg-type] # as above
    waiting = [asyncio.ensure_future(turns.run(lambda: gate.wait(5))) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(TooBusy):
        await turns.run(lambda: None)
    gate.set()
    assert all(await asyncio.gather(*waiting))


def test_a_port_that_is_taken_is_said_at_once() -> None:
    with listening("127.0.0.1", 0) as taken, pytest.raises(UsageError, match=r"web\.listen: 127\.0\.0\.1"):
        listening("127.0.0.1", taken.getsockname()[1])


def test_no_answer_of_a_kept_connection_waits_until_its_head_has_been_acknowledged(shown: Scene) -> None:
    took = []
    with shown.browser() as client:
        for _ in range(30):
            began = time.perf_counter()
            client.get("/metrics")
            took.append(time.perf_counter() - began)
    assert min(took[10:]) < 0.035, "a reader's system acknowledges after 40 ms"


def test_a_page_that_falls_over_is_told_of_and_ends() -> None:
    told: list[BaseException] = []
    fallen = threading.Event()

    def failed(error: BaseException) -> None:
        told.append(error)
        fallen.set()

    async def app(*_: object) -> None:
        """Never asked."""

    server = PageServer(app, host="127.0.0.1", port=0, failed=failed)
    server._server.serve = _falling  # type: ignore[method-assign] # what no test can otherwise bring about
    with server:
        assert fallen.wait(10)
    assert [str(one) for one in told] == ["fallen"]


async def _falling(*_: object, **__: object) -> None:
    raise RuntimeError("fallen")


async def test_a_pulse_tells_how_long_the_loop_has_stood() -> None:
    clock = Hours()
    pulse = Pulse(clock)  # type: ignore[arg-type] # as above
    clock.at = 40.0
    assert pulse.silence() == 40.0
    beats: list[float] = []

    def told(words: str) -> None:
        assert words == "WATCHDOG=1"
        beats.append(clock.at)
        if len(beats) == 3:
            raise asyncio.CancelledError

    with patch("worker.cli.run.tell_supervisor", told), pytest.raises(asyncio.CancelledError):
        await pulse.beating()
    assert beats == [40.0, 41.0, 42.0]
    assert pulse.silence() == 0.0
