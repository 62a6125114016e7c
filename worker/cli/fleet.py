"""What is for a fleet alone. ``fleet``: who works on a ledger that several workers share, and whose each partner is;
`status` says it in short. ``rules publish``: puts a rule folder into force for all of them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import clock_of, config_of, ledger_url, operator, say_no_ledger
from worker.cli.output import Format, counted, print_json, print_table, say, when
from worker.cli.status import MS, replica_said, state_of
from worker.cli.trial import try_out
from worker.cli.wiring import fleets_ledger, require_fleet
from worker.ledger.reading import open_reading, part_of, together
from worker.model.commits import Owned
from worker.model.errors import InputErrors, UsageError
from worker.model.facts import Json, spelled
from worker.rules.load import examined, hash_of, texts_of

app = typer.Typer()
rules_app = typer.Typer(help="Put a rule folder into force for a whole fleet.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")

REPLICAS = ("replica", "host", "pid", "version", "state", "since", "last heard of")
PARTNERS = ("partner", "owner", "since", "last complete poll")


@app.command("fleet")
def fleet(context: typer.Context, output: Format = "table") -> None:
    """Print the workers that share the ledger, and which of them each partner belongs to. Needs no credentials.

    Example: campaign-worker fleet --format json
    """
    config = config_of(context)
    require_fleet(config)
    url, now = ledger_url(config), clock_of(config).now()
    with open_reading(url) as ledger:
        say_no_ledger(ledger, url)
        replicas, owned = ledger.replicas(), ledger.owned()
    told = part_of(together(replicas, owned), "partners")

    def listed(one: Owned) -> Json:
        return part_of(told, one.partner).get("last_ok_at")

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
    folder: Annotated[Path | None, typer.Argument(help="Which one; `rules` of the config by default.")] = None,
) -> None:
    """Put a rule folder into force for all replicas, as a whole; with a mistake in it nothing changes, exit 2.

    Once it has returned, no replica stores a decision under the rules before, or sends anything under them.

    Example: campaign-worker check rules && campaign-worker test rules && campaign-worker rules publish rules
    """
    config, by = config_of(context), operator()
    path = folder if folder is not None else config.rules
    require_fleet(config)
    texts, unreadable = texts_of(path)
    found = examined(texts, unreadable, config.registry)
    if found.errors:
        raise InputErrors(found.errors)
    if not found.rules.rules:
        raise UsageError(f"there are no rules in {path}", hint="to stop every rule, `campaign-worker halt` is meant")
    asyncio.run(try_out(path, texts, config.registry))
    files = {str(Path(name).relative_to(path)) if path.is_dir() else path.name: text for name, text in texts.items()}
    with fleets_ledger(config) as ledger:
        before = ledger.published()
        if before is not None and before.files == files:
            say(f"nothing to do: these rules are in force, as generation {before.generation}")
            return
        said = f"{counted(len(found.rules.rules), 'rule')}, hash {hash_of(files)[:12]}"
        generation = ledger.publish(files, why=said, by=by, at=clock_of(config).now())
    say(f"generation {generation} is in force: {said}")
