"""What the log tells of changes that looks have seen: asked at each of them, so by statements of their own."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from worker.ledger.codec import json_of, time_of
from worker.ledger.damage import readable
from worker.ledger.prepared import Prepared, given, unindexed
from worker.ledger.store import Store
from worker.ledger.tables import action_log
from worker.model.ids import EventId, PartnerId
from worker.model.records import ToldChange

_L = action_log.c
_CHANGED = Prepared(
    select(_L.event)
    .where(_L.seq > given("after"), _L.kind == "observed", unindexed(_L.partner) == given("partner"))
    .distinct()
)
_TOLD = Prepared(
    select(_L.seq, _L.at, _L.facts)
    .where(
        _L.partner == given("partner"),
        _L.event == given("event"),
        _L.seq > given("after"),
        unindexed(_L.kind) == "observed",
    )
    .order_by(_L.seq)
)


def changed(store: Store, partner: PartnerId, after_seq: int) -> frozenset[EventId]:
    """The events of the partner of which a record after that one tells a change."""
    found = store.rows(_CHANGED, {"after": after_seq, "partner": partner})
    return frozenset(EventId(event) for (event,) in found if event is not None)


@readable
def changes_told(store: Store, partner: PartnerId, event: EventId, after_seq: int) -> Sequence[ToldChange]:
    """What the records after that one tell of changes of the event, oldest first."""
    found = store.rows(_TOLD, {"partner": partner, "event": event, "after": after_seq})
    read = ((seq, time_of(at), json_of(facts)) for seq, at, facts in found if facts is not None)
    return [ToldChange(seq=seq, at=at, facts=facts) for seq, at, facts in read if isinstance(facts, Mapping)]
