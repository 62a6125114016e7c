"""Records of what changed outside: a field that some rule looks at has another value, and whose doing that was.

An auditor asks "who paused this?"; the answer must also be there where it was not the worker.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from worker.engine.state import EVENT, SETUP, PartnerState
from worker.engine.whose import Since, Told, WatchedField, is_ours, last_told
from worker.model.actions import ACTIONS
from worker.model.document import EVENT_FIELDS, PARTNER_FIELDS, SETUP_FIELDS
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Fact, FactKey, Json, Known
from worker.model.ids import EventId, PartnerId
from worker.model.records import Record
from worker.model.rules import Rule
from worker.rules.mentions import looked_at

LISTS = frozenset({"permissions", "features"})
"""Lists of the whole partner whose changes are worth a record."""


def changes_seen(
    ledger: Told, state: PartnerState, rules: Iterable[Rule], now: datetime, among: Container[EventId] | None = None
) -> list[Record]:
    """A record for each change of a watched field since that was last logged, also of one that was taken back since,
    of all events or of those ``among`` them that were looked at. What cannot be read now has not changed yet; what
    cannot be asked of the ledger now is told later."""
    found = [one for one in state.before.items() if among is None or one[0][0] in among]
    fields = watched_fields(rules) if found else {}
    records: list[Record] = []
    for (event, key), olds in found:
        new = state.fact(event, key)
        if new is not None and not isinstance(new, Known):
            continue
        values = [one.value for one in (*olds, new) if isinstance(one, Known) and isinstance(one.value, Mapping)]
        told: list[Record] = []
        try:
            for field in fields.get(key.name, ()) if new is not None else ():
                place = WatchedField(partner=state.partner, event=event, fact=key.name, field=field)
                told.extend(_changes(ledger, place, values, now, state.unsure.get((event, key))))
        except LedgerUnwritable:
            continue
        records.extend(told)
        state.tells((event, key), now)
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


def watched_fields(rules: Iterable[Rule]) -> Mapping[str, tuple[str, ...]]:
    """The fields of the watched facts that some rule names or writes, by fact."""
    rules = list(rules)
    named = looked_at(rules)
    found: dict[str, tuple[str, ...]] = {}
    for key, documented in ((EVENT, EVENT_FIELDS), (SETUP, SETUP_FIELDS)):
        fields = named.get(key.name, frozenset())
        written = {
            field
            for rule in rules
            for step in rule.do
            for fact, field in ACTIONS[step.action].writes
            if fact == key.name
        }
        found[key.name] = tuple(sorted((set(documented) if fields is None else fields) | (written - {""})))
    return found


def _changes(
    ledger: Told, place: WatchedField, values: Sequence[Mapping[str, Json]], now: datetime, since: Since | None
) -> list[Record]:
    """The changes of one field. ``values``: of its fact, oldest first; ``since``: the log may tell of them already."""
    had = [one[place.field] for one in values if place.field in one]
    if since is not None and any(was != now_is for was, now_is in pairwise(had)):
        had[0] = last_told(ledger, place, had[0], since)
    records: list[Record] = []
    for was, now_is in pairwise(had):
        if was != now_is:
            records.append(_record(place, (was, now_is), now, own=is_ours(ledger, place, (was, now_is), records)))
    return records


def _record(place: WatchedField, values: tuple[Json, Json], now: datetime, *, own: bool) -> Record:
    was, now_is = values
    whose = "by the worker's own write" if own else "not by the worker"
    return Record(
        at=now,
        kind="observed",
        why=f"{place.name} changed from {was!r} to {now_is!r}, {whose}",
        partner=place.partner,
        event=place.event,
        facts={place.name: now_is, "before": was, "ours": own},
    )
