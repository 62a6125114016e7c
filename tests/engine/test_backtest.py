"""A changed rule folder over what a worker has observed: which writes would be new, gone, earlier, later, the same."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.calling import Called, call, call_beside, settle_in
from tests.engine.test_again import again
from tests.worlds import CAMPAIGN, PARTNER, Town, draft, happening, in_town, rules_of, several, town, world
from worker.engine.operators import approved, rejected
from worker.model.facts import CustomFact
from worker.sandbox.world import campaign_record

RULES = """
rules:
  - id: hide-archived
    when: event.status == 'archived'
    for: 30s
    do: [{frontend_status: HIDDEN}]
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""


def backtest(folder: Path, rules: str, *arguments: str) -> Called:
    """The command, with another rule file than the one that was in force."""
    if not (folder / "config.yaml").exists():
        settle_in(folder)
    file = folder / "other.yaml"
    file.write_text(rules, encoding="utf-8")
    return call_beside("backtest", "--rules", str(file), *arguments, config=folder / "config.yaml")


def rows(folder: Path, rules: str, *arguments: str) -> list[dict[str, Any]]:
    called = backtest(folder, rules, "--format", "json", *arguments)
    assert called.code == 0, called.err
    return list(called.json["writes"])


def told(folder: Path, rules: str) -> list[tuple[str, str, str]]:
    """``kind``, ``event`` and ``action`` of every write."""
    return [(one["kind"], one["event"], one["action"]) for one in rows(folder, rules)]


