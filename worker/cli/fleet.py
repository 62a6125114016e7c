"""``fleet``: who works on a ledger that several workers share, and whose each partner is; `status` says it in short."""

from collections.abc import Iterator, Mapping
from datetime import timedelta

import typer

from worker.cli.common import config_of, ledger_url, say_no_ledger
from worker.cli.output import Format, print_json, print_table, when
from worker.cli.wiring import require_fleet
from worker.ledger.reading import LedgerReader, open_reading
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
    told = said_of_partners(replicas, owned)
    if output == "json":
        partners: list[Json] = [
            {"partner": one.partner, "owner": one.owner, "since": spelled(one.since), "listed_at": _listed(told, one)}
            for one in owned
        ]
        print_json({"replicas": [replica_said(one) for one in replicas], "partners": partners})
        return
    rows: Iterator[list[Json]] = (
        [one.id, one.host, one.pid, one.version, _state(one), when(one.since, now), f"{one.lag // MS} ms ago"]
        for one in replicas
    )
    print_table("replicas", REPLICAS, rows)
    shown = ([one.partner, one.owner or "nobody", spelled(one.since), _listed(told, one)] for one in owned)
    print_table("partners", PARTNERS, shown)


def replica_said(one: SeenReplica) -> dict[str, Json]:
    """What is printed of a replica."""
    since, lag_ms = spelled(one.since), one.lag // MS
    told: dict[str, Json] = {"id": one.id, "host": one.host, "pid": one.pid, "version": one.version}
    return {**told, "state": _state(one), "since": since, "lag_ms": lag_ms}


def said_of_all(ledger: LedgerReader) -> dict[str, Json]:
    """What stands in `status` of a fleet for what one process says of itself."""
    replicas, published = ledger.replicas(), ledger.published()
    alive = [one for one in replicas if one.alive]
    rules: dict[str, Json] = {}
    for one in alive:
        rules = {**_mapping(one.said.get("rules")), **{name: value for name, value in rules.items() if value}}
    if published is not None:
        loaded_at, generation = spelled(published.at), published.generation
        rules |= {"hash": hash_of(published.files), "loaded_at": loaded_at, "generation": generation}
    return {
        "running": bool(alive),
        "replicas": [replica_said(one) for one in replicas],
        "cycle_ms": max((ms for ms in _of(alive, "cycle_ms") if isinstance(ms, int)), default=None),
        "unreachable": next(_of(alive, "unreachable"), None),
        "rules": rules,
        "partners": said_of_partners(replicas, ledger.owned()),
        "partners_held": {name: why for held in _of(alive, "partners_held") for name, why in _mapping(held).items()},
    }


def said_of_partners(replicas: tuple[SeenReplica, ...], owned: tuple[Owned, ...]) -> dict[str, Json]:
    """Of each partner what its owner says of it; of one that nobody has, when its list was last complete."""
    said = {one.id: _mapping(one.said.get("partners")) for one in replicas}
    nothing = dict.fromkeys(("last_error", "requests_per_minute", "budget"))
    return {
        one.partner: {
            "last_ok_at": spelled(one.listed_at),
            **nothing,
            **_mapping(said.get(one.owner or "", {}).get(one.partner)),
        }
        for one in owned
    }


def _listed(told: Mapping[str, Json], one: Owned) -> Json:
    return _mapping(told[one.partner]).get("last_ok_at")


def _state(one: SeenReplica) -> str:
    return one.state if one.alive else GONE


def _of(replicas: list[SeenReplica], name: str) -> Iterator[Json]:
    return (one.said[name] for one in replicas if one.said.get(name))


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
