"""What each page asks the ledger, and what it hands to its template."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

from worker.engine.explaining import STANDINGS, EventExplained, Question, explain, wanted_of
from worker.engine.looks import Settings
from worker.engine.whose import told
from worker.guards.checks import as_of_now
from worker.ledger.browsing import LedgerBrowser
from worker.model.commits import LogFilter
from worker.model.errors import InputErrors
from worker.model.exchange import Clock
from worker.model.facts import EventId, Json, PartnerId, WriteId
from worker.model.rules import RuleSet
from worker.model.writes import State, Write, WriteFilter
from worker.rules.load import files_hash, read_files
from worker.web.charts import time_to_confirmed, writes_a_day
from worker.web.door import Keys, Visitor
from worker.web.timeline import timeline
from worker.web.views import (
    Record,
    WriteShown,
    ago,
    answers,
    bursts,
    cut,
    lasting,
    log_asked,
    title_of,
    writes_asked,
)

# What the page is built from: the ledger's reading side, and ports for everything that it may not do itself.
#
# Deciding goes through ``decide``, because only the wiring may open the ledger for writing; the rules in force are
# asked of the daemon through a function, and so is the sign of life of its loop. The page cannot reach the service:
# nothing in here could.


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What a form asks for: approve, reject, applied, not_applied, halt or resume. ``ids`` are writes; ``up_to`` bounds
    the writes of a whole ``rule`` to those that stood on the page. A halt without a partner or rule is of every one,
    and without ``lasting`` until it is resumed."""

    what: str
    ids: tuple[int, ...] = ()
    rule: str = ""
    partner: str = ""
    up_to: int = 0
    lasting: timedelta | None = None
    because: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageParts:
    """``decide`` does what a form asks for and says what was done, or raises `WorkerError` with nothing changed.
    ``in_force``: the rules, ``rules_at``: the folder or file that they came from, ``mode``: that of a rule which has
    none of its own. ``entropy`` draws a secret text. ``silence`` tells for how long,
    in seconds, the daemon's loop has not moved. ``interval`` is the time between two looks. ``measured`` answers
    Prometheus. ``amiss`` says, as `status` does, what is wrong with the ledger as it lies there; None where nothing
    is. ``deciding``: what of the config deciding needs. ``keys`` are those of now; ``refused`` is told of each wrong
    sign-in: from where, as whom, how manieth."""

    ledger: LedgerBrowser
    decide: Callable[[Act, Visitor], Sequence[str]]
    in_force: Callable[[], RuleSet]
    rules_at: Path
    mode: str
    clock: Clock
    entropy: Callable[[], str]
    silence: Callable[[], float]
    interval: timedelta
    measured: Callable[[], bytes]
    amiss: Callable[[], str | None]
    deciding: Settings
    keys: Callable[[], Keys] = Keys
    refused: Callable[[str, str, int], None] = lambda _place, _name, _count: None


RECORDS = 100
EVENT_RECORDS = 400
"""Looked at for an event's picture; of these, the newest `RECORDS` stand below it in words."""
LIFE_RECORDS = 400
WRITES = 100
RECENT = 12
RECENT_LOOKED_AT = 400
DECISIONS = 500
FIRINGS = 20
MEMORIES = 200
FOUND = 50
DAYS = 30
FOR_A_PERSON: tuple[State, ...] = ("needs_human", "waiting")


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
    """A page: its template and what stands in it."""

    template: str
    title: str
    values: Mapping[str, object] = field(default_factory=dict)


def link(path: str, **query: object) -> str:
    """An address on this page; what is empty is left out."""
    given = {name: str(value) for name, value in query.items() if value not in ("", None, 0)}
    return path + ("?" + urlencode(given) if given else "")


