"""What the service is made of: its state, the books of what took effect, the tokens, and the judge of its clients.

Everything about one event is one frozen record, and every change appends a version: reads can be answered as of some
seconds ago (a lagging replica), and the books can compare before with after. Two partners may use the same event id;
they share nothing but the letters. Never reads a clock: the moment is an argument.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from worker.sandbox.settings import (
    Delivery,
    Hang,
    Host,
    Json,
    Record,
    TwinAnswer,
    TwinRequest,
    TwinSettings,
    User,
    filled,
)

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
    """One event of one partner with all that hangs on it. `suggested_tcs` None: worked out from the clusters. What
    `insights`, `results` and `statistics` do not say is worked out, too."""

    record: Record
    setup: Record | None = None
    published: bool = False
    campaigns: tuple[Record, ...] = ()
    tc_run_id: int = 1
    clusters: tuple[Record, ...] = ()
    suggested_tcs: tuple[Record, ...] | None = None
    defaults: Record = field(default_factory=dict)
    lower_limit: float = 0.0
    upper_limit: float = 1000.0
    task: Task | None = None
    task_fails: bool = False
    sales: tuple[Record, ...] = ()
    statistics: Record = field(default_factory=dict)
    insights: Record = field(default_factory=dict)
    results: tuple[Record, ...] = ()
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


Version = tuple[float, Happening | None]
"""From which moment on an event was so; None: it was not there."""


class TwinWorld:
    """All partners and the versions of all their events."""

    def __init__(self, tenants: Iterable[Tenant] = ()) -> None:
        self._seeds = {tenant.partner_id: tenant for tenant in tenants}
        self.tenants = dict(self._seeds)
        self._versions: dict[str, dict[str, list[Version]]] = {
            partner: {each.eid: [(ALWAYS, each)] for each in tenant.events} for partner, tenant in self.tenants.items()
        }
        self._order: dict[str, tuple[str, ...]] = {}
        self._generation = 0

    def holders(self, eid: str) -> tuple[str, ...]:
        """The partners that have an event of this id right now."""
        return tuple(partner for partner in self.tenants if self.at(partner, eid) is not None)

    def at(self, partner: str, eid: str, as_of_s: float | None = None) -> Happening | None:
        """The event as it is, or as it was at a moment of the past."""
        for since_s, happening in reversed(self._versions.get(partner, {}).get(eid, [])):
            if as_of_s is None or since_s <= as_of_s:
                return happening
        return None

    def put(self, partner: str, eid: str, happening: Happening | None, at_s: float) -> None:
        """Appends a version; None takes the event away. What is older than anyone may ask for is let go."""
        versions = self._versions[partner].setdefault(eid, [])
        before = versions[-1][1] if versions else None
        versions.append((at_s, happening))
        if len(versions) > MAX_VERSIONS or (len(versions) > 2 and versions[1][0] < at_s - HISTORY_S):
            del versions[0]
        if _place(before) != _place(happening):
            self._order.pop(partner, None)

    def order(self, partner: str, as_of_s: float | None = None) -> tuple[str, ...]:
        """The ids of the partner's events, by start and id, so that paging is stable while nothing comes or goes."""
        if as_of_s is None and partner in self._order:
            return self._order[partner]
        present = [found for eid in self._versions[partner] if (found := self.at(partner, eid, as_of_s))]
        order = tuple(each.eid for each in sorted(present, key=_place))
        if as_of_s is None:
            self._order[partner] = order
        return order

    def listing(self, partner: str, as_of_s: float | None = None) -> list[Happening]:
        """Every event of the partner, in order."""
        return [found for eid in self.order(partner, as_of_s) if (found := self.at(partner, eid, as_of_s))]

    def reset(self, result: str, at_s: float) -> None:
        """The weekly reset: everything as it began, or nothing left, or the same events under new ids."""
        self._generation += 1
        for partner, seed in self._seeds.items():
            self.tenants[partner] = seed
            for eid in tuple(self._versions[partner]):
                self.put(partner, eid, None, at_s)
            for each in seed.events if result != "empty" else ():
                renamed = f"{each.eid}-r{self._generation}" if result == "new_ids" else each.eid
                self.put(partner, renamed, each.with_fields({"id": renamed}), at_s)


def _place(happening: Happening | None) -> tuple[str, str]:
    return ("", "") if happening is None else (str(happening.record.get("start_date_time") or ""), happening.eid)


