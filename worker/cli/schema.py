"""``schema``: JSON Schema of the files that people write, for editors."""

from typing import Annotated, Literal

import typer

from worker.cli.app import app, invocation
from worker.cli.output import print_json
from worker.config.load import repaired
from worker.config.schema import schema as schema_of
from worker.rules.registry import BUILT_IN_REGISTRY


@app.command("schema")
def schema(
    context: typer.Context,
    kind: Annotated[Literal["config", "rules", "tests"], typer.Argument(help="Which file's schema to print.")],
) -> None:
    """Print the JSON Schema of the config, of rule files or of rule tests, for an editor to complete and check by.

    Facts of the config's own are in it, where a config can be read.

    Example: campaign-worker schema rules > docs/schema/rules.json
    """
    config = repaired(invocation(context).config_path)
    print_json(schema_of(kind, config.registry if config is not None else BUILT_IN_REGISTRY))
