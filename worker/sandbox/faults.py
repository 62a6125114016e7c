"""What can be made to go wrong, and for which requests.

A fault says which requests it wants, how many it lets pass first and how many it then spoils. Faults are asked in
order and the first that wants the request has it: "the first PUT is answered 429 although it took effect, the second
one is cut". Never random: the same requests meet the same faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, with_config

from worker.sandbox.settings import KNOWN_KEYS_ONLY, Cut, Delivery, Host, Json, TwinAnswer, TwinRequest, nearest

METHODS = ("WRITE", "GET", "POST", "PUT", "PATCH", "DELETE")
Kind = Literal[
    "answer_before",
    "answer_after",
    "no_connection",
    "cut_before",
    "cut_after",
    "cut_body",
    "hang_before",
    "hang_after",
    "late_effect",
    "stale_reads",
    "garbage",
    "null_body",
    "cut_json",
    "missing_fields",
    "wrong_types",
    "half_page",
    "reordered_pages",
    "vanish",
    "slow",
    "expired_token",
    "storm",
]
KINDS: tuple[Kind, ...] = get_args(Kind)
PARAMS: Mapping[str, str] = {
    "status": "status to answer instead (429; 500 for nothing else)",
    "code": "error code in the body",
    "retry_after": "value of the Retry-After header; none without it",
    "delay_s": "answer so much later",
    "after_s": "late_effect: the effect lands so much later",
    "by_s": "stale_reads: the state as of so long ago",
    "fields": "missing_fields: list of names; wrong_types: list of names or map of name to value",
    "eid": "vanish: the event to leave out, or a list of them",
    "for_s": "storm: how long it lasts",
    "hidden": "storm: true when the writes take effect all the same",
    "reset": "cut_*: false for a connection that is closed and not reset",
    "revoke": "expired_token: false to leave the token valid afterwards",
    "shift": "reordered_pages: by how many places the order moves from page to page",
}


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as wrong:
        raise ValueError(f"is a regular expression, and {text!r} is none: {wrong}") from None
    return text


def _known_method(text: str) -> str:
    if text not in METHODS:
        raise ValueError(f"is one of {', '.join(METHODS)}, not {text!r}; a path has a / in it, or begins with ^")
    return text


def _known_params(params: Mapping[str, Json]) -> Mapping[str, Json]:
    for name in params:
        if name not in PARAMS:
            raise ValueError(f"have no {name!r}{nearest(name, list(PARAMS))}")
    return params


@with_config(KNOWN_KEYS_ONLY)
@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """Which requests. `method` may be WRITE for anything but a read; `path` is a regular expression searched for in
    the raw path; what is None does not matter."""

    method: Annotated[str, AfterValidator(_known_method)] | None = None
    path: Annotated[str, AfterValidator(_pattern)] | None = None
    partner: str | None = None
    host: Host | None = None

    def hits(self, request: TwinRequest) -> bool:
        if self.method == "WRITE":
            if request.is_read or request.is_sign_in:
                return False
        elif self.method not in (None, request.method):
            return False
        if self.partner not in (None, request.partner) or self.host not in (None, request.host):
            return False
        return self.path is None or re.search(self.path, request.path) is not None


@with_config(KNOWN_KEYS_ONLY)
@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One way to go wrong. `times` None: always. `from_s` and `until_s` count from the start of the story."""

    match: Match = field(default_factory=Match)
    kind: Kind
    times: int | None = 1
    skip: int = 0
    params: Annotated[Mapping[str, Json], AfterValidator(_known_params)] = field(default_factory=dict)
    from_s: float = 0.0
    until_s: float | None = None

    def number(self, name: str, default: float) -> float:
        value = self.params.get(name, default)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    def flag(self, name: str, *, default: bool) -> bool:
        return bool(self.params.get(name, default))

    def names(self, name: str) -> tuple[str, ...]:
        value = self.params.get(name, ())
        if isinstance(value, str):
            return (value,)
        return tuple(str(each) for each in value) if isinstance(value, Iterable) else ()