def same_cluster(campaign: Record, tc: Json, tc_run_id: Json) -> bool:
    """A campaign is named by cluster and run; the run may be spelled as a number or as text (API section 2.1)."""
    return campaign.get("tc") == tc and str(campaign.get("tc_run_id")) == str(tc_run_id)


def campaign_record(number: int, tc: Json, tc_run_id: Json) -> Record:
    """A campaign as it begins."""
    named = {"campaign_id": f"cmp-{number}", "tc": tc, "tc_run_id": tc_run_id}
    return {**named, "status": "ACTIVE", "audience_id": f"aud-{number}"}


# The books: what was asked of the service, and what really took effect, kept apart from what was answered.
#
# A client cannot tell from a 429 whether its write landed. The books can, and they are the judge of every claim about
# repeated writes. An effect is *repeated* when the very same write takes effect again on its target while nothing else
# has changed that target since: no other write, no person, no story. An effect that brings other targets along (a
# publish starts the campaigns) counts as a change of those.
#
# Never looks at answers, never forgets an effect, never forgives one.

MAX_REQUESTS_KEPT = 200_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Deed:
    """What a write did, before it has its place in the books. `frees` are other targets that it changed with it."""

    eid: str
    operation: str
    target: str
    before: Json
    after: Json
    frees: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BookedEffect(Deed):
    """One write that took place. `changed` is False when the value was so before."""

    seq: int
    at_s: float
    partner: str
    request_id: str
    identity: str
    changed: bool
    repeated: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SeenRequest:
    """One request as it came in. `status` None: no whole answer left. `reached` False: no byte left the client."""

    seq: int
    at_s: float
    method: str
    host: Host
    path: str
    query: tuple[tuple[str, str], ...]
    partner: str
    status: int | None
    fault: str | None
    request_id: str
    reached: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """A change that no request made: the world's own doing or an operator's."""

    at_s: float
    by: str
    partner: str
    eid: str
    target: str


EDITABLE = frozenset({"title", "city", "venue_name", "hall_name", "category", "start_date_time", "capacity"})
"""Fields of an event that the event-ingest service's edit changes."""
ALL_OF_IT = "event"
"""Every target of an event."""


class TwinBooks:
    """Effects, requests and outside changes, in the order in which they happened."""

    def __init__(self) -> None:
        self.effects: list[BookedEffect] = []
        self.outside: list[Outside] = []
        self.requests: deque[SeenRequest] = deque(maxlen=MAX_REQUESTS_KEPT)
        self.writes_sent = 0
        self._last: dict[tuple[str, str], dict[str, str]] = {}

    @property
    def repeated(self) -> tuple[BookedEffect, ...]:
        return tuple(effect for effect in self.effects if effect.repeated)

    def effect(self, deed: Deed, request: TwinRequest, request_id: str, at_s: float) -> None:
        """Enters an effect and judges on the spot whether it is a repetition."""
        last = self._last.setdefault((request.partner, deed.eid), {})
        effect = BookedEffect(
            seq=len(self.effects) + 1,
            at_s=at_s,
            partner=request.partner,
            **{one.name: getattr(deed, one.name) for one in fields(deed)},
            request_id=request_id,
            identity=request.identity,
            changed=deed.before != deed.after,
            repeated=last.get(deed.target) == request.identity,
        )
        last[deed.target] = request.identity
        if not effect.repeated:
            for target in deed.frees:
                self._free(request.partner, deed.eid, target)
        self.effects.append(effect)

    def changed_outside(self, by: str, partner: str, eid: str, target: str, at_s: float) -> None:
        """An operator or the story changed a target: the same write may now rightly take effect again."""
        self.outside.append(Outside(at_s=at_s, by=by, partner=partner, eid=eid, target=target))
        self._free(partner, eid, target)

    def all_changed(self, at_s: float) -> None:
        """The weekly reset: nothing is as it was."""
        self.outside.append(Outside(at_s=at_s, by="world", partner="", eid="", target="*"))
        self._last.clear()

    def _free(self, partner: str, eid: str, target: str) -> None:
        # A name that ends in a colon stands for all targets of that kind, as in all campaigns of an event.
        last = self._last.get((partner, eid), {})
        for known in list(last):
            if target in (known, ALL_OF_IT) or (target.endswith(":") and known.startswith(target)):
                del last[known]

    def request(self, request: TwinRequest, seen: SeenRequest) -> None:
        self.requests.append(seen)
        if seen.reached and not request.is_read and not request.is_sign_in:
            self.writes_sent += 1

    def summary(self) -> dict[str, Json]:
        """The judge's short verdict."""
        return {
            "writes_sent": self.writes_sent,
            "effects": len(self.effects),
            "repeated": len(self.repeated),
            "effects_by_target": dict(
                Counter(f"{effect.partner}/{effect.eid}/{effect.target}" for effect in self.effects)
            ),
        }


