"""``init``: what one starts from, written into a folder: a config, two rules with their tests, schemas for the editor.

The files are the project's own, so that there is one of each: a wheel has them beside this module (pyproject.toml says
so), a checkout at its root.
"""

import json
from pathlib import Path
from typing import Annotated, get_args

import typer

from worker.cli.output import say
from worker.config.models import SchemaOf, schema
from worker.model.errors import NotFound, UsageError

app = typer.Typer()

FILES = (
    "config.yaml",
    "rules/boost-on-new-clusters.yaml",
    "rules/pause-cancelled.yaml",
    "rules/tests/boost-on-new-clusters.yaml",
    "rules/tests/pause-cancelled.yaml",
)
HOMES = (Path(__file__).parent / "starter", Path(__file__).parents[2])
SCHEMAS = "schema"
"""The folder of the schemas, which the first line of each file names to an editor."""


@app.command("init")
def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", show_default=False, help="Where to. Default: the current folder.")
    ] = Path(),
) -> None:
    """Write what one starts from: a config, two rules with their tests, and the schemas that an editor completes by.

    It runs at once, on the embedded sandbox. Nothing is overwritten: where one of the files is there already, none is
    written.

    Example: campaign-worker init my-rules
    """
    texts = starting_files()
    there = [name for name in texts if (folder / name).exists()]
    if there:
        more = f" and {len(there) - 1} more of its files are" if there[1:] else " is"
        what = f"{folder / there[0]}{more} there already, so nothing was written"
        raise NotFound(what, hint="name another folder: campaign-worker init DIR")
    for name, text in texts.items():
        file = folder / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("x", encoding="utf-8") as opened:
                opened.write(text)
        except OSError as error:
            raise UsageError(f"{file} cannot be written: {error.strerror}", hint="name another folder") from None
        print(file)
    say(f"next:{'' if folder == Path() else f' cd {folder}, then'} campaign-worker check, campaign-worker test,")
    say("      campaign-worker run --for 30s, which is safe: it watches the embedded sandbox until you name a service")


def starting_files() -> dict[str, str]:
    """Each file by its name."""
    home = next(folder for folder in HOMES if (folder / "config.yaml").exists())
    shipped = {name: (home / name).read_text("utf-8") for name in FILES}
    schemas = {f"{SCHEMAS}/{kind}.json": f"{json.dumps(schema(kind), indent=2)}\n" for kind in get_args(SchemaOf)}
    return {name: text.replace("docs/schema/", f"{SCHEMAS}/") for name, text in shipped.items()} | schemas
