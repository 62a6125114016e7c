"""What the users of other rule systems complain of, one test each, met as they meet it: by commands and events.

Each is proved in depth elsewhere; here stands that the whole keeps what the parts promise.
"""

from pathlib import Path

import pytest

from tests.calling import Called, call, settle_in
from tests.rehearsing import rehearsed
from tests.worlds import PARTNER, Town, draft, happening, town, world

HOLDING = """
rules:
  - id: pause-when-settled
    description: A cancellation that holds for a minute.
    when: event.status == 'cancelled' && event.city == 'Leipzig'
    for: 1m
    do: [pause]
"""
FIGHTING = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: keep-festivals-running
    when: event.category == 'festival'
    repeat: enforce
    cooldown: 1m
    do: [run]
"""
MIXED = """
rules:
  - id: boost-parties
    when: event.category == 'party' && setup.state == 'DRAFT'
    do: [boost]
  - id: hide-archived
    when: event.status == 'archived'
    mode: approve
    do: [{frontend_status: HIDDEN}]
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""


def test_why_did_it_not_fire_is_answered_for_each_reason_there_is(tmp_path: Path) -> None:
    settle_in(tmp_path, rules=HOLDING)

    async def script(here: Town) -> None:
        here.set("e1", status="cancelled")
        here.set("e2", city="Oslo", status="cancelled")
        here.set("e3", city=7, status="cancelled")
        await here.run(7)

    with town(tmp_path, world(*(happening(f"e{n}") for n in (1, 2, 3))), HOLDING) as (_, play):
        play(script)
    said = {
        event: " ".join(call("explain", "--event", event, config=tmp_path / "config.yaml").both.split())
        for event in ("e1", "e2", "e3", "e9")
    }
    assert "must hold for 1m, until" in said["e1"], "held, by what, and until when"
    assert "not true event.city" in said["e2"]
    assert 'event.city is "Oslo"' in said["e2"], "the part that decided, with the value it saw"
    assert "event.city is unknown: a number, where the document says string" in said["e3"], "and no other city"
    assert "nothing is known of event 'e9'" in said["e9"], "it was never seen"


SLIPS = [
    ("rules.yaml", "wen: event.status == 'cancelled'", "did you mean 'when'?"),
    ("rules.yaml", "when: evnt.status == 'cancelled'", "did you mean 'event'?"),
    ("rules.yaml", "when: event.statsu == 'cancelled'", "did you mean 'status'?"),
    (
        "rules.yaml",
        "when: event.status == CANCELLED",
        "event.status == 'cancelled' or event.frontend_status == 'CANCELLED'",
    ),
    ("rules.yaml", "when: event.capacity + 1 > 2.5", "write 1.0"),
    ("rules.yaml", "when: siez(suggested_tcs) > 2", "unknown function 'siez'"),
    ("rules.yaml", "when: event.status == 'cancelled'\n    coldown: 1h", "did you mean 'cooldown'?"),
    ("rules.yaml", "when: event.status == 'cancelled'\n    cooldown: 10", "a number needs a unit"),
    ("rules.yaml", "when: event.status == 'cancelled'\n    mode: aprove", "did you mean 'approve'?"),
]


@pytest.mark.parametrize(("file", "text", "remedy"), SLIPS, ids=[text for _, text, _ in SLIPS])
def test_no_slip_of_the_keyboard_passes_and_each_is_told_with_its_place_and_the_right_word(
    tmp_path: Path, file: str, text: str, remedy: str
) -> None:
    config = settle_in(tmp_path, rules=f"rules:\n  - id: mine\n    {text}\n    do: [pause]\n")
    checked = call("check", config=config)
    assert checked.code == 2
    assert f"{file}:" in checked.out
    assert "^" in checked.out, "the line with a mark under it"
    assert remedy in checked.out
    problems = [one for one in call("check", "--format", "json", config=config).json["problems"] if one["line"]]
    assert all(one["line"] > 2 and one["column"] > 1 and one["remedy"] for one in problems)


def test_a_slip_in_the_config_or_in_a_rule_test_passes_as_little(tmp_path: Path) -> None:
    config = settle_in(tmp_path, "safty: {max_attempts: 2}\n")
    assert (call("check", config=config).code, "did you mean 'safety'?" in call("check", config=config).out) == (
        2,
        True,
    )


