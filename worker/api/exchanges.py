"""The three exchanges with the service: one read, one write, one sign-in request. None of them raises.

Here the headers go on, the clock is read around the wire, and whatever happens becomes a value: a `Reply`, an
`Outcome`, an `AuthAnswer`. Nothing is repeated here; when to ask, and whether to ask again, is decided by the caller.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from worker.api.addresses import Hosts, exact_url, target_of
from worker.api.assumptions import Assumptions
from worker.api.auth import AuthAnswer
from worker.api.breaks import outcome_of_error, words_of
from worker.api.classify import codes_in, denial, is_denied, outcome_of_answer, retry_after
from worker.api.extent import said_in_headers
from worker.api.inhand import InHand
from worker.api.replies import Reply
from worker.api.secret import Secret
from worker.api.transport import Sending, Stale, Whole, Wire, json_content
from worker.api.unchanged import Decoder
from worker.api.wire import Malformed
from worker.model.errors import UsageError
from worker.model.exchange import Clock, WriteRequest
from worker.model.facts import Json, Trace
from worker.model.ids import PartnerId
from worker.model.outcomes import Answered, NotSent, Outcome, Uncertain

Decode = Callable[[bytes], Json | Malformed]

REQUEST_ID_MAX = 200
"""Characters kept of ``x-request-id``, which goes into the log, and of what a proxy adds."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What to GET of the main API. ``path`` is encoded, ``query`` is not. ``decode``: how an answer is read that is not
    needed as a whole."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    decode: Decode | None = None

    @property
    def target(self) -> str:
        """Path and query as they go over the wire."""
        return target_of(self.path, self.query)


