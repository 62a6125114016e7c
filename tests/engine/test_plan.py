"""What `plan` says of each write: before and after, what would hold it, what it costs; and that it does none of it."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.calling import call, call_beside, settle_in
from tests.rehearsing import rehearsed
from tests.worlds import OTHER, PARTNER, PAUSE, QUICK, Town, draft, happening, in_town, several, tenant, world
from worker.cli.wiring import embedded_sandbox
from worker.engine.operators import approved
from worker.engine.rehearsal import Rehearsed
from worker.ledger.lock import SenderLock
from worker.ledger.places import place_of
from worker.ledger.sql import draft_of
from worker.model.commits import DaemonStatus
from worker.model.errors import NotSafe
from worker.model.facts import Json, PartnerId
from worker.model.rules import Surge
from worker.rules.spelling import parse_duration
from worker.sandbox.changes import EventChange
from worker.sandbox.faults import Fault, Match
from worker.sandbox.service import Twin

RULES = """
rules:
  - id: boost-drafts
    when: setup.state == 'DRAFT' && event.category == 'party'
    mode: approve
    do: [boost]
  - {id: hide-archived, when: event.status == 'archived', for: 1h, do: [{frontend_status: HIDDEN}]}
  - id: launch
    when: setup.state == 'NONE' && event.category == 'launch'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
