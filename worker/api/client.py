"""The remote service as the engine knows it: facts for reads, outcomes for writes, and no surprises.

Reads go through the one gate; a write is sent once, on its own connection, after its pace was waited for. A refused
token is renewed once per read, and a refusal that a new token does not cure is taken for the account's: signing in
again and again would use up the tightest budget of the service (API section 8). Nothing is decided here, and nothing is
remembered beyond tokens and refusals.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

from worker.api.answers import ITEMS_MAX, SHOWN_MAX, NoValue
from worker.api.assumptions import Assumptions
from worker.api.exchanges import Exchanges, ReadResponse
from worker.api.facts import (
    CONFIRM,
    NO_SETUP,
    FactAnswer,
    FactRequest,
    campaigns_leaf,
    request_for_fact,
    setup_without_record,
    sources_with,
)
from worker.api.listing import CAMPAIGN_PAGES_MAX, CHANGED, PAGING, EventLists, Query, full, lacking, next_page
from worker.api.requests import Account, AuthAnswer, Authenticator, Hosts, path_of, target_of, write_request
from worker.api.transport import ANSWER_BYTES_MAX, PAGE_BYTES_MAX, Transports, Wire
from worker.model.endpoints import endpoint
from worker.model.errors import NotSafe, WorkerError
from worker.model.exchange import (
    Clock,
    Listing,
    NotSent,
    Outcome,
    Places,
    SecretValue,
    TaskState,
    Urgency,
    WriteRequest,
)
from worker.model.facts import CustomFact, EventId, Fact, FactKey, Known, PartnerId, Trace, Unknown, record_of
from worker.model.writes import Intent
from worker.reading.gate import Gate, Pacer

DENIED_AGAIN_S = 300.0
"""A kind of read that even a new token did not open is no reason to sign in again for this long."""
TRUSTED_S = 30.0
"""A token that opened something of the partner so lately is good: what it does not open is not for us. Only the list,
which is read in every poll, may find that it was taken back."""
SHARED_AGE = timedelta(seconds=1.5)
"""How old an answer may be that several events ask for in the same words, or each would wait for the floor; less than
that, or the next poll would be content with the answer of the last."""
CLIENT_ID_AGE = timedelta(minutes=10)
LISTING = "listing"
SETUP = "setup"
PARTNER = FactKey(name="partner")
CAMPAIGNS = FactKey(name="campaigns")

_LIST = endpoint("GET", "/events/")
_TASK = endpoint("GET", "/events/{eid}/client_campaign_status/task")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """What the config says of the service. ``partners``: None to discover them from the token."""

    hosts: Hosts
    timeout: timedelta = timedelta(seconds=10)
    page_size: int = 100
    partners: tuple[PartnerId, ...] | None = None
    operator_prefix: str | None = None
    assumptions: Assumptions = field(default_factory=Assumptions)
    facts: Mapping[str, CustomFact] = field(default_factory=dict)
    transports: Transports = field(default_factory=Transports)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a resource is asked for: how urgently, how old and how long an answer may be, and on which kept places."""

    urgency: Urgency
    max_age: timedelta = timedelta(0)
    bytes_max: int = ANSWER_BYTES_MAX
    places: Places | None = None


