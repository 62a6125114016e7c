"""How often facts change is learnt from all of a name together, and of each for itself."""

from collections.abc import Callable
from random import Random
from statistics import fmean

import pytest

from tests.unit.reading.test_plan import INTERVAL, SETUP
from worker.model.facts import EventId, FactKey
from worker.reading.pacing import Habits, Want, choose

OTHER = FactKey(name="lookout")
HOUR = 3600.0


def place(name: str, key: FactKey = SETUP) -> tuple[EventId, FactKey]:
    return EventId(name), key


def test_a_habit_is_learnt_and_unlearnt() -> None:
    habits = Habits()
    for _ in range(20):
        habits.visited(place("lively"), changed=True, after_s=60.0)
        habits.visited(place("still"), changed=False, after_s=600.0)
    assert habits.rate(place("lively")) > 10 * habits.rate(place("still"))
    for _ in range(400):
        habits.visited(place("lively"), changed=False, after_s=600.0)
    assert habits.rate(place("lively")) < 1.5 * habits.rate(place("still")), "it has been still for days"
    assert habits.rate(place("lively")) > 0.0, "and is never given up"


def test_what_was_never_visited_is_taken_to_be_like_the_others_of_its_name() -> None:
    habits = Habits()
    assert habits.rate(place("new")) == pytest.approx(1.0 / HOUR)
    for number in range(100):
        habits.visited(place(f"e{number}"), changed=number % 2 == 0, after_s=10 * HOUR)
    assert habits.rate(place("new")) == pytest.approx(habits.usual("setup"))
    assert habits.rate(place("new")) < 0.1 / HOUR
    assert habits.rate(place("new", OTHER)) == pytest.approx(1.0 / HOUR), "of another name nothing was learnt"


def test_one_change_counts_at_once_also_where_nothing_ever_changed() -> None:
    habits = Habits()
    for _ in range(50):
        for number in range(100):
            habits.visited(place(f"e{number}"), changed=False, after_s=HOUR)
    before = habits.rate(place("e1"))
    habits.visited(place("e1"), changed=True, after_s=HOUR)
    assert habits.rate(place("e1")) > 2.5 * before
    for _ in range(10):
        habits.visited(place("e1"), changed=True, after_s=HOUR)
    assert habits.rate(place("e1")) > 10 * before, "within days"


def test_what_is_usual_is_learnt_anew() -> None:
    habits = Habits()
    for number in range(5000):
        habits.visited(place(f"e{number % 50}"), changed=True, after_s=60.0)
    quick = habits.usual("setup")
    for number in range(20_000):
        habits.visited(place(f"e{number % 50}"), changed=number % 100 == 0, after_s=600.0)
    assert habits.usual("setup") < quick / 50


def test_what_is_learnt_is_nearly_as_good_as_knowing_and_better_than_taking_turns() -> None:
    """60 facts, of which every tenth changes twenty times as often; one read every three seconds, a dozen visits to
    each on average. The second half is measured."""
    learnt, known, in_turn = (fmean(_mean_delay(seed, how) for seed in range(3)) for how in ("learnt", "known", "turn"))
    assert learnt < 1.1 * known
    assert learnt < 0.8 * in_turn


def _mean_delay(seed: int, how: str) -> float:
    chance = Random(seed)
    many, visits = 60, 12
    lasting = many * visits * 3.0
    weights = {f"e{number:03}": 20.0 if number % 10 == 0 else 1.0 for number in range(many)}
    hits = chance.choices(list(weights), list(weights.values()), k=many * visits // 6)
    coming = sorted((chance.uniform(0.0, lasting), name) for name in hits)
    habits, read_at, waiting, delays = Habits(), dict.fromkeys(weights, -1.0), dict[str, list[float]](), list[float]()
    now = 0.0
    while coming or any(waiting.values()):
        now += 3.0
        while coming and coming[0][0] <= now:
            at, name = coming.pop(0)
            waiting.setdefault(name, []).append(at)
        rates: dict[str, Callable[[str], float]] = {
            "learnt": lambda name: habits.rate(place(name)),
            "known": weights.__getitem__,
            "turn": lambda _: 1.0,
        }
        wants = [Want(event=EventId(name), key=SETUP, read_at=read_at[name], rate=rates[how](name)) for name in weights]
        name = str(choose(wants, 1, now, INTERVAL)[0].event)
        found = waiting.pop(name, [])
        delays.extend(now - at for at in found if at > lasting / 2.0)
        habits.visited(place(name), changed=bool(found), after_s=now - read_at[name])
        read_at[name] = now
    return fmean(delays)
