"""A commit is all or nothing, a decision is made once, and numbers never go back."""

from dataclasses import fields, replace
from datetime import timedelta

import pytest

from tests.builders import cases
from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    RULE,
    after,
    become,
    fired,
    intent,
    key,
    kinds,
    memory,
    moved,
    plan,
    planned,
    to_sending,
)
from worker.ledger.rows import write_row
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, LogFilter, MemoryChange, Move, PartnerMemory, Record
from worker.model.errors import StateConflict
from worker.model.facts import PartnerId, RuleId, WriteId
from worker.model.writes import Intent, Write, WriteKey


def test_a_plan_becomes_a_numbered_write_with_a_record_of_its_state(ledger: SqlLedger) -> None:
    first, second = planned(ledger, plan(key(1)), plan(key(2), state="waiting"))

    assert (first.id, second.id) == (1, 2)
    assert ledger.write(first.id) == first
    records = list(ledger.log(LogFilter()))
    assert kinds(records) == ["planned", "waiting"]
    assert [record["write"] for record in records] == [1, 2]
    assert records[0]["why"] == "status is cancelled"


def test_everything_in_a_commit_is_stored_in_the_documented_order(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)

    ledger.apply(
        Commit(
            at=after(1),
            records=(fired(),),
            memory=(memory(3),),
            partner=PartnerMemory(partner=ACME, listed_at=after(1)),
            moves=(moved(write, "skipped", after(1)),),
            plans=(plan(key(2)),),
        )
    )

    assert kinds(list(ledger.log(LogFilter()))) == ["planned", "fired", "skipped", "planned"]
    assert ledger.rule_memories(ACME) == (memory(3),)
    assert ledger.partner_memory(ACME) == PartnerMemory(partner=ACME, listed_at=after(1))


def test_an_empty_commit_leaves_nothing_behind(ledger: SqlLedger) -> None:
    assert ledger.apply(Commit(at=NOW)) == ()
    assert ledger.last_seq(ACME) == 0


def test_the_natural_key_can_exist_once_and_a_second_one_undoes_its_whole_commit(ledger: SqlLedger) -> None:
    planned(ledger)

    with pytest.raises(StateConflict, match="exists already"):
        ledger.apply(Commit(at=after(1), records=(fired(),), memory=(memory(9),), plans=(plan(key(2)), plan(key(1)))))

    assert ledger.last_seq(ACME) == 1
    assert ledger.rule_memories(ACME) == ()
    assert len(ledger.open_writes()) == 1


@cases(
    "changes",
    ({"state": "waiting"}, "another state: somebody decided meanwhile"),
    ({"attempt": 1}, "another attempt: it was sent meanwhile"),
    ({"changed_at": NOW + timedelta(microseconds=1)}, "changed there and back again"),
)
def test_a_row_that_changed_meanwhile_undoes_the_whole_commit(ledger: SqlLedger, changes: dict[str, object]) -> None:
    (write,) = planned(ledger)
    stale = replace(write, **changes)  # type: ignore[arg-type] # fields of Write

    with pytest.raises(StateConflict, match="write 1 is planned"):
        ledger.apply(Commit(at=after(1), memory=(memory(5),), moves=(moved(stale, "cancelled", after(1)),)))

    assert ledger.write(write.id) == write
    assert ledger.rule_memories(ACME) == ()
    assert ledger.last_seq(ACME) == 1


def test_a_move_of_a_write_that_does_not_exist_is_a_conflict_and_says_so(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)
    ghost = replace(write, id=WriteId(7))

    with pytest.raises(StateConflict, match="write 7 does not exist"):
        ledger.apply(Commit(at=NOW, moves=(moved(ghost, "cancelled", after(1)),)))


def test_an_episode_number_that_would_go_back_undoes_the_whole_commit(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, memory=(memory(5), memory(2, event="e2"))))

    with pytest.raises(StateConflict, match="never go back"):
        ledger.apply(Commit(at=after(1), records=(fired(),), memory=(memory(3, event="e2"), memory(4))))

    assert ledger.rule_memories(ACME) == (memory(5), memory(2, event="e2"))
    assert ledger.last_seq(ACME) == 0


