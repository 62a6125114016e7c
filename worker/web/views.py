"""What a page shows, made from records and writes as they are stored. Pure.

A campaign manager asks "who paused this, and why?", and the answer must stand in one line. So the records of an event
are turned into answers here: for each field its value, since when, whose doing it was, and for the worker's own doing
the write, the rule and the values that decided. Templates only lay out what stands here; nothing in this file knows
HTML, and everything that came from outside stays plain text.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

from worker.engine.whose import field_change
from worker.model.facts import Json
from worker.model.records import KINDS, REASONS
from worker.model.writes import RecordFilter, Write, WriteFilter
from worker.rules.durations import parse_duration
from worker.writes.intents import Wanted, in_all
from worker.writes.life import MOVES

# One rule's text, cut out of its file. Pure.
#
# A page shows a rule as it was written, comments included, not as it was understood. So the lines are taken from the
# line at which the loader found the rule to the next entry of the list.

LINES_MAX = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShown:
    """A rule in force. ``text`` is empty where the file has changed since, and so is not what is in force."""

    id: str
    description: str
    file: str
    line: int
    mode: str
    enabled: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RulesShown:
    """The rules in force by id, and whether the files on disk are what is in force."""

    rules: Mapping[str, RuleShown]
    same_as_files: bool


def cut(text: str, line: int) -> str:
    """The lines of the list entry that contains ``line`` (counted from 1), without its indentation."""
    lines = text.splitlines()
    if not 1 <= line <= len(lines):
        return ""
    start = line - 1
    while start > 0 and not f"{lines[start].lstrip()} ".startswith("- "):
        start -= 1
    indent = _indent(lines[start])
    taken = [lines[start]]
    for one in lines[start + 1 : start + LINES_MAX]:
        if one.strip() and _indent(one) <= indent:
            break
        taken.append(one)
    while taken and not taken[-1].strip():
        taken.pop()
    return "\n".join(one[indent:] if one.strip() else "" for one in taken)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


# Filters that live in the address, so that what one person found can be sent to another. Pure.
#
# What cannot be understood is said and left out, never guessed: a page that shows more than was asked for is noticed,
# and one that silently shows less is believed.

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


Record = Mapping[str, Json]

TONES: Mapping[str, str] = {
    **dict.fromkeys(("confirmed", "approved", "resumed"), "good"),
    **dict.fromkeys(("needs_human", "unconfirmed", "rejected", "rules_refused", "ledger_restored"), "bad"),
    **dict.fromkeys(("waiting", "unknown", "held", "refused", "halted"), "warn"),
    **dict.fromkeys(("sending", "applied", "planned", "fired", "resolved", "again", "undone"), "busy"),
}
"""How a kind or a state is coloured; whatever is not here is quiet. The word itself is always shown too."""
DETAILS = ("request", "response", "evidence", "before", "facts")
LET_GO = "let go: "
"""Before a person's words where a write was approved, which is said otherwise here."""
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """One part of a record that is more than a word, as JSON text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One record of the action log. Ids are empty texts, and numbers 0, where the record has none."""

    seq: int
    at: str
    kind: str
    tone: str
    reason: str
    why: str
    partner: str
    event: str
    rule: str
    write: int
    attempt: int
    action: str
    by: str
    request_id: str
    details: tuple[Detail, ...]
    hash: str
    prev: str

    @property
    def about_kind(self) -> str:
        """What the kind means."""
        return KINDS.get(self.kind, "")

    @property
    def about_reason(self) -> str:
        """What the reason means; empty without one."""
        return REASONS.get(self.reason, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Whose doing a field's present value is. ``write`` and ``rule`` are empty where it was not the worker; ``rule`` is
    empty for an undo too, which ``asked_by`` wanted. ``let_go``: who approved the write, and why; empty if nobody had
    to."""

    field: str
    value: str
    before: str
    at: str
    ours: bool
    write: int
    rule: str
    because: str
    asked_by: str
    let_go: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """One write, as lists show it."""

    id: int
    state: str
    tone: str
    reason: str
    about_reason: str
    partner: str
    event: str
    rule: str
    rules: tuple[str, ...]
    action: str
    wanted: Wanted
    attempt: int
    planned_at: str
    changed_at: str
    held_by: str
    held_until: str
    confirmed_by: str
    before: str
    why: str
    spends: bool
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What waits or needs a person, together where one rule did it. ``spends``: what all of them spend."""

    rule: str
    state: str
    writes: tuple[WriteRow, ...]
    total: int
    spends: str


def row_of(record: Record) -> Row:
    """A record as it is shown."""
    kind = _text(record.get("kind"))
    details = tuple(Detail(name=name, text=spelled(record[name])) for name in DETAILS if record.get(name) is not None)
    return Row(
        seq=_count(record.get("seq")),
        at=_text(record.get("at")),
        kind=kind,
        tone=tone_of(kind),
        reason=_text(record.get("reason")),
        why=_text(record.get("why")),
        partner=_text(record.get("partner")),
        event=_text(record.get("event")),
        rule=_text(record.get("rule")),
        write=_count(record.get("write")),
        attempt=_count(record.get("attempt")),
        action=_text(record.get("action")),
        by=_text(record.get("by")),
        request_id=_request_id(record),
        details=details,
        hash=_text(record.get("hash")),
        prev=_text(record.get("prev")),
    )


def write_row(write: Write, wanted: Wanted) -> WriteRow:
    """A write as it is shown, with what it does and spends."""
    return WriteRow(
        id=write.id,
        state=write.state,
        tone=tone_of(write.state),
        reason=write.reason,
        about_reason=REASONS.get(write.reason, ""),
        partner=write.key.partner,
        event=write.key.event,
        rule=write.key.rule,
        rules=tuple(rule for rule in write.rules if rule != write.key.rule),
        action=write.intent.action,
        wanted=wanted,
        attempt=write.attempt,
        planned_at=iso(write.planned_at),
        changed_at=iso(write.changed_at),
        held_by=write.held_by or "",
        held_until=iso(write.held_until) if write.held_until is not None else "",
        confirmed_by=write.confirmed_by or "",
        before=spelled(write.before) if write.before_known else "",
        why=write.why,
        spends=write.intent.spends,
        final=write.final,
    )


def bursts(writes: Iterable[WriteRow]) -> tuple[Burst, ...]:
    """What a person must decide: first what needs a person, then what waits, each rule's writes together."""
    found: dict[tuple[str, str], list[WriteRow]] = {}
    for write in writes:
        found.setdefault((write.state, write.rule), []).append(write)
    ordered = sorted(found.items(), key=lambda item: (item[0][0] != "needs_human", item[1][0].changed_at))
    return tuple(
        Burst(
            rule=rule,
            state=state,
            writes=tuple(together),
            total=len(together),
            spends=in_all(one.wanted for one in together),
        )
        for (state, rule), together in ordered
    )


def answers(records: Sequence[Record]) -> tuple[Answer, ...]:
    """For each observed field of an event whose doing its last change was. ``records``: oldest first."""
    last: dict[str, Answer] = {}
    for place, record in enumerate(records):
        change = changed_field(record)
        if change is not None:
            last[change[0]] = _answer(records[:place], record, change)
    return tuple(sorted(last.values(), key=lambda one: one.at, reverse=True))


def _answer(earlier: Sequence[Record], record: Record, change: tuple[str, Json, Json, Json]) -> Answer:
    field, before, value, maker = change
    cause = _sending_of(earlier, maker)
    asked = _of_write(earlier, cause, "planned", "undo")
    approved = _of_write(earlier, cause, "approved", "person")
    because = _text(asked.get("why")) or _because(earlier, cause)
    return Answer(
        field=field,
        value=_value(value),
        before=_value(before),
        at=_text(record.get("at")),
        ours=maker is not None,
        write=_count(cause.get("write")),
        rule=_text(cause.get("rule")),
        because=because,
        asked_by=_text(asked.get("by")),
        let_go=f"approved by {approved['by']}: {_text(approved['why']).removeprefix(LET_GO)}" if approved else "",
        seq=_count(record.get("seq")),
    )


def changed_field(record: Record) -> tuple[str, Json, Json, Json] | None:
    """Field, value before, value now, and the write of ours that made it, None for another hand's; None for any other
    record. See `worker.engine.whose.told`."""
    facts = record.get("facts")
    change = field_change(facts) if record.get("kind") == "observed" and isinstance(facts, Mapping) else None
    return None if change is None else (change.name, change.was, change.now_is, record.get("maker"))


def title_of(records: Iterable[Record]) -> str:
    """The event's title, where a rule's facts happen to have it; else empty."""
    for record in records:
        facts = record.get("facts")
        event = facts.get("event") if isinstance(facts, Mapping) else None
        value = event.get("value") if isinstance(event, Mapping) else None
        title = value.get("title") if isinstance(value, Mapping) else None
        if isinstance(title, str):
            return title
    return ""


def tone_of(word: str) -> str:
    """The colour of a kind or a state."""
    return TONES.get(word, "quiet")


def spelled(value: Json) -> str:
    """JSON for people: indented where it is long."""
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 90 else json.dumps(value, ensure_ascii=False, indent=2)


def iso(at: datetime) -> str:
    """A time as records spell it."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_and_time(text: str) -> str:
    """``2026-01-31 12:00:05`` of a record's time."""
    return text[:19].replace("T", " ")


def ago(text: str, now: datetime) -> str:
    """How long ago a record's time is, in one unit; what lies ahead says so."""
    try:
        seconds = (now - datetime.fromisoformat(text)).total_seconds()
    except ValueError:
        return ""
    return (
        lasting(timedelta(seconds=seconds)) + " ago" if seconds >= 0 else "in " + lasting(timedelta(seconds=-seconds))
    )


def lasting(length: timedelta) -> str:
    """A length of time in its largest unit."""
    seconds = length.total_seconds()
    for size, name in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}s" if name == "day" and count != 1 else f"{count} {name}"
    return "0 s"


