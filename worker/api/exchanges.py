"""The three exchanges with the service: one read, one write, one sign-in request. None of them raises.

Here the headers go on, the clock is read around the wire, and whatever happens becomes a value: a `ReadResponse`, an
`Outcome`, an `AuthAnswer`. Nothing is repeated here; when to ask, and whether to ask again, is decided by the caller.
No secret that was ever sent or answered here comes back in what anybody says.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.parse import quote, quote_plus

import httpx

from worker.api.answers import Malformed, NoValue, parsed, strings_in
from worker.api.assumptions import Assumptions
from worker.api.requests import AuthAnswer, Hosts, exact_url, target_of
from worker.api.transport import ANSWER_BYTES_MAX, PARTNER_HEADER, Stale, Unreadable, Whole, Wire, request_of
from worker.model.errors import UsageError, printable
from worker.model.exchange import (
    Accepted,
    Answered,
    Clock,
    NotSent,
    Outcome,
    Refused,
    SecretValue,
    Uncertain,
    WriteRequest,
)
from worker.model.facts import Json, PartnerId, Trace

HEADER_MAX = 200
"""Characters kept of ``x-request-id``, which goes into the log, and of what a proxy adds."""
TOKENS_BYTES_MAX = 512 * 1024
"""Bytes of what a sign-in answers, whose IdToken names all partners of the account."""
HEAVY_BYTES = 64 * 1024
NO_VERDICT = frozenset({408, 425})
"""Statuses of the 400s that say nothing about the resource."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadResponse:
    """One read, as the gate keeps and shares it. ``status`` is None where no whole answer came, and ``why`` then says
    what happened.

    ``denied``: the service refused our credentials, or there was no token to send (``token`` None). ``read_at``: when
    the request began; ``trace`` has the same moment as monotonic seconds.
    """

    status: int | None
    read_at: datetime
    trace: Trace
    body: bytes = field(default=b"", repr=False)
    headers: httpx.Headers = field(default_factory=httpx.Headers, repr=False)
    why: str = ""
    denied: bool = False
    token: SecretValue | None = None
    retry_after: timedelta | None = None

    @property
    def verdict(self) -> Literal["answered", "throttled", "failed"]:
        """For the gate: 429 is throttled; no answer, a 5xx or a redirect is failed; the rest is an answer."""
        if self.status == 429:
            return "throttled"
        if self.status is None or self.status in NO_VERDICT:
            return "failed"
        return "answered" if 200 <= self.status <= 299 or 400 <= self.status <= 499 else "failed"

    @property
    def heavy(self) -> bool:
        """Too large to be kept: a service with an answer of megabytes for each of its events would fill the memory."""
        return len(self.body) > HEAVY_BYTES

    @property
    def ok(self) -> bool:
        """A 2xx."""
        return self.status is not None and 200 <= self.status <= 299

    @property
    def content(self) -> Json:
        """The JSON of a 2xx; None for anything else."""
        try:
            return self.json()
        except NoValue:
            return None

    def json(self) -> Json:
        """The body of a 2xx. Raises `NoValue` for any other answer, and `Malformed` for one that is no JSON."""
        if self.denied:
            raise NoValue(self.why, "denied")
        if self.status == 404:
            raise NoValue(self.why, "gone")
        if not self.ok:
            raise NoValue(self.why, "unreadable")
        return parsed(self.body)