async def days(here: Town, count: float) -> None:
    """Lets days pass, with a poll in each hour: no silence is so long that what fires after it waits for somebody."""
    for _ in range(round(count * 86400 / 3503)):
        here.loop.jump(3500)
        await here.run(3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a worker has left: e1 was cancelled, e2 archived for a minute, e3 archived for a moment, e4 flagged."""
    folder = tmp_path_factory.mktemp("home")

    async def script(here: Town) -> None:
        await here.run(7)
        here.set("e1", status="cancelled")
        here.set("e2", status="archived")
        await here.becomes("e3", 10, status="archived")
        here.set("e3", status="active")
        await here.becomes("e4", 60, frontend_status="FLAGGED")

    place = world(*several(happening, 4))
    with town(folder, place, RULES) as (here, play):
        play(script)
        assert [write.state for write in here.ledger.writes()] == ["confirmed", "confirmed", "confirmed"]
    return folder


def hidden(kind: str, event: str = "e2") -> list[tuple[str, str, str]]:
    """The two writes that hide an event."""
    return [(kind, event, "frontend_status")] * 2


SAME = [("same", "e1", "pause"), *hidden("same")]
GONE = [("gone", event, action) for _, event, action in SAME]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param("", "", SAME, id="nothing has changed"),
        pytest.param("pause-cancelled", "stop", SAME, id="another name for the same"),
        pytest.param(RULES, "rules: []", GONE, id="no rules, no writes"),
        pytest.param(
            "status == 'cancelled'",
            "frontend_status == 'FLAGGED'",
            [GONE[0], *SAME[1:], ("new", "e4", "pause")],
            id="another condition",
        ),
        pytest.param("    for: 30s\n", "", [SAME[0], *hidden("earlier"), *hidden("new", "e3")], id="without waiting"),
        pytest.param("for: 30s", "for: 45s", [SAME[0], *hidden("later")], id="waiting for longer"),
        pytest.param(
            "[pause]",
            "[pause, {optimisation: 'OFF'}]",
            [SAME[0], ("new", "e1", "optimisation"), *SAME[1:]],
            id="another step",
        ),
        pytest.param("do: [pause]", "enabled: false\n    do: [pause]", [GONE[0], *SAME[1:]], id="disabled"),
    ],
)
def test_a_changed_folder_by_what_it_does(home: Path, old: str, new: str, expected: list[tuple[str, str, str]]) -> None:
    assert told(home, RULES.replace(old, new)) == expected


def test_each_write_stands_beside_the_one_that_was_made(home: Path) -> None:
    found = next(one for one in rows(home, RULES.replace("for: 30s", "for: 45s")) if one["event"] == "e2")
    assert (found["made"]["rule"], found["made"]["state"], found["made"]["id"]) == ("hide-archived", "confirmed", 2)
    assert found["would"]["planned_at"] > found["made"]["planned_at"]
    assert found["after"] == "HIDDEN"
    table = backtest(home, RULES.replace("for: 30s", "for: 45s")).out
    assert "later" in table
    assert "write 2" in table
    assert '"HIDDEN"' not in table, "what it does is said as plan says it"
    assert "e1" not in table, "an event of which nothing would be otherwise is not shown"


def test_nothing_otherwise_is_said_in_one_line(home: Path) -> None:
    called = backtest(home, RULES)
    assert called.out == ""
    assert "3 same" in called.err
    assert "the same writes would be made" in called.err


def test_since_shows_less_and_what_went_before_is_counted(home: Path) -> None:
    called = backtest(home, RULES, "--format", "json", "--since", "2026-03-01T12:00:30Z")
    found = json.loads(called.out)
    assert [(one["kind"], one["event"]) for one in found["writes"]] == [("same", "e2"), ("same", "e2")]
    assert found["partners"][PARTNER]["before"] == 1
    whole = json.loads(backtest(home, RULES, "--format", "json", "--since", "0001-01-01T00:00:00Z").out)
    assert whole["partners"][PARTNER]["shown_from"] > "2026-03-01T11", (
        "nothing is claimed of what lies before the record"
    )


def test_of_a_time_in_which_nothing_was_observed_nothing_is_said_to_be_the_same(home: Path) -> None:
    """It told of a time that ends before it begins, and that the same writes would be made."""
    called = backtest(home, RULES, "--since", "2026-03-02T12:00:00Z")
    assert (called.code, called.out) == (1, "")
    assert "error: no observations are recorded since 2026-03-02 12:00:00 UTC" in called.err


SLOW_DOWN = RULES + "  - {id: slow-down, when: event.category == 'party', do: [{optimisation: 'OFF'}]}\n"


@in_town(world(happening("e1")), SLOW_DOWN)
async def test_what_had_fired_before_the_replay_does_not_fire_again_and_is_judged(here: Town, tmp_path: Path) -> None:
    await here.becomes("e1", 10, category="party")
    await days(here, 2)
    await here.becomes("e1", 10, status="cancelled")
    found = backtest(tmp_path, SLOW_DOWN, "--format", "json", "--since", "2026-03-03T11:30:00Z").json
    assert [(one["kind"], one["event"], one["action"]) for one in found["writes"]] == [("same", "e1", "pause")]
    assert found["partners"][PARTNER]["before"] == 0, "it is a party still"


UNTOLD = rules_of("{id: untold, when: \"event.city == 'Ulm' && !known(statistics.tickets)\", do: [pause]}")


@in_town(world(happening("e1", city="Ulm")), UNTOLD, watched=12)
async def test_what_nobody_had_read_is_not_taken_for_something_unknown(here: Town, tmp_path: Path) -> None:
    """It paused: as it had been forgotten, so it stood in the record."""
    here.fault("slow", "GET", "/statistics$", times=None, delay_s=1)
    await here.becomes("e1", 12, city="Bonn")
    await here.becomes("e1", 12, city="Ulm")
    assert here.writes() == []
    assert told(tmp_path, UNTOLD) == []


LONG_AGO = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: slow-down-after
    after: pause-cancelled
    when: event.category == 'late'
    do: [{optimisation: 'OFF'}]
  - id: seldom
    when: event.category == 'party'
    cooldown: 3d
    do: [{ad_optimisation: 'OFF'}]
  - id: launch
    when: setup.state == 'NONE' && event.category == 'launch'
    spend: {per_event: 2000, per_week: 900}
    do: [{create_draft: {goal: ROAS, total_budget: 500}}]
  - id: in-two-steps
    when: event.category == 'two'
    do: [{optimisation: 'OFF'}, {wait: 3d}, {ad_optimisation: 'OFF'}]
  - id: asked
    when: event.category == 'asked'
    do: [pause]
  - id: once-paused
    when: event.category == 'asked' && event.client_campaign_status == 'PAUSED'
    do: [{optimisation: 'OFF'}]
  - id: on-another-size
    on_change: {fact: event, by: capacity}
    when: event.status == 'active'
    cooldown: 3d
    do: [pause]
"""


@pytest.mark.parametrize(
    ("kept", "arguments", "of_the_change"),
    [
        (timedelta(days=8), ["--since", "2026-03-03T23:00:00Z"], "same"),
        (timedelta(days=2), [], "gone"),
        (timedelta(days=2), ["--since", "2026-03-03T23:00:00Z"], "gone"),
    ],
)
@in_town(
    world(happening("e1", category="x"), *several(happening, 6, first=2)),
    LONG_AGO,
    requests_per_minute=1200,
    observations_kept=lambda kept: kept,
    watched=7,
)
async def test_what_was_written_long_before_holds_and_starts_what_it_did_then(
    here: Town, tmp_path: Path, arguments: list[str], of_the_change: str
) -> None:
    """By `after`, `cooldown`, `spend`, `wait` and an approval. A change that is held for longer than changes are kept
    is in no record."""
    here.set("e7", category="asked")
    await here.restart(7200)
    await here.run(20)
    here.set("e1", status="cancelled")
    here.set("e2", category="party", ad_campaign_optimisation_status="ON")
    here.set("e3", category="launch")
    here.set("e5", category="two", ad_campaign_optimisation_status="ON")
    await here.becomes("e6", 30, capacity=10)
    here.set("e2", by="person", category="other", ad_campaign_optimisation_status="ON")
    await here.becomes("e6", 20, by="person", capacity=20, client_campaign_status="RUNNING")
    await days(here, 2.5)
    here.set("e1", category="late")
    here.set("e2", category="party")
    await here.becomes("e4", 30, category="launch")
    here.decide(approved)
    await days(here, 1)
    held = [(write.key.event, write.held_by) for write in here.writes() if not write.final]
    assert held == [("e4", "spend")]
    found = rows(tmp_path, LONG_AGO, *arguments)
    assert {(one["event"], one["action"]): one["kind"] for one in found} == {
        ("e1", "optimisation"): "same",
        ("e2", "ad_optimisation"): "same",
        ("e4", "create_draft"): "same",
        ("e5", "ad_optimisation"): "same",
        ("e6", "pause"): of_the_change,
        ("e7", "optimisation"): "same",
    }
    (launched,) = [one for one in found if one["event"] == "e4"]
    assert launched["would"]["state"] == "planned", "what was spent before holds it"


def test_a_fact_that_nobody_recorded_is_named(home: Path) -> None:
    rules = "rules:\n  - id: boost\n    when: setup.state == 'DRAFT' && event.status == 'active'\n    do: [boost]\n"
    called = backtest(home, rules)
    assert "rule boost wants setup, which was not recorded for 4 events" in called.err
    assert "wants" not in backtest(home, RULES).err, "all that the old rules read was recorded"


def test_a_folder_that_does_not_load_is_refused_with_its_mistakes(home: Path) -> None:
    called = backtest(home, "rules: [{id: x, when: event.statu == 'a', do: [pause]}]")
    assert called.code == 2
    assert "did you mean 'status'?" in called.err


def test_without_observations_there_is_nothing_to_test_on(tmp_path: Path) -> None:
    config = settle_in(tmp_path, rules=RULES)
    called = call("backtest", config=config)
    assert called.code == 1
    assert "no observations are recorded yet" in called.err


@in_town(world(happening("e1")), "rules: []")
async def test_a_rule_is_not_replayed_against_a_world_in_which_it_never_acted(here: Town, tmp_path: Path) -> None:
    """Its own effects are laid over what was observed, until somebody else does something there."""
    enforce = """
rules:
  - id: keep-paused
    when: event.status == 'cancelled'
    repeat: enforce
    cooldown: 1m
    do: [pause]
"""
    await here.run(4)
    await here.becomes("e1", 180, status="cancelled")
    await here.becomes("e1", 30, by="person", client_campaign_status="OTHER")
    found = rows(tmp_path, enforce)
    assert [(one["kind"], one["would"]["reason"]) for one in found] == [("new", "condition"), ("new", "drift")]


LAUNCH = """
rules:
  - id: launch
    when: setup.state == 'NONE' && event.category == 'launch'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]
  - id: boost-on-new-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
"""


@in_town(world(happening("e1"), draft("e2")), LAUNCH, requests_per_minute=1200, watched=7)
async def test_changes_and_sequences_are_replayed_with_the_effects_of_each_step(here: Town, tmp_path: Path) -> None:
    await here.becomes("e1", 20, category="launch")
    here.suggest("e2", 2, 3)
    await here.run(20)
    assert told(tmp_path, LAUNCH) == [("same", "e1", "create_draft"), ("same", "e1", "boost"), ("same", "e2", "boost")]
    assert "not recorded" not in backtest(tmp_path, LAUNCH).err, "read late is not the same as never"
    other = backtest(tmp_path, LAUNCH.replace("budget: 500,", "budget: 700,"))
    assert "wants suggested_tcs?budget=700.0&goal=ROAS, which was not recorded for 2 events" in other.err, (
        "e1 was a draft for a look"
    )


@in_town(world(happening("e1")), RULES, watched=7)
async def test_what_was_planned_and_no_longer_wanted_is_not_called_new(here: Town, tmp_path: Path) -> None:
    here.fault("no_connection", "PUT", CAMPAIGN, times=1000)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["planned"], "it cannot be sent", 30)
    here.set("e1", status="active")
    await here.until(lambda: here.states() == ["skipped"], "and is not wanted any more", 60)
    assert told(tmp_path, RULES) == []
    assert told(tmp_path, RULES.replace("[pause]", "[{optimisation: 'OFF'}]")) == [("new", "e1", "optimisation")]


