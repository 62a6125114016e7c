"""What can be made to go wrong, and for which requests.

A fault says which requests it wants, how many it lets pass first and how many it then spoils. Faults are asked in
order and the first that wants the request has it; this is how a test says "the first PUT is answered 429 although it
took effect, the second one is cut". Each use is entered in the books with the request.

Never random: the same requests meet the same faults. Never changes the world by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

from worker.sandbox.settings import HOSTS, Answer, Cut, Delivery, Json, TwinRequest, nearest

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
UNPROCESSED: frozenset[Kind] = frozenset(
    {"answer_before", "no_connection", "cut_before", "hang_before", "expired_token", "storm", "late_effect"}
)
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


class FaultError(ValueError):
    """A fault that does not exist or that cannot be so."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Match:
    """Which requests. `method` may be WRITE for anything but a read; `path` is a regular expression searched for in
    the raw path; what is None does not matter."""

    method: str | None = None
    path: str | None = None
    partner: str | None = None
    host: str | None = None

    def hits(self, request: TwinRequest) -> bool:
        if self.method == "WRITE":
            if request.is_read or request.is_sign_in:
                return False
        elif self.method is not None and self.method != request.method:
            return False
        if self.partner is not None and self.partner != request.partner:
            return False
        if self.host is not None and self.host != request.host:
            return False
        return self.path is None or re.search(self.path, request.path) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """One way to go wrong. `times` None: always. `from_s` and `until_s` count from the start of the story."""

    match: Match = field(default_factory=Match)
    kind: Kind
    times: int | None = 1
    skip: int = 0
    params: Mapping[str, Json] = field(default_factory=dict)
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

    @property
    def status(self) -> int:
        return int(self.number("status", 429))

    @property
    def headers(self) -> dict[str, str]:
        after = self.params.get("retry_after")
        return {} if after is None else {"retry-after": str(after)}


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
            if self._storms(use, request, story_s) or self._takes(use, request, story_s):
                return use.fault
        return None

    @staticmethod
    def _storms(use: _Use, request: TwinRequest, story_s: float) -> bool:
        if use.ends_at_s is None or story_s >= use.ends_at_s:
            return False
        return use.fault.match.partner in (None, request.partner)

    @staticmethod
    def _takes(use: _Use, request: TwinRequest, story_s: float) -> bool:
        fault = use.fault
        if story_s < fault.from_s or (fault.until_s is not None and story_s >= fault.until_s):
            return False
        if fault.times is not None and use.used >= fault.times:
            return False
        if not fault.match.hits(request):
            return False
        use.seen += 1
        if use.seen <= fault.skip:
            return False
        use.used += 1
        if fault.kind == "storm":
            use.ends_at_s = story_s + fault.number("for_s", 10.0)
        return True


def fault_from(given: Mapping[str, Json]) -> Fault:
    """A fault as it is written in a story or sent to the control path."""
    accepted = dict(given)
    _only(accepted, [each.name for each in fields(Fault)], "fault")
    kind = accepted.get("kind")
    if kind not in KINDS:
        raise FaultError(f"unknown kind of fault {kind!r}{nearest(str(kind), list(KINDS))}")
    match = accepted.get("match", {})
    if not isinstance(match, Mapping):
        raise FaultError("match of a fault is a map of method, path, partner, host")
    _only(match, [each.name for each in fields(Match)], "match")
    params = accepted.get("params", {})
    if not isinstance(params, Mapping):
        raise FaultError("params of a fault is a map")
    _only(params, list(PARAMS), "params")
    _check_match(match)
    for name in ("times", "skip", "from_s", "until_s"):
        value = accepted.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float | None):
            raise FaultError(f"{name} of a fault is a number, not {value!r}")
    accepted["match"] = Match(**{key: None if value is None else str(value) for key, value in match.items()})
    return Fault(**accepted)  # type: ignore[arg-type]  # every key was checked above


