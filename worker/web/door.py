"""Who may come in, and what every answer carries: the page is locked unless it can only be reached from this machine.

- Without users and tokens the page shows and cannot decide: whoever reaches it, through a proxy that says nothing of
  itself or as another user of this machine, has proved nothing. What a proxy says it passed on is turned away.
- A password or a token opens what the config says it may: view, approve, operate. So does a name from a proxy whose
  address stands in the config; from anywhere else the same header is nothing.
- A wrong one waits, is counted, and from the same place only so many are told of in a minute; after that those
  that were not right before are judged one a second, and a right one is let in, so that no stranger keeps others out.
- The Host header must be an address, localhost, or a name that the config lists. A foreign web site that points its own
  name at this machine (DNS rebinding) is thereby turned away before anything is looked at.
- A form is only taken from this page's own origin, with a token that another site can neither read nor guess.
- Every answer forbids inline code, foreign sources, frames and caching.

Secrets are kept as digests and compared in constant time. Nothing here knows what a page shows.
"""

import asyncio
import base64
import hashlib
import hmac
import ipaddress
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worker.model.exchange import Clock

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Answered without a password: they say yes or no, and nothing else to a stranger."""
FORM_COOKIE = "campaign_worker_form"
WRONG_WAIT_S = 1.0
"""How long a wrong password is left waiting; a right one never is."""
WRONG_MAX = 20
"""So many wrong ones from one place are counted in `WRONG_WITHIN_S` seconds; a network of IPv6 is one place."""
WRONG_WITHIN_S = 60.0
LINE_MAX = 64
"""Sign-ins that wait to be judged one a second; one more is turned away at once."""
PLACES_MAX = 1_000
"""Places whose wrong guesses are counted at once; the oldest are forgotten first."""
SECRET_LENGTH_MIN = 12
NOBODY = b"\0" * 32
"""A digest that no password has."""
PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with less, browsers send forms without saying where they come from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One way in: the digest of its secret, what it opens, and the most that one approved write may spend."""

    secret: bytes = field(repr=False)
    may: frozenset[str] = frozenset({"view"})
    up_to: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """Who may come in, by name, and the names under which the page is reached. ``proxies`` say in ``named_in``, a
    header, who somebody is."""

    users: Mapping[str, Key] = field(default_factory=dict)
    tokens: Mapping[str, Key] = field(default_factory=dict)
    hosts: frozenset[str] = frozenset()
    proxies: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()
    named_in: str = ""

    @property
    def locked(self) -> bool:
        """A password is asked for."""
        return bool(self.users or self.tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who is asking, and what this may. ``local``: nobody was asked for a password, so this is anybody."""

    name: str
    how: Literal["password", "token", "proxy", "local"]
    may: frozenset[str] = frozenset({"view"})
    up_to: float | None = None


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8")).digest()


class Door:
    """Stands before the whole application. ``keys`` are those of now. ``refused`` is told of each wrong sign-in: where
    it came from, the user's name if one was given, and how many there were from there within `WRONG_WITHIN_S`; of those
    beyond `WRONG_MAX` one more than that."""

    def __init__(
        self, app: ASGIApp, *, keys: Callable[[], Keys], clock: Clock, refused: Callable[[str, str, int], None]
    ) -> None:
        self._app = app
        self._keys = keys
        self._clock = clock
        self._refused = refused
        self._wrong: dict[str, deque[float]] = {}
        self._known: set[bytes] = set()
        self._line, self._one_by_one = asyncio.Semaphore(LINE_MAX), asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or answers it."""
        headers, keys = Headers(scope=scope), self._keys()
        refusal = self._refusal(scope, headers, keys)
        if refusal is None and scope["path"] not in OPEN_PATHS:
            visitor = await self._signed_in(keys, headers, str((scope.get("client") or ("",))[0]))
            if not isinstance(visitor, Visitor):
                refusal = visitor
            else:
                scope.setdefault("state", {})["visitor"] = visitor
                if "view" not in visitor.may and scope["method"] != "POST":
                    refusal = _refused(403, f"{visitor.name} may not view this page: web in the config says so.")
                elif scope["method"] == "POST" and visitor.how != "token" and not _own_origin(headers):
                    refusal = _refused(403, "This form is not this page's own. A proxy must pass on Host as it is.")
        target = self._app if refusal is None else refusal
        await target(scope, receive, _guarded(send))

    async def _signed_in(self, keys: Keys, headers: Headers, peer: str) -> Visitor | Response:
        """Who this is, or the answer for somebody who is nobody."""
        given, place = headers.get("authorization", ""), place_of(peer)
        wrong, now = self._wrong.get(place, deque()), self._clock.monotonic()
        while wrong and wrong[0] < now - WRONG_WITHIN_S:
            wrong.popleft()
        crowded = len(wrong) >= WRONG_MAX
        if (name := name_from_proxy(keys, headers, peer)) is not None:
            known = keys.users.get(name)
            if known is None:
                words = "Whom the proxy names must stand under web.users in the config, and only once here."
                return _refused(403, words)
            return Visitor(name=name, how="proxy", may=known.may, up_to=known.up_to)
        guess = crowded and given and digest(given) not in self._known
        overrun = guess and self._line.locked()
        if guess and not overrun:
            async with self._line, self._one_by_one:  # a right one, too: it is as slow to be found as all others
                await self._clock.sleep(WRONG_WAIT_S)
        visitor = None if overrun else visitor_of(keys, headers)
        if visitor is not None:
            if given and keys.locked:
                self._known.add(digest(given))
            return visitor
        if given and crowded:
            self._refused(place, _claimed_name(given, keys), WRONG_MAX + 1)
            return _refused(429, "Too many wrong passwords came from where you are. Try again in a minute.")
        if given:
            self._known.discard(digest(given))
            wrong.append(now)
            self._wrong[place] = wrong
            while len(self._wrong) > PLACES_MAX:
                self._wrong.pop(next(iter(self._wrong)))
            self._refused(place, _claimed_name(given, keys), len(wrong))
            await self._clock.sleep(WRONG_WAIT_S)
        refusal = _refused(401, "A user name and a password are needed, or a token.")
        refusal.headers["WWW-Authenticate"] = 'Basic realm="campaign-worker", charset="UTF-8"'
        return refusal

    def _refusal(self, scope: Scope, headers: Headers, keys: Keys) -> Response | None:
        """What is turned away whoever asks."""
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "Only GET, HEAD and POST are answered.")
        host = _hostname(headers.get("host", ""))
        if not host or not (_address(host) is not None or host == "localhost" or host in keys.hosts):
            return _refused(421, "This name is not one of this page's; list it under web.hosts in the config.")
        if not keys.locked and any(name in headers for name in PROXY_HEADERS):
            return _refused(403, "Behind a proxy the page needs web.users or web.tokens in the config.")
        return None


