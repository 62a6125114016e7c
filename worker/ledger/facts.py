"""Facts: how what is known of a partner is stored, and how the past is had back from it.

The newest state of a fact is kept whole. A change keeps what the fact was *before* it, of a record only the fields that
differ, so that old changes can be dropped without a second thought and a quiet field costs nothing. Nothing here is
part of the action log or its chain: it explains decisions, it proves none.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import cast

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.dialects.sqlite import insert as insert_of

from worker.ledger.rows import AnyRow
from worker.ledger.tables import observations, observed, readable, time_of, time_text
from worker.model.commits import Change, Changes, History, Observed
from worker.model.facts import EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Unknown, UnknownCode

# Facts as JSON, and the difference between two of them, so that a change of one field stores one field.
#
# A difference is what must be put on the newer fact to have the older one back. Only records are narrowed to the fields
# that differ; anything else is kept whole. When a fact was read is no part of what it is.

Body = Mapping[str, Json]


def fact_body(fact: Fact) -> dict[str, Json]:
    """What the fact is, without when it was read."""
    if isinstance(fact, Known):
        return {"value": fact.value, **({"gaps": dict(fact.gaps)} if fact.gaps else {})}
    return {"unknown": fact.code, "why": fact.why}


def stored_body(one: Observed) -> dict[str, Json]:
    """The same, with when it was read, and what it lacks as it was read last."""
    found: dict[str, Json] = {
        **fact_body(one.fact),
        "read_at": None if one.fact.read_at is None else time_text(one.fact.read_at),
    }
    return {**found, "last": dict(one.last)} if one.last else found


def fact_of(body: Body, otherwise: datetime) -> Fact:
    """The fact of a body. ``otherwise``: when a known one was read, where the body does not say."""
    stored = body.get("read_at")
    said = None if stored is None else time_of(str(stored))
    if "unknown" in body:
        return Unknown(code=cast(UnknownCode, body["unknown"]), why=str(body.get("why", "")), read_at=said)
    read_at = said or otherwise
    gaps = body.get("gaps")
    if isinstance(gaps, dict):
        return Known(value=body["value"], read_at=read_at, gaps={name: str(why) for name, why in gaps.items()})
    return Known(value=body["value"], read_at=read_at)


def difference(older: Fact, newer: Fact) -> Body:
    """What brings ``older`` back, put on ``newer``."""
    if not isinstance(older, Known) or not isinstance(newer, Known) or older.gaps != newer.gaps:
        return {"whole": fact_body(older)}
    old, new = older.value, newer.value
    if not isinstance(old, dict) or not isinstance(new, dict):
        return {"whole": fact_body(older)}
    other: dict[str, Json] = {name: value for name, value in old.items() if name not in new or new[name] != value}
    return {"set": other, "unset": [name for name in new if name not in old]}


@readable
def put_back(found: Body | None, newer: Fact | None, read_at: datetime) -> Fact | None:
    """The older fact; None where there was none."""
    if found is None:
        return None
    whole = found.get("whole")
    if isinstance(whole, dict):
        return fact_of(whole, read_at)
    if not isinstance(newer, Known) or not isinstance(newer.value, dict):
        raise ValueError("a difference of fields stands on something that is no record")  # noqa: TRY004 - of the text
    unset = cast("list[Json]", found["unset"])
    kept = {name: value for name, value in newer.value.items() if name not in unset}
    return Known(value={**kept, **cast("dict[str, Json]", found["set"])}, read_at=read_at, gaps=newer.gaps)


Place = tuple[EventId, str]
"""An event, or none, and the key of a fact as text."""
FORGET_AT_ONCE = 2_000
"""How many old changes one transaction drops at most, so that none takes long."""

_O, _C = observed.c, observations.c
_NEW = insert_of(observed)
_SAVE_OBSERVED = _NEW.on_conflict_do_update(
    index_elements=["partner", "event", "fact"], set_={name: _NEW.excluded[name] for name in ("params", "at", "body")}
)
_ADD_CHANGE = insert(observations)
_LAST_CHANGE = select(func.coalesce(func.max(_C.id), 0)).where(_C.partner == bindparam("of_partner"))
_LOOKED_AT = (
    update(observed)
    .where(_O.partner == bindparam("of_partner"), _O.event == bindparam("of_event"), _O.fact == "event")
    .values(looked_at=bindparam("looked"))
)


def save_changes(connection: Connection, seen: Changes, at: datetime) -> None:
    """Stores what was seen, within the caller's transaction."""
    if seen.changes:
        connection.execute(_ADD_CHANGE, [_change_row(seen.partner, one) for one in seen.changes])
        connection.execute(_SAVE_OBSERVED, [_observed_row(seen.partner, one.now) for one in seen.changes])
    if seen.looked_at:
        rows = [{"of_partner": seen.partner, "of_event": event, "looked": at} for event in seen.looked_at]
        connection.execute(_LOOKED_AT, rows)
    if seen.forget is not None:
        old = select(_C.id).where(_C.partner == seen.partner, _C.at < seen.forget).limit(FORGET_AT_ONCE)
        connection.execute(delete(observations).where(_C.id.in_(old)))