class Exchanges:
    """Makes one request and says what came of it."""

    def __init__(self, *, wire: Wire, hosts: Hosts, clock: Clock, assumptions: Assumptions) -> None:
        self._wire = wire
        self._hosts = hosts
        self._clock = clock
        self._assumptions = assumptions
        self._secrets = Redactor()

    def scrubbed(self, text: str) -> str:
        """A text of anybody's without the secrets that were ever sent or answered here."""
        return self._secrets.scrubbed(text)

    def header(self, headers: httpx.Headers, name: str) -> str:
        """What a header says, as it may be kept and shown; empty where it is not there."""
        return "".join(filter(str.isprintable, self.scrubbed(headers.get(name, ""))[:HEADER_MAX]))

    async def read(
        self, partner: PartnerId, token: SecretValue, target: str, bytes_max: int = ANSWER_BYTES_MAX
    ) -> ReadResponse:
        """One GET of the main API; ``target``: path and query as they go over the wire. An answer that comes from a
        store is as old as its ``Age`` says: it began so much earlier. One of more than ``bytes_max`` is none."""
        self._secrets.keep(token.reveal())
        read_at, began = self._clock.now(), self._clock.monotonic()
        try:
            request = request_of("GET", exact_url(self._hosts.api, target), _headers(partner, token))
            whole = await self._wire.read(request, bytes_max)
        except Exception as error:  # noqa: BLE001  # a read never raises: whatever it was, nothing was learnt
            why = f"no answer: {words_of(error, self.scrubbed)}"
            trace = Trace(get=target, began=began)
            return ReadResponse(status=None, read_at=read_at, trace=trace, why=why, token=token)
        age_s = _age_s(whole)
        status: int | None = whole.status
        denied = is_denied(whole.status, whole.content, self._assumptions)
        why = "" if 200 <= whole.status <= 299 else f"the service answered {whole.status}"
        if denied:
            why = f"{why}: {denial(whole.content)}"
        if (whole.broken is not None or age_s is None) and whole.status != 429:
            status = None
            why = "how old the answer is cannot be told: its header Age is no number of seconds"
            if whole.broken is not None:
                why = f"the answer broke off: {words_of(whole.broken, self.scrubbed)}"
        request_id = self.header(whole.headers, "x-request-id") or None
        return ReadResponse(
            status=status,
            read_at=read_at - timedelta(seconds=age_s or 0),
            trace=Trace(get=target, began=began - (age_s or 0), status=whole.status, x_request_id=request_id),
            body=self._secrets.without_tokens(whole.content),
            headers=whole.headers,
            why=why,
            denied=denied,
            token=token,
            retry_after=self._retry_after(whole),
        )

    async def write(self, partner: PartnerId, token: SecretValue, request: WriteRequest, not_after: float) -> Outcome:
        """One attempt on the wire, unless monotonic time is past ``not_after`` before its first byte. Only cancelling
        it raises, and then it may have been sent."""
        self._secrets.keep(token.reveal())
        began = self._clock.monotonic()
        try:
            url = exact_url(self._hosts.base(request.host), target_of(request.path, request.query))
            sent = request_of(request.method, url, _headers(partner, token), request.body)
        except Exception as error:  # noqa: BLE001  # a write never raises, and no byte of this one was even made
            why = str(error) if isinstance(error, UsageError) else type(error).__name__
            return NotSent(cause="connect", why=f"the request cannot be made: {why}")
        try:
            whole = await self._wire.write(sent, lambda: self._clock.monotonic() > not_after)
        except Stale:
            return NotSent(cause="stale", why="too long after the attempt was recorded")
        except Exception as error:  # noqa: BLE001  # a write never raises: what is not foreseen is uncertain
            return outcome_of_error(error, self.scrubbed)
        answer = Answered(
            status=whole.status,
            x_request_id=self.header(whole.headers, "x-request-id") or None,
            retry_after=self._retry_after(whole),
            took_ms=round((self._clock.monotonic() - began) * 1000),
        )
        if whole.broken is not None:
            how = words_of(whole.broken, self.scrubbed)
            return Uncertain(why=f"the service answered {whole.status}, and the answer broke off: {how}", answer=answer)
        return outcome_of_answer(answer, whole.content, self._assumptions, self.scrubbed)

    async def sign_in(self, path: str, body: Json) -> AuthAnswer:
        """One request to sign in or to refresh. Its body, but for the name of the user, and its answer are secrets."""
        user = body.get("username") if isinstance(body, dict) else None
        self._secrets.keep(*sorted(strings_in(body) - {str(user)}))
        try:
            request = request_of("POST", exact_url(self._hosts.api, path), {}, body)
            whole = await self._wire.read(request, TOKENS_BYTES_MAX)
        except Exception as error:  # noqa: BLE001  # as with reads: no answer, and why
            return AuthAnswer(status=None, why=words_of(error, self.scrubbed))
        if whole.broken is not None and whole.status != 429:
            return AuthAnswer(status=None, why=words_of(whole.broken, self.scrubbed))
        self._secrets.keep(*tokens_in(whole.content))
        return AuthAnswer(status=whole.status, content=whole.content, retry_after=self._retry_after(whole))

    def url(self, request: WriteRequest) -> str:
        """The whole address of a write, for the log. Raises `UsageError` for a host that is not configured."""
        return str(exact_url(self._hosts.base(request.host), target_of(request.path, request.query)))

    def _retry_after(self, whole: Whole) -> timedelta | None:
        now = http_date(whole.headers.get("date", ""))  # a date is by the service's clock, and ours may be wrong
        return retry_after(whole.headers.get("retry-after"), now or self._clock.now())


