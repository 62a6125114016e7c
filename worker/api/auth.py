"""Signing in, and staying signed in: one token for everybody, renewed in time, by one request at a time.

``/auth/*`` has the tightest budget of the service (API section 8), so whoever needs a token while one is being fetched
waits for that one, no two sign-ins begin within five seconds, and a failed one is not repeated by everyone who asks.
The token is renewed at 80% of its life, so that no request meets its end. How to refresh a token is not shown (section
5, point 11): by default the worker signs in anew.

Nothing of what is sent or answered here is ever shown: errors name the status and no more.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta

from worker.api.answers import Malformed, integer_from, parsed
from worker.api.assumptions import Assumptions
from worker.api.requests import filled_body
from worker.model.errors import NotSafe, Unreachable, WorkerError
from worker.model.exchange import Clock, SecretValue
from worker.model.facts import Json, PartnerId

RENEW_AT = 0.8
"""Share of a token's life after which it is renewed."""
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
        self._error: WorkerError | None = None
        self._again_at = float("-inf")
        self._failures = 0

    async def token(self) -> SecretValue:
        """The access token to use now. Raises `NotSafe` (refused) or `Unreachable`, again and again without a request
        until it is time to try anew. A renewal that fails leaves the old token in use for as long as it lives."""
        now = self._clock.monotonic()
        if self._within(now, RENEW_AT) or (self._within(now, 1.0) and now < self._again_at):
            return self._in_force().access
        if self._flight is None and (self._error is None or now >= self._again_at):
            self._flight = asyncio.ensure_future(self._sign_in())
            self._flight.add_done_callback(self._landed)
        if self._flight is not None:
            await asyncio.shield(self._flight)
        if not self._within(self._clock.monotonic(), 1.0):
            raise self._error or Unreachable("not signed in", hint=CHECK_ADDRESS)
        return self._in_force().access

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

    async def partners(self) -> tuple[PartnerId, ...]:
        """The partners that the token names. Raises `NotSafe` where it names none readably."""
        await self.token()
        return partners_in(groups_in(self._in_force().identity), self._operator_prefix)

    async def refreshed(self) -> str:
        """Renews the token by the refresh that the operator has confirmed; why that did not work, empty where it did.
        For `probe`: a worker at work refreshes by itself."""
        await self.token()
        await self._apart()
        return await self._refresh()

    async def aclose(self) -> None:
        """Ends a sign-in under way; whoever waits for it is cancelled."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.gather(self._flight, return_exceptions=True)

    def _within(self, now: float, share: float) -> bool:
        """Whether there is a token that is within this share of its life."""
        return self._tokens is not None and now - self._tokens.began < self._tokens.lifetime_s * share

    def _in_force(self) -> Tokens:
        if self._tokens is None:
            raise Unreachable("not signed in", hint=CHECK_ADDRESS)
        return self._tokens

    def _landed(self, flight: "asyncio.Task[None]") -> None:
        self._flight = None
        if not flight.cancelled():
            flight.exception()  # marks it as seen where nobody waits any more

    async def _sign_in(self) -> None:
        """Tokens by a refresh, where one is confirmed and who we are was said not too long ago (a refresh may leave
        that out, and then the partners would never change); else by username and password."""
        await self._apart()
        recently = self._clock.monotonic() - self._named_at < NAMED_AGAIN_S
        if self._tokens is not None and recently and not await self._refresh():
            return
        await self._apart()
        username, password = self._account.username.reveal(), self._account.password.reveal()
        answer = await self._ask("/auth", {"username": username, "password": password}, None)
        if answer.why:
            self._failed(answer)
        else:
            self._named_at = self._began

    async def _apart(self) -> None:
        """Waits until the next request to ``/auth`` may begin."""
        while (left := self._began + APART_S - self._clock.monotonic()) > 0.0:
            await self._clock.sleep(max(left, 0.001))

    async def _refresh(self) -> str:
        """A new token by the refresh token, as the operator says it is done; why it did not work, empty where it
        did."""
        old, how = self._tokens, self._refresh_by
        if not isinstance(how, dict) or old is None or old.refresh is None:
            return "there is no refresh token, or no way to use it"
        body = filled_body(how["body"], {"refresh_token": old.refresh.reveal()})
        return (await self._ask(str(how["path"]), body, old)).why

    async def _ask(self, path: str, body: Json, old: Tokens | None) -> AuthAnswer:
        """One request for tokens; those that come are in force. A refresh does not rotate the refresh token, and may
        leave out who we are: that stays as in ``old``."""
        self._began = self._clock.monotonic()
        began = self._began
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
        self._tokens, self._error, self._failures = tokens, None, 0
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
        raise Malformed("the answer to the sign-in has no usable AccessToken")
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
