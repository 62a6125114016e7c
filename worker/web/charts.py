"""Charts as places and words: writes a day by how they ended, how long confirming took, how much budget is used. Pure.

Each chart comes with the numbers it was drawn from, because a picture is nothing to somebody who cannot see it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from math import ceil, log10

from worker.model.facts import Json, PartnerId
from worker.model.writes import Outcomes, Settled
from worker.web.views import day_and_time, iso, lasting, tone_of

WIDTH, HEIGHT = 860.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 52.0, 12.0, 14.0, 30.0
GROUPS: Mapping[str, tuple[str, ...]] = {
    "confirmed": ("confirmed",),
    "open": ("planned", "waiting", "sending", "applied", "unknown"),
    "needs a person": ("needs_human",),
    "no effect": ("skipped", "cancelled", "shadowed"),
    "refused or unconfirmed": ("rejected", "refused", "unconfirmed"),
}
"""States that one colour stands for, from the bottom of a bar to its top."""
_TONES: Mapping[str, str] = {"open": "busy", "needs a person": "warn", "no effect": "quiet"}


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
class Line:
    """A line through points, as ``x,y x,y``."""

    points: str
    tone: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A word on an axis."""

    at: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    """What a colour stands for."""

    tone: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A drawn chart and its numbers: ``head`` and ``rows`` are the table below it."""

    title: str
    note: str
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    across: tuple[Mark, ...] = ()
    up: tuple[Mark, ...] = ()
    legend: tuple[Legend, ...] = ()
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    floor: float = HEIGHT - BOTTOM


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What a partner used of its budget at one moment, in requests per minute."""

    at: datetime
    partner: str
    used: float
    budget: float


def writes_a_day(counts: Iterable[Outcomes], today: date, days: int) -> Chart:
    """A bar for each day, cut by where the writes that last changed on it stand now."""
    first = today - timedelta(days=days - 1)
    names = [(first + timedelta(days=number)).isoformat() for number in range(days)]
    table: dict[str, dict[str, int]] = {name: dict.fromkeys(GROUPS, 0) for name in names}
    for one in counts:
        group = next((name for name, states in GROUPS.items() if one.state in states), None)
        if group is not None and one.day in table:
            table[one.day][group] += one.count
    highest = _round_up(max((sum(parts.values()) for parts in table.values()), default=0))
    step = (WIDTH - LEFT - RIGHT) / days
    bars: list[Bar] = []
    for place, name in enumerate(names):
        top = HEIGHT - BOTTOM
        for group, count in table[name].items():
            if count:
                height = _height(count, highest)
                top -= height
                x = round(LEFT + place * step + 1, 1)
                label = f"{name}: {count} {group}"
                bars.append(Bar(x=x, y=top, width=round(step - 2, 1), height=height, tone=_tone(group), label=label))
    return Chart(
        title="Writes a day",
        note="by the day of their last change (UTC), and where they stand now",
        bars=tuple(bars),
        across=tuple(Mark(at=LEFT + (place + 0.5) * step, text=names[place][5:]) for place in range(0, days, 5)),
        up=_up(highest),
        legend=tuple(Legend(tone=_tone(group), text=group) for group in GROUPS),
        head=("day", *GROUPS),
        rows=tuple(
            (name, *(str(count) for count in table[name].values()))
            for name in reversed(names)
            if any(table[name].values())
        ),
    )


def time_to_confirmed(settled: Sequence[Settled], today: date, days: int) -> Chart:
    """For each day the middle and the slow end of the time from the look that fired to the proof."""
    by_day = {one.day: one for one in settled}
    first = today - timedelta(days=days - 1)
    names = [(first + timedelta(days=number)).isoformat() for number in range(days)]
    found = [by_day[name] for name in names if name in by_day]
    rows = [(one.day, one.count, one.middle_s, one.slow_s) for one in found]
    highest = _round_up(max((slow for *_, slow in rows), default=0))
    step = (WIDTH - LEFT - RIGHT) / days
    bars: list[Bar] = []
    for name, count, middle, slow in rows:
        x = LEFT + names.index(name) * step
        for tone, seconds, at, share in (("quiet", slow, x + 1, 1.0), ("good", middle, x + 1 + step * 0.2, 0.6)):
            height = max(1.5, _height(seconds, highest))
            which = "half of them within" if tone == "good" else "95 of 100 within"
            label = f"{name}: {which} {_span(seconds)} ({count} writes)"
            width = round((step - 2) * share, 1)
            y = round(HEIGHT - BOTTOM - height, 1)
            bars.append(Bar(x=round(at, 1), y=y, width=width, height=height, tone=tone, label=label))
    return Chart(
        title="From the change seen to confirmed",
        note="seconds from the look at which the rule fired to the read, answer or person that confirmed the write",
        bars=tuple(bars),
        across=tuple(Mark(at=LEFT + (place + 0.5) * step, text=names[place][5:]) for place in range(0, days, 5)),
        up=_up(highest),
        legend=(Legend(tone="good", text="half within"), Legend(tone="quiet", text="95 of 100 within")),
        head=("day", "writes", "half within", "95 of 100 within"),
        rows=tuple((name, str(count), _span(middle), _span(slow)) for name, count, middle, slow in reversed(rows)),
    )


