"""Every action, every outcome, and a death at every step of a write's life.

The whole worker with the real ledger against the twin, whose books are the judge. In `make test` every action, every
answer and failure (before its effect or after) and every death comes at least once; `make prove` plays every action
with every outcome, and every action with every kind of outcome and every death.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import product
from pathlib import Path
from typing import get_args

import pytest

from tests.prove.deeds import DEEDS, OUTCOMES
from tests.prove.proofs import say
from tests.prove.trials import LOSES, Step, Trial, expected, fits, tried
from worker.model.actions import ACTIONS, UNDO

Case = tuple[str, str, Step]
STEPS: tuple[Step, ...] = get_args(Step)
KINDS_OF_OUTCOME = (
    "2xx",
    "422, nothing happened",
    "429, nothing happened",
    "429, applied",
    "429, applied late",
    "401",
    "no connection",
    "taken",
)
"""One of each kind: what the worker makes of it does not depend on more."""
SLOW = frozenset({"401, twice in a row"})
"""Outcomes that need five minutes of the worker's time: only where they are asked for by name."""
PARTS = 4


def cases(outcomes: Iterable[str], steps: Iterable[Step]) -> Iterator[Case]:
    for deed, outcome, step in product(DEEDS, outcomes, steps):
        if fits(DEEDS[deed], OUTCOMES[outcome]):
            yield deed, outcome, step


def answers() -> list[str]:
    """Every outcome once, whether the effect came or not by turns; of 429, which may hide one, all there is."""
    ways: dict[str, list[str]] = {}
    for name in OUTCOMES:
        status, _, rest = name.partition(", ")
        plain = rest in ("nothing happened", "applied", "a lie") and status != "429"
        ways.setdefault(status if plain else name, []).append(name)
    return [found[number % len(found)] for number, found in enumerate(ways.values())]


def slice_of_all() -> list[Case]:
    """Every outcome once, each with the action and the death that had the fewest turns so far; then every action and
    every death that has had none."""
    turns: Counter[str] = Counter()
    chosen: list[Case] = []

    def choose(deeds: Iterable[str], outcomes: Iterable[str], steps: Iterable[Step]) -> None:
        fitting = [one for one in product(deeds, outcomes, steps) if fits(DEEDS[one[0]], OUTCOMES[one[1]])]
        best = min(fitting, key=lambda one: (one[1] in SLOW, sum(turns[name] for name in one)))
        turns.update(best)
        chosen.append(best)

    for outcome in answers():
        late = OUTCOMES[outcome].kind == "late_effect"  # what `settle` is for shows where reads tell, and nothing dies
        deeds = [deed for deed in DEEDS if DEEDS[deed].shown or not late]
        choose(deeds, [outcome], ["never"] if late or outcome in SLOW else STEPS)
    for deed in DEEDS:
        if not turns[deed]:
            choose([deed], KINDS_OF_OUTCOME, STEPS)
    for step in STEPS:
        if not turns[step]:
            choose(DEEDS, KINDS_OF_OUTCOME, [step])
    return chosen


def judged(trial: Trial) -> None:
    """What must hold of a played trial, whatever it was."""
    here, write, died = trial.here, trial.write, trial.fate.step if trial.fate.met else "never"
    about = f"{trial.deed.do}\n{trial.outcome}\ndied: {died}\n{here.story()}"
    records = [one for one in here.log() if one["write"] == write.id]
    asked = {one["reason"] for one in records if one["kind"] == "needs_human"}
    assert (write.state, trial.effects, asked) == expected(
        trial.deed, trial.outcome, died, spends=write.intent.spends
    ), about
    assert here.twin.books.repeated == (), about
    assert here.ledger.verify() is None, about
    # A recorded attempt stands for a PUT that may have been made; its task is read, though no PUT came.
    rude = [one for one in here.twin.violations() if one.kind != "task_without_put" or died not in LOSES]
    assert rude == [], about
    sent = [one for one in records if one["kind"] == "sending"]
    assert trial.arrived <= len(sent), f"a request without a record before it: {about}"
    assert all(one["request"] for one in sent), about
    for number, record in enumerate(records):
        before = records[:number]
        if record["kind"] == "needs_human":
            assert any(one["response"] or one["reason"] == "crash" for one in before), f"asked with nothing: {about}"
            looked_at = [one["evidence"] for one in before if one["kind"] == "evidence"]
            assert not trial.deed.shown or record["reason"] == "task_failed" or looked_at, f"asked unread: {about}"
        if record["kind"] == "sending" and record["reason"] == "resend":
            (last,) = [one["evidence"]["says"] for one in before if one["kind"] == "evidence"][-1:]
            assert last == "not_there", f"sent again without a proof: {about}"


def play(folder: Path, chosen: Iterable[Case]) -> Counter[str]:
    """Plays these and judges each; how many there were, died, were asked about, and had an effect."""
    seen: Counter[str] = Counter()
    for number, (deed, outcome, step) in enumerate(chosen):
        place = folder / str(number)
        place.mkdir()
        with tried(place, DEEDS[deed], OUTCOMES[outcome], step) as trial:
            judged(trial)
            seen["tried"] += 1
            seen["died"] += trial.fate.met
            seen["attempts"] += trial.write.attempt
            seen["effects"] += trial.effects
            seen["unknown"] += trial.unknown
            seen["a person asked"] += any(one["kind"] == "needs_human" for one in trial.here.log())
            seen[f"ended {trial.write.state}"] += 1
    return seen


def test_every_action_there_is_has_a_deed_that_is_tried() -> None:
    sent = {name for name, row in ACTIONS.items() if row.shown != "clock"} - {UNDO}  # it becomes other actions
    assert {deed.action for deed in DEEDS.values()} == sent


def test_the_slice_has_every_action_every_answer_and_every_death() -> None:
    chosen = slice_of_all()
    assert {one[0] for one in chosen} == set(DEEDS)
    assert {one[1].partition(", ")[0] for one in chosen} == {name.partition(", ")[0] for name in OUTCOMES}
    assert {one[2] for one in chosen} == set(STEPS)


@pytest.mark.parametrize("part", range(PARTS))
def test_an_effect_comes_once_and_whoever_must_know_is_asked(tmp_path: Path, part: int) -> None:
    play(tmp_path, slice_of_all()[part::PARTS])


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("deed", DEEDS)
def test_every_action_meets_every_outcome(tmp_path: Path, deed: str) -> None:
    seen = play(tmp_path, [one for one in cases(OUTCOMES, ["never"]) if one[0] == deed])
    say(f"outcomes of {deed}: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("deed", DEEDS)
def test_every_action_dies_at_every_step_with_every_kind_of_outcome(tmp_path: Path, deed: str) -> None:
    seen = play(tmp_path, [one for one in cases(KINDS_OF_OUTCOME, STEPS[1:]) if one[0] == deed])
    say(f"deaths of {deed}: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
