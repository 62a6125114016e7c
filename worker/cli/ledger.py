"""``ledger backup``, ``upgrade``, ``accept-restore``, ``moved``: what an operator does to the ledger itself."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import clock_of, config_of, ledger_url, operator, word_of
from worker.cli.output import going_on, say
from worker.config.addresses import service_of
from worker.engine.operators import after_restore
from worker.ledger import upkeep
from worker.ledger.reading import open_for_backup
from worker.model.errors import NotFound
from worker.system import utc_now

app = typer.Typer()

ledger_app = typer.Typer(
    help="Back up, upgrade, accept a restored ledger, or take it to another service.", no_args_is_help=True
)
app.add_typer(ledger_app, name="ledger")


@ledger_app.command("backup")
def backup(context: typer.Context, file: Annotated[Path, typer.Argument(help="Where to; must not exist yet.")]) -> None:
    """Copy the ledger as it is at one moment, also beside a running daemon.

    Example: campaign-worker ledger backup /backup/ledger.db
    """
    with going_on("the ledger is being copied"), open_for_backup(ledger_url(config_of(context))) as ledger:
        ledger.backup(file)
    say(f"backed up to {file}")


@ledger_app.command("upgrade")
def upgrade(context: typer.Context) -> None:
    """Bring an older ledger to this program's shape. Stop the daemon and take a backup first.

    Example: campaign-worker ledger backup before.db && campaign-worker ledger upgrade
    """
    with going_on("the ledger is being upgraded"):
        done = upkeep.upgrade(ledger_url(config_of(context)), now=utc_now())
    if done.before == done.after:
        say(f"nothing to do: the ledger has revision {done.after} already")
    else:
        say(f"upgraded from revision {done.before} to {done.after}")


@ledger_app.command("accept-restore")
def accept_restore(
    context: typer.Context,
    in_step: Annotated[
        bool,
        typer.Option(
            "--in-step", help="Also where the mark was put back with the ledger, which nothing else can tell."
        ),
    ] = False,
) -> None:
    """Go on with a restored, lost or exchanged ledger: what was open goes to an operator, what fires waits.

    Example: campaign-worker ledger accept-restore, once it is known why `campaign-worker status` says that the ledger
    was restored, lost or exchanged, and that it is the one to go on with.
    """
    config, by = config_of(context), operator()
    url, now = ledger_url(config), clock_of(config).now()
    done = upkeep.accept_restore(
        url, by=by, now=now, restored=lambda write: after_restore(write, by=by, now=now), in_step=in_step
    )
    _say("accepted", done)
    say("a halt that was set after this ledger was copied is not in it: set it again before you start")


@ledger_app.command("moved")
def moved(
    context: typer.Context,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="The address that api.base_url has now.")],
    because: Annotated[str, typer.Option(help="Why; it is kept in the log.")],
) -> None:
    """Go on with this ledger at another address of the service: what was open goes to an operator, what fires waits.

    Example: campaign-worker ledger moved --to https://new.example/api/v3 --because "the service has a new name"
    """
    config = config_of(context)
    word, url = word_of(config, because), service_of(to)
    if url != service_of(config.api.base_url):
        raise NotFound(
            f"--to {to} is not the service of the config, api.base_url {config.api.base_url}; nothing was changed",
            hint="write the new address into the config first, or name another config with --config",
        )
    done = upkeep.moved(
        ledger_url(config),
        service=url,
        because=word.because,
        by=word.by,
        now=word.at,
        restored=lambda write: after_restore(write, by=word.by, now=word.at, moved_to=url),
    )
    _say(f"the ledger belongs to {url} now", done)


def _say(done: str, accepted: upkeep.RestoreAccepted) -> None:
    writes, memories = len(accepted.needs_human), accepted.memories
    say(f"{done}: {writes} open writes are now before an operator, {memories} memories start anew")
    if accepted.needs_human:
        say("decide them: campaign-worker writes --state needs_human")
