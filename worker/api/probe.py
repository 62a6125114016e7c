"""Reads one of each resource, through the one gate, and says of each assumption: confirmed, refuted, or cannot be seen
by reading.

It writes nothing, asks nothing twice within the floor, and never reads the state of a task, which may be read after a
PUT only (API section 8). How many events it looks into is bounded: it stops once it has met a draft and a published
setup. A judge confirms only what it saw itself: an answer that would look the same under another assumption confirms
nothing. Where something else is plainly there, the finding has the value to write into the config; where it is not
plain, it says what was seen and leaves the value to the operator.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Literal

from worker.api.answers import EventPage, Malformed, NoValue, found_at, number_from, page_from, run_id_from
from worker.api.assumptions import AMBIGUOUS, ASSUMPTIONS, SETTLE, Assumptions
from worker.api.client import ApiService
from worker.api.exchanges import REFUSALS, ReadResponse, codes_in
from worker.api.facts import FACT_SOURCES, SHARES, SURELY_PERCENT
from worker.api.requests import AuthAnswer, path_of
from worker.model.errors import NotFound, NotSafe, shortened
from worker.model.exchange import Clock, SecretValue, Urgency
from worker.model.facts import GOALS, NO_GAPS, EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Trace, record_of

# The judges, one for each key that reading can tell of; every other key is for a write to show. Pure.

Says = Literal["confirmed", "refuted", "cannot be seen by reading"]
UNSEEN: Says = "cannot be seen by reading"
ONLY_A_WRITE = "only a write shows it"
PAGE_PARAMETERS = ("page", "page_number", "pageNumber", "pageNo", "page_no", "p", "currentPage", "pg")
"""Names that services give to the page; the one in force is tried first."""
CONNECTED_WORDS = frozenset({"connected", "active", "linked", "ok"})
CONNECTED_NAME = re.compile(r"(?<![a-z])(?<!not_)(is_?)?(connected|active|linked)$", re.IGNORECASE)
STATE_NAMES = ("state", "status", "phase", "stage", "lifecycle")
LONGEST_WORD = 40
DEEPEST = 3
"""How far below the top of an answer something is looked for."""
_SHOWN_MAX = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class AssumptionFinding:
    """What was found about one key. ``value``: what to write; ``known`` is false where only the operator can say it."""

    key: str
    says: Says
    seen: str
    value: Json = None
    known: bool = True

    @property
    def line(self) -> str | None:
        """The line for the config, below ``assumptions:``; None where the value is not known."""
        if self.key == SETTLE:
            return f"safety: {{settle: {self.value}}}"
        return f"{self.key}: {json.dumps(self.value, ensure_ascii=False)}" if self.known else None

    def confirmed(self, seen: str) -> "AssumptionFinding":
        """The value in force is right."""
        return replace(self, says="confirmed", seen=seen)

    def refuted(self, seen: str, *right: Json) -> "AssumptionFinding":
        """The value in force is wrong; the one that is right, where it can be told."""
        return replace(self, says="refuted", seen=seen, value=right[0] if right else None, known=bool(right))

    def unseen(self, seen: str) -> "AssumptionFinding":
        """Nothing speaks for the value in force, or against it."""
        return replace(self, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupSeen:
    """The setup of one event, and its campaigns, read one after the other; None where there was no JSON. ``gone``: it
    answered 404."""

    event: EventId
    setup: Json
    gone: bool
    campaigns: Json

    def running(self, path: str) -> bool | None:
        """Whether the event has campaigns; None where its answer does not tell."""
        found = _at(path, self.campaigns)
        return bool(found) if isinstance(found, list) else None

    def word(self, name: str) -> str | None:
        """What a field of the setup says, if that is a word."""
        found = self.setup.get(name) if isinstance(self.setup, dict) else None
        return found if isinstance(found, str) and 0 < len(found) <= LONGEST_WORD else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """All that one probe has seen. ``pages``: answers for page 2 by the parameter that asked for it, in the order of
    asking. ``refreshed``: None where it was not tried. ``benchmarks``: with ``type: capacity``, those with JSON.
    ``made_up``: our own record asked for with a token that is none. ``refusing``: a path that is documented to turn
    partners away."""

    first: EventPage | None = None
    pages: Mapping[str, EventPage | None] = field(default_factory=dict)
    setups: tuple[SetupSeen, ...] = ()
    adplatform: Json = None
    benchmarks: tuple[Json, ...] = ()
    made_up: ReadResponse | None = None
    refusing: ReadResponse | None = None
    refreshed: AuthAnswer | None = None


def findings(sights: Sights, assumptions: Assumptions, settle: str) -> tuple[AssumptionFinding, ...]:
    """One finding for every assumption, in the order of the register. ``settle``: the config's ``safety.settle``."""
    late = "how late an effect, or a read, can be shows only when one is late"
    judged = [_finding(key, sights, assumptions) for key in ASSUMPTIONS]
    return (*judged, AssumptionFinding(key=SETTLE, says=UNSEEN, seen=late, value=settle))


