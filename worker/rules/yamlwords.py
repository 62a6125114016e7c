"""What a YAML parser complains of, in the words of somebody who has never seen its grammar, and what to do about it.

The parser says what it expected next; a person needs to know which bracket, quote or space is at fault. What is not
among the usual slips is passed on as it was said. It reads errors and a text, and changes nothing.
"""

import re
from collections.abc import Mapping

import yaml

_CLOSING: Mapping[str, str] = {"[": "]", "{": "}"}
_QUOTE = "put the whole value in double quotes, or write it on the next line after `|`"

_INDENT = "indent it like the lines that it stands beside"


def in_words(error: yaml.MarkedYAMLError, text: str) -> tuple[int, str, str]:
    """The place, what is wrong, and the remedy."""
    mark = error.problem_mark or error.context_mark
    index = mark.index if mark is not None else 0
    context, problem = error.context or "", error.problem or ""
    opened = error.context_mark.index if error.context_mark is not None else index
    if "flow" in context and text[opened : opened + 1] in _CLOSING:
        bracket = text[opened]
        hint = f"close it with {_CLOSING[bracket]}, and put a comma between its items"
        return opened, f"this {bracket} is not closed, or a comma is missing behind one of its items", hint
    if "flow" in context and index >= len(text.rstrip()):
        return index, "the file ends inside of a bracket", "close it with ] or }"
    if "quoted scalar" in context:
        return _in_quotes(text, index, opened, problem)
    return _outside_of_quotes(text, index, opened, f"{context}, {problem}".strip(", "))


def _in_quotes(text: str, index: int, opened: int, problem: str) -> tuple[int, str, str]:
    if "escape" in problem:
        return index, "this is no escape", "write \\\\ for a backslash, or use single quotes"
    quote = text[opened : opened + 1]
    return opened, f"this {quote} is not closed", f"close it with {quote}"


def _outside_of_quotes(text: str, index: int, opened: int, said: str) -> tuple[int, str, str]:
    found = text[index : index + 1]
    line = text[text.rfind("\n", 0, index) + 1 :].partition("\n")[0]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return index, "a tab cannot indent", "use spaces, two for each level"
    if "cannot start any token" in said:
        return index, f"a value cannot begin with {found}", _QUOTE
    if "mapping values are not allowed" in said and re.fullmatch(r"\w+", text[:index].rpartition("\n")[2].strip()):
        return index, "this line is indented further than its neighbours, and so belongs to the value above", _INDENT
    if "mapping values are not allowed" in said:
        return index, "a colon followed by a space cannot stand in a value without quotes", _QUOTE
    if "could not find expected ':'" in said:
        hint = "write `key: value`, or indent the line further than the one it goes on from"
        return opened, "a line without a colon", hint
    if "expected <block end>" in said or "entries are not allowed" in said:
        if line.partition(":")[2].lstrip()[:1] in ("'", '"'):
            return index, "a value that begins with a quote ends with it, and this goes on", _QUOTE
        return index, "this does not stand where it belongs", _INDENT
    return index, said, ""
