"""The times of `at`, a cron expression of five fields, and the hours of `between`. The only importer of cronsim.

What is wrong with an expression is said field by field, in words of our own; when its times are is the library's part.
Where a zone's clock is set forward, a time that does not exist comes with the first minute that does; where it is set
back, a time that comes twice is taken once. The hours of `between` are those that the clock on the wall shows.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

KEPT_MAX = 4_096
_JUST_AFTER = timedelta(microseconds=1)
_FIELDS: tuple[tuple[str, int, int], ...] = (
    ("minute", 0, 59),
    ("hour", 0, 23),
    ("day", 1, 31),
    ("month", 1, 12),
    ("weekday", 0, 7),
)
_NAMES = {
    "month": ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"),
    "weekday": ("sun", "mon", "tue", "wed", "thu", "fri", "sat"),
}
_WORDS = {"hourly": "0 * * * *", "daily": "0 0 * * *", "weekly": "0 0 * * mon", "monthly": "0 0 1 * *"}


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
    for written, (name, least, most) in zip(fields, _FIELDS, strict=True):
        for item in written.split(","):
            if not _is_item(item, name, (least, most)):
                names = f", or {_NAMES[name][0]} to {_NAMES[name][-1]}" if name in _NAMES else ""
                return f"'{item}' is no {name} of a cron expression ({least} to {most}{names})"
            known = {word: str(number) for number, word in enumerate(_NAMES.get(name, ()), least)}
            ends = item.partition("/")[0].lower().split("-")
            span = [int(known.get(end, end)) for end in ends if end != "*"]
            if span != sorted(span):
                return f"'{item}' runs backwards: write {span[0]}-{most},{least}-{span[1]}"
    try:
        found = next(_forward(text, "UTC", datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        return f"a cron expression that cannot be read, or whose time never comes: {error}"
    return "" if found is not None else "a cron expression whose time never comes"


def cron_remedy(text: str) -> str:
    """What to write in the place of a wrong expression; what is right for a time of day, and for a word like daily."""
    clock = re.fullmatch(r"(\d\d?):(\d\d)", text)
    meant = f"{int(clock[2])} {int(clock[1])} * * *" if clock else _WORDS.get(text.removeprefix("@").lower(), "")
    if meant and not cron_error(meant):
        return f"write '{meant}': minute, hour, day, month, weekday"
    return "minute, hour, day, month, weekday: '0 8 * * 1-5' is eight o'clock on weekdays"


def _is_item(item: str, name: str, bounds: tuple[int, int]) -> bool:
    span, _, step = item.partition("/")
    ends = [] if span == "*" else span.split("-")
    numbers = [int(part) for part in ends if part.isascii() and part.isdigit()]
    words = [part for part in ends if part.lower() in _NAMES.get(name, ())]
    inside = all(bounds[0] <= number <= bounds[1] for number in numbers)
    stepped = "/" not in item or (step.isascii() and step.isdigit() and int(step) > 0)
    return len(numbers) + len(words) == len(ends) <= 2 and inside and stepped


@lru_cache(maxsize=KEPT_MAX)
def _latest(source: str, zone: str, minute: datetime) -> datetime | None:
    # Going backwards, the library leaves out where it begins, unless that lies within a second.
    begin = (minute + _JUST_AFTER).astimezone(ZoneInfo(zone))
    found = next(CronSim(source, begin, reverse=True), None)
    return None if found is None else found.astimezone(UTC)


@lru_cache(maxsize=KEPT_MAX)
def _next(source: str, zone: str, minute: datetime) -> datetime | None:
    return next((found for found in _forward(source, zone, minute) if found > minute), None)


def _forward(source: str, zone: str, begin: datetime) -> Iterator[datetime]:
    for found in CronSim(source, begin.astimezone(ZoneInfo(zone))):
        yield found.astimezone(UTC)


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
    today, begin = minute.astimezone(zone).date(), time(hours.begin // 60, hours.begin % 60)
    for away in range(9):
        wall = datetime.combine(today + timedelta(days=away), begin)
        first, last = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
        while first <= last:  # one moment, but where the clock is set forward over it or comes by twice
            if first > minute and hours.lasts(first):
                return first
            first += _MINUTE
    raise ValueError(f"{hours.source} never begin")
