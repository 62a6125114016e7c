"""No condition holds the worker for long or makes much, however its lists are nested: what runs over is unknown."""

import time
import tracemalloc
from typing import Any

import pytest

from tests.builders import a_fact, a_scope
from worker.model.rules import Truth
from worker.rules.cel import parse
from worker.rules.check import check_condition
from worker.rules.evaluate import expression
from worker.rules.registry import ANY

LARGE: dict[str, Any] = {
    "numbers": [float(number) for number in range(10_000)],
    "items": [{"tc": f"c{number}", "v": float(number)} for number in range(10_000)],
    "nested": [[float(number)] * 100 for number in range(2_000)],
    "texts": ["ab" * 20] * 5_000,
    "text": "a" * 1_000_000,
}
DOUBLED = "[1.0]" + ".map(x, [x, x])" * 40
MAKING = (
    "f.numbers.map(a, f.numbers.map(b, b)) == []",
    "f.items.filter(a, f.items.exists(b, a.tc == b.tc)) == []",
    f"{DOUBLED} == {DOUBLED}",
    f"[{', '.join(['f.numbers'] * 300)}] == []",
    "f.text + f.text == ''",
    "f.texts.exists(a, a + a + a + a == 'b')",
)
TOO_MUCH = (
    *MAKING,
    "f.numbers.all(a, f.numbers.all(b, f.numbers.all(c, true)))",
    "f.numbers.all(a, a in f.numbers)",
    "f.nested == f.nested",
    "f.text.matches('(a+)+$b')",
    f"f.numbers.all(a, {' && '.join(['a / (a + 1.0) >= 0.0'] * 150)})",
    "f.items.all(a, now.getHours('Europe/Berlin') >= 0 && a.v - 1.0 < a.v * 2.0 + 7.0 && size(a.tc + 'x') > 0)",
)
SCOPE = a_scope({"f": a_fact(LARGE)})


def judged(text: str) -> tuple[Truth, str]:
    judgement = expression(text).judge(SCOPE)
    return judgement.truth, judgement.why


@pytest.mark.parametrize("text", TOO_MUCH)
def test_what_takes_too_many_steps_is_unknown_at_once_and_says_so(text: str) -> None:
    began = time.process_time()
    truth, why = judged(text)
    took = time.process_time() - began
    assert truth is Truth.UNKNOWN
    assert why.startswith("it takes more than 250,000 steps"), why
    assert took < 1.0, "a twentieth of that, and room for a machine that does other things"


@pytest.mark.parametrize("text", MAKING)
def test_what_takes_too_many_steps_makes_little(text: str) -> None:
    condition = expression(text)
    tracemalloc.start()
    try:
        condition.judge(SCOPE)
        made = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert made < 16_000_000


@pytest.mark.parametrize(
    "text",
    [
        "f.numbers.exists(a, a > 9998.0)",
        "f.items.exists(a, a.tc == 'c9999' && a.v > 9998.0)",
        "size(f.items.filter(a, a.v < 10.0)) == 10",
        "f.items.map(a, a.v) == f.numbers",
        "f.text.startsWith('a') && !f.text.contains('b')",
    ],
)
def test_long_lists_by_themselves_are_no_matter(text: str) -> None:
    assert judged(text)[0] is Truth.TRUE


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("f.exists(a, a.v > 1.0)", None),
        ("f.filter(a, a.v > 1.0).exists(a, a.v < 2.0 && a.tc in ['x', 'y'])", None),
        ("[1.0, 2.0].all(a, f.exists(b, b.v > a))", None),
        ("f.exists(a, ['x', 'y'].exists(b, a.tc == b) || ([1] + (a.z ? [3] : [4, 5])).exists(b, b == a))", None),
        ("f.exists(a, g.exists(b, a.tc == b.tc))", "warning"),
        ("f.exists(a, a.tc in g.map(b, b.tc))", "warning"),
        ("f.exists(a, g.exists(b, h.exists(c, a.tc == b.tc && b.tc == c.tc)))", "error"),
        ("(f + g).exists(a, f.map(b, b.v).exists(b, g.filter(c, c.v > b).exists(c, a == c)))", "error"),
    ],
)
def test_check_knows_the_price_before_anything_is_evaluated(text: str, severity: str | None) -> None:
    found = check_condition(parse(text), dict.fromkeys("fgh", ANY))
    assert [(one.severity, one.code) for one in found] == ([(severity, "steps")] if severity else [])
    assert all(one.hint and "items this takes too many steps, and is unknown" in one.message for one in found)
