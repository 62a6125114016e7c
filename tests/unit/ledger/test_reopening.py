"""A person's word about memory: stored where it is about what still stands, and seen by the daemon."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.ledger.examples import ACME, NOW, RULE, after, memory, open_ledger, planned
from worker.model.commits import Commit, MemoryChange, Record
from worker.model.errors import StateConflict
from worker.model.facts import PartnerId

AGAIN = Record(at=after(2), kind="again", reason="person", why="mended", partner=ACME, rule=RULE, by="ann")


@pytest.mark.parametrize("stored", [(), (replace(memory(1), held="cooldown"),), (memory(3),)])
def test_a_word_about_what_stands_no_longer_changes_nothing_at_all(tmp_path: Path, stored: tuple[object, ...]) -> None:
    other = memory(1, event="e2")
    with open_ledger(tmp_path) as ledger:
        ledger.apply(Commit(at=NOW, memory=(*stored, other)))  # type: ignore[arg-type] # memories
        good = MemoryChange(before=other, after=memory(2, event="e2"))
        with pytest.raises(StateConflict, match="meanwhile"):
            ledger.reopen([good, MemoryChange(before=memory(1), after=memory(2))], [AGAIN])

        assert ledger.rule_memories(ACME) == (*stored, other)
        assert ledger.last_seq() == 0


def test_the_daemon_sees_that_something_was_reopened_since_it_looked(tmp_path: Path) -> None:
    with open_ledger(tmp_path) as ledger:
        ledger.apply(Commit(at=NOW, memory=(memory(1),)))
        planned(ledger)
        before = ledger.last_seq()
        assert not ledger.standing(ACME, before).reopened
        ledger.reopen([MemoryChange(before=memory(1), after=memory(2))], [AGAIN])

        assert ledger.standing(ACME, before).reopened
        assert not ledger.standing(ACME, ledger.last_seq()).reopened
        assert not ledger.standing(PartnerId("partner-id-other"), before).reopened
