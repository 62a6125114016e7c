"""``fleet``: who works on a ledger that several workers share, and whose each partner is; `status` says it in short."""

from collections.abc import Iterator
from datetime import timedelta

import typer

from worker.cli.common import config_of, ledger_url, say_no_ledger
from worker.cli.output import Format, print_json, print_table, when
from worker.cli.wiring import require_fleet
from worker.ledger.reading import LedgerReader, open_reading, part_of, together
from worker.model.commits import Owned, SeenReplica
from worker.model.facts import Json, spelled
from worker.rules.load import hash_of
from worker.system import utc_now

app = typer.Typer()

REPLICAS = ("replica", "host", "pid", "version", "state", "since", "last heard of")
PARTNERS = ("partner", "owner", "since", "last complete poll")
GONE = "gone"
"""The state of a replica that was not heard of for longer than a lease."""
MS = timedelta(milliseconds=1)


@app.command("fleet")
def fleet(context: typer.Context, output: Format = "table") -> None:
    """Print the workers that share the ledger, and which of them each partner belongs to. Needs no credentials.

    Example: campaign-worker fleet --format json
    """
    config, now = config_of(context), utc_now()
    require_fleet(config)
    url = ledger_url(config)
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
        [one.id, one.host, one.pid, one.version, _state(one), when(one.since, now), f"{one.lag // MS} ms ago"]
        for one in replicas
    )
    print_table("replicas", REPLICAS, rows)
    shown = ([one.partner, one.owner or "nobody", spelled(one.since), listed(one)] for one in owned)
    print_table("partners", PARTNERS, shown)


def replica_said(one: SeenReplica) -> dict[str, Json]:
    """What is printed of a replica."""
    since, lag_ms = spelled(one.since), one.lag // MS
    told: dict[str, Json] = {"id": one.id, "host": one.host, "pid": one.pid, "version": one.version}
    return {**told, "state": _state(one), "since": since, "lag_ms": lag_ms}


def said_of_all(ledger: LedgerReader) -> dict[str, Json]:
    """What stands in `status` of a fleet for what one process says of itself."""
    replicas, published, status = ledger.replicas(), ledger.published(), ledger.status()
    said: dict[str, Json] = {} if status is None else {**status.body}
    rules = {**part_of(said, "rules")}
    if published is not None:
        loaded_at, generation = spelled(published.at), published.generation
        rules |= {"hash": hash_of(published.files), "loaded_at": loaded_at, "generation": generation}
    return {
        **{name: said.get(name) for name in ("cycle_ms", "unreachable")},
        **{name: {**part_of(said, name)} for name in ("partners", "partners_held")},
        "running": any(one.alive for one in replicas),
        "replicas": [replica_said(one) for one in replicas],
        "rules": rules,
    }


def _state(one: SeenReplica) -> str:
    return one.state if one.alive else GONE
