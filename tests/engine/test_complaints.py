"""What the users of other rule systems complain of, one test each, met as they meet it: by commands and events.

Each is proved in depth elsewhere; here stands that the whole keeps what the parts promise.
"""

from pathlib import Path

from tests.calling import call, settle_in
from tests.rehearsing import rehearsed
from tests.worlds import PARTNER, Town, draft, happening, in_town, plays, town, world

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

    plays(script, tmp_path, world(*(happening(f"e{n}") for n in (1, 2, 3))), HOLDING)
    said = {
        event: " ".join(call("explain", "--event", event, config=tmp_path / "config.yaml").both.split())
        for event in ("e1", "e2", "e3", "e9")
    }
    assert "must hold for 1m, until" in said["e1"], "held, by what, and until when"
    assert "not true event.city" in said["e2"]
    assert 'event.city is "Oslo"' in said["e2"], "the part that decided, with the value it saw"
    assert "event.city is unknown: a number, where the document says string" in said["e3"], "and no other city"
    assert "nothing is known of event 'e9'" in said["e9"], "it was never seen"


def test_a_slip_of_the_keyboard_does_not_pass_and_is_told_with_its_place_and_the_right_word(tmp_path: Path) -> None:
    """The others that were met stand in tests/broken_rules, and tests/unit has those of a config and a rule test."""
    config = settle_in(tmp_path, rules="rules:\n  - {id: mine, when: event.status == 'x', mode: aprove, do: [pause]}\n")
    checked = call("check", config=config)
    assert (checked.code, "rules.yaml:2:" in checked.out) == (2, True)
    assert "^" in checked.out, "the line with a mark under it"
    assert "did you mean 'approve'?" in checked.out
    problems = [one for one in call("check", "--format", "json", config=config).json["problems"] if one["line"]]
    assert [(one["line"], one["column"] > 1, bool(one["remedy"])) for one in problems] == [(2, True, True)]


async def restarted(here: Town) -> None:
    """The worker process ends, and another one begins with nothing but the ledger."""
    await here.kill()
    here.start()


@in_town(world(happening("e1")), HOLDING)
async def test_what_was_held_for_a_while_does_not_begin_anew_after_a_restart(here: Town) -> None:
    await here.run(4)
    here.set("e1", status="cancelled")
    began = here.at
    await here.run(31)
    assert here.writes() == [], "held"
    await restarted(here)
    await here.until(lambda: here.writes() != [], "the minute is over", limit=120)
    assert 60 <= here.at - began < 75, "one minute since it became true, and not since the restart"


@in_town(world(happening("e1"), draft("e2"), happening("e3")), MIXED)
async def test_the_dry_run_is_what_the_real_one_does(here: Town) -> None:
    await here.run(4)
    here.set("e1", status="cancelled")
    here.set("e2", category="party")
    here.set("e3", status="archived")
    await here.kill()
    planned = await rehearsed(here)
    assert here.effects() == []
    here.start()
    await here.run(30)
    said = {(row.write.key.event, row.write.intent.action): row.request is not None for row in planned.rows}
    done = {(write.key.event, write.intent.action): write.attempt > 0 for write in here.writes()}
    assert said == done
    assert set(said.values()) == {True, False}


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
