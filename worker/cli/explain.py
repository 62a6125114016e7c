"""``explain``: why each rule did or did not fire for an event, from the ledger alone."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from worker.cli.common import (
    OnlyPartner,
    OnlyRule,
    clock_of,
    completing,
    config_of,
    engine_settings,
    moment,
    reader_of,
    strangers,
)
from worker.cli.output import Format, console, print_json, say, when
from worker.config import Config
from worker.engine.explaining import (
    STANDINGS,
    EventExplained,
    Explained,
    Question,
    RuleExplained,
    SeenValue,
    Standing,
    explain,
)
from worker.ledger.reading import LedgerReader
from worker.model.errors import InputErrors, NotFound, printable, shortened
from worker.model.facts import EventId, Json, PartnerId, RuleId
from worker.model.rules import RuleSet
from worker.rules.load import load_rules, read_rules
from worker.web.views import plain

app = typer.Typer()

VALUE_SHOWN_MAX = 100
TRUTHS = {"true": "true", "false": "not true", "unknown": "unknown"}


# for an operator


def lines_of(found: RuleExplained, now: datetime, at: datetime) -> Iterator[str]:
    """One rule in lines."""
    words = STANDINGS[found.standing]
    if found.standing in ("true", "unchanged") and found.fired is not None:
        words = f"fired {when(found.fired.at, now)}; {words}"
    elif found.since is not None:
        words += f" since {when(found.since, now)}"
    yield f"{found.rule}: {words}{f'   ({found.place})' if found.place else ''}"
    if found.reason:
        until = f", until {when(found.until, now)}" if found.until is not None else ""
        yield f"  {found.reason}: {_one_line(found.why)}{until}"
    elif found.why and (found.condition is None or found.standing in TRUTHS.keys() - {found.condition.truth.value}):
        yield f"  {_one_line(found.why)}"
    if found.next_at is not None:
        yield f"  looked at next at {when(found.next_at, now)}"
    if found.condition is not None:
        yield from _lines_of_part(found.condition, at, "    ")
    yield from _lines_of_memory(found, now)
    for write in found.writes:
        held = f", held by {write.held_by}" if write.held_by else ""
        until = f" until {when(write.held_until, now)}" if write.held_until else ""
        since = f" since {when(write.changed_at, now)}"
        yield f"  write {write.id} ({write.intent.action}): {write.state}{since}{held}{until}: {write.why}"
    for one in (found.fired, found.held):
        if one is not None:
            yield f"  last {one.kind} {when(one.at, now)} ({one.reason}): {_one_line(one.why)}"


def _lines_of_part(part: Explained, at: datetime, indent: str) -> Iterator[str]:
    yield f"{indent}{TRUTHS[part.truth.value]:<9}{_one_line(part.source)}"
    for seen in part.values:
        yield f"{indent}{'':<13}{_seen(seen, at)}"
    if not part.values and not part.parts:
        yield f"{indent}{'':<13}{_one_line(part.why)}"
    for one in part.parts:
        yield from _lines_of_part(one, at, indent + "    ")


def _seen(seen: SeenValue, at: datetime) -> str:
    words = seen.missing or f"{seen.path} is {shown(seen.value)}"
    if seen.read_at is None:
        return words
    age = max(0.0, (at - seen.read_at).total_seconds())
    return f"{words}   (read {seen.read_at:%Y-%m-%d %H:%M:%S}, {age:.1f} s before)"


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


def shown(value: Json) -> str:
    """A value on one line, cut where it is long."""
    return shortened(json.dumps(value, ensure_ascii=False), VALUE_SHOWN_MAX)


def _one_line(text: str) -> str:
    return " ".join(text.split())


# The command.

NOT_IN_FORCE: frozenset[Standing] = frozenset({"disabled", "removed", "not_for_partner"})
"""Of these a line is enough, unless one is asked for: a folder of rules may have many of them."""


@app.command("explain")
def explain_command(
    context: typer.Context,
    event: Annotated[str, typer.Option(help="The event, by its id.", autocompletion=completing("event"))],
    rule: OnlyRule = None,
    partner: OnlyPartner = None,
    at: Annotated[
        str | None, typer.Option(help="As of then: how long ago (2h, 7d) or a time (2026-03-01T12:00:00Z).")
    ] = None,
    output: Format = "table",
) -> None:
    """Say why each rule did or did not fire for an event: offline, from the ledger.

    The daemon's own code decides on what the ledger holds of the last poll, or of a time before. Each part of the
    condition is shown with its value and how old the fact was, what holds the rule back since when, and when the log
    last saw it fire or held back. Exits 1 where nothing is known of the event.

    Example: campaign-worker explain --event e42 --rule pause-cancelled --at 2026-03-01T12:00:00Z
    """
    config = config_of(context)
    then, now = moment(config, at, "--at"), clock_of(config).now()
    with reader_of(config) as ledger:
        rules = _rules(config, ledger)
        answers = [
            explain(
                ledger,
                Question(
                    partner=name,
                    event=EventId(event),
                    now=now,
                    rules=rules,
                    settings=engine_settings(config).deciding,
                    at=then,
                    only=RuleId(rule) if rule is not None else None,
                ),
            )
            for name in _reached(ledger, [one for one in ledger.partners_of(event) if partner in (None, one)], then)
        ]
        if not any(one.rules for one in answers):
            raise _nothing(ledger, config, event, rule, partner)
    if output == "json":
        print_json(plain(answers))
        return
    for one in answers:
        for line in _lines(one, now, whole=rule is not None):
            console().print(printable(line), soft_wrap=True)


def _reached(ledger: LedgerReader, partners: list[PartnerId], then: datetime | None) -> list[PartnerId]:
    """Those whose record of facts reaches back to the time asked for; of the others it is said that it does not. Raises
    `NotFound` where that is all of them."""
    if then is None:
        return partners
    begins = {one: ledger.facts_begin(one) for one in partners}
    reached = [one for one, at in begins.items() if at is not None and at <= then]
    whys = [
        f"what {one} was at {then:%Y-%m-%dT%H:%M:%SZ} is not recorded: the facts that are kept are "
        + ("of no time at all" if at is None else f"of {at:%Y-%m-%dT%H:%M:%SZ} and later")
        for one, at in begins.items()
        if one not in reached
    ]
    if whys and not reached:
        hint = "`observations.keep` in the config says for how long changes are kept; the log has what was done"
        raise NotFound("; ".join(whys), hint=hint)
    for why in whys:
        say(why)
    return reached


def _nothing(ledger: LedgerReader, config: Config, event: str, rule: str | None, partner: str | None) -> NotFound:
    """Names what the worker has never met, and nothing that it has; where it has met each, that they never met."""
    strange = strangers(ledger, config, {"event": event, "rule": rule, "partner": partner})
    pair = [f"event {event}", *([f"rule {rule}"] if rule else []), *([f"partner {partner}"] if partner else [])]
    hint = "`campaign-worker log` shows what the worker has met; a new event is known after its first poll"
    return NotFound("; ".join(strange) or f"nothing is known of {' and '.join(pair)} together", hint=hint)


def in_force(config: Config, ledger: LedgerReader) -> RuleSet:
    """The rules that a fleet was given, or those of the folder. Raises `InputErrors`."""
    published = ledger.published()
    if published is not None:
        return read_rules(published.files, config.registry).rules
    return load_rules(config.rules, config.registry)


def _rules(config: Config, ledger: LedgerReader) -> RuleSet | None:
    """The rules in force; where they do not load, the ledger alone must do."""
    try:
        return in_force(config, ledger)
    except InputErrors as errors:
        say(f"the rules do not load, so every rule is told as the ledger knows it: {errors.problems[0]}")
        return None


def _lines(one: EventExplained, now: datetime, *, whole: bool) -> Iterator[str]:
    looked = f"looked at last {when(one.looked_at, now)}" if one.looked_at is not None else "never listed as a whole"
    then = "" if one.at == one.looked_at else f"; as of {when(one.at, now)}"
    yield f"event {one.event} of {one.partner}; {looked}{then}"
    if one.gone_at is not None:
        yield f"out of sight since {when(one.gone_at, now)}: its memory is frozen, and no rule looks at it"
    quiet = [] if whole else [rule for rule in one.rules if rule.standing in NOT_IN_FORCE and not rule.writes]
    for rule in one.rules:
        if rule not in quiet:
            yield ""
            yield from lines_of(rule, now, one.at)
    if quiet:
        yield ""
        names = ", ".join(f"{rule.rule} ({STANDINGS[rule.standing]})" for rule in quiet)
        yield f"not in force: {names}; --rule ID says what is remembered of one"
