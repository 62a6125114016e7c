"""Records of what changed outside: a field that some rule looks at has another value, and whose doing that was.

An auditor asks "who paused this?"; the answer must also be there where it was not the worker.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

from worker.engine.state import EVENT, PartnerState
from worker.model.actions import ACTIONS
from worker.model.document import PARTNER_FIELDS
from worker.model.facts import Fact, FactKey, Json, Known
from worker.model.ids import EventId, PartnerId
from worker.model.records import Record
from worker.model.rules import Rule

FIELDS: tuple[str, ...] = (
    "status",
    "frontend_status",
    "campaign_status",
    "client_campaign_status",
    "campaign_optimisation_status",
    "ad_campaign_optimisation_status",
    "start_date_time",
    "capacity",
    "predicted_sales_share",
    "campaign_event_series",
)
"""Fields of the event that are watched where a rule mentions or writes them."""
LISTS = frozenset({"permissions", "features"})
"""Lists of the whole partner whose changes are worth a record."""


def changes_seen(
    state: PartnerState, rules: Iterable[Rule], earlier: Mapping[EventId, Fact | None], now: datetime
) -> list[Record]:
    """A record for each watched field of an event that differs from the last time it was seen."""
    fields = watched_fields(rules)
    records: list[Record] = []
    for event, old in earlier.items():
        new = state.fact(event, EVENT)
        if not (isinstance(old, Known) and isinstance(new, Known)):
            continue
        if not (isinstance(old.value, Mapping) and isinstance(new.value, Mapping)):
            continue
        for field in fields:
            was, now_is = old.value.get(field), new.value.get(field)
            if field in old.value and field in new.value and was != now_is:
                records.append(_record(state, event, field, (was, now_is), now))
    return records


def shared_changes(partner: PartnerId, key: FactKey, old: Fact | None, new: Fact, now: datetime) -> list[Record]:
    """Records of what a fact of the whole partner says otherwise now: fields of its record, permissions and flags."""
    if not (isinstance(old, Known) and isinstance(new, Known)):
        return []
    was, now_is = old.value, new.value
    if isinstance(was, Mapping) and isinstance(now_is, Mapping):
        names = [name for name in PARTNER_FIELDS if name in was and name in now_is and was[name] != now_is[name]]
        return [
            Record(
                at=now,
                kind="observed",
                why=f"{key.name}.{name} changed from {was[name]!r} to {now_is[name]!r}",
                partner=partner,
                facts={f"{key.name}.{name}": now_is[name], "before": was[name]},
            )
            for name in names
        ]
    if key.name in LISTS and isinstance(was, list) and isinstance(now_is, list):
        gained, lost = [one for one in now_is if one not in was], [one for one in was if one not in now_is]
        why = f"{key.name} changed: gained {gained or 'nothing'}, lost {lost or 'nothing'}"
        facts: dict[str, Json] = {key.name: now_is, "before": was}
        return [Record(at=now, kind="observed", why=why, partner=partner, facts=facts)] if gained or lost else []
    return []


def watched_fields(rules: Iterable[Rule]) -> tuple[str, ...]:
    """The event's fields that some rule mentions or writes."""
    texts = [rule.when.source for rule in rules if rule.when is not None]
    written = {
        field for rule in rules for step in rule.do for fact, field in ACTIONS[step.action].writes if fact == "event"
    }
    return tuple(field for field in FIELDS if field in written or any(field in text for text in texts))


def _record(state: PartnerState, event: EventId, field: str, values: tuple[Json, Json], now: datetime) -> Record:
    was, now_is = values
    ours = state.doing.get((event, field)) == now_is
    whose = "by the worker's own write" if ours else "not by the worker"
    return Record(
        at=now,
        kind="observed",
        why=f"event.{field} changed from {was!r} to {now_is!r}, {whose}",
        partner=state.partner,
        event=event,
        facts={f"event.{field}": now_is, "before": was, "ours": ours},
    )
