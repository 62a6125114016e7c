"""How a finding is shown to a person: the line, a mark under the place, and the remedy."""

import pytest

from tests.builders import cases
from worker.model.errors import CODES, SOURCE_SHOWN_MAX, Problem


def shown(source: str, column: int) -> tuple[str, ...]:
    return Problem(file="r.yaml", line=7, column=column, message="wrong", source=source).lines[1:]


@cases(
    "source, column, expected",
    ("ab cd", 4, ("  7 | ab cd", "    |    ^"), "the mark stands under the place"),
    ("\tab", 2, ("  7 | \tab", "    | \t^"), "a tab is as wide above as below"),
    ("音楽 x", 4, ("  7 | 音楽 x", "    |      ^"), "some characters are two wide"),
    ("a\u0308b", 3, ("  7 | a\u0308b", "    |  ^"), "and some have no width"),
    ("a\x1bb", 3, ("  7 | a\ufffdb", "    |   ^"), "what a terminal would obey is not printed"),
    ("", 1, (), "nothing to show"),
    ("   ", 1, (), "nothing to be seen"),
)
def test_the_mark_stands_under_the_place(source: str, column: int, expected: tuple[str, ...]) -> None:
    assert shown(source, column) == expected


@pytest.mark.parametrize("column", [1, 100, 400, 1000])
def test_of_a_long_line_the_part_around_the_place_is_shown(column: int) -> None:
    line = "".join(chr(ord("a") + number % 26) for number in range(1000))
    text, mark = shown(line, column)
    assert len(text) <= SOURCE_SHOWN_MAX + len("  7 | ") + 2
    assert text[mark.index("^")] == line[column - 1]
    assert ("…" in text[:8], text.endswith("…")) == (column > 91, column < 1000)


def test_a_finding_without_a_place_has_words_only() -> None:
    problem = Problem(file="rules", message="empty", hint="write one", severity="warning")
    assert problem.lines == ("rules: warning: empty", "    write one")


def test_a_finding_has_a_code_that_is_explained() -> None:
    with pytest.raises(ValueError, match="'odd' is not a code"):
        Problem(file="r.yaml", message="wrong", code="odd")
    assert Problem(file="r.yaml", message="wrong").code in CODES
