"""What each page asks the ledger, and what it hands to its template."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from urllib.parse import urlencode

from worker.engine.derived import told
from worker.engine.explaining import Question, explain, wanted_of
from worker.engine.ports import late
from worker.engine.views import DecidingSettings, mode_of
from worker.guards import as_of_now
from worker.ledger.browsing import LedgerBrowser
from worker.ledger.reading import part_of
from worker.model.commits import LogFilter, RuleNow
from worker.model.errors import InputErrors
from worker.model.exchange import Clock
from worker.model.facts import EventId, Json, WriteId
from worker.model.rules import Rule, RuleSet
from worker.model.writes import State, Write, WriteFilter
from worker.rules.load import files_hash, read_files
from worker.web.door import Keys, Visitor
from worker.web.pictures import time_to_confirmed, timeline, writes_a_day
from worker.web.views import (
    EventShown,
    Record,
    RuleShown,
    SeenByTests,
    WriteShown,
    answers,
    bursts,
    cut,
    events_asked,
    lasting,
    log_asked,
    number_in,
    troubles_of,
    writes_asked,
    writes_json,
)

# What the page is built from: the ledger's reading side, and ports for everything that it may not do itself.
#
# Deciding goes through ``decide``, because only the wiring may open the ledger for writing; the rules in force are
# asked of the daemon through a function, and so is the sign of life of its loop. The page cannot reach the service:
# nothing in here could.


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a form asks for: approve, reject, applied, not_applied, undo, halt or resume. ``ids`` are writes, or halts
    to be resumed; of a whole ``rule`` those that stood on the page, of which some may not wait any more. ``shown`` says
    what each was shown to spend, ``stood`` since when it stood as it was shown. A halt without a partner or rule is of
    every one, and without ``lasting`` until it is resumed."""

    what: str
    ids: tuple[int, ...] = ()
    rule: str = ""
    partner: str = ""
    shown: Mapping[int, float] = field(default_factory=dict)
    stood: Mapping[int, str] = field(default_factory=dict)
    lasting: timedelta | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """``decide`` does what a form asks for and says what was done, or raises `WorkerError` with nothing changed.
    ``in_force``: the rules, ``rules_at``: the folder or file that they came from. ``entropy`` draws a secret text.
    ``silence`` tells for how long, in seconds, the daemon's loop has not moved. ``interval`` is the time between two
    polls. ``measured`` answers Prometheus. ``amiss`` says, as `status` does, what is wrong with the ledger as it lies
    there; None where nothing is. ``deciding``: what of the config deciding needs. ``tested``: what the rule tests say
    of the rules with that hash. ``keys`` are those of now; ``refused`` is told of each wrong sign-in: from where, as
    whom, how manieth."""

    ledger: LedgerBrowser
    decide: Callable[[Act, Visitor], Sequence[str]]
    in_force: Callable[[], RuleSet]
    rules_at: Path
    clock: Clock
    entropy: Callable[[], str]
    silence: Callable[[], float]
    interval: timedelta
    measured: Callable[[], bytes]
    amiss: Callable[[], str | None]
    deciding: DecidingSettings
    tested: Callable[[str], SeenByTests] = lambda _rules: SeenByTests(state="unknown")
    keys: Callable[[], Keys] = Keys
    refused: Callable[[str, str, int], None] = lambda _place, _name, _count: None


RECORDS = 100
LOOKED_AT = 400
"""Records of which an event's picture is made, or a write's life, or of which the last of each event stand on Now."""
WRITES = 100
RECENT = 12
DECISIONS = 500
FIRINGS = 20
MEMORIES = 200
FOUND = 50
EVENTS = 100
LATELY = timedelta(days=7)
"""Writes that ended without success count for so long against a rule."""
DAYS = 30
RANGES = (7, 30, 90, 365)
FOR_AN_OPERATOR: tuple[State, ...] = ("needs_human", "waiting")


