"""`again` and `undo` as typed: asked in vain they change nothing, and they say what became of each write."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.builders import cases
from tests.calling import Called, call, settle_in
from tests.unit.ledger.examples import ACME, become, key, memory, open_ledger, plan, planned, sent
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.commits import Commit, LogFilter, RuleMemory
from worker.model.facts import EventId, Json, RuleId
from worker.model.writes import Intent, State, Write
from worker.writes.evidence import wish_of

WHY = ("--because", "the import was wrong")
RULE = ("--rule", "pause-cancelled")
NOW = datetime.now(UTC)
HUGE = "99999999999999999999999"
"""More than SQLite can hold, or be asked for."""


def an_intent(action: str) -> Intent:
    wish = wish_of(action, {})
    wanted: dict[str, Json] = {} if action == "boost" else {wish.target: wish.value}
    return Intent(action=action, target=wish.target, wish=wish.text, wanted=wanted, stops=wish.stops)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pauses that took effect, a boost that did, a rejected and a refused write, and one that waits."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder)
    with open_ledger(folder, NOW) as ledger:
        made = planned(
            ledger,
            *(plan(key(event=f"e{number}"), an_intent("pause")) for number in (1, 2, 3)),
            plan(key(event="e4", rule="boost-now"), an_intent("boost")),
            plan(key(event="e5"), an_intent("pause")),
            plan(key(event="e6", rule="boost-now"), an_intent("boost")),
            plan(key(event="e7"), an_intent("pause"), state="waiting"),
        )
        states: tuple[State, ...] = ("confirmed", "confirmed", "confirmed", "confirmed", "rejected", "refused")
        for hours, (write, state) in enumerate(zip(made[:6], states, strict=True)):
            at = NOW - timedelta(hours=6 - hours)  # the test may come minutes after NOW was taken
            _done(ledger, write, state, at)
        ledger.apply(Commit(at=NOW, memory=tuple(_memories())))
    return folder


def _done(ledger: Any, write: Write, state: State, at: datetime) -> None:  # noqa: ANN401 - the ledger of open_ledger
    if state == "refused":
        become(ledger, write, state, at)
        return
    before: Json = {"state": "DRAFT"} if write.intent.action == "boost" else "RUNNING"
    sending = sent(ledger, write, at)
    become(ledger, sending, state, at, before=before, before_known=True)


def _memories() -> Iterator[RuleMemory]:
    for number in (1, 2, 3, 5):
        yield replace(memory(1, event=f"e{number}"), open=True, fired=True)
    for number in (4, 6):
        yield replace(memory(1, event=f"e{number}", rule="boost-now"), open=True, fired=True)


def ledger_of(config: Path) -> LedgerReader:
    return open_reading(f"sqlite:///{config.parent}/worker.db")


def everything(config: Path) -> tuple[object, ...]:
    with ledger_of(config) as ledger:
        return ledger.last_seq(), ledger.writes(), ledger.rule_memories(ACME)


@cases(
    "arguments, code, said",
    (("again", "5", "--because", " "), 2, "--because is empty"),
    (("again", *WHY), 2, "name writes by number, or all of a rule"),
    (("again", "5", "--rule", "boost-now", *WHY), 2, "name writes by number, or all of a rule"),
    (("again", "5", "--event", "e5", *WHY), 2, "name writes by number, or all of a rule"),
    (("again", "5", "99", *WHY), 1, "there is no write 99; nothing was changed"),
    (("again", "5", "1", *WHY), 1, "write 1 is confirmed: only cancelled, refused, rejected, shadowed, skipped"),
    (("again", "--rule", "boost-nou", *WHY), 1, "did you mean 'boost-now'?; nothing was changed"),
    (("again", "--rule", "boost-now", "--event", "e5", *WHY), 1, "rule 'boost-now' has nothing for event 'e5'"),
    (("undo", *WHY), 2, "name writes by number, or all that a rule sent with --rule and --since"),
    (("undo", "1", "--since", "1h", *WHY), 2, "name writes by number"),
    (("undo", *RULE, *WHY), 2, "say since when: --rule pause-cancelled --since 30m"),
    (("undo", "1", "99", *WHY), 1, "there is no write 99; nothing was changed"),
    (("undo", "1", "5", *WHY), 1, "write 5 is rejected and had no effect; nothing was changed"),
    (("undo", "1", "7", *WHY), 1, "write 7 is waiting: there is nothing to put back yet; nothing was changed"),
    (("undo", "1", "7", *WHY), 1, "campaign-worker reject 7 drops it"),
    *(((command, HUGE, *WHY), 1, f"there is no write {HUGE}") for command in ("again", "undo")),
    (("undo", "--rule", "pause-canceled", "--since", "1h", *WHY), 1, "did you mean 'pause-cancelled'?"),
    (("undo", *RULE, "--since", "1m", *WHY), 1, "that may have had an effect; nothing was changed"),
    (("undo", "--rule", "boost-now", "--since", "7h", *WHY), 1, "there is nothing to put back"),
    (("undo", "1", "--because", ""), 2, "--because is empty"),
)
def test_what_is_asked_in_vain_changes_nothing(config: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    before = everything(config)
    call(*arguments, config=config).tells(code, said)
    assert everything(config) == before


def rows(done: Called) -> list[tuple[int, str, int | None]]:
    assert done.code == 0, done.both
    return [(row["write"], row["becomes"], row["undone_by"]) for row in json.loads(done.out)]


def test_undo_by_number_plans_a_write_for_each_target_and_says_which(config: Path) -> None:
    done = call("undo", "1", "4", "2", *WHY, "--format", "json", config=config)
    assert rows(done) == [(1, "undone", 8), (2, "undone", 9), (4, "cannot be undone", None)]
    with ledger_of(config) as ledger:
        made = ledger.writes()[7:]
        planned_anew = [(write.key.event, write.intent.action, write.state) for write in made]
        assert planned_anew == [("e1", "run", "planned"), ("e2", "run", "planned")]
        told = [(one["kind"], one["write"]) for one in ledger.log(LogFilter()) if one["by"] != "worker"]
        assert told == [("undone", 1), ("undone", 2), ("planned", 8), ("planned", 9)]
        assert ledger.verify() is None
    twice = call("undo", "1", *WHY, config=config)
    assert (twice.code, "write 8 is to put the target back already" in twice.out) == (1, True)


def test_undo_of_a_rule_takes_what_it_sent_since_and_names_what_is_not_sent(config: Path) -> None:
    arguments = ("undo", *RULE, "--since", "5h30m", *WHY)
    before = everything(config)
    dry = call(*arguments, "--dry-run", config=config)
    assert (dry.code, "would be undone" in dry.out) == (0, True)
    assert "from 'PAUSED' to 'RUNNING'" in dry.out
    assert "1 more are not sent yet: campaign-worker reject --rule pause-cancelled" in dry.err
    assert everything(config) == before, "a dry run changes nothing"
    assert rows(call(*arguments, "--format", "json", config=config)) == [(2, "undone", 8), (3, "undone", 9)]


def test_in_shadow_mode_an_undo_is_only_written_down(config: Path) -> None:
    config.write_text("mode: shadow\n", "utf-8")
    call("undo", "1", *WHY, config=config)
    with ledger_of(config) as ledger:
        assert ledger.writes()[7].state == "shadowed"


def test_writes_show_an_undo_without_a_rule(config: Path) -> None:
    call("undo", "1", *WHY, config=config)
    (undo,) = json.loads(call("writes", "--format", "json", "--state", "planned", config=config).out)
    assert (undo["rule"], undo["rules"], undo["action"]) == (None, [], "run")


@cases(
    "arguments, pairs",
    (("5",), {("e5", "pause-cancelled")}, "one"),
    (("5", "6"), {("e5", "pause-cancelled"), ("e6", "boost-now")}, "several of several rules"),
    (("--rule", "boost-now"), {("e6", "boost-now")}, "all of a rule"),
    (("--rule", "boost-now", "--event", "e6"), {("e6", "boost-now")}, "all of a rule for an event"),
)
def test_again_closes_the_episodes_and_the_log_says_who_wanted_it(
    config: Path, arguments: tuple[str, ...], pairs: set[tuple[str, str]]
) -> None:
    done = call("again", *arguments, *WHY, config=config)
    assert (done.code, done.err.count("may fire again")) == (0, len(pairs)), done.both
    with ledger_of(config) as ledger:
        reopened = {(str(one.event), str(one.rule)) for one in ledger.rule_memories(ACME) if not one.open}
        assert reopened == pairs
        told = [record for record in ledger.log(LogFilter()) if record["kind"] == "again"]
        assert {record["why"] for record in told} == {"the import was wrong"}
        assert {record["by"] for record in told}.isdisjoint({"worker", None})
    twice = call("again", *arguments, *WHY, config=config)
    assert twice.code == 1, "an episode is reopened once"


def test_again_is_about_the_last_episode(config: Path) -> None:
    with open_ledger(config.parent, NOW) as ledger:
        later = RuleMemory(partner=ACME, event=EventId("e5"), rule=RuleId("pause-cancelled"), episode=2)
        ledger.apply(Commit(at=NOW, memory=(later,)))
    call("again", "5", *WHY, config=config).fails(1, "is not the last one")


def test_an_undo_is_not_reopened_but_planned_anew(config: Path) -> None:
    call("undo", "1", *WHY, config=config)
    call("reject", "8", *WHY, config=config)
    call("again", "8", *WHY, config=config).fails(1, "which no look decides on")


def test_what_a_person_must_settle_is_not_said_to_have_had_no_effect(config: Path) -> None:
    with open_ledger(config.parent, NOW) as ledger:
        absent, elsewhere, seen = planned(ledger, *(plan(key(event=f"e{number}")) for number in (8, 9, 10)))
        tried = sent(ledger, absent, NOW)
        become(ledger, tried, "needs_human", NOW, before="RUNNING", before_known=True, absent_proved=True)
        become(ledger, elsewhere, "needs_human", NOW)  # planned when the ledger was backed up, and restored since
        become(ledger, seen, "confirmed", NOW)
    before = everything(config)
    for number in (absent.id, elsewhere.id):
        unknown = f"write {number} is needs_human: whether it took effect is not known; nothing was changed"
        ways = f"campaign-worker log --write {number}", f"campaign-worker resolve {number}"
        call("undo", str(number), *WHY, config=config).fails(1, unknown, *ways)
    told = call("undo", str(seen.id), *WHY, config=config)
    told.fails(1, "is confirmed: what it changed is not known here")
    assert everything(config) == before