def _headers(partner: PartnerId, token: SecretValue) -> dict[str, str]:
    """What every authenticated call carries (API section 4)."""
    return {"Authorization": f"Bearer {token.reveal()}", PARTNER_HEADER: partner}


def _age_s(whole: Whole) -> int | None:
    """How long ago the service gave this answer, in seconds; None where the answer says it unreadably."""
    text = whole.headers.get("age", "0").strip()
    return int(text) if re.fullmatch(r"\d{1,10}", text, re.ASCII) else None


# A service, or a proxy before it, may answer an error with the very request that it did not like: the password of a
# sign-in, the token of a header. What it says goes into the log, so every known spelling of every known secret is taken
# out first, before the text is cut: half a token is still half a secret. What looks like a token is taken out as well,
# known or not.

GONE = "…"
SECRETS_KEPT = 20
"""A token is renewed for ever, and an answer speaks of the last ones."""
LONG = 20
"""From this length on a secret is no word, and is known by its beginning: it may have been cut off on its way."""
BEGINNING = 16
TOKEN_NAMES = ("AccessToken", "IdToken", "RefreshToken")
_TOKENLIKE = r"(?i:\b(?:bearer|basic)\s+[^\s\"'<>,;]+)|\beyJ[\w-]{8,}(?:\.[\w-]+)*"
_REST = r"[^\s\"'<>,;]*"


def tokens_in(content: bytes) -> list[str]:
    """The secrets that a sign-in answers: its tokens, whatever they are called."""
    try:
        answer = parsed(content)
    except Malformed:
        return []
    named = [answer.get(name) for name in TOKEN_NAMES] if isinstance(answer, dict) else []
    long = (text for text in strings_in(answer) if len(text) >= LONG)
    return sorted({*long, *(text for text in named if isinstance(text, str))})


class Redactor:
    """Remembers the last secrets, and takes them out of texts."""

    def __init__(self) -> None:
        self._kept: dict[str, frozenset[str]] = {}

    def keep(self, *secrets: str) -> None:
        """From now on these are taken out of everything."""
        for secret in secrets:
            if secret:  # the last ones are those used last
                self._kept[secret] = self._kept.pop(secret, frozenset()) or _spellings(secret)
        while len(self._kept) > SECRETS_KEPT:
            del self._kept[next(iter(self._kept))]

    def scrubbed(self, text: str) -> str:
        """The text without any secret. A pattern of all that are kept would take as long to make as 20 requests."""
        spelled = frozenset[str]().union(*self._kept.values())
        there = [one for one in spelled if (one if len(one) < LONG else one[:BEGINNING]) in text]
        whole = [re.escape(one) for one in sorted(there, key=len, reverse=True)]
        begun = [re.escape(one[:BEGINNING]) + _REST for one in sorted(there) if len(one) >= LONG]
        return re.sub("|".join((*whole, *begun, _TOKENLIKE)), GONE, text)

    def without_tokens(self, content: bytes) -> bytes:
        """An answer that holds facts, without secrets that no fact can be: a short one may be a word of any answer."""
        for secret in self._kept:
            if len(secret) >= LONG:
                content = content.replace(secret.encode("utf-8", "replace"), GONE.encode())
        return content


def _spellings(secret: str) -> frozenset[str]:
    """How a text may come back: as it was, within JSON, an address or a page, as Python shows it, in base64."""
    raw = secret.encode("utf-8", "replace")
    return frozenset(
        (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(secret, safe=""),
            quote_plus(secret),
            html.escape(secret),
            repr(secret)[1:-1],
            repr(raw)[2:-1],
            base64.b64encode(raw).decode(),
        )
    )


# What an exchange tells of a write: one of four outcomes. Pure.
#
# The question is always the same: is it proven that nothing happened? Only a connection that was never made proves it,
# and the service's own refusal. Everything else, from a 429 to a body that breaks off, may hide an effect (API section
# 8) and is `Uncertain`; so is whatever is not foreseen here. A wrong "uncertain" costs a read, a wrong "not sent" costs
# money twice.

REFUSALS = frozenset({400, 404, 405, 410, 413, 415, 422})
_WEB_PAGE = re.compile(rb"\s*<(!doctype html|html)\b", re.IGNORECASE)
"""How an answer begins that is none of this service, which speaks JSON (API section 1): something before it has sent a
page to sign in at, or one of maintenance."""
LONGEST_WAIT = timedelta(days=3650)
"""The most that is made of a ``Retry-After``; how long is really waited is the pace's decision."""
DENIALS: Mapping[str, str] = {
    "error.auth.missing_token": "no access token that the service accepts came with the request",
    "error.auth.not_authorized": "this account may not do this for this partner",
    "error.unauthorized": "only administrators of the service may do this",
}
"""The error codes that the document names (API section 7), told apart in every message."""
TEXT_MAX = 4096
"""Bytes of a body that is no JSON in which a code is looked for."""
WORDS_MAX = 200
"""Characters of a service's explanation that are kept."""
BODY_MAX = 64 * 1024
"""Bytes of an error body that are looked at for its beginning."""
CODES_MAX = 16 * 1024
"""Bytes of a body in which error codes are looked for; what is longer is no JSON then."""

