"""The times of `at`, a cron expression of five fields, and the hours of `between`. The only importer of cronsim.

What is wrong with an expression, and when its times are, is the library's part; here it is put into words.
Where a zone's clock is set forward, a time that does not exist comes with the first minute that does; where it is set
back, a time that comes twice is taken once. The hours of `between` are those that the clock on the wall shows.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

KEPT_MAX = 4_096
_JUST_AFTER = timedelta(microseconds=1)
_FIELDS: Mapping[str, str] = {
    "minute": "0 to 59",
    "hour": "0 to 23; over midnight 22-23,0-5",
    "day-of-month": "1 to 31",
    "month": "1 to 12, or jan to dec",
    "day-of-week": "0 to 7, or sun to sat",
}
"""The fields as the library calls them, in their order, and what each may be."""
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
    try:
        found = next(_forward(text, "UTC", datetime(2000, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        written = fields[[*_FIELDS].index(name)]
        return f"'{written}' is no {name} that ever comes ({_FIELDS[name]})"
    return "" if found is not None else "a cron expression whose time never comes"


def cron_remedy(text: str) -> str:
    """What to write in the place of a wrong expression; what is right for a time of day, and for a word like daily."""
    clock = re.fullmatch(r"(\d\d?):(\d\d)", text)
    meant = f"{int(clock[2])} {int(clock[1])} * * *" if clock else _WORDS.get(text.removeprefix("@").lower(), "")
    if meant and not cron_error(meant):
        return f"write '{meant}': minute, hour, day, month, weekday"
    return "minute, hour, day, month, weekday: '0 8 * * 1-5' is eight o'clock on weekdays"


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