@dataclass(slots=True)
class _Use:
    """A fault and how often it has been met."""

    fault: Fault
    seen: int = 0
    used: int = 0
    ends_at_s: float | None = None


class FaultPlan:
    """The faults in order, with what is left of each."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._uses = [_Use(fault=fault) for fault in faults]

    def add(self, fault: Fault) -> None:
        self._uses.append(_Use(fault=fault))

    def clear(self) -> None:
        self._uses.clear()

    @property
    def left(self) -> tuple[Fault, ...]:
        return tuple(use.fault for use in self._uses if use.fault.times is None or use.used < use.fault.times)

    def pick(self, request: TwinRequest, story_s: float) -> Fault | None:
        """The fault that has this request, if any, counted as used."""
        for use in self._uses:
            fault = use.fault
            if use.ends_at_s is not None and story_s < use.ends_at_s and fault.match.partner in (None, request.partner):
                return fault
            if story_s < fault.from_s or (fault.until_s is not None and story_s >= fault.until_s):
                continue
            if (fault.times is not None and use.used >= fault.times) or not fault.match.hits(request):
                continue
            use.seen += 1
            if use.seen > fault.skip:
                use.used += 1
                if fault.kind == "storm":
                    use.ends_at_s = story_s + fault.number("for_s", 10.0)
                return fault
        return None


# Answers that are not what they should be: the right answer goes in, the spoiled one comes out. What took effect has
# taken effect.

GARBAGE = b"<!doctype html><html><body><h1>We will be right back</h1></body></html>"
WRONG_TEXT = "not-a-number"
WRONG_NUMBER = 12345
MISSING, OTHER_TYPE = object(), object()


def spoiled(answer: TwinAnswer, fault: Fault) -> Delivery:
    """The answer after the fault had its way with it; faults that concern something else leave it alone."""
    half = answer.body[: len(answer.body) // 2]
    match fault.kind:
        case "garbage" if answer.status not in (401, 403):  # a refusal stays one: nothing took effect
            return replace(answer, status=200, headers={**answer.headers, "content-type": "text/html"}, body=GARBAGE)
        case "null_body":
            return replace(answer, body=b"null")
        case "cut_json":
            return replace(answer, body=half or answer.body[:1])
        case "cut_body":
            return Cut(
                at="in_body",
                status=answer.status,
                headers=answer.headers,
                partial_body=half,
                delay_s=answer.delay_s,
                reset=fault.flag("reset", default=True),
            )
        case "missing_fields" | "wrong_types" | "half_page":
            try:
                body = _reshaped(json.loads(answer.body), fault)
            except ValueError:
                return answer
            return replace(answer, body=json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode())
        case _:
            return answer


def _reshaped(body: Json, fault: Fault) -> Json:
    if fault.kind == "half_page":
        if isinstance(body, dict) and isinstance(body.get("items"), list):
            return {**body, "items": body["items"][: len(body["items"]) // 2]}
        return body[: len(body) // 2] if isinstance(body, list) else body
    given = fault.params.get("fields")
    for name in fault.names("fields"):
        wanted = given[name] if isinstance(given, Mapping) else OTHER_TYPE
        body = _changed_at(body, name.split("."), MISSING if fault.kind == "missing_fields" else wanted)
    return body


def _changed_at(body: Json, path: list[str], wanted: Json) -> Json:
    """Changes a field wherever it is met: in the record, in each item of a list, in the items of a page."""
    if isinstance(body, list):
        return [_changed_at(each, path, wanted) for each in body]
    if not isinstance(body, dict):
        return body
    name, *deeper = path
    if name not in body:
        return {**body, "items": _changed_at(body["items"], path, wanted)} if "items" in body else body
    if deeper:
        return {**body, name: _changed_at(body[name], deeper, wanted)}
    if wanted is MISSING:
        return {key: value for key, value in body.items() if key != name}
    if wanted is OTHER_TYPE:
        wanted = WRONG_NUMBER if isinstance(body[name], str) else WRONG_TEXT
    return {**body, name: wanted}