class NoSuchPage(Exception):
    """There is nothing at this address; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """One request for a page: the parts, the address's query and the moment."""

    parts: PageParts
    query: Mapping[str, str]
    now: datetime

    @property
    def ledger(self) -> LedgerBrowser:
        """The ledger's reading side."""
        return self.parts.ledger

    def one(self, name: str) -> str:
        """A word of the query; empty without it."""
        return self.query.get(name, "").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A page: its template and what stands in it, which is what its JSON has, too. ``drawn``: the pictures of that."""

    template: str
    title: str
    values: Mapping[str, object] = field(default_factory=dict)
    drawn: Mapping[str, object] = field(default_factory=dict)


def link(path: str, **query: object) -> str:
    """An address on this page; what is empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None, 0)}
    return path + ("?" + urlencode(given) if given else "")


def now_page(asking: PageRequest) -> Shown:
    """What is so now, what an operator must decide first."""
    ledger, now = asking.ledger, asking.now
    status = ledger.status()
    body: Mapping[str, Json] = {} if status is None else status.body
    counts = ledger.state_counts()
    silent = None if status is None else now - status.seen_at
    partners = part_of(body, "partners")
    values = {
        "bursts": bursts(_shown_writes(ledger.writes_in(FOR_AN_OPERATOR, DECISIONS), asking)),
        "counts": counts,
        "decisions_left": max(0, sum(counts.get(state, 0) for state in FOR_AN_OPERATOR) - DECISIONS),
        "status": status,
        "cycle_ms": body.get("cycle_ms"),
        "rules_state": part_of(body, "rules"),
        "unreachable": body.get("unreachable"),
        "amiss": asking.parts.amiss(),
        "silent": lasting(silent) if silent is not None and silent > 20 * asking.parts.interval else "",
        "partners": [
            {**part_of(partners, name), "name": name, "late": late(said, now, asking.parts.interval) is not None}
            for name, said in sorted(partners.items())
        ],
        "listing": any("first_list" in part_of(partners, name) for name in partners),
        "halts": ledger.halts(now),
        "recent": _recent(ledger),
    }
    return Shown(template="now.html", title="Now", values=values)


def log_page(asking: PageRequest) -> Shown:
    """The action log, newest first, narrowed by the address."""
    asked = log_asked(asking.query, asking.now)
    records = list(told(asking.ledger, asking.ledger.newest(asked.wanted, RECORDS + 1)))
    values = {
        "asked": asked,
        "records": records[:RECORDS],
        "older": asked.query(before=records[RECORDS - 1]["id"]) if len(records) > RECORDS else "",
        "partners": asking.ledger.partners(),
        "rules": asking.ledger.rule_ids(),
    }
    return Shown(template="log.html", title="Log", values=values)


def writes_page(asking: PageRequest) -> Shown:
    """Writes, newest first, narrowed by the address."""
    asked = writes_asked(asking.query, asking.now)
    found = asking.ledger.newest_writes(asked.wanted, WRITES + 1)
    values = {
        "asked": asked,
        "writes": _shown_writes(found[:WRITES], asking),
        "older": asked.query(before=found[WRITES - 1].id) if len(found) > WRITES else "",
        "partners": asking.ledger.partners(),
        "rules": asking.ledger.rule_ids(),
    }
    return Shown(template="writes.html", title="Writes", values=values)


def write_page(asking: PageRequest) -> Shown:
    """One write's life."""
    number = number_in(text := asking.one("id"))
    write = asking.ledger.write(WriteId(number))
    if write is None:
        raise NoSuchPage(f"There is no write {text or 'without a number'}.")
    newest = asking.ledger.newest(LogFilter(write=number), LOOKED_AT + 1)
    until, key = write.planned_at + timedelta(seconds=1), write.key
    fired = LogFilter(partner=key.partner, event=key.event, rule=key.rule, kind="fired", until=until)
    firings = (one for one in asking.ledger.newest(fired, FOUND) if one.get("episode") == key.episode)
    values = {
        "one": _shown_writes([write], asking)[0],
        "records": newest[:LOOKED_AT][::-1],
        "more": len(newest) > LOOKED_AT,
        "fired": next(firings, None),
    }
    return Shown(template="write.html", title=f"Write {number}", values=values)


