"""``writes``: every write and what became of it."""

from typing import Annotated, cast

import typer

from worker.cli.common import reader_of, say_nothing_found
from worker.cli.output import Format, moment_shown, print_json, print_table
from worker.engine.explaining import wanted_of
from worker.guards.situation import as_of_now
from worker.ledger.rows import writes_json
from worker.model.errors import UsageError
from worker.model.facts import Json
from worker.model.writes import State
from worker.rules.nearest import meant
from worker.system import utc_now
from worker.writes.intents import Wanted
from worker.writes.life import MOVES

app = typer.Typer()

TABLE = (
    *("id", "state", "reason", "partner", "event", "rule", "action", "wanted", "attempt", "held_by", "changed_at"),
    "why",
)


@app.command("writes")
def writes(
    context: typer.Context,
    state: Annotated[str | None, typer.Option(help="Only this state, for instance needs_human.")] = None,
    event: Annotated[str | None, typer.Option(help="Only this event.")] = None,
    partner: Annotated[str | None, typer.Option(help="Only this partner.")] = None,
    rule: Annotated[str | None, typer.Option(help="Only this rule.")] = None,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Print every write, oldest first: its state, what holds it, and why.

    Example: campaign-worker writes --state needs_human
    """
    if state is not None and state not in MOVES:
        raise UsageError(
            f"--state: there is no state '{state}'{meant(state, MOVES)}", hint=f"one of: {', '.join(MOVES)}"
        )
    asked = {"partner": partner, "event": event, "rule": rule}
    with reader_of(context) as ledger:
        halts = ledger.halts(utc_now())
        found = ledger.writes(state=cast("State | None", state), event=event, partner=partner, rule=rule)
        if not found:
            say_nothing_found(ledger, {**asked, "state": state}, "write")
        told = [(writes_json(as_of_now(write, halts)), wanted_of(ledger, write)) for write in found]
    if output is Format.json:
        print_json([{**row, **_asked_for(wanted)} for row, wanted in told])
    elif told:
        print_table("writes", TABLE, (_cells(row, wanted) for row, wanted in told))


def _asked_for(wanted: Wanted) -> dict[str, Json]:
    return {"wants": wanted.does, "now": wanted.before, "spends": wanted.spends, "amount": wanted.amount}


def _cells(row: dict[str, Json], wanted: Wanted) -> list[Json]:
    shown = {**row, "wanted": wanted.line, "changed_at": moment_shown(row["changed_at"])}
    return [shown[name] for name in TABLE]