"""


def rows(found: Rehearsed) -> list[tuple[str, str, str, str | None]]:
    """``event``, ``action``, where it would come to stand, and why."""
    found_rows = ((row, row.write.key, row.write.intent.action) for row in found.rows)
    return [
        (key.event, action + key.item, "sent" if row.request else row.becomes, row.reason)
        for row, key, action in found_rows
    ]


def kept(folder: Path) -> list[bytes]:
    """The ledger and its mark."""
    return [(folder / name).read_bytes() for name in ("worker.db", "worker.db.mark")]


async def stopped_and_rehearsed(here: Town) -> Rehearsed:
    """The worker ends, `plan` is asked, and the worker is there again."""
    await here.kill()
    found = await rehearsed(here)
    here.start()
    return found


@in_town(world(happening("e1"), draft("e2"), happening("e3"), happening("e4"), happening("e5")), RULES, watched=4)
async def test_every_write_is_told_before_and_after_with_its_request_and_its_cost(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.set("e2", category="party")
    here.set("e3", status="archived")
    here.set("e4", status="cancelled", client_campaign_status="PAUSED")
    here.set("e5", category="launch")
    asked_at = here.clock.now()
    found = await stopped_and_rehearsed(here)

    assert rows(found) == [
        ("e1", "pause", "sent", "condition"),
        ("e2", "boost", "waiting", "mode"),
        ("e3", "frontend_statusevent", "held", "for"),
        ("e3", "frontend_statuscr", "held", "for"),
        ("e4", "pause", "skipped", "already_so"),
        ("e5", "create_draft", "sent", "condition"),
        ("e5", "boost", "planned", "sequence"),
    ]
    pause, boost, hidden, cr, so, create, _ = found.rows
    assert (pause.before, pause.write.intent.wanted) == ("RUNNING", {"client_campaign_status": "PAUSED"})
    assert pause.request is not None
    assert pause.request["method"] == "PUT"
    assert str(pause.request["url"]).endswith("/events/e1/client_campaign_status?client_campaign_status=PAUSED")
    assert (pause.cost.preflight, pause.cost.write, pause.cost.confirm) == (1, 1, 1), "the event; the PUT; a look"
    assert boost.before == {"state": "DRAFT", "goal": "ROAS", "total_budget": 500}
    assert boost.cost.preflight == 3, "event, setup and budget range, once it is approved"
    assert hidden.before == "DEFAULT"
    assert hidden.write.held_until is not None
    assert timedelta(hours=1) <= hidden.write.held_until - asked_at < timedelta(hours=1, minutes=1)
    assert (cr.before_known, cr.cost.confirm) == (False, 0), "nothing shows it"
    assert (so.before, so.cost.write) == ("PAUSED", 0)
    assert create.before == {"state": "NONE"}


@in_town(world(happening("e1")), watched=4)
async def test_nothing_is_sent_and_the_ledger_stays_as_it_is_byte_for_byte(here: Town, tmp_path: Path) -> None:
    await here.kill()
    here.set("e1", status="cancelled")
    stored = kept(tmp_path)
    found = await rehearsed(here)
    assert rows(found) == [("e1", "pause", "sent", "condition")]
    assert kept(tmp_path) == stored
    assert here.effects() == []
    here.start()
    await here.run(10)
    assert here.only.state == "confirmed", "and the next run does it"


def in_mode(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - what a test says in keywords
    return {"deciding": replace(QUICK.deciding, **changes)}


@pytest.mark.parametrize(
    ("changes", "meanwhile", "expected", "why"),
    [
        ({}, lambda _here: None, ("sent", "condition"), "event.status is 'cancelled'"),
        ({}, Town.halt, ("planned", "halt"), "halted by ann: look first"),
        (in_mode(mode="shadow"), lambda _here: None, ("shadowed", "mode"), "event.status is 'cancelled'"),
        (in_mode(mode="approve"), lambda _here: None, ("waiting", "mode"), ""),
        (in_mode(surge=Surge(events=1, within=timedelta(hours=1))), lambda _here: None, ("waiting", "surge"), ""),
        ({}, lambda here: here.loop.jump(7200), ("waiting", "gap"), ""),
        (
            {"unconfirmed": {"pause": ("task.succeeded",)}},
            lambda _here: None,
            ("planned", "assumption"),
            "task.succeeded",
        ),
    ],
    ids=["nothing", "a halt", "shadow mode", "approve mode", "a surge", "a silence", "a default nobody vouched for"],
)
@in_town(world(happening("e1"), happening("e2")), settings=lambda changes: replace(QUICK, **changes), watched=4)
async def test_what_would_hold_a_write_is_named(
    here: Town, meanwhile: Callable[[Town], None], expected: tuple[str, str], why: str
) -> None:
    meanwhile(here)
    here.set("e1", status="cancelled")
    here.set("e2", status="cancelled")
    found = await stopped_and_rehearsed(here)
    assert {row[2:] for row in rows(found)} == {expected}
    assert why in found.rows[0].write.why


@in_town(world(*(draft(f"e{number:02}", category="party") for number in range(30))), RULES, requests_per_minute=60)
async def test_under_a_short_quota_it_reads_for_ten_seconds_and_says_what_it_has_not_read(here: Town) -> None:
    await here.kill()
    began = here.loop.time()
    found = await rehearsed(here, within=timedelta(seconds=10))
    assert here.loop.time() - began < 20, "the list comes first"
    assert found.not_read, "thirty setups take half a minute"
    assert {key.name for _, key in found.not_read} == {"setup"}
    (unsure,) = [one for one in found.unsure if one.rule == "boost-drafts"]
    assert unsure.events == len(found.not_read) == 30 - len(found.rows)
    assert "was not read within 10 s" in unsure.why

    whole = await rehearsed(here)
    assert (whole.not_read, len(whole.rows)) == ((), 30), "and with --wait all of them"
    only = await rehearsed(here, only="e29", within=timedelta(seconds=10))
    assert [row[0] for row in rows(only)] == ["e29"]
    here.start()


PAUSE_WHAT_DOES_NOT_SELL = """
rules:
  - id: pause-what-does-not-sell
    when: setup.state == 'PUBLISHED' && event.predicted_sales_share < 0.2
    do: [pause]
  - id: run-what-sells
    when: setup.state == 'PUBLISHED' && event.predicted_sales_share >= 0.2
    do: [run]
