"""``status``: what the daemon does now, from the ledger alone."""

from datetime import datetime, timedelta
from typing import Annotated

import typer

from worker.cli.app import app, invocation
from worker.cli.common import config_of
from worker.cli.output import Format, print_json, print_table, say
from worker.cli.wiring import ledger_url
from worker.ledger.lock import holder
from worker.ledger.places import place_of
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.commits import DaemonStatus
from worker.model.facts import Json
from worker.system import utc_now

HEALTHY_INTERVALS = 3


@app.command("status")
def status(
    context: typer.Context,
    healthy: Annotated[
        bool, typer.Option("--healthy", help="Exit 1 unless a complete cycle is younger than three intervals.")
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Print what the daemon does: partners, rules in force, writes by state, halts. Needs no credentials."""
    config = config_of(invocation(context))
    now = utc_now()
    url = ledger_url(config)
    with open_reading(url) as ledger:
        found = _status(ledger, holder(place_of(url)), now)
    if healthy:
        why = _unhealthy(found, now, config.poll.interval)
        if why is not None:
            say(f"not healthy: {why}")
            raise typer.Exit(1)
        say("healthy")
        return
    if output is Format.json:
        print_json(found)
    else:
        _print(found)


def _status(ledger: LedgerReader, pid: int | None, now: datetime) -> dict[str, Json]:
    """The object of the contract. ``since`` and what follows are what the last daemon said of itself."""
    said: DaemonStatus | None = ledger.status()
    body = dict(said.body) if said is not None else {}
    current = said is not None and pid is not None and pid == said.pid
    writes: dict[str, Json] = {str(state): count for state, count in ledger.state_counts().items()}
    halts: list[Json] = [
        {
            "partner": halt.partner,
            "rule": halt.rule,
            "until": halt.until.isoformat() if halt.until else None,
            "because": halt.because,
            "by": halt.by,
        }
        for halt in ledger.halts(now)
    ]
    return {
        "running": pid is not None,
        "pid": pid,
        "since": _spelled(said.since) if current and said is not None else None,
        "cycle_ms": body.get("cycle_ms"),
        "unreachable": body.get("unreachable"),
        "rules": body.get("rules", {"hash": None, "files_hash": None, "loaded_at": None, "error": None}),
        "partners": body.get("partners", {}),
        "writes": writes,
        "halts": halts,
    }


def _unhealthy(found: dict[str, Json], now: datetime, interval: timedelta) -> str | None:
    """Why the worker is not healthy, or None."""
    if not found["running"]:
        return "no daemon holds the ledger"
    partners = found["partners"]
    if not isinstance(partners, dict) or not partners:
        unreachable = found["unreachable"]
        return f"no partner is watched yet{f': {unreachable}' if unreachable else ''}"
    for partner, said in partners.items():
        last = said.get("last_ok_at") if isinstance(said, dict) else None
        if not isinstance(last, str):
            return f"{partner}: no complete cycle yet"
        age = now - datetime.fromisoformat(last)
        if age > HEALTHY_INTERVALS * interval:
            return f"{partner}: the last complete cycle is {age.total_seconds():.0f} s old"
    return None


def _print(found: dict[str, Json]) -> None:
    rules = found["rules"] if isinstance(found["rules"], dict) else {}
    rows: list[list[Json]] = [
        ["running", f"pid {found['pid']} since {found['since']}" if found["running"] else "no"],
        ["last cycle", f"{found['cycle_ms']} ms" if found["cycle_ms"] is not None else "none yet"],
        ["rules", f"{str(rules.get('hash') or 'none')[:12]} since {rules.get('loaded_at')}"],
    ]
    if rules.get("error"):
        rows.append(["rules error", rules["error"]])
    if found["unreachable"]:
        rows.append(["unreachable", found["unreachable"]])
    partners = found["partners"] if isinstance(found["partners"], dict) else {}
    rows.extend([f"partner {partner}", said] for partner, said in partners.items())
    writes = found["writes"] if isinstance(found["writes"], dict) else {}
    rows.append(["writes", ", ".join(f"{state} {count}" for state, count in writes.items()) or "none"])
    halts = found["halts"] if isinstance(found["halts"], list) else []
    rows.append(["halts", halts or "none"])
    print_table("status", ("what", "is"), rows)


def _spelled(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