@in_town(world(happening("e1")), RULES, watched=7)
async def test_what_fires_at_the_very_last_look_is_replayed_too(here: Town, tmp_path: Path) -> None:
    here.set("e1", status="archived")
    await here.until(lambda: len(here.states()) == 2, "it has held for 30 seconds", 60)
    assert {kind for kind, _, _ in told(tmp_path, RULES)} == {"same"}


@in_town(world(happening("e1")), RULES, watched=7)
async def test_what_the_last_look_has_only_planned_is_no_difference(here: Town, tmp_path: Path) -> None:
    """A replay goes on to skip it, as the worker was about to."""
    here.set("e1", status="cancelled", client_campaign_status="PAUSED")
    await here.clock.sleep(3)
    await here.worker.cycle.run(here.worker.states[PARTNER])
    assert here.states() == ["planned"]
    assert told(tmp_path, RULES) == []
    assert told(tmp_path, RULES.replace("[pause]", "[run]")) == [("gone", "e1", "pause"), ("new", "e1", "run")]


IN_TURN = """
rules:
  - {id: rest, when: event.city == 'Leipzig', do: [{notify: first}, {wait: 30s}, {notify: second}]}
  - {id: told, on_change: suggested_tcs, with: {budget: 500, goal: ROAS}, do: [{notify: third}]}
"""