"""
EVENTS = [draft(f"e{number:02}", predicted_sales_share=0.1) for number in range(30)]


@in_town(world(*EVENTS), PAUSE_WHAT_DOES_NOT_SELL, requests_per_minute=60)
async def test_a_list_that_is_read_while_the_world_moves_plans_no_two_opposite_writes(here: Town) -> None:
    await here.kill()
    for event in EVENTS:
        here.change(event.eid, published=True)

    def they_sell(twin: Twin) -> None:
        for event in EVENTS:
            change = EventChange(event=event.eid, partner=PARTNER, set={"predicted_sales_share": 0.5})
            twin.change(change, here.loop.time())

    found = await rehearsed(here, after_12_s=they_sell)
    assert {row[1] for row in rows(found)} == {"pause"}
    assert len({row.write.key.event for row in found.rows}) == len(found.rows) == 30
    here.start()


LAUNCH = """
rules:
  - id: launch
    when: event.category == 'launch'
    do: [{create_draft: {goal: ROAS, total_budget: "=expected_value * 2.0"}}]
"""


@in_town(world(happening("e1")), LAUNCH)
async def test_what_cannot_be_computed_is_told_with_the_values_as_they_are_written(here: Town) -> None:
    here.fault("answer_before", "GET", "/campaigns_expected_value", status=500, times=100)
    here.set("e1", category="launch")
    found = await stopped_and_rehearsed(here)
    assert rows(found) == [("e1", "create_draft", "held", "fact_unknown")]
    (row,) = found.rows
    assert row.write.intent.params == {"goal": "ROAS", "total_budget": "=expected_value * 2.0"}
    assert "expected_value" in row.write.why


@in_town(world(happening("e1"), draft("e2")), RULES)
async def test_beside_a_running_worker_nothing_is_read_and_its_observations_count(here: Town) -> None:
    here.halt()
    here.set("e1", status="cancelled")
    await here.becomes("e2", 10, category="party")
    here.resume()
    before = here.loop.time()
    found = await rehearsed(here, beside=True)
    assert here.loop.time() == before, "nothing was waited for"
    assert rows(found) == [("e1", "pause", "sent", "condition"), ("e2", "boost", "waiting", "mode")]
    assert found.rows[0].write.id == 1, "the write that the ledger has"


MANY = """
rules:
  - id: many
    when: event.category == 'party'
    surge: {events: 2, within: 10m}
    do: [{optimisation: 'OFF'}]
  - id: one-a-day
    when: event.category == 'party'
    limit: {per_rule_per_day: 1}
    do: [{ad_optimisation: 'OFF'}]
  - id: crowded
    when: events.filter(e, e.category == 'party').size() > 2 && event.id == 'e3'
    do: [pause]
