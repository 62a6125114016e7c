"""Facts: how what is known of a partner is stored, and how the past is had back from it.

The newest state of a fact is kept whole. A change keeps what the fact was *before* it, of a record only the fields that
differ, so that old changes can be dropped without a second thought and a quiet field costs nothing. Nothing here is
part of the action log or its chain: it explains decisions, it proves none.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec
from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.dialects.sqlite import insert as upsert

from worker.ledger.database import Connection, Prepared, given
from worker.ledger.tables import (
    json_of,
    json_text,
    maybe_text,
    maybe_time,
    observations,
    observed,
    readable,
    time_of,
    time_text,
)
from worker.model.commits import Change, Changes, History, Observed
from worker.model.facts import EventId, Fact, FactKey, Json, Known, PartnerId, Scalar, Unknown, UnknownCode

# Facts as JSON, and the difference between two of them, so that a change of one field stores one field.
#
# A difference is what must be put on the newer fact to have the older one back. Only records are narrowed to the fields
# that differ; anything else is kept whole. When a fact was read is no part of what it is.

Body = Mapping[str, Json]
_ENCODER = msgspec.json.Encoder()


def fact_body(fact: Fact) -> dict[str, Json]:
    """What the fact is, without when it was read."""
    if isinstance(fact, Known):
        return {"value": fact.value, **({"gaps": dict(fact.gaps)} if fact.gaps else {})}
    return {"unknown": fact.code, "why": fact.why}


def stored_body(one: Observed) -> dict[str, Json]:
    """The same, with when it was read, and what it lacks as it was read last."""
    found: dict[str, Json] = {**fact_body(one.fact), "read_at": maybe_text(one.fact.read_at)}
    return {**found, "last": dict(one.last)} if one.last else found


def text_of(body: Body) -> str:
    """The body of a fact as compact JSON. Facts are what a service has answered, so that nothing but numbers of more
    than 64 bits needs the slower way."""
    try:
        return _ENCODER.encode(body).decode()
    except (OverflowError, UnicodeEncodeError):
        return json_text(body)


def fact_of(body: Body, otherwise: datetime) -> Fact:
    """The fact of a body. ``otherwise``: when a known one was read, where the body does not say."""
    said = maybe_time(cast("str | None", body.get("read_at")))
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


def params_body(key: FactKey) -> list[Json]:
    """The parameters of a key."""
    return [[name, value] for name, value in key.params]


def key_of(name: str, params: Json) -> FactKey:
    """The key with these parameters."""
    pairs = cast("list[tuple[str, Scalar]]", params)
    return FactKey(name=name, params=tuple((one, value) for one, value in pairs))


Place = tuple[EventId, str]
"""An event, or none, and the key of a fact as text."""
FORGET_AT_ONCE = 2_000
"""How many old changes one transaction drops at most, so that none takes long."""

_O = observations.c
_SAVE_CHANGE = Prepared(insert(observations), ["partner", "event", "fact", "at", "before"])
_OBSERVED = upsert(observed)
_SAVE_OBSERVED = Prepared(
    _OBSERVED.on_conflict_do_update(
        index_elements=["partner", "event", "fact"],
        set_={name: _OBSERVED.excluded[name] for name in ("params", "at", "body")},
    ),
    [column.name for column in observed.c],
)
_SEEN = tuple(column.name for column in observed.c)
_OF_ALL = select(observed).where(observed.c.partner == given("of_partner")).order_by(observed.c.event, observed.c.fact)
_ALL_OBSERVED = Prepared(_OF_ALL)
_OBSERVED_OF_ONE = Prepared(_OF_ALL.where(or_(observed.c.event == "", observed.c.event == given("of_event"))))
_OLD = select(_O.id).where(_O.partner == given("of_partner"), _O.at < given("before_that")).limit(FORGET_AT_ONCE)
_FORGET = Prepared(delete(observations).where(_O.id.in_(_OLD)))
_LAST_CHANGE = Prepared(select(func.coalesce(func.max(_O.id), 0)).where(_O.partner == given("of_partner")))


def save_changes(connection: Connection, seen: Changes) -> None:
    """Stores what was seen, within the caller's transaction."""
    _SAVE_CHANGE.run_many(connection, [_change_row(seen.partner, one) for one in seen.changes])
    _SAVE_OBSERVED.run_many(connection, [_observed_row(seen.partner, one.now) for one in seen.changes])
    if seen.forget is not None:
        _FORGET.run(connection, {"of_partner": seen.partner, "before_that": time_text(seen.forget)})


def last_change(connection: Connection, partner: PartnerId) -> int:
    """The number of the partner's newest change."""
    return int(_LAST_CHANGE.run(connection, {"of_partner": partner}).fetchone()[0])


def load_observed(connection: Connection, partner: PartnerId, event: EventId | None) -> tuple[Observed, ...]:
    """Every fact of the partner, or of one event and the partner as a whole, as it was seen last."""
    asked = _ALL_OBSERVED if event is None else _OBSERVED_OF_ONE
    owner = {} if event is None else {"of_event": event}
    rows = asked.run(connection, {"of_partner": partner, **owner})
    return tuple(_observed(dict(zip(_SEEN, row, strict=True))) for row in rows)


def facts_begin(connection: Connection, partner: PartnerId) -> datetime | None:
    """How far back the changes of the partner's facts are kept."""
    query = select(func.min(_O.at)).where(_O.partner == partner)
    return maybe_time(connection.execute(query).scalar_one())


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
    o = observations.c
    query = select(o.event, o.fact, o.at, o.before).where(o.partner == partner).order_by(o.id.desc())
    if event is not None:
        query = query.where(or_(o.event == "", o.event == event))
    steps: list[tuple[datetime, Place, Body]] = []
    for row in connection.execute(query if since is None else query.where(o.at >= time_text(since))):
        place, at = (EventId(row.event), str(row.fact)), time_of(row.at)
        after = state.pop(place)
        before = put_back(_maybe_body(row.before), after, at)
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
    before = difference(change.before.fact, change.now.fact) if change.before is not None else None
    return {
        "partner": partner,
        "event": change.now.event,
        "fact": change.now.key.text,
        "at": time_text(change.now.at),
        "before": None if before is None else text_of(before),
    }


def _observed_row(partner: PartnerId, one: Observed) -> dict[str, object]:
    return {
        "partner": partner,
        "event": one.event,
        "fact": one.key.text,
        "params": _key_text(one.key),
        "at": time_text(one.at),
        "body": text_of(stored_body(one)),
    }


@lru_cache(maxsize=1024)
def _key_text(key: FactKey) -> str:
    return json_text({"name": key.name, "params": params_body(key)})


@readable
def _observed(at: Mapping[str, Any]) -> Observed:
    key = cast("Mapping[str, Json]", json_of(at["params"]))
    seen_at = time_of(at["at"])
    body = cast("Mapping[str, Json]", json_of(at["body"]))
    return Observed(
        event=EventId(at["event"]),
        key=key_of(str(key["name"]), key["params"]),
        fact=fact_of(body, seen_at),
        at=seen_at,
        last=cast("Mapping[str, Json]", body.get("last", {})),
    )


def _maybe_body(text: str | None) -> Body | None:
    return None if text is None else cast("Mapping[str, Json]", json_of(text))
