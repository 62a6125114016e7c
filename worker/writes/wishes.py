"""What a rule wants a target to be, in a form that two rules can be compared by.

Equal wishes share one write; opposite ones are sorted out by priority (`worker.engine.conflicts`). Two sets of values
are opposite where they differ in a value that both name: one rule's goal and another's budget go together.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from worker.model.action import Action
from worker.model.actions import ACTIONS
from worker.model.facts import Json

EXACT_MAX = 1 << 53
"""The largest whole number up to which every whole number is a double."""
RESET = "reset"
"""The axis of a wish that undoes whatever else is wished of its target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a rule wants a target to be. ``parts``: the values that it is made of, by name, where it is made of some.
    A message has no target: it goes with everything, and stands for nobody else's."""

    target: str
    axis: str
    value: str
    stops: bool = False
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """Stable spelling, stored with the write."""
        return f"{self.axis}:{self.value}"

    def opposes(self, other: "Wish") -> bool:
        """Whether both cannot be had: another value on the same axis of the same target, or a reset against anything
        else."""
        if not self.target or self.target != other.target or self.text == other.text:
            return False
        if self.axis != other.axis:
            return RESET in (self.axis, other.axis)
        if self.parts and other.parts:
            theirs = dict(other.parts)
            return any(theirs.get(name, value) != value for name, value in self.parts)
        return self.value != other.value


def wish_of(action: str, params: Mapping[str, Json]) -> Wish:
    """The wish of an action with these parameters."""
    row = ACTIONS[action]
    target = target_of(row, params)
    match row.shown:
        case "field":
            value = row.value if row.value is not None else str(params.get("value"))
            return Wish(target=target, axis="value", value=value, stops=value in row.stops)
        case "setup" if row.value is not None:
            return Wish(target=target, axis="state", value=row.value)
        case "setup" | "campaign" | "series":
            parts = tuple((name, _spelled(value)) for name, value in sorted(_parts(row, params).items()))
            return Wish(target=target, axis="values", value=f"{action} {_spelled(dict(params))}", parts=parts)
        case "confirm":
            return _call(target, params)
        case "answer":
            return Wish(target=target, axis=RESET, value=action)
        case "handover":
            return Wish(target=target, axis="message", value=_spelled(params.get("value")))
    assert_never(row.shown)


def _call(target: str, params: Mapping[str, Json]) -> Wish:
    """Two requests that replace one thing want it to be two things; two that add something each add it."""
    sent = _spelled({name: params[name] for name in ("host", "query", "body") if name in params})
    adds = params.get("method") == "POST"
    return Wish(target=target, axis=f"call {sent}" if adds else "call", value=sent)


def target_of(row: Action, params: Mapping[str, Json]) -> str:
    """What an action with these parameters writes to, within its event."""
    return re.sub(r"\{(\w+)\}", lambda found: str(params.get(found[1], found[0])), row.target)


def members(params: Mapping[str, Json]) -> list[str]:
    """The events that a series is to gain or to lose, each once and in order."""
    value = params.get("value")
    return sorted({str(one) for one in value}) if isinstance(value, list) else []


def _parts(row: Action, params: Mapping[str, Json]) -> dict[str, Json]:
    """The values that it asks for, by what must not be asked to be two things at once."""
    if row.shown == "campaign":
        return {"exists": True, **{name: value for name, value in params.items() if name not in ("tc", "tc_run_id")}}
    if row.shown == "series":
        return dict.fromkeys(members(params), row.value)
    return dict(params)


def _spelled(value: Json) -> str:
    return json.dumps(_as_doubles(value), sort_keys=True, ensure_ascii=False)


def _as_doubles(value: Json) -> Json:
    """The value with every number as a double, so that a written 500 and a computed 500.0 are one wish."""
    if isinstance(value, dict):
        return {name: _as_doubles(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_doubles(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > EXACT_MAX:
        return value
    return float(value)
