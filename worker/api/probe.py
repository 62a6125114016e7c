"""Reads one of each resource, through the one gate, and hands what it saw to the judges.

It writes nothing, asks nothing twice within the floor, and never reads the state of a task, which may be read after a
PUT only (API section 8). How many events it looks into is bounded: it stops once it has met a draft and a published
setup. Where one partner cannot show everything, the next one is asked for what is missing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta

from worker.api.answers import EventPage, NoValue, number_from, page_from
from worker.api.assumptions import Assumptions
from worker.api.client import ApiService
from worker.api.exchanges import ReadResponse
from worker.api.facts import FACT_SOURCES
from worker.api.findings import (
    ONLY_A_WRITE,
    PAGE_PARAMETERS,
    UNSEEN,
    AssumptionFinding,
    SetupSeen,
    Sights,
    campaigns_path,
    findings,
    is_second,
)
from worker.api.requests import path_of
from worker.model.errors import NotFound, NotSafe
from worker.model.exchange import Clock, SecretValue, Urgency
from worker.model.facts import GOALS, NO_GAPS, EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Trace

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
PROXY_HEADERS = (
    "via",
    "age",
    "x-cache",
    "x-cache-status",
    "x-varnish",
    "x-served-by",
    "cf-ray",
    "x-amz-cf-id",
    "x-azure-ref",
    "x-envoy-upstream-service-time",
)
"""Headers that proxies, caches and balancers add; the service's document knows none of them."""
PROXIES = re.compile(
    r"nginx|openresty|envoy|haproxy|varnish|traefik|caddy|squid|cloudfront|cloudflare|akamai|awselb", re.IGNORECASE
)
"""Names in ``Server`` of what rather stands before a service than is one."""
_MADE_UP = SecretValue("made-up-by-the-probe")

EventRecord = Mapping[str, Json]


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
    findings: tuple[AssumptionFinding, ...]
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
    refreshed = await service.refreshed() if isinstance(assumptions.values["auth.refresh"], dict) else None
    resources: list[Resource] = []
    proxied: dict[str, str] = {}
    found = findings(Sights(), assumptions, settle)
    for partner in asked:
        probe = PartnerProbe(service=service, clock=clock, assumptions=assumptions, partner=partner)
        sights = replace(await probe.sights(), refreshed=refreshed)
        resources += probe.resources
        proxied |= probe.proxied
        found = _better(found, findings(sights, assumptions, settle))
        if not any(one.says == UNSEEN and one.seen != ONLY_A_WRITE for one in found[:-1]):
            break
    return Probed(partners=partners, resources=tuple(resources), findings=found, proxied=proxied)


def _better(old: tuple[AssumptionFinding, ...], new: tuple[AssumptionFinding, ...]) -> tuple[AssumptionFinding, ...]:
    """What either saw; where both saw something, a refutation is worth more than a confirmation."""
    rank = {UNSEEN: 0, "confirmed": 1, "refuted": 2}
    return tuple(max(one, other, key=lambda it: rank[it.says]) for one, other in zip(old, new, strict=True))


