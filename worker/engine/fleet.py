"""Which partners of a fleet this replica watches: a beat a second, and what follows from who else lives.

Each replica sees the same rows and comes to the same sharing: what is free goes to whoever has least, in an order that
is a hash of partner and replica; who has two more than another gives one back, once nothing of it is under way. The
beat runs in the loop that polls, so that a replica whose loop stands loses its partners. Of two that differ all the
same, the partner's row lets one have it.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from worker.model.exchange import Clock, Owner, Shares, Taken
from worker.model.facts import Json, PartnerId

BEAT_S = 1.0
READS_FOR_S = 2.0
"""So long after its last beat a replica still asks the service: long enough before its lease is over that whoever takes
its partners then need not wait for the floor."""
AT_ONCE = 20
"""Of so many partners too many one is handed over in each beat, and of fewer one."""
NOBODY = Owner()
NOTHING_PUBLISHED = "generation 0"
"""What the rules' source says before there are any. A set without rules is one: what was sent is settled under it."""


class FleetRows(Protocol):
    """The rows of the fleet in the ledger. ``epochs``: the partners that are this replica's own."""

    replica: str
    epochs: Mapping[PartnerId, int]

    def beat(self, state: str, /) -> Shares: ...
    def take(self, partner: PartnerId, seen: Owner, /) -> Taken | None: ...
    def identify(self, partner: PartnerId, record: str, named: Collection[PartnerId], /) -> PartnerId: ...
    def release(self, partner: PartnerId, pace: Mapping[str, Json], /) -> None: ...
    def save_pace(self, partner: PartnerId, pace: Mapping[str, Json], /) -> None: ...
    def leave(self) -> None: ...


class Paces(Protocol):
    """The paces of the partners, which go with them. ``lease``: until when requests may leave."""

    def lease(self, until: float) -> None: ...
    def said(self, partner: PartnerId) -> Mapping[str, Json]: ...
    def handed_over(self, partner: PartnerId) -> Mapping[str, Json]: ...
    def take_over(self, partner: PartnerId, said: Mapping[str, Json], *, ago_s: float, goodbye: bool) -> None: ...


class ServersClock:
    """Wall time by the clock of the ledger's server, which is one for all replicas: what each of them records, and what
    limits and halts go by. This machine's wall clock counts until the server was first heard, which is before anything
    is stored; its monotonic clock counts on from each time that it was. ``own``: this machine's clock."""

    def __init__(self, own: Clock) -> None:
        self.own = own
        self._began = own.now() - timedelta(seconds=own.monotonic())
        self.monotonic = own.monotonic
        self.sleep = own.sleep

    def now(self) -> datetime:
        """Between two words of the server it never goes back, whatever becomes of this machine's wall clock."""
        return self._began + timedelta(seconds=self.monotonic())

    def heard(self, at: datetime, after: float, before: float) -> None:
        """It was ``at`` on the server at some moment between these two monotonic seconds. What is known already stays
        wherever it can be so: an answer that was slow makes nothing less exact."""
        earliest, latest = (at - timedelta(seconds=one) for one in (before, after))
        self._began = min(max(self._began, earliest), latest)


def shares(named: Collection[PartnerId], standing: Shares) -> dict[str, list[PartnerId]]:
    """What each replica that lives has now of the partners that are named. Pure."""
    found: dict[str, list[PartnerId]] = {replica: [] for replica in sorted(standing.alive)}
    for partner in sorted(named):
        owner = standing.owners.get(partner, NOBODY).replica
        if owner in found:
            found[owner].append(partner)
    return found


def given(named: Collection[PartnerId], standing: Shares) -> dict[PartnerId, str]:
    """Who is to take each partner that nobody has: whoever has least by then. Pure."""
    counts = {replica: len(own) for replica, own in shares(named, standing).items()}
    taken: dict[PartnerId, str] = {}
    for partner in sorted(named) if counts else ():
        if standing.owners.get(partner, NOBODY).replica not in counts:
            taken[partner] = min(counts, key=lambda replica: (counts[replica], weight(partner, replica)))
            counts[taken[partner]] += 1
    return taken


