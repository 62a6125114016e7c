"""Evaluations and observed facts: how they are stored, and how the past is had back from them.

The newest state of a fact is kept whole. A change keeps what the fact was *before* it, of a record only the fields that
differ, so that old changes can be dropped without a second thought and a quiet field costs nothing. Nothing here is
part of the action log or its chain: it explains decisions, it proves none.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from typing import Any, cast

import msgspec
from sqlalchemy import delete, insert, or_, select
from sqlalchemy.dialects.sqlite import insert as upsert

from worker.ledger.database import Connection, Prepared, given
from worker.ledger.rows import text_safe
from worker.ledger.tables import (
    conditions,
    evaluations,
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
from worker.model.commits import Change, Ending, Evaluation, History, Observed, SeenFact, Trail
from worker.model.facts import (
    BEFORE_ALL,
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    PartnerId,
    RuleId,
    Scalar,
    Unknown,
    UnknownCode,
)

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


def dated_body(fact: Fact) -> dict[str, Json]:
    """The same, with when it was read."""
    return {**fact_body(fact), "read_at": maybe_text(fact.read_at)}


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
_WHOLE = '{"whole":%'
"""A change that keeps the whole fact, and not the fields that differ."""
FORGET_AT_ONCE = 2_000
"""How many old changes one transaction drops at most, so that none takes long."""

_E, _O = evaluations.c, observations.c
_EVALUATION = upsert(evaluations)
_PAIR = ("partner", "event", "rule", "ending")
_SAVE_EVALUATION = Prepared(
    _EVALUATION.on_conflict_do_update(
        index_elements=list(_PAIR),
        set_={column.name: _EVALUATION.excluded[column.name] for column in evaluations.c if column.name not in _PAIR},
    ),
    [column.name for column in evaluations.c],
)
_SAVE_TEXT = Prepared(upsert(conditions).on_conflict_do_nothing(), ["when_hash", "source"])
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
_TEXT = Prepared(select(conditions.c.source).where(conditions.c.when_hash == given("of_hash")))
_EVALUATED = tuple(column.name for column in _E)
_EVALUATIONS = select(evaluations).where(_E.event == given("of_event")).order_by(_E.partner, _E.rule, _E.at)
_OF_EVENT = Prepared(_EVALUATIONS)
_OF_PARTNER = Prepared(_EVALUATIONS.where(_E.partner == given("of_partner")))


def save_trail(connection: Connection, trail: Trail) -> None:
    """Stores what a look leaves behind, within the caller's transaction."""
    if trail.texts:
        rows = [{"when_hash": one, "source": text_safe(source)} for one, source in trail.texts.items()]
        _SAVE_TEXT.run_many(connection, rows)
    if trail.evaluations:
        _SAVE_EVALUATION.run_many(connection, [_evaluation_row(one) for one in trail.evaluations])
    if trail.changes:
        _SAVE_CHANGE.run_many(connection, [_change_row(trail.partner, one) for one in trail.changes])
        _SAVE_OBSERVED.run_many(connection, [_observed_row(trail.partner, one.now) for one in trail.changes])
    if trail.forget is not None:
        _FORGET.run(connection, {"of_partner": trail.partner, "before_that": time_text(trail.forget)})


def load_evaluations(
    connection: Connection, events: Sequence[EventId], partner: PartnerId | None
) -> tuple[Evaluation, ...]:
    """The evaluations of these events, by partner, event, rule and then time."""
    asked = _OF_EVENT if partner is None else _OF_PARTNER
    owner = {} if partner is None else {"of_partner": partner}
    each = (asked.run(connection, {"of_event": event, **owner}) for event in sorted(set(events)))
    found = sorted((row for rows in each for row in rows), key=itemgetter(0))  # by partner, and so on as they came
    return tuple(_evaluation(dict(zip(_EVALUATED, row, strict=True))) for row in found)


def load_text(connection: Connection, when_hash: str) -> str | None:
    """The condition of that hash."""
    return next((str(source) for (source,) in _TEXT.run(connection, {"of_hash": when_hash})), None)


def load_observed(connection: Connection, partner: PartnerId, event: EventId | None) -> tuple[Observed, ...]:
    """Every fact of the partner, or of one event and the partner as a whole, as it was seen last."""
    asked = _ALL_OBSERVED if event is None else _OBSERVED_OF_ONE
    owner = {} if event is None else {"of_event": event}
    rows = asked.run(connection, {"of_partner": partner, **owner})
    return tuple(_observed(dict(zip(_SEEN, row, strict=True))) for row in rows)