def event_page(asking: PageRequest) -> Shown:
    """An event's facts and history; found by its id, and asked back where several partners have that id."""
    event, partner = asking.one("event"), asking.one("partner")
    owners = [one for one in asking.ledger.partners_of(event) if partner in ("", one)] if event else []
    if not owners:
        raise NoSuchPage(f"No event {event} is known." if event else "No event was named.")
    if len(owners) > 1:
        return Shown(template="owners.html", title=f"Event {event}", values={"event": event, "partners": owners})
    partner = owners[0]
    newest = list(told(asking.ledger, asking.ledger.newest(LogFilter(event=event, partner=partner), LOOKED_AT + 1)))
    records = newest[:LOOKED_AT][::-1]
    writes = asking.ledger.newest_writes(WriteFilter(event=event, partner=partner), WRITES)
    parts, eid = asking.parts, EventId(event)
    rules, settings = parts.in_force(), parts.deciding
    facts = [one for one in asking.ledger.observed(partner, eid) if not one.key.name.startswith("#")]
    values = {
        "event": event,
        "partner": partner,
        "event_title": asking.ledger.titles([(partner, event)]).get((partner, event), ""),
        "facts": sorted(facts, key=lambda one: (not one.event, one.key.text)),
        "why": explain(
            asking.ledger, Question(partner=partner, event=eid, now=asking.now, rules=rules, settings=settings)
        ),
        "answers": answers(records),
        "writes": _shown_writes(writes, asking),
        "records": newest[:RECORDS],
        "more": len(newest) > RECORDS,
        "left_out": len(newest) > LOOKED_AT,
    }
    drawn = {"timeline": timeline(records, asking.now)}
    return Shown(template="event.html", title=f"Event {event}", values=values, drawn=drawn)


def events_page(asking: PageRequest) -> Shown:
    """Events as they were seen last, narrowed by the address; a number is also a write."""
    asked, ledger = events_asked(asking.query), asking.ledger
    found, after = ledger.events(asked.wanted, EVENTS)
    names = [one.event for one in found]
    true, states = ledger.open_pairs(names), ledger.open_states(names)
    gone = {one: getattr(ledger.partner_memory(one), "gone", {}) for one in {one.partner for one in found}}
    text = asked.wanted.text
    number, owners = number_in(text), ledger.partners_of(text) if not found else ()
    values = {
        "asked": asked,
        "events": [
            EventShown(
                seen=one,
                gone_since=gone[one.partner].get(one.event),
                true=[rule for partner, event, rule in true if (partner, event) == (one.partner, one.event)],
                writes=states.get((one.partner, one.event), {}),
            )
            for one in found
        ],
        "older": asked.query(after_partner=after[0], after=after[1]) if after else "",
        "partners": ledger.partners(),
        "write": number if number and ledger.write(WriteId(number)) is not None else 0,
        "elsewhere": [one for one in owners if all(seen.event != text for seen in ledger.observed(one, EventId(text)))],
    }
    return Shown(template="events.html", title="Events", values=values)


def rules_page(asking: PageRequest) -> Shown:
    """Every rule: those in force, and those that are only remembered."""
    rules = _rules_shown(asking)
    values = {
        "rules": list(rules.values()),
        "tests": _tested(asking.parts),
        "gone": [name for name in asking.ledger.rule_ids() if name not in rules],
        "same": _texts(asking.parts) is not None,
    }
    return Shown(template="rules.html", title="Rules", values=values)


def rule_page(asking: PageRequest) -> Shown:
    """One rule: its text, what it did lately, and what it remembers of each event."""
    name = asking.one("rule")
    rule = next((one for one in asking.parts.in_force().rules if one.id == name), None)
    if rule is None and name not in asking.ledger.rule_ids():
        raise NoSuchPage(f"There is no rule {name}.")
    texts = _texts(asking.parts)
    memories = asking.ledger.memories_of(name, MEMORIES + 1)
    values = {
        "rule": name,
        "shown": _rules_shown(asking, name).get(name),
        "tests": _tested(asking.parts),
        "text": cut(texts.get(str(_file_of(rule, asking.parts)), ""), rule.line) if rule and texts is not None else "",
        "firings": asking.ledger.newest(LogFilter(rule=name, kind="fired"), FIRINGS),
        "counts": asking.ledger.state_counts(name),
        "memories": memories[:MEMORIES],
        "more": len(memories) > MEMORIES,
        "halts": [halt for halt in asking.ledger.halts(asking.now) if halt.rule == name],
    }
    return Shown(template="rule.html", title=f"Rule {name}", values=values)


