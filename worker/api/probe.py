"""Reads one of each resource, through the one gate, and hands what it saw to the judges.

It writes nothing, asks nothing twice within the floor, and never reads the state of a task, which may be read after a
PUT only (API section 8). How many events it looks into is bounded: it stops once it has met a draft and a published
setup. Where one partner cannot show everything, the next one is asked for what is missing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from worker.api.assumptions import Assumptions
from worker.api.client import ApiService
from worker.api.exchanges import Reply
from worker.api.probing import (
    PAGE_PARAMETERS,
    UNSEEN,
    Finding,
    Setup,
    Sights,
    campaigns_path,
    content_of,
    findings,
    has_campaigns,
    is_second,
    page_of,
)
from worker.api.requests import READINGS, path_of
from worker.api.wire import Secret, number_from
from worker.model.errors import NotFound, NotSafe
from worker.model.exchange import Clock, Urgency
from worker.model.facts import GOALS, EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Trace

EVENTS_MAX = 12
"""Events whose setup and campaigns are read, until a draft and a published one are met."""
BENCHMARKS_MAX = 3
PARTNERS_MAX = 3
"""Partners that are asked for what the ones before could not show."""
RECENT = timedelta(days=30)
KEPT = timedelta(seconds=60)
"""An answer of this very probe is asked for once."""
ANY_BUDGET = 100.0
NO_PARTNER = "its token names no partner-id-<slug> group; set operator_prefix, or list partners"
_NO_GAPS: Mapping[str, str] = {}
_MADE_UP = Secret("made-up-by-the-probe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource as one read found it. ``gaps``: documented fields that are missing or ill-typed, with the reason."""

    name: str
    partner: PartnerId
    get: str
    status: int | None
    why: str = ""
    gaps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """What a probe came to. ``proxied``: headers of a proxy that the answers had; none proves nothing."""

    partners: tuple[PartnerId, ...]
    resources: tuple[Resource, ...]
    findings: tuple[Finding, ...]
    proxied: Mapping[str, str] = field(default_factory=dict)


async def probed(service: ApiService, clock: Clock, assumptions: Assumptions, *, settle: str, only: str = "") -> Probed:
    """One probe. ``only``: the one partner to ask. Raises what signing in raises, and `NotFound` for a partner that
    the sign-in does not name."""
    partners = await service.partners()
    if not partners:
        raise NotSafe("the account belongs to no partner", hint=NO_PARTNER)
    if only and PartnerId(only) not in partners:
        raise NotFound(f"the sign-in does not name {only}", hint=f"it names: {', '.join(partners)}")
    asked = (PartnerId(only),) if only else partners[:PARTNERS_MAX]
    resources: list[Resource] = []
    proxied: dict[str, str] = {}
    found: tuple[Finding, ...] = findings(Sights(), assumptions, settle)
    refreshed: str | None = None
    if isinstance(assumptions.values["auth.refresh"], dict):
        refreshed = await service.refreshed() or ""
    for partner in asked:
        probe = _Probe(service=service, clock=clock, assumptions=assumptions, partner=partner)
        sights = replace(await probe.look(), refreshed=refreshed)
        resources += probe.resources
        proxied |= probe.proxied
        found = _better(found, findings(sights, assumptions, settle))
        if not any(one.says == UNSEEN and one.seen != "only a write shows it" for one in found[:-1]):
            break
    return Probed(partners=partners, resources=tuple(resources), findings=found, proxied=proxied)


