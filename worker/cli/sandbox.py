"""``sandbox``: serves the embedded twin of the API, for trying rules and for developing against."""

from pathlib import Path
from typing import Annotated

import typer

from worker.cli.app import app
from worker.model.errors import UsageError, WorkerError
from worker.sandbox.demo import DEMO_EVENTS
from worker.sandbox.server import DEFAULT_PORT, SandboxError, Time, run_sandbox
from worker.sandbox.story import StoryError
from worker.system import SystemClock


@app.command("sandbox")
def sandbox(
    port: Annotated[int, typer.Option(help="Loopback port; 0 for any free one.", min=0, max=65535)] = DEFAULT_PORT,
    story: Annotated[Path | None, typer.Option(help="A story file: what happens when (docs/sandbox.md).")] = None,
    events: Annotated[int | None, typer.Option(help=f"How many events; {DEMO_EVENTS} by default.", min=1)] = None,
) -> None:
    """Serve the embedded twin of the service on loopback, with its own books of what took effect.

    Prints the addresses for a config on stderr. Sign in as sandbox / sandbox. The page at / shows events and books;
    faults and changes are asked for under /_sandbox/ (docs/sandbox.md).
    """
    clock = SystemClock()
    try:
        run_sandbox(time=Time(clock=clock.monotonic, sleep=clock.sleep), port=port, story=story, events=events)
    except StoryError as error:
        raise UsageError(str(error), hint="docs/sandbox.md shows every word of a story") from error
    except SandboxError as error:
        raise WorkerError(str(error)) from error
