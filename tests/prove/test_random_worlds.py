"""Random worlds: whatever is drawn, no effect is repeated, none is lost silently, and everything ends.

A short slice runs with every test run; ``make prove`` plays many more. ``WORLDS_FROM`` and ``WORLDS`` choose the seeds
of the long one, and a failure names its seed: ``WORLDS_FROM=4711 WORLDS=1`` plays it again.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.prove.checker import check
from tests.prove.play import played
from tests.prove.proofs import say
from tests.prove.stories import drawn

SHORT = 6
GROUP = 6
LONG = int(os.environ.get("WORLDS", "600"))
FROM = int(os.environ.get("WORLDS_FROM", "10000"))


def seen_in(folder: Path, seeds: range) -> Counter[str]:
    """Plays these seeds, checks each, and says what happened in them."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        with played(place, drawn(seed)) as one:
            seen.update(check(one))
    return seen


@pytest.mark.parametrize("first", range(0, SHORT, GROUP))
def test_no_effect_is_repeated_or_lost_in_a_few_random_worlds(tmp_path: Path, first: int) -> None:
    seen = seen_in(tmp_path, range(first, first + GROUP))
    assert seen["sending"] > 0, "a world in which nothing is sent proves nothing"


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(FROM, FROM + LONG, min(LONG, 100)))
def test_no_effect_is_repeated_or_lost_in_many_random_worlds(tmp_path: Path, first: int) -> None:
    seen = seen_in(tmp_path, range(first, min(first + 100, FROM + LONG)))
    say(f"seeds from {first}: " + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))
    if seen["worlds"] >= 100:
        for what in ("unknown", "resent", "crashed", "confirmed", "needs_human"):
            assert seen[what] > 0, f"no write was ever {what}: these worlds prove too little"


def test_a_story_follows_from_its_seed_alone() -> None:
    assert str(drawn(7)) == str(drawn(7))
    assert str(drawn(7)) != str(drawn(8))
