"""``probe``: what the service shows of the assumptions, by reading alone."""

import asyncio
from dataclasses import asdict
from typing import Annotated, get_args

import typer

from worker.api.probe import Probed, Says
from worker.cli.common import assumptions_of, config_of
from worker.cli.output import Format, going_on, print_json, print_table, say
from worker.cli.wiring import probe_of
from worker.config import Config
from worker.model.errors import printable
from worker.model.facts import Json
from worker.rules.spelling import duration_text

app = typer.Typer()


@app.command("probe")
def probe(
    context: typer.Context,
    partner: Annotated[str | None, typer.Option(help="Ask this partner only. Default: up to three, in turn.")] = None,
    output: Format = "table",
) -> None:
    """Read one of each resource; say of each assumption: confirmed, refuted, or cannot be seen by reading.

    Signs in, and writes nothing; keeps to the config's request quota and interval. Each finding comes with the line to
    write under `assumptions:`, which confirms it. Says where headers tell of a proxy in between, which may repeat
    a write by itself. Exits 3 beside a running daemon: stop that one first.

    Example: campaign-worker probe --partner partner-id-the-hall
    """
    config = config_of(context)
    floor = duration_text(config.poll.interval)
    with going_on(f"one of each resource is being read, none asked again within {floor}"):
        found = asyncio.run(probe_of(config, partner or ""))
    if output == "json":
        print_json(told_as_json(found, config))
    else:
        told_as_tables(found)


def told_as_json(found: Probed, config: Config) -> dict[str, Json]:
    """The object of ``--format json``."""
    values = assumptions_of(config).values
    return {
        "partners": [str(one) for one in found.partners],
        "resources": [asdict(one) for one in found.resources],
        "proxied": dict(found.proxied),
        "assumptions": [
            {
                "key": one.key,
                "says": one.says,
                "value": values.get(one.key, one.value),
                "seen": one.seen,
                "line": one.line,
                "vouched": one.key in config.confirmed,
            }
            for one in found.findings
        ],
    }


def told_as_tables(found: Probed) -> None:
    """Everything for an operator, and on stderr how it came out."""
    resources: list[list[Json]] = []
    for one in found.resources:
        gaps = ", ".join(f"{name}: {why}" for name, why in one.gaps.items())
        resources.append([one.resource, one.partner, one.get, one.why or gaps or "as documented"])
    print_table("partners", ("id",), [[str(one)] for one in found.partners])
    print_table("resources", ("resource", "partner", "get", "says"), resources)
    rows: list[list[Json]] = [[one.key, one.says, one.seen, one.line] for one in found.findings]
    print_table("assumptions", ("key", "says", "seen", "line for the config"), rows)
    if found.proxied:
        named = ", ".join(f"{name}: {value}" for name, value in found.proxied.items())
        say(f"a proxy stands between this machine and the service: its answers carry {printable(named)}")
        say("    it must not repeat, keep or cache requests: nginx repeats a PUT without `proxy_next_upstream off`;")
        say("    docs/deploying.md says what to check there; one that adds no header cannot be seen from here")
    says = [one.says for one in found.findings]
    counts = ", ".join(f"{says.count(word)} {word}" for word in get_args(Says))
    say(f"{counts}; write the lines that you know to be so under assumptions:")
