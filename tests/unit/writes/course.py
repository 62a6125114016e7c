"""The course of one write, driven as the shells drive it: what happened, at which second, and what follows."""

from dataclasses import replace
from datetime import timedelta
from typing import Final

from tests.builders import NOW, a_policy
from worker.model.commits import Says
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Refused, Uncertain
from worker.model.writes import State, Write
from worker.writes.evidence import Evidence, TargetRead
from worker.writes.life import Attempted, FoundSending, Input, Next, Policy, Settling, Then, Verdict, advance, move

ACCEPTED: Final = Accepted(answer=Answered(status=204))
REFUSED: Final = Refused(answer=Answered(status=400), why="bad value")
DENIED: Final = NotSent(cause="denied", why="401", answer=Answered(status=401))
NO_CONNECTION: Final = NotSent(cause="connect", why="connection refused")
STALE: Final = NotSent(cause="stale", why="slept for too long")
LOST: Final = Uncertain(why="the answer was 429", answer=Answered(status=429))
BROKEN: Final = Uncertain(why="connection reset")


def seen(says: Says, third: str | None = None) -> Evidence:
    return Evidence(says=says, value="?", why=f"it says {says}", third=third)


class Course:
    """A write, what the process knows of it, and a monotonic clock that moves only when told to."""

    def __init__(self, write: Write, policy: Policy | None = None, *, settling: Settling | None = None) -> None:
        self.write = write
        self.policy = policy or a_policy()
        self.settling = settling
        self.now_s = 1000.0
        self._then: Then = "rest"

    def take(self, event: Input) -> Next:
        at = (NOW + timedelta(seconds=self.now_s - 1000.0), self.now_s)
        step = advance(self.write, self.settling, event, self.policy, at)
        if step.move is not None:
            assert step.move.before == self.write, "a move begins where the write is"
            self.write = step.move.after
        self.settling = step.settling
        self._then = step.then
        return step

    def follows(self) -> Then:
        return self._then

    def state(self) -> State:
        return self.write.state

    def after(self, seconds: float) -> "Course":
        self.now_s += seconds
        return self

    def send(self) -> "Course":
        """Records the next attempt, as the executor does."""
        sending = move(self.write, "sending", at=NOW, reason="condition", why="sent", attempt=self.write.attempt + 1)
        self.write = replace(sending.after, before="RUNNING", before_known=True)
        return self

    def attempt(self, outcome: Outcome) -> Next:
        return self.send().answer(outcome)

    def answer(self, outcome: Outcome) -> Next:
        return self.take(Attempted(outcome=outcome))

    def look(self, says: Says, *, third: str | None = None, ago: float = 0.0) -> Next:
        """A read that began ``ago`` seconds ago and has just said this."""
        return self.take(TargetRead(evidence=seen(says, third), began=self.now_s - ago))

    def absent(self, reads: int, *, apart: float = 3.0) -> "Course":
        """So many reads that say *not there*, each ``apart`` seconds after what came before it."""
        for _ in range(reads):
            self.after(apart).look("not_there")
        return self

    def proved_absent(self) -> "Course":
        """A row of reads that proves absence under the shipped numbers."""
        return self.absent(4, apart=40.0)

    def restart(self) -> "Course":
        """The process ends and another one starts: what only the process knew is gone."""
        self.settling = None
        if self.write.state == "sending":
            self.take(FoundSending())
        return self

    def verdict(self, *, applied: bool) -> Next:
        return self.take(Verdict(applied=applied, because="looked it up"))


def after_lost_attempt(write: Write, policy: Policy | None = None) -> Course:
    course = Course(write, policy)
    course.attempt(LOST)
    return course
