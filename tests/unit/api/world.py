"""The real client, gate and pace over a transport that is a function, on a clock that stands still until told."""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

import httpx

from tests.unit.reading.virtual import VirtualClock, no_chance, stories_in
from worker.api.assumptions import Assumptions, assumptions_from
from worker.api.client import ApiService, ApiSettings
from worker.api.exchanges import ReadResponse
from worker.api.requests import Account, Hosts
from worker.api.transport import Transports
from worker.engine.ports import Service
from worker.model.exchange import SecretValue, Urgency
from worker.model.facts import EventId, Fact, FactKey, Json, PartnerId, Scalar
from worker.reading.gate import Gate, Pacer

API = "https://api.example/api/v3"
CR = "https://ingest.example/v1"
HALL = PartnerId("partner-id-hall")
CLUB = PartnerId("partner-id-club")
E1 = EventId("e1")
FLOOR_S = 3.0

Answer = httpx.Response | Exception
Behaviour = Callable[["Seen"], Answer | Awaitable[Answer]]


def assumed(**given: Json) -> Assumptions:
    """What an operator vouches for; a key's dot is spelled with two underscores."""
    made, wrong = assumptions_from({key.replace("__", "."): value for key, value in given.items()})
    assert not wrong
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One request as it reached the service, and when."""

    at: float
    method: str
    target: str
    host: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.target.partition("?")[0].removeprefix("/api/v3")


def answer(content: Json = None, status: int = 200, **headers: str) -> httpx.Response:
    """A JSON answer; header names are spelled with underscores."""
    return httpx.Response(status, json=content, headers=spelled(headers))


def spelled(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers with their names as they go over the wire."""
    return {name.replace("_", "-"): value for name, value in headers.items()}


def event(eid: str = "e1", **fields: Json) -> dict[str, Json]:
    return {"id": eid, "status": "active", **fields}


def page(*eids: str, number: int = 1, total: int | None = None, limit: int = 100) -> httpx.Response:
    items: list[Json] = [event(eid) for eid in eids]
    return answer({"total": len(eids) if total is None else total, "limit": limit, "page": number, "items": items})


def nothing_there(_: Seen) -> httpx.Response:
    return answer({"detail": "not found"}, 404)


class BrokenBody(httpx.AsyncByteStream):
    """A body that breaks off after its first bytes."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"id": "e1"'
        raise httpx.ReadError("connection reset")


def broken(status: int = 200, **headers: str) -> Behaviour:
    """An answer whose body breaks off."""
    return lambda _: httpx.Response(status, headers=spelled(headers), stream=BrokenBody())


def jwt(claims: Json, *, padding: bool = False) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    return f"head.{payload if padding else payload.rstrip('=')}.tail"


def id_token(*groups: str) -> str:
    return jwt({"idp:groups": [*groups]})


class World:
    """A service that answers each path by a rule, or by 404, and remembers everything it was asked."""

    def __init__(
        self,
        *,
        quiet_s: float = 0.0,
        per_minute: float = 600.0,
        user: tuple[str, str] = ("me", "s3cret"),
        **changes: object,
    ) -> None:
        self.clock = VirtualClock()
        self.seen: list[Seen] = []
        self.rules: dict[str, Behaviour] = {"/auth": self.signed_in}
        self.pacer = Pacer(per_minute=per_minute, clock=self.clock, chance=no_chance)
        self.gate: Gate[ReadResponse] = Gate(pacer=self.pacer, clock=self.clock, floor_s=FLOOR_S, quiet_s=quiet_s)
        settings = ApiSettings(
            hosts=Hosts(api=API, cr=CR), transports=Transports(reads=self.transport, writes=self.transport)
        )
        self.api = ApiService(
            settings=replace(settings, **changes),  # type: ignore[arg-type]  # fields of ApiSettings
            account=Account(username=SecretValue(user[0]), password=SecretValue(user[1])),
            gate=self.gate,
            pacing=self.pacer,
            clock=self.clock,
            chance=no_chance,
        )
        self.service: Service = self.api

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self.handle)

    async def handle(self, request: httpx.Request) -> httpx.Response:
        seen = Seen(
            at=round(self.clock.monotonic(), 3),
            method=request.method,
            target=request.url.raw_path.decode(),
            host=request.url.host,
            headers=dict(request.headers),
            body=request.content,
        )
        self.seen.append(seen)
        found = self.rules.get(seen.path, nothing_there)(seen)
        made = found if isinstance(found, httpx.Response | Exception) else await found
        if isinstance(made, Exception):
            raise made
        return made

    def signed_in(self, _: Seen) -> httpx.Response:
        number = sum(seen.path == "/auth" for seen in self.seen)
        return answer(
            {
                "AccessToken": f"access-{number}",
                "IdToken": id_token("partner-id-hall", "newsletter", "partner-id-club"),
                "RefreshToken": "refresh-1",
                "ExpiresIn": 3600,
                "TokenType": "Bearer",
            }
        )

    def on(self, path: str, *answers: Answer | Behaviour) -> None:
        """The path's answers in order; the last one for ever."""
        left = list(answers)

        def behave(seen: Seen) -> Answer | Awaitable[Answer]:
            found = left.pop(0) if len(left) > 1 else left[0]
            return copied(found) if isinstance(found, httpx.Response | Exception) else found(seen)

        self.rules[path] = behave

    def slowly(self, seconds: float, made: Answer) -> Behaviour:
        async def behave(_: Seen) -> Answer:
            await self.clock.sleep(seconds)
            return copied(made)

        return behave

    async def read(
        self,
        name: str = "event",
        *,
        partner: PartnerId = HALL,
        event: EventId = E1,
        params: tuple[tuple[str, Scalar], ...] = (),
        max_age_s: float = 0.0,
    ) -> Fact:
        key = FactKey(name=name, params=params)
        age = timedelta(seconds=max_age_s)
        return await self.service.read(partner, event, key, urgency=Urgency.FACT, max_age=age)

    def asked(self, path: str) -> list[float]:
        """When the path was asked for."""
        return [seen.at for seen in self.seen if seen.path == path]


in_world = stories_in(World)
"""Makes a story a test: it is given a world of its own, and runs in the time of that world's clock."""


def copied(made: Answer) -> Answer:
    """A response can be read once; each request gets its own."""
    if isinstance(made, Exception):
        return made
    return httpx.Response(made.status_code, headers=made.headers, content=made.content)
