"""The three exchanges with the service: one read, one write, one sign-in request. None of them raises.

Here the headers go on, the clock is read around the wire, and whatever happens becomes a value: a `Reply`, an
`Outcome`, an `AuthAnswer`. Nothing is repeated here; when to ask, and whether to ask again, is decided by the caller.
"""

import base64
import html
import json
import marshal
import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Literal
from urllib.parse import quote, quote_plus

import msgspec

from worker.api.assumptions import Assumptions
from worker.api.auth import AuthAnswer
from worker.api.classify import codes_in, denial, is_denied, outcome_of_answer, outcome_of_error, retry_after, words_of
from worker.api.decoding import ITEM_DEPTH, Rows
from worker.api.requests import Hosts, exact_url, target_of
from worker.api.transport import Sending, Stale, Whole, Wire, json_content
from worker.api.wire import (
    NOTHING,
    Malformed,
    Page,
    Record,
    Secret,
    event_from,
    page_from,
    parsed,
    said_in_headers,
    strings_in,
)
from worker.model.errors import UsageError
from worker.model.exchange import Answered, Clock, NotSent, Outcome, Uncertain, WriteRequest
from worker.model.facts import Json, PartnerId, Trace

# What one read came to: an answer, or the reason why there is none. It is what the gate stores and shares.
#
# The verdict tells the gate and the pace how to go on; everything else is for the decoder and the log.

NO_VERDICT = frozenset({408, 425})
"""Statuses of the 400s that say nothing about the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One read. ``status`` is None where no whole answer came, and ``why`` then says what happened.

    ``content``: the parsed body of a 2xx, or how it is malformed. ``denied``: the service refused our credentials, or
    there was no token to send (``token`` None). ``codes``: what may be an error code in the body of a refusal.
    ``read_at``: when the request began; ``trace`` has the same moment as monotonic seconds. ``headers``: what
    they say of a list's extent; ``proxied``: those by which something between us and the service shows itself.
    """

    status: int | None
    read_at: datetime
    trace: Trace
    content: Json | Malformed = field(default=None, repr=False)
    why: str = ""
    denied: bool = False
    token: Secret | None = None
    retry_after: timedelta | None = None
    codes: frozenset[str] = frozenset()
    headers: Mapping[str, Json] = field(default_factory=lambda: NOTHING)
    proxied: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> Literal["answered", "throttled", "failed"]:
        """For the gate: 429 is throttled; no answer, a 5xx or a redirect is failed; the rest is an answer."""
        if self.status == 429:
            return "throttled"
        if self.status is None or self.status in NO_VERDICT:
            return "failed"
        return "answered" if 200 <= self.status <= 299 or 400 <= self.status <= 499 else "failed"

    @property
    def ok(self) -> bool:
        """A 2xx."""
        return self.status is not None and 200 <= self.status <= 299


# The secrets that the client has in hand, and the taking of them out of whatever somebody else says.
#
# A service, or a proxy before it, may answer an error with the very request that it did not like: the password of a
# sign-in, the token of a header. What it says goes into the log, so every known spelling of every known secret is taken
# out first, before the text is cut: half a token is still half a secret. What looks like a token is taken out as well,
# known or not.

GONE = "…"
KEPT_MAX = 20
"""Secrets remembered; a token is renewed for ever, and an answer speaks of the last ones."""
LONG = 20
"""From this length on a secret is no word, and is known by its beginning: it may have been cut off on its way."""
BEGINNING = 16
REST = r"[^\s\"'<>,;]*"
TOKEN_NAMES = ("AccessToken", "IdToken", "RefreshToken")
_TOKENLIKE = re.compile(r"(?i:\b(?:bearer|basic)\s+[^\s\"'<>,;]+)|\beyJ[\w-]{8,}(?:\.[\w-]+)*")


