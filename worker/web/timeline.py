"""An event's history as a picture: its fields over time, the rules that fired or were held, and the writes. Pure.

Time runs from left to right, but not to scale: three seconds in which everything happened and three weeks in which
nothing did must both be readable, so each step is as wide as the logarithm of its length. Here are only places and
words; the drawing is a template's, and the records in the table below the picture say the same in text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from math import log1p
from typing import Literal

from worker.model.facts import Json
from worker.model.records import KINDS
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
_EVIDENCE: Mapping[str, str] = {"there": "good", "not_there": "warn", "cannot_tell": "quiet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something that happened at one moment. ``label`` is shown by pointing at it."""

    x: float
    shape: Shape
    tone: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Something that was so for a while. ``text`` is drawn where it fits."""

    x: float
    width: float
    tone: str
    text: str
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One line of the picture."""

    name: str
    kind: Literal["field", "rule", "write"]
    y: float
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment that is named on the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The whole picture. ``left_out``: how many older writes have no line."""

    width: float
    height: float
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Where each moment stands. Texts of one width compare as their times do."""

    places: Mapping[str, float]
    end: float

    def at(self, moment: str) -> float:
        """The place of a record's time."""
        return self.places[moment]


def timeline(records: Sequence[Record], now: datetime) -> Timeline | None:
    """The picture of an event's records, given oldest first; None where there is nothing to draw."""
    if not records:
        return None
    axis = _axis(sorted({_at(record) for record in records}), iso(now))
    writes = _by(records, "write")
    newest = sorted(writes, key=int)[-LANES_MAX:]
    drawn = [
        *(_field(name, changes, axis) for name, changes in _changes(records).items()),
        *(_rule(name, found, axis) for name, found in _fired_or_held(records).items()),
        *(_write(number, writes[number], axis) for number in newest),
    ]
    lanes = tuple(
        Lane(name=lane.name, kind=lane.kind, y=TOP + LANE * place, spans=lane.spans, marks=lane.marks)
        for place, lane in enumerate(drawn)
    )
    return Timeline(
        width=axis.end + RIGHT,
        height=TOP + LANE * len(lanes) + 10,
        lanes=lanes,
        ticks=_ticks(axis),
        left_out=len(writes) - len(newest),
    )


def _axis(moments: Sequence[str], now: str) -> Axis:
    ends = [*moments, max(now, moments[-1])]
    steps = [STEP + STRETCH * log1p(_seconds(old, new)) for old, new in pairwise(ends)]
    room = min(max(sum(steps), WIDTH_MIN - LEFT - RIGHT), WIDTH_MAX - LEFT - RIGHT)
    scale = room / sum(steps)
    places, x = {}, LEFT
    for moment, step in zip(moments, steps, strict=True):
        places[moment] = round(x, 1)
        x += step * scale
    return Axis(places=places, end=round(x, 1))


def _ticks(axis: Axis) -> tuple[Tick, ...]:
    """The first moment and every later one that has room for its name; a new day says so."""
    ticks: list[Tick] = []
    day = ""
    for moment, x in axis.places.items():
        if ticks and x - ticks[-1].x < TICK_APART:
            continue
        text = day_and_time(moment)
        ticks.append(Tick(x=x, text=text[5:] if text[:10] != day else text[11:]))
        day = text[:10]
    if not ticks or axis.end - ticks[-1].x >= TICK_APART:
        ticks.append(Tick(x=axis.end, text="now"))
    return tuple(ticks)


