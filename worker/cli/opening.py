"""The config and where its ledger lies: what every command needs first, without the weight of the daemon's parts."""

from collections.abc import Mapping
from pathlib import Path

from worker.api.assumptions import assumptions_from
from worker.config import Assumed, Config, load_config
from worker.ledger.places import place_of
from worker.model.facts import Json


def config_from(path: Path) -> Config:
    """The config of a file, its assumptions checked against the register. Raises `InputErrors` with every mistake."""

    def check(given: Mapping[str, Json]) -> tuple[Assumed, ...]:
        return tuple(Assumed(key=one.key, message=one.message, hint=one.hint) for one in assumptions_from(given)[1])

    return load_config(path, check)


def ledger_url(config: Config) -> str:
    """The config's ledger as a URL with an absolute path."""
    return f"sqlite:///{place_of(config.ledger, config.folder).file}"
