"""What a failure without a whole answer tells of a write: nothing was sent, or nobody knows. Pure.

Apart from what answers tell (`worker.api.classify`), because that is all that rule tests need, and they start sooner
without the HTTP library.
"""

import httpx

from worker.api.classify import WORDS_MAX, Scrubbed, as_it_is
from worker.model.outcomes import NotSent, Outcome, Uncertain


def outcome_of_error(error: BaseException, scrubbed: Scrubbed = as_it_is) -> Outcome:
    """What a failure without a whole answer tells."""
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return NotSent(cause="connect", why=f"no connection was made: {words_of(error, scrubbed)}")
    return Uncertain(why=f"the request was broken off: {words_of(error, scrubbed)}")


def words_of(error: BaseException, scrubbed: Scrubbed = as_it_is) -> str:
    """An exception in words that cannot hold a header of ours: its text is kept only where it speaks of the network."""
    name = type(error).__name__
    network = isinstance(error, httpx.NetworkError | httpx.TimeoutException | httpx.RemoteProtocolError)
    text = " ".join(scrubbed(str(error)).split())[:WORDS_MAX] if network else ""
    return f"{name}: {text}" if text else name
