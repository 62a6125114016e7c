"""Answers that are not what they should be: the right answer goes in, the spoiled one comes out.

Kept apart from the service so that each way of spoiling is one small pure function of a whole answer.

Never touches the world: what took effect has taken effect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace

from worker.sandbox.delivery import Answer, Cut, Delivery, Json
from worker.sandbox.faults import Fault

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