class InHand:
    """Remembers secrets, and takes them out of texts."""

    def __init__(self) -> None:
        self._kept: dict[str, None] = {}
        self._signs: frozenset[str] = frozenset()
        self._any: re.Pattern[str] | None = None
        self._long: tuple[bytes, ...] = ()

    def keep(self, secret: str | Secret) -> None:
        """From now on this is taken out of everything."""
        text = secret if isinstance(secret, str) else secret.reveal()
        if not text or text in self._kept:
            return
        self._kept[text] = None
        while len(self._kept) > KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        self._signs = frozenset(sign for one in self._kept for sign in _signs(one))
        self._any = None
        self._long = tuple(one.encode("utf-8", "replace") for one in self._kept if len(one) >= LONG)

    def keep_signing_in(self, body: Json) -> None:
        """What a sign-in sends: everything but the name of the user."""
        user = body.get("username") if isinstance(body, dict) else None
        for text in strings_in(body) - {str(user)}:
            self.keep(text)

    def keep_tokens(self, content: bytes) -> None:
        """What a sign-in answers: its tokens, whatever they are called."""
        try:
            answer = parsed(content)
        except Malformed:
            return
        found = {text for text in strings_in(answer) if len(text) >= LONG}
        if isinstance(answer, dict):
            found.update(str(answer[name]) for name in TOKEN_NAMES if name in answer)
        for text in sorted(found):
            self.keep(text)

    def scrubbed(self, text: str) -> str:
        """The text without any secret."""
        if not any(sign in text for sign in self._signs):
            return _TOKENLIKE.sub(GONE, text)
        if self._any is None:  # hardly ever needed, and takes milliseconds to make
            self._any = _any_of(self._kept)
        return self._any.sub(GONE, text)

    def without_tokens(self, content: bytes) -> bytes:
        """An answer that holds facts, without secrets that no fact can be: a short one may be a word of any answer."""
        for secret in self._long:
            if secret in content:
                content = content.replace(secret, GONE.encode())
        return content


def _any_of(secrets: Iterable[str]) -> re.Pattern[str]:
    spelled = {one for secret in secrets for one in _spellings(secret)}
    whole = [re.escape(one) for one in sorted(spelled, key=len, reverse=True)]
    begun = [re.escape(one[:BEGINNING]) + REST for one in sorted(spelled) if len(one) >= LONG]
    return re.compile("|".join((*whole, *begun, _TOKENLIKE.pattern)))


def _signs(secret: str) -> Iterator[str]:
    """One of these stands in every text that has something of the secret to be taken out."""
    for one in _spellings(secret):
        yield one[:BEGINNING] if len(one) >= LONG else one


