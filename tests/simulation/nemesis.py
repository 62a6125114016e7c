"""The four passes: every single fault at every point, pairs in one write's life, swarms by seed; each world is healed
in the end, what is late lands, and then it is looked at.

A pass is a stream of cases, each of which is named by values that fit on a command line, so that any failure can be
played again alone.
"""

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tests.simulation.checker import complaints
from tests.simulation.points import MENU, Harm, Points
from tests.simulation.scenes import WALKED, Scene, Turn, drawn, named
from tests.simulation.town import Played, play

COLLECTED_AFTER = 5
"""So many worlds leave some megabytes behind them; with more, the memory of each is cold."""
BASE_SEED = 1
"""The seed under which named scenes are walked through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One world to be played: a scene by name, or drawn from its seed; and harms at points by number and name.

    For tests, harms can also be ``named``: the kind of place, which of that kind, the harm. ``always``:
    a harm at every place of a kind; ``blind_s``, ``full_s``: from and to when no read is answered, or the disk is full.
    """

    scene: str = ""
    seed: int = BASE_SEED
    harms: tuple[tuple[int, str], ...] = ()
    named: tuple[tuple[str, int, str], ...] = ()
    always: tuple[str, str] | None = None
    blind_s: tuple[float, float] = (0.0, 0.0)
    full_s: tuple[float, float] = (0.0, 0.0)

    def __str__(self) -> str:
        if not self.scene:
            return f"--replay {self.seed}"
        spelled = " ".join(f"--harm '{number}:{name}'" for number, name in self.harms)
        return f"--scene '{self.scene}' --from {self.seed} {spelled}".strip()

    @property
    def setting(self) -> Scene:
        scene = named(self.scene) if self.scene else drawn(self.seed)
        if self.always is not None:
            kind, name = self.always
            scene = replace(scene, rates={kind: (1.0, (_BY_NAME[kind][name],))})
        if self.full_s[1]:
            turn = Turn(at=self.full_s[0], does="disk full", details={"seconds": self.full_s[1] - self.full_s[0]})
            scene = replace(scene, turns=tuple(sorted((*scene.turns, turn), key=lambda one: one.at)))
        return scene


@dataclass(slots=True)
class Tally:
    """What was played and seen, and what was wrong with it."""

    seen: Counter[str] = field(default_factory=Counter)
    harms: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    failures: list[tuple[Try, list[str]]] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.seen.update(other.seen)
        self.harms.update(other.harms)
        self.virtual_s += other.virtual_s
        self.failures.extend(other.failures)


_BY_NAME: Mapping[str, Mapping[str, Harm]] = {kind: {one.name: one for one in menu} for kind, menu in MENU.items()}


def tried(one: Try) -> tuple[Played, list[str], Counter[str]]:
    """Plays a case and judges it."""
    played = play(one.setting, one.seed, planned(one))
    found, seen = [f"the world broke: {one}" for one in played.broke], Counter[str]()
    for one_partners in played.histories:
        wrong, met = complaints(one_partners)
        found += wrong
        seen += met
    seen["worlds"] = 1
    return played, found, seen


def planned(one: Try) -> Points:
    """Which harm comes at which point. A name that several kinds of place have is resolved by the fault-free run."""
    names = {(kind, nth): _BY_NAME[kind][name] for kind, nth, name in one.named}
    kinds = crossed(one.scene, one.seed) if one.harms else []
    found: dict[int, Harm] = {}
    for number, name in one.harms:
        kind = kinds[number] if number < len(kinds) else ""
        found[number] = _BY_NAME.get(kind, {}).get(name) or next(
            menu[name] for menu in _BY_NAME.values() if name in menu
        )
    return Points(plan=found, named=names, blind_s=one.blind_s)


_CROSSED: dict[tuple[str, int], list[str]] = {}


def crossed(scene: str, seed: int = BASE_SEED) -> list[str]:
    """The kinds of the points of a fault-free run, in order, up to where it is healed."""
    if (scene, seed) not in _CROSSED:
        played = play(named(scene), seed)
        _CROSSED[scene, seed] = [kind for kind, _ in played.points.crossed[: played.points.until]]
    return _CROSSED[scene, seed]


def tally(tries: Iterable[Try]) -> Tally:
    found = Tally()
    for one in seldom_collecting(tries):
        found.add(tally_of(one))
    return found


def seldom_collecting(tries: Iterable[Try]) -> Iterator[Try]:
    """The same, with garbage collected only after every so many: a world makes much of it, and each look for it goes
    through all that is still in use."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        for played, one in enumerate(tries, start=1):
            yield one
            if played % COLLECTED_AFTER == 0:
                gc.collect()
    finally:
        gc.enable()
        gc.unfreeze()


def tally_of(one: Try) -> Tally:
    return told(one, *tried(one))


def told(one: Try, played: Played, wrong: list[str], seen: Counter[str]) -> Tally:
    """What is to be told of a world that was played and judged."""
    failures = [(one, wrong)] if wrong else []
    return Tally(seen=seen, harms=Counter(played.points.done), virtual_s=played.virtual_s, failures=failures)


def singles(scene: str, seed: int = BASE_SEED) -> Iterator[Try]:
    """Every harm of the menu at every point of a scene, the points of its fault-free run."""
    for number, kind in enumerate(crossed(scene, seed)):
        for harm in MENU[kind]:
            yield Try(scene=scene, seed=seed, harms=((number, harm.name),))


def all_singles() -> Iterator[Try]:
    """The same for every scene that is walked through."""
    for scene in WALKED:
        yield from singles(scene)


def swarm(first: int, count: int) -> Iterator[Try]:
    """Drawn worlds, one a seed."""
    for seed in range(first, first + count):
        yield Try(seed=seed)


def pairs(scene: str, seed: int = BASE_SEED) -> Iterator[Try]:
    """Every pair of harms in the life of the scene's first write: one on its own request, and one at every place that
    its worker comes to after it. Where that is depends on the first harm, so each first is played alone to see."""
    kinds = crossed(scene, seed)
    write = kinds.index("write")
    for harm in MENU["write"]:
        first = (write, harm.name)
        points = planned(Try(scene=scene, seed=seed, harms=(first,)))
        points.more = True
        alone = play(named(scene), seed, points)
        after = [(number, kind) for number, (kind, _) in enumerate(alone.points.crossed) if number > write]
        for number, kind in after[:PAIR_REACH]:
            for second in MENU[kind]:
                yield Try(scene=scene, seed=seed, harms=(first, (number, second.name)))


PAIR_REACH = 60
"""So many points after a write's own request belong to its life: its outcome, its evidence, and its next attempt."""