@readable
def load_last_values(
    connection: Connection, partner: PartnerId, lacking: Mapping[tuple[EventId, FactKey], Collection[str] | None]
) -> Mapping[tuple[EventId, FactKey], Mapping[str, Json]]:
    """What fields of facts were when they were read last, of such as the facts lack now, or all of them (None) of one
    that cannot be read now; as far as that is kept. It is in the change with which that began, which keeps the whole
    fact, because its gaps are others."""
    found: dict[tuple[EventId, FactKey], dict[str, Json]] = {}
    missing = {
        (event, key.text): (key, None if names is None else set(names)) for (event, key), names in lacking.items()
    }
    facts = {text for _, text in missing}
    o = observations.c
    query = select(o.event, o.fact, o.before).where(o.partner == partner, o.fact.in_(facts), o.before.like(_WHOLE))
    for event, fact, before in connection.execute(query.order_by(o.id.desc())):
        if not missing:
            break
        key, names = missing.get((event, fact), (None, None))
        former = put_back(_maybe_body(before), None, BEFORE_ALL)
        if key is None or not isinstance(former, Known) or not isinstance(former.value, dict):
            continue
        if names is None:
            names = set(former.value)
            missing[event, fact] = key, names
        read = {name: former.value[name] for name in names & former.value.keys()}
        found.setdefault((event, key), {}).update(read)
        names.difference_update(read)
        if not names:
            missing.pop((event, fact))
    return {place: values for place, values in found.items() if values}


@readable
def load_history(connection: Connection, partner: PartnerId, since: datetime | None) -> History:
    """What was so at a time, or before the first change that is still kept, and every change after it."""
    newest = load_observed(connection, partner, None)
    keys = {(one.event, one.key.text): one.key for one in newest}
    state: dict[Place, Fact] = {(one.event, one.key.text): one.fact for one in newest}
    begins = since or min((one.at for one in newest), default=None)
    o = observations.c
    query = select(o.event, o.fact, o.at, o.before).where(o.partner == partner).order_by(o.id.desc())
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


def _evaluation_row(one: Evaluation) -> dict[str, object]:
    seen = {name: {"params": params_body(fact.key), **fact_body(fact.fact)} for name, fact in one.facts.items()}
    read = {name: maybe_text(fact.fact.read_at) for name, fact in one.facts.items()}
    return {
        "partner": one.partner,
        "event": one.event,
        "rule": one.rule,
        "ending": one.ending,
        "at": time_text(one.at),
        "since": time_text(one.since),
        "episode": one.episode,
        "reason": one.reason,
        "why": text_safe(one.why),
        "until": maybe_text(one.until),
        "when_hash": one.when_hash,
        "facts": json_text({"facts": seen, "extra": dict(one.extra)}),
        "read": json_text(read),
    }


@readable
def _evaluation(at: Mapping[str, Any]) -> Evaluation:
    stored = cast("Mapping[str, Mapping[str, Json]]", json_of(at["facts"]))
    read = cast("Mapping[str, str | None]", json_of(at["read"]))
    seen: dict[str, SeenFact] = {}
    for name, found in stored["facts"].items():
        body = cast("Mapping[str, Json]", found)
        key = key_of(name, body["params"])
        seen[name] = SeenFact(key=key, fact=fact_of({**body, "read_at": read.get(name)}, time_of(at["at"])))
    return Evaluation(
        partner=PartnerId(at["partner"]),
        event=EventId(at["event"]),
        rule=RuleId(at["rule"]),
        ending=cast(Ending, at["ending"]),
        when_hash=at["when_hash"],
        at=time_of(at["at"]),
        since=time_of(at["since"]),
        episode=at["episode"],
        reason=at["reason"],
        why=at["why"],
        until=maybe_time(at["until"]),
        facts=seen,
        extra=stored["extra"],
    )


def _change_row(partner: PartnerId, change: Change) -> dict[str, object]:
    before = difference(change.before, change.now.fact) if change.before is not None else None
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
        "body": text_of(dated_body(one.fact)),
    }


@lru_cache(maxsize=1024)
def _key_text(key: FactKey) -> str:
    return json_text({"name": key.name, "params": params_body(key)})


@readable
def _observed(at: Mapping[str, Any]) -> Observed:
    key = cast("Mapping[str, Json]", json_of(at["params"]))
    seen_at = time_of(at["at"])
    fact = fact_of(cast("Mapping[str, Json]", json_of(at["body"])), seen_at)
    return Observed(event=EventId(at["event"]), key=key_of(str(key["name"]), key["params"]), fact=fact, at=seen_at)


def _maybe_body(text: str | None) -> Body | None:
    return None if text is None else cast("Mapping[str, Json]", json_of(text))