@in_town(world(draft("e1", city="Leipzig")), IN_TURN, watched=36)
async def test_a_poll_decides_when_the_list_is_there_and_again_when_facts_are(here: Town, tmp_path: Path) -> None:
    """As one it was replayed when the last fact came, so that waits ended later than they did, and some never."""
    await here.becomes("e1", 9, city="Gent")
    assert here.texts == ["first", "second"]
    assert {kind for kind, _, _ in told(tmp_path, IN_TURN)} == {"same"}


BY_THE_CLOCK = """
rules:
  - {id: even, at: "*/2 * * * *", when: event.city == 'Leipzig', do: [{notify: it is}]}
"""
RESTLESS = BY_THE_CLOCK + "  - {id: restless, when: string(now) == 'never', do: [run]}"


@pytest.mark.parametrize(
    ("rules", "before"),
    [(BY_THE_CLOCK, 117), (RESTLESS, 30)],
    ids=["seen by the poll that the time is in", "beside a rule that a replay asks once a minute"],
)
@in_town(world(happening("e1", city="Gent")), lambda rules: rules)
async def test_a_time_is_replayed_by_the_poll_that_decided_on_it(
    here: Town, tmp_path: Path, rules: str, before: float
) -> None:
    """And not by one of the replay's own just before it, or up to a minute later."""
    await here.run(before)
    here.fault("slow", "GET", "/events/$", delay_s=0.5)
    await here.becomes("e1", 100, city="Leipzig")
    await here.becomes("e1", 9, city="Gent")
    (write,) = here.writes()
    assert write.planned_at.minute == 2
    assert told(tmp_path, rules) == [("same", "e1", "notify")]


