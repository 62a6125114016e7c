"""``explain``: why each rule did or did not fire for an event, from the ledger alone."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, ledger_url, looked_at, say_no_ledger, strangers
from worker.cli.output import Format, console, print_json, say
from worker.config import Config
from worker.engine.explaining import STANDINGS, Evaluated, EventKnown, RuleExplained, Standing, explain
from worker.guards.situation import as_of_now
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.commits import Evaluation, RuleMemory
from worker.model.errors import InputErrors, NotFound
from worker.model.facts import EventId, Json, Known, PartnerId, RuleId, spelled
from worker.model.rules import RuleSet
from worker.model.writes import Write
from worker.rules.explain import Explained, SeenValue
from worker.rules.load import load_rules
from worker.system import utc_now

# An explanation as JSON and as lines for a person: the same content twice.

VALUE_SHOWN_MAX = 100
TRUTHS = {"true": "true", "false": "not true", "unknown": "unknown"}
_UNITS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


# JSON


def as_json(found: RuleExplained) -> dict[str, Json]:
    """One rule, as ``explain --format json`` prints it."""
    return {
        "rule": found.rule,
        "place": found.place or None,
        "description": found.description,
        "standing": found.standing,
        "edited": found.edited,
        "last": None if found.last is None else _evaluated(found.last),
        "others": [_evaluated(one) for one in found.others],
        "episode": None if found.memory is None else _episode(found.memory),
        "watched": [
            {
                "key": one.key,
                "remembered": one.remembered.value,
                "seen_at": spelled(one.remembered.seen_at),
                "pending": one.pending,
                "pending_since": spelled(one.pending_since),
            }
            for one in found.watched
        ],
        "writes": [_write(one) for one in found.writes],
    }


def _evaluated(one: Evaluated) -> dict[str, Json]:
    found = one.evaluation
    return {
        "ending": found.ending,
        "at": spelled(found.at),
        "since": spelled(found.since),
        "episode": found.episode,
        "reason": found.reason,
        "why": found.why,
        "until": spelled(found.until),
        "condition": None if one.parts is None else _part(one.parts, found),
        "facts": {name: _fact(found, name) for name in found.facts},
        "change": dict(found.extra),
    }


def _part(part: Explained, of: Evaluation) -> dict[str, Json]:
    return {
        "source": part.source,
        "offset": part.offset,
        "truth": part.truth.value,
        "why": part.why,
        "values": [_value(one, of) for one in part.values],
        "parts": [_part(one, of) for one in part.parts],
    }


def _value(seen: SeenValue, of: Evaluation) -> dict[str, Json]:
    found: dict[str, Json] = {"path": seen.path, "value": seen.value, "unknown": seen.missing or None}
    return {**found, "read_at": spelled(seen.read_at), "age_s": _age_s(of.at, seen.read_at)}


def _fact(of: Evaluation, name: str) -> dict[str, Json]:
    seen = of.facts[name]
    found: dict[str, Json] = {"key": seen.key.text, "value": None, "unknown": None, "gaps": {}}
    if isinstance(seen.fact, Known):
        found |= {"value": seen.fact.value, "gaps": dict(seen.fact.gaps)}
    else:
        found |= {"unknown": f"{seen.fact.code}: {seen.fact.why}"}
    return {**found, "read_at": spelled(seen.fact.read_at), "age_s": _age_s(of.at, seen.fact.read_at)}


def _episode(memory: RuleMemory) -> dict[str, Json]:
    return {
        "number": memory.episode,
        "open": memory.open,
        "fired": memory.fired,
        "fired_at": spelled(memory.fired_at),
        "true_since": spelled(memory.true_since),
    }


def _write(write: Write) -> dict[str, Json]:
    return {
        "id": write.id,
        "action": write.intent.action,
        "state": write.state,
        "reason": write.reason,
        "held_by": write.held_by,
        "held_until": spelled(write.held_until),
        "changed_at": spelled(write.changed_at),
        "why": write.why,
    }


def _age_s(at: datetime, read_at: datetime | None) -> float | None:
    return None if read_at is None else round((at - read_at).total_seconds(), 3)


# for a person


def lines_of(found: RuleExplained, now: datetime, *, whole: bool) -> Iterator[str]:
    """One rule in lines. ``whole``: the other endings are taken apart as well."""
    words = STANDINGS[found.standing]
    if found.last is not None and found.standing == found.last.evaluation.ending:
        words += f" since {when(found.last.evaluation.since, now)}"
    yield f"{found.rule}: {words}{f'   ({found.place})' if found.place else ''}"
    if found.edited:
        yield "  its condition has another text by now; this is how the old one was judged"
    if found.last is not None:
        yield from _lines_of_evaluation(found.last, now)
    yield from _lines_of_memory(found, now)
    for write in found.writes:
        held = f", held by {write.held_by}" if write.held_by else ""
        until = f" until {when(write.held_until, now)}" if write.held_until else ""
        since = f" since {when(write.changed_at, now)}"
        yield f"  write {write.id} ({write.intent.action}): {write.state}{since}{held}{until}: {write.why}"
    for one in found.others:
        ending, at = STANDINGS[one.evaluation.ending], one.evaluation.at
        yield f"  otherwise {ending}: {when(at, now)}: {_one_line(one.evaluation.why)}"
        if whole:
            yield from _lines_of_parts(one, "      ")


def _lines_of_evaluation(one: Evaluated, now: datetime) -> Iterator[str]:
    found = one.evaluation
    if found.reason is not None:
        until = f", until {when(found.until, now)}" if found.until is not None else ""
        yield f"  {found.reason}: {_one_line(found.why)}{until}"
    elif one.parts is None:
        yield f"  {_one_line(found.why)}"
    yield from _lines_of_parts(one, "    ")


def _lines_of_parts(one: Evaluated, indent: str) -> Iterator[str]:
    if one.parts is not None:
        yield from _lines_of_part(one.parts, one.evaluation, indent)


def _lines_of_part(part: Explained, of: Evaluation, indent: str) -> Iterator[str]:
    yield f"{indent}{TRUTHS[part.truth.value]:<9}{_one_line(part.source)}"
    for seen in part.values:
        yield f"{indent}{'':<13}{_seen(seen, of)}"
    if not part.values and not part.parts:
        yield f"{indent}{'':<13}{_one_line(part.why)}"
    for one in part.parts:
        yield from _lines_of_part(one, of, indent + "    ")


def _seen(seen: SeenValue, of: Evaluation) -> str:
    words = seen.missing or f"{seen.path} is {shown(seen.value)}"
    if seen.read_at is None:
        return words
    age = max(0.0, (of.at - seen.read_at).total_seconds())
    return f"{words}   (read {seen.read_at:%Y-%m-%d %H:%M:%S}, {age:.1f} s before the look)"


def _lines_of_memory(found: RuleExplained, now: datetime) -> Iterator[str]:
    memory = found.memory
    if memory is not None and memory.open and memory.fired and memory.fired_at is not None:
        again = "with the next change" if found.watched else "only after the condition was false"
        yield f"  episode {memory.episode} is open: it fired {when(memory.fired_at, now)}, and does so again {again}"
    for one in found.watched:
        remembered = f"remembers {shown(one.remembered.value)} since {when(one.remembered.seen_at, now)}"
        pending = "; nothing else was seen since"
        if one.pending_since is not None:
            pending = f"; {shown(one.pending)} is pending since {when(one.pending_since, now)}"
        yield f"  watches {one.key}: {remembered}{pending}"


def when(at: datetime, now: datetime) -> str:
    """A moment with its distance from now."""
    distance = now - at
    words = f"{span(distance)} ago" if distance >= timedelta(0) else f"in {span(-distance)}"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC ({words})"


def span(length: timedelta) -> str:
    """A length of time in its two largest units: ``2h 5m``."""
    left = max(0, round(length.total_seconds()))
    parts: list[str] = []
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or (parts and len(parts) < 2) or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(one for one in parts if not one.startswith("0") or len(parts) == 1) or "0s"


def shown(value: Json) -> str:
    """A value on one line, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_SHOWN_MAX else text[: VALUE_SHOWN_MAX - 1] + "…"