@dataclass(slots=True, kw_only=True)
class PartnerProbe:
    """One partner's probe."""

    service: ApiService
    clock: Clock
    assumptions: Assumptions
    partner: PartnerId
    resources: list[Resource] = field(default_factory=list)
    proxied: dict[str, str] = field(default_factory=dict)

    async def sights(self) -> Sights:
        """Everything that one partner shows."""
        status = await self._get("/status/", fresh=True)
        self._note("status", status.trace, "" if status.ok else status.why)
        listed = await self._get("/events/", ("limit", "100"))
        page = _page(listed)
        self._note("events", listed.trace, "" if page is not None else listed.why or "the answer is no page of events")
        for reply in (status, listed):
            self._note_proxy(reply)
        events = mixed([] if page is None else [record for record, _ in page.records.values()])
        await self._facts(events[0] if events else None)
        first, pages = await self._pages()
        paths = [path_of("/events/{eid}/lookout_prediction_benchmark", eid=str(event["id"])) for event in events]
        benchmarks = [_content(await self._get(path, ("type", "capacity"))) for path in paths[:BENCHMARKS_MAX]]
        return Sights(
            first=first,
            pages=pages,
            setups=await self._setups(events),
            benchmarks=tuple(content for content in benchmarks if content is not None),
            adplatform=_content(await self._get("/integrations/connect/adplatform/status")),
            refusing=await self._get("/campaign_results/", fresh=True),
            # Last of all: the gate keeps the refusal as the last answer of the partner's record.
            made_up=await self.service.raw(self.partner, "/partners/", token=_MADE_UP),
        )

    async def _get(self, path: str, *query: tuple[str, str], fresh: bool = False) -> ReadResponse:
        age = timedelta(0) if fresh else KEPT
        return await self.service.raw(self.partner, path, query=query, max_age=age)

    async def _facts(self, event: EventRecord | None) -> None:
        """One of each fact, with the parameters that a rule without any would ask with."""
        partner, defaults = await self._read("partner", event, {}), None
        if event is not None:
            defaults = await self._read("defaults", event, {})
        params = parameters(_record(partner), _record(defaults), event or {}, self.clock.now().date())
        for name, source in FACT_SOURCES.items():
            if name not in ("partner", "defaults") and (event is not None or not source.per_event):
                await self._read(name, event, {one: params[one] for one in source.params})

    async def _read(self, name: str, event: EventRecord | None, params: Mapping[str, Scalar]) -> Fact:
        eid = EventId(str(event["id"])) if event is not None else None
        key = FactKey(name=name, params=tuple(sorted(params.items())))
        fact = await self.service.read(self.partner, eid, key, urgency=Urgency.FACT, max_age=KEPT)
        why = "" if isinstance(fact, Known) else f"{fact.code}: {fact.why}"
        self._note(name, fact.trace, why, fact.gaps if isinstance(fact, Known) else NO_GAPS)
        return fact

    async def _pages(self) -> tuple[EventPage | None, dict[str, EventPage | None]]:
        """The smallest page, and the second one by the name in force; then by other names, until one answers it."""
        limit = ("limit", "1")
        first, pages = _page(await self._get("/events/", limit, fresh=True)), dict[str, EventPage | None]()
        if first is not None and first.total is not None and first.limit is not None and first.total > first.limit:
            for name in dict.fromkeys((self.assumptions.text("events.page_parameter"), *PAGE_PARAMETERS)):
                pages[name] = _page(await self._get("/events/", limit, (name, "2"), fresh=True))
                if is_second(first, pages[name]):
                    break
        return first, pages

    async def _setups(self, events: Iterable[EventRecord]) -> tuple[SetupSeen, ...]:
        """Setups beside the campaigns of their events, until there is one with campaigns and one without."""
        found: list[SetupSeen] = []
        for event in list(events)[:EVENTS_MAX]:
            eid = EventId(str(event["id"]))
            campaigns = _content(await self._get(path_of("/events/{eid}/campaigns", eid=eid)))
            setup = await self._get(path_of("/setup_processes/{eid}", eid=eid))
            gone = setup.status == 404
            found.append(SetupSeen(event=eid, setup=_content(setup), gone=gone, campaigns=campaigns))
            path = campaigns_path(Sights(setups=tuple(found)), self.assumptions)
            resting = [one for one in found if not one.running(path)]
            if len(resting) < len(found) and any(one.setup is not None for one in resting):
                break
        return tuple(found)

    def _note(self, name: str, trace: Trace | None, why: str, gaps: Mapping[str, str] = NO_GAPS) -> None:
        get, status = (trace.get, trace.status) if trace is not None else ("", None)
        self.resources.append(
            Resource(name=name, partner=self.partner, get=get, status=status, why=why, gaps=dict(gaps))
        )

    def _note_proxy(self, reply: ReadResponse) -> None:
        named = [name for name in PROXY_HEADERS if name in reply.headers]
        if PROXIES.search(reply.headers.get("server", "")):
            named.append("server")
        self.proxied |= {name: self.service.header(reply, name) for name in named}


def mixed(events: Iterable[EventRecord]) -> list[EventRecord]:
    """The events in an order that soon shows each kind of them: one of every campaign state, then the next of each."""
    kinds: dict[tuple[str, ...], list[EventRecord]] = {}
    for event in events:
        names = ("status", "campaign_status", "client_campaign_status")
        kinds.setdefault(tuple(str(event.get(name)) for name in names), []).append(event)
    rounds = max((len(kind) for kind in kinds.values()), default=0)
    return [kind[number] for number in range(rounds) for kind in kinds.values() if number < len(kind)]


def parameters(partner: EventRecord, defaults: EventRecord, event: EventRecord, today: date) -> dict[str, Scalar]:
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


def _content(reply: ReadResponse) -> Json:
    """The JSON of a 2xx; None for anything else."""
    try:
        return reply.json()
    except NoValue:
        return None


def _page(reply: ReadResponse) -> EventPage | None:
    """One page of the list; None where it is none."""
    try:
        return page_from(reply.json())
    except NoValue:
        return None


def _record(fact: Fact | None) -> EventRecord:
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, dict) else {}