@in_town(world(happening("e1"), happening("e2")), RULES, watched=7)
async def test_a_long_silence_is_replayed_as_one(here: Town, tmp_path: Path) -> None:
    await here.becomes("e2", 7, status="archived")
    here.set("e1", status="cancelled")
    await here.restart(7200)
    await here.run(70)
    found = rows(tmp_path, RULES)
    assert {(one["kind"], one["event"], one["would"]["state"]) for one in found} == {
        ("same", "e1", "waiting"),
        ("same", "e2", "waiting"),
    }, "what was first seen after it waits for a person, and nothing happened within it"


BOOST_PARTY = """
rules:
  - id: boost-party
    when: setup.state == 'DRAFT' && event.category == 'party'
    mode: approve
    do: [boost]
  - id: slow-down-what-is-published
    when: setup.state == 'PUBLISHED' && event.status == 'active'
    do: [{optimisation: 'OFF'}]
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: run-again
    when: event.status == 'active' && event.client_campaign_status == 'PAUSED'
    do: [run]
"""


@in_town(
    world(draft("e1"), draft("e2"), happening("e3"), happening("e4")), BOOST_PARTY, requests_per_minute=1200, watched=7
)
async def test_what_people_and_lost_answers_made_of_the_writes_is_no_difference(here: Town, tmp_path: Path) -> None:
    """The rules in force, unchanged: approved later, dropped, lost and found again, reopened, taken back."""
    here.set("e1", category="party")
    here.set("e2", category="party")
    here.fault("answer_after", "PUT", CAMPAIGN, status=429, times=1)
    await here.becomes("e3", 100, status="cancelled")
    first, second = [one for one in here.writes() if one.state == "waiting"]
    here.decide(approved, first)
    here.decide(rejected, second)
    await here.run(30)
    here.fault("answer_before", "PUT", CAMPAIGN, status=400, times=1)
    here.set("e4", status="cancelled")
    await here.until(lambda: "rejected" in here.states(), "the service says no to it", 60)
    again(here, *(one for one in here.writes() if one.state == "rejected"))
    await here.restart()
    await here.run(30)
    await here.becomes("e3", 30, status="active")
    made = [(write.key.event, write.intent.action, write.state) for write in here.ledger.writes()]
    assert made == [
        ("e1", "boost", "confirmed"),
        ("e2", "boost", "cancelled"),
        ("e3", "pause", "confirmed"),
        ("e1", "optimisation", "confirmed"),
        ("e4", "pause", "rejected"),
        ("e4", "pause", "confirmed"),
        ("e3", "run", "confirmed"),
    ]
    assert {kind for kind, _, _ in told(tmp_path, BOOST_PARTY)} == {"same"}
    other = told(tmp_path, BOOST_PARTY.replace("    mode: approve\n", ""))
    assert ("earlier", "e1", "optimisation") in other, "nobody had to be waited for"
    assert ("new", "e2", "optimisation") in other, "what somebody dropped was boosted"


FAST = """
rules:
  - id: fast
    when: delta(event.capacity, '30s') > 50.0
    cooldown: 10m
    do: [{ad_optimisation: 'ON'}]
  - id: by-somebody
    when: set_by.campaign_optimisation_status == 'external' && event.campaign_optimisation_status == 'ON'
    do: [{optimisation: 'OFF'}]
  - id: one-of-many
    when: events.filter(e, e.category == 'party').size() > 1 && event.category == 'party'
    do: [pause]
"""


