"""Which inputs a state takes: an input in another state is a defect of the worker, and stores nothing."""

from typing import get_args

import pytest

from tests.builders import a_policy, a_write
from tests.unit.writes.course import ACCEPTED, DENIED, LOST, REFUSED, Course, seen
from worker.model.commits import Says
from worker.model.writes import State
from worker.writes.evidence import TargetRead
from worker.writes.life import Attempted, FoundSending, IllegalMove, Input, Policy, Verdict

STATES: tuple[State, ...] = get_args(State)
ATTEMPTS = [Attempted(outcome=outcome) for outcome in (ACCEPTED, REFUSED, DENIED, LOST)]
VERDICTS = [Verdict(applied=applied, because="seen") for applied in (True, False)]
LOOKS = [TargetRead(evidence=seen(says), began=2000.0) for says in get_args(Says)]

TAKEN: list[tuple[list[Input], set[State], str]] = [
    ([*ATTEMPTS], {"sending"}, "only what is being sent has an outcome"),
    ([FoundSending()], {"sending"}, "only a row in sending was being sent"),
    ([*VERDICTS], {"needs_human"}, "a person judges what only a person can tell"),
    ([*LOOKS], {"applied", "unknown", "needs_human"}, "reads say something of what was sent and is not settled"),
]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("inputs", "states", "reason"), TAKEN)
@pytest.mark.parametrize("policy", [a_policy(), a_policy(reads_back=False), a_policy(toggle=True)])
def test_an_input_that_the_state_does_not_know_is_refused(
    inputs: list[Input], states: set[State], reason: str, state: State, policy: Policy
) -> None:
    for one in inputs:
        course = Course(a_write(state=state), policy)
        if state in states:
            course.take(one)
        else:
            with pytest.raises(IllegalMove):
                course.take(one)
            assert course.write == a_write(state=state), reason
