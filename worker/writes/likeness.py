"""When two values are one, and when they could not be told apart. Pure.

A service may keep a text in another normal form or trimmed, and show a number rounded. So what is *the same* is proof
that something is there, and what is only *alike* proves nothing: neither that it is there nor that it is not.
"""

import re
import string
import unicodedata

from worker.model.action import BUDGETS
from worker.model.facts import Json
from worker.model.values import cents

_DECIMAL = re.compile(r"\s*[+-]?\d+(\.\d+)?\s*", re.ASCII)


def plain(text: str) -> str:
    """The text in normal form C, without surrounding blanks."""
    return unicodedata.normalize("NFC", text).strip()


def folded(text: str) -> str:
    """What is left of a text where case, accents, blanks, punctuation at its ends, compatible characters and those that
    nobody sees do not count."""
    spelled = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", text).casefold())
    seen = "".join(one for one in spelled if unicodedata.category(one) not in ("Cf", "Cc", "Mn") or one.isspace())
    return " ".join(seen.split()).strip(string.punctuation + " ") or seen


def same(one: Json, other: Json) -> bool:
    """Whether a service that keeps one shows the other, to the letter."""
    match one, other:
        case str(), str():
            return plain(one) == plain(other)
        case list(), list():
            return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
        case _:
            return one == other


def same_field(name: str, one: Json, other: Json) -> bool:
    """The same of a field or parameter of this name: budgets are compared in cents."""
    return same(one, other) or (name in BUDGETS and cents(one) == cents(other))


def alike(one: Json, other: Json) -> bool:
    """Whether a service that rounds, or does not keep to the letter, could show the other for the one: numbers less
    than 1 apart, also where they are spelled as texts, and texts that are the same once they are folded."""
    match one, other:
        case list(), list():
            return len(one) == len(other) and all(alike(*pair) for pair in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
        case _:
            pass
    numbers = _number(one), _number(other)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) < 1
    if isinstance(one, str) and isinstance(other, str):
        return folded(one) == folded(other)
    return one == other


def _number(value: Json) -> float | None:
    if isinstance(value, str):
        return float(value) if _DECIMAL.fullmatch(value) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
