"""The state of the service, partner by partner, with its own past.

Everything about one event is one frozen record, and every change appends a version: reads can be answered as of some
seconds ago (a lagging replica), and the books can compare before with after. Two partners may use the same event id;
they share nothing but the letters.

Never reads a clock: the moment is an argument. Never answers requests and never judges them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from worker.sandbox.delivery import Json, Record

ALWAYS = -math.inf
HISTORY_S = 3600.0
MAX_VERSIONS = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """The background work of one client_campaign_status write."""

    done_at_s: float
    result: str
    pending: str

    def state(self, at_s: float) -> str:
        return self.result if at_s >= self.done_at_s else self.pending


@dataclass(frozen=True, kw_only=True, slots=True)
class Happening:
    """One event of one partner with all that hangs on it. `suggested` None: worked out from the clusters."""

    record: Record
    setup: Record | None = None
    published: bool = False
    campaigns: tuple[Record, ...] = ()
    tc_run_id: int = 1
    clusters: tuple[Record, ...] = ()
    suggested: tuple[Record, ...] | None = None
    defaults: Record = field(default_factory=dict)
    lower_limit: float = 0.0
    upper_limit: float = 1000.0
    task: Task | None = None
    task_fails: bool = False
    sales: tuple[Record, ...] = ()
    last_updated_on_fe: str | None = None

    @property
    def eid(self) -> str:
        return str(self.record["id"])

    def with_fields(self, changes: Record) -> Happening:
        return replace(self, record={**self.record, **changes})


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant:
    """What belongs to the partner and not to one event, and the events it starts with."""

    partner_id: str
    record: Record
    permissions: tuple[Json, ...] = ()
    features: tuple[Json, ...] = ()
    adplatform_connected: bool = True
    events: tuple[Happening, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Version:
    at_s: float
    happening: Happening | None


class World:
    """All partners and the versions of all their events."""

    def __init__(self, tenants: Iterable[Tenant] = ()) -> None:
        self._tenants: dict[str, Tenant] = {}
        self._seeds: dict[str, Tenant] = {}
        self._versions: dict[str, dict[str, list[Version]]] = {}
        self._order: dict[str, tuple[str, ...]] = {}
        self._generation = 0
        for tenant in tenants:
            self.add_tenant(tenant)

    def add_tenant(self, tenant: Tenant) -> None:
        self._tenants[tenant.partner_id] = self._seeds[tenant.partner_id] = tenant
        self._versions[tenant.partner_id] = {each.eid: [Version(at_s=ALWAYS, happening=each)] for each in tenant.events}
        self._order.pop(tenant.partner_id, None)

    @property
    def partners(self) -> tuple[str, ...]:
        return tuple(self._tenants)

    def tenant(self, partner: str) -> Tenant | None:
        return self._tenants.get(partner)

    def put_tenant(self, tenant: Tenant) -> None:
        self._tenants[tenant.partner_id] = tenant

    def holders(self, eid: str) -> tuple[str, ...]:
        """The partners that have an event of this id right now."""
        return tuple(partner for partner in self._tenants if self.at(partner, eid) is not None)

    def at(self, partner: str, eid: str, as_of_s: float | None = None) -> Happening | None:
        """The event as it is, or as it was at a moment of the past."""
        versions = self._versions.get(partner, {}).get(eid, [])
        for version in reversed(versions):
            if as_of_s is None or version.at_s <= as_of_s:
                return version.happening
        return None

    def put(self, partner: str, eid: str, happening: Happening | None, at_s: float) -> None:
        """Appends a version; None takes the event away. What is older than anyone may ask for is let go."""
        versions = self._versions[partner].setdefault(eid, [])
        before = versions[-1].happening if versions else None
        versions.append(Version(at_s=at_s, happening=happening))
        if len(versions) > MAX_VERSIONS or (len(versions) > 2 and versions[1].at_s < at_s - HISTORY_S):
            del versions[0]
        if _place(before) != _place(happening):
            self._order.pop(partner, None)

    def order(self, partner: str, as_of_s: float | None = None) -> tuple[str, ...]:
        """The ids of the partner's events, by start and id, so that paging is stable while nothing comes or goes."""
        known = self._order.get(partner) if as_of_s is None else None
        if known is not None:
            return known
        present = [found for eid in self._versions[partner] if (found := self.at(partner, eid, as_of_s))]
        order = tuple(each.eid for each in sorted(present, key=_place))
        if as_of_s is None:
            self._order[partner] = order
        return order

    def changed_at_s(self, partner: str, eid: str, as_of_s: float | None = None) -> float:
        """The second at which the event's record last became another one."""
        versions = [one for one in self._versions[partner][eid] if as_of_s is None or one.at_s <= as_of_s]
        found = [
            after.at_s
            for before, after in zip([None, *versions], versions, strict=False)
            if before is None or _record_of(before) != _record_of(after)
        ]
        return found[-1] if found else ALWAYS

    def listing(self, partner: str, as_of_s: float | None = None) -> list[Happening]:
        """Every event of the partner, in order."""
        return [found for eid in self.order(partner, as_of_s) if (found := self.at(partner, eid, as_of_s))]

    def reset(self, result: str, at_s: float) -> None:
        """The weekly reset: everything as it began, or nothing left, or the same events under new ids."""
        self._generation += 1
        for partner, seed in self._seeds.items():
            self._tenants[partner] = seed
            for eid in tuple(self._versions[partner]):
                self.put(partner, eid, None, at_s)
            for each in seed.events if result != "empty" else ():
                renamed = f"{each.eid}-r{self._generation}" if result == "new_ids" else each.eid
                self.put(partner, renamed, each.with_fields({"id": renamed}), at_s)


def _record_of(version: Version) -> Record | None:
    return version.happening.record if version.happening is not None else None


def _place(happening: Happening | None) -> tuple[str, str]:
    return ("", "") if happening is None else (str(happening.record.get("start_date_time") or ""), happening.eid)


def same_cluster(campaign: Record, tc: Json, tc_run_id: Json) -> bool:
    """A campaign is named by cluster and run; the run may be spelled as a number or as text (API section 2.1)."""
    return campaign.get("tc") == tc and str(campaign.get("tc_run_id")) == str(tc_run_id)


def merged(first: Record | None, second: Record) -> Mapping[str, Json]:
    return {**(first or {}), **second}
