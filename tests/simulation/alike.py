"""Which single faults end in the same world: another harm, but nothing else that anybody could see.

A read that answers 429 with a ``Retry-After`` nobody can read is one with none; a process that is killed before it
begins a transaction leaves what one leaves that is killed in it. Half of all single faults are such. Which, nobody has
to argue: all are played (``python -m tests.simulation --alike``, and ``make prove`` to see that it still holds), and of
those whose histories are the same a test run plays the first, and each harm once in each scene whatever came of it.

What was found stands in ``alike.json``, for each scene with a hash of its points: where the worker comes to other
places than it did then, all of that scene are played until it is written anew.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.simulation.history import History
from tests.simulation.nemesis import Tally, Try, crossed, seldom_collecting, singles, told, tried
from tests.simulation.points import MENU
from tests.simulation.scenes import WALKED, named

FOUND: Final = Path(__file__).with_name("alike.json")
_CHAIN: Final = frozenset({"hash", "prev", "seq", "chain", "replica"})
"""Fields of a record that follow from all others, and from which ledger it is."""
_APART: Final = frozenset({"wishes", "healed_s", "ended_s"})
"""What a scene says of its rules, the same for all its worlds; and when its troubles and it ended."""


def seen_in(history: History) -> str:
    """A hash of what the judge is given, but for the names of the harm, of the ledger and of the moment of healing."""
    given = {name: getattr(history, name) for name in history.__slots__ if name not in _APART}
    given["logs"] = [
        [{name: value for name, value in row.items() if name not in _CHAIN} for row in log] for log in history.logs
    ]
    given["wire"] = [[getattr(one, name) for name in one.__slots__ if name != "harm"] for one in history.wire]
    given["edited"], given["blank"] = sorted(history.edited), sorted(history.blank)
    return hashlib.sha256(repr(given).encode()).hexdigest()


def points_of(scene: str) -> str:
    """A hash of the points of a scene and of all that can go wrong there."""
    places = [(kind, MENU[kind]) for kind in crossed(scene)]
    return hashlib.sha256(f"{places} {named(scene)}".encode()).hexdigest()[:16]


def first_of_each(scenes: Iterable[str] = WALKED, every: int = 1) -> Iterator[Try]:
    """Every single fault of these scenes, but those known to end in the same world as one before; at each point only
    ``every`` n-th, and one at least: at each point of a kind the next harm, so that few of them try many. Each harm
    comes once in each scene in which it made a difference, and once all the same where it made none in any: that is
    what is to stay so."""
    found = known()
    anywhere: set[tuple[str, str]] = set()
    for scene in scenes:
        before = found.get(scene, {})
        alike = int(before["alike"], 16) if before.get("points") == points_of(scene) else 0
        everything = list(singles(scene))
        differing = [one for number, one in enumerate(everything) if not alike >> number & 1]
        played: list[Try] = []
        points_before: Counter[str] = Counter()
        for point, here in groupby(differing, key=lambda one: one.harms[0][0]):
            those, kind = list(here), crossed(scene)[point]
            apart = min(every, len(those))
            played += those[points_before[kind] % apart :: apart]
            points_before[kind] += 1
        yield from played
        met = {_harm(one) for one in played}
        yield from _first_of_each_harm(differing, met)
        anywhere |= met
        yield from _first_of_each_harm(everything, anywhere)


def _first_of_each_harm(tries: Iterable[Try], met: set[tuple[str, str]]) -> Iterator[Try]:
    """Of each harm that was not met yet the first; it is met then."""
    for one in tries:
        if _harm(one) not in met:
            met.add(_harm(one))
            yield one


def _harm(one: Try) -> tuple[str, str]:
    """The kind of place of its harm, and the harm."""
    number, name = one.harms[0]
    return crossed(one.scene, one.seed)[number], name


def walked(scene: str) -> tuple[Tally, dict[str, str]]:
    """Plays every single fault of a scene; and what is to be kept in `FOUND` of it."""
    total = Tally()
    met: set[str] = set()
    alike = 0
    for number, one in enumerate(seldom_collecting(singles(scene))):
        played = tried(one)
        total.add(told(one, *played))
        world = seen_in(played[0].history)
        alike |= (world in met) << number
        met.add(world)
    return total, {"points": points_of(scene), "alike": f"{alike:x}"}


def known() -> dict[str, dict[str, str]]:
    """What was found when all were played last."""
    return dict(json.loads(FOUND.read_text(encoding="utf-8"))) if FOUND.exists() else {}


def keep(found: Mapping[str, Mapping[str, str]]) -> None:
    FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