def _rules_shown(asking: PageRequest, only: str | None = None) -> dict[str, RuleShown]:
    """The rules in force, and how each stands."""
    parts, now = asking.parts, asking.ledger.rules_now(asking.now - LATELY, only)
    halted = {halt.rule for halt in asking.ledger.halts(asking.now) if halt.partner is None}
    found: dict[str, RuleShown] = {}
    for rule in parts.in_force().rules:
        stands = now.get(rule.id, RuleNow(0, 0, 0))
        found[rule.id] = RuleShown(
            id=rule.id,
            description=rule.description,
            mode=mode_of(rule, parts.deciding),
            enabled=rule.enabled,
            place=f"{os.path.relpath(_file_of(rule, parts), parts.rules_at.parent)}:{rule.line}",
            now=stands,
            troubles=troubles_of(stands, enabled=rule.enabled, halted=rule.id in halted or None in halted),
        )
    return found


def _tested(parts: PageParts) -> SeenByTests:
    """What the rule tests say, where the files still say what is in force."""
    return parts.tested(parts.in_force().hash) if _texts(parts) is not None else SeenByTests(state="unknown")


def _texts(parts: PageParts) -> Mapping[str, str] | None:
    """The rule files by name, where they still say what is in force."""
    try:
        return read_files(parts.rules_at) if files_hash(parts.rules_at) == parts.in_force().hash else None
    except InputErrors:
        return None


def _file_of(rule: Rule, parts: PageParts) -> Path:
    """The file of a rule; of a published one the name counts from its folder."""
    file = Path(rule.file)
    return file if file.is_relative_to(parts.rules_at) else parts.rules_at / file


def charts_page(asking: PageRequest) -> Shown:
    """Two pictures of some weeks, the last ones or those before a day."""
    days = number_in(asking.one("days"))
    days = days if days in RANGES else DAYS
    before, today = timedelta(days=days - 1), asking.now.date()
    try:
        last = min(max(date.fromisoformat(asking.one("until")), date.min + before), today)
    except ValueError:
        last = today
    since, until = (datetime.combine(day, time(), UTC) for day in (last - before, last + timedelta(days=1)))
    daily, settled = asking.ledger.daily(since, until), asking.ledger.settled(since, until)
    charts = (writes_a_day(daily, last, days), time_to_confirmed(settled, last, days))
    values = {"days": days, "until": last, "writes_a_day": daily, "time_to_confirmed": settled}
    return Shown(template="charts.html", title="Charts", values=values, drawn={"charts": charts, "ranges": RANGES})


PAGES: Mapping[str, Callable[[PageRequest], Shown]] = {
    "/": now_page,
    "/log": log_page,
    "/writes": writes_page,
    "/write": write_page,
    "/events": events_page,
    "/event": event_page,
    "/rules": rules_page,
    "/rule": rule_page,
    "/charts": charts_page,
}


def _shown_writes(writes: Iterable[Write], asking: PageRequest) -> list[WriteShown]:
    """Writes as they are shown, by the halts of this moment."""
    halts = asking.ledger.halts(asking.now)
    found = ((as_of_now(one, halts), wanted_of(asking.ledger, one)) for one in writes)
    return [WriteShown(write=one, wanted=wanted, told={**writes_json(one), **wanted.told}) for one, wanted in found]


def _recent(ledger: LedgerBrowser) -> list[dict[str, object]]:
    """The last things that happened to events: a line each, the newest first, one for each event."""
    seen: dict[tuple[str, str], Record] = {}
    for record in ledger.newest(LogFilter(), LOOKED_AT):
        if record.get("event") is not None:
            seen.setdefault((str(record["partner"]), str(record["event"])), record)
    newest = list(seen.items())[:RECENT]
    titles = ledger.titles([pair for pair, _ in newest])
    return [_said(record, ledger, titles.get(pair, "")) for pair, record in newest]


def _said(record: Record, ledger: LedgerBrowser, title: str) -> dict[str, object]:
    """An event's last record with, where there is one, the newest word on whose doing it was."""
    found = ledger.newest(LogFilter(partner=str(record["partner"]), event=str(record["event"])), FOUND)
    changed = answers(list(told(ledger, found[::-1])))
    return {"row": record, "answer": changed[0] if changed else None, "title": title}
