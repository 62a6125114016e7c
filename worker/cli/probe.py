"""``probe``: what the service shows of the assumptions, by reading alone."""

import asyncio
from typing import Annotated

import typer

from worker.api.findings import AssumptionFinding
from worker.api.probe import Probed, Resource
from worker.cli.common import assumptions_of, config_of
from worker.cli.output import Format, print_json, print_table, say
from worker.cli.wiring import probe_of
from worker.config import Config
from worker.model.errors import printable
from worker.model.facts import Json

app = typer.Typer()


@app.command("probe")
def probe(
    context: typer.Context,
    partner: Annotated[str | None, typer.Option(help="Ask this partner only. Default: up to three, in turn.")] = None,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Read one of each resource; say of each assumption: confirmed, refuted, or cannot be seen by reading.

    Signs in, and writes nothing; keeps to the budget and the floor of the config. Each finding comes with the line to
    write under `assumptions:`, which confirms it. Says where headers tell of a proxy in between, which may repeat
    a write by itself. Exits 3 beside a running daemon: stop that one first.

    Example: campaign-worker probe --partner partner-id-the-hall
    """
    config = config_of(context)
    found = asyncio.run(probe_of(config, partner or ""))
    if output is Format.json:
        print_json(told_as_json(found, config))
    else:
        told_as_tables(found)


def told_as_tables(found: Probed) -> None:
    """Everything for a person, and on stderr how it came out."""
    print_table("partners", ("id",), [[str(one)] for one in found.partners])
    print_table("resources", ("resource", "partner", "get", "says"), [_row(one) for one in found.resources])
    rows: list[list[Json]] = [[one.key, one.says, one.seen, one.line] for one in found.findings]
    print_table("assumptions", ("key", "says", "seen", "line for the config"), rows)
    for line in _proxies(found):
        say(line)
    say(_summary(found))


def told_as_json(found: Probed, config: Config) -> dict[str, Json]:
    """The object of ``--format json``."""
    return {
        "partners": [str(one) for one in found.partners],
        "resources": [_resource(one) for one in found.resources],
        "proxied": dict(found.proxied),
        "assumptions": [_assumption(one, config) for one in found.findings],
    }


def _resource(one: Resource) -> dict[str, Json]:
    return {
        "resource": one.name,
        "partner": one.partner,
        "get": one.get,
        "status": one.status,
        "why": one.why,
        "gaps": dict(one.gaps),
    }


def _assumption(one: AssumptionFinding, config: Config) -> dict[str, Json]:
    values = assumptions_of(config).values
    return {
        "key": one.key,
        "says": one.says,
        "value": values.get(one.key, one.value),
        "seen": one.seen,
        "line": one.line,
        "vouched": one.key in config.vouched,
    }


def _row(one: Resource) -> list[Json]:
    """One resource for a person: what is wrong with it, or that nothing is."""
    gaps = ", ".join(f"{name}: {why}" for name, why in one.gaps.items())
    return [one.name, one.partner, one.get, one.why or gaps or "as documented"]


def _proxies(found: Probed) -> tuple[str, ...]:
    if not found.proxied:
        return ()
    named = ", ".join(f"{name}: {value}" for name, value in found.proxied.items())
    return (
        f"a proxy stands between this machine and the service: its answers carry {printable(named)}",
        "    it must not repeat, keep or cache requests; nginx repeats a PUT unless `proxy_next_upstream off` is set",
        "    docs/deploying.md says what to check there; one that adds no header cannot be seen from here",
    )


def _summary(found: Probed) -> str:
    says = [one.says for one in found.findings]
    counts = ", ".join(f"{says.count(word)} {word}" for word in ("confirmed", "refuted", "cannot be seen by reading"))
    return f"{counts}; write the lines that you vouch for under assumptions:"
