"""Durations as people write them: ``500ms``, ``3s``, ``10m``, ``2h``, ``7d``, and several in a row: ``1h30m``.

The same spelling serves rules, the config and ``duration('…')`` in conditions. It never accepts a bare number, because
a number without a unit is how ten minutes become ten milliseconds.
"""

import re
from datetime import timedelta

_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+")
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
