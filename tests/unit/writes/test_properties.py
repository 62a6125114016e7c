"""What holds of a write's life whatever happens to it, found out by trying.

A life is a list of happenings; each is turned into the input that the shells would give in the state the write is in.
Beside it runs an oracle that knows nothing of the code: the list of looks since the end of the last attempt.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_policy, a_write
from tests.unit.writes.course import ACCEPTED, BROKEN, DENIED, LOST, NO_CONNECTION, REFUSED, STALE, Course
from worker.model.commits import REASONS, Says
from worker.model.exchange import Outcome
from worker.writes.life import MOVES, Policy, TaskFailed, Unwanted, attempts_left

pytestmark = pytest.mark.timeout(60)  # hundreds of lives each

OUTCOMES: Final[tuple[Outcome, ...]] = (ACCEPTED, REFUSED, DENIED, NO_CONNECTION, STALE, LOST, BROKEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """``what`` happens ``wait`` seconds after the one before; the rest is read where it applies."""

    what: Literal["look", "answer", "restart", "unwanted", "task_failed", "verdict", "person_says_no"]
    wait: float
    says: Says = "not_there"
    third: bool = False
    took: float = 0.0
    outcome: Outcome = LOST


WAITS: Final = st.sampled_from([0.0, 0.5, 1.0, 2.9, 3.0, 3.1, 6.0, 10.0, 40.0, 200.0])
LOOKS: Final = st.builds(
    Happening,
    what=st.just("look"),
    wait=WAITS,
    says=st.sampled_from(["not_there", "not_there", "not_there", "cannot_tell", "cannot_tell", "there"]),
    third=st.sampled_from([False] * 7 + [True]),
    took=st.sampled_from([0.0, 0.0, 0.5, 5.0, 60.0]),
)
OTHERS: Final = st.builds(
    Happening,
    what=st.sampled_from(["answer", "answer", "restart", "unwanted", "task_failed"]),
    wait=WAITS,
    outcome=st.sampled_from(OUTCOMES),
)
VERDICTS: Final = st.builds(Happening, what=st.sampled_from(["verdict", "person_says_no"]), wait=WAITS)
ROWS: Final = st.builds(
    lambda wait, reads: [Happening(what="look", wait=wait)] * reads,
    st.sampled_from([2.0, 3.0, 6.0, 40.0]),
    st.integers(2, 6),
)
"""Reads that all say *not there*: without them hardly any life would see a second attempt."""
LIVES: Final = st.lists(
    st.one_of(ROWS, ROWS, *(one.map(lambda happening: [happening]) for one in (LOOKS, OTHERS, VERDICTS))), max_size=12
).map(lambda parts: [one for part in parts for one in part])
POLICIES: Final = st.builds(
    a_policy,
    settle=st.sampled_from([0, 5, 30]).map(lambda seconds: timedelta(seconds=seconds)),
    evidence_reads=st.integers(1, 4),
    max_attempts=st.integers(1, 4),
    interval=st.sampled_from([3, 10]).map(lambda seconds: timedelta(seconds=seconds)),
    evidence_within=st.sampled_from([60, 900]).map(lambda seconds: timedelta(seconds=seconds)),
    ask=st.sampled_from([False] * 7 + [True]),
    toggle=st.sampled_from([False] * 7 + [True]),
    reads_back=st.sampled_from([True] * 7 + [False]),
)


@dataclass(slots=True)
class Oracle:
    """What an onlooker knows: when the attempt ended (or the process began), and what each look since then said."""

    ended: float
    looks: list[tuple[float, bool]] = field(default_factory=list)

    def proves_absence(self, policy: Policy) -> bool:
        """A row of *not there* looks at the end of the list, each an interval apart, the last after settle. Counted
        back from it: which of two that are too close together counts may depend on which answer came first."""
        row: list[float] = []
        for began, absent in sorted(self.looks, reverse=True):
            if not absent:
                break
            if not row or row[-1] - began >= policy.interval.total_seconds():
                row.append(began)
        return len(row) >= policy.evidence_reads and row[0] - self.ended >= policy.settle.total_seconds()


class Life(Course):
    """A course that turns happenings into what the shells would do, and checks every step against the oracle."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(a_write(), policy)
        self.oracle = Oracle(ended=self.now_s)
        self.sends = 0
        self.verdicts = 0

    def meets(self, happening: Happening) -> None:
        """One happening, in the state the write is in now; what that state does not know is left out."""
        self.after(happening.wait)
        state = self.state()
        if happening.what == "restart":
            self.restart()
            self.oracle = Oracle(ended=self.now_s)
        elif happening.what == "unwanted":
            self.take(Unwanted(reason="no_longer_holds", why="no"))
        elif happening.what == "answer" and state in ("planned", "sending"):
            self.sends_and_hears(happening.outcome)
        elif happening.what == "task_failed" and state in ("applied", "unknown"):
            self.take(TaskFailed(state="FAILURE"))
        elif happening.what == "look" and state in ("applied", "unknown", "needs_human"):
            self.looks(happening)
        elif happening.what in ("verdict", "person_says_no") and state == "needs_human":
            self.verdicts += 1
            self.verdict(applied=happening.what == "verdict")

    def sends_and_hears(self, outcome: Outcome) -> None:
        if self.state() != "sending":
            self.send()
            self.sends += 1
        self.answer(outcome)
        self.oracle = Oracle(ended=self.now_s)

    def looks(self, happening: Happening) -> None:
        """One read; and where the code says that the write may be sent again, it is."""
        began = self.now_s - happening.took
        third = "third_value" if happening.third and happening.says == "cannot_tell" else None
        known = self.settling is not None
        if not known:
            self.oracle = Oracle(ended=self.now_s)
        if began >= self.oracle.ended:
            self.oracle.looks.append((began, happening.says == "not_there"))
        unknown = self.state() == "unknown"
        self.look(happening.says, third=third, ago=happening.took)
        if self.follows() == "send":
            assert unknown, "only an unknown write is ever sent again on evidence"
            assert self.state() == "unknown"
            assert self.oracle.proves_absence(self.policy), "sent again without a row that proves absence"
            assert attempts_left(self.write, self.policy)
            self.sends_and_hears(LOST)


@settings(max_examples=600, deadline=None)
@given(LIVES, POLICIES)
def test_every_step_is_a_move_of_the_table_and_only_a_row_of_absence_leads_to_another_attempt(
    happenings: list[Happening], policy: Policy
) -> None:
    """The first attempt is lost, then everything else happens; `Life.looks` asks for the row of reads."""
    life = Life(policy)
    life.sends_and_hears(LOST)
    for happening in happenings:
        before = life.write
        life.meets(happening)  # an IllegalMove would end the test here
        if before.final:
            assert life.write == before, "what is final stays as it is"
        assert life.write.reason in REASONS
        assert life.write.state in MOVES
        assert life.write.attempt == life.sends, "attempt grows at sending and nowhere else"
        assert 0 <= life.write.uncounted <= life.write.attempt
        assert life.write.counted <= policy.max_attempts + life.verdicts, "a person grants what goes beyond"


@settings(max_examples=200, deadline=None)
@given(LIVES, POLICIES)
def test_what_nobody_wants_ends_only_without_effect(happenings: list[Happening], policy: Policy) -> None:
    life = Life(policy)
    life.sends_and_hears(LOST)
    for happening in happenings:
        life.meets(happening)
    before, proved = life.write, life.oracle.proves_absence(policy)
    life.take(Unwanted(reason="no_longer_holds", why="no"))
    if life.write is not before:
        assert life.state() == "skipped"
        assert before.state in ("planned", "waiting") or before.absent_proved or proved
