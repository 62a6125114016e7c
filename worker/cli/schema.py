"""``schema``: JSON Schema of the files that people write, for editors."""

from typing import Annotated, Literal

import typer

from worker.cli.app import app
from worker.cli.output import print_json
from worker.config.schema import schema as schema_of


@app.command("schema")
def schema(
    kind: Annotated[Literal["config", "rules", "tests"], typer.Argument(help="Which file's schema to print.")],
) -> None:
    """Print the JSON Schema of the config, of rule files or of rule tests, for an editor to complete and check by.

    Example: campaign-worker schema rules > docs/schema/rules.json
    """
    print_json(schema_of(kind))
