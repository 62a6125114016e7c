"""``rules publish``: puts a rule folder into force for a whole fleet."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.common import config_of, operator
from worker.cli.output import counted, say
from worker.cli.trial import try_out
from worker.cli.wiring import fleets_ledger, require_fleet
from worker.model.errors import InputErrors, UsageError
from worker.rules.load import examined, hash_of, texts_of
from worker.system import utc_now

app = typer.Typer()

rules_app = typer.Typer(help="Put a rule folder into force for a whole fleet.", no_args_is_help=True)
app.add_typer(rules_app, name="rules")


@rules_app.command("publish")
def publish(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Argument(help="Which one; `rules` of the config by default.")] = None,
) -> None:
    """Put a rule folder into force for all replicas, as a whole; with a mistake in it nothing changes, exit 2.

    Once it has returned, no replica stores a decision under the rules before, or sends anything under them.

    Example: campaign-worker check rules && campaign-worker test rules && campaign-worker rules publish rules
    """
    config, now, by = config_of(context), utc_now(), operator()
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
        generation = ledger.publish(files, why=said, by=by, at=now)
    say(f"generation {generation} is in force: {said}")
