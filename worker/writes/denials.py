"""Refusals of our credentials (401, 403), counted for the partner and not for the write. Pure.

The first one may be a token that has just ended: the next attempt signs in anew. A second one in a row, by whichever
write of the partner, means that a new token does not help, and holds all of its writes, so that nobody hammers a door
that is locked and no account gets blocked. Attempts that were under way together were made with the same token and are
one refusal. What ends the row is an answer that shows that a write was let in; a 429 or a broken connection shows
nothing. The row is part of the partner's memory: it outlives the process.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from worker.model.memory import PartnerMemory
from worker.model.outcomes import Accepted, NotSent, Outcome, Refused
from worker.model.writes import Write

CREDENTIALS_HOLD = timedelta(minutes=5)
"""How long the writes are held before the credentials are tried again, by one write alone."""


def in_a_row(memory: PartnerMemory, sending: Write) -> bool:
    """Whether a refusal of this attempt is the second in a row: it was recorded after the first one had come."""
    sent = sending.last_sent_at
    return memory.denied_at is not None and sent is not None and sent > memory.denied_at


def after_outcome(memory: PartnerMemory, sending: Write, outcome: Outcome, now: datetime) -> PartnerMemory:
    """The partner's memory after an attempt. ``sending`` is the write as it was recorded for it."""
    if isinstance(outcome, NotSent) and outcome.cause == "denied":
        if in_a_row(memory, sending):
            return replace(memory, denied_until=now + CREDENTIALS_HOLD)
        first = min(memory.denied_at or now, now)  # one that is still to come was stamped by a clock that was wrong
        return replace(memory, denied_at=first)
    if isinstance(outcome, Accepted | Refused) and memory.denied_at is not None:
        return replace(memory, denied_at=None, denied_until=None)
    return memory
