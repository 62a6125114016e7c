"""Records of what changed outside: a field that some rule looks at has another value, and whose doing that was.

An auditor asks "who paused this?"; the answer must also be there where it was not the worker.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import TypeGuard

from worker.engine.former import Was
from worker.engine.ports import Ledger
from worker.engine.state import EVENT, SETUP, WATCHED, PartnerState
from worker.engine.whose import Change, Told, WatchedField, is_ours, is_told, last_told
from worker.model.actions import ACTIONS
from worker.model.document import EVENT_FIELDS, PARTNER_FIELDS, SETUP_FIELDS
from worker.model.errors import LedgerUnwritable
from worker.model.facts import Fact, FactKey, Json, Known, Place
from worker.model.ids import EventId, PartnerId
from worker.model.moments import BEFORE_ALL
from worker.model.records import Record, ToldChange
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
    found = [place for place in state.former.before if among is None or place[0] in among]
    records: list[Record] = []
    if not found:
        return records
    log_seq: int | None = None
    fields = watched_fields(rules)
    state.untold = None
    for event, key in found:
        new = state.latest(event, key)
        if not isinstance(new, Known):
            continue
        try:
            log_seq = ledger.last_seq() if log_seq is None else log_seq
            records.extend(_told_of(ledger, state, (event, key), fields.get(key.name, ()), now))
        except LedgerUnwritable as problem:
            state.untold = f"a change of {event} cannot be told: {problem}"
        else:
            state.former.tells((event, key), new, log_seq)
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


def lacked_until_now(
    ledger: Ledger, partner: PartnerId, stored: Mapping[EventId, Mapping[FactKey, Fact]], but: Container[EventId]
) -> dict[Place, tuple[Was, ...]]:
    """What watched facts were when a process before read that last, as far as they lack it as they are ``stored``, or
    cannot be read. ``but``: not of these events, which may be others by now."""
    facts = ((event, key, known.get(key)) for event, known in stored.items() if event not in but for key in WATCHED)
    lacking = {(event, key): _lacked(fact) for event, key, fact in facts if fact is not None}
    asked = {place: names for place, names in lacking.items() if names is None or names}
    values = ledger.last_values(partner, asked) if asked else {}
    return {
        place: (Was(fact=Known(value=dict(found), read_at=BEFORE_ALL), seen_to=0),) for place, found in values.items()
    }


def _lacked(fact: Fact) -> Collection[str] | None:
    return fact.gaps.keys() if isinstance(fact, Known) else None


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


def _told_of(ledger: Told, state: PartnerState, place: Place, fields: Iterable[str], now: datetime) -> list[Record]:
    """The changes of one fact, field by field."""
    (event, key), new = place, state.latest(*place)
    if not isinstance(new, Known):
        return []
    of_fact = (state.partner, event, key.name)
    seen = [*state.former.values(place, new, lambda after: is_told(ledger, of_fact, after)), Was(fact=new, seen_to=0)]
    since = state.former.unsure.get(place)
    more = () if since is None else ledger.changes_told(state.partner, event, since.seq)
    records: list[Record] = []
    for name in fields:
        field = WatchedField(partner=state.partner, event=event, fact=key.name, field=name)
        had = [(one.fact.value[name], one.seen_to) for one in seen if _has(one.fact.value, name)]
        if since is not None:
            had = _as_told(more, field, since.at, had, read_now=_has(new.value, name))
        records.extend(_changes(ledger, field, had, now))
    return records


def _as_told(
    told: Iterable[ToldChange], field: WatchedField, since: datetime, had: list[tuple[Json, int]], *, read_now: bool
) -> list[tuple[Json, int]]:
    """The values of a field, which begin with what the log told last where that is newer than what another process
    stored. What this one has seen is no older. ``read_now``: the newest of them is what the field is."""
    stored = had[: len(had) - read_now][:1]
    if any(seen_to for _, seen_to in stored):
        return had
    last = last_told(told, field, tuple(was for was, _ in stored), since)
    return [*((one, 0) for one in last), *had[len(stored) :]]


def _has(value: Json, name: str) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, Mapping) and name in value


def _changes(ledger: Told, field: WatchedField, had: Sequence[tuple[Json, int]], now: datetime) -> list[Record]:
    """The changes of one field. ``had``: its values, oldest first, each with how far the log had come when it was last
    seen to be so."""
    records: list[Record] = []
    for (was, seen_to), (now_is, _) in pairwise(had):
        if was != now_is:
            change = Change(was=was, now_is=now_is, seen_to=seen_to)
            records.append(_record(field, (was, now_is), now, own=is_ours(ledger, field, change, records)))
    return records


def _record(field: WatchedField, values: tuple[Json, Json], now: datetime, *, own: bool) -> Record:
    was, now_is = values
    whose = "by the worker's own write" if own else "not by the worker"
    return Record(
        at=now,
        kind="observed",
        why=f"{field.name} changed from {was!r} to {now_is!r}, {whose}",
        partner=field.partner,
        event=field.event,
        facts={field.name: now_is, "before": was, "ours": own},
    )