Scrubbed = Callable[[str], str]


def outcome_of_answer(answer: Answered, content: bytes, assumptions: Assumptions, scrubbed: Scrubbed = str) -> Outcome:
    """What a whole answer tells. ``content`` is its body, which is looked at for error codes, and whose beginning is
    kept of a refusal; ``scrubbed`` takes secrets out of that."""
    status = answer.status
    if 200 <= status <= 299:
        if not _WEB_PAGE.match(content):
            return Accepted(answer=answer)
        return Uncertain(why=f"a web page came with status {status}, which is no answer of the service", answer=answer)
    if is_denied(status, content, assumptions):
        return NotSent(cause="denied", why=f"the service answered {status}: {denial(content)}", answer=answer)
    if status in REFUSALS:
        said = explanation(content, scrubbed)
        return Refused(answer=answer, why=f"the service answered {status}, and nothing happened{said}")
    return Uncertain(why=f"the service answered {status}, which may hide an effect", answer=answer)


def is_denied(status: int, content: bytes, assumptions: Assumptions) -> bool:
    """Whether the answer refuses our credentials. A code in the body counts only beside a status that is a refusal:
    a 5xx that speaks of authorisation may still have done something."""
    if status in assumptions.denied("status"):
        return True
    return status in REFUSALS | {401, 403} and not codes_in(content).isdisjoint(assumptions.denied("codes"))


def codes_in(content: bytes) -> frozenset[str]:
    """Every text in the body, among which an error code may be: where it stands is not shown (API section 7), nor that
    the body is JSON at all."""
    try:
        return strings_in(parsed(content[:CODES_MAX]))
    except Malformed:
        text = content[:TEXT_MAX].decode("utf-8", errors="replace")
        return frozenset(re.findall(r"\b[A-Za-z_]\w*(?:\.\w+)+", text))


def denial(content: bytes) -> str:
    """What a refusal of our credentials says, in words: the three documented codes mean three things."""
    found = codes_in(content)
    return next((f"{code}: {words}" for code, words in DENIALS.items() if code in found), "not authorised")


def explanation(content: bytes, scrubbed: Scrubbed = str) -> str:
    """The beginning of an error body, on one line, for the log; nothing where there is none. Secrets are taken out of
    more than is kept, or one could be cut in two and not be known any more."""
    text = " ".join(scrubbed(content[:BODY_MAX].decode("utf-8", errors="replace")).split())
    return f": {printable(text)[:WORDS_MAX]}" if text else ""


def retry_after(header: str | None, now: datetime) -> timedelta | None:
    """The wait that the service asks for: seconds, the longest of several, or an HTTP date; None where it asks for none
    that lies ahead."""
    if header is None:
        return None
    numbers = [part.strip() for part in header.split(",")]  # a proxy may have added its own
    if all(re.fullmatch(r"\d+(\.\d+)?", number, re.ASCII) for number in numbers):
        return timedelta(seconds=min(max(map(float, numbers)), LONGEST_WAIT.total_seconds())) or None
    until = http_date(header)
    return min(until - now, LONGEST_WAIT) if until is not None and until > now else None


def http_date(header: str) -> datetime | None:
    """The moment that a header names; None where it names none."""
    try:
        found = parsedate_to_datetime(header.strip())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def outcome_of_error(error: BaseException, scrubbed: Scrubbed = str) -> Outcome:
    """What a failure without a whole answer tells of a write: nothing was sent, or nobody knows."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return NotSent(cause="connect", why=f"no connection was made: {words_of(error, scrubbed)}")
    return Uncertain(why=f"the request was broken off: {words_of(error, scrubbed)}")


def words_of(error: BaseException, scrubbed: Scrubbed = str) -> str:
    """An exception in words without a header of ours: its text is kept where it speaks of the network, or is ours."""
    name = type(error).__name__
    told = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError, Unreadable)
    text = " ".join(scrubbed(str(error)).split())[:WORDS_MAX] if isinstance(error, told) else ""
    return f"{name}: {text}" if text else name
