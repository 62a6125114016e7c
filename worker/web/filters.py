"""Filters that live in the address, so that what one person found can be sent to another. Pure.

What cannot be understood is said and left out, never guessed: a page that shows more than was asked for is noticed, and
one that silently shows less is believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import urlencode

from worker.model.leafing import RecordFilter, WriteFilter
from worker.model.records import KINDS, REASONS
from worker.rules.durations import parse_duration
from worker.writes.states import MOVES

TEXT_MAX = 400
"""Characters of an id that are looked for; the service's own are far shorter."""
NUMBER_MAX = 2**62
LOG_KEYS = ("partner", "event", "rule", "write", "kind", "reason", "since", "until")
WRITES_KEYS = ("state", "partner", "event", "rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The filters of an address: as given, and what of them could not be understood."""

    given: Mapping[str, str]
    problems: tuple[str, ...] = ()

    def query(self, **changes: object) -> str:
        """The address's query with changes; an empty value takes a filter out."""
        merged = {**self.given, **{name: str(value) for name, value in changes.items()}}
        return urlencode({name: value for name, value in merged.items() if value})


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAsked(Asked):
    """Which records are asked for."""

    wanted: RecordFilter = field(default_factory=RecordFilter)


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesAsked(Asked):
    """Which writes are asked for."""

    wanted: WriteFilter = field(default_factory=WriteFilter)


def log_asked(query: Mapping[str, str], now: datetime) -> LogAsked:
    """The filters of the log's address. ``since`` and ``until`` are times, or how long ago: ``2h``."""
    given = {name: query[name].strip()[:TEXT_MAX] for name in LOG_KEYS if query.get(name, "").strip()}
    problems: list[str] = []
    for name, known in (("kind", KINDS), ("reason", REASONS)):
        if name in given and given[name] not in known:
            problems.append(f"{name}: there is no {name} {given[name]!r}")
    wanted = RecordFilter(
        partner=given.get("partner"),
        event=given.get("event"),
        rule=given.get("rule"),
        write=_number(given.get("write"), "write", problems),
        kind=given.get("kind") if given.get("kind") in KINDS else None,
        reason=given.get("reason") if given.get("reason") in REASONS else None,
        since=_moment(given.get("since"), now, "since", problems),
        until=_moment(given.get("until"), now, "until", problems),
        before_seq=_number(query.get("before") or None, "before", problems),
    )
    return LogAsked(given=given, problems=tuple(problems), wanted=wanted)


def writes_asked(query: Mapping[str, str]) -> WritesAsked:
    """The filters of the address of the list of writes."""
    given = {name: query[name].strip()[:TEXT_MAX] for name in WRITES_KEYS if query.get(name, "").strip()}
    problems: list[str] = []
    state = given.get("state")
    if state is not None and state not in MOVES:
        problems.append(f"state: there is no state {state!r}")
    wanted = WriteFilter(
        state=state if state in MOVES else None,
        partner=given.get("partner"),
        event=given.get("event"),
        rule=given.get("rule"),
        before_id=_number(query.get("before") or None, "before", problems),
    )
    return WritesAsked(given=given, problems=tuple(problems), wanted=wanted)


def _number(text: str | None, name: str, problems: list[str]) -> int | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit() and int(text[:20]) < NUMBER_MAX:
        return int(text[:20])
    problems.append(f"{name}: {text!r} is no number")
    return None


def _moment(text: str | None, now: datetime, name: str, problems: list[str]) -> datetime | None:
    if text is None:
        return None
    try:
        return now - parse_duration(text)
    except (ValueError, OverflowError):
        pass
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo is not None else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        problems.append(f"{name}: {text!r} is no time; write 2h, 7d or 2026-01-31T12:00")
        return None
