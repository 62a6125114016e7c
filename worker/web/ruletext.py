"""One rule's text, cut out of its file. Pure.

A page shows a rule as it was written, comments included, not as it was understood. So the lines are taken from the
line at which the loader found the rule to the next entry of the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass

LINES_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShown:
    """A rule in force. ``text`` is empty where the file has changed since, and so is not what is in force."""

    id: str
    description: str
    file: str
    line: int
    mode: str
    enabled: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesShown:
    """The rules in force by id, and whether the files on disk are what is in force."""

    rules: Mapping[str, RuleShown]
    same_as_files: bool


def cut(text: str, line: int) -> str:
    """The lines of the list entry that contains ``line`` (counted from 1), without its indentation."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    start = line - 1
    while start > 0 and not f"{lines[start].lstrip()} ".startswith("- "):
        start -= 1
    indent = _indent(lines[start])
    taken = [lines[start]]
    for one in lines[start + 1 : start + LINES_MAX]:
        if one.strip() and _indent(one) <= indent:
            break
        taken.append(one)
    while taken and not taken[-1].strip():
        taken.pop()
    return "\n".join(one[indent:] if one.strip() else "" for one in taken)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
