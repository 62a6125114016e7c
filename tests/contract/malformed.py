"""Answers of every ill-formed kind, drawn from a seed, and a judge of what the client may make of them.

A case is one answer of one read path, spoilt in one way: by the connection, by its status, in its bytes, as a whole, or
in one place somewhere inside. The judge looks at the bytes that went out and at the fact that came in, and knows the
document's tables but none of the client's decoders: whatever the fact claims to know must stand in the answer, be of
the documented type, and belong to the event that was asked for. Everything else must be unknown.
"""

import json
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

import httpx

from tests.unit.api.world import BrokenBody
from tests.unit.sandbox.desk import Desk
from worker.api.facts import FACT_SOURCES, request_for_fact
from worker.model.facts import (
    CLUSTER_FIELDS,
    RADIUS_FIELDS,
    RECORDS,
    EventId,
    Fact,
    FactKey,
    Field,
    Json,
    Known,
    PartnerId,
    Scalar,
)

E1 = EventId("e1")
PARAMS: Mapping[str, Scalar] = {
    "budget": 500.0,
    "currency": "EUR",
    "distance_unit": "mile",
    "end_date": "2031-01-31",
    "goal": "ROAS",
    "has_pixel": "true",
    "lead_form_id": "",
    "location": "Porto, PT",
    "runtime_in_days": 30,
    "start_date": "2031-01-01",
    "type": "capacity",
}
LISTS: Mapping[str, Mapping[str, Field]] = {"clusters": CLUSTER_FIELDS, "suggested_radius": RADIUS_FIELDS}
NAMED = frozenset({"suggested_tcs", "campaigns", "clusters"})
"""Lists whose items are named by cluster and run."""
PLAIN_LISTS = frozenset({"permissions", "features", "call_to_action"})
NUMBER = r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*"
OTHER_TYPES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, 1e308, "", " ", "7", "null", "DRAFT"),
    *([], {}, [[]], {"": 1}),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes out. ``content`` is None where no read may know anything of it. ``kind``: how it is spoilt."""

    kind: str
    make: Callable[[], httpx.Response | Exception]
    content: tuple[Json] | None = None


class Raw(httpx.AsyncByteStream):
    """Bytes as they go over the wire, whatever the headers say of them."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


def key_of(name: str) -> FactKey:
    """The fact with all its parameters."""
    return FactKey(name=name, params=tuple(sorted((one, PARAMS[one]) for one in FACT_SOURCES[name].params)))


def path_of(name: str) -> str:
    """The path that the fact is read from."""
    question = request_for_fact(FACT_SOURCES, PartnerId("p"), E1, key_of(name))
    assert not isinstance(question, str)
    return question.path


@cache
def good(name: str) -> str:
    """The well-formed answer, as the twin gives it."""
    question = request_for_fact(FACT_SOURCES, PartnerId("p"), E1, key_of(name))
    assert not isinstance(question, str)
    target = httpx.URL("http://twin" + question.path, params=question.query).raw_path.decode()
    return json.dumps(Desk().read(target))


def answers(rng: Random, whole: str) -> Iterator[Answer]:
    """Spoilt answers for ever; ``whole`` is the well-formed one."""
    ways = (_connection, _status, _bytes, _whole, _inside, _inside, _inside, _swapped)
    while True:
        yield rng.choice(ways)(rng, whole)


def _connection(rng: Random, whole: str) -> Answer:
    errors = (
        lambda: httpx.ConnectError("refused"),
        lambda: httpx.ConnectTimeout("slow"),
        lambda: httpx.ReadTimeout("slow"),
        lambda: httpx.WriteError("gone"),
        lambda: httpx.ReadError("reset"),
        lambda: httpx.RemoteProtocolError("not HTTP"),
        lambda: httpx.Response(200, stream=BrokenBody()),
        lambda: httpx.Response(200, stream=Raw(whole.encode()), headers={"Content-Encoding": "gzip"}),
        lambda: OSError("the disk of the proxy"),
    )
    return Answer(kind="connection", make=rng.choice(errors))


