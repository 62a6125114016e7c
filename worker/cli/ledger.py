"""``ledger backup``, ``upgrade``, ``accept-restore``, ``moved``: what an operator does to the ledger. And what is
for workers that share one: ``fleet`` and ``rules publish``."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import clock_of, config_of, ledger_url, operator, reader_of, unconfirmed_lines, word_of
from worker.cli.output import Format, going_on, print_json, print_table, say, when
from worker.cli.status import MS, replica_said, state_of
from worker.cli.trial import try_out
from worker.cli.wiring import fleets_ledger, require_fleet
from worker.config.addresses import service_of
from worker.engine.operators import after_restore
from worker.ledger import upkeep
from worker.ledger.reading import open_for_backup, part_of, together
from worker.ledger.tables import REVISION
from worker.model.commits import Owned
from worker.model.errors import NotFound, UsageError
from worker.model.facts import Json, spelled
from worker.rules.load import examined, hash_of, texts_of
from worker.rules.spelling import counted
from worker.system import utc_now

app = typer.Typer()

ledger_app = typer.Typer(
    help="Back up, upgrade, accept a restored ledger, or take it to another service.", no_args_is_help=True
)
app.add_typer(ledger_app, name="ledger")
rules_app = typer.Typer(help="Put a rule folder into force for a whole fleet.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")


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
        before = upkeep.upgrade(ledger_url(config_of(context)), now=utc_now())
    if before == REVISION:
        say(f"nothing to do: the ledger has revision {REVISION} already")
    else:
        say(f"upgraded from revision {before} to {REVISION}")


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
        why = f"--to {to} is not the service of the config, api.base_url {config.api.base_url}; nothing was changed"
        raise NotFound(why, hint="write the new address into the config first, or name another config with --config")
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


# A fleet: who works on a ledger that several workers share, and whose each partner is, which `status` says in short;
# and the rules of all of them.

REPLICAS = ("replica", "host", "pid", "version", "state", "since", "last heard of")
PARTNERS = ("partner", "owner", "since", "last complete poll")


@app.command("fleet")
def fleet(context: typer.Context, output: Format = "table") -> None:
    """Print the workers that share the ledger, and whose each partner is. Needs no credentials.

    Example: campaign-worker fleet --format json
    """
    config = config_of(context)
    require_fleet(config)
    now = clock_of(config).now()
    with reader_of(config) as ledger:
        replicas, owned = ledger.replicas(), ledger.owned()
    told = part_of(together(replicas, owned), "partners")

    def listed(one: Owned) -> Json:
        return part_of(told, one.partner).get("last_ok_at", spelled(one.listed_at))

    if output == "json":
        partners: list[Json] = [
            {"partner": one.partner, "owner": one.owner, "since": spelled(one.since), "listed_at": listed(one)}
            for one in owned
        ]
        print_json({"replicas": [replica_said(one) for one in replicas], "partners": partners})
        return
    rows: Iterator[list[Json]] = (
        [one.id, one.host, one.pid, one.version, state_of(one), when(one.since, now), f"{one.lag // MS} ms ago"]
        for one in replicas
    )
    print_table("replicas", REPLICAS, rows)
    shown = ([one.partner, one.owner or "nobody", spelled(one.since), listed(one)] for one in owned)
    print_table("partners", PARTNERS, shown)


@rules_app.command("publish")
def publish(
    context: typer.Context,
    folder: Annotated[str | None, typer.Argument(help="Which one; `rules` of the config by default.")] = None,
) -> None:
    """Put a rule folder into force for all replicas, as a whole; with a mistake in it nothing changes, exit 2.

    Once it has returned, no replica stores a decision under the rules before, or sends anything under them.

    Example: campaign-worker check rules && campaign-worker test rules && campaign-worker rules publish rules
    """
    config, by = config_of(context), operator()
    if folder == "":  # an unset variable, and not the folder that one stands in
        raise UsageError("FOLDER is empty", hint="name one, or leave it out for `rules` of the config")
    path = config.rules if folder is None else Path(folder)
    require_fleet(config)
    texts, unreadable = texts_of(path)
    rules = examined(texts, unreadable, config.registry).without_errors().rules.rules
    if not rules:
        raise UsageError(f"there are no rules in {path}", hint="to stop every rule, `campaign-worker halt` is meant")
    asyncio.run(try_out(path, texts, config.registry))
    files = {str(Path(name).relative_to(path)) if path.is_dir() else path.name: text for name, text in texts.items()}
    with fleets_ledger(config) as ledger:
        before = ledger.published()
        if before is not None and before.files == files:
            say(f"nothing to do: these rules are in force, as generation {before.generation}")
            return
        said = f"{counted(len(rules), 'rule')}, hash {hash_of(files)[:12]}"
        generation = ledger.publish(files, why=said, by=by, at=clock_of(config).now())
    say(f"generation {generation} is in force: {said}")
    for line in unconfirmed_lines(config, rules):
        say(line)
