"""What a page shows, made from records and writes as they are stored. Pure.

A campaign manager asks "who paused this, and why?", and the answer must stand in one line. So the records of an event
are turned into answers here: for each field its value, since when, whose doing it was, and for the worker's own doing
the write, the rule and the values that decided. Templates only lay out what stands here; nothing in this file knows
HTML, and everything that came from outside stays plain text.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import date, datetime, timedelta
from enum import Enum
from itertools import takewhile
from typing import Any, Generic, Literal, Self, TypeVar
from urllib.parse import urlencode

from worker.engine.derived import field_change
from worker.model.commits import KINDS, REASONS, EventFilter, EventSeen, LogFilter, RuleNow
from worker.model.facts import Json, RuleId
from worker.model.writes import State, Write, WriteFilter
from worker.rules.spelling import parse_moment
from worker.writes.intents import Wanted, in_all
from worker.writes.life import MOVES

# One rule's text, cut out of its file. Pure.
#
# A page shows a rule as it was written, comments included, not as it was understood. So the lines are taken from the
# line at which the loader found the rule to the next entry of the list.

LINES_MAX = 400


def cut(text: str, line: int) -> str:
    """The lines of the list entry that contains ``line`` (counted from 1), without its indentation."""
    lines = text.split("\n")  # as the loader counts them; a text may hold other ends of lines
    if not 1 <= line <= len(lines):
        return ""
    start = line - 1
    while start > 0 and not f"{lines[start].lstrip()} ".startswith("- "):
        start -= 1
    indent = _indent(lines[start])
    taken = [lines[start], *takewhile(lambda one: _indent(one) > indent or _says_nothing(one), lines[start + 1 :])]
    while len(taken) > 1 and _says_nothing(taken[-1]) and _indent(taken[-1]) <= indent:
        taken.pop()  # it belongs to what comes next
    more = [f"… and {len(taken) - LINES_MAX} more lines"] if len(taken) > LINES_MAX else []
    return "\n".join((*(one[min(indent, _indent(one)) :] for one in taken[:LINES_MAX]), *more))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _says_nothing(line: str) -> bool:
    """Whether a line is empty or only a comment, which may stand anywhere."""
    return line.lstrip()[:1] in ("", "#")


# Filters that live in the address, so that what one person found can be sent to another. Pure.
#
# What cannot be understood is said and left out, never guessed: a page that shows more than was asked for is noticed,
# and one that silently shows less is believed.

TEXT_MAX = 400
"""Characters of an id that are looked for; the service's own are far shorter."""
CLOSED: Mapping[str, Container[str]] = {"kind": KINDS, "reason": REASONS, "state": MOVES}
LOG_KEYS = ("partner", "event", "rule", "write", "kind", "reason", "since", "until")
WRITES_KEYS = ("state", "partner", "event", "rule")
EVENT_FIELDS_ASKED = ("status", "client_campaign_status")
EVENTS_KEYS = ("text", "partner", *EVENT_FIELDS_ASKED)


W = TypeVar("W", LogFilter, WriteFilter, EventFilter)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters(Generic[W]):
    """The filters of an address: as given, what they mean, and what of them could not be understood."""

    given: Mapping[str, str]
    wanted: W
    problems: tuple[str, ...] = ()

    def query(self, **changes: object) -> str:
        """The address's query with changes; an empty value takes a filter out."""
        merged = {**self.given, **{name: str(value) for name, value in changes.items()}}
        return urlencode({name: value for name, value in merged.items() if value})


def log_asked(query: Mapping[str, str], now: datetime) -> Filters[LogFilter]:
    """The filters of the log's address. ``since`` and ``until`` are times, or how long ago: ``2h``; until a day is to
    its end."""
    return _asked(LogFilter, query, LOG_KEYS, now)


def writes_asked(query: Mapping[str, str], now: datetime) -> Filters[WriteFilter]:
    """The filters of the address of the list of writes."""
    return _asked(WriteFilter, query, WRITES_KEYS, now)


def _asked(form: type[W], query: Mapping[str, str], names: Iterable[str], now: datetime) -> Filters[W]:
    given, wanted, problems = _given(query, names), dict[str, Any](), list[str]()
    for name, text in (given | _given(query, ("before",))).items():
        try:
            wanted["before_id" if name == "before" else name] = _meant(name, text, now)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return Filters(given=given, problems=tuple(problems), wanted=form(**wanted))


def _meant(name: str, text: str, now: datetime) -> object:
    """What a filter stands for. Raises `ValueError`."""
    if name in CLOSED and text not in CLOSED[name]:
        raise ValueError(f"there is no {name} {text!r}")
    if name in ("write", "before"):
        if not (number := number_in(text)):
            raise ValueError(f"{text!r} is no number")
        return number
    if name in ("since", "until"):
        whole_day = name == "until" and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None
        try:
            return parse_moment(text, now) + timedelta(days=int(whole_day))
        except (ValueError, OverflowError):
            raise ValueError(f"{text!r} is no time; write 2h, 7d or 2026-01-31T12:00") from None
    return text


