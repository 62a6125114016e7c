"""Pictures as places and words: an event's history, and charts of the writes. Pure; the drawing is a template's.

In a history time runs from left to right, but not to scale: three seconds in which everything happened and three weeks
in which nothing did must both be readable, so each step is as wide as the logarithm of its length. The records in the
table below it say the same in text; and a chart comes with the numbers it was drawn from, because a picture is nothing
to somebody who cannot see it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import accumulate, pairwise
from math import ceil, log1p, log10
from typing import Literal

from worker.model.commits import KINDS
from worker.model.writes import FINAL, Outcomes, Settled
from worker.web.views import Record, changed_field, day_and_time, iso, lasting, tone_of, worded

LEFT = 210.0
"""Where time begins: room for the names of the lanes."""
RIGHT = 30.0
TOP = 34.0
LANE = 30.0
STEP = 24.0
"""Least distance of two moments."""
STRETCH = 11.0
WIDTH_MIN, WIDTH_MAX = 860.0, 2400.0
TICK_APART = 92.0
LETTER = 7.2
"""About the width of a letter, for deciding whether a word fits."""
LANES_MAX = 14
"""Of writes, the newest: more would be a wall."""

Shape = Literal["dot", "ring", "tick", "diamond", "small"]
_STATES = frozenset(KINDS) & (FINAL | {"planned", "waiting", "sending", "applied", "unknown", "needs_human"})
_MARKS: Mapping[str, Shape] = {"sending": "tick", "evidence": "small", "held": "ring"}
OURS: tuple[Shape, str, str] = ("diamond", "busy", "by the worker")
OTHERS: tuple[Shape, str, str] = ("ring", "other", "not by the worker")
"""How a change by the worker is marked, and one by anybody else, and what is said of it."""
_EVIDENCE: Mapping[str, str] = {"there": "good", "not_there": "warn", "cannot_tell": "quiet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Something that happened at one moment. ``label`` is shown by pointing at it."""

    x: float
    shape: Shape
    tone: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that was so for a while; its text is drawn where it fits."""

    x: float
    width: float
    tone: str
    label: str

    @property
    def text(self) -> str:
        """The label, or nothing where there is no room for it."""
        return self.label if len(self.label) * LETTER + 10 <= self.width else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """One line of the picture."""

    name: str
    kind: Literal["field", "rule", "write"]
    y: float
    spans: Sequence[Span]
    marks: Sequence[Point]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The whole picture. ``ticks``: places on the axis, the times there for people, and in full but for the last;
    ``left_out``: how many older writes have no line."""

    width: float
    height: float
    lanes: tuple[Track, ...]
    ticks: tuple[tuple[float, str, str], ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Where each moment stands, and where the picture ends. Texts of one width compare as their times do."""

    places: Mapping[str, float]
    end: float


def timeline(records: Sequence[Record], now: datetime) -> Timeline | None:
    """The picture of an event's records, given oldest first; None where there is nothing to draw."""
    if not records:
        return None
    axis = _axis(sorted({_at(record) for record in records}), iso(now))
    fields, rules, writes = _grouped(records)
    newest = sorted(writes, key=int)[-LANES_MAX:]
    lanes: list[Track] = []

    def draw(kind: Literal["field", "rule", "write"], name: str, drawn: tuple[list[Span], list[Point]]) -> None:
        spans, marks = drawn
        lanes.append(Track(name=name, kind=kind, y=TOP + LANE * len(lanes), spans=spans, marks=marks))

    for name, changes in fields.items():
        draw("field", name.removeprefix("event."), _field(name, changes, axis))
    for name, found in rules.items():
        draw("rule", name, ([], [_mark(one, axis, "dot" if one["kind"] == "fired" else "ring") for one in found]))
    for number in newest:
        action = next((str(one["action"]) for one in writes[number] if one.get("action")), "")
        draw("write", f"write {number}, {action}", _write(writes[number], axis))
    return Timeline(
        width=axis.end + RIGHT,
        height=TOP + LANE * len(lanes) + 10,
        lanes=tuple(lanes),
        ticks=_ticks(axis),
        left_out=len(writes) - len(newest),
    )


def _axis(moments: Sequence[str], now: str) -> Axis:
    times = [datetime.fromisoformat(at) for at in (*moments, max(now, moments[-1]))]
    steps = [STEP + STRETCH * log1p(max(0.0, (new - old).total_seconds())) for old, new in pairwise(times)]
    room = min(max(sum(steps), WIDTH_MIN - LEFT - RIGHT), WIDTH_MAX - LEFT - RIGHT)
    places = list(accumulate((step * room / sum(steps) for step in steps), initial=LEFT))
    return Axis(places={at: round(x, 1) for at, x in zip(moments, places, strict=False)}, end=round(places[-1], 1))


def _ticks(axis: Axis) -> tuple[tuple[float, str, str], ...]:
    """The first moment and every later one that has room for its name; a new day says so."""
    ticks: list[tuple[float, str, str]] = []
    day = ""
    for moment, x in axis.places.items():
        if not ticks or x - ticks[-1][0] >= TICK_APART:
            text = day_and_time(moment)
            ticks.append((x, text[5:] if text[:10] != day else text[11:], moment))
            day = text[:10]
    if axis.end - ticks[-1][0] >= TICK_APART:
        ticks.append((axis.end, "now", ""))
    return tuple(ticks)


def _grouped(records: Sequence[Record]) -> tuple[dict[str, list[Record]], ...]:
    """The records by changed field, by the rule that fired or was held without a write, and by write."""
    fields, rules, writes = defaultdict(list), defaultdict(list), defaultdict(list)
    for record in records:
        change = changed_field(record)
        if change is not None:
            fields[change[0]].append(record)
        if record.get("write") is not None:
            writes[str(record["write"])].append(record)
        elif record.get("kind") in ("fired", "held") and record.get("rule") is not None:
            rules[str(record["rule"])].append(record)
    return dict(fields), dict(rules), dict(writes)


def _field(name: str, changes: Sequence[Record], axis: Axis) -> tuple[list[Span], list[Point]]:
    """A field's values one after another, and a mark where it changed: filled where it was the worker's doing."""
    told = [(_at(record), *change[1:]) for record in changes if (change := changed_field(record)) is not None]
    edges = [LEFT, *(axis.places[at] for at, *_ in told), axis.end]
    values = [*(worded(before) for _, before, _, _ in told), *(worded(value) for _, _, value, _ in told[-1:])]
    tones = {value: f"value{number % 4}" for number, value in enumerate(dict.fromkeys(values))}
    spans = [_span(*ends, tones[value], value) for ends, value in zip(pairwise(edges), values, strict=True)]
    marks: list[Point] = []
    for at, before, value, maker in told:
        shape, tone, whose = OTHERS if maker is None else OURS
        label = f"{day_and_time(at)} {name}: {worded(before)} → {worded(value)}, {whose}"
        marks.append(Point(x=axis.places[at], shape=shape, tone=tone, label=label))
    return [span for span in spans if span.width > 0], marks


def _write(records: Sequence[Record], axis: Axis) -> tuple[list[Span], list[Point]]:
    """A write's states one after another; ticks are attempts, dots are reads, rings say what held it, and the last mark
    is its end."""
    kinds = [(str(record["kind"]), record) for record in records]
    marks = [_mark(record, axis, _MARKS.get(kind, "dot")) for kind, record in kinds if kind in _MARKS or kind in FINAL]
    states = [(kind, axis.places[_at(record)]) for kind, record in kinds if kind in _STATES]
    ends = [*(x for _, x in states[1:]), axis.end]
    spans = [_span(x, end, tone_of(kind), kind) for (kind, x), end in zip(states, ends, strict=False)]
    return [span for span in spans if span.width > 0 and span.label not in FINAL], marks


def _span(begins: float, ends: float, tone: str, label: str) -> Span:
    return Span(x=begins, width=round(ends - begins, 1), tone=tone, label=label)


def _mark(record: Record, axis: Axis, shape: Shape) -> Point:
    kind, evidence = str(record["kind"]), record.get("evidence")
    tone = tone_of(kind)
    if kind == "evidence" and isinstance(evidence, Mapping):
        tone = _EVIDENCE.get(str(evidence.get("says")), "quiet")
    return Point(x=axis.places[_at(record)], shape=shape, tone=tone, label=_label(record))


def _label(record: Record) -> str:
    parts = (day_and_time(_at(record)), record.get("kind"), record.get("reason"), record.get("why"))
    return " ".join(str(part) for part in parts if part)


def _at(record: Record) -> str:
    return str(record["at"])


WIDTH, HEIGHT = 860.0, 230.0
WEST, EAST, NORTH, SOUTH = 52.0, 12.0, 14.0, 30.0
"""What lies around the bars of a chart: its numbers and its days."""
FULL = 0.9
"""Of its day's place, how much a bar takes."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "confirmed": ("confirmed",),
    "open": ("planned", "waiting", "sending", "applied", "unknown"),
    "needs an operator": ("needs_human",),
    "no effect": ("skipped", "cancelled", "shadowed"),
    "refused or unconfirmed": ("rejected", "refused", "unconfirmed"),
}
"""States that one colour stands for, from the bottom of a bar to its top."""
_TONES: Mapping[str, str] = {"open": "busy", "needs an operator": "warn", "no effect": "quiet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One part of a bar, or one bar."""

    x: float
    y: float
    width: float
    height: float
    tone: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn chart and its numbers: ``head`` and ``rows`` are the table below it. ``across`` and ``up``: places on
    the axes and the words there; ``legend``: tones and what they stand for."""

    title: str
    note: str
    bars: tuple[Bar, ...] = ()
    across: tuple[tuple[float, str], ...] = ()
    up: tuple[tuple[float, str], ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    width: float = WIDTH
    height: float = HEIGHT
    left: float = WEST


def writes_a_day(counts: Iterable[Outcomes], today: date, days: int) -> Chart:
    """A bar for each of these days, cut by where the writes that last changed on it stand now."""
    table = {day: dict.fromkeys(GROUPS, 0) for day in _days(today, days)}
    group_of = {state: group for group, states in GROUPS.items() for state in states}
    for one in counts:
        table[one.day][group_of[one.state]] += one.count
    highest = _round_up(max(sum(parts.values()) for parts in table.values()))
    step = (WIDTH - WEST - EAST) / days
    bars: list[Bar] = []
    for place, (day, parts) in enumerate(table.items()):
        top = HEIGHT - SOUTH
        for group, count in parts.items():
            if count:
                height = _height(count, highest)
                top -= height
                x, label = round(WEST + place * step, 2), f"{day}: {count} {group}"
                bars.append(Bar(x=x, y=top, width=round(step * FULL, 2), height=height, tone=_tone(group), label=label))
    return Chart(
        title="Writes a day",
        note="by the day of their last change (UTC), and where they stand now",
        bars=tuple(bars),
        across=_across(list(table)),
        up=_up(highest),
        legend=tuple((_tone(group), group) for group in GROUPS),
        head=("day", *GROUPS),
        rows=tuple((day, *map(str, parts.values())) for day, parts in reversed(table.items()) if any(parts.values())),
    )


def time_to_confirmed(settled: Sequence[Settled], today: date, days: int) -> Chart:
    """For each of these days, oldest first, the middle and the slow end of the time from the poll that fired to the
    proof."""
    names = _days(today, days)
    highest = _round_up(max((one.slow_s for one in settled), default=0))
    step = (WIDTH - WEST - EAST) / days
    bars: list[Bar] = []
    for one in settled:
        x = WEST + names.index(one.day) * step
        for tone, seconds, at, share, which in (
            ("quiet", one.slow_s, x, 1.0, "95 of 100 within"),
            ("good", one.middle_s, x + step * 0.2, 0.6, "half of them within"),
        ):
            height = max(1.5, _height(seconds, highest))
            width, y = round(step * FULL * share, 2), round(HEIGHT - SOUTH - height, 1)
            label = f"{one.day}: {which} {_lasting(seconds)} ({one.count} writes)"
            bars.append(Bar(x=round(at, 2), y=y, width=width, height=height, tone=tone, label=label))
    return Chart(
        title="From the change seen to confirmed",
        note="seconds from the poll at which the rule fired to the read, answer or person that confirmed the write",
        bars=tuple(bars),
        across=_across(names),
        up=_up(highest),
        legend=(("good", "half within"), ("quiet", "95 of 100 within")),
        head=("day", "writes", "half within", "95 of 100 within"),
        rows=tuple(
            (one.day, str(one.count), _lasting(one.middle_s), _lasting(one.slow_s)) for one in reversed(settled)
        ),
    )


def _tone(group: str) -> str:
    return _TONES.get(group) or tone_of(GROUPS[group][0])


def _lasting(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else lasting(timedelta(seconds=seconds))


def _height(value: float, highest: float) -> float:
    return round((HEIGHT - NORTH - SOUTH) * value / highest, 1)


def _days(today: date, days: int) -> list[str]:
    """The last days, the oldest first."""
    return [(today - timedelta(days=before)).isoformat() for before in reversed(range(days))]


def _across(days: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """About six of the days have their names in the middle below their bars."""
    step = (WIDTH - WEST - EAST) / len(days)
    every = ceil(len(days) / 6)
    return tuple((WEST + (place + 0.5) * step, days[place][5:]) for place in range(0, len(days), every))


def _up(highest: float) -> tuple[tuple[float, str], ...]:
    values = [highest * part / 4 for part in range(5)]
    return tuple((round(HEIGHT - SOUTH - _height(value, highest), 1), f"{value:g}") for value in values)


def _round_up(value: float) -> float:
    """The next of 4, 8, 10, 20, 40, 80, 100, …: a scale whose quarters are readable."""
    if value <= 4:
        return 4.0
    size = 10.0 ** ceil(log10(value) - 1)
    return next(size * part for part in (1, 2, 4, 8, 10) if size * part >= value)