"""


@in_town(world(*several(happening, 3, category="party")), MANY)
async def test_of_one_event_it_is_told_what_all_events_together_make_of_it(here: Town) -> None:
    here.use("rules: []")
    await here.run(10)
    here.use(MANY)
    whole = await rehearsed(here, beside=True)
    found = await rehearsed(here, beside=True, only="e3")
    assert [row.write.key.event for row in found.rows] == ["e3"] * 3
    assert [(row.write.key, row.becomes, row.reason) for row in found.rows] == [
        (row.write.key, row.becomes, row.reason) for row in whole.rows if row.write.key.event == "e3"
    ]
    assert {(row.write.key.rule, row.becomes, row.reason) for row in found.rows} >= {
        ("many", "waiting", "surge"),
        ("one-a-day", "held", "limit"),
    }
    assert found.report.events == 1


@pytest.mark.parametrize(
    ("event", "code", "said"),
    [
        ("e1", 0, "only e1 is read: what counts for all events together is not known"),
        ("zz", 1, "nothing is known of event 'zz'; there is no event in the ledger yet"),
    ],
)
def test_of_one_event_it_is_said_what_is_not_known(tmp_path: Path, event: str, code: int, said: str) -> None:
    """Of one that the service does not have it said that there was no event yet, while the service had some."""
    called = call("plan", "--event", event, config=settle_in(tmp_path, rules=PAUSE))
    assert called.code == code
    assert said in called.err


@in_town(world(happening("e1")), watched=4)
async def test_a_ledger_from_which_no_daemon_would_start_is_not_planned_on(here: Town, tmp_path: Path) -> None:
    here.ledger.backup(tmp_path / "backup.db")
    await here.becomes("e1", 10, status="cancelled")
    await here.kill()
    (tmp_path / "backup.db").replace(tmp_path / "worker.db")
    with pytest.raises(NotSafe, match="was restored"):
        await rehearsed(here)
    (tmp_path / "worker.db").rename(tmp_path / "restored.db")
    with pytest.raises(NotSafe, match="was lost"):
        draft_of(here.ledger_url, now=here.clock.now(), reach=timedelta(days=1))
    (tmp_path / "worker.db.mark").unlink()
    here.start()


@in_town(world(happening("e1"), more=(tenant(OTHER, happening("e1", status="cancelled")),)))
async def test_the_command_tells_it_as_table_and_json_beside_a_daemon_of_two(here: Town, tmp_path: Path) -> None:
    here.halt()
    await here.becomes("e1", 10, status="cancelled")
    here.resume()
    config = settle_in(tmp_path, "safety: {gap: {longer_than: 3000d}}\n", PAUSE)
    with SenderLock.acquire(place_of(here.ledger_url), now=here.clock.now()):
        table = call_beside("plan", config=config)
        found = json.loads(call_beside("plan", "--format", "json", config=config).out)
    assert found["source"] == "ledger"
    assert set(found["partners"]) == {PARTNER, OTHER}
    assert [(one["partner"], one["event"], one["becomes"]) for one in found["writes"]] == [
        (PARTNER, "e1", "sending"),
        (OTHER, "e1", "sending"),
    ]
    assert found["writes"][0]["requests"] == {"preflight": 1, "write": 1, "confirm": 1}
    assert (found["writes"][0]["before"], found["writes"][0]["after"]) == ("RUNNING", "PAUSED")
    assert table.code == 0
    assert "1 event as the daemon saw them" in table.err
    assert " ago; 1 write would be sent, in 3 requests" in table.err, "the town's clock is behind ours"
    assert '"RUNNING"' in table.out


@in_town(
    world(
        happening("e1"),
        more=(
            tenant(OTHER, happening("e1")),
            tenant(PartnerId("partner-id-given-up"), happening("e1", status="cancelled")),
        ),
    ),
    watched=10,
)
async def test_each_partner_that_is_watched_is_told_with_the_age_of_its_own_facts(here: Town, tmp_path: Path) -> None:
    """One of them is not listed any more, and one was given up long ago."""
    await here.kill()
    here.loop.jump(7200)
    here.start(PARTNER)
    await here.run(10)
    body: dict[str, Json] = {"partners": {PARTNER: {}, OTHER: {}}}
    now = here.clock.now()
    here.ledger.save_status(DaemonStatus(pid=1, since=now, seen_at=now, body=body))
    with SenderLock.acquire(place_of(here.ledger_url), now=here.clock.now()):
        called = call_beside("plan", config=settle_in(tmp_path, rules=PAUSE))
    told = [line.partition(" ago")[0] for line in called.err.splitlines()]
    assert [line.partition(":")[0] for line in told] == [PARTNER, OTHER]
    ages = [parse_duration(line.rpartition(" ")[2]) for line in told]
    assert timedelta(hours=2) <= ages[1] - ages[0] < timedelta(hours=2, minutes=2)


@in_town(world(happening("e1"), happening("e2"), happening("e3")), watched=10)
async def test_of_an_event_that_is_gone_the_open_writes_are_told(here: Town, tmp_path: Path) -> None:
    here.halt()
    await here.becomes("e1", 10, status="cancelled")
    here.change("e1", remove=True)
    await here.run(70)
    with SenderLock.acquire(place_of(here.ledger_url), now=here.clock.now()):
        config = settle_in(tmp_path, "safety: {gap: {longer_than: 3000d}}\n", PAUSE)
        called = call_beside("plan", "--event", "e1", "--format", "json", config=config)
    assert called.code == 0
    assert [(one["becomes"], one["reason"]) for one in called.json["writes"]] == [("planned", "halt")]


def service_without(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """A sandbox in which this path answers 500 for the one partner, and the other one has a cancelled event."""
    broken = Twin(world(happening("e1"), more=(tenant(OTHER, happening("e2", status="cancelled")),)))
    match = Match(method="GET", path=path, partner=PARTNER)
    broken.faults.add(Fault(match=match, kind="answer_before", times=99, params={"status": 500}))
    monkeypatch.setattr("worker.cli.wiring.embedded_sandbox", lambda clock: embedded_sandbox(clock, broken))


def test_an_event_that_cannot_be_read_is_told_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service_without(monkeypatch, "/events/e1$")
    called = call("plan", "--event", "e1", config=settle_in(tmp_path, rules=PAUSE))
    assert called.code == 1
    assert f"{PARTNER}: the service answered 500" in called.err


def test_a_plan_without_a_partners_list_is_no_plan_and_ends_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the others would do is told all the same."""
    service_without(monkeypatch, "events/?$")
    called = call("plan", "--format", "json", config=settle_in(tmp_path, rules=PAUSE))
    assert called.code == 1
    assert f"error: nothing is planned for {PARTNER}: the list was not read" in called.err
    assert [one["event"] for one in called.json["writes"]] == ["e2"]