def last_change(connection: Connection, partner: PartnerId) -> int:
    """The number of the partner's newest change."""
    return int(connection.execute(_LAST_CHANGE, {"of_partner": partner}).scalar_one())


def load_observed(connection: Connection, partner: PartnerId, event: EventId | None) -> tuple[Observed, ...]:
    """Every fact of the partner, or of one event and the partner as a whole, as it was seen last."""
    query = select(observed).where(_O.partner == partner).order_by(_O.event, _O.fact)
    if event is not None:
        query = query.where(or_(_O.event == "", _O.event == event))
    return tuple(map(_observed, connection.execute(query)))


def facts_begin(connection: Connection, partner: PartnerId) -> datetime | None:
    """How far back the changes of the partner's facts are kept."""
    found: datetime | None = connection.execute(select(func.min(_C.at)).where(_C.partner == partner)).scalar_one()
    return found


@readable
def load_history(
    connection: Connection, partner: PartnerId, since: datetime | None, event: EventId | None = None
) -> History:
    """What was so at a time, or before the first change that is still kept, and every change after it; of all events,
    or of one and of the partner as a whole."""
    newest = load_observed(connection, partner, event)
    keys = {(one.event, one.key.text): one.key for one in newest}
    state: dict[Place, Fact] = {(one.event, one.key.text): one.fact for one in newest}
    begins = since or min((one.at for one in newest), default=None)
    query = select(_C.event, _C.fact, _C.at, _C.before).where(_C.partner == partner).order_by(_C.id.desc())
    if event is not None:
        query = query.where(or_(_C.event == "", _C.event == event))
    steps: list[tuple[datetime, Place, Body]] = []
    for row in connection.execute(query if since is None else query.where(_C.at >= since)):
        place, at = (EventId(row.event), str(row.fact)), row.at
        after = state.pop(place)
        before = put_back(row.before, after, at)
        steps.append((at, place, difference(after, before) if before is not None else {"whole": fact_body(after)}))
        if before is not None:
            state[place] = before
        begins = at if since is None else since
    start = tuple(
        Observed(event=place[0], key=keys[place], fact=fact, at=begins)
        for place, fact in sorted(state.items(), key=lambda one: one[0])
        if begins is not None
    )
    return History(begins=begins, start=start, changes=_replayed(dict(state), keys, steps))


def _replayed(
    state: dict[Place, Fact], keys: Mapping[Place, FactKey], steps: list[tuple[datetime, Place, Body]]
) -> Iterator[Observed]:
    """The changes forwards, each made from its difference only when it is asked for."""
    for at, place, found in reversed(steps):
        fact = put_back(found, state.get(place), at)
        if fact is not None:
            state[place] = fact
            yield Observed(event=place[0], key=keys[place], fact=fact, at=at)


def _change_row(partner: PartnerId, change: Change) -> dict[str, object]:
    return {
        "partner": partner,
        "event": change.now.event,
        "fact": change.now.key.text,
        "at": change.now.at,
        "before": None if change.before is None else difference(change.before.fact, change.now.fact),
    }


def _observed_row(partner: PartnerId, one: Observed) -> dict[str, object]:
    return {
        "partner": partner,
        "event": one.event,
        "fact": one.key.text,
        "params": {"name": one.key.name, "params": [list(pair) for pair in one.key.params]},
        "at": one.at,
        "body": stored_body(one),
    }


@readable
def _observed(row: AnyRow) -> Observed:
    pairs = cast("list[tuple[str, Scalar]]", row.params["params"])
    return Observed(
        event=EventId(row.event),
        key=FactKey(name=row.params["name"], params=tuple((name, value) for name, value in pairs)),
        fact=fact_of(row.body, row.at),
        at=row.at,
        last=row.body.get("last", {}),
        looked_at=row.looked_at,
    )