def _status(rng: Random, whole: str) -> Answer:
    status = rng.choice((*range(300, 309), *range(400, 404), *range(405, 452), *range(500, 512), 599))
    headers = {"Retry-After": rng.choice(("", "0", "-1", "soon", "1"))} if status == 429 else {}
    return Answer(kind="status", make=lambda: httpx.Response(status, content=whole.encode(), headers=headers))


def _bytes(rng: Random, whole: str) -> Answer:
    raw = whole.encode()
    cut = rng.randrange(len(raw))
    numbers = [found.span() for found in re.finditer(r"(?<=[:\[ ,])-?\d+(?:\.\d+)?(?=[,}\]])", whole)]
    start, end = rng.choice(numbers) if numbers else (0, 0)
    odd = rng.choice(("NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "01", "0x1F", "1_000", "+1", ".5", "1."))
    made = rng.choice(
        (
            b"",
            b" \n",
            raw[:cut] if cut else b"{",
            raw + b"}",
            raw + raw,
            b"<html><body>We will be right back</body></html>",
            raw.replace(b'"', b"'") if b'"' in raw else b"'",
            whole.encode("utf-16"),
            raw[:cut] + b"\xff" + raw[cut:],
            b"[" * 100_000,
            b'{"a":' * 70 + b"1" + b"}" * 70,
            (whole[:start] + odd + whole[end:]).encode() if numbers else b"nan",
        )
    )
    return Answer(kind="bytes", make=lambda: httpx.Response(200, content=made))


def _whole(rng: Random, whole: str) -> Answer:
    value: Json = json.loads(whole)
    others: tuple[Json, ...] = (*OTHER_TYPES, [value], {"data": value}, {"items": [value]}, [value, None])
    return _saying("whole", rng.choice([one for one in others if one != value]))


def _inside(rng: Random, whole: str) -> Answer:
    """One place is missing, null, of another type, or one more is there that nobody asked for."""
    value: Json = json.loads(whole)
    holder, name = rng.choice(list(_places(value)) or [([value], 0)])
    if (action := rng.choice(("drop", "null", "other", "other", "wrap", "text"))) == "drop":
        del holder[name]
    else:
        holder[name] = _other(rng, holder[name], action)
    return _saying("inside", value)


def _swapped(rng: Random, whole: str) -> Answer:
    """Two places have changed their values."""
    value: Json = json.loads(whole)
    places = list(_places(value))
    if len(places) >= 2:
        (one, first), (other, second) = rng.sample(places, 2)
        one[first], other[second] = json.loads(json.dumps(other[second])), json.loads(json.dumps(one[first]))
    return _saying("swapped", value)


def _other(rng: Random, value: Json, action: str) -> Json:
    if action == "null":
        return None
    if action == "wrap":
        return rng.choice(([value], {"value": value}))
    if action == "text":
        return json.dumps(value)
    other: Json = rng.choice(OTHER_TYPES)
    return other


def _saying(kind: str, value: Json) -> Answer:
    content = json.dumps(value).encode()
    return Answer(kind=kind, make=lambda: httpx.Response(200, content=content), content=(json.loads(content),))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 - a place of any JSON
    if isinstance(value, dict | list):
        for name, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, name
            yield from _places(part)


# the judge


def complaint(name: str, answer: Answer, fact: Fact) -> str | None:
    """Why the fact claims more than the answer gives; None where it does not."""
    if not isinstance(fact, Known):
        return None
    if answer.content is None:
        return f"something is known of an answer that is none: {fact.value!r}"
    said = answer.content[0]
    if name in RECORDS:
        return _record(name, said, fact)
    if name in LISTS or name in NAMED:
        return _list(name, said, fact)
    if name == "expected_value":
        text = said.get("expected_value") if isinstance(said, dict) else None
        number = re.fullmatch(NUMBER, text) if isinstance(text, str) else None
        right = number is not None and isinstance(fact.value, float) and math.isfinite(fact.value)
        return (
            None
            if right and number is not None and float(number[0]) == fact.value
            else f"{text!r} became {fact.value!r}"
        )
    if name == "adplatform":
        flag = said.get("connected") if isinstance(said, dict) else None
        return (
            None if isinstance(flag, bool) and fact.value == {"connected": flag} else f"{said!r} became {fact.value!r}"
        )
    if said is None or (name in PLAIN_LISTS and not isinstance(said, list)):
        return f"{said!r} is no answer"
    return None if fact.value == said else "the answer was changed"


def _record(name: str, said: Json, fact: Known) -> str | None:
    if name == "lookout_prediction_benchmark":
        return _shares(said, fact)
    if not isinstance(said, dict) or not isinstance(fact.value, dict):
        return f"a record of {said!r}"
    if name == "event" and fact.value.get("id") != E1:
        return "another event answered"
    for field, about in RECORDS[name].items():
        if field not in fact.value:
            if field not in fact.gaps:
                return f"{field} is neither there nor missing"
            continue
        value = fact.value[field]
        if name == "setup" and field == "state":
            if value != said.get("state") or value not in ("DRAFT", "PUBLISHED"):
                return f"the state {said.get('state')!r} became {value!r}"
        elif name == "partner" and field == "id":
            if str(said.get("id")).removesuffix(".0") != value:
                return f"the id {said.get('id')!r} became {value!r}"
        elif not typed(value, about) or value != said.get(field):
            return f"{field}: {said.get(field)!r} became {value!r}"
    return None


def _shares(said: Json, fact: Known) -> str | None:
    """Two numbers of the answer, or each a hundredth of one of them, and never a share above 2."""
    numbers = [part for part in _scalars(said) if isinstance(part, int | float) and not isinstance(part, bool)]
    record = fact.value if isinstance(fact.value, dict) else {}
    for field in ("value", "benchmark"):
        found = record.get(field)
        if found is None:
            if field not in fact.gaps:
                return f"{field} is neither there nor missing"
        elif not isinstance(found, float) or not any(found in (part, part / 100.0) for part in numbers):
            return f"{field} is {found!r}, which the answer does not say"
        elif record.get("unit") == "fraction" and abs(found) > 1.0:
            return f"{field} is {found!r}, and called a fraction"
    return None


def _scalars(value: Json) -> Iterator[Json]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _scalars(part)
    else:
        yield value


def _list(name: str, said: Json, fact: Known) -> str | None:
    items = said.get("clusters") if name == "clusters" and isinstance(said, dict) else said
    if not isinstance(items, list) or not isinstance(fact.value, list) or len(items) != len(fact.value):
        return f"a list of {said!r}"
    if name in ("clusters", "suggested_tcs") and not items:
        return "an empty list is no value"
    for number, (item, found) in enumerate(zip(items, fact.value, strict=True)):
        if not isinstance(item, dict) or not isinstance(found, dict):
            return f"item {number} is {item!r}"
        if name in NAMED:
            run = said.get("tc_run_id") if name == "clusters" and isinstance(said, dict) else item.get("tc_run_id")
            if not _same_run(run, found.get("tc_run_id")) or not found.get("tc") or found["tc"] != item.get("tc"):
                return f"item {number}: {item!r} of run {run!r} became {found!r}"
        for field, about in LISTS.get(name, {}).items():
            if field in found and (not typed(found[field], about) or found[field] != item.get(field)):
                return f"item {number}: {field} {item.get(field)!r} became {found[field]!r}"
            if field not in found and not any(gap.endswith(f"[{number}].{field}") for gap in fact.gaps):
                return f"item {number}: {field} is neither there nor missing"
    return None


def _same_run(said: Json, found: Json) -> bool:
    whole = isinstance(found, int) and not isinstance(found, bool)
    spelled = isinstance(said, str) or (isinstance(said, int | float) and not isinstance(said, bool))
    return whole and spelled and re.fullmatch(r"-?\d+(\.0)?", str(said)) is not None and float(str(said)) == found


def typed(value: Json, field: Field) -> bool:
    """Whether a value is what the document says, judged apart from the client."""
    if value is None or field.type == "any":
        return field.nullable
    if field.type in ("integer", "number"):
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return False
        return field.type == "number" or (float(value).is_integer() and (isinstance(value, int) or abs(value) < 1e16))
    if field.type == "boolean":
        return isinstance(value, bool)
    if field.type == "timestamp":
        return isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value) is not None
    return isinstance(value, {"string": str, "list": list, "object": dict}[field.type])
