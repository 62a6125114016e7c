"""``halt`` and ``resume``: no new write from now on, and the way back."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import config_file, config_from, config_of, duration, given, operator, partner_named, rule_named
from worker.cli.output import say
from worker.cli.wiring import operators_ledger
from worker.config import Config
from worker.config.load import ledger_alone
from worker.model.commits import Halt
from worker.model.errors import InputErrors, NotFound
from worker.model.facts import PartnerId, RuleId
from worker.model.writes import UNSETTLED
from worker.system import utc_now

app = typer.Typer()

PartnerOption = Annotated[str | None, typer.Option("--partner", help="Only this partner.")]
RuleOption = Annotated[str | None, typer.Option("--rule", help="Only this rule.")]


@app.command("halt")
def halt(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log and shown with every held write.")],
    partner: PartnerOption = None,
    rule: RuleOption = None,
    lasting: Annotated[
        str | None, typer.Option("--for", help="Resume by itself after that long, for instance 2h.")
    ] = None,
) -> None:
    """Stop new writes: once this has returned, none is sent, also by a running daemon. Reading and deciding go on.

    A config with mistakes in it is no obstacle, as long as it says where the ledger is.

    Example: campaign-worker halt --rule boost-on-new-clusters --for 2h --because "wrong budget"
    """
    ends, why = duration(lasting, "--for"), given(because)
    config, now = braked(config_file(context)), utc_now()
    with operators_ledger(config) as ledger:
        whose, of_rule = partner_named(partner, config, ledger), rule_named(rule, config, ledger)
        ledger.append_halt(
            partner=whose,
            rule=of_rule,
            until=None if ends is None else now + ends,
            because=why,
            by=operator(),
            at=now,
        )
        flying = [write for write in ledger.open_writes(whose) if write.state in UNSETTLED]
    until = "" if ends is None else f" until {now + ends:%Y-%m-%d %H:%M:%S} UTC"
    say(f"halted{until}: {whose or 'every partner'}, {of_rule or 'every rule'}")
    for write in flying:
        if of_rule is None or write.key.rule == of_rule:
            say(
                f"in flight or not settled: write {write.id}, {write.intent.action} of {write.key.event}: {write.state}"
            )


@app.command("resume")
def resume(
    context: typer.Context,
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
    partner: PartnerOption = None,
    rule: RuleOption = None,
) -> None:
    """End halts: those that name this partner and this rule, or without either all of them.

    Example: campaign-worker resume --rule boost-on-new-clusters --because "the budget is corrected"
    """
    why, now = given(because), utc_now()
    with operators_ledger(config_of(context)) as ledger:
        ended = ledger.resume_halts(
            partner=None if partner is None else PartnerId(partner),
            rule=None if rule is None else RuleId(rule),
            because=why,
            by=operator(),
            at=now,
        )
        left = ledger.halts(now)
    if not ended:
        others = "; ".join(f"{halted(one)} ({one.because})" for one in left)
        message = f"no such halt is in force; in force: {others}" if left else "no halt is in force"
        raise NotFound(message, hint="campaign-worker status shows the halts")
    for one in ended:
        say(f"resumed: halt of {halted(one)} ({one.because})")


def braked(path: Path) -> Config:
    """The config of the worker to be stopped. Somebody may be in the middle of editing it, and a brake must not wait
    for that: of one with mistakes, which are said, the ledger is taken. Raises `InputErrors` where it is in doubt."""
    try:
        return config_from(path)
    except InputErrors as errors:
        config = ledger_alone(path)
        if config is None:
            say("nothing was halted: this config leaves in doubt where the ledger is")
            say("    correct it, name another one with --config, of which `ledger: sqlite:////PATH` is enough, or")
            say("    stop the daemon by its process id: kill PID")
            raise
        for line in (line for problem in errors.problems for line in problem.lines):
            say(line)
        say("a halt needs nothing of the config but the ledger, and goes on")
        return config


def halted(one: Halt) -> str:
    """What a halt stops, in words."""
    return f"{one.partner or 'every partner'}, {one.rule or 'every rule'}"
