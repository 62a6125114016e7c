"""What is read next: what was never read, then what most likely has changed and matters most; nothing starves."""

from collections import Counter
from datetime import timedelta
from math import sqrt

import pytest

from tests.builders import cases
from worker.model.facts import EventId, FactKey
from worker.reading.pacing import Want, choose, delays, expected_delay_s, facts_per_poll

INTERVAL = timedelta(seconds=3)
SETUP = FactKey(name="setup")


def want(name: str, read_at: float | None, weight: float = 1.0, per_hour: float = 1.0) -> Want:
    return Want(event=EventId(name), key=SETUP, read_at=read_at, weight=weight, rate=per_hour / 3600.0)


def names(wants: list[Want]) -> list[str]:
    return [str(one.event) for one in wants]


@cases(
    "wants, expected",
    ([want("a", 0.0), want("b", None)], ["b", "a"], "what was never read comes first"),
    ([want("a", 50.0), want("b", 10.0)], ["b", "a"], "what was read longest ago"),
    ([want("a", 10.0), want("b", 10.0, weight=9.0)], ["b", "a"], "what matters more"),
    ([want("a", 10.0), want("b", 10.0, per_hour=9.0)], ["b", "a"], "what changes more often"),
    ([want("a", 10.0), want("b", 75.0, weight=9.0)], ["a", "b"], "age counts fully, weight by its root"),
    ([want("a", 98.6), want("b", 10.0)], ["b"], "not within half the floor"),
    ([want("a", 98.0), want("b", 10.0)], ["b", "a"], "but what may be asked before the look is over"),
    ([want("b", 10.0), want("a", 10.0)], ["a", "b"], "what is alike goes by name, not by chance"),
)
def test_what_is_read_next(wants: list[Want], expected: list[str]) -> None:
    assert names(choose(wants, 5, 100.0, INTERVAL)) == expected


def test_no_more_than_there_is_room_for() -> None:
    wants = [want(f"e{number}", None) for number in range(10)]

    assert len(choose(wants, 3, 0.0, INTERVAL)) == 3
    assert choose(wants, 0, 0.0, INTERVAL) == []
    assert choose(wants, -2, 0.0, INTERVAL) == []


@cases(
    "per_minute, pages, expected",
    (300, 1, 14.0, "what the list leaves of three seconds' budget"),
    (60, 1, 2.0, "the same of a small one"),
    (60, 100, 50.0, "the list alone takes more than there is: a third of all for the facts"),
    (1, 1, 1.0, "at least one, or rules that need it would never see it"),
)
def test_the_reads_of_facts_in_one_look(per_minute: int, pages: int, expected: float) -> None:
    assert facts_per_poll(per_minute, INTERVAL, pages) == pytest.approx(expected)


def test_what_to_expect_of_a_list_and_its_facts() -> None:
    wants = [want(f"e{number}", -1.0) for number in range(1000)]

    enough = delays(wants[:10], 1, 300, INTERVAL)
    assert (enough.of_list, enough.short, enough.wanted) == (1.5, False, 10)
    assert enough.of_facts == pytest.approx(1.5), "each is read in every look"

    short = delays(wants, 100, 60, INTERVAL)
    assert short.of_list == pytest.approx(150 / 2), "a hundred pages and fifty facts in one look"
    assert short.of_facts == pytest.approx(1000 / (50 / 150) / 2), "half a round through all of them"
    assert short.short

    assert delays([], 1, 300, INTERVAL).of_facts == 0.0
    assert expected_delay_s(wants, 1e9, INTERVAL) == pytest.approx(1.5), "half the floor at best"


def visits(wants: dict[str, tuple[float, float]], reads: int, room: int) -> Counter[str]:
    """How often each was read in so many cycles of three seconds."""
    read_at: dict[str, float] = dict.fromkeys(wants, 0.0)
    seen: Counter[str] = Counter()
    for cycle in range(1, reads + 1):
        now = cycle * 3.0
        asked = [want(name, read_at[name], weight, rate) for name, (weight, rate) in wants.items()]
        for one in choose(asked, room, now, INTERVAL):
            seen[str(one.event)] += 1
            read_at[str(one.event)] = now
    return seen


def test_each_is_visited_in_proportion_to_the_root_of_weight_and_rate() -> None:
    wants = {f"e{number:02}": (1.0, 1.0) for number in range(30)}
    wants |= {f"lively{number:02}": (1.0, 16.0) for number in range(10)}
    seen = visits(wants, 3000, 2)
    slow = sum(seen[name] for name in wants if name.startswith("e")) / 30
    quick = sum(count for name, count in seen.items() if name.startswith("lively")) / 10

    assert quick / slow == pytest.approx(sqrt(16.0), rel=0.1)
    assert min(seen[name] for name in wants) > 0, "nothing starves"