def _spellings(secret: str) -> Iterator[str]:
    """How a text may come back: as it was, within JSON, an address or a page, as Python shows it, in base64."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote_plus(secret)
    yield html.escape(secret)
    yield repr(secret)[1:-1]
    yield repr(secret.encode("utf-8", "replace"))[2:-1]
    yield base64.b64encode(secret.encode("utf-8", "replace")).decode()


# Decodes answers, and none twice: what comes back byte for byte the same gives the very same objects again.
#
# Most looks find nothing new, and decoding a list of ten thousand events costs more than all the rest of such a look.
# The objects are shared from then on; nobody may change them, and nobody does: what is made of them is made anew. Of
# an answer only a digest is kept beside its objects, and of a page that has changed the events that have not stay the
# objects that they were: a list of ten thousand is in memory once.

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
UNCHANGED_MAX = 4_000
"""Answers kept; those asked for longest ago go first."""
WITHOUT_REFERENCES = 2
"""The newest way of `marshal` in which equal values are the same bytes, whoever else holds them."""


@dataclass(slots=True)
class Decoder:
    """The last answer of each place, as a digest of its bytes and as JSON."""

    _kept: OrderedDict[Hashable, tuple[bytes, Json | Malformed]] = field(default_factory=OrderedDict)
    _items: dict[Hashable, dict[bytes, Json]] = field(default_factory=dict)

    def content(self, place: Hashable, raw: bytes) -> Json | Malformed:
        """The JSON of an answer, or how it is malformed."""
        known, digest = self._kept.get(place), _digest(raw)
        if known is not None and known[0] == digest:
            self._kept.move_to_end(place)
            return known[1]
        content: Json | Malformed
        try:
            content = self._in_items(place, raw)
        except Malformed as error:
            content = error
        self._kept[place] = (digest, content)
        self._kept.move_to_end(place)
        if len(self._kept) > UNCHANGED_MAX:
            gone, _ = self._kept.popitem(last=False)
            self._items.pop(gone, None)
        return content

    def _in_items(self, place: Hashable, raw: bytes) -> Json:
        """The JSON of an answer; of one that has items, those that are as they were are not decoded again. What cannot
        be taken apart is read as a whole, which says what is wrong with it. Raises `Malformed`."""
        if b'"items"' not in raw:
            return parsed(raw)
        try:
            parts = _PARTS.decode(raw)
            items = _ITEMS.decode(parts.pop("items"))
            before, now = self._items.get(place, {}), dict[bytes, Json]()
            listed = []
            for item in items:
                digest = _digest(item)
                value = before[digest] if digest in before else parsed(bytes(item), ITEM_DEPTH)
                now[digest] = value
                listed.append(value)
            content: dict[str, Json] = {name: parsed(bytes(part), 1) for name, part in parts.items()}
        except (msgspec.MsgspecError, KeyError, ValueError, RecursionError):
            self._items.pop(place, None)
            return parsed(raw)
        self._items[place] = now
        return {**content, "items": listed}


@dataclass(slots=True)
class Pages:
    """The pages of one list as they were last, by number. ``whole``: how many they were, if they were a whole list;
    ``rows``: how those are read of which not every field is needed."""

    whole: int = 0
    rows: Rows = field(default_factory=Rows)
    _last: dict[int, tuple[Json, Page]] = field(default_factory=dict)
    _items: dict[str, tuple[Json, Record]] = field(default_factory=dict)

    def page(self, number: int, content: Json) -> Page:
        """The page that this content is. Raises `Malformed`."""
        last = self._last.get(number)
        if last is not None and last[0] is content:
            return last[1]
        items = content.get("items") if isinstance(content, dict) else None
        if isinstance(items, list):
            items[:] = [self._as_before(item) for item in items]
        page = page_from(content, self._event)
        self._last[number] = (content, page)
        if len(self._items) > 2 * sum(len(one.records) for _, one in self._last.values()):
            listed = [eid for _, one in self._last.values() for eid in one.records]
            self._items = {eid: self._items[eid] for eid in listed}
            self.rows.only(self._items)
        return page

    def _as_before(self, item: Json) -> Json:
        """The same item as it was answered before, if there is one."""
        eid = item.get("id") if isinstance(item, dict) else None
        known = self._items.get(eid) if isinstance(eid, str) else None
        return known[0] if known is not None and _alike(known[0], item) else item

    def _event(self, item: Json) -> tuple[str, Record]:
        """As `event_from`, with the record that was made of the very same item before."""
        eid = item.get("id") if isinstance(item, dict) else None
        known = self._items.get(eid) if isinstance(eid, str) else None
        if known is not None and known[0] is item and isinstance(eid, str):
            return eid, known[1]
        made = event_from(item)
        self._items[made[0]] = (item, made[1])
        return made


def _digest(raw: bytes | msgspec.Raw) -> bytes:
    return sha256(raw).digest()


def _alike(one: Json, other: Json) -> bool:
    """Whether two values are the same to the last type: ``True``, ``1`` and ``1.0`` are equal, and not alike."""
    return one is other or (
        one == other and marshal.dumps(one, WITHOUT_REFERENCES) == marshal.dumps(other, WITHOUT_REFERENCES)
    )


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
