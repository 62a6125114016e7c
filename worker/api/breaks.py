"""What a failure without a whole answer tells of a write: nothing was sent, or nobody knows. Pure.

Apart from what answers tell (`worker.api.classify`), because that is all that rule tests need, and they start sooner
without the HTTP library.
"""

import httpx

from worker.api.classify import WORDS_MAX, Scrubbed, as_it_is
from worker.model.outcomes import NotSent, Outcome, Uncertain


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