class ApiService:
    """Implements the engine's `Service`."""

    def __init__(
        self,
        *,
        settings: ApiSettings,
        account: Account,
        gate: Gate[ReadResponse],
        pacing: Pacer,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._assumptions = settings.assumptions
        self._gate = gate
        self._pacing = pacing
        self._clock = clock
        self._sources = sources_with(settings.facts)
        wire = Wire(transports=settings.transports, timeout_s=settings.timeout.total_seconds())
        self._exchanges = Exchanges(wire=wire, hosts=settings.hosts, clock=clock, assumptions=settings.assumptions)
        self._auth = Authenticator(
            post=self._exchanges.sign_in,
            account=account,
            clock=clock,
            chance=chance,
            assumptions=settings.assumptions,
            operator_prefix=settings.operator_prefix,
        )
        self._lists = EventLists(
            ask=self._list_page,
            page_size=settings.page_size,
            page_parameter=settings.assumptions.text("events.page_parameter"),
        )
        self._absent_when_published = settings.assumptions.text("setup.after_publish") == "absent"
        self._clients: dict[PartnerId, str] = {}
        self._shut: dict[tuple[PartnerId, str], float] = {}
        self._accepted: dict[PartnerId, tuple[SecretValue, float]] = {}

    async def partners(self) -> tuple[PartnerId, ...]:
        """Signed in, the partners to act for. Raises `NotSafe` where the service refuses the credentials or the token
        names no partners readably, and `Unreachable` where it does not answer."""
        if self._settings.partners is None:
            return await self._auth.partners()
        await self._auth.token()
        return self._settings.partners

    async def listing(self, partner: PartnerId, needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """The list of events; see `EventLists.listing`."""
        async for found in self._lists.listing(partner, needed):
            yield replace(found, why=self.scrubbed(found.why))

    async def _list_page(self, partner: PartnerId, query: Query) -> ReadResponse:
        manner = Manner(urgency=Urgency.LISTING, bytes_max=PAGE_BYTES_MAX)
        return await self._read(partner, LISTING, target_of(_LIST.path, query), manner)

    async def read(
        self,
        partner: PartnerId,
        event: EventId | None,
        key: FactKey,
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,
    ) -> Fact:
        """One fact. Every answer has a trace, also one that tells nothing."""
        asked = await self._request_with_client(partner, event, key, urgency)
        if isinstance(asked, str):
            trace = Trace(get="", began=self._clock.monotonic())
            return Unknown(code="unreadable", why=asked, read_at=self._clock.now(), trace=trace)
        if asked.shared and key.params and urgency is not Urgency.EVIDENCE:
            max_age = max(max_age, SHARED_AGE)
        manner = Manner(urgency=urgency, max_age=max_age, places=places)
        reply = await self._read(partner, key.name, target_of(asked.path, asked.query), manner)
        if reply.status == 404 and not reply.denied and key.name == CONFIRM:
            return Known(value={"status": 404, "body": None}, read_at=reply.read_at, trace=reply.trace)
        if reply.status == 404 and not reply.denied and key.name == SETUP:
            absent = Known(value=dict(NO_SETUP), read_at=reply.read_at, trace=reply.trace)
            if not self._absent_when_published:
                return absent
            campaigns = await self.read(partner, event, CAMPAIGNS, urgency=urgency, max_age=max_age, places=places)
            return setup_without_record(campaigns, absent)
        try:
            given, assumptions = dict(key.params), self._assumptions
            answer = FactAnswer(reply=reply, content=reply.json(), event=event, params=given, assumptions=assumptions)
            if key.name == CAMPAIGNS.name:
                return await self._campaigns(partner, asked, answer, manner)
            value, gaps = asked.decode(answer)
        except NoValue as error:
            return Unknown(code=error.code, why=str(error), read_at=reply.read_at, trace=reply.trace)
        return Known(value=value, read_at=reply.read_at, gaps=gaps, trace=reply.trace)

    async def _campaigns(self, partner: PartnerId, asked: FactRequest, answer: FactAnswer, manner: Manner) -> Fact:
        """The event's campaigns, with the rest of the pages where the list says that there are more; none is a value.
        As old as the oldest page. A list that lacks something is no fact, but shows what is in it. Raises `NoValue`
        for a first page that is none."""
        leaves, oldest = [campaigns_leaf(answer)], answer.reply
        while (lacks := lacking(leaves)) not in ("", CHANGED) and len(leaves) < CAMPAIGN_PAGES_MAX:
            if len(leaves[-1].items) > ITEMS_MAX:
                break
            number = next_page(leaves)
            turned = (*asked.query, (self._assumptions.text("events.page_parameter"), str(number)))
            found = await self._read(partner, CAMPAIGNS.name, target_of(asked.path, turned), manner)
            try:
                leaf = campaigns_leaf(replace(answer, reply=found, content=found.json()))
            except NoValue as error:
                lacks = f"{lacks}; page {number}: {error}"
                break
            if any(leaf.items == one.items for one in leaves):
                lacks = f"{lacks}; page {number} answered as one before it; {PAGING}"
                break
            leaves.append(leaf)
            oldest = min(oldest, found, key=lambda one: one.trace.began)
        campaigns = [item for leaf in leaves for item in leaf.items]
        if lacks:
            why = f"the list of campaigns is not whole: {lacks}"
            return Unknown(code="unreadable", why=why, read_at=oldest.read_at, trace=oldest.trace, part=campaigns)
        return Known(value=campaigns, read_at=oldest.read_at, trace=replace(oldest.trace, full=full(leaves[0])))

    async def _request_with_client(
        self, partner: PartnerId, event: EventId | None, key: FactKey, urgency: Urgency
    ) -> FactRequest | str:
        """The request of a fact; a text says why it has none. A few legacy endpoints want the partner's internal id
        (API section 2.1), which stands in its record."""
        source = self._sources.get(key.name)
        if source is not None and source.names("client_id"):
            record = await self.read(partner, None, PARTNER, urgency=urgency, max_age=CLIENT_ID_AGE)
            found = record_of(record).get("id")
            if not isinstance(found, str):
                return f"{key.name} needs the partner's client_id, and its record could not be read"
            self._clients[partner] = found
        return self._request(partner, event, key)

    def _request(self, partner: PartnerId, event: EventId | None, key: FactKey) -> FactRequest | str:
        return request_for_fact(self._sources, partner, event, key, self._clients.get(partner, ""))

    async def keep_places(
        self, partner: PartnerId, event: EventId, keys: Iterable[FactKey], *, urgency: Urgency
    ) -> Places:
        """Room for these reads and one write that must leave together: waits out the floors that stand against the
        reads now, and then until the budget has a place for each request. What a poll reads anew meanwhile is young
        enough; waiting for its floor too would never end where polls read the facts in rotation."""
        keys = set(keys)
        if self._absent_when_published and any(key.name == SETUP for key in keys):
            keys.add(CAMPAIGNS)
        asked = [self._request(partner, event, key) for key in keys]
        targets = {target_of(one.path, one.query) for one in asked if not isinstance(one, str)}
        opens_at = max((self._gate.opens_at(partner, self._address(one)) for one in targets), default=float("-inf"))
        while (left := opens_at - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(max(left, 0.001))
        return await self._pacing.keep(partner, urgency, len(targets) + 1)

    async def raw(
        self,
        partner: PartnerId,
        path: str,
        *,
        query: Query = (),
        max_age: timedelta = timedelta(0),
        token: SecretValue | None = None,
    ) -> ReadResponse:
        """One GET as it comes, through the gate, for `probe`; a refusal is no reason to sign in again. ``token``: one
        that is not ours, to see it refused."""
        target = target_of(path, query)
        ours = partial(self._fetch, partner, target)
        fetch = ours if token is None else partial(self._exchanges.read, partner, token, target)
        return await self._gate.ask(partner, self._address(target), fetch, urgency=Urgency.FACT, max_age=max_age)

    def header(self, reply: ReadResponse, name: str) -> str:
        """What a header of an answer says, without secrets."""
        return self._exchanges.header(reply.headers, name)

    async def refreshed(self) -> AuthAnswer:
        """What the refresh of a token comes to that the operator has confirmed."""
        return await self._auth.refreshed()

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState:
        """The state of the task behind a PUT: outside the floor, because its waits are the caller's, inside the pace.
        Never to be asked but after a PUT (API section 8)."""
        await self._pacing.turn(partner, Urgency.EVIDENCE)
        began = self._clock.monotonic()
        reply = await self._fetch(partner, path_of(_TASK.path, eid=event))
        self._pacing.heard(partner, reply, began=began)
        content = reply.content
        inner = content.get("data") if isinstance(content, dict) else None
        state = inner.get("state") if isinstance(inner, dict) else None
        stored = "the answer comes from a store, and may be of another task" if reply.trace.began < began else ""
        if not reply.ok or stored or not isinstance(state, str):
            return TaskState(state=reply.why or stored or "no data.state in the answer", verdict="unreadable")
        shown = self.scrubbed(state)[:SHOWN_MAX]
        if state in self._assumptions.words("task.succeeded"):
            return TaskState(state=shown, verdict="succeeded")
        failed = state in self._assumptions.words("task.failed")
        return TaskState(state=shown, verdict="failed" if failed else "running")

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """The request of a write, without its headers."""
        return write_request(partner, event, intent, item, self._assumptions)

    def url(self, request: WriteRequest) -> str:
        """The whole address of a write. Raises `UsageError` where its host is not configured."""
        return self._exchanges.url(request)

    def budget(self, partner: PartnerId) -> float:
        """Requests per minute that the partner may make now."""
        return self._pacing.pace(partner).budget

    async def ready_to_write(
        self, partner: PartnerId, places: Places | None = None, *, by: float | None = None
    ) -> None:
        """Waits for a token, the back-off and the budget, in this order: the budget's place is not held for long."""
        with suppress(WorkerError):  # `send` meets it again and says that nothing was sent
            await self._auth.token()
        if places is None or not await places.take(by=by):
            await self._pacing.turn(partner, Urgency.WRITE)

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt. See the port."""
        try:
            token = await self._auth.token()
        except WorkerError as error:
            return NotSent(cause="denied" if isinstance(error, NotSafe) else "connect", why=str(error))
        began = self._clock.monotonic()
        if began < self._pacing.blocked_until(partner):
            return NotSent(cause="stale", why="the service asked for patience after the attempt was recorded")
        outcome = await self._exchanges.write(partner, token, request, not_after)
        answer = outcome.answer
        if isinstance(outcome, NotSent) and outcome.cause == "denied":
            last, at = self._accepted.get(partner, (None, began))
            given = self._auth.given_at(token)
            known = [one for one in (at if last is token else None, given) if one is not None]
            if known:
                outcome = replace(outcome, accepted_ago=timedelta(seconds=max(0.0, began - max(known))))
            self._auth.refused(token)
        if answer is not None and answer.status == 429:
            self._pacing.throttled(partner, began=began, retry_after=answer.retry_after)
        elif answer is not None and answer.status < 500:
            self._pacing.answered(partner, began=began)
        return outcome

    def scrubbed(self, text: str) -> str:
        """A text without the passwords and tokens in hand, for whoever logs what he did not make himself."""
        return self._exchanges.scrubbed(text)

    async def aclose(self) -> None:
        """Ends a sign-in under way."""
        await self._auth.aclose()

    async def _read(self, partner: PartnerId, kind: str, target: str, manner: Manner) -> ReadResponse:
        """One resource, through the gate; once more with a new token where the old one was refused."""
        address = self._address(target)
        fetch = partial(self._fetch, partner, target, manner.bytes_max)
        reply = await self._gate.ask(
            partner, address, fetch, urgency=manner.urgency, max_age=manner.max_age, places=manner.places
        )
        if reply.ok:
            self._shut.pop((partner, kind), None)
        if not reply.denied or reply.token is None:
            return reply
        now, shut_at = self._clock.monotonic(), self._shut.get((partner, kind), float("-inf"))
        token, accepted_at = self._accepted.get(partner, (None, float("-inf")))
        let_in = token is reply.token  # it has opened something: what it does not open now, another may
        trusted = let_in and kind != LISTING and now - accepted_at < TRUSTED_S
        if trusted or now - shut_at < DENIED_AGAIN_S or not (let_in or self._auth.renewable(reply.token)):
            return reply
        if not self._opens_for_others(partner, reply.token, now):
            self._auth.refused(reply.token)
        try:
            await self._auth.renew(reply.token)
        except WorkerError as error:
            return self._unasked(target, error)
        reply = await self._gate.ask(partner, address, fetch, urgency=manner.urgency)
        if reply.denied:
            self._shut[(partner, kind)] = self._clock.monotonic()
        return reply

    def _opens_for_others(self, partner: PartnerId, token: SecretValue, now: float) -> bool:
        """Whether other partners go on with this token: one that refuses us must not stop them, as where signing in
        fails just then."""
        kept = self._accepted.items()
        return any(one is token and now - at < TRUSTED_S for other, (one, at) in kept if other != partner)

    def _address(self, target: str) -> str:
        return f"{self._settings.hosts.api}{target}"

    async def _fetch(self, partner: PartnerId, target: str, bytes_max: int = ANSWER_BYTES_MAX) -> ReadResponse:
        try:
            token = await self._auth.token()
        except WorkerError as error:
            return self._unasked(target, error)
        reply = await self._exchanges.read(partner, token, target, bytes_max)
        if reply.ok:
            self._accepted[partner] = token, self._clock.monotonic()
        return reply

    def _unasked(self, target: str, error: WorkerError) -> ReadResponse:
        """What is told of a resource for which there is no token to ask with."""
        trace, denied = Trace(get=target, began=self._clock.monotonic()), isinstance(error, NotSafe)
        return ReadResponse(status=None, read_at=self._clock.now(), trace=trace, why=str(error), denied=denied)
