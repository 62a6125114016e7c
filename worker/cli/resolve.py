"""``resolve``: a person's verdict on a write that only a person can settle."""

from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, operator
from worker.cli.output import say
from worker.cli.wiring import engine_settings, writer_of
from worker.engine.operators import resolved
from worker.model.commits import Commit
from worker.model.errors import NotFound, StateConflict, UsageError
from worker.model.ids import WriteId
from worker.model.writes import Write
from worker.system import utc_now


@app.command("resolve")
def resolve(
    context: typer.Context,
    ids: Annotated[
        list[int], typer.Argument(help="The writes, by number, as `writes --state needs_human` shows them.")
    ],
    because: Annotated[str, typer.Option(help="Why you know; it is kept in the log.")],
    applied: Annotated[bool, typer.Option("--applied", help="It took effect: the write is confirmed.")] = False,
    not_applied: Annotated[
        bool, typer.Option("--not-applied", help="It did not: grants exactly one more attempt, through all guards.")
    ] = False,
) -> None:
    """Say whether a write in needs_human took effect. All of the given writes, or none.

    Look at the evidence first: campaign-worker log --write ID. Then for instance:

    campaign-worker resolve 7 --applied --because "the event page shows PAUSED"
    """
    if applied == not_applied:
        raise UsageError(
            "say one of --applied and --not-applied", hint="look at `campaign-worker log --write ID` first"
        )
    if not because.strip():
        raise UsageError("--because is empty", hint="write how you know; an auditor will read it")
    asked = invocation(context)
    config = config_of(asked)
    settings = engine_settings(config)
    with writer_of(config) as ledger:
        found = [_one(ledger.write(WriteId(number)), number) for number in dict.fromkeys(ids)]
        now = utc_now()
        moves = tuple(
            resolved(write, applied=applied, because=because, by=operator(), now=now, settings=settings)
            for write in found
        )
        try:
            ledger.apply(Commit(at=now, moves=moves))
        except StateConflict as conflict:
            raise NotFound(f"nothing was changed: {conflict}", hint="look again: campaign-worker writes") from conflict
    for one in moves:
        say(f"write {one.after.id}: {one.before.state} -> {one.after.state}")


def _one(write: Write | None, number: int) -> Write:
    if write is None:
        raise NotFound(f"there is no write {number}; nothing was changed", hint="campaign-worker writes lists them")
    if write.state != "needs_human":
        raise NotFound(
            f"write {number} is {write.state}, not needs_human; nothing was changed",
            hint=f"campaign-worker log --write {number} shows its life",
        )
    return write