# Signing in: who may act for whom, and until when (API section 5).
#
# Tokens look like JWTs and their claims can be decoded, but nothing signs them: the twin knows its own tokens by heart
# and believes no others. They are numbered and not random, so that a run can be repeated to the byte.


class Refusal(Exception):
    """The service says no. Its name for it goes into the error body."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Sessions:
    """The tokens that were given out."""

    def __init__(self) -> None:
        self._number = 0
        self._access: dict[str, tuple[User, float]] = {}
        self._refresh: dict[str, User] = {}

    def sign_in(self, body: Json, settings: TwinSettings, partners: tuple[str, ...], now_s: float) -> Record:
        """Username and password for a token object."""
        if not isinstance(body, Mapping) or not {"username", "password"} <= body.keys():
            raise Refusal(settings.invalid_status, "error.validation", "username and password are required")
        for user in settings.users:
            if (user.username, user.password) == (body["username"], body["password"]):
                refresh = self._token({"sub": user.username, "use": "refresh"})
                self._refresh[refresh] = user
                return self._tokens(user, refresh, settings, partners, now_s)
        raise Refusal(settings.sign_in_denied_status, "error.auth.invalid_credentials", "wrong username or password")

    def refresh(self, body: Json, settings: TwinSettings, partners: tuple[str, ...], now_s: float) -> Record:
        """A refresh token, which does not rotate, for a new access token."""
        given = filled(settings.refresh_body, body) if isinstance(body, Mapping) else None
        token = (given or {}).get("refresh_token", "")
        user = self._refresh.get(token)
        if user is None:
            raise Refusal(settings.sign_in_denied_status, "error.auth.invalid_refresh", "sign in again")
        return self._tokens(user, token, settings, partners, now_s)

    def user_of(self, authorization: str | None, now_s: float) -> User | None:
        """Who carries this header; None when it is missing, made up or expired."""
        scheme, _, token = (authorization or "").partition(" ")
        user, expires_at_s = self._access.get(token, (None, 0.0))
        return user if scheme == "Bearer" and now_s < expires_at_s else None

    def revoke_access(self) -> None:
        """Every access token expires at once; refresh tokens stay."""
        self._access.clear()

    def revoke_all(self) -> None:
        """A password reset: refresh tokens are worth nothing either."""
        self._access.clear()
        self._refresh.clear()

    def _tokens(
        self, user: User, refresh: str, settings: TwinSettings, partners: tuple[str, ...], now_s: float
    ) -> dict[str, Json]:
        access = self._token({"sub": user.username, "use": "access"})
        self._access[access] = user, now_s + settings.token_lifetime_s
        own = partners if user.partners is None else user.partners
        groups = [*user.groups[:1], *own, *user.groups[1:]]
        return {
            "AccessToken": access,
            "IdToken": self._token({"sub": user.username, "use": "id", "idp:groups": groups}),
            "RefreshToken": refresh,
            "ExpiresIn": int(settings.token_lifetime_s),
            "TokenType": "Bearer",
        }

    def _token(self, claims: Record) -> str:
        self._number += 1
        head = _encoded({"alg": "none", "typ": "JWT"})
        return f"{head}.{_encoded({**claims, 'jti': self._number})}."


def _encoded(part: Record) -> str:
    return base64.urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()).rstrip(b"=").decode()


# The twin as judge of manners: what a polite client must not do, noted while it happens.
#
# The document asks clients to leave 3 seconds between reads of the same thing, to read a task only after its PUT and
# with growing waits, to page modestly, to name token and partner on every call, and to keep quiet when told to
# (API sections 5, 8). A real service would punish some of it at some time; the twin writes all of it down.
#
# Never answers differently because of what it saw. Never judges what is inside the client.

READ_FLOOR_S = 3.0
FIRST_TASK_WAIT_S = 2.0
MAX_TASK_READS = 6
MAX_LIMIT = 1000
# Requests that were already under way when the 429 was given are not held against anyone.
UNDER_WAY_S = 0.05

ViolationKind = Literal[
    "read_floor",
    "missing_authorization",
    "missing_partner",
    "task_without_put",
    "task_too_soon",
    "task_too_often",
    "limit_too_large",
    "retry_after",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    kind: ViolationKind
    at_s: float
    partner: str
    method: str
    path: str
    detail: str


@dataclass(slots=True)
class _TaskReads:
    """The reads of one task since its last PUT."""

    last_s: float
    reads: int = 0

    @property
    def wait_s(self) -> float:
        return FIRST_TASK_WAIT_S * 2.0**self.reads


class ClientWatch:
    """Remembers when what was answered, and holds each new request against it."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self._read_ended_s: dict[tuple[str, ...], float] = {}
        self._tasks: dict[tuple[str, ...], _TaskReads] = {}
        self._quiet: dict[str, tuple[float, float]] = {}

    def arrived(self, request: TwinRequest, at_s: float) -> None:
        """Judges a request at the moment of its arrival."""
        if request.is_sign_in:
            return
        if request.segments != ("status", ""):
            if not request.headers.get("authorization"):
                self._note("missing_authorization", request, at_s, "no Authorization header")
            if not request.partner:
                self._note("missing_partner", request, at_s, "no X-Preferred-Partner-Id header")
        since_s, until_s = self._quiet.get(request.partner, (0.0, 0.0))
        if since_s + UNDER_WAY_S < at_s < until_s:
            self._note("retry_after", request, at_s, f"asked to wait for {until_s - at_s:g} s more")
        if request.method != "GET":
            return
        for key, value in request.query:
            if key == "limit" and value.isascii() and value.isdigit() and (len(value) > 9 or int(value) > MAX_LIMIT):
                self._note("limit_too_large", request, at_s, f"limit={value}, at most {MAX_LIMIT}")
        if _is_task(request):
            self._judge_task(request, at_s)
            return
        ended_s = self._read_ended_s.get(request.resource)
        # Added and not subtracted: a client that waits until ended + 3 must not fail by a rounding error.
        if ended_s is not None and at_s < ended_s + READ_FLOOR_S:
            self._note("read_floor", request, at_s, f"{at_s - ended_s:g} s after its last answer")

    def _judge_task(self, request: TwinRequest, at_s: float) -> None:
        task = self._tasks.get(_task_key(request))
        if task is None:
            self._note("task_without_put", request, at_s, "no PUT came before")
        elif task.reads >= MAX_TASK_READS:
            self._note("task_too_often", request, at_s, f"read {task.reads} times since the PUT already")
        elif at_s < task.last_s + task.wait_s:
            self._note("task_too_soon", request, at_s, f"{at_s - task.last_s:g} s, expected {task.wait_s:g} s")

    def left(self, request: TwinRequest, delivery: Delivery, arrived_s: float) -> None:
        """Notes when the request ended: with its answer, with its cut, or (nobody knows) with its arrival."""
        ended_s = arrived_s if isinstance(delivery, Hang) else arrived_s + delivery.delay_s
        if request.method == "GET":
            self._read_ended_s[request.resource] = ended_s
            if _is_task(request) and (task := self._tasks.get(_task_key(request))):
                task.last_s = ended_s
                task.reads += 1
        elif request.method == "PUT" and request.segments[-1:] == ("client_campaign_status",):
            self._tasks[_task_key(request)] = _TaskReads(last_s=ended_s)
        if isinstance(delivery, TwinAnswer) and delivery.status == 429 and not request.is_sign_in:
            wait = delivery.headers.get("retry-after", "")
            if wait.isdigit():
                self._quiet[request.partner] = (ended_s, ended_s + float(wait))

    def _note(self, kind: ViolationKind, request: TwinRequest, at_s: float, detail: str) -> None:
        method, path = request.method, request.path
        found = Violation(kind=kind, at_s=at_s, partner=request.partner, method=method, path=path, detail=detail)
        self.violations.append(found)


def _is_task(request: TwinRequest) -> bool:
    return request.segments[-2:] == ("client_campaign_status", "task")


def _task_key(request: TwinRequest) -> tuple[str, ...]:
    return (request.partner, *request.segments[:2])
