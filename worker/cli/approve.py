"""``approve`` and ``reject``: a person decides what waits."""

from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of, given, operator
from worker.cli.deciding import Chosen, decide
from worker.engine.operators import approved, rejected
from worker.engine.wanted import Seen, wanted_of
from worker.model.commits import Move
from worker.model.writes import Write
from worker.system import utc_now

Ids = Annotated[list[int] | None, typer.Argument(help="The writes, by number, as `writes` shows them.")]
RuleOption = Annotated[str | None, typer.Option("--rule", help="All of this rule instead: a whole burst.")]
Because = Annotated[str, typer.Option("--because", help="Why; it is kept in the log.")]


@app.command("approve")
def approve(
    context: typer.Context, ids: Ids = None, rule: RuleOption = None, because: Because = "no reason given"
) -> None:
    """Let waiting writes go. They still pass every guard: what is no longer true is not sent.

    Example: campaign-worker approve --rule pause-cancelled --because "the storm is real"
    """
    by, now, why = operator(), utc_now(), given(because)
    chosen = Chosen(ids=tuple(ids or ()), rule=rule, states=("waiting",))

    def verdict(ledger: Seen, write: Write) -> Move:
        return approved(write, because=why, by=by, now=now, amount=wanted_of(ledger, write).amount)

    decide(config_of(invocation(context)), chosen, verdict)


@app.command("reject")
def reject(
    context: typer.Context, ids: Ids = None, rule: RuleOption = None, because: Because = "no reason given"
) -> None:
    """Drop writes that wait, are planned, or need a person. They are not planned again in the same episode.

    Example: campaign-worker reject 12 13 --because "the import was wrong"
    """
    by, now, why = operator(), utc_now(), given(because)
    chosen = Chosen(ids=tuple(ids or ()), rule=rule, states=("waiting", "planned", "needs_human"))
    decide(config_of(invocation(context)), chosen, lambda _, write: rejected(write, because=why, by=by, now=now))
