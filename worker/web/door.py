"""Who may come in, and what every answer carries: the page is locked unless it can only be reached from this machine.

- Without users and without a token, the page answers only what comes straight from this machine; a request that a proxy
  passed on is turned away, because it could come from anywhere.
- The Host header must be an address, localhost, or a name that the config lists. A foreign web site that points its own
  name at this machine (DNS rebinding) is thereby turned away before anything is looked at.
- A form is only taken from this page's own origin, with a token that another site can neither read nor guess.
- Every answer forbids inline code, foreign sources, frames and caching.

Secrets are kept as digests and compared in constant time. Nothing here knows what a page shows.
"""

import base64
import binascii
import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Literal
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worker.model.exchange import Clock

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
"""Answered without a password: they say yes or no, and nothing else to a stranger."""
FORM_COOKIE = "campaign_worker_form"
WRONG_WAIT_S = 1.0
"""How long a wrong password is left waiting; a right one never is."""
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
class Keys:
    """Who may come in: digests of passwords by name, of the token, and the names under which the page is reached."""

    users: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    token: bytes | None = field(default=None, repr=False)
    hosts: frozenset[str] = frozenset()

    @property
    def locked(self) -> bool:
        """A password is asked for."""
        return bool(self.users) or self.token is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Visitor:
    """Who is asking. ``local``: nobody was asked for a password, so a name is only what the person says."""

    name: str
    how: Literal["password", "token", "local"]


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8")).digest()


class Door:
    """Stands before the whole application."""

    def __init__(self, app: ASGIApp, *, keys: Keys, clock: Clock) -> None:
        self._app = app
        self._keys = keys
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or answers it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal is None and scope["path"] not in OPEN_PATHS:
            visitor = visitor_of(self._keys, headers)
            if visitor is None:
                if "authorization" in headers:
                    await self._clock.sleep(WRONG_WAIT_S)
                refusal = _refused(401, "A user name and a password are needed, or a token.")
                refusal.headers["WWW-Authenticate"] = 'Basic realm="campaign-worker", charset="UTF-8"'
            else:
                scope.setdefault("state", {})["visitor"] = visitor
                if scope["method"] == "POST" and visitor.how != "token" and not _own_origin(headers):
                    refusal = _refused(403, "This form does not come from this page, so it is not taken.")
        target = self._app if refusal is None else refusal
        await target(scope, receive, _guarded(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """What is turned away whoever asks."""
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return _refused(405, "Only GET, HEAD and POST are answered.")
        host = _hostname(headers.get("host", ""))
        if not host or not (_is_address(host) or host == "localhost" or host in self._keys.hosts):
            return _refused(421, "This name is not one of this page's; list it under web.hosts in the config.")
        if not self._keys.locked and any(name in headers for name in PROXY_HEADERS):
            return _refused(403, "Behind a proxy the page needs web.users or web.token in the config.")
        return None


def visitor_of(keys: Keys, headers: Headers) -> Visitor | None:
    """Who this is; None where a password is needed and none, or a wrong one, was given."""
    if not keys.locked:
        return Visitor(name="", how="local")
    kind, _, given = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and keys.token is not None:
        same = hmac.compare_digest(digest(given.strip()), keys.token)
        return Visitor(name="token", how="token") if same else None
    if kind.lower() == "basic":
        name, password = _basic(given)
        same = hmac.compare_digest(digest(password), keys.users.get(name, NOBODY))
        return Visitor(name=name, how="password") if same else None
    return None


class Forms:
    """Tokens for forms: a random cookie, and in the form what only this process can make of it."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()

    def token(self, cookie: str) -> str:
        """What a form must carry for a browser with that cookie."""
        return hmac.new(self._key, cookie.encode(), hashlib.sha256).hexdigest()

    def own(self, headers: Headers, token: str) -> bool:
        """Whether a form was given out by this page to this browser."""
        cookie = cookie_of(headers, FORM_COOKIE)
        return bool(cookie) and hmac.compare_digest(self.token(cookie), token)


def cookie_of(headers: Headers, name: str) -> str:
    """The value of a cookie; empty without one."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


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
    return origin is None or urlsplit(origin).netloc == headers.get("host", "")


def _basic(given: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(given.strip(), validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password


def _hostname(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