def fell(here: Town) -> None:
    here.set("e1", capacity=300)


def pause_and_run_by_hand(here: Town) -> None:
    here.set("e1", status="cancelled")
    here.loop.call_later(40, partial(here.set, "e1", status="active"))
    here.loop.call_later(70, partial(here.set, "e1", by="person", client_campaign_status="RUNNING"))
    here.loop.call_later(80, partial(here.set, "e1", by="person", client_campaign_status="PAUSED"))


def paused_twice(here: Town) -> None:
    """The second time it is so already."""
    here.set("e1", status="cancelled")
    here.loop.call_later(30, partial(here.set, "e1", status="active"))
    here.loop.call_later(60, partial(here.set, "e1", status="cancelled"))


WHEN_Z = """
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - id: what-was
    """


@pytest.mark.parametrize(
    ("looks_back", "does", "before", "later", "becomes"),
    [
        ("when: event.category == 'z' && ago(event.capacity, '10m') > event.capacity", "pause", fell, 0, "sent"),
        (
            "when: event.category == 'z' && set_by.client_campaign_status == 'external'",
            "optimisation: 'OFF'",
            pause_and_run_by_hand,
            0,
            "sent",
        ),
        ("when: event.category == 'z'", "undo: pause-cancelled", pause_and_run_by_hand, 0, "refused"),
        ("after: pause-cancelled\n    when: event.category == 'z'", "optimisation: 'OFF'", paused_twice, 3, "sent"),
    ],
)
@in_town(world(happening("e1", capacity=400)), lambda looks_back, does: f"{WHEN_Z}{looks_back}\n    do: [{does}]\n")
async def test_a_plan_knows_what_was_and_who_did_what_as_the_daemon_does(
    here: Town, before: Callable[[Town], None], later: int, becomes: str
) -> None:
    """``later``: so many days; a write of an episode that is over is as long ago."""
    await here.run(900)
    before(here)
    await here.run(300)
    for _ in range(24 * later):
        here.loop.jump(3000)
        await here.run(6)
    here.set("e1", category="z")
    found = await rehearsed(here)
    assert [(row[0], row[2]) for row in rows(found) if "e1" in row] == [("e1", becomes)]
    assert found.unsure == ()
    await here.run(30)
    assert here.writes()[-1].state == ("confirmed" if becomes == "sent" else becomes), "the daemon does the same"


COSTS_MORE = """
rules:
  - id: more
    when: event.frontend_status == 'FLAGGED'
    mode: approve
    do: [{update_draft: {total_budget: 500}}]
"""


@in_town(world(draft("e1", total_budget=100)), COSTS_MORE, watched=6)
async def test_a_plan_knows_what_was_approved(here: Town) -> None:
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["waiting"], "asked", 60)
    here.halt()
    here.decide(partial(approved, amount=100.0))
    here.resume()
    assert [row[2:] for row in rows(await rehearsed(here))] == [("waiting", "moved")]
    await here.run(30)
    assert (here.only.state, here.only.reason) == ("waiting", "moved")
