"""Requests: the one of each write, the address of each, and the token that all carry.

The same intent gives the same request, byte for byte, so that what was approved, what was logged and what is sent
cannot differ. An event id or a taste cluster may hold a slash, a dot, an ampersand or any script; each must arrive as
one segment. HTTP libraries like to help with that, and a helpful one that resolves ``..`` sends a write to another
resource. So the target is built here, byte by byte, and a library that would change it is refused before anything is
sent.

One token serves everybody, renewed in time, by one request at a time. ``/auth/*`` has the tightest budget of the
service (API section 8), so whoever has none while one is being fetched waits for that one, no two sign-ins begin within
five seconds, and a failed one is not repeated by everyone who asks. The token is renewed at 80% of its life, so that no
request meets its end and none waits for the renewal. How to refresh a token is not shown (section 5, point 11): by
default the worker signs in anew. Nothing of what is sent or answered there is ever shown: errors name the status and no
more.
"""

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from urllib.parse import quote

import httpx

from worker.api.answers import Malformed, integer_from, parsed
from worker.api.assumptions import Assumptions
from worker.model.actions import ACTIONS
from worker.model.endpoints import Endpoint
from worker.model.errors import NotSafe, Unreachable, UsageError, WorkerError
from worker.model.exchange import Clock, SecretValue, WriteRequest
from worker.model.facts import EventId, Json, PartnerId, Scalar
from worker.model.writes import Intent

_DOTS = {".": "%2E", "..": "%2E%2E"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """The addresses of the three hosts of the document (API section 1), as the config has checked them."""

    api: str
    cr: str | None = None
    media: str | None = None

    def base(self, host: str) -> str:
        """The base URL of a host. Raises `UsageError` where the config does not give it."""
        found = {"api": self.api, "cr": self.cr, "media": self.media}.get(host)
        if found is None:
            hint = f"write api.{host}_url in the config; the operator of the service knows the address"
            raise UsageError(f"the {host} host is needed, and its address is not known", hint=hint)
        return found


def segment(text: str) -> str:
    """One path segment, whatever is in it. ``.`` and ``..`` are spelled out, or they would mean a place."""
    return _DOTS.get(text) or _quoted(text)


def path_of(template: str, **names: str) -> str:
    """A path of the document with its names filled in."""
    for name, text in names.items():
        template = template.replace("{" + name + "}", segment(text))
    return template


def target_of(path: str, query: Iterable[tuple[str, str]] = ()) -> str:
    """Path and query as they go over the wire, and as the log shows them. An array repeats its key (API section 4)."""
    text = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in query)
    return f"{path}?{text}" if text else path


def exact_url(base: str, target: str) -> httpx.URL:
    """A URL whose target is sent as it stands. Raises `UsageError` where the library would send another one."""
    url = httpx.URL(base.rstrip("/") + target)
    if not url.raw_path.endswith(target.encode("ascii")):
        hint = "this is a fault of the program: please report it with the line above"
        raise UsageError(f"{target} would not be sent as it is written", hint=hint)
    return url


