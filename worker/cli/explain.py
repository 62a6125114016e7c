"""``explain``: why each rule did or did not fire for an event, from the ledger alone."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, looked_at, say_no_ledger
from worker.cli.explained import as_json, lines_of, when
from worker.cli.opening import ledger_url
from worker.cli.output import Format, console, print_json, say
from worker.cli.searching import strangers
from worker.config import Config
from worker.engine.explaining import STANDINGS, EventKnown, RuleExplained, Standing, explain
from worker.guards.halts import as_of_now
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.errors import InputErrors, NotFound
from worker.model.facts import Json
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.moments import spelled
from worker.model.rules import RuleSet
from worker.rules.load import load_rules
from worker.system import utc_now

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