def events_asked(query: Mapping[str, str]) -> Filters[EventFilter]:
    """The filters of the address of the list of events."""
    given = _given(query, EVENTS_KEYS)
    wanted = EventFilter(
        partner=given.get("partner"),
        text=given.get("text", ""),
        fields={name: given[name] for name in EVENT_FIELDS_ASKED if name in given},
        after=(query.get("after_partner", ""), query.get("after", "")),
    )
    return Filters(given=given, wanted=wanted)


def _given(query: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: query[name].strip()[:TEXT_MAX] for name in names if query.get(name, "").strip()}


def number_in(text: str) -> int:
    """The number that was typed; 0, which no write has, for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0


# Every page for programs: what a template shows, as JSON.


def plain(value: object) -> Json:
    """Anything that a page shows, as JSON; a write as `writes` prints it."""
    told = writes_json(value) if isinstance(value, Write) else getattr(value, "told", None)
    if told is not None:
        return plain(told)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date | Enum):
        return plain(value.value) if isinstance(value, Enum) else value.isoformat()
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value if isinstance(value, str | int | float) or value is None else str(value)


def writes_json(write: Write) -> dict[str, Json]:
    """A write as ``writes --format json`` prints it."""
    return {
        "id": write.id,
        "state": write.state,
        "reason": write.reason,
        "partner": write.key.partner,
        "event": write.key.event,
        "rule": write.key.rule or None,
        "rules": list(write.rules),
        "episode": write.key.episode,
        "position": write.key.position,
        "item": write.key.item,
        "action": write.intent.action,
        "attempt": write.attempt,
        "planned_at": iso(write.planned_at),
        "changed_at": iso(write.changed_at),
        "held_by": write.held_by,
        "held_until": None if write.held_until is None else iso(write.held_until),
        "confirmed_by": write.confirmed_by,
        "before": write.before,
        "why": write.why,
        "wanted": dict(write.intent.wanted),
        "params": dict(write.intent.params),
    }


Record = Mapping[str, Json]

TONES: Mapping[str, str] = {
    **dict.fromkeys(("confirmed", "approved", "resumed", "true"), "good"),
    **dict.fromkeys(("needs_human", "unconfirmed", "rejected", "rules_refused", "ledger_restored"), "bad"),
    **dict.fromkeys(("waiting", "unknown", "held", "refused", "halted"), "warn"),
    **dict.fromkeys(("sending", "applied", "planned", "fired", "fires", "resolved", "again", "undone"), "busy"),
}
"""How a kind, a state or a standing is coloured; whatever is not here is quiet. The word itself is always shown too."""
LET_GO = "let go: "
"""Before an operator's words where a write was approved, which is said otherwise here."""
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+]00:00)")
_UNITS = ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteShown:
    """A write with what it does and spends. ``told``: both for programs, as ``writes --format json`` prints them."""

    write: Write
    wanted: Wanted
    told: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventShown:
    """An event in a list, as it was seen last. ``gone_since``: since when it is out of sight; ``true``: the rules whose
    condition is true; ``writes``: how many are in each state that is not final."""

    seen: EventSeen
    gone_since: datetime | None
    true: Sequence[RuleId]
    writes: Mapping[State, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenByTests:
    """What the rule tests say: by rule how many pass that see it fire, and how many fail that do, or should.
    ``failed``: they could not be run, or do not load."""

    state: Literal["running", "done", "failed", "unknown"]
    passed: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> Self:
        """From what ``test --format json`` prints."""
        counts: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        for test in said["tests"]:
            blamed = [cause["rule"] for failure in test["failures"] for cause in failure["because"]]
            counts[test["passed"]].update({*test["fired"], *blamed})
        return cls(state="done", passed=counts[True], failed=counts[False])


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleShown:
    """A rule that is in force: what it is for, how it stands over all events, and what in that is amiss."""

    id: RuleId
    description: str
    mode: str
    enabled: bool
    place: str
    now: RuleNow
    troubles: Sequence[tuple[str, str]]


def troubles_of(now: RuleNow, *, enabled: bool, halted: bool) -> tuple[tuple[str, str], ...]:
    """What of a rule somebody should look at, each with its colour; nothing where all is well."""
    badly = sum(now.writes.get(state, 0) for state in ("rejected", "refused", "unconfirmed"))
    found = (
        ("quiet", "disabled", not enabled),
        ("warn", "halted", halted),
        ("bad", f"operator needed: {now.writes.get('needs_human', 0)}", "needs_human" in now.writes),
        ("warn", f"waiting for approval: {now.writes.get('waiting', 0)}", "waiting" in now.writes),
        ("bad", f"without success in 7 days: {badly}", bool(badly)),
        ("bad", f"stopped, events: {now.stopped}", bool(now.stopped)),
    )
    return tuple((tone, words) for tone, words, so in found if so)


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """What waits or needs an operator, together where one rule did it. ``spends``: what all of them spend."""

    rule: str
    state: str
    writes: tuple[WriteShown, ...]
    spends: str


def bursts(writes: Iterable[WriteShown]) -> tuple[Burst, ...]:
    """What an operator must decide: first what needs an operator, then what waits, each rule's writes together."""
    found: dict[tuple[str, str], list[WriteShown]] = {}
    for one in writes:
        found.setdefault((one.write.state, one.write.key.rule), []).append(one)
    ordered = sorted(found.items(), key=lambda item: (item[0][0] != "needs_human", item[1][0].write.changed_at))
    return tuple(
        Burst(rule=rule, state=state, writes=tuple(together), spends=in_all(one.wanted for one in together))
        for (state, rule), together in ordered
    )


def answers(records: Sequence[Record]) -> list[Record]:
    """For each observed field of an event whose doing its last change was. ``records``: oldest first."""
    last: dict[str, Record] = {}
    for place, record in enumerate(records):
        change = changed_field(record)
        if change is not None:
            last[change[0]] = _answer(records[:place], record, change)
    return sorted(last.values(), key=lambda one: str(one["at"]), reverse=True)


def _answer(earlier: Sequence[Record], record: Record, change: tuple[str, Json, Json, Json]) -> Record:
    """Whose doing a field's present value is. ``write`` and ``rule`` are empty where it was not the worker; ``rule`` is
    empty for an undo too, which ``asked_by`` wanted. ``let_go``: who approved the write, and why; empty if nobody had
    to."""
    field, before, value, maker = change
    nothing: Record = {}
    cause = asked = approved = fired = nothing
    if maker is not None and (cause := _newest(earlier, kind="sending", write=maker)):
        asked = _newest(earlier, write=maker, kind="planned", reason="undo")
        approved = _newest(earlier, write=maker, kind="approved", reason="person")
        fired = _newest(earlier, kind="fired", rule=cause.get("rule"), episode=cause.get("episode"))
    return {
        "field": field,
        "value": worded(value),
        "before": worded(before),
        "at": str(record["at"]),
        "ours": maker is not None,
        "write": cause.get("write") or 0,
        "rule": cause.get("rule") or "",
        "because": asked.get("why") or fired.get("why") or cause.get("why") or "",
        "asked_by": asked.get("by") or "",
        "let_go": f"approved by {approved['by']}: {str(approved['why']).removeprefix(LET_GO)}" if approved else "",
        "seq": record.get("seq") or 0,
    }


def changed_field(record: Record) -> tuple[str, Json, Json, Json] | None:
    """Field, value before, value now, and the write of ours that made it, None for somebody else's; None for any other
    record. See `worker.engine.derived.told`."""
    facts = record.get("facts")
    change = field_change(facts) if record.get("kind") == "observed" and isinstance(facts, Mapping) else None
    return None if change is None else (change.name, change.was, change.now_is, record.get("maker"))


def tone_of(word: str) -> str:
    """The colour of a kind or a state."""
    return TONES.get(word, "quiet")


def spelled(value: Json) -> str:
    """JSON for people: indented where it is long."""
    short = json.dumps(value, ensure_ascii=False)
    return short if len(short) <= 90 else json.dumps(value, ensure_ascii=False, indent=2)


def iso(at: datetime | str) -> str:
    """A time as records spell it."""
    return at if isinstance(at, str) else at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def day_and_time(at: datetime | str) -> str:
    """``2026-01-31 12:00:05``, which is UTC as all of them."""
    return iso(at)[:19].replace("T", " ")


def timed(value: Json) -> bool:
    """Whether it is a moment in UTC, as the service spells them."""
    return isinstance(value, str) and _MOMENT.fullmatch(value) is not None


def ago(at: datetime | str, now: datetime) -> str:
    """How long ago a time is, in one unit; what lies ahead says so."""
    passed = now - datetime.fromisoformat(iso(at))
    return f"{lasting(passed)} ago" if passed >= timedelta(0) else f"in {lasting(-passed)}"


def lasting(length: timedelta) -> str:
    """A length of time in its largest unit."""
    seconds = length.total_seconds()
    for size, name in _UNITS:
        if seconds >= size:
            count = int(seconds // size)
            return f"{count} {name}s" if name == "day" and count != 1 else f"{count} {name}"
    return "0 s"


def _newest(records: Sequence[Record], **same: Json) -> Record:
    """The newest of them that says all of this; empty without one."""
    return next((one for one in reversed(records) if all(one.get(name) == it for name, it in same.items())), {})


def request_id(record: Record) -> str:
    """By which id the service knows the request that a record tells of; empty without one."""
    for name in ("response", "evidence"):
        part = record.get(name)
        if isinstance(part, Mapping) and part.get("x_request_id"):
            return str(part["x_request_id"])
    return ""


def worded(value: Json) -> str:
    """A text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