def _check_match(match: Mapping[str, Json]) -> None:
    host = match.get("host")
    if host is not None and host not in HOSTS:
        raise FaultError(f"unknown host {host!r}{nearest(str(host), list(HOSTS))}")
    try:
        re.compile(str(match.get("path") or ""))
    except re.error as wrong:
        raise FaultError(
            f"path of a fault is a regular expression, and {match.get('path')!r} is none: {wrong}"
        ) from None


def _only(given: Mapping[str, Json], known: list[str], where: str) -> None:
    for key in given:
        if key not in known:
            raise FaultError(f"unknown key {key!r} in {where}{nearest(str(key), known)}")


# Answers that are not what they should be: the right answer goes in, the spoiled one comes out.
#
# Kept apart from the service so that each way of spoiling is one small pure function of a whole answer.
#
# Never touches the world: what took effect has taken effect.

GARBAGE = b"<!doctype html><html><body><h1>We will be right back</h1></body></html>"
WRONG_TEXT = "not-a-number"
WRONG_NUMBER = 12345


def spoiled(answer: Answer, fault: Fault) -> Delivery:
    """The answer after the fault had its way with it; faults that concern something else leave it alone."""
    match fault.kind:
        case "garbage":
            return replace(answer, status=200, headers={**answer.headers, "content-type": "text/html"}, body=GARBAGE)
        case "null_body":
            return replace(answer, body=b"null")
        case "cut_json":
            return replace(answer, body=answer.body[: max(1, len(answer.body) // 2)])
        case "cut_body":
            return Cut(
                at="in_body",
                status=answer.status,
                headers=answer.headers,
                partial_body=answer.body[: len(answer.body) // 2],
                delay_s=answer.delay_s,
                reset=fault.flag("reset", default=True),
            )
        case "missing_fields" | "wrong_types" | "half_page":
            return _reshaped(answer, fault)
        case _:
            return answer


def _reshaped(answer: Answer, fault: Fault) -> Answer:
    try:
        body = json.loads(answer.body)
    except ValueError:
        return answer
    if fault.kind == "half_page":
        shaped = _halved(body)
    elif fault.kind == "missing_fields":
        shaped = body
        for name in fault.names("fields"):
            shaped = _without(shaped, name.split("."))
    else:
        shaped = body
        for name, value in _wrong(fault).items():
            shaped = _retyped(shaped, name.split("."), value)
    return replace(answer, body=json.dumps(shaped, ensure_ascii=False, separators=(",", ":")).encode())


def _halved(body: Json) -> Json:
    if isinstance(body, list):
        return body[: len(body) // 2]
    if isinstance(body, dict) and isinstance(body.get("items"), list):
        return {**body, "items": body["items"][: len(body["items"]) // 2]}
    return body


def _without(body: Json, path: list[str]) -> Json:
    """Drops a field wherever it is met: in the record, in each item of a list, in the items of a page."""
    if isinstance(body, list):
        return [_without(each, path) for each in body]
    if not isinstance(body, dict):
        return body
    if path[0] not in body:
        return {**body, "items": _without(body["items"], path)} if "items" in body else body
    if len(path) == 1:
        return {key: value for key, value in body.items() if key != path[0]}
    return {**body, path[0]: _without(body[path[0]], path[1:])}


_UNGIVEN = object()


def _wrong(fault: Fault) -> Mapping[str, Json]:
    given = fault.params.get("fields", ())
    if isinstance(given, Mapping):
        return given
    return dict.fromkeys(fault.names("fields"), _UNGIVEN)


def _retyped(body: Json, path: list[str], value: Json) -> Json:
    if isinstance(body, list):
        return [_retyped(each, path, value) for each in body]
    if not isinstance(body, dict):
        return body
    if path[0] not in body:
        return {**body, "items": _retyped(body["items"], path, value)} if "items" in body else body
    if len(path) > 1:
        return {**body, path[0]: _retyped(body[path[0]], path[1:], value)}
    return {**body, path[0]: _other_type(body[path[0]]) if value is _UNGIVEN else value}


def _other_type(value: Json) -> Json:
    return WRONG_NUMBER if isinstance(value, str) else WRONG_TEXT