def _better(old: tuple[Finding, ...], new: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """What either saw; where both saw something, a refutation is worth more than a confirmation."""
    rank = {UNSEEN: 0, "confirmed": 1, "refuted": 2}
    return tuple(max(one, other, key=lambda it: rank[it.says]) for one, other in zip(old, new, strict=True))


@dataclass(slots=True, kw_only=True)
class _Probe:
    """One partner's probe."""

    service: ApiService
    clock: Clock
    assumptions: Assumptions
    partner: PartnerId
    resources: list[Resource] = field(default_factory=list)
    proxied: dict[str, str] = field(default_factory=dict)

    async def look(self) -> Sights:
        """Everything that one partner shows."""
        status = await self.service.raw(self.partner, "/status/")
        self._note("status", status.trace, "" if status.ok else status.why)
        listed = await self.service.raw(self.partner, "/events/", query=(("limit", "100"),), max_age=KEPT)
        self.proxied = {**status.proxied, **listed.proxied}
        wrong = "" if page_of(listed) is not None else listed.why or "the answer is no page of events"
        self._note("events", listed.trace, wrong)
        events = mixed(_records(listed))
        await self._facts(events[0] if events else None)
        return Sights(
            **await self._pages(),
            setups=await self._setups(events),
            benchmarks=await self._benchmarks(events[:BENCHMARKS_MAX]),
            adplatform=await self.service.raw(self.partner, "/integrations/connect/adplatform/status", max_age=KEPT),
            refusing=await self.service.raw(self.partner, "/campaign_results/"),
            # Last of all: the gate keeps the refusal as the last answer of the partner's record.
            made_up=await self.service.raw(self.partner, "/partners/", token=_MADE_UP),
        )

    async def _facts(self, event: Mapping[str, Json] | None) -> None:
        """One of each fact, with the parameters that a rule without any would ask with."""
        partner, defaults = await self._read("partner", event, {}), None
        if event is not None:
            defaults = await self._read("defaults", event, {})
        params = parameters(_record(partner), _record(defaults), event or {}, self.clock.now().date())
        for name, reading in READINGS.items():
            if name not in ("partner", "defaults") and (event is not None or not reading.per_event):
                await self._read(name, event, {one: params[one] for one in reading.params})

    async def _read(self, name: str, event: Mapping[str, Json] | None, params: Mapping[str, Scalar]) -> Fact:
        eid = EventId(str(event["id"])) if event is not None else None
        key = FactKey(name=name, params=tuple(sorted(params.items())))
        fact = await self.service.read(self.partner, eid, key, urgency=Urgency.FACT, max_age=KEPT)
        why = "" if isinstance(fact, Known) else f"{fact.code}: {fact.why}"
        self._note(name, fact.trace, why, fact.gaps if isinstance(fact, Known) else {})
        return fact

    async def _pages(self) -> dict[str, Any]:
        """The smallest page, and the second one by the name in force; then by other names, until one answers it."""
        limit = ("limit", "1")
        first = await self.service.raw(self.partner, "/events/", query=(limit,))
        page, pages = page_of(first), dict[str, Reply]()
        if page is not None and page.total is not None and page.limit is not None and page.total > page.limit:
            for name in dict.fromkeys((self.assumptions.text("events.page_parameter"), *PAGE_PARAMETERS)):
                pages[name] = await self.service.raw(self.partner, "/events/", query=(limit, (name, "2")))
                if is_second(page, page_of(pages[name])):
                    break
        return {"first": first, "pages": pages}

    async def _setups(self, events: Iterable[Mapping[str, Json]]) -> tuple[Setup, ...]:
        """Setups beside the campaigns of their events, until there is one with campaigns and one without."""
        found: list[Setup] = []
        for event in list(events)[:EVENTS_MAX]:
            eid = EventId(str(event["id"]))
            campaigns = await self.service.raw(self.partner, path_of("/events/{eid}/campaigns", eid=eid), max_age=KEPT)
            setup = await self.service.raw(self.partner, path_of("/setup_processes/{eid}", eid=eid), max_age=KEPT)
            found.append(Setup(event=eid, setup=setup, campaigns=campaigns))
            path = campaigns_path(Sights(setups=tuple(found)), self.assumptions)
            running = [one for one in found if has_campaigns(one, path)]
            if running and any(content_of(one.setup) is not None for one in found if one not in running):
                break
        return tuple(found)

    async def _benchmarks(self, events: Iterable[Mapping[str, Json]]) -> tuple[Reply, ...]:
        paths = [path_of("/events/{eid}/lookout_prediction_benchmark", eid=str(event["id"])) for event in events]
        kind = (("type", "capacity"),)
        return tuple([await self.service.raw(self.partner, path, query=kind, max_age=KEPT) for path in paths])

    def _note(self, name: str, trace: Trace | None, why: str, gaps: Mapping[str, str] = _NO_GAPS) -> None:
        get, status = (trace.get, trace.status) if trace is not None else ("", None)
        self.resources.append(
            Resource(name=name, partner=self.partner, get=get, status=status, why=why, gaps=dict(gaps))
        )


def mixed(events: Iterable[Mapping[str, Json]]) -> list[Mapping[str, Json]]:
    """The events in an order that soon shows each kind of them: one of every campaign state, then the next of each."""
    kinds: dict[tuple[str, ...], list[Mapping[str, Json]]] = {}
    for event in events:
        names = ("status", "campaign_status", "client_campaign_status")
        kinds.setdefault(tuple(str(event.get(name)) for name in names), []).append(event)
    rounds = max((len(kind) for kind in kinds.values()), default=0)
    return [kind[number] for number in range(rounds) for kind in kinds.values() if number < len(kind)]


def parameters(
    partner: Mapping[str, Json], defaults: Mapping[str, Json], event: Mapping[str, Json], today: date
) -> dict[str, Scalar]:
    """Every parameter that some fact takes, from what is known, else as good as any."""
    budget, goal = number_from(defaults.get("total_budget")), defaults.get("goal")
    currency, city = partner.get("currency"), event.get("city")
    return {
        "budget": budget if budget is not None and budget > 0 else ANY_BUDGET,
        "goal": goal if isinstance(goal, str) else GOALS[0],
        "runtime_in_days": 7,
        "type": "capacity",
        "currency": currency if isinstance(currency, str) else "EUR",
        "start_date": str(today - RECENT),
        "end_date": str(today),
        "has_pixel": "false",
        "lead_form_id": "",
        "location": city if isinstance(city, str) and city else "Berlin",
        "distance_unit": "kilometer",
    }


def _records(reply: Reply) -> list[dict[str, Json]]:
    page = page_of(reply)
    return [] if page is None else [record.value for record in page.records.values()]


def _record(fact: Fact | None) -> Mapping[str, Json]:
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, dict) else {}