def now_page(asking: PageRequest) -> Shown:
    """What is so now, what a person must decide first."""
    ledger, now = asking.ledger, asking.now
    status = ledger.status()
    body: Mapping[str, Json] = {} if status is None else status.body
    counts = ledger.state_counts()
    silent = None if status is None else now - status.seen_at
    rules, said_of = body.get("rules"), body.get("partners")
    partners: Mapping[str, Json] = said_of if isinstance(said_of, dict) else {}
    values = {
        "bursts": bursts(_shown_writes(ledger.writes_in(FOR_A_PERSON, DECISIONS), asking)),
        "counts": counts,
        "decisions_left": max(0, sum(counts.get(state, 0) for state in FOR_A_PERSON) - DECISIONS),
        "status": status,
        "cycle_ms": body.get("cycle_ms"),
        "rules_state": rules if isinstance(rules, Mapping) else {},
        "unreachable": body.get("unreachable"),
        "amiss": asking.parts.amiss(),
        "silent": lasting(silent) if silent is not None and silent > 20 * asking.parts.interval else "",
        "partners": [_partner(name, said, asking) for name, said in sorted(partners.items())],
        "listing": any("first_list" in said for said in partners.values() if isinstance(said, Mapping)),
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
        "rows": records[:RECORDS],
        "older": asked.query(before=records[RECORDS - 1]["seq"]) if len(records) > RECORDS else "",
        "partners": asking.ledger.partners(),
        "rules": asking.ledger.rule_ids(),
    }
    return Shown(template="log.html", title="Log", values=values)


def writes_page(asking: PageRequest) -> Shown:
    """Writes, newest first, narrowed by the address."""
    asked = writes_asked(asking.query)
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
    text = asking.one("id")
    number = _number(text)
    write = asking.ledger.write(WriteId(number))
    if write is None:
        raise NoSuchPage(f"There is no write {text or 'without a number'}.")
    records = asking.ledger.newest(LogFilter(write=number), LIFE_RECORDS)[::-1]
    firing = asking.ledger.newest(
        LogFilter(partner=write.key.partner, event=write.key.event, rule=write.key.rule, kind="fired"), FOUND
    )
    values = {
        "one": _shown_writes([write], asking)[0],
        "rows": records,
        "fired": next((one for one in firing if one.get("episode") == write.key.episode), None),
    }
    return Shown(template="write.html", title=f"Write {number}", values=values)


def event_page(asking: PageRequest) -> Shown:
    """An event's history; found by its id, and asked back where several partners have that id."""
    event, partner = asking.one("event"), asking.one("partner")
    if not event:
        raise NoSuchPage("No event was named.")
    wanted = LogFilter(event=event, partner=partner or None)
    newest = asking.ledger.newest(wanted, EVENT_RECORDS + 1)
    owners = {str(record["partner"]) for record in newest}
    if len(owners) != 1:
        return search_page(asking)
    newest = list(told(asking.ledger, newest))
    records = newest[:EVENT_RECORDS][::-1]
    partner = owners.pop()
    writes = asking.ledger.newest_writes(WriteFilter(event=event, partner=partner), WRITES)
    values = {
        "event": event,
        "partner": partner,
        "event_title": asking.ledger.titles([(partner, event)]).get((partner, event)) or title_of(reversed(records)),
        "why": why_of(asking.ledger, _question(asking, partner, event)),
        "standings": STANDINGS,
        "answers": answers(records),
        "timeline": timeline(records, asking.now),
        "writes": _shown_writes(writes, asking),
        "rows": newest[:RECORDS],
        "more": len(newest) > RECORDS,
    }
    return Shown(template="event.html", title=f"Event {event}", values=values)


def why_of(ledger: LedgerBrowser, asked: Question) -> EventExplained:
    """Why each rule did or did not fire for the event, as the command ``explain`` says it: of every rule that looks at
    it, or did; those that had something to do with it come first."""
    found = explain(ledger, asked)
    asking = [one for one in found.rules if one.standing not in ("disabled", "not_for_partner")]
    return replace(found, rules=tuple(sorted(asking, key=lambda one: not (one.fired or one.held))))


def search_page(asking: PageRequest) -> Shown:
    """Events whose id or title contains what was typed; a number is also a write."""
    text = asking.one("event")
    number = _number(text)
    found = asking.ledger.events_like(text, FOUND) if text else ()
    values = {
        "text": text,
        "found": found,
        "titles": asking.ledger.titles(found),
        "full": len(found) == FOUND,
        "write": number if number and asking.ledger.write(WriteId(number)) is not None else 0,
    }
    return Shown(template="search.html", title="Search", values=values)


def rules_page(asking: PageRequest) -> Shown:
    """Every rule: those in force, and those that are only remembered."""
    rules = {rule.id: rule for rule in asking.parts.in_force().rules}
    values = {
        "rules": [rules[name] for name in sorted(rules)],
        "gone": [name for name in asking.ledger.rule_ids() if name not in rules],
        "same": _texts(asking.parts) is not None,
        **_where(asking.parts),
    }
    return Shown(template="rules.html", title="Rules", values=values)