def filled(template: Mapping[str, str], values: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """A query template with its placeholders filled in."""
    return tuple((name, filled_text(text, values)) for name, text in template.items())


def filled_text(text: str, values: Mapping[str, str]) -> str:
    """One text with its placeholders filled in, in one pass: a value that holds braces is not filled in again."""
    return re.sub(r"\{([a-z_]+)\}", lambda found: values.get(found[1], found[0]), text)


def written_path(path: str) -> str:
    """A path as somebody wrote it, with what no address may hold spelled out; its placeholders stay."""
    return quote(path, safe="/%{}:@!$&'()*+,;=-._~")


def spelled(value: Scalar) -> str:
    """A parameter as it goes into a query: 500.0 as 500, and no exponents."""
    if isinstance(value, str):
        return value
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def filled_body(template: Json, values: Mapping[str, str]) -> Json:
    """A JSON template with its placeholders filled in, wherever a text stands."""
    match template:
        case str():
            return filled_text(template, values)
        case dict():
            return {name: filled_body(part, values) for name, part in template.items()}
        case list():
            return [filled_body(part, values) for part in template]
        case _:
            return template


Query = tuple[tuple[str, str], ...]


def write_request(
    partner: PartnerId, event: EventId, intent: Intent, item: str, assumptions: Assumptions
) -> WriteRequest:
    """The request of one write. Raises `UsageError` for an action that has none."""
    action, params = intent.action, intent.params
    if action == "write":
        return _by_hand(partner, event, params)
    calls = ACTIONS[action].calls if action in ACTIONS else ()
    if not calls:
        raise UsageError(f"the action {action} makes no request")
    row = calls[0]
    query: Query = ()
    body: Json = None
    match action:
        case "pause" | "run" | "optimisation" | "ad_optimisation":  # by the query (API section 3.2)
            template = assumptions.template(f"{row.path.rpartition('/')[2]}.query")
            query = filled(template or {}, {"value": _value(intent), "eid": event})
        case "frontend_status":
            row, name, value = _frontend_status(calls, _value(intent), item)
            values = {"value": value, "eid": event}
            query = filled(assumptions.template(f"{name}.query") or {}, values)
            body = filled_body(assumptions.values[f"{name}.body"], values)
        case "create_draft" | "update_draft":
            body = dict(params)
        case "boost":
            body = filled_body(assumptions.values["boost.body"], {"eid": event})
        case "edit_cluster":  # event, cluster and run are named in the body (API section 2.6)
            body = {"eid": event, **_named(params, assumptions)}
        case "create_campaign":
            template = assumptions.template("create_campaign.query") or {}
            query = _campaign_query(event, _named(params, assumptions), template)
        case _:  # a series is changed by the query that the document names, and a reset has none
            query = tuple(pair for name in row.query for pair in _pairs(name, params.get("value")))
    path = path_of(row.path, eid=event)
    return WriteRequest(host=row.host, method=row.method or "", path=path, query=query, body=body)


def _value(intent: Intent) -> str:
    """The value that the action sets: the one that its name implies, or the one it was given."""
    implied = ACTIONS[intent.action].value
    value = implied if implied is not None else intent.params.get("value")
    if not isinstance(value, str):
        raise UsageError(f"{intent.action} needs a value, not {value!r}")
    return value


def _frontend_status(calls: tuple[Endpoint, ...], value: str, item: str) -> tuple[Endpoint, str, str]:
    """Two writes (API section 3.2): the second says CANCELLED only where the first does, and RUNNING otherwise. The row
    of one, what its assumptions are called, and the value that it carries."""
    match item:
        case "event":
            return calls[0], "frontend_status", value
        case "cr":
            return calls[1], "last_updated_on_fe", "CANCELLED" if value == "CANCELLED" else "RUNNING"
        case _:
            raise UsageError(f"frontend_status has the items event and cr, not {item!r}")


def _named(params: Mapping[str, Json], assumptions: Assumptions) -> dict[str, Json]:
    """The parameters of a cluster, its budget under the name that the service is assumed to have for it."""
    return {assumptions.text("cluster.budget") if name == "budget" else name: value for name, value in params.items()}


def _campaign_query(event: EventId, params: Mapping[str, Json], template: Mapping[str, str]) -> Query:
    """Everything is in the query; what the template does not fill in is added under its own name, in place of a value
    that the template gives there."""
    values = {"eid": event, **{name: _text(value) for name, value in params.items()}}
    named = {found for text in template.values() for found in values if "{" + found + "}" in text}
    more = {name: value for name, value in params.items() if name not in named}
    kept = {name: text for name, text in template.items() if name not in more or "{" in text}
    return (*filled(kept, values), *(pair for name, value in more.items() for pair in _pairs(name, value)))


def _by_hand(partner: PartnerId, event: EventId, params: Mapping[str, Json]) -> WriteRequest:
    """What a rule wrote itself, with the names of the event and its partner filled in, each as one segment."""
    names = {"eid": event, "partner_id": partner, "client_id": str(params.get("client_id", ""))}
    query = filled_body(params.get("query"), names)
    named = query.items() if isinstance(query, dict) else ()
    return WriteRequest(
        host=str(params.get("host", "api")),
        method=str(params["method"]),
        path=path_of(written_path(str(params["path"])), **names),
        query=tuple(pair for name, value in named for pair in _pairs(name, value)),
        body=filled_body(params.get("body"), names),
    )


def _pairs(name: str, value: Json) -> Query:
    """One query parameter: an array repeats its key."""
    return tuple((name, _text(one)) for one in (value if isinstance(value, list) else [value]))


def _text(value: Json) -> str:
    """A value as it stands in a query: numbers without an exponent, booleans and null as JSON spells them."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return spelled(value)
    return json.dumps(value, ensure_ascii=False)


def _quoted(text: str) -> str:
    return quote(text, safe="", errors="replace")


RENEW_AT = 0.8
"""Share of a token's life after which it is renewed."""
LAST_S = 60.0
"""Of a token that lives longer than this, nobody waits for the renewal, however long the service takes for it."""
APART_S = 5.0
"""Two sign-ins begin at least this far apart."""
REFUSED_AGAIN_S = 300.0
"""Refused credentials are tried again after this time and not before."""
FAILED_AGAIN_S = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Waits after sign-ins that failed without a refusal; each is drawn between this and twice as much, at most 60 s."""
LONGEST_WAIT_S = 900.0
NAMED_AGAIN_S = 6 * 3600.0
"""A full sign-in, which names the partners anew, at least this often; between two of them a token may be refreshed."""
DOCUMENTED_LIFETIME_S = 3600
"""``ExpiresIn`` of the document (API section 5), for an answer that leaves it out."""
GROUPS_CLAIM = "idp:groups"
CHECK_BASE = "check api.base_url in the config: there is no sign-in at that address; the service's ends in /api/v3"
CHECK_CREDENTIALS = "check credentials.username and credentials.password in the config, and that the account is active"
CHECK_ADDRESS = "check api.base_url in the config, and whether the service can be reached from here"
NAME_THEM = "name the partners in the config, as partners: [partner-id-…], or ask the operator of the service"

_HEADER_SAFE = re.compile(r"[\x21-\x7e]+")
_SLUG = r"partner-id-[A-Za-z0-9][A-Za-z0-9._-]*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Who signs in."""

    username: SecretValue
    password: SecretValue


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthAnswer:
    """What a request to ``/auth`` came to. ``status`` is None where no whole answer came; ``why`` says what is wrong
    with it, and is empty where it brought tokens."""

    status: int | None
    content: bytes = b""
    retry_after: timedelta | None = None
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The tokens of one sign-in. ``identity`` and ``refresh`` are None where the answer had none. ``began``: when the
    request began that brought them, in monotonic seconds."""

    access: SecretValue
    identity: SecretValue | None
    refresh: SecretValue | None
    lifetime_s: float
    began: float


class Authenticator:
    """Gives out the access token. One request for all who need one; see the module. ``post`` sends JSON to a path of
    the API without authentication, and does not raise for what the service does."""

    def __init__(
        self,
        *,
        post: Callable[[str, Json], Awaitable[AuthAnswer]],
        account: Account,
        clock: Clock,
        chance: Callable[[], float],
        assumptions: Assumptions,
        operator_prefix: str | None = None,
    ) -> None:
        self._post = post
        self._account = account
        self._clock = clock
        self._chance = chance
        self._refresh_by = assumptions.values["auth.refresh"]
        self._operator_prefix = operator_prefix
        self._tokens: Tokens | None = None
        self._flight: asyncio.Task[None] | None = None
        self._began = float("-inf")
        self._named_at = float("-inf")
        self._error: WorkerError = Unreachable("not signed in", hint=CHECK_ADDRESS)
        self._again_at = float("-inf")
        self._failures = 0

    async def token(self) -> SecretValue:
        """The access token to use now. Raises `NotSafe` (refused) or `Unreachable`, again and again without a request
        until it is time to try anew. A renewal that fails leaves the old token in use for as long as it lives."""
        return (await self._valid()).access

    async def _valid(self) -> Tokens:
        now = self._clock.monotonic()
        if tokens := self._within(now, RENEW_AT if now >= self._again_at else 1.0):
            return tokens
        flight = self._renewal()
        if flight is not None and not self._within(now + LAST_S, 1.0):
            await asyncio.shield(flight)
        if tokens := self._within(self._clock.monotonic(), 1.0):
            return tokens
        raise self._error.with_traceback(None)

    def given_at(self, token: SecretValue) -> float | None:
        """When the sign-in began that brought this token: the service let it in then, as it does with a read."""
        return self._tokens.began if self._tokens is not None and self._tokens.access is token else None

    def renewable(self, token: SecretValue) -> bool:
        """Whether a request that was refused with this token may do better with another: one that is there already, or
        a new one. A token only seconds old that is refused will not be helped by its like."""
        return self.given_at(token) is None or self._clock.monotonic() - self._began >= APART_S

    def refused(self, token: SecretValue) -> None:
        """The service did not accept this token: the next who asks signs in anew."""
        if self.given_at(token) is not None:
            self._tokens = None

    async def renew(self, token: SecretValue) -> None:
        """Waits for another token than this one, which others go on with. Raises as `token` where none comes."""
        if self.given_at(token) is not None and (flight := self._renewal()) is not None:
            await asyncio.shield(flight)
        if self.given_at(token) is not None:
            raise self._error.with_traceback(None)

    async def partners(self) -> tuple[PartnerId, ...]:
        """The partners that the token names. Raises `NotSafe` where it names none readably."""
        return partners_in(groups_in((await self._valid()).identity), self._operator_prefix)

    async def refreshed(self) -> AuthAnswer:
        """Renews the token by the refresh that the operator has confirmed, for `probe`: a worker at work refreshes by
        itself."""
        await self.token()
        return await self._refresh()

    async def aclose(self) -> None:
        """Ends a sign-in under way; whoever waits for it is cancelled."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _within(self, now: float, share: float) -> Tokens | None:
        """The tokens in hand, where they are within this share of their life."""
        tokens = self._tokens
        return tokens if tokens is not None and now - tokens.began < tokens.lifetime_s * share else None

    def _renewal(self) -> "asyncio.Task[None] | None":
        """The sign-in under way, begun where it is time for one."""
        if self._flight is None and self._clock.monotonic() >= self._again_at:
            self._flight = asyncio.ensure_future(self._sign_in())
            self._flight.add_done_callback(self._landed)
        return self._flight

    def _landed(self, flight: "asyncio.Task[None]") -> None:
        self._flight = None
        if not flight.cancelled():
            flight.exception()  # marks it as seen where nobody waits any more

    async def _sign_in(self) -> None:
        """Tokens by a refresh, where one is confirmed and who we are was said not too long ago (a refresh may leave
        that out, and then the partners would never change); else by username and password. Both are of one quota: where
        a refresh is told to wait, nothing else is asked either."""
        if self._tokens is not None and self._clock.monotonic() - self._named_at < NAMED_AGAIN_S:
            answer = await self._refresh()
            if not answer.why:
                return
            if answer.status == 429 or (answer.status == 503 and answer.retry_after is not None):
                self._failed(answer)
                return
        username, password = self._account.username.reveal(), self._account.password.reveal()
        answer = await self._ask("/auth", {"username": username, "password": password}, None)
        if answer.why:
            self._failed(answer)
        else:
            self._named_at = self._began

    async def _refresh(self) -> AuthAnswer:
        """A new token by the refresh token, as the operator says it is done."""
        old, how = self._tokens, self._refresh_by
        if not isinstance(how, dict) or old is None or old.refresh is None:
            return AuthAnswer(status=None, why="there is no refresh token, or no way to use it")
        body = filled_body(how["body"], {"refresh_token": old.refresh.reveal()})
        return await self._ask(str(how["path"]), body, old)

    async def _ask(self, path: str, body: Json, old: Tokens | None) -> AuthAnswer:
        """One request for tokens, as soon as it may begin; those that come are in force. A refresh does not rotate the
        refresh token, and may leave out who we are: that stays as in ``old``."""
        while (left := self._began + APART_S - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(max(left, 0.001))
        self._began = began = self._clock.monotonic()
        answer = await self._post(path, body)
        if answer.status is None or answer.why:
            return replace(answer, why=answer.why or "no answer")
        if not 200 <= answer.status <= 299:
            return replace(answer, why=f"the service answered {answer.status}")
        try:
            tokens = tokens_from(answer.content, began)
        except Malformed as error:
            return replace(answer, status=None, why=str(error))
        if old is not None:
            tokens = replace(tokens, identity=tokens.identity or old.identity, refresh=tokens.refresh or old.refresh)
        self._tokens, self._failures = tokens, 0
        return answer

    def _failed(self, answer: AuthAnswer) -> None:
        """Remembers why, and when it is worth trying again."""
        now, status = self._clock.monotonic(), answer.status
        if status is not None and 400 <= status <= 499 and status not in (408, 425, 429):
            hint = CHECK_BASE if status in (404, 405) else CHECK_CREDENTIALS
            self._error = NotSafe(f"the service refused the sign-in with status {status}", hint=hint)
            self._again_at = now + REFUSED_AGAIN_S
            return
        why = answer.why if status is None else f"status {status}"
        self._error = Unreachable(f"signing in failed: {why}", hint=CHECK_ADDRESS)
        least = FAILED_AGAIN_S[min(self._failures, len(FAILED_AGAIN_S) - 1)]
        wait = min(least * (1.0 + self._chance()), FAILED_AGAIN_S[-1])
        if answer.retry_after is not None:
            wait = max(APART_S, min(answer.retry_after.total_seconds(), LONGEST_WAIT_S))
        self._failures += 1
        self._again_at = now + wait


def tokens_from(content: bytes, began: float) -> Tokens:
    """The tokens of an answer. Raises `Malformed`, which quotes nothing of it."""
    try:
        value = parsed(content)
    except Malformed:
        raise Malformed("the answer to the sign-in is not JSON") from None
    if not isinstance(value, dict):
        raise Malformed("the answer to the sign-in is not an object")
    access = value.get("AccessToken")
    if not isinstance(access, str) or not _HEADER_SAFE.fullmatch(access):
        raise Malformed("the answer to the sign-in has no usable AccessToken: is MFA on, or a new password due?")
    seconds = integer_from(value.get("ExpiresIn", DOCUMENTED_LIFETIME_S))
    if seconds is None or not 0 < seconds < 10**9:
        raise Malformed("the answer to the sign-in has no usable ExpiresIn")
    identity, refresh = value.get("IdToken"), value.get("RefreshToken")
    return Tokens(
        access=SecretValue(access),
        identity=SecretValue(identity) if isinstance(identity, str) else None,
        refresh=SecretValue(refresh) if isinstance(refresh, str) and refresh else None,
        lifetime_s=seconds,
        began=began,
    )


def groups_in(identity: SecretValue | None) -> tuple[str, ...]:
    """The group list of an IdToken. Raises `NotSafe` where there is none: without it no partner can be discovered.

    The token is decoded and not verified: nothing is granted on its word, it only says which partners to ask for, and
    the service judges each request anyway. No message quotes what was decoded, because it came with secrets."""
    if identity is None:
        raise NotSafe("the sign-in answered without an IdToken, which names the partners", hint=NAME_THEM)
    claims = _claims(identity.reveal())
    groups = claims.get(GROUPS_CLAIM) if isinstance(claims, dict) else None
    if not isinstance(groups, list) or not all(isinstance(group, str) for group in groups):
        what = "cannot be decoded" if claims is None else f"has no list of texts in its claim {GROUPS_CLAIM}"
        raise NotSafe(f"the IdToken {what}, so the partners are not known", hint=NAME_THEM)
    return tuple(str(group) for group in groups)


def partners_in(groups: Iterable[str], operator_prefix: str | None) -> tuple[PartnerId, ...]:
    """The partners among the groups (API section 5): the two documented forms, in order; all others are ignored."""
    forms = [_SLUG] + ([re.escape(operator_prefix) + "[0-9]+"] if operator_prefix else [])
    pattern = re.compile("|".join(forms), re.ASCII)
    return tuple(PartnerId(group) for group in dict.fromkeys(groups) if pattern.fullmatch(group))


def _claims(token: str) -> Json:
    """The payload of a JWT, None where it cannot be decoded. Both base64 alphabets, with or without padding."""
    parts = token.split(".")
    if len(parts) < 2:
        return None
    payload = parts[1].strip().rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return parsed(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, ValueError):
        return None