def _finding(key: str, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    unseen = AssumptionFinding(key=key, says=UNSEEN, seen=ONLY_A_WRITE, value=assumptions.values[key])
    judge = JUDGES.get(key)
    return unseen if judge is None else judge(unseen, sights, assumptions)


def is_second(first: EventPage, page: EventPage | None) -> bool:
    """Whether a page is not the first again."""
    return page is not None and page.page != first.page and bool(page.ids) and page.ids != first.ids


def _page_parameter(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    first = sights.first
    if first is None:
        return it.unseen("the list of events could not be read")
    if first.total is None or first.limit is None:
        return it.unseen("the list does not say its total and limit")
    if first.total <= first.limit:
        return it.unseen(f"{first.total} events make only one page")
    for name, page in sights.pages.items():
        if is_second(first, page):
            seen = f"?{name}=2 answers page 2"
            return it.confirmed(seen) if name == it.value else it.refuted(seen, name)
    tried = ", ".join(sights.pages)
    return it.refuted(f"no page 2 by any of: {tried}") if tried else it.unseen("page 2 could not be read")


def _refresh(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    if it.value is None:
        return it.confirmed("signing in again works, which needs no other path")
    answer = sights.refreshed
    if answer is None:
        return it.unseen("it was not tried")
    if not answer.why:
        return it.confirmed("it brought a new token")
    tells = answer.status is not None and answer.status < 500 and answer.status not in AMBIGUOUS
    return it.refuted(answer.why, None) if tells else it.unseen(answer.why)


def _denied(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    """Both refusals must be known as such. A status that may hide an effect is never proposed."""
    asked = [("a made-up token", sights.made_up), ("a path that turns partners away", sights.refusing)]
    answers = [(what, reply) for what, reply in asked if reply is not None and reply.status is not None]
    refusals = [(what, reply) for what, reply in answers if reply.denied or _turns_away(reply.status)]
    if not any(what == "a made-up token" for what, _ in refusals):
        return it.unseen("; ".join(_answered(what, reply) for what, reply in answers) or "no answer")
    seen = "; ".join(_answered(what, reply) for what, reply in refusals)
    unknown = [reply for _, reply in refusals if not reply.denied]
    if not unknown:
        return it.confirmed(seen)
    if any(reply.status in AMBIGUOUS or not 400 <= (reply.status or 0) <= 499 for reply in unknown):
        return it.refuted(f"{seen}; such a status may hide an effect")
    return it.refuted(seen, _wider(it.value, unknown))


def _turns_away(status: int | None) -> bool:
    """Whether a status says anything of who asks: a redirect, perhaps to a page for signing in, or a refusal."""
    return status is not None and 300 <= status <= 499 and status not in (404, 408, 425, 429)


def _answered(what: str, reply: ReadResponse) -> str:
    return f"{what}: {reply.status} {', '.join(_codes(reply))}".rstrip()


def _codes(reply: ReadResponse) -> list[str]:
    return sorted(code for code in codes_in(reply.body) if code.startswith("error."))


def _wider(value: Json, unknown: Iterable[ReadResponse]) -> Json:
    """The value in force, and what would have been needed: a code where there is one, because it says more than a
    status that may stand for anything else too."""
    denied = value if isinstance(value, dict) else {}
    statuses, codes = ([*part] if isinstance(part := denied.get(name), list) else [] for name in ("status", "codes"))
    for reply in unknown:
        named = _codes(reply)
        if named and reply.status in REFUSALS:
            codes += [code for code in named if code not in codes]
        elif reply.status not in statuses:
            statuses.append(reply.status)
    return {"status": statuses, "codes": codes}


# Where a setup says whether it is a draft, and in which words, told from setups beside their events' campaigns.
#
# Campaigns run only once a setup is published, so the words of events with campaigns are the words for published, and
# the words that only events without campaigns have are the words for draft. A field is taken for the state's only where
# it tells the two apart.


def _state_field(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    seen = [one for one in sights.setups if isinstance(one.setup, dict)]
    value, path = assumptions.text("setup.state_field"), campaigns_path(sights, assumptions)
    if not seen or not isinstance(first := seen[0].setup, dict):
        return it.unseen("no setup was met that can be read")
    if all(one.word(value) for one in seen):
        return it.confirmed(", ".join(f"{one.word(value)} on {one.event}" for one in seen[:3]))
    names = [name for name in first if _may_be_state(name, seen, path)]
    if len(names) == 1:
        return it.refuted(f"there is no {value}; {names[0]} is {first[names[0]]} on {seen[0].event}", names[0])
    return it.refuted(f"no field {value} with a word in it among: {', '.join(sorted(first))}")


def _state_words(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """The words for a draft, or for a published setup."""
    field, path = _finding("setup.state_field", sights, assumptions), campaigns_path(sights, assumptions)
    seen = sights.setups if field.known and field.says != UNSEEN else ()
    running, resting = (_words(str(field.value), seen, path, running=running) for running in (True, False))
    drafts, published = (set(assumptions.words(key)) for key in ("setup.draft", "setup.published"))
    if it.key == "setup.draft":
        which, known = "a draft", drafts
        found = {word: event for word, event in resting.items() if word not in running and word not in published}
    else:
        which, known = "a published setup", published
        found = {word: event for word, event in running.items() if word not in drafts}
        found |= {word: event for word, event in resting.items() if word in published}
    if not found:
        return it.unseen(f"{which} was not met")
    shown = ", ".join(f"{word} on {event}" for word, event in found.items())
    return it.confirmed(shown) if set(found) <= known else it.refuted(shown, list(found))


def _may_be_state(name: str, seen: Sequence[SetupSeen], path: str) -> bool:
    """Whether it sounds so, is a word everywhere, and never the same word with campaigns and without."""
    if not any(word in name.lower() for word in STATE_NAMES) or not all(one.word(name) for one in seen):
        return False
    running, resting = (_words(name, seen, path, running=running) for running in (True, False))
    return not set(running) & set(resting)


def _words(name: str, seen: Iterable[SetupSeen], path: str, *, running: bool) -> dict[str, str]:
    """The words of that field by events with campaigns, or without, each with one event that has it."""
    found: dict[str, str] = {}
    for one in seen:
        if one.running(path) is running and (word := one.word(name)) is not None:
            found.setdefault(word, one.event)
    return found


def campaigns_path(sights: Sights, assumptions: Assumptions) -> str:
    """Where the campaigns are, as far as it can be seen; the path in force where it cannot."""
    found = _finding("campaigns.items", sights, assumptions).value
    return str(found) if found is not None else assumptions.text("campaigns.items")


def _campaign_items(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """An event without campaigns shows nothing, but that its list is where it is looked for."""
    path = assumptions.text("campaigns.items")
    contents = [one.campaigns for one in sights.setups if one.campaigns is not None and _at(path, one.campaigns) != []]
    empty = any(one.campaigns is not None for one in sights.setups)
    unread = "every list that was read is empty" if empty else "no event's campaigns could be read"
    return _by_path(it, contents, _are_campaigns, unread)


def _are_campaigns(value: Json) -> bool:
    """A list, not empty, of records that each name a campaign."""
    return isinstance(value, list) and bool(value) and all(_names_campaign(item) for item in value)


def _names_campaign(item: Json) -> bool:
    if not isinstance(item, dict):
        return False
    return isinstance(item.get("tc"), str) and bool(item["tc"]) and run_id_from(item.get("tc_run_id")) is not None


def _after_publish(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    path = campaigns_path(sights, assumptions)
    published = [one for one in sights.setups if one.running(path)]
    if readable := next((one for one in published if isinstance(one.setup, dict)), None):
        seen, right = f"{readable.event} has campaigns, and its setup can be read", "readable"
    elif gone := next((one for one in published if one.gone), None):
        seen, right = f"{gone.event} has campaigns, and its setup answers 404", "absent"
    else:
        return it.unseen("no event with campaigns was met")
    return it.confirmed(seen) if right == it.value else it.refuted(seen, right)


def _connected(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    contents = [] if sights.adplatform is None else [sights.adplatform]
    unread = "the ad platform's status could not be read"
    found = _by_path(it, contents, lambda part: isinstance(part, bool), unread)
    if found.says != "refuted":
        return found
    seen = f"the answer is {_short(contents[0])}"
    for path in _places(contents[0], lambda part: isinstance(part, str) and part.lower() in CONNECTED_WORDS):
        return it.refuted(seen, f"{path} == '{_at(path, contents[0])}'")
    return found if CONNECTED_NAME.search(str(found.value)) else it.refuted(seen)  # another could say anything


def _benchmark_at(it: AssumptionFinding, sights: Sights, _assumptions: Assumptions) -> AssumptionFinding:
    return _by_path(it, sights.benchmarks, _are_shares, "no benchmark could be read")


def _by_path(
    it: AssumptionFinding, contents: Sequence[Json], fits: Callable[[Json], bool], unread: str
) -> AssumptionFinding:
    """Of a JMESPath that has to lead to something of this kind: whether it does, and where else one stands."""
    if not contents:
        return it.unseen(unread)
    for found in (_at(str(it.value), content) for content in contents):
        if fits(found):
            return it.confirmed(f"{_short(found)} stands there")
    places = {place for content in contents for place in _places(content, fits)}
    if len(places) == 1:
        return it.refuted(f"{_short(contents[0])}, in which it stands at {min(places)}", min(places))
    return it.refuted(f"the answer is {_short(contents[0])}")


def _are_shares(value: Json) -> bool:
    return isinstance(value, dict) and all(number_from(value.get(name)) is not None for name in SHARES)


def _benchmark_unit(it: AssumptionFinding, sights: Sights, assumptions: Assumptions) -> AssumptionFinding:
    """Numbers up to 1 may be small percents as well, so they refute nothing; numbers from 2 on are percents."""
    where = _finding("lookout_benchmark.at", sights, assumptions).value
    pairs = [pair for content in sights.benchmarks if _are_shares(pair := _at(str(where), content))]
    if not pairs:
        return it.unseen("no benchmark could be read")
    numbers = [[number_from(pair.get(name)) or 0.0 for name in SHARES] for pair in pairs if isinstance(pair, dict)]
    largest = [max(map(abs, pair)) for pair in numbers]
    seen = ", ".join(_short(pair) for pair in pairs)
    percents = any(one >= SURELY_PERCENT for one in largest)
    fractions = any(one <= 1.0 for one in largest)
    if it.value == "auto":
        told = all(one <= 1.0 or one >= SURELY_PERCENT for one in largest)
        return it.confirmed(seen) if told else it.unseen(seen)
    if not percents:
        return it.unseen(seen)
    if it.value == "percent":
        return it.refuted(seen, "auto") if fractions else it.confirmed(seen)
    return it.refuted(seen, "auto" if fractions else "percent")


def _at(path: str, value: Json) -> Json:
    """What a JMESPath finds; None where it cannot be applied."""
    try:
        return found_at(path, value)
    except Malformed:
        return None


def _places(value: Json, fits: Callable[[Json], bool], path: str = "", depth: int = 0) -> Iterator[str]:
    """Every place in an answer whose value fits, as JMESPath; ``@`` for the answer itself."""
    if fits(value):
        yield path or "@"
    if depth < DEEPEST and isinstance(value, dict):
        for name, part in value.items():
            below = _spelled(name)
            yield from _places(part, fits, f"{path}.{below}" if path else below, depth + 1)


def _spelled(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() if name else False
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _short(value: Json) -> str:
    return shortened(json.dumps(value, ensure_ascii=False), _SHOWN_MAX)


JUDGES: Mapping[str, Callable[[AssumptionFinding, Sights, Assumptions], AssumptionFinding]] = {
    "events.page_parameter": _page_parameter,
    "auth.refresh": _refresh,
    "auth.denied": _denied,
    "setup.state_field": _state_field,
    "setup.draft": _state_words,
    "setup.published": _state_words,
    "setup.after_publish": _after_publish,
    "campaigns.items": _campaign_items,
    "adplatform.connected": _connected,
    "lookout_benchmark.at": _benchmark_at,
    "lookout_benchmark.unit": _benchmark_unit,
}


# The asking: one partner after the other, until what the ones before could not show is seen.

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

    resource: str
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
    found: tuple[AssumptionFinding, ...] = ()
    for partner in asked:
        probe = PartnerProbe(service=service, clock=clock, assumptions=assumptions, partner=partner)
        new = findings(replace(await probe.sights(), refreshed=refreshed), assumptions, settle)
        resources += probe.resources
        proxied |= probe.proxied
        found = _better(found or new, new)
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
        benchmarks = [(await self._get(path, ("type", "capacity"))).content for path in paths[:BENCHMARKS_MAX]]
        return Sights(
            first=first,
            pages=pages,
            setups=await self._setups(events),
            benchmarks=tuple(content for content in benchmarks if content is not None),
            adplatform=(await self._get("/integrations/connect/adplatform/status")).content,
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
        params = parameters(record_of(partner), record_of(defaults), event or {}, self.clock.now().date())
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
                reply = await self._get("/events/", limit, (name, "2"), fresh=True)
                if reply.verdict != "answered":
                    break
                pages[name] = _page(reply)
                if is_second(first, pages[name]):
                    break
        return first, pages

    async def _setups(self, events: Iterable[EventRecord]) -> tuple[SetupSeen, ...]:
        """Setups beside the campaigns of their events, until there is one with campaigns and one without."""
        found: list[SetupSeen] = []
        for event in list(events)[:EVENTS_MAX]:
            eid = EventId(str(event["id"]))
            campaigns = (await self._get(path_of("/events/{eid}/campaigns", eid=eid))).content
            setup = await self._get(path_of("/setup_processes/{eid}", eid=eid))
            gone = setup.status == 404
            found.append(SetupSeen(event=eid, setup=setup.content, gone=gone, campaigns=campaigns))
            path = campaigns_path(Sights(setups=tuple(found)), self.assumptions)
            resting = [one for one in found if not one.running(path)]
            if len(resting) < len(found) and any(one.setup is not None for one in resting):
                break
        return tuple(found)

    def _note(self, name: str, trace: Trace | None, why: str, gaps: Mapping[str, str] = NO_GAPS) -> None:
        get, status = (trace.get, trace.status) if trace is not None else ("", None)
        self.resources.append(
            Resource(resource=name, partner=self.partner, get=get, status=status, why=why, gaps=dict(gaps))
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


def _page(reply: ReadResponse) -> EventPage | None:
    """One page of the list; None where it is none."""
    try:
        return page_from(reply.json())
    except NoValue:
        return None