def rule_page(asking: PageRequest) -> Shown:
    """One rule: its text, what it did lately, and what it remembers of each event."""
    name = asking.one("rule")
    rule = next((one for one in asking.parts.in_force().rules if one.id == name), None)
    if rule is None and name not in asking.ledger.rule_ids():
        raise NoSuchPage(f"There is no rule {name}.")
    texts = _texts(asking.parts)
    values = {
        "rule": name,
        "shown": rule,
        "text": cut(texts.get(rule.file, ""), rule.line) if rule is not None and texts is not None else "",
        "firings": asking.ledger.newest(LogFilter(rule=name, kind="fired"), FIRINGS),
        "counts": asking.ledger.counts_of(name),
        "memories": asking.ledger.memories_of(name, MEMORIES),
        "halts": [halt for halt in asking.ledger.halts(asking.now) if halt.rule == name],
        "memories_max": MEMORIES,
        **_where(asking.parts),
    }
    return Shown(template="rule.html", title=f"Rule {name}", values=values)


def _texts(parts: PageParts) -> Mapping[str, str] | None:
    """The rule files by name, where they still say what is in force."""
    try:
        return read_files(parts.rules_at) if files_hash(parts.rules_at) == parts.in_force().hash else None
    except InputErrors:
        return None


def _where(parts: PageParts) -> dict[str, object]:
    return {"mode": parts.mode, "place_of": lambda file: os.path.relpath(file, parts.rules_at.parent)}


def charts_page(asking: PageRequest) -> Shown:
    """Two pictures of the last weeks."""
    today = asking.now.date()
    since = asking.now - timedelta(days=DAYS)
    charts = (
        writes_a_day(asking.ledger.daily(since), today, DAYS),
        time_to_confirmed(asking.ledger.settled(since), today, DAYS),
    )
    return Shown(template="charts.html", title="Charts", values={"charts": charts, "days": DAYS})


PAGES: Mapping[str, Callable[[PageRequest], Shown]] = {
    "/": now_page,
    "/log": log_page,
    "/writes": writes_page,
    "/write": write_page,
    "/event": event_page,
    "/search": search_page,
    "/rules": rules_page,
    "/rule": rule_page,
    "/charts": charts_page,
}


def _question(asking: PageRequest, partner: str, event: str) -> Question:
    parts = asking.parts
    return Question(
        partner=PartnerId(partner),
        event=EventId(event),
        now=asking.now,
        rules=parts.in_force(),
        settings=parts.deciding,
    )


def _shown_writes(writes: Iterable[Write], asking: PageRequest) -> list[WriteShown]:
    """Writes as they are shown, by the halts of this moment."""
    halts = asking.ledger.halts(asking.now)
    return [WriteShown(write=as_of_now(one, halts), wanted=wanted_of(asking.ledger, one)) for one in writes]


def _recent(ledger: LedgerBrowser) -> list[dict[str, object]]:
    """The last things that happened to events: a line each, the newest first, one for each event."""
    seen: dict[tuple[str, str], Record] = {}
    for record in ledger.newest(LogFilter(), RECENT_LOOKED_AT):
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


def _partner(name: str, said: Json, asking: PageRequest) -> dict[str, object]:
    part: Mapping[str, Json] = said if isinstance(said, Mapping) else {}
    used, budget = part.get("requests_per_minute"), part.get("budget")
    share = used / budget if isinstance(used, int | float) and isinstance(budget, int | float) and budget else 0.0
    last = part.get("last_ok_at")
    late = not isinstance(last, str) or asking.now - datetime.fromisoformat(last) > 3 * asking.parts.interval
    return {
        "name": name,
        "last": ago(last, asking.now) if isinstance(last, str) else first_list(part.get("first_list")),
        "late": late,
        "error": part.get("last_error") or "",
        "used": used if used is not None else "?",
        "budget": budget if budget is not None else "?",
        "share": round(100 * min(1.0, share), 1),
    }


def first_list(said: Json) -> str:
    """How far the first list of a partner is."""
    match said:
        case [int(pages), int(of_pages)]:
            return f"{pages} of {of_pages} pages of the first list"
        case _:
            return "never"


def _number(text: str) -> int:
    """The number that was typed; 0, which no write has, for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0
