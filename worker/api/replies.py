"""What one read came to: an answer, or the reason why there is none. It is what the gate stores and shares.

The verdict tells the gate and the pace how to go on; everything else is for the decoder and the log.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from worker.api.extent import NOTHING
from worker.api.secret import Secret
from worker.api.wire import Malformed
from worker.model.facts import Json, Trace

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
