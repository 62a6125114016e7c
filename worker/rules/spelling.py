"""How people spell things, and what they could have meant.

Durations: ``500ms``, ``3s``, ``10m``, ``2h``, ``7d``, and several in a row: ``1h30m``. The same spelling serves rules,
the config and ``duration('…')`` in conditions. It never accepts a bare number, because a number without a unit is how
ten minutes become ten milliseconds.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from difflib import SequenceMatcher

from worker.model.facts import parse_time

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
_IN_WORDS = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*([a-z]*)")
_WORDS = {
    "ms": ("millisecond", "milliseconds", "msec"),
    "s": ("s", "second", "seconds", "sec", "secs"),
    "m": ("m", "minute", "minutes", "min", "mins"),
    "h": ("h", "hour", "hours", "hr", "hrs"),
    "d": ("d", "day", "days"),
}
DURATION_LENGTH_MAX = 40
DURATION_MAX = timedelta(days=3650)
EXAMPLES = "500ms, 3s, 10m, 2h, 7d"


def parse_duration(text: str) -> timedelta:
    """The duration that ``text`` spells. Raises `ValueError` with words for a person."""
    spelled = text.strip()
    if len(spelled) > DURATION_LENGTH_MAX or not spelled.isascii() or not _WHOLE.fullmatch(spelled):
        raise ValueError(f"'{text[:DURATION_LENGTH_MAX]}' is not a duration; write it as {EXAMPLES}")
    total_ms = sum(float(number) * _UNITS_MS[unit] for number, unit in _PART.findall(spelled))
    if total_ms > DURATION_MAX.total_seconds() * 1000:
        raise ValueError(f"'{text}' is longer than ten years")
    return timedelta(milliseconds=total_ms)


def parse_moment(text: str, now: datetime) -> datetime:
    """The time that ``text`` spells: how long ago (``2h``), or an ISO time, which is UTC where it names no zone. Raises
    `ValueError`."""
    with suppress(ValueError):
        return now - parse_duration(text)
    at = parse_time(text)
    if at is None:
        raise ValueError(f"'{text}' is no time")
    return at


def duration_meant(text: str) -> str:
    """What somebody could have meant who wrote a duration otherwise: ``10 minutes`` is 10m, and 30 lacks its unit."""
    if _WHOLE.fullmatch(text.strip()):
        return f"{DURATION_MAX.days}d or less"
    found = _IN_WORDS.fullmatch(text.strip().lower())
    if found is None:
        return f"it as {EXAMPLES}"
    number, word = found[1], found[2]
    unit = next((unit for unit, words in _WORDS.items() if word in words), "")
    if word in ("w", "week", "weeks"):
        return f"{7 * float(number):g}d"
    if word and not unit:
        return f"it as {EXAMPLES}"
    return f"{number}{unit}" if word else f"{number}s, {number}m or {number}h: a number needs a unit"


def duration_text(duration: timedelta) -> str:
    """The shortest spelling of a duration: ``90s`` becomes ``1m30s``."""
    rest = round(duration.total_seconds() * 1000)
    if rest == 0:
        return "0s"
    sign, rest = ("-", -rest) if rest < 0 else ("", rest)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, rest = divmod(rest, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return sign + "".join(parts)


# The nearest right name, for every message that refuses a wrong one.
#
# One measure for facts, fields, keys, actions and values, so that `check` never knows a name that an error does not.
# It never guesses far: a name that resembles nothing gets no proposal.

LIKENESS_MIN = 0.6
NAMES_SHOWN_MAX = 40


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of ``names``, else the only one with it as a word, or None. Case and ``-`` against ``_`` count
    little."""
    wanted, known = _plain(name), sorted(names)
    best, likeness = None, LIKENESS_MIN
    for candidate in known:
        score = SequenceMatcher(None, wanted, _plain(candidate)).ratio()
        if score > likeness or (score == likeness and best is None):
            best, likeness = candidate, score
    having = [one for one in known if wanted in _plain(one).split("_")]
    return having[0] if best is None and len(having) == 1 else best


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
