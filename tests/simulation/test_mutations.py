"""The proof of the prover: every flaw that is put into the worker on purpose is found, and without it nothing is."""

from pathlib import Path

import pytest

from tests.simulation.mutations_blind import MUTANTS
from tests.simulation.nemesis import Try, planned, tried

ROOT = Path(__file__).parents[2]
QUICK = ("send before the record", "429 is a no", "one read is enough")


def complained(one: Try) -> list[str]:
    """What the judge says of a world, and of a worker that broke in it."""
    try:
        return tried(one)[1]
    except Exception as broke:  # noqa: BLE001 - a flaw may break anything
        return [repr(broke)]


def passes(test: str) -> bool:
    """Whether a test that has nothing to do with worlds passes, in this process, whose worker has the flaw."""
    return pytest.main(["-x", "-q", "--tb=no", "--no-header", "-p", "no:cacheprovider", str(ROOT / test)]) == 0


def check(name: str) -> None:
    """Plays the worlds of a mutant without it, where nothing may be wrong, and with it, where something must be."""
    mutant = MUTANTS[name]
    if mutant.tested_by:
        assert passes(mutant.tested_by)
        with mutant.applied():
            assert not passes(mutant.tested_by), f"no test noticed: {mutant.name}"
        return
    for one in mutant.shown_by:
        planned(one)
        assert tried(one)[1] == [], "the judge complains of the worker itself"
    with mutant.applied():
        found = [complained(one) for one in mutant.shown_by]
    assert any(found), f"nobody noticed that {mutant.why}"


@pytest.mark.parametrize("name", QUICK)
def test_a_few_flaws_are_found(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_every_flaw_can_be_put_in_still(name: str) -> None:
    """Where the code that it changes moves on, that is known at once and not by the next ``make prove``."""
    with MUTANTS[name].applied():
        pass


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", sorted(MUTANTS))
def test_every_flaw_is_found(name: str) -> None:
    check(name)


def test_there_are_at_least_twenty_five_flaws() -> None:
    assert len(MUTANTS) >= 25
