"""How people spell things, and what they could have meant.

Durations: ``500ms``, ``3s``, ``10m``, ``2h``, ``7d``, and several in a row: ``1h30m``. The same spelling serves rules,
the config and ``duration('…')`` in conditions. It never accepts a bare number, because a number without a unit is how
ten minutes become ten milliseconds.

The times of `at` are a cron expression of five fields, and `between` has hours; this is the only importer of cronsim.
What is wrong with an expression, and when its times are, is the library's part; here it is put into words. Where a
zone's clock is set forward, a time that does not exist comes with the first minute that does; where it is set back, a
time that comes twice is taken once. The hours of `between` are those that the clock on the wall shows.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import takewhile
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

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
    """The duration that ``text`` spells. Raises `ValueError` with words for an operator."""
    spelled = text.strip()
    if len(spelled) > DURATION_LENGTH_MAX or not spelled.isascii() or not _WHOLE.fullmatch(spelled):
        raise ValueError(f"'{text[:DURATION_LENGTH_MAX]}' is not a duration")
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


def counted(number: int, noun: str) -> str:
    """``1 rule``, ``2 rules``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


FEW = 5


def few(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = len(names) - FEW
    return ", ".join(names[:FEW]) + (f" and {more} more" if more > 0 else "")


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
    """The only one of ``names`` with it as a word, else the most similar, or None. Case and ``-`` against ``_`` count
    little."""
    wanted, known = _plain(name), {_plain(one): one for one in sorted(names)}
    like = get_close_matches(wanted, known, 1, LIKENESS_MIN)
    having = [one for one in known if wanted in one.split("_")]
    return known[having[0]] if len(having) == 1 else known[like[0]] if like else None


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


KEPT_MAX = 4_096
_JUST_AFTER = timedelta(microseconds=1)
_FIELDS: Mapping[str, tuple[int, str]] = {
    "minute": (59, "0 to 59"),
    "hour": (23, "0 to 23; over midnight 22-23,0-5"),
    "day-of-month": (31, "1 to 31"),
    "month": (12, "1 to 12, or jan to dec"),
    "day-of-week": (7, "0 to 7, or sun to sat"),
}
"""The fields as the library calls them, in their order, the most that each may be, and what else."""
_CRON_WORDS = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * mon", "monthly": "0 0 1 * *"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CronTimes:
    """Implements the model's `Times`. Of a text that `cron_error` finds nothing wrong with."""

    source: str
    timezone: str = "UTC"

    def latest(self, now: datetime) -> datetime | None:
        """The last time that has come by ``now``, in UTC; None where there was none in fifty years."""
        return _latest(self.source, self.timezone, now.astimezone(UTC).replace(second=0, microsecond=0))

    def next(self, now: datetime) -> datetime | None:
        """The first time after ``now``, in UTC; None where there is none in fifty years."""
        return _next(self.source, self.timezone, now.astimezone(UTC).replace(second=0, microsecond=0))


def cron_error(text: str) -> str:
    """What is wrong with a cron expression of five fields; empty if nothing is."""
    fields = text.split()
    if len(fields) != len(_FIELDS):
        return f"a cron expression has five fields, and this has {len(fields)}"
    for (name, (most, may_be)), written in zip(_FIELDS.items(), fields, strict=True):
        if any(int(step) > most for step in re.findall(r"/([0-9]+)", written)):
            return f"'{written}' comes once, as if it had no step: a {name} is {may_be}"
    try:
        found = next(_forward(text, "UTC", datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        written = fields[[*_FIELDS].index(name)]
        if name == "day-of-month" and written.isdecimal() and 1 <= int(written) <= 31:
            return f"month {fields[3]} never has a day {written}"
        return f"'{written}' is no {name} that ever comes ({_FIELDS[name][1]})"
    return "" if found is not None else "a cron expression whose time never comes"


def cron_remedy(text: str) -> str:
    """What to write in the place of a wrong expression; what is right for a time of day, and for a word like daily."""
    clock = re.fullmatch(r"(\d\d?):(\d\d)", text)
    meant = f"{int(clock[2])} {int(clock[1])} * * *" if clock else _CRON_WORDS.get(text.removeprefix("@").lower(), "")
    if meant and not cron_error(meant):
        return f"write '{meant}': minute, hour, day, month, weekday"
    return "minute, hour, day, month, weekday: '0 8 * * 1-5' is eight o'clock on weekdays"


@lru_cache(maxsize=KEPT_MAX)
def _latest(source: str, zone: str, minute: datetime) -> datetime | None:
    # Going backwards, the library leaves out where it begins, unless that lies within a second.
    begin = (minute + _JUST_AFTER).astimezone(ZoneInfo(zone))
    # Nor does it go back into an hour that comes twice.
    found = (
        max([back, *takewhile(lambda one: one <= minute, _forward(source, zone, back))]).astimezone(UTC)
        for back in CronSim(_of_the_clock(source), begin, reverse=True)
    )
    return next(found, None)


@lru_cache(maxsize=KEPT_MAX)
def _next(source: str, zone: str, minute: datetime) -> datetime | None:
    return next((found for found in _forward(source, zone, minute) if found > minute), None)


def _forward(source: str, zone: str, begin: datetime) -> Iterator[datetime]:
    for found in CronSim(_of_the_clock(source), begin.astimezone(ZoneInfo(zone))):
        yield found.astimezone(UTC)


def _of_the_clock(source: str) -> str:
    """The same expression without stars, at which the library does not mind that clocks change; those of each hour are
    left: they come as often as there are hours."""
    minute, hour, *days = source.split()
    each = hour in ("*", "*/1")
    return source if each else " ".join((minute.replace("*", "0-59"), hour.replace("*", "0-23"), *days))


# Hours of the day and days of the week.

WEEKDAYS: tuple[str, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHours:
    """Implements the model's `Hours`. ``begin`` and ``end`` are minutes of the day; hours that end before they begin
    run over midnight, and are those of the evening's day. ``days``: Monday is 0."""

    source: str
    begin: int
    end: int
    days: frozenset[int]
    timezone: str = "UTC"

    def opens(self, now: datetime) -> datetime | None:
        """When they begin next, in UTC; None while they last."""
        return _opens(self, now.astimezone(UTC).replace(second=0, microsecond=0))

    def lasts(self, now: datetime) -> bool:
        """Whether it is within them."""
        local = now.astimezone(ZoneInfo(self.timezone))
        minute, day = local.hour * 60 + local.minute, local.weekday()
        if self.begin < self.end:
            return self.begin <= minute < self.end and day in self.days
        return (minute >= self.begin and day in self.days) or (minute < self.end and (day - 1) % 7 in self.days)


@lru_cache(maxsize=KEPT_MAX)
def _opens(hours: LocalHours, minute: datetime) -> datetime | None:
    if hours.lasts(minute):
        return None
    zone = ZoneInfo(hours.timezone)
    today = minute.astimezone(zone).date()
    for away in range(16):  # a week, and one more where the clock is set forward over them
        for edge in sorted((hours.begin, hours.end % 1440)):  # what is over begins anew where the clock is set back
            wall = datetime.combine(today + timedelta(days=away), time(edge // 60, edge % 60))
            first, last = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
            while first <= last:  # one moment, but where the clock is set forward over it or comes by twice
                if first > minute and hours.lasts(first):
                    return first
                first += _MINUTE
    raise ValueError(f"{hours.source} never begin")
