"""``resolve``: a person's verdict on a write that only a person can settle."""

from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, given, operator
from worker.cli.configs import engine_settings
from worker.cli.deciding import Chosen, decide
from worker.engine.operators import resolved
from worker.engine.wanted import Seen
from worker.model.commits import Move
from worker.model.errors import UsageError
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
    why = given(because)
    config = config_of(invocation(context))
    settings = engine_settings(config)
    by, now = operator(), utc_now()

    def verdict(_: Seen, write: Write) -> Move:
        return resolved(write, applied=applied, because=why, by=by, now=now, settings=settings)

    decide(config, Chosen(ids=tuple(ids), states=("needs_human",)), verdict)
