"""Facts as JSON, and the difference between two of them, so that a change of one field stores one field.

A difference is what must be put on the newer fact to have the older one back. Only records are narrowed to the fields
that differ; anything else is kept whole. When a fact was read is no part of what it is.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import cast

import msgspec

from worker.ledger.codec import json_text, maybe_text, maybe_time
from worker.ledger.damage import readable
from worker.model.facts import Fact, FactKey, Json, Known, Scalar, Unknown, UnknownCode

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
