"""Replaying the action log gives the ledger's state, whatever happened to its writes, and in which order."""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_policy
from tests.unit.ledger.examples import NOW, as_stored, in_memory_ledger, key, no_brake, plan
from tests.unit.writes.course import Course
from tests.unit.writes.test_properties import LOOKS, OTHERS, ROWS, VERDICTS, Happening, Life
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, LogFilter, Sending
from worker.model.facts import Json
from worker.model.writes import FINAL, Write
from worker.writes.life import MOVES, Input, Next, Policy, move

pytestmark = pytest.mark.timeout(60)

STATES = frozenset(state for states in MOVES.items() for state in (states[0], *states[1]))
POLICY = a_policy(max_attempts=3, evidence_reads=2)
ALONE = st.tuples(st.integers(0, 2), (LOOKS | OTHERS | OTHERS | VERDICTS).map(lambda one: [one]) | ROWS)
"""Which of the writes, and what happens to it."""


@lru_cache(maxsize=1)
def one_ledger() -> SqlLedger:
    """Every story has events of its own in it: making the tables anew for each would take longer than the stories."""
    return in_memory_ledger(NOW)


class Kept(Life):
    """A life whose every move goes to a ledger, as the shells commit it."""

    def __init__(self, ledger: SqlLedger, write: Write, policy: Policy) -> None:
        super().__init__(policy)
        self.ledger, self.write = ledger, write

    def take(self, event: Input) -> Next:
        step = super().take(event)
        if step.move is not None:
            self.ledger.apply(Commit(at=NOW, moves=(step.move,)))
        return step

    def send(self) -> Course:
        made = move(self.write, "sending", at=NOW, reason="condition", why="sent", attempt=self.write.attempt + 1)
        made = replace(made, after=replace(made.after, before="RUNNING", before_known=True))
        assert self.ledger.record_sending(Sending(move=made, check=no_brake, amount=None)) is None
        self.write = made.after
        return self


def replayed(rows: list[dict[str, Json]]) -> dict[Json, tuple[Json, int]]:
    """State and attempt of each write, told by nothing but the log."""
    found: dict[Json, tuple[Json, int]] = {}
    for row in rows:
        if row["write"] is not None and row["kind"] in STATES:
            sent = found.get(row["write"], ("", 0))[1] + (row["kind"] == "sending")
            found[row["write"]] = row["kind"], sent
    return found


def told_last(rows: list[dict[str, Json]], write: Write, kinds: AbstractSet[str]) -> Json:
    """How far the log had come when it told such a thing of the write: a hold that begins with it is told with it."""
    mine = [row for row in rows if row["write"] == write.id]
    last = [index for index, row in enumerate(mine) if row["kind"] in kinds]
    if not last:
        return 0
    together = [row for row in mine[last[-1] + 1 : last[-1] + 2] if row["kind"] == "held"]
    return next(iter(together or mine[last[-1] :]))["seq"]


@settings(max_examples=60, deadline=None)
@given(st.lists(ALONE, max_size=14))
def test_replaying_the_log_gives_the_state_and_the_attempts_of_every_write(
    story: list[tuple[int, list[Happening]]],
) -> None:
    ledger = one_ledger()
    began = ledger.last_seq()
    writes = ledger.apply(Commit(at=NOW, plans=tuple(plan(key(event=f"e{began}-{number}")) for number in range(3))))
    lives = [Kept(ledger, write, POLICY) for write in writes]
    for which, happenings in story:
        for happening in happenings:
            if lives[which].state() not in FINAL:
                lives[which].meets(happening)

    rows = list(ledger.log(LogFilter(after_seq=began)))
    assert replayed(rows) == {life.write.id: (life.write.state, life.write.attempt) for life in lives}
    for life in lives:
        stored = as_stored(ledger, life.write)
        assert stored.changed_seq == told_last(rows, life.write, STATES)
        assert stored.sent_seq == told_last(rows, life.write, {"sending"})
