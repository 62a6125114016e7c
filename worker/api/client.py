"""The remote service as the engine knows it: facts for reads, outcomes for writes, and no surprises.

Reads go through the one gate; a write is sent once, on its own connection, after its pace was waited for. A refused
token is renewed once per read, and a refusal that a new token does not cure is taken for the account's: signing in
again and again would use up the tightest budget of the service (API section 8). Nothing is decided here, and nothing is
remembered beyond tokens and refusals.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol

from worker.api.assumptions import Assumptions
from worker.api.auth import Credentials, SignIn
from worker.api.decoding import NO_SETUP, Asking, campaigns_leaf, campaigns_of, setup_without_record
from worker.api.exchanges import Ask, Decode, Exchanges, Reply
from worker.api.listing import Lists, Query
from worker.api.requests import (
    CONFIRM,
    CustomFact,
    Hosts,
    Question,
    decoded,
    path_of,
    question_for,
    readings_with,
    write_request,
)
from worker.api.transport import Transports, Wire
from worker.api.wire import Leaf, Malformed, Secret, pages_of
from worker.model.endpoints import endpoint
from worker.model.errors import NotSafe, UsageError, WorkerError
from worker.model.exchange import (
    Clock,
    Listing,
    NotSent,
    Outcome,
    Places,
    TaskState,
    TellPart,
    Urgency,
    WriteRequest,
    told_nobody,
)
from worker.model.facts import EventId, Fact, FactKey, Known, PartnerId, Trace, Unknown, UnknownCode
from worker.model.writes import Intent

DENIED_AGAIN_S = 300.0
"""A kind of read that even a new token did not open is no reason to sign in again for this long."""
SHARED_AGE = timedelta(seconds=1.5)
"""How old an answer may be that several events ask for in the same words, or each would wait for the floor; less than
that, or the next look would be content with the answer of the last."""
CLIENT_ID_AGE = timedelta(minutes=10)
SETUP = "setup"
PARTNER = FactKey(name="partner")
CAMPAIGNS = FactKey(name="campaigns")

_LIST = endpoint("GET", "/events/")
_TASK = endpoint("GET", "/events/{eid}/client_campaign_status/task")


class ReadGate(Protocol):
    """The floor of each resource; see `worker.reading.gate`."""

    async def ask(
        self,
        partner: PartnerId,
        address: str,
        fetch: Callable[[], Awaitable[Reply]],
        *,
        urgency: Urgency,
        max_age: timedelta = timedelta(0),
        places: Places | None = None,
    ) -> Reply: ...
    def opens_at(self, partner: PartnerId, address: str) -> float: ...


class Pacing(Protocol):
    """The budget and the back-off of each partner; see `worker.reading.pacer`."""

    async def turn(self, partner: PartnerId, urgency: Urgency) -> None: ...
    async def keep(self, partner: PartnerId, urgency: Urgency, places: int) -> Places: ...
    def throttled(self, partner: PartnerId, *, began: float, retry_after: timedelta | None) -> None: ...
    def answered(self, partner: PartnerId, *, began: float) -> None: ...
    def blocked_until(self, partner: PartnerId) -> float: ...
    def budget(self, partner: PartnerId) -> float: ...


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
    """How a resource is asked for: how urgently, how old an answer may be, and on which kept places."""

    urgency: Urgency
    max_age: timedelta = timedelta(0)
    places: Places | None = None


class ApiService:
    """Implements the engine's `Service`."""

    def __init__(
        self,
        *,
        settings: ApiSettings,
        credentials: Credentials,
        gate: ReadGate,
        pacing: Pacing,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        for partner in settings.partners or ():
            if not partner.isascii() or not partner.isprintable() or " " in partner:
                raise UsageError(f"partners: {partner!r} is no partner id", hint="as in partner-id-the-hall")
        self._settings = settings
        self._gate = gate
        self._pacing = pacing
        self._clock = clock
        self._readings = readings_with(settings.facts)
        wire = Wire(transports=settings.transports, timeout_s=settings.timeout.total_seconds())
        self._exchanges = Exchanges(wire=wire, hosts=settings.hosts, clock=clock, assumptions=settings.assumptions)
        self._sign_in = SignIn(
            post=self._exchanges.sign_in,
            credentials=credentials,
            clock=clock,
            chance=chance,
            assumptions=settings.assumptions,
            operator_prefix=settings.operator_prefix,
        )
        self._clients: dict[PartnerId, str] = {}
        self._lists = Lists(
            ask=self._list_page,
            clock=clock,
            page_size=settings.page_size,
            page_parameter=settings.assumptions.text("events.page_parameter"),
        )
        self._shut: dict[tuple[PartnerId, str], float] = {}
        self._accepted: dict[PartnerId, tuple[Secret, float]] = {}

    async def partners(self) -> tuple[PartnerId, ...]:
        """Signed in, the partners to act for. Raises `NotSafe` where the service refuses the credentials or the token
        names no partners readably, and `Unreachable` where it does not answer."""
        if self._settings.partners is None:
            return await self._sign_in.partners()
        await self._sign_in.token()
        return self._settings.partners

    async def listing(
        self, partner: PartnerId, told: TellPart = told_nobody, needed: frozenset[str] | None = None
    ) -> Listing:
        """The list of events (`worker.api.listing`). ``told``: hears what some pages showed while others are still to
        be asked. ``needed``: the fields of an event that somebody looks at, None for all."""
        found = await self._lists.listing(partner, told, needed)
        return replace(found, why=self.scrubbed(found.why))

    async def _list_page(self, partner: PartnerId, query: Query, decode: Decode | None) -> Reply:
        ask = Ask(path=_LIST.path, query=query, decode=decode)
        return await self._read(partner, "listing", ask, Manner(urgency=Urgency.LISTING))

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
        question = await self._question(partner, event, key, urgency)
        if isinstance(question, str):
            trace = Trace(get="", began=self._clock.monotonic())
            return Unknown(code="unreadable", why=question, read_at=self._clock.now(), trace=trace)
        if question.shared and key.params and urgency is not Urgency.EVIDENCE:
            max_age = max(max_age, SHARED_AGE)
        manner = Manner(urgency=urgency, max_age=max_age, places=places)
        reply = await self._read(partner, key.name, _ask_of(question), manner)
        if key.name == CONFIRM and reply.status == 404 and not reply.denied:
            return Known(value={"status": 404, "body": None}, read_at=reply.read_at, trace=reply.trace)
        if key.name == SETUP and reply.status == 404 and not reply.denied:
            return await self._absent_setup(partner, event, reply, manner)
        if key.name == CAMPAIGNS.name:
            return await self._campaigns(partner, event, question, reply, manner)
        return self._fact(event, question, reply)

    async def _campaigns(
        self, partner: PartnerId, event: EventId | None, question: Question, reply: Reply, manner: Manner
    ) -> Fact:
        """The list with the rest of its pages, where it says that there are more; as old as the oldest of them."""
        if not reply.ok or isinstance(reply.content, Malformed):
            return self._fact(event, question, reply)
        asking, oldest = self._asking(event, question, reply), reply

        async def page(number: int) -> Leaf:
            nonlocal oldest
            turned = (*question.query, (self._settings.assumptions.text("events.page_parameter"), str(number)))
            found = await self._read(partner, CAMPAIGNS.name, Ask(path=question.path, query=turned), manner)
            if not found.ok or isinstance(found.content, Malformed):
                raise Malformed(_failure(found)[1])
            oldest = min(oldest, found, key=lambda one: one.trace.began)
            return campaigns_leaf(found.content, self._asking(event, question, found))

        try:
            leaves, lacks = await pages_of(campaigns_leaf(reply.content, asking), page)
        except Malformed as error:
            return asking.unknown(error)
        return campaigns_of(leaves, lacks, self._asking(event, question, oldest))

    async def _question(
        self, partner: PartnerId, event: EventId | None, key: FactKey, urgency: Urgency
    ) -> Question | str:
        """The request of a fact. A few legacy endpoints want the partner's internal id (API section 2.1), which stands
        in its record."""
        reading = self._readings.get(key.name)
        if reading is not None and reading.names("client_id"):
            record = await self.read(partner, None, PARTNER, urgency=urgency, max_age=CLIENT_ID_AGE)
            found = record.value.get("id") if isinstance(record, Known) and isinstance(record.value, dict) else None
            if not isinstance(found, str):
                return f"{key.name} needs the partner's client_id, and its record could not be read"
            self._clients[partner] = found
        return self._spelled(partner, event, key)

    def _spelled(self, partner: PartnerId, event: EventId | None, key: FactKey) -> Question | str:
        return question_for(self._readings, partner, event, key, self._clients.get(partner, ""))

    async def keep_places(
        self, partner: PartnerId, event: EventId, keys: Iterable[FactKey], *, urgency: Urgency
    ) -> Places:
        """Room for these reads and one write that must leave together: waits out the floors that stand against the
        reads now, and then until the budget has a place for each request. What a look reads anew meanwhile is young
        enough; waiting for its floor too would never end where looks read the facts in rotation."""
        addresses = {self._address(_ask_of(question)) for question in self._questions(partner, event, keys)}
        opens_at = self._opens_at(partner, addresses)
        while (left := opens_at - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(max(left, 0.001))
        return await self._pacing.keep(partner, urgency, len(addresses) + 1)

    def _opens_at(self, partner: PartnerId, addresses: Iterable[str]) -> float:
        return max((self._gate.opens_at(partner, address) for address in addresses), default=float("-inf"))

    def _questions(self, partner: PartnerId, event: EventId, keys: Iterable[FactKey]) -> Iterator[Question]:
        """The requests that these facts take; those that cannot be asked for take none."""
        keys = set(keys)
        if any(key.name == SETUP for key in keys) and self._absent_when_published:
            keys.add(CAMPAIGNS)
        for key in keys:
            question = self._spelled(partner, event, key)
            if not isinstance(question, str):
                yield question

    async def raw(
        self,
        partner: PartnerId,
        path: str,
        *,
        query: tuple[tuple[str, str], ...] = (),
        max_age: timedelta = timedelta(0),
        token: Secret | None = None,
    ) -> Reply:
        """One GET as it comes, through the gate, for `probe`; a refusal is no reason to sign in again. ``token``: one
        that is not ours, to see it refused."""
        ask = Ask(path=path, query=query)

        async def fetch() -> Reply:
            return await (self._fetch(partner, ask) if token is None else self._exchanges.read(partner, token, ask))

        return await self._gate.ask(partner, self._address(ask), fetch, urgency=Urgency.FACT, max_age=max_age)

    async def refreshed(self) -> str | None:
        """Why the refresh of a token that the operator vouches for does not work; None where it does."""
        return await self._sign_in.refreshed()

    async def task_state(self, partner: PartnerId, event: EventId) -> TaskState:
        """The state of the task behind a PUT: outside the floor, because its waits are the caller's, inside the pace.
        Never to be asked but after a PUT (API section 8)."""
        await self._pacing.turn(partner, Urgency.EVIDENCE)
        began = self._clock.monotonic()
        reply = await self._fetch(partner, Ask(path=path_of(_TASK.path, eid=event)))
        self._noted(partner, began, reply)
        content = reply.content
        inner = content.get("data") if isinstance(content, dict) else None
        state = inner.get("state") if isinstance(inner, dict) else None
        if not reply.ok or not isinstance(state, str):
            return TaskState(state=reply.why or "no data.state in the answer", verdict="unreadable")
        shown = self.scrubbed(state)
        if state in self._settings.assumptions.words("task.succeeded"):
            return TaskState(state=shown, verdict="succeeded")
        failed = state in self._settings.assumptions.words("task.failed")
        return TaskState(state=shown, verdict="failed" if failed else "running")

    def request_for(self, partner: PartnerId, event: EventId, intent: Intent, item: str) -> WriteRequest:
        """The request of a write, without its headers."""
        return write_request(partner, event, intent, item, self._settings.assumptions)

    def url(self, request: WriteRequest) -> str:
        """The whole address of a write. Raises `UsageError` where its host is not configured."""
        return self._exchanges.url(request)

    def budget(self, partner: PartnerId) -> float:
        """Requests per minute that the partner may make now."""
        return self._pacing.budget(partner)

    async def ready_to_write(
        self, partner: PartnerId, places: Places | None = None, *, by: float | None = None
    ) -> None:
        """Waits for a token, the back-off and the budget, in this order: the budget's place is not held for long."""
        with suppress(WorkerError):  # `send` meets it again and says that nothing was sent
            await self._sign_in.token()
        if places is None or not await places.take(by=by):
            await self._pacing.turn(partner, Urgency.WRITE)

    async def send(self, partner: PartnerId, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt. See the port."""
        try:
            token = await self._sign_in.token()
        except NotSafe as error:
            return NotSent(cause="denied", why=str(error))
        except WorkerError as error:
            return NotSent(cause="connect", why=str(error))
        began = self._clock.monotonic()
        if began < self._pacing.blocked_until(partner):
            return NotSent(cause="stale", why="the service asked for patience after the attempt was recorded")
        outcome = await self._exchanges.write(partner, token, request, not_after)
        answer = outcome.answer
        if isinstance(outcome, NotSent) and outcome.cause == "denied":
            last, at = self._accepted.get(partner, (None, began))
            given = self._sign_in.given_at(token)
            known = [one for one in (at if last is token else None, given) if one is not None]
            if known:
                outcome = replace(outcome, accepted_ago=timedelta(seconds=max(0.0, began - max(known))))
            self._sign_in.refused(token)
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
        await self._sign_in.aclose()

    async def _read(self, partner: PartnerId, kind: str, ask: Ask, manner: Manner) -> Reply:
        """One resource, through the gate; once more with a new token where the old one was refused."""
        address = self._address(ask)

        async def fetch() -> Reply:
            return await self._fetch(partner, ask)

        reply = await self._gate.ask(
            partner, address, fetch, urgency=manner.urgency, max_age=manner.max_age, places=manner.places
        )
        if reply.ok:
            self._shut.pop((partner, kind), None)
        if not reply.denied or reply.token is None:
            return reply
        shut_at = self._shut.get((partner, kind), float("-inf"))
        if self._clock.monotonic() - shut_at < DENIED_AGAIN_S or not self._sign_in.renewable(reply.token):
            return reply
        self._sign_in.refused(reply.token)
        reply = await self._gate.ask(partner, address, fetch, urgency=manner.urgency)
        if reply.denied:
            self._shut[(partner, kind)] = self._clock.monotonic()
        return reply

    def _address(self, ask: Ask) -> str:
        return f"{self._settings.hosts.api}{ask.target}"

    async def _fetch(self, partner: PartnerId, ask: Ask) -> Reply:
        try:
            token = await self._sign_in.token()
        except WorkerError as error:
            trace = Trace(get=ask.target, began=self._clock.monotonic())
            denied = isinstance(error, NotSafe)
            return Reply(status=None, read_at=self._clock.now(), trace=trace, why=str(error), denied=denied)
        reply = await self._exchanges.read(partner, token, ask)
        if reply.ok:
            self._accepted[partner] = token, self._clock.monotonic()
        return reply

    @property
    def _absent_when_published(self) -> bool:
        return self._settings.assumptions.text("setup.after_publish") == "absent"

    async def _absent_setup(self, partner: PartnerId, event: EventId | None, reply: Reply, manner: Manner) -> Fact:
        absent = Known(value=dict(NO_SETUP), read_at=reply.read_at, trace=reply.trace)
        if not self._absent_when_published:
            return absent
        campaigns = await self.read(
            partner, event, CAMPAIGNS, urgency=manner.urgency, max_age=manner.max_age, places=manner.places
        )
        return setup_without_record(campaigns, absent)

    def _fact(self, event: EventId | None, question: Question, reply: Reply) -> Fact:
        if reply.ok and not isinstance(reply.content, Malformed):
            return decoded(question, reply.content, self._asking(event, question, reply))
        code, why = _failure(reply)
        return Unknown(code=code, why=why, read_at=reply.read_at, trace=reply.trace)

    def _asking(self, event: EventId | None, question: Question, reply: Reply) -> Asking:
        return Asking(
            event=event,
            read_at=reply.read_at,
            trace=reply.trace,
            assumptions=self._settings.assumptions,
            params=question.params,
            headers=reply.headers,
        )

    def _noted(self, partner: PartnerId, began: float, reply: Reply) -> None:
        if reply.verdict == "throttled":
            self._pacing.throttled(partner, began=began, retry_after=reply.retry_after)
        elif reply.verdict == "answered":
            self._pacing.answered(partner, began=began)


def _ask_of(question: Question) -> Ask:
    return Ask(path=question.path, query=question.query)


def _failure(reply: Reply) -> tuple[UnknownCode, str]:
    """Why a reply holds no fact."""
    if isinstance(reply.content, Malformed):
        return "malformed", str(reply.content)
    if reply.denied:
        return "denied", reply.why
    if reply.status == 404:
        return "gone", "the service answered 404"
    return "unreadable", reply.why
