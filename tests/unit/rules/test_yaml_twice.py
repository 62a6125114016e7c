"""YAML is read by libyaml where it is there, and by PyYAML alone where not: the same values at the same places."""

from pathlib import Path
from random import Random

import pytest
import yaml

from worker.model.errors import InputErrors
from worker.rules.yamltext import FAST, SLOW, Document, Entries, Items, Scalar, Value, compose, read_by

ROOT = Path(__file__).parents[3]
WRITTEN = sorted(
    file
    for folder in ("rules", "tests/broken_rules")
    for file in (ROOT / folder).rglob("*.yaml")
    if file.stem != "a-file-in-another-encoding"
)
PIECES = (
    *(
        "a",
        "b: ",
        "- ",
        "\n",
        "  ",
        "\n  ",
        "\n    ",
        "'x y'",
        '"q\\n"',
        "[",
        "]",
        "{",
        "}",
        ", ",
        ": ",
        "|\n",
        ">- \n",
    ),
    *("&a ", "*a", "!t ", "<<: ", "? ", "é", "音", "\t", "\r\n", "--- ", "...", "% ", "@", "`", "!", "x#y", "a:b", "1"),
    *("~", "''", '""', "when: ", "event.x == 'y' && !z", "\u2028", "\ufeff", "\x85", "-", ":", "\\", "'", '"', "?"),
)


def flat(value: Value | None) -> object:
    """Everything of a value, its places too."""
    if isinstance(value, Scalar):
        return value.text, value.plain, value.start, value.end
    if isinstance(value, Items):
        return value.start, [flat(item) for item in value.items]
    if isinstance(value, Entries):
        return value.start, [(flat(key), flat(part)) for key, part in value.entries]
    return None


def read(text: str) -> object:
    """What a text is, as everybody reads it, or what is wrong with it."""
    try:
        return flat(compose(Document(file="f", text=text)))
    except InputErrors as errors:
        return [(str(one), one.hint) for one in errors.problems]


def is_refusal(found: object) -> bool:
    """Whether that is what is wrong with a text, and not what it is."""
    return isinstance(found, list)


def read_slowly(text: str) -> object:
    """The same without libyaml."""
    try:
        return flat(read_by(SLOW, Document(file="f", text=text)))
    except InputErrors as errors:
        return [(str(one), one.hint) for one in errors.problems]


@pytest.mark.parametrize("file", WRITTEN, ids=lambda file: file.stem)
def test_every_file_that_is_shipped_is_read_alike(file: Path) -> None:
    text = file.read_text("utf-8")
    assert read(text) == read_slowly(text)


@pytest.mark.parametrize("seed", range(8))
def test_what_people_mistype_is_read_alike_and_told_alike(seed: int) -> None:
    chance = Random(seed)
    whole = [file.read_text("utf-8") for file in WRITTEN if file.stat().st_size < 500]
    for _ in range(60):
        text = "".join(chance.choice(PIECES) for _ in range(chance.randrange(1, 14)))
        if chance.random() < 0.5:
            text = chance.choice(whole)
            at = chance.randrange(len(text) + 1)
            text = text[:at] + chance.choice(PIECES) + text[at + chance.randrange(6) :]
        slowly = read_slowly(text)
        if "?" in text and is_refusal(
            slowly
        ):  # PyYAML alone ends a plain word in brackets at a `?`: never another value
            continue
        assert read(text) == slowly, repr(text)


def test_the_fast_way_is_taken_where_there_is_one() -> None:
    assert (FAST is SLOW) is not yaml.__with_libyaml__