def visitor_of(keys: Keys, headers: Headers) -> Visitor | None:
    """Who this is; None where a password is needed and none, or a wrong one, was given."""
    if not keys.locked:
        return Visitor(name="", how="local")
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        secret = digest(_text(given.strip()))
        same = [(name, key) for name, key in keys.tokens.items() if hmac.compare_digest(secret, key.secret)]
        return Visitor(name=same[0][0], how="token", may=same[0][1].may, up_to=same[0][1].up_to) if same else None
    if kind.lower() == "basic":
        name, password = _basic(given)
        key = keys.users.get(name, Key(secret=NOBODY))
        same_password = hmac.compare_digest(digest(password), key.secret)
        return Visitor(name=name, how="password", may=key.may, up_to=key.up_to) if same_password else None
    return None


def name_from_proxy(keys: Keys, headers: Headers, peer: str) -> str | None:
    """Whom a proxy of ours names; nobody where it names several, as one that only passes a header on would. None where
    nothing is said, or not by a proxy of ours."""
    address, named = _address(peer), headers.getlist(keys.named_in) if keys.named_in else []
    if not named or address is None or not any(address in one for one in keys.proxies):
        return None
    return _text(named[0]) if len(named) == 1 else ""


def _text(header: str) -> str:
    """What a header says, each of whose bytes was taken for a letter."""
    return header.encode("latin-1").decode("utf-8", "replace")


def place_of(peer: str) -> str:
    """Where a connection comes from: an address, or the network of one of IPv6, of which anybody has many."""
    address = _address(peer)
    if address is None or address.version == 4:
        return peer
    return str(ipaddress.ip_network((address, 64), strict=False))


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None


class Forms:
    """Tokens for forms: a random cookie, and in the form what only this process can make of it and of who signed in."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def token(self, cookie: str, visitor: Visitor) -> str:
        """What a form must carry for a browser with that cookie, and somebody in it."""
        return hmac.new(self._key, f"{visitor.name}\0{cookie}".encode(), hashlib.sha256).hexdigest()

    def own(self, headers: Headers, token: str, visitor: Visitor) -> bool:
        """Whether a form was given out by this page to this browser, for who sends it."""
        cookie = cookie_of(headers, FORM_COOKIE)
        return bool(cookie) and hmac.compare_digest(self.token(cookie, visitor).encode(), token.encode())


def cookie_of(headers: Headers, name: str) -> str:
    """The value of a cookie; empty without one."""
    return cookie_parser(headers.get("cookie", "")).get(name, "")


def _guarded(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return guarded


def _refused(status: int, words: str) -> Response:
    return PlainTextResponse(words + "\n", status_code=status)


def _own_origin(headers: Headers) -> bool:
    """Where the browser says where a form comes from, it must be here."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")


def _basic(given: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(given.strip(), validate=True).decode("utf-8").partition(":")
    except ValueError:  # of base64, of UTF-8, of characters beyond ASCII
        return "", ""
    return name, password


def _claimed_name(given: str, keys: Keys) -> str:
    """Whose name a wrong sign-in gave, for the log. Any other text could be a secret in the wrong place."""
    name = _basic(given.partition(" ")[2])[0]
    return name if name in keys.users else "(unknown)"


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""
