"""Slips of the pen in a condition, and their remedies: what is written so in another language, or came from elsewhere.

They are told by the word at which the grammar stopped. Nothing here reads a condition.
"""

import re
from collections.abc import Mapping

_ALTERNATIVES: Mapping[str, str] = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "&": "&&",
    "|": "||",
    "=": "==",
    "#": "// for a comment",
    "is": "==",
    "equals": "==",
    "like": "text.contains('part')",
}
_OF_TEXTS = frozenset({"contains", "startsWith", "endsWith", "matches"})
_CURLY = frozenset("\u2018\u2019\u201a\u201c\u201d\u201e\u00ab\u00bb")


def slip(before: str, found: str) -> str:
    """The remedy of a slip that is known from other languages; empty where it is none of them."""
    if found in _CURLY:
        return "write ': texts stand in straight quotes, and editors and chats make curly ones of them"
    if len(found) == 1 and not found.isprintable():
        return "type a plain space in its place; it cannot be seen, and often comes along when text is copied"
    if found.lower() in _ALTERNATIVES:
        return f"write {_ALTERNATIVES[found.lower()]}"
    if found == ">" and before.rstrip().endswith("<"):
        return "write !="
    if found in _OF_TEXTS:
        return f"write it behind the text, with what it takes in brackets: text.{found}('part')"
    if found in ("ms", "s", "m", "h", "d") and (number := re.search(r"(\d+(?:\.\d+)?)\s*$", before)):
        return f"write duration('{number[1]}{found}')"
    share = re.search(r"(\d+(?:\.\d+)?)\s*%\s*$", before + found)
    return f"write {float(share[1]) / 100:g}: a share is a number from 0 to 1" if share is not None else ""


def named(found: str) -> str:
    """What stands there, so that it can be found: in quotes, or by its number where it cannot be seen."""
    if len(found) == 1 and not found.isprintable():
        return f"the character U+{ord(found):04X}"
    return f"'{found}'"
