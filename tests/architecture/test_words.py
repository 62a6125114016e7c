"""The pages that people read: short sentences, and the field's words, so that whoever searches for a term finds it.

Headings, tables, code and examples are not counted: a table is for looking up, and code says what the code says.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = (
    *(f"{name}.md" for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")),
    *sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")),
)
WORDS_MAX: Final = 20
"""On average of a page."""
INSTEAD: Final = {
    r"\b(a|the|each|every|first|last|next|two|whole) looks?\b(?! at\b)": "poll",
    r"\b(a|another|every) person\b|\bpersons\b": "operator, somebody",
    r"\banother hand\b": "external change",
    r"\bvouch\w*": "confirm",
    r"\blean(s|ing)? on\b": "depend on",
    r"\bbrakes?\b": "limit",
    r"\bwish(es)?\b": "desired value, what it wants",
    r"\btwins?\b": "simulator, sandbox",
    r"\bstretch(es)?\b": "episode",
    r"\b(come|comes|came) to nothing\b": "had no effect",
    r"\btried on\b": "retried",
    r"\bdrawn worlds?\b": "randomised run",
    r"\bbudgets? of requests\b|\brequest budgets?\b": "request quota",
}
"""What is not said, and what is said for it."""


def prose(page: str) -> Iterator[str]:
    """The paragraphs and items of a page, without code, tables and headings; links by their words."""
    text = re.sub(r"^```.*?^```|<!--.*?-->", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=[|#])", text):
        flowing = re.sub(r"\s+", " ", block).strip()
        if flowing and flowing[0] not in "|#":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", re.sub(r"`[^`]*`", "code", flowing))
            yield re.sub(r"^(?:[-*]|\d+\.) ", "", plain)


def sentences(page: str) -> list[str]:
    return [one for block in prose(page) for one in re.split(r"(?<=[.!?])[\")*_]*\s+", block) if one.strip()]


@pytest.mark.parametrize("page", PAGES)
def test_sentences_are_short(page: str) -> None:
    lengths = {one: len(one.split()) for one in sentences(page)}

    mean = sum(lengths.values()) / len(lengths)

    longest = "\n".join(f"{lengths[one]}: {one}" for one in sorted(lengths, key=lengths.__getitem__)[-5:])
    assert mean <= WORDS_MAX, f"{mean:.1f} words on average; split the longest:\n{longest}"


@pytest.mark.parametrize("page", PAGES)
def test_the_field_s_words_are_used(page: str) -> None:
    text = "\n".join(prose(page))

    found = [
        f"{match[0]!r}: say {word}"
        for wrong, word in INSTEAD.items()
        for match in re.finditer(wrong, text, re.IGNORECASE)
    ]

    assert found == []


def spoken(file: Path) -> Iterator[str]:
    """The sentences of a module that somebody may read: its texts of several words, docstrings aside."""
    tree = ast.parse(file.read_text("utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in silent and " " in str(node.value).strip():
            yield str(node.value)


def test_what_the_worker_says_is_said_in_the_field_s_words_too() -> None:
    files = sorted((ROOT / "worker").rglob("*.py"))
    texts = {file: [*spoken(file)] for file in files}
    texts |= {file: [file.read_text("utf-8")] for file in (ROOT / "config.yaml", *(ROOT / "rules").rglob("*.yaml"))}

    found = [
        f"{file.relative_to(ROOT)}: {match[0]!r}: say {word}: {text[:80]}"
        for file, said in texts.items()
        for text in said
        for wrong, word in INSTEAD.items()
        for match in re.finditer(wrong, text)
    ]

    assert sum(map(len, texts.values())) > 1_000
    assert found == []


def test_the_counting_sees_what_it_should() -> None:
    assert len(sentences("docs/rules.md")) > 50
    assert all("```" not in one and not one.startswith("|") for page in PAGES for one in prose(page))
    assert re.search(next(iter(INSTEAD)), "at the first look", re.IGNORECASE)
    assert not re.search(next(iter(INSTEAD)), "the look at it", re.IGNORECASE)


def test_whoever_searches_for_a_standard_term_finds_it() -> None:
    text = "\n".join((ROOT / page).read_text("utf-8") for page in PAGES).lower()
    terms = (
        *("reconcil", "idempoten", "at most once", "rate limit"),
        *("fault injection", "ambiguous", "external change", "observability"),
    )

    assert [term for term in terms if term not in text] == []