def _one_line(text: str) -> str:
    return " ".join(text.split())


NOT_IN_FORCE: frozenset[Standing] = frozenset({"disabled", "removed", "not_for_partner"})
"""Of these a line is enough, unless one is asked for: a folder of rules may have many of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One partner's event. ``looked_at``: its last complete list; ``gone_at``: since when it is out of sight."""

    partner: PartnerId
    looked_at: datetime | None
    gone_at: datetime | None
    rules: tuple[RuleExplained, ...]


@app.command("explain")
def explain_command(
    context: typer.Context,
    event: Annotated[str, typer.Option(help="The event, by its id.")],
    rule: Annotated[str | None, typer.Option(help="Only this rule.")] = None,
    partner: Annotated[str | None, typer.Option(help="Only this partner, where several have such an event.")] = None,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Say why each rule did or did not fire for an event: offline, from the ledger.

    Each part of the condition is shown with its value and how old the fact was, what holds the rule back since when,
    and how the rule was last evaluated otherwise: fired, held, true, not true or unknown. Exits 1 where nothing is
    known of the event.

    Example: campaign-worker explain --event e42 --rule pause-cancelled
    """
    config, now = config_of(invocation(context)), utc_now()
    url = ledger_url(config)
    rules = _rules(config)
    with open_reading(url) as ledger:
        say_no_ledger(url)
        answers = list(_answers(ledger, rules, EventId(event), rule, partner))
        if not any(one.rules for one in answers):
            raise _nothing(ledger, event, rule, partner)
    if output is Format.json:
        print_json([_json(event, one) for one in answers])
        return
    for one in answers:
        for line in _lines(event, one, now, whole=rule is not None):
            console().print(line, soft_wrap=True)


def _nothing(ledger: LedgerReader, event: str, rule: str | None, partner: str | None) -> NotFound:
    """Names what the worker has never met, and nothing that it has; where it has met each, that they never met."""
    strange = strangers(ledger, {"event": event, "rule": rule, "partner": partner})
    pair = [f"event {event}", *([f"rule {rule}"] if rule else []), *([f"partner {partner}"] if partner else [])]
    return NotFound(
        "; ".join(strange) or f"nothing is known of {' and '.join(pair)} together",
        hint="`campaign-worker log` shows what the worker has met; a new event is known after its first look",
    )


def _answers(
    ledger: LedgerReader, rules: RuleSet | None, event: EventId, rule: str | None, partner: str | None
) -> Iterator[Answer]:
    halts = ledger.halts(utc_now())
    for name in ledger.partners_of(event):
        if partner not in (None, name):
            continue
        known = EventKnown(
            partner=name,
            event=event,
            evaluations=ledger.evaluations([event], name),
            memories=ledger.rule_memories(name, event),
            writes=tuple(as_of_now(one, halts) for one in ledger.writes(event=event, partner=name)),
            text=ledger.condition_text,
        )
        memory = ledger.partner_memory(name)
        yield Answer(
            partner=name,
            looked_at=looked_at(ledger, name),
            gone_at=memory.gone.get(event) if memory is not None else None,
            rules=explain(known, rules, RuleId(rule) if rule is not None else None),
        )


def _rules(config: Config) -> RuleSet | None:
    """The rules of the folder; where it does not load, the ledger alone must do."""
    try:
        return load_rules(config.rules, config.registry)
    except InputErrors as errors:
        say(f"the rules do not load, so every rule is told as the ledger knows it: {errors.problems[0]}")
        return None


def _json(event: str, one: Answer) -> dict[str, Json]:
    return {
        "event": event,
        "partner": one.partner,
        "looked_at": spelled(one.looked_at),
        "out_of_sight_since": spelled(one.gone_at),
        "rules": [as_json(rule) for rule in one.rules],
    }


def _lines(event: str, one: Answer, now: datetime, *, whole: bool) -> Iterator[str]:
    looked = f"looked at last {when(one.looked_at, now)}" if one.looked_at is not None else "never listed as a whole"
    yield f"event {event} of {one.partner}; {looked}"
    if one.gone_at is not None:
        yield f"out of sight since {when(one.gone_at, now)}: its memory is frozen, and no rule looks at it"
    quiet = [] if whole else [rule for rule in one.rules if rule.standing in NOT_IN_FORCE and not rule.writes]
    for rule in one.rules:
        if rule not in quiet:
            yield ""
            yield from lines_of(rule, now, whole=whole)
    if quiet:
        yield ""
        names = ", ".join(f"{rule.rule} ({STANDINGS[rule.standing]})" for rule in quiet)
        yield f"not in force: {names}; --rule ID says what is remembered of one"