def _field(name: str, changes: Sequence[Record], axis: Axis) -> Lane:
    """A field's values one after another, and a mark where it changed: filled where it was the worker's doing."""
    spans: list[Span] = []
    marks: list[Mark] = []
    known: dict[str, str] = {}
    begins = LEFT
    value: Json = None
    for record in changes:
        change = changed_field(record)
        if change is None:
            continue
        _, before, value, maker = change
        ours = maker is not None
        x = axis.at(_at(record))
        spans.append(_value_span(begins, x, str(before), known))
        whose = "by the worker" if ours else "not by the worker"
        label = f"{day_and_time(_at(record))} {name}: {before} → {value}, {whose}"
        marks.append(Mark(x=x, shape="diamond" if ours else "ring", tone="busy" if ours else "other", label=label))
        begins = x
    spans.append(_value_span(begins, axis.end, str(value), known))
    drawn = tuple(span for span in spans if span.width > 0)
    return Lane(name=name.removeprefix("event."), kind="field", y=0, spans=drawn, marks=tuple(marks))


def _value_span(begins: float, ends: float, value: str, known: dict[str, str]) -> Span:
    tone = known.setdefault(value, f"value{len(known) % 4}")
    return _span(begins, ends, tone, value, value)


def _rule(name: str, records: Sequence[Record], axis: Axis) -> Lane:
    marks = tuple(
        Mark(
            x=axis.at(_at(record)),
            shape="dot" if record.get("kind") == "fired" else "ring",
            tone=tone_of(str(record.get("kind"))),
            label=_label(record),
        )
        for record in records
    )
    return Lane(name=name, kind="rule", y=0, spans=(), marks=marks)


def _write(number: str, records: Sequence[Record], axis: Axis) -> Lane:
    """A write's states one after another; ticks are attempts, dots are reads, rings say what held
    it, and the last mark is its end."""
    spans: list[Span] = []
    marks: list[Mark] = []
    state, since = "", 0.0
    for record in records:
        kind, x = str(record.get("kind")), axis.at(_at(record))
        if kind == "sending":
            marks.append(Mark(x=x, shape="tick", tone="busy", label=_label(record)))
        if kind == "evidence":
            marks.append(Mark(x=x, shape="small", tone=_says(record), label=_label(record)))
        if kind == "held":
            marks.append(Mark(x=x, shape="ring", tone="warn", label=_label(record)))
        if kind in _STATES:
            if state and x > since:
                spans.append(_span(since, x, tone_of(state), state, state))
            state, since = kind, x
            if kind in FINAL:
                marks.append(Mark(x=x, shape="dot", tone=tone_of(kind), label=_label(record)))
    if state and state not in FINAL:
        spans.append(_span(since, axis.end, tone_of(state), state, state))
    action = next((str(record["action"]) for record in records if record.get("action")), "")
    return Lane(name=f"write {number}, {action}", kind="write", y=0, spans=tuple(spans), marks=tuple(marks))


_STATES = frozenset(KINDS) & (FINAL | {"planned", "waiting", "sending", "applied", "unknown", "needs_human"})


def _span(begins: float, ends: float, tone: str, text: str, label: str) -> Span:
    width = round(ends - begins, 1)
    fits = len(text) * LETTER + 10 <= width
    return Span(x=begins, width=width, tone=tone, text=text if fits else "", label=label)


def _says(record: Record) -> str:
    evidence = record.get("evidence")
    return _EVIDENCE.get(str(evidence.get("says")), "quiet") if isinstance(evidence, Mapping) else "quiet"


def _label(record: Record) -> str:
    parts = (
        day_and_time(_at(record)),
        str(record.get("kind")),
        str(record.get("reason") or ""),
        str(record.get("why")),
    )
    return " ".join(part for part in parts if part)


def _changes(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        change = changed_field(record)
        if change is not None:
            found.setdefault(change[0], []).append(record)
    return found


def _fired_or_held(records: Sequence[Record]) -> dict[str, list[Record]]:
    mine = [one for one in records if one.get("kind") in ("fired", "held") and one.get("write") is None]
    return _by(mine, "rule")


def _by(records: Sequence[Record], name: str) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.get(name) is not None:
            found.setdefault(str(record[name]), []).append(record)
    return found


def _at(record: Record) -> str:
    return str(record.get("at"))


def _seconds(old: str, new: str) -> float:
    return max(0.0, (datetime.fromisoformat(new) - datetime.fromisoformat(old)).total_seconds())
