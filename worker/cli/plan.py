"""``plan``: what each rule would do now, by the daemon's own code up to the send."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from worker.cli.common import (
    SHOWN_MAX,
    OnlyEvent,
    OnlyPartner,
    OnlyRule,
    clock_of,
    config_of,
    ledger_url,
    strangers,
    unconfirmed_lines,
)
from worker.cli.explain import in_force, shown
from worker.cli.output import PROGRESS_EVERY_S, Format, print_json, print_table, say
from worker.cli.wiring import rehearsing
from worker.config import Config
from worker.engine.rehearsal import Rehearsal, Rehearsed, Row
from worker.ledger.reading import open_reading
from worker.model.errors import NotFound, Unreachable
from worker.model.facts import Json, spelled
from worker.model.rules import RuleSet
from worker.model.writes import Intent
from worker.rules.spelling import counted, duration_text

app = typer.Typer()

TABLE = ("partner", "event", "rule", "action", "before", "after", "becomes", "why", "requests")
WITHIN = timedelta(seconds=10)
"""How long facts are read for a plan, unless somebody waits."""


@app.command("plan")
def plan(
    context: typer.Context,
    event: OnlyEvent = None,
    rule: OnlyRule = None,
    partner: OnlyPartner = None,
    wait: Annotated[bool, typer.Option("--wait", help="Read on after 10 s, until everything is read.")] = False,
    output: Format = "table",
) -> None:
    """Show what each rule would do now: every write before and after, what would hold it, what it costs.

    The daemon's own code looks, decides and asks every guard, and stops right before sending; nothing is written, in
    the service or in the ledger. Beside a running daemon, and for a minute after, it goes by what that one has seen.
    Else it reads the service: the list, and for 10 s what rules want beside it.

    Example: campaign-worker plan --event e42 --format json
    """
    config = config_of(context)
    with open_reading(ledger_url(config)) as ledger:
        rules = in_force(config, ledger)
    if rule is not None and rule not in [one.id for one in rules.rules]:
        raise _stranger(config, f"no rule '{rule}' is in force", rule=rule)
    for line in unconfirmed_lines(config, rules.rules):
        say(line)
    within = None if wait else WITHIN
    found = asyncio.run(_rehearsed(config, rules, event=event, partner=partner, within=within))
    if event is not None and not any(one.report.events or one.rows for one in found):
        _say_errors(found)
        raise _stranger(config, f"event '{event}' was not read", event=event)
    if event is not None and any(one.seen_at is None for one in found):
        say(f"only {event} is read: what counts for all events together is not known (surge, limits, `events`)")
    rows: list[Row] = []
    for one in found:
        own = [row for row in one.rows if rule in (None, row.write.key.rule, *row.write.rules)]
        _say(one, own, config)
        for each in one.unsure:
            if rule in (None, each.rule):
                say(f"{one.partner}: rule {each.rule} cannot be judged for {counted(each.events, 'event')}: {each.why}")
        rows += own
    if output == "json":
        source = "service" if any(one.seen_at is None for one in found) else "ledger"
        print_json({"source": source, "partners": _partners(found), "writes": [_row(row) for row in rows]})
    elif rows:
        print_table("plan", TABLE, ([row[name] for name in TABLE] for row in map(_for_operator, rows)))
    unread = [one.partner for one in found if event is None and one.report.error is not None and not one.report.events]
    if unread:
        hint = "the reason stands above; plan again once the list can be read"
        raise Unreachable(f"nothing is planned for {', '.join(unread)}: the list was not read", hint=hint)


async def _rehearsed(
    config: Config, rules: RuleSet, *, event: str | None, partner: str | None, within: timedelta | None
) -> list[Rehearsed]:
    """``within``: how long facts are read, None until all are."""
    async with rehearsing(config, rules, event=event, partner=partner, within=within) as rehearsals:
        if not rehearsals:
            if partner is not None:
                raise _stranger(config, f"there is no partner '{partner}'", partner=partner)
            hint = "see `partners` and `operator_prefix` in the config"
            raise Unreachable("there is no partner to plan for", hint=hint)
        running = asyncio.gather(*(one.run() for one in rehearsals))
        while not (await asyncio.wait([running], timeout=PROGRESS_EVERY_S))[0]:
            for one in rehearsals:
                say(_progress(one))
        return await running


def _stranger(config: Config, why: str, **asked: str | None) -> NotFound:
    """What is not there, with the name that may have been meant."""
    with open_reading(ledger_url(config)) as ledger:
        strange = strangers(ledger, config, asked)
    return NotFound("; ".join(strange) or why, hint="`campaign-worker log` shows what the worker has met")


def _progress(one: Rehearsal) -> str:
    if one.service.met is None:
        return f"{one.partner}: the list is being read"
    decided = "; by these it is decided" if one.service.not_read else ""
    facts = counted(one.service.read_now, "fact")
    return f"{one.partner}: {counted(one.service.met, 'event')} listed, {facts} read{decided}"


def after_of(intent: Intent) -> Json:
    """What the target shall be: its value, or the fields that are set."""
    if set(intent.wanted) == {intent.target}:
        return intent.wanted[intent.target]
    return dict(intent.wanted) or dict(intent.params)


def _row(row: Row) -> dict[str, Json]:
    write = row.write
    return {
        "id": write.id if row.known else None,
        **asdict(write.key),
        "rules": list(write.rules),
        "action": write.intent.action,
        "before": row.before,
        "before_known": row.before_known,
        "after": after_of(write.intent),
        "spends": row.wanted.spends,
        "amount": row.wanted.amount,
        "becomes": row.becomes,
        "reason": row.reason,
        "why": write.why,
        "until": spelled(write.held_until),
        "request": dict(row.request) if row.request is not None else None,
        "requests": asdict(row.cost),
    }


def _for_operator(row: Row) -> dict[str, Json]:
    write, key = row.write, row.write.key
    known = f"write {write.id}: " if row.known else ""
    until = f" until {write.held_until:%Y-%m-%d %H:%M:%S} UTC" if write.held_until is not None else ""
    held = "" if row.request is not None else f"{row.reason}{until}: "
    return {
        "partner": key.partner,
        "event": key.event,
        "rule": key.rule,
        "action": write.intent.action + (f" ({key.item})" if key.item else ""),
        "before": shown(row.before) if row.before_known else "not read",
        "after": "; ".join(part for part in (row.wanted.does, row.wanted.spends) if part),
        "becomes": f"{known}{'sent' if row.request is not None else row.becomes}",
        "why": f"{held}{write.why}",
        "requests": row.cost.whole,
    }


def _partners(found: list[Rehearsed]) -> dict[str, Json]:
    return {
        one.partner: {
            "events": one.report.events,
            "complete": one.report.complete,
            "unread": len(one.not_read),
            "unsure": [asdict(each) for each in one.unsure],
            "error": one.report.error,
        }
        for one in found
    }


def _say(one: Rehearsed, rows: Sequence[Row], config: Config) -> None:
    """What an operator must know beside the rows."""
    sent = [row for row in rows if row.request is not None]
    age = None if one.seen_at is None else clock_of(config).now() - one.seen_at
    source = "read just now" if age is None else "as the daemon saw them"
    if age is not None and age > timedelta(minutes=1):
        source += f" {duration_text(timedelta(minutes=age // timedelta(minutes=1)))} ago"
    cost = sum(row.cost.whole for row in sent)
    in_all = f", in {counted(cost, 'request')}" if sent else ""
    events, writes = counted(one.report.events, "event"), counted(len(sent), "write")
    say(f"{one.partner}: {events} {source}; {writes} would be sent{in_all}")
    _say_errors([one])
    if one.not_read:
        names = ", ".join(f"{key.name} of {event or 'the partner'}" for event, key in one.not_read[:SHOWN_MAX])
        nobody = "the daemon has not read" if age is not None else f"were not read within {WITHIN.seconds} s"
        goes_on = "" if age is not None else " (--wait reads on)"
        say(f"{one.partner}: {counted(len(one.not_read), 'fact')} {nobody}: {names}{goes_on}")


def _say_errors(found: Sequence[Rehearsed]) -> None:
    for one in found:
        if one.report.error is not None:
            say(f"{one.partner}: {one.report.error}")
