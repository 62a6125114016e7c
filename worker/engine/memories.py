"""The memory of every (event, rule) of one partner, as this process keeps it: what is equal is kept once.

Nearly all pairs are at rest, and after a look their memories differ in nothing but whose they are: ten thousand events
under twenty rules would otherwise be two hundred thousand records of the same. A memory is kept without its event, and
the memories of one event are a row; equal rows are one object. What is asked for is made anew, equal to what was given.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import attrgetter

from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory

Pair = tuple[EventId, RuleId]
Row = Mapping[RuleId, RuleMemory]

NOBODY = EventId("")
"""Whose a memory is that several events share."""
REMEMBERED_MAX = 4_096
"""Shapes and rows that a new one is compared with. Equal ones come from one look, so older ones are soon forgotten."""
_LISTS = ("baselines", "pending", "before_firing")
_scalars = attrgetter(*(name for name in RuleMemory.__slots__ if name not in ("event", *_LISTS)))


class Memories(Mapping[Pair, RuleMemory]):
    """All memories of one partner, by event and rule."""

    def __init__(self, memories: Iterable[RuleMemory] = ()) -> None:
        self._rows: dict[EventId, Row] = {}
        self._shapes: dict[object, RuleMemory] = {}
        self._shared: dict[tuple[int, ...], Row] = {}
        self.take(memories)

    @property
    def events(self) -> AbstractSet[EventId]:
        """Every event of which anything is remembered."""
        return self._rows.keys()

    def others(self, rules: AbstractSet[RuleId]) -> dict[Pair, RuleMemory]:
        """The memories of all rules but these."""
        return {
            (event, rule): _of(event, shape)
            for event, row in self._rows.items()
            for rule, shape in row.items()
            if rule not in rules
        }

    def take(self, memories: Iterable[RuleMemory]) -> None:
        """Takes these over in place of what was remembered; soonest where those of one event follow each other."""
        event = NOBODY
        row: dict[RuleId, RuleMemory] = {}
        for memory in memories:
            if memory.event != event:
                self._keep(event, row)
                event, row = memory.event, dict(self._rows.get(memory.event, {}))
            row[memory.rule] = self._shape(memory)
        self._keep(event, row)

    def __getitem__(self, pair: Pair) -> RuleMemory:
        event, rule = pair
        return _of(event, self._rows[event][rule])

    def __iter__(self) -> Iterator[Pair]:
        return ((event, rule) for event, row in self._rows.items() for rule in row)

    def __len__(self) -> int:
        return sum(len(row) for row in self._rows.values())

    def _keep(self, event: EventId, row: dict[RuleId, RuleMemory]) -> None:
        if not row:
            return
        if len(self._shared) >= REMEMBERED_MAX:
            self._shared.clear()
        self._rows[event] = self._shared.setdefault(tuple(map(id, row.values())), row)

    def _shape(self, memory: RuleMemory) -> RuleMemory:
        """The memory without its event, where others may be like it; else as it is."""
        if any(getattr(memory, name) for name in _LISTS):
            return memory
        if len(self._shapes) >= REMEMBERED_MAX:
            self._shapes.clear()
        said = _scalars(memory)
        known = self._shapes.get(said)
        if known is None:
            known = self._shapes[said] = replace(memory, event=NOBODY)
        return known


def _of(event: EventId, shape: RuleMemory) -> RuleMemory:
    return shape if shape.event == event else replace(shape, event=event)
