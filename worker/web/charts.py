"""Charts as places and words: writes a day by how they ended, and how long confirming took. Pure.

Each chart comes with the numbers it was drawn from, because a picture is nothing to somebody who cannot see it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil, log10

from worker.model.writes import Outcomes, Settled
from worker.web.views import lasting, tone_of

WIDTH, HEIGHT = 860.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 14.0, 30.0
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
    left: float = LEFT


def writes_a_day(counts: Iterable[Outcomes], today: date, days: int) -> Chart:
    """A bar for each day, cut by where the writes that last changed on it stand now."""
    table = {day: dict.fromkeys(GROUPS, 0) for day in _days(today, days)}
    group_of = {state: group for group, states in GROUPS.items() for state in states}
    for one in counts:
        if one.state in group_of and one.day in table:
            table[one.day][group_of[one.state]] += one.count
    highest = _round_up(max(sum(parts.values()) for parts in table.values()))
    step = (WIDTH - LEFT - RIGHT) / days
    bars: list[Bar] = []
    for place, (day, parts) in enumerate(table.items()):
        top = HEIGHT - BOTTOM
        for group, count in parts.items():
            if count:
                height = _height(count, highest)
                top -= height
                x, label = round(LEFT + place * step, 2), f"{day}: {count} {group}"
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
    """For each day the middle and the slow end of the time from the look that fired to the proof."""
    names = _days(today, days)
    found = sorted((one for one in settled if one.day in names), key=lambda one: one.day)
    highest = _round_up(max((one.slow_s for one in found), default=0))
    step = (WIDTH - LEFT - RIGHT) / days
    bars: list[Bar] = []
    for one in found:
        x = LEFT + names.index(one.day) * step
        for tone, seconds, at, share, which in (
            ("quiet", one.slow_s, x, 1.0, "95 of 100 within"),
            ("good", one.middle_s, x + step * 0.2, 0.6, "half of them within"),
        ):
            height = max(1.5, _height(seconds, highest))
            width, y = round(step * FULL * share, 2), round(HEIGHT - BOTTOM - height, 1)
            label = f"{one.day}: {which} {_span(seconds)} ({one.count} writes)"
            bars.append(Bar(x=round(at, 2), y=y, width=width, height=height, tone=tone, label=label))
    return Chart(
        title="From the change seen to confirmed",
        note="seconds from the poll at which the rule fired to the read, answer or person that confirmed the write",
        bars=tuple(bars),
        across=_across(names),
        up=_up(highest),
        legend=(("good", "half within"), ("quiet", "95 of 100 within")),
        head=("day", "writes", "half within", "95 of 100 within"),
        rows=tuple((one.day, str(one.count), _span(one.middle_s), _span(one.slow_s)) for one in reversed(found)),
    )


def _tone(group: str) -> str:
    return _TONES.get(group) or tone_of(GROUPS[group][0])


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else lasting(timedelta(seconds=seconds))


def _height(value: float, highest: float) -> float:
    return round((HEIGHT - TOP - BOTTOM) * value / highest, 1)


def _days(today: date, days: int) -> list[str]:
    """The last days, the oldest first."""
    return [(today - timedelta(days=before)).isoformat() for before in reversed(range(days))]


def _across(days: Sequence[str]) -> tuple[tuple[float, str], ...]:
    """About six of the days have their names in the middle below their bars."""
    step = (WIDTH - LEFT - RIGHT) / len(days)
    every = ceil(len(days) / 6)
    return tuple((LEFT + (place + 0.5) * step, days[place][5:]) for place in range(0, len(days), every))


def _up(highest: float) -> tuple[tuple[float, str], ...]:
    values = [highest * part / 4 for part in range(5)]
    return tuple((round(HEIGHT - BOTTOM - _height(value, highest), 1), f"{value:g}") for value in values)


def _round_up(value: float) -> float:
    """The next of 4, 8, 10, 20, 40, 80, 100, …: a scale whose quarters are readable."""
    if value <= 4:
        return 4.0
    size = 10.0 ** ceil(log10(value) - 1)
    return next(size * part for part in (1, 2, 4, 8, 10) if size * part >= value)
