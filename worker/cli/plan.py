"""``plan``: what each rule would do now, by the daemon's own code up to the send."""

import asyncio
from collections.abc import Iterator
from typing import Annotated

import typer

from worker.cli.common import config_of, unvouched_lines
from worker.cli.explain import shown
from worker.cli.output import Format, counted, print_json, print_table, say
from worker.cli.wiring import rehearsing
from worker.config import Config
from worker.engine.rehearsal import Rehearsed, Row
from worker.model.errors import Unreachable
from worker.model.facts import Json, spelled
from worker.model.rules import RuleSet
from worker.model.writes import Intent
from worker.rules.load import load_rules

app = typer.Typer()

TABLE = ("partner", "event", "rule", "action", "before", "after", "becomes", "why", "requests")


@app.command("plan")
def plan(
    context: typer.Context,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Show what each rule would do now: every write before and after, what would hold it, what it costs.

    The daemon's own code looks, decides and asks every guard, and stops right before sending; nothing is written, in
    the service or in the ledger. Beside a running daemon it goes by what that one has observed, and reads nothing.

    Example: campaign-worker plan --format json
    """
    config = config_of(context)
    rules = load_rules(config.rules, config.registry)
    for line in unvouched_lines(config, rules.rules):
        say(line)
    beside, found = asyncio.run(_rehearsed(config, rules))
    for one in found:
        _say(one, beside=beside)
    rows = [_row(row) for row in _rows(found)]
    if output is Format.json:
        print_json({"source": "ledger" if beside else "service", "partners": _partners(found), "writes": rows})
    elif rows:
        print_table("plan", TABLE, ([row[name] for name in TABLE] for row in map(_for_a_person, _rows(found))))


async def _rehearsed(config: Config, rules: RuleSet) -> tuple[bool, list[Rehearsed]]:
    async with rehearsing(config, rules) as (rehearsals, beside):
        if not rehearsals:
            hint = "see `partners` and `operator_prefix` in the config"
            raise Unreachable("there is no partner to plan for", hint=hint)
        return beside, list(await asyncio.gather(*(one.run() for one in rehearsals)))


def _rows(found: list[Rehearsed]) -> Iterator[Row]:
    """Every row of every partner."""
    for one in found:
        yield from one.rows


def after_of(intent: Intent) -> Json:
    """What the target shall be: its value, or the fields that are set."""
    if set(intent.wanted) == {intent.target}:
        return intent.wanted[intent.target]
    return dict(intent.wanted) or dict(intent.params)


def _row(row: Row) -> dict[str, Json]:
    return {
        "id": row.id,
        "partner": row.key.partner,
        "event": row.key.event,
        "rule": row.key.rule,
        "rules": list(row.rules),
        "episode": row.key.episode,
        "position": row.key.position,
        "item": row.key.item,
        "action": row.intent.action,
        "before": row.before,
        "before_known": row.before_known,
        "after": after_of(row.intent),
        "spends": row.wanted.spends,
        "amount": row.wanted.amount,
        "becomes": row.becomes,
        "reason": row.reason,
        "why": row.why,
        "until": spelled(row.until),
        "request": dict(row.request) if row.request is not None else None,
        "requests": {"preflight": row.cost.preflight, "write": row.cost.write, "confirm": row.cost.confirm},
    }


def _for_a_person(row: Row) -> dict[str, Json]:
    known = f"write {row.id}: " if row.id is not None else ""
    until = f" until {row.until:%Y-%m-%d %H:%M:%S} UTC" if row.until is not None else ""
    held = "" if row.request is not None else f"{row.reason}{until}: "
    cost = row.cost
    return {
        "partner": row.key.partner,
        "event": row.key.event,
        "rule": row.key.rule,
        "action": row.intent.action + (f" ({row.key.item})" if row.key.item else ""),
        "before": shown(row.before) if row.before_known else "not read",
        "after": "; ".join(part for part in (row.wanted.does, row.wanted.spends) if part),
        "becomes": f"{known}{'sent' if row.request is not None else row.becomes}",
        "why": f"{held}{row.why}",
        "requests": cost.preflight + cost.write + cost.confirm,
    }


def _partners(found: list[Rehearsed]) -> dict[str, Json]:
    return {
        one.partner: {
            "events": one.report.events,
            "complete": one.report.complete,
            "unread": one.unread,
            "error": one.report.error,
        }
        for one in found
    }


def _say(one: Rehearsed, *, beside: bool) -> None:
    """What a person must know beside the rows."""
    sent = sum(1 for row in one.rows if row.request is not None)
    source = "as the running daemon saw them" if beside else "read just now"
    cost = sum(row.cost.preflight + row.cost.write + row.cost.confirm for row in one.rows if row.request is not None)
    asked = f", in {counted(cost, 'request')}" if sent else ""
    say(f"{one.partner}: {counted(one.report.events, 'event')} {source}; {counted(sent, 'write')} would be sent{asked}")
    if one.report.error is not None:
        say(f"{one.partner}: {one.report.error}")
    if one.unread:
        say(f"{one.partner}: {counted(one.unread, 'fact')} that rules want could not be read within the budget")