def budget_used(samples: Sequence[Sample]) -> Chart:
    """A line for each partner: requests of the last minute, and the budget they had."""
    partners = sorted({one.partner for one in samples})
    head = ("time", "partner", "used in a minute", "budget")
    note = "requests per minute, as the daemon said it; kept for as long as this process runs"
    if len({one.at for one in samples}) < 2:
        return Chart(title="Request budget used", note=note, head=head)
    first, last = min(one.at for one in samples), max(one.at for one in samples)
    highest = _round_up(max(max(one.used, one.budget) for one in samples))
    whole = (last - first).total_seconds()

    def point(one: Sample, value: float) -> str:
        x = LEFT + (WIDTH - LEFT - RIGHT) * (one.at - first).total_seconds() / whole
        return f"{x:.1f},{HEIGHT - BOTTOM - _height(value, highest):.1f}"

    lines: list[Line] = []
    for number, partner in enumerate(partners):
        mine = [one for one in samples if one.partner == partner]
        tone = f"value{number % 4}"
        lines.append(Line(points=" ".join(point(one, one.used) for one in mine), tone=tone, name=f"{partner}: used"))
        lines.append(
            Line(points=" ".join(point(one, one.budget) for one in mine), tone="limit", name=f"{partner}: budget")
        )
    marks = (
        Mark(at=LEFT, text=day_and_time(iso(first))[11:]),
        Mark(at=WIDTH - RIGHT - 24, text=day_and_time(iso(last))[11:]),
    )
    newest = {one.partner: one for one in samples}
    return Chart(
        title="Request budget used",
        note=note,
        lines=tuple(lines),
        across=marks,
        up=_up(highest),
        legend=(
            *(Legend(tone=f"value{number % 4}", text=partner) for number, partner in enumerate(partners)),
            Legend(tone="limit", text="budget"),
        ),
        head=head,
        rows=tuple(
            (day_and_time(iso(one.at)), one.partner, f"{one.used:g}", f"{one.budget:g}") for one in newest.values()
        ),
    )


def samples_of(body: Mapping[str, Json], at: datetime) -> tuple[Sample, ...]:
    """What the daemon's last word says of each partner's budget."""
    partners = body.get("partners")
    if not isinstance(partners, Mapping):
        return ()
    found = []
    for partner, said in partners.items():
        used, budget = (
            said.get(name) if isinstance(said, Mapping) else None for name in ("requests_per_minute", "budget")
        )
        if isinstance(used, int | float) and isinstance(budget, int | float):
            found.append(Sample(at=at, partner=PartnerId(partner), used=float(used), budget=float(budget)))
    return tuple(found)


def _tone(group: str) -> str:
    return _TONES.get(group) or tone_of(GROUPS[group][0])


def _span(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else lasting(timedelta(seconds=seconds))


def _height(value: float, highest: float) -> float:
    return round((HEIGHT - TOP - BOTTOM) * value / highest, 1)


def _up(highest: float) -> tuple[Mark, ...]:
    return tuple(
        Mark(at=round(HEIGHT - BOTTOM - _height(highest * part / 4, highest), 1), text=f"{highest * part / 4:g}")
        for part in range(5)
    )


def _round_up(value: float) -> float:
    """The next of 4, 8, 10, 20, 40, 80, 100, …: a scale whose quarters are readable."""
    if value <= 4:
        return 4.0
    size = 10.0 ** ceil(log10(value) - 1)
    return next(size * part for part in (1, 2, 4, 8, 10) if size * part >= value)
