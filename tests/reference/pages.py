"""What the pages written by hand say in the type of code: commands, keys, files, YAML; each with its page.

Only what is marked as code is looked at, because only that is copied by somebody who trusts it. It judges nothing.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
PROGRAM: Final = "campaign-worker"
_FENCE = re.compile(r"^[ ]*```(\w*)\n(.*?)^[ ]*```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ENDS: Final = frozenset({"&&", "||", "|", ";", ">", "&"})
_NO_CALL: Final = frozenset({"-t", "cd", "install"})
"""What stands before the program's name where it is a tag, a folder or a package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of Markdown."""

    path: Path
    text: str

    @property
    def name(self) -> str:
        """The page as it is named from the root."""
        return self.path.relative_to(ROOT).as_posix()

    def fences(self, *languages: str) -> tuple[str, ...]:
        """The fenced blocks of these languages, or all of them."""
        found = _FENCE.findall(self.text)
        return tuple(body for language, body in found if not languages or language in languages)

    def spans(self) -> tuple[str, ...]:
        """What stands in the line as code, white space as one blank."""
        return tuple(" ".join(span.split()) for span in _SPAN.findall(_FENCE.sub("", self.text)))

    def links(self) -> tuple[str, ...]:
        return tuple(_LINK.findall(_FENCE.sub("", self.text)))

    def anchors(self) -> frozenset[str]:
        """The anchors of its headings, as the usual renderers make them."""
        plain = (re.sub(r"[`*]", "", heading).strip().lower() for heading in _HEADING.findall(self.text))
        return frozenset(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain)

    def calls(self) -> Iterator[tuple[str, ...]]:
        """The words that follow the program's name wherever it is called, `python -m worker` included."""
        lines = [line for fence in self.fences() for line in fence.replace("\\\n", " ").splitlines()]
        for line in (*lines, *self.spans()):
            yield from _calls_in(_words(line))

    def targets(self) -> Iterator[str]:
        lines = [line for fence in self.fences("console", "sh", "") for line in fence.splitlines()]
        for line in (*lines, *self.spans()):
            words = _words(line.removeprefix("$ "))
            if words[:1] == ["make"]:
                yield from (word for word in words[1:] if re.fullmatch(r"[.a-z]+", word))

    def first_cells(self, head: str) -> Iterator[str]:
        """The code in the first column of tables whose first head is this."""
        within = False
        for line in self.text.splitlines():
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
            if not cells:
                within = False
            elif cells[0] == head:
                within = True
            elif within:
                yield from _SPAN.findall(cells[0])


def pages() -> tuple[Page, ...]:
    """README.md, CONTRIBUTING.md, SECURITY.md and everything under docs/."""
    files = (
        *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
        *sorted((ROOT / "docs").rglob("*.md")),
    )
    return tuple(Page(path=file, text=file.read_text("utf-8")) for file in files)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return line.split()


def _calls_in(words: list[str]) -> Iterator[tuple[str, ...]]:
    for number, word in enumerate(words):
        by_module = word == "worker" and words[number - 1] == "-m"
        before = words[number - 1] if number else ""
        if not by_module and (PurePosixPath(word).name != PROGRAM or before in _NO_CALL):
            continue
        rest = words[number + 1 :]
        end = next((place for place, one in enumerate(rest) if one in _ENDS), len(rest))
        yield tuple(rest[:end])