@in_town(
    world(
        happening("e1", capacity=100, ad_campaign_optimisation_status="OFF"),
        happening("e2"),
        happening("e3", campaign_optimisation_status="OFF"),
    ),
    FAST,
    requests_per_minute=1200,
    watched=40,
)
async def test_windows_and_the_other_events_are_replayed_with_the_rest(here: Town, tmp_path: Path) -> None:
    here.set("e1", capacity=250)
    here.set("e2", category="party")
    await here.becomes("e3", 120, by="person", campaign_optimisation_status="ON")
    here.set("e3", category="party")
    await here.becomes("e1", 60, capacity=400)
    made = [(write.key.event, write.intent.action) for write in here.ledger.writes()]
    assert set(made) >= {("e1", "ad_optimisation"), ("e3", "optimisation"), ("e2", "pause"), ("e3", "pause")}
    assert {kind for kind, _, _ in told(tmp_path, FAST)} == {"same"}


SELDOM = """
rules:
  - {id: dear, when: event.city == 'Leipzig' && spent > 9000.0, do: [pause]}
  - {id: held, when: event.city == 'Leipzig', for: 40s, do: [{notify: {text: here, remind: 40s}}]}
"""
SPENT = CustomFact(
    name="spent",
    get="/integrations/adplatform/events/{eid}/adplatform_insights",
    value="spend",
    every=timedelta(seconds=10),
)


@in_town(world(happening("e1", city="Gent")), SELDOM, facts={"spent": SPENT}, watched=36)
async def test_a_fact_that_is_asked_seldom_leaves_every_other_moment_as_it_was(here: Town, tmp_path: Path) -> None:
    """Read once in the record, it was due at each poll of the replay, which then came a minute apart."""
    await here.run(6)
    await here.becomes("e1", 140, city="Leipzig")
    assert here.texts == ["here"] * 3
    settle_in(tmp_path, f"facts: {{spent: {{get: '{SPENT.get}', value: spend, every: 10s}}}}")
    assert told(tmp_path, SELDOM) == [("same", "e1", "notify")] * 3


NOT_UNDONE = """
rules:
  - id: even
    when: event.city == 'Gent' && setup.state == 'PUBLISHED'
    do: [{edit_cluster: {each: campaigns, budget: 9}}]
  - {id: back, after: even, when: now - write.at > duration('9s'), do: [{undo: after}]}
"""
BEFORE = NOT_UNDONE + "  - {id: before, when: event.capacity == 400.0, do: [pause]}"
"""Its write is the first, so that the numbers of the others are not those of a replay without it."""
CAMPAIGNS = (campaign_record(1, "cluster 1", 1),)


@in_town(world(replace(draft("e1"), published=True, campaigns=CAMPAIGNS)), BEFORE, watched=36)
async def test_what_is_not_undone_is_the_same_though_its_write_has_another_number(here: Town, tmp_path: Path) -> None:
    await here.run(12)
    await here.becomes("e1", 40, city="Gent")
    assert [(write.intent.action, write.state) for write in here.writes()][-1] == ("undo", "refused")
    assert told(tmp_path, NOT_UNDONE) == [
        ("gone", "e1", "pause"),
        ("same", "e1", "edit_cluster"),
        ("same", "e1", "undo"),
    ]


UNASKED = """
rules:
  - id: even
    when: event.city == 'Gent'
    do: [{edit_cluster: {each: campaigns, budget: 9}}, {wait: 9s}, {notify: it is}]
"""


@in_town(world(replace(draft("e1"), published=True, campaigns=CAMPAIGNS)), UNASKED, watched=36)
async def test_a_write_goes_on_once_the_record_tells_what_its_guard_asked_for(here: Town, tmp_path: Path) -> None:
    """No rule names the setup, so that the record has it from the pre-flight on only: until then the write was
    held, and it rested until its own effect was there."""
    await here.run(12)
    await here.becomes("e1", 40, city="Gent")
    assert {kind for kind, _, _ in told(tmp_path, UNASKED)} == {"same"}
