"""Drawn conditions are what a library in Rust finds too; where they are not, the difference has a name."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import cel
import pytest

from tests.conformance.drawn import Drawer, values
from worker.rules.cel import parse
from worker.rules.evaluate import compiled
from worker.rules.facts import Run
from worker.rules.functions import CannotEvaluate

THEIR_ERRORS = (LookupError, RuntimeError, TypeError, ValueError, ArithmeticError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A drawn condition, what each finds, and why it is an error."""

    text: str
    ours: object
    our_error: str
    theirs: object
    their_error: str


DIFFERENCES: dict[str, Callable[[Judged], bool]] = {
    # The standard: `all` and `exists` absorb errors as && and || do. Theirs stop at the first one.
    "errors absorbed": lambda one: (
        bool(one.their_error) and not one.our_error and (".all(" in one.text or ".exists(" in one.text)
    ),
    # The contract: a quotient that is no finite number is an error. The standard and theirs know infinite.
    "divided by 0": lambda one: "/" in one.text and bool(one.our_error) and not one.their_error,
    # The standard: the parts of a time are those in UTC. Theirs are those where the text was written.
    "written in a zone": lambda one: "+02:00" in one.text and ").get" in one.text,
    # The standard: `in` asks whether a record has a key, and it has none that is no text. Theirs is an error.
    "no such key": lambda one: bool(one.their_error) and not one.our_error and " in f." in one.text,
}


def judged(seed: int) -> Judged:
    """A condition of that seed."""
    chance = Random(seed)
    named = values(chance)
    text = Drawer(chance).condition()
    ours: object = ""
    theirs: object = ""
    our_error = their_error = ""
    try:
        ours = compiled(parse(text))(Run(dict(named)))
    except CannotEvaluate as error:
        our_error = str(error)
    try:
        theirs = cel.compile(text).execute(cel.Context(variables=named))
    except THEIR_ERRORS as error:
        their_error = str(error) or "an error"
    return Judged(text=text, ours=ours, our_error=our_error, theirs=theirs, their_error=their_error)


def agree(seeds: range) -> int:
    """Plays the seeds; gives how many differ in a way that has a name."""
    named = 0
    for seed in seeds:
        one = judged(seed)
        if one.ours is not one.theirs or bool(one.our_error) is not bool(one.their_error):
            assert any(is_it(one) for is_it in DIFFERENCES.values()), f"seed {seed}: {one}"
            named += 1
    return named


def test_drawn_conditions_are_what_the_other_finds() -> None:
    assert agree(range(4_000)) < 40, "nearly all agree without any talk"


@pytest.mark.prove
@pytest.mark.parametrize("part", range(10))
def test_a_million_drawn_conditions_are_what_the_other_finds(part: int) -> None:
    assert agree(range(part * 100_000, (part + 1) * 100_000)) < 1_000