def _sending_of(earlier: Sequence[Record], maker: Json) -> Record:
    """The newest attempt of a write that was recorded before; empty without one."""
    attempts = (one for one in reversed(earlier) if one.get("kind") == "sending" and one.get("write") == maker)
    return next(attempts, {}) if maker is not None else {}


def _of_write(earlier: Sequence[Record], cause: Record, kind: str, reason: str) -> Record:
    """The newest record of that kind about the write of an attempt; empty without one."""
    for record in reversed(earlier if cause else ()):
        if (record.get("write"), record.get("kind"), record.get("reason")) == (cause.get("write"), kind, reason):
            return record
    return {}


def _because(earlier: Sequence[Record], cause: Record) -> str:
    """Why the rule fired, in the words of the firing; else those of the attempt."""
    for record in reversed(earlier):
        same = all(record.get(name) == cause.get(name) for name in ("rule", "episode"))
        if record.get("kind") == "fired" and same:
            return _text(record.get("why"))
    return _text(cause.get("why"))


def _request_id(record: Record) -> str:
    for name in ("response", "evidence"):
        part = record.get(name)
        if isinstance(part, Mapping) and part.get("x_request_id"):
            return _text(part["x_request_id"])
    return ""


def _value(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _text(value: Json) -> str:
    return "" if value is None else str(value)


def _count(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
