"""``sandbox``: serves the embedded twin of the API, for trying rules and for developing against."""

import json
from pathlib import Path
from typing import Annotated

import typer

from worker.cli.app import app
from worker.cli.output import say
from worker.model.errors import UsageError, WorkerError
from worker.sandbox.demo import DEMO_EVENTS, FIRST_DAY
from worker.sandbox.dialects import DIALECTS
from worker.sandbox.faults import FaultError
from worker.sandbox.server import DEFAULT_PORT, SandboxError, Time, run_sandbox
from worker.sandbox.settings import SettingsError, changed_settings
from worker.sandbox.start import STANDARD, built, start_from
from worker.sandbox.story import MAX_EVENTS, StoryError
from worker.system import SystemClock


@app.command("sandbox")
def sandbox(
    port: Annotated[int, typer.Option(help="Loopback port; 0 for any free one.", min=0, max=65535)] = DEFAULT_PORT,
    story: Annotated[Path | None, typer.Option(help="A story file: what happens when (docs/sandbox.md).")] = None,
    events: Annotated[
        int | None, typer.Option(help=f"How many events; {DEMO_EVENTS} by default.", min=1, max=MAX_EVENTS)
    ] = None,
    dialect: Annotated[
        str, typer.Option(help=f"How the service is where its document is silent: {', '.join(DIALECTS)}.")
    ] = STANDARD,
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE: any setting of docs/sandbox.md; can be repeated.")
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option("--fault", help="What goes wrong: 'KIND [METHOD] [PATH] [NAME=VALUE …]'; can be repeated."),
    ] = None,
    rate_limit: Annotated[
        int | None, typer.Option(help="Requests a minute and partner; then 429. Default: none.", min=1)
    ] = None,
) -> None:
    """Serve the embedded twin of the service on loopback, with its own books of what took effect.

    Prints the addresses for a config on stderr, and with a dialect the assumptions that go with it. Sign in as sandbox
    / sandbox. The page at / shows events, requests and books; faults and changes are asked for under /_sandbox/ as well
    (docs/sandbox.md). The story, and every time in the books (at_s), counts in seconds from the first request.

    Example: campaign-worker sandbox --events 50 --fault 'answer_after PUT /client_campaign_status times=2 status=503'
    """
    clock = SystemClock()
    limits = [] if rate_limit is None else [f"rate_limit_per_minute={rate_limit}"]
    try:
        start = start_from(dialect, [*limits, *(settings or ())], faults or ())
        service = built(story, events, FIRST_DAY, start)
        zero = clock.now().timestamp() - clock.monotonic()
        service.settings = changed_settings(service.settings, {"unix_time_of_zero": zero})
        tell_dialect(dialect)
        run_sandbox(time=Time(clock=clock.monotonic, sleep=clock.sleep), service=service, port=port)
    except (StoryError, SettingsError, FaultError) as error:
        raise UsageError(str(error), hint="docs/sandbox.md shows every word of it") from error
    except SandboxError as error:
        raise WorkerError(str(error)) from error


def tell_dialect(name: str) -> None:
    """The lines that a config needs for a dialect; `campaign-worker probe` finds those that reading can show."""
    if DIALECTS[name].tells:
        say("assumptions:")
        for key, value in DIALECTS[name].tells.items():
            say(f"  {key}: {json.dumps(value, ensure_ascii=False)}")
