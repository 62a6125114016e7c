"""docs/soak.svg: what two workers took over hours in which everything went wrong now and then, from the figures kept.

The figures are benchmarks/recorded/soak.json, written by ``python -m tests.soak --sum FILE --record`` and by nobody
else. A measure is flat where its last quarter is not above its second one by more than the bound that stands beside it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from tests.reference.pages import ROOT
from tests.reference.spelling import picture

RECORDED: Final = ROOT / "benchmarks" / "recorded" / "soak.json"
FILE: Final = ROOT / "docs" / "soak.svg"
Row = Sequence[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One column of the record. It may grow by this share, and by so much beside."""

    words: str
    share: float
    beside: float


MEASURES: Final = (
    Measure(words="resident memory, MB", share=0.05, beside=0.0),
    Measure(words="open file handles", share=0.0, beside=3.0),
    Measure(words="threads", share=0.0, beside=2.0),
    Measure(words="kB of ledger for each record", share=0.1, beside=0.0),
    Measure(words="seconds from a change to its effect", share=0.2, beside=0.5),
    Measure(words="percent of one core", share=0.25, beside=0.5),
    Measure(words="ms of a commit", share=0.5, beside=2.0),
    Measure(words="ms until /metrics has answered", share=0.5, beside=20.0),
)
COLOURS: Final = {"killed": "#b3261e", "left alone": "#1b5e20"}
WIDTH, HEIGHT, LEFT, TOP, ACROSS, DOWN = 360, 110, 56, 76, 450, 190


def quarters(rows: Sequence[Row], column: int) -> tuple[float, float] | None:
    """The median of a measure in the second quarter of the rows, and in the last one."""
    quarter = len(rows) // 4
    second = [one for row in rows[quarter : 2 * quarter] if (one := row[column + 1]) is not None]
    last = [one for row in rows[len(rows) - quarter :] if (one := row[column + 1]) is not None]
    return (median(second), median(last)) if second and last else None


def is_flat(measure: Measure, second: float, last: float) -> bool:
    """Whether it has not grown beyond its bound."""
    return last <= second * (1 + measure.share) + measure.beside


def verdict(rows: Sequence[Row], column: int) -> str:
    """Second quarter, last quarter, and whether that is flat."""
    found, measure = quarters(rows, column), MEASURES[column]
    if found is None:
        return "too few"
    return f"{found[0]:,.1f}, {found[1]:,.1f}: {'flat' if is_flat(measure, *found) else 'not flat'}"


def text() -> str:
    kept: Mapping[str, Any] = json.loads(RECORDED.read_text("utf-8"))
    panels = [part for column in range(len(MEASURES)) for part in _panel(column, kept["rows"])]
    height = TOP + DOWN * ((len(MEASURES) + 1) // 2) + 30
    title = "What two workers took over hours in which everything went wrong now and then"
    books = f'<text class="t" x="{LEFT}" y="20">{_books(kept)}</text>'
    return picture(title, 2 * ACROSS + 10, height, (books, *panels, *_legend(height - 14)))


def _books(kept: Mapping[str, Any]) -> str:
    """What the sandbox's books say, in a line."""
    counted = kept["books"]
    told = ", ".join(f"{counted[name]:,} {name}" for name in ("changes", "effects", "repeated", "lost"))
    still = f", {counted['open']} not settled yet" if counted["open"] else ""
    return f"{kept['played_minutes']} minutes: {told}{still}"


def _panel(column: int, rows: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    last = max(float(row[0] or 0) for house in rows.values() for row in house)
    most = _round_up(max(row[column + 1] or 0 for house in rows.values() for row in house))
    yield f'<g transform="translate({LEFT + column % 2 * ACROSS},{TOP + column // 2 * DOWN})">'
    yield f'<text class="t" x="0" y="-24">{MEASURES[column].words}</text>'
    for quarter in (1, 3):
        yield f'<rect x="{quarter * WIDTH / 4:.0f}" y="0" width="{WIDTH / 4:.0f}" height="{HEIGHT}" fill="#f2f2f2"/>'
    for part in (0, 1, 2):
        y = HEIGHT * (1 - part / 2)
        yield f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text class="s" x="-6" y="{y + 4:.1f}" text-anchor="end">{most * part / 2:,g}</text>'
    for part in range(5):
        minute = f"{last * part / 4:.0f}{' min' if part == 4 else ''}"
        yield f'<text class="s" x="{WIDTH * part / 4:.0f}" y="{HEIGHT + 15}" text-anchor="middle">{minute}</text>'
    for index, (name, colour) in enumerate(COLOURS.items()):
        points = " ".join(
            f"{WIDTH * float(row[0] or 0) / last:.1f},{HEIGHT * (1 - row[column + 1] / most):.1f}"  # type: ignore[operator] # not None, by the condition
            for row in rows[name]
            if row[column + 1] is not None
        )
        yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        yield f'<text class="s" x="{index * 190}" y="-8" style="fill:{colour}">{verdict(rows[name], column)}</text>'
    yield "</g>"


def _round_up(most: float) -> float:
    """The next number that is good to read on an axis."""
    power = 1.0
    while power < most:
        power *= 10
    return next(power * part for part in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0) if power * part >= most)


def _legend(y: int) -> Iterator[str]:
    for index, (name, colour) in enumerate(COLOURS.items()):
        x = LEFT + index * 330
        words = "killed, ended, frozen, its disk full at times" if name == "killed" else "only the service goes wrong"
        yield f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"/>'
        yield f'<text class="s" x="{x + 30}" y="{y}">{words}</text>'
    x = LEFT + 640
    yield f'<text class="s" x="{x}" y="{y}">grey: the quarters compared</text>'
