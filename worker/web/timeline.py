"""An event's history as a picture: its fields over time, the rules that fired or were held, and the writes. Pure.

Time runs from left to right, but not to scale: three seconds in which everything happened and three weeks in which
nothing did must both be readable, so each step is as wide as the logarithm of its length. Here are only places and
words; the drawing is a template's, and the records in the table below the picture say the same in text.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from math import log1p
from typing import Literal

from worker.model.commits import KINDS
from worker.model.facts import Json
from worker.model.writes import FINAL
from worker.web.views import Record, changed_field, day_and_time, iso, tone_of

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
    spans: list[Span] = []
    marks: list[Point] = []
    tones: dict[str, str] = {}
    begins = LEFT
    value: Json = None

    def lasted(was: Json, ends: float) -> None:
        tone = tones.setdefault(str(was), f"value{len(tones) % 4}")
        if ends > begins:
            spans.append(Span(x=begins, width=round(ends - begins, 1), tone=tone, label=str(was)))

    for record in changes:
        change = changed_field(record)
        if change is None:
            continue
        _, before, value, maker = change
        ours = maker is not None
        x = axis.places[_at(record)]
        lasted(before, x)
        whose = "by the worker" if ours else "not by the worker"
        label = f"{day_and_time(_at(record))} {name}: {before} → {value}, {whose}"
        marks.append(Point(x=x, shape="diamond" if ours else "ring", tone="busy" if ours else "other", label=label))
        begins = x
    lasted(value, axis.end)
    return spans, marks


def _write(records: Sequence[Record], axis: Axis) -> tuple[list[Span], list[Point]]:
    """A write's states one after another; ticks are attempts, dots are reads, rings say what held it, and the last mark
    is its end."""
    spans: list[Span] = []
    marks: list[Point] = []
    state, since = "", 0.0
    for record in records:
        kind, x = str(record["kind"]), axis.places[_at(record)]
        if kind in _MARKS:
            marks.append(_mark(record, axis, _MARKS[kind]))
        if kind in _STATES:
            if state and x > since:
                spans.append(Span(x=since, width=round(x - since, 1), tone=tone_of(state), label=state))
            state, since = kind, x
            if kind in FINAL:
                marks.append(_mark(record, axis, "dot"))
    if state and state not in FINAL:
        spans.append(Span(x=since, width=round(axis.end - since, 1), tone=tone_of(state), label=state))
    return spans, marks


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
