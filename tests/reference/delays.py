"""docs/delays.svg: how soon a change is seen, against the budget, drawn from the figures that a benchmark kept.

The figures are benchmarks/recorded/delays.json, written by ``benchmarks/reading.py --record`` and by nobody else. The
picture is text, so that a changed figure shows in a review; the gate draws it anew and compares.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import Final

from tests.reference.pages import ROOT
from tests.reference.spelling import picture

RECORDED: Final = ROOT / "benchmarks" / "recorded" / "delays.json"
FILE: Final = ROOT / "docs" / "delays.svg"

WIDTH, HEIGHT, LEFT, TOP, GAP = 390, 300, 64, 50, 30
LEAST_S, MOST_S = 1.0, 100_000.0
LEAST_BUDGET, MOST_BUDGET = 40.0, 1_800.0
Row = Mapping[str, str | float | None]
PANELS: Final = (("list", "An event is cancelled"), ("fact", "Other clusters are suggested"))
LINES: Final = (
    ("in_turn_s", "asking everything in turn", "#b3261e", ""),
    ("evenly_s", "the list first, then evenly", "#b26a00", ""),
    ("delay_s", "the worker", "#1b5e20", ""),
    ("bound_s", "the least that the budget allows", "#555555", "5 4"),
)


def text() -> str:
    rows: Sequence[Row] = json.loads(RECORDED.read_text("utf-8"))
    panels = [part for index, (what, title) in enumerate(PANELS) for part in _panel(index, title, _of(rows, what))]
    width, height = 2 * (WIDTH + LEFT) + GAP + 20, TOP + HEIGHT + 90
    title = "Mean delay until a change is seen, against the request quota"
    return picture(title, width, height, (*panels, *_legend(TOP + HEIGHT + 62)))


def _of(rows: Sequence[Row], what: str) -> list[Row]:
    return sorted((row for row in rows if row["what"] == what), key=lambda row: float(row["budget"] or 0))


def _x(budget: float) -> float:
    return WIDTH * log10(budget / LEAST_BUDGET) / log10(MOST_BUDGET / LEAST_BUDGET)


def _y(delay_s: float) -> float:
    return HEIGHT * (1 - log10(delay_s / LEAST_S) / log10(MOST_S / LEAST_S))


def _panel(index: int, title: str, rows: list[Row]) -> Iterator[str]:
    yield f'<g transform="translate({LEFT + index * (WIDTH + LEFT + GAP)},{TOP})">'
    yield f'<text class="t" x="0" y="-22">{title}</text>'
    yield '<text class="s" x="0" y="-7">mean delay</text>'
    for power, words in enumerate(("1 s", "10 s", "100 s", "1,000 s", "10,000 s", "100,000 s")):
        y = _y(10.0**power)
        yield f'<line x1="0" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
        yield f'<text class="s" x="-6" y="{y + 4:.1f}" text-anchor="end">{words}</text>'
    for row in rows:
        x = _x(float(row["budget"] or 1))
        yield f'<text class="s" x="{x:.1f}" y="{HEIGHT + 18}" text-anchor="middle">{row["budget"]:,}</text>'
    yield f'<text class="s" x="{WIDTH}" y="{HEIGHT + 34}" text-anchor="end">requests a minute</text>'
    for key, _, colour, dashes in LINES:
        points = [(_x(float(row["budget"] or 1)), _y(float(row[key] or 1)), row[key]) for row in rows if row.get(key)]
        if points:
            way = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
            yield f'<polyline points="{way}" fill="none" {_pen(colour, dashes)}/>'
        for x, y, value in points:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"><title>{value:,} s</title></circle>'
    yield "</g>"


def _legend(y: int) -> Iterator[str]:
    for index, (_, words, colour, dashes) in enumerate(LINES):
        x = LEFT + index * 215
        yield f'<line x1="{x}" x2="{x + 24}" y1="{y}" y2="{y}" {_pen(colour, dashes)}/>'
        yield f'<text class="s" x="{x + 30}" y="{y + 4}">{words}</text>'


def _pen(colour: str, dashes: str) -> str:
    return f'stroke="{colour}" stroke-width="2"' + (f' stroke-dasharray="{dashes}"' if dashes else "")
