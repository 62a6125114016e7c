"""What an answer tells of a write: one of four outcomes. Pure.

The question is always the same: is it proven that nothing happened? Only a connection that was never made proves it,
and the service's own refusal. Everything else, from a 429 to a body that breaks off, may hide an effect (API section 8)
and is `Uncertain`; so is whatever is not foreseen here. A wrong "uncertain" costs a read, a wrong "not sent" costs
money twice.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import httpx

from worker.api.answers import Malformed, parsed, strings_in
from worker.api.assumptions import Assumptions
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, Refused, Uncertain

REFUSALS = frozenset({400, 404, 405, 410, 413, 415, 422})
AMBIGUOUS = frozenset({408, 409, 425, 429})
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


def as_it_is(text: str) -> str:
    """For a text that nobody could have put a secret into."""
    return text


def outcome_of_answer(
    answer: Answered, content: bytes, assumptions: Assumptions, scrubbed: Scrubbed = as_it_is
) -> Outcome:
    """What a whole answer tells. ``content`` is its body, which is looked at for error codes, and whose beginning is
    kept of a refusal; ``scrubbed`` takes secrets out of that."""
    status = answer.status
    if 200 <= status <= 299:
        return Accepted(answer=answer)
    if is_denied(status, content, assumptions):
        return NotSent(cause="denied", why=f"the service answered {status}: {denial(content)}", answer=answer)
    if status in REFUSALS:
        return Refused(answer=answer, why=f"the service answered {status}{explanation(content, scrubbed)}")
    return Uncertain(why=f"the service answered {status}, which may hide an effect", answer=answer)


def is_denied(status: int, content: bytes, assumptions: Assumptions) -> bool:
    """Whether the answer refuses our credentials. A code in the body counts only beside a status that is a refusal:
    a 5xx that speaks of authorisation may still have done something."""
    if status in assumptions.denied_statuses():
        return True
    if status not in REFUSALS | {401, 403}:
        return False
    return bool(codes_in(content) & assumptions.denied_codes())


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


def explanation(content: bytes, scrubbed: Scrubbed = as_it_is) -> str:
    """The beginning of an error body, on one line, for the log; nothing where there is none. Secrets are taken out of
    more than is kept, or one could be cut in two and not be known any more."""
    text = " ".join(scrubbed(content[:BODY_MAX].decode("utf-8", errors="replace")).split())
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return f": {printable[:WORDS_MAX]}" if printable else ""


def retry_after(header: str | None, now: datetime) -> timedelta | None:
    """The wait that the service asks for: seconds or an HTTP date; None where it asks for none that lies ahead."""
    if header is None:
        return None
    text = header.strip()
    if re.fullmatch(r"\d+", text, re.ASCII):
        seconds = int(text[-12:]) if len(text.lstrip("0")) <= 12 else int(LONGEST_WAIT.total_seconds())
        return min(timedelta(seconds=seconds), LONGEST_WAIT) if seconds > 0 else None
    try:
        until = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return min(until - now, LONGEST_WAIT) if until > now else None


# What a failure without a whole answer tells of a write: nothing was sent, or nobody knows. Pure.


class Unreadable(Exception):
    """A body beyond a bound, or packed otherwise than asked for; what it would have said is not known. Its text is
    ours, and holds nothing of the body."""


def outcome_of_error(error: BaseException, scrubbed: Scrubbed = as_it_is) -> Outcome:
    """What a failure without a whole answer tells."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return NotSent(cause="connect", why=f"no connection was made: {words_of(error, scrubbed)}")
    return Uncertain(why=f"the request was broken off: {words_of(error, scrubbed)}")


def words_of(error: BaseException, scrubbed: Scrubbed = as_it_is) -> str:
    """An exception in words without a header of ours: its text is kept where it speaks of the network, or is ours."""
    name = type(error).__name__
    told = (httpx.NetworkError, httpx.TimeoutException, httpx.RemoteProtocolError, Unreadable)
    text = " ".join(scrubbed(str(error)).split())[:WORDS_MAX] if isinstance(error, told) else ""
    return f"{name}: {text}" if text else name
