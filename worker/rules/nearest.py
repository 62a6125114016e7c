"""The nearest right name, for every message that refuses a wrong one.

One measure for facts, fields, keys, actions and values, so that `check` never knows a name that an error does not.
It never guesses far: a name that resembles nothing gets no proposal.
"""

from collections.abc import Iterable
from difflib import SequenceMatcher

LIKENESS_MIN = 0.6
NAMES_SHOWN_MAX = 40


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of ``names``, or None where none is similar. Case and ``-`` against ``_`` count little."""
    wanted = _plain(name)
    best, likeness = None, LIKENESS_MIN
    for candidate in sorted(names):
        score = SequenceMatcher(None, wanted, _plain(candidate)).ratio()
        if score > likeness or (score == likeness and best is None):
            best, likeness = candidate, score
    return best


def meant(name: str, names: Iterable[str]) -> str:
    """The tail of a message: ``; did you mean 'x'?``, or nothing. The remedy, `instead`, names all there are."""
    near = nearest(name, names)
    return "" if near is None or near == name else f"; did you mean '{near}'?"


def instead(name: str, names: Iterable[str]) -> str:
    """The remedy for a wrong name: the nearest right one, or all there are."""
    known = sorted(names)
    near = nearest(name, known)
    if near is not None:
        return f"write {near}"
    more = ", …" if len(known) > NAMES_SHOWN_MAX else ""
    return f"known here: {', '.join(known[:NAMES_SHOWN_MAX])}{more}" if known else "leave it out"


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