def surplus(named: Collection[PartnerId], standing: Shares, replica: str) -> list[PartnerId]:
    """What a replica gives back now, so that another that has two fewer can have it. Pure."""
    found = shares(named, standing)
    own, least = found.get(replica, []), min(map(len, found.values()), default=0)
    if len(own) < least + 2:
        return []
    beyond = (len(own) - least) // 2
    return sorted(own, key=lambda partner: weight(partner, replica), reverse=True)[: max(1, beyond // AT_ONCE)]


def weight(partner: PartnerId, replica: str) -> bytes:
    """The least of a partner's is that of the replica which is to have it."""
    return hashlib.sha256(f"{partner} {replica}".encode()).digest()


class Fleet:
    """This replica's part. ``mine``: the partners to watch now; ``leaving``: those that are still its own and are
    given back as soon as nothing of them is under way; ``strangers``: those that are its own, and of which nobody knows
    yet whether they are another partner under a second name. ``speaks``: it tells of what no replica has recorded."""

    def __init__(self, membership: FleetRows, paces: Paces, clock: ServersClock) -> None:
        self._membership = membership
        self._paces = paces
        self._clock = clock
        self._state = "starting"
        self._named: Collection[PartnerId] = ()
        self._known: set[PartnerId] = set()
        self._taken: set[PartnerId] = set()
        self.mine: frozenset[PartnerId] = frozenset()
        self.leaving: set[PartnerId] = set()
        self.strangers: frozenset[PartnerId] = frozenset()
        self.speaks = False

    @property
    def replica(self) -> str:
        """The id under which it lives; another one after it had been given up."""
        return self._membership.replica

    @property
    def owned(self) -> frozenset[PartnerId]:
        """Every partner that is its own, watched or not."""
        return frozenset(self._membership.epochs)

    def beat(self, named: Collection[PartnerId]) -> None:
        """Says that this replica lives, takes what is for it to take, and chooses what it gives back. ``named``: by the
        service, and none before there are rules. Raises `LedgerUnwritable`, and then what it has is its own for a
        moment only."""
        self._named = named
        before, began = self.replica, self._clock.monotonic()
        if self._state != "stopping":  # whoever is told of no partner takes none, and must not be counted on
            self._state = "running" if named else "starting"
        owned = self.owned
        standing = self._membership.beat(self._state)
        self._clock.heard(standing.at, began, self._clock.monotonic())
        self.speaks = self.replica == min(standing.alive, default="")
        lost = owned - self.owned
        for partner in sorted(lost):  # what of it still waits to leave is asked by another
            self._paces.handed_over(partner)
        self._paces.lease(began + READS_FOR_S)
        self._taken &= self.owned
        self.leaving &= self._taken
        if before not in ("", self.replica):  # it was given up: what it knows of its partners ends here
            self.mine = self.strangers = frozenset()
            return
        for partner, replica in given(named, standing).items():
            if replica == self.replica and partner not in lost:  # what was known of it ends first
                self._take(partner, standing)
        if self._state == "running":
            for partner in sorted(self.owned - self._taken):  # no answer came when it was taken
                self._take(partner, standing)
        if not self.leaving:
            self.leaving.update(surplus(named, standing, self.replica))
        self.leaving.update(self.owned - set(named))
        own = frozenset(self._taken) - self.leaving
        self.mine = own if len(named) == 1 else own & self._known
        self.strangers = own - self._known

    def identify(self, partner: PartnerId, record: str) -> PartnerId:
        """Who a stranger is by the service's word: itself, or another partner that is watched already."""
        first = self._membership.identify(partner, record, self._named)
        if first == partner:
            self._known.add(partner)
        return first

    def stop(self) -> None:
        """Everything is to be given back, and nothing is taken."""
        self._state = "stopping"
        self.leaving.update(self.owned)
        self.mine = frozenset()

    def give_back(self, busy: Callable[[PartnerId], bool]) -> None:
        """Gives back what is leaving and of which nothing is under way."""
        for partner in [one for one in sorted(self.leaving) if not busy(one)]:
            self._membership.release(partner, self._paces.handed_over(partner))
            self.leaving.discard(partner)

    def leave(self) -> None:
        """Says goodbye."""
        self._membership.leave()

    def save_pace(self, partner: PartnerId) -> None:
        """Stores what the service has just asked of the partner's pace, for whoever takes it without a goodbye."""
        if partner in self.owned:
            self._membership.save_pace(partner, self._paces.said(partner))

    def _take(self, partner: PartnerId, standing: Shares) -> None:
        taken = self._membership.take(partner, standing.owners.get(partner, NOBODY))
        if taken is not None:
            self._taken.add(partner)
            if taken.record is not None:
                self._known.add(partner)
            self._paces.take_over(partner, taken.pace, ago_s=taken.ago.total_seconds(), goodbye=taken.goodbye)
