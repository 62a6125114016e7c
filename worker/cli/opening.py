"""Where a config's ledger lies: what every command needs first, without the weight of the daemon's parts."""

from worker.config import Config
from worker.ledger.places import place_of


def ledger_url(config: Config) -> str:
    """The config's ledger as a URL with an absolute path."""
    return f"sqlite:///{place_of(config.ledger, config.folder).file}"