async def restarted(here: Town) -> None:
    """The worker process ends, and another one begins with nothing but the ledger."""
    await here.kill()
    here.start()


def test_what_was_held_for_a_while_does_not_begin_anew_after_a_restart(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(4)
        here.set("e1", status="cancelled")
        began = here.at
        await here.run(31)
        assert here.writes() == [], "held"
        await restarted(here)
        await here.until(lambda: here.writes() != [], "the minute is over", limit=120)
        assert 60 <= here.at - began < 75, "one minute since it became true, and not since the restart"

    with town(tmp_path, world(happening("e1")), HOLDING) as (_, play):
        play(script)


def test_the_dry_run_is_what_the_real_one_does(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(4)
        here.set("e1", status="cancelled")
        here.set("e2", category="party")
        here.set("e3", status="archived")
        await here.kill()
        planned = await rehearsed(here)
        assert here.effects() == []
        here.start()
        await here.run(30)
        said = {(row.key.event, row.intent.action): row.request is not None for row in planned.rows}
        done = {(write.key.event, write.intent.action): write.attempt > 0 for write in here.writes()}
        assert said == done
        assert set(said.values()) == {True, False}

    with town(tmp_path, world(happening("e1"), draft("e2"), happening("e3")), MIXED) as (_, play):
        play(script)


RIGHT = "tests:\n  - name: t\n    given: {event: {id: e1, status: active}}\n    steps:\n      - {at: 3s, expect: []}\n"


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ("expect: []", "expect: [{rule: pause-canceled, action: pause}]", "pause-cancelled"),
        ("expect: []", "expect: [], held: [{rule: pause-cancelled, reason: cooldwn}]", "cooldown"),
        ("expect: []", "expect: [], states: [{action: puase, state: confirmed}]", "pause"),
        ("expect: []", "expect: [], states: [{action: pause, state: confirmd}]", "confirmed"),
        ("expect: []", "expcet: []", "expect"),
        ("{id: e1, status: active}", "{id: e1, statsu: active}", "status"),
        ("event: {", "evnt: {", "event"),
        ("- name: t", "- name: t\n    rules: [pause-canceled]", "pause-cancelled"),
    ],
)
def test_a_rule_test_with_a_slip_does_not_pass_for_that_reason(
    tmp_path: Path, right: str, wrong: str, named: str
) -> None:
    assert run_tests(tmp_path, RIGHT).code == 0
    slipped = run_tests(tmp_path, RIGHT.replace(right, wrong))
    assert (slipped.code, f"did you mean '{named}'" in slipped.both) == (2, True), slipped.both


def test_a_rule_that_no_test_has_seen_fire_is_named_however_green_the_tests_are(tmp_path: Path) -> None:
    passed = run_tests(tmp_path, RIGHT)
    assert passed.code == 0
    assert "no test saw these rules fire: pause-cancelled" in passed.both, passed.both


def run_tests(folder: Path, text: str) -> Called:
    """`test` with these tests of the rule that pauses what is cancelled."""
    if not (folder / "config.yaml").exists():
        settle_in(folder)
        (folder / "rules" / "tests").mkdir()
    (folder / "rules" / "tests" / "t.yaml").write_text(text, encoding="utf-8")
    return call("test", config=folder / "config.yaml")


def test_two_rules_that_fight_over_one_campaign_are_told_beforehand_and_do_not_take_turns(tmp_path: Path) -> None:
    config = settle_in(tmp_path, rules=FIGHTING)
    warned = call("check", config=config)
    assert warned.code == 0
    assert "'pause-cancelled' wins because it stops spending" in warned.out

    async def script(here: Town) -> None:
        here.set("e1", status="cancelled", category="festival")
        await here.run(400)
        assert [(write.key.rule, write.state) for write in here.writes()] == [("pause-cancelled", "confirmed")]
        (held,) = [one for one in here.log("held") if one["rule"] == "keep-festivals-running"]
        assert held["reason"] == "conflict", "said once, and why"
        here.set("e1", status="active")
        await here.until(lambda: len(here.writes()) == 2, "the other one has its turn once the first has no wish")
        assert here.writes()[1].key.rule == "keep-festivals-running"

    with town(tmp_path, world(happening("e1")), FIGHTING) as (here, play):
        play(script)
        assert len(here.effects()) == 2
        assert {str(one["partner"]) for one in here.log("fired")} == {PARTNER}
