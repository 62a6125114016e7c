"""Workers that share one ledger: who lives, and whose each partner is."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from worker.model.facts import Json, PartnerId

LEASE: Final = timedelta(seconds=5)
"""A replica that was not heard of for so long may be gone; its partners are anybody's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The replica whose a partner is, None for nobody's, and how often that has changed."""

    replica: str | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Which replicas live, and whose each partner is that ever had an owner, at one moment of the server's clock."""

    alive: frozenset[str]
    owners: Mapping[PartnerId, Owner]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A partner that is ours now. ``goodbye``: its owner before, if it had one, had given it back. ``pace``: what that
    one left of its pace, so long ``ago``. ``record``: who it is by the service's word, where that is known."""

    goodbye: bool
    record: str | None = None
    pace: Mapping[str, Json] = field(default_factory=lambda: MappingProxyType({}))
    ago: timedelta = timedelta(0)