def test_apply_is_no_door_to_sending(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)

    with pytest.raises(ValueError, match="only record_sending"):
        ledger.apply(Commit(at=NOW, moves=(to_sending(write, after(1)),)))


def test_a_move_cannot_change_what_a_write_is(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)
    other = replace(write, state="waiting", intent=intent("run"))

    with pytest.raises(ValueError, match="what a write is"):
        ledger.apply(Commit(at=NOW, moves=(Move(before=write, after=other),)))


def test_every_field_of_a_write_comes_back(ledger: SqlLedger) -> None:
    wanted = replace(
        intent("create_draft", budget=500.0),
        wanted={"goal": "ROAS", "n": 1},
        order=2,
        do_hash="d",
        context={"x": [1.0]},
    )
    (write,) = planned(ledger, plan(key(1, position=3), wanted))

    become(  # which looks at every field
        ledger,
        write,
        "waiting",
        after(1),
        rules=(RuleId("other"),),
        uncounted=1,
        first_sent_at=after(2),
        last_sent_at=after(3),
        unknown_since=after(4),
        held_by="surge",
        held_until=after(5),
        confirmed_by="person",
        before={"state": "NONE", "n": 1, "f": 1.0},
        before_known=True,
        approved=True,
        extra_attempts=1,
        due_since=after(6),
        denied=2,
        absent_proved=True,
    )


def test_every_field_of_the_model_has_a_column(ledger: SqlLedger) -> None:
    (write,) = planned(ledger)
    columns = {"id"} | write_row(write).keys()

    named = {field.name for cls in (Write, WriteKey, Intent) for field in fields(cls)} - {"key", "intent"}

    assert columns == named


def test_writes_of_an_episode_and_open_writes_are_found(ledger: SqlLedger) -> None:
    one, two, other = planned(ledger, plan(key(1)), plan(key(1, position=1)), plan(key(2)))
    done = become(ledger, one, "skipped", after(1))

    assert ledger.episode_writes(ACME, E1, RULE, 1) == (done, two)
    assert ledger.open_writes() == (two, other)
    assert ledger.open_writes(ACME) == (two, other)
    assert ledger.writes(state="skipped") == [done]
    assert ledger.state_counts() == {"planned": 2, "skipped": 1}


AGAIN = Record(at=after(2), kind="again", reason="person", why="mended", partner=ACME, rule=RULE, by="ann")


@pytest.mark.parametrize("stored", [(), (replace(memory(1), held="cooldown"),), (memory(3),)])
def test_a_word_about_what_stands_no_longer_changes_nothing(ledger: SqlLedger, stored: tuple[object, ...]) -> None:
    other = memory(1, event="e2")
    ledger.apply(Commit(at=NOW, memory=(*stored, other)))  # type: ignore[arg-type] # memories
    good = MemoryChange(before=other, after=memory(2, event="e2"))
    with pytest.raises(StateConflict, match="meanwhile"):
        ledger.reopen([good, MemoryChange(before=memory(1), after=memory(2))], [AGAIN])

    assert ledger.rule_memories(ACME) == (*stored, other)
    assert ledger.last_seq(ACME) == 0


def test_the_daemon_sees_that_something_was_reopened_since_it_looked(ledger: SqlLedger) -> None:
    ledger.apply(Commit(at=NOW, memory=(memory(1),)))
    planned(ledger)
    before = ledger.last_seq(ACME)
    assert not ledger.standing(ACME, before).reopened
    ledger.reopen([MemoryChange(before=memory(1), after=memory(2))], [AGAIN])

    assert ledger.standing(ACME, before).reopened
    assert not ledger.standing(ACME, ledger.last_seq(ACME)).reopened
    assert not ledger.standing(PartnerId("partner-id-other"), before).reopened