class Exchanges:
    """Makes one request and says what came of it."""

    def __init__(self, *, wire: Wire, hosts: Hosts, clock: Clock, assumptions: Assumptions) -> None:
        self._wire = wire
        self._hosts = hosts
        self._clock = clock
        self._assumptions = assumptions
        self._decoder = Decoder()
        self._in_hand = InHand()

    def scrubbed(self, text: str) -> str:
        """A text of anybody's without the secrets that were ever sent or answered here."""
        return self._in_hand.scrubbed(text)

    async def read(self, partner: PartnerId, token: Secret, ask: Ask) -> Reply:
        """One GET. An answer that comes from a store is as old as its ``Age`` says: it began so much earlier."""
        self._in_hand.keep(token)
        read_at, began = self._clock.now(), self._clock.monotonic()
        try:
            url = exact_url(self._hosts.api, ask.target)
            whole = await self._wire.read(Sending(method="GET", url=url, headers=_headers(partner, token)))
        except Exception as error:  # noqa: BLE001  # a read never raises: whatever it was, nothing was learnt
            trace = Trace(get=ask.target, began=began)
            why = f"no answer: {words_of(error, self.scrubbed)}"
            return Reply(status=None, read_at=read_at, trace=trace, why=why, token=token)
        age_s = _age_s(whole)
        read_at, began = read_at - timedelta(seconds=age_s or 0), began - (age_s or 0)
        trace = Trace(get=ask.target, began=began, status=whole.status, x_request_id=self._request_id(whole))
        denied = is_denied(whole.status, whole.content, self._assumptions)
        wait = self._retry_after(whole)
        if (whole.broken is not None or age_s is None) and whole.status != 429:
            why = "how old the answer is cannot be told: its header Age is no number of seconds"
            if whole.broken is not None:
                why = f"the answer broke off: {words_of(whole.broken, self.scrubbed)}"
            return Reply(status=None, read_at=read_at, trace=trace, why=why, denied=denied, token=token)
        content: Json | Malformed = None
        if 200 <= whole.status <= 299:
            raw = self._in_hand.without_tokens(whole.content)
            content = ask.decode(raw) if ask.decode is not None else self._decoder.content((partner, ask.target), raw)
            if isinstance(content, Malformed):
                content = Malformed(self.scrubbed(str(content)))
        return Reply(
            status=whole.status,
            read_at=read_at,
            trace=trace,
            content=content,
            why=_why(whole, denied=denied),
            denied=denied,
            token=token,
            retry_after=wait,
            codes=codes_in(whole.content) if 400 <= whole.status <= 499 else frozenset(),
            headers=said_in_headers(whole.headers),
            proxied=self._proxied(whole),
        )

    async def write(self, partner: PartnerId, token: Secret, request: WriteRequest, not_after: float) -> Outcome:
        """One attempt on the wire, unless monotonic time is past ``not_after`` before its first byte. Only cancelling
        it raises, and then it may have been sent."""
        self._in_hand.keep(token)
        began = self._clock.monotonic()
        try:
            sending = self._sending(partner, token, request)
        except Exception as error:  # noqa: BLE001  # a write never raises, and no byte of this one was even made
            why = str(error) if isinstance(error, UsageError) else type(error).__name__
            return NotSent(cause="connect", why=f"the request cannot be made: {why}")
        try:
            whole = await self._wire.write(sending, lambda: self._clock.monotonic() > not_after)
        except Stale:
            return NotSent(cause="stale", why="too long after the attempt was recorded")
        except Exception as error:  # noqa: BLE001  # a write never raises: what is not foreseen is uncertain
            return outcome_of_error(error, self.scrubbed)
        answer = Answered(
            status=whole.status,
            x_request_id=self._request_id(whole),
            retry_after=self._retry_after(whole),
            took_ms=round((self._clock.monotonic() - began) * 1000),
        )
        if whole.broken is not None:
            how = words_of(whole.broken, self.scrubbed)
            why = f"the service answered {whole.status}, and the answer broke off: {how}"
            return Uncertain(why=why, answer=answer)
        return outcome_of_answer(answer, whole.content, self._assumptions, self.scrubbed)

    async def sign_in(self, path: str, body: Json) -> AuthAnswer:
        """One request to sign in or to refresh. Its body and its answer are secrets."""
        self._in_hand.keep_signing_in(body)
        try:
            headers, content = json_content(body)
            url = exact_url(self._hosts.api, path)
            whole = await self._wire.read(Sending(method="POST", url=url, headers=headers, content=content))
        except Exception as error:  # noqa: BLE001  # as with reads: no answer, and why
            return AuthAnswer(status=None, why=words_of(error, self.scrubbed))
        if whole.broken is not None:
            return AuthAnswer(status=None, why=words_of(whole.broken, self.scrubbed))
        self._in_hand.keep_tokens(whole.content)
        return AuthAnswer(status=whole.status, content=whole.content, retry_after=self._retry_after(whole))

    def url(self, request: WriteRequest) -> str:
        """The whole address of a write, for the log. Raises `UsageError` for a host that is not configured."""
        target = target_of(request.path, request.query)
        return str(exact_url(self._hosts.base(request.host), target))

    def _sending(self, partner: PartnerId, token: Secret, request: WriteRequest) -> Sending:
        more, content = json_content(request.body)
        url = exact_url(self._hosts.base(request.host), target_of(request.path, request.query))
        return Sending(method=request.method, url=url, headers={**_headers(partner, token), **more}, content=content)

    def _request_id(self, whole: Whole) -> str | None:
        return self._header(whole, "x-request-id") or None

    def _proxied(self, whole: Whole) -> dict[str, str]:
        named = [name for name in PROXY_HEADERS if name in whole.headers]
        if PROXIES.search(whole.headers.get("server", "")):
            named.append("server")
        return {name: self._header(whole, name) for name in named}

    def _header(self, whole: Whole, name: str) -> str:
        return "".join(filter(str.isprintable, self.scrubbed(whole.headers.get(name, ""))[:REQUEST_ID_MAX]))

    def _retry_after(self, whole: Whole) -> timedelta | None:
        return retry_after(whole.headers.get("retry-after"), self._clock.now())


def _headers(partner: PartnerId, token: Secret) -> dict[str, str]:
    """What every authenticated call carries (API section 4)."""
    return {"Authorization": f"Bearer {token.reveal()}", "X-Preferred-Partner-Id": partner}


def _age_s(whole: Whole) -> int | None:
    """How long ago the service gave this answer, in seconds; None where the answer says it unreadably."""
    text = whole.headers.get("age", "0").strip()
    return int(text) if re.fullmatch(r"\d{1,10}", text, re.ASCII) else None


def _why(whole: Whole, *, denied: bool) -> str:
    """Why an answer is no success; a refusal of our credentials says which one it is."""
    if 200 <= whole.status <= 299:
        return ""
    said = f"the service answered {whole.status}"
    return f"{said}: {denial(whole.content)}" if denied else said
