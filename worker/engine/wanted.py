"""What a write will do and spend, from the ledger's own facts: the words are `worker.writes.wording`'s."""

from collections.abc import Sequence
from typing import Protocol

from worker.model.facts import Known
from worker.model.ids import EventId, PartnerId
from worker.model.trail import OF_PARTNER, Observed
from worker.model.writes import Write
from worker.writes.evidence import fact_key, target_value
from worker.writes.wording import Wanted, wanted


class Seen(Protocol):
    """Any ledger: it has the facts as they were read last."""

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Sequence[Observed]: ...


def wanted_of(ledger: Seen, write: Write) -> Wanted:
    """What the write will do, or did: against what was there before its first attempt, else as it was read last. What
    has ended is not looked up any more."""
    facts = {} if write.final else {one.key: one for one in ledger.observed(write.key.partner, write.key.event)}
    before = write.before
    own = facts.get(fact_key(write.intent))
    if not write.before_known and own is not None and own.event == write.key.event:
        _, before = target_value(write.intent, own.fact)
    of_partner = [one.fact.value for one in facts.values() if one.event == OF_PARTNER and isinstance(one.fact, Known)]
    currency = next((one["currency"] for one in of_partner if isinstance(one, dict) and one.get("currency")), "")
    return wanted(write.intent, write.key.item, before, str(currency))
