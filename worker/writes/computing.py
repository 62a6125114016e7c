"""The parameters of a step at its firing: what is written as CEL is computed, and ``each`` is gone through.

Everything is computed at once and kept with the write, so that what a person approves is what is sent. What cannot be
computed now holds the firing; what was computed and is no value of its parameter is never sent (`judged`).
"""

from collections.abc import Mapping
from dataclasses import replace

from worker.model.action import Param
from worker.model.actions import ACTIONS
from worker.model.facts import Json, Known
from worker.model.rules import Computed, Scope, Step, Template, computed_in
from worker.model.values import fault_of

RUN = "tc_run_id"
CLIENT = "{client_id}"
_WITH_RUNS = ("suggested_tcs", "clusters")
"""Facts in which a cluster stands beside its run."""


_ANY = Param(type="any", about="what nobody names")


class NotComputable(ValueError):
    """A value in ``do`` could not be computed at the firing, or is not known; nothing is planned."""


def judged(place: str, step: Step, params: Mapping[str, Json]) -> tuple[dict[str, Json], str]:
    """The parameters without those that were computed and may not be sent, and what is wrong with these; empty where
    nothing is."""
    types, faults = ACTIONS[step.action].params, dict[str, str]()
    for name, value in step.params.items():
        if any(computed_in(value)) and (fault := fault_of(name, types.get(name, _ANY), params[name])):
            faults[name] = f"{place}.{name} {fault}"
    return {name: value for name, value in params.items() if name not in faults}, "; ".join(faults.values())


def computed_params(place: str, step: Step, scope: Scope) -> dict[str, Json]:
    """The parameters of a step, with everything in them computed. ``place`` names the step. Raises `NotComputable`."""
    params = {name: _value(f"{place}.{name}", value, scope) for name, value in step.params.items()}
    row = ACTIONS[step.action]
    if RUN in row.params and (run := _whole(params.get(RUN))) is not None:
        params[RUN] = run
    if row.shown == "confirm" and _names_client(params):
        params["client_id"] = _client_id(place, scope)
    return params


def each_of(place: str, step: Step, scope: Scope) -> dict[str, dict[str, Json]]:
    """The parameters of one write for each item that the watched list has gained, by the item's name."""
    added = scope.extra.get("added")
    if not isinstance(added, list):
        raise NotComputable(f"{place}: each: nothing is known to have been added")
    found: dict[str, dict[str, Json]] = {}
    for given in added:
        item = _with_run(given, scope)
        params = computed_params(place, step, replace(scope, extra={**scope.extra, "item": item}))
        for name, param in ACTIONS[step.action].params.items():
            if param.of_item and name not in params:
                params[name] = _part(place, item, name)
        found.setdefault(f"{params['tc']}:{params[RUN]}", params)
    return found


def _names_client(value: Json) -> bool:
    if isinstance(value, str):
        return CLIENT in value
    if isinstance(value, dict | list):
        return any(_names_client(part) for part in (value.values() if isinstance(value, dict) else value))
    return False


def _client_id(place: str, scope: Scope) -> str:
    """The partner's internal id, kept with the write as it was at the firing (API section 2.1)."""
    fact = scope.fact("partner")
    found = fact.value.get("id") if isinstance(fact, Known) and isinstance(fact.value, Mapping) else None
    if found is None:
        raise NotComputable(f"{place}: {CLIENT} is not known: the partner's record could not be read")
    return str(found)


def _value(place: str, value: Template, scope: Scope) -> Json:
    if isinstance(value, Computed):
        try:
            found = value.value(scope)
        except ValueError as error:
            raise NotComputable(f"{place} = {value.source}: {error}") from error
        if found is None:
            raise NotComputable(f"{place} = {value.source} is null, which is not known")
        return found
    if isinstance(value, dict):
        return {name: _value(f"{place}.{name}", part, scope) for name, part in value.items()}
    if isinstance(value, list):
        return [_value(f"{place}[{index}]", part, scope) for index, part in enumerate(value)]
    return value


def _with_run(item: Json, scope: Scope) -> Json:
    """A cluster with its run: where only names were compared, the one of the list that the name stands in now."""
    if not isinstance(item, Mapping) or RUN in item:
        return item
    for name in _WITH_RUNS:
        fact = scope.fact(name)
        for one in fact.value if isinstance(fact, Known) and isinstance(fact.value, list) else ():
            if isinstance(one, Mapping) and one.get("tc") == item.get("tc") and RUN in one:
                return {**item, RUN: one[RUN]}
    return item


def _part(place: str, item: Json, name: str) -> Json:
    value = item.get(name) if isinstance(item, Mapping) else None
    if value is None:
        raise NotComputable(f"{place}: an added item has no {name}")
    if name != RUN:
        return value
    run = _whole(value)
    if run is None:
        raise NotComputable(f"{place}.{RUN}: {value!r} is no run of clusters")
    return run


def _whole(value: Json) -> int | None:
    """A run is an integer that some lists, and some rules, spell as a text; None for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return int(value) if whole and isinstance(value, int | float) and not isinstance(value, bool) else None
