"""Under which parameters a rule asks for its facts, and how watched values compare.

Parameters of facts come from ``with``, else from other facts. Everything is a function of its arguments; a value that
cannot be had is absent, never a default.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache

from worker.model.facts import FactKey, Json, Known, Observation
from worker.model.rules import Rule, Watch
from worker.rules.parameters import resolved
from worker.rules.registry import BUILT_IN

BY_DEFAULT: Mapping[str, tuple[str, ...]] = {"suggested_tcs": ("tc", "tc_run_id"), "clusters": ("tc",)}
"""What tells the items of these lists apart. An empty one is "not computed yet": no value."""


def keys_for(rule: Rule, observation: Observation, now: datetime) -> Mapping[str, FactKey]:
    """The key of every fact that the rule names, under its parameters, and of all facts without parameters.

    A fact whose parameters cannot be resolved yet is absent. For rules that name none with parameters it is the same
    mapping each time, so that their conditions can share one context.
    """
    plain, taking = _split(rule.names)
    if not taking:
        return plain
    found = dict(plain)
    for name in taking:
        parameters = resolved(rule, BUILT_IN[name].takes, observation, now)
        if parameters is not None:
            found[name] = FactKey(name=name, params=parameters)
    return found


def watch_key(key: FactKey, watch: Watch) -> str:
    """The key of a baseline: the fact, its resolved parameters, and what is compared."""
    return key.text + (f"#by={','.join(watch.by)}" if watch.by else "")


def normalised(fact: Known, watch: Watch) -> Json:
    """The watched value in the form in which it is compared and remembered; None where there is no value to compare.

    Lists of records become sets of the compared fields in a fixed order; a record without ``by`` that lacks documented
    fields, and fields asked for that are not there, are no value.
    """
    value = fact.value
    by = watch.by or BY_DEFAULT.get(watch.fact, ())
    if watch.fact == "clusters" and isinstance(value, dict):
        value = value.get("clusters")
    if watch.fact in BY_DEFAULT and not value:
        return None
    if isinstance(value, list):
        return _compared_list(value, by) if by else value
    if isinstance(value, dict):
        if not by:
            return None if fact.gaps else value
        return _narrowed(value, by)
    return value


def difference(old: list[Json], new: list[Json]) -> tuple[list[Json], list[Json]]:
    """What a watched list has gained and lost, in the order of the lists."""
    before, after = {_canonical(item) for item in old}, {_canonical(item) for item in new}
    added = [item for item in new if _canonical(item) not in before]
    return added, [item for item in old if _canonical(item) not in after]


def _compared_list(items: list[Json], by: tuple[str, ...]) -> Json:
    found: dict[str, Json] = {}
    for item in items:
        narrowed = _narrowed(item, by) if isinstance(item, dict) else None
        if narrowed is None:
            return None
        found[_canonical(narrowed)] = narrowed
    return [found[text] for text in sorted(found)]


def _narrowed(value: Mapping[str, Json], by: tuple[str, ...]) -> dict[str, Json] | None:
    if any(name not in value for name in by):
        return None
    return {name: _run_number(value[name]) if name == "tc_run_id" else value[name] for name in by}


def _run_number(value: Json) -> Json:
    """Lists of suggestions carry the run as text: "12" against 12 is no change."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _split(names: frozenset[str]) -> tuple[Mapping[str, FactKey], tuple[str, ...]]:
    """Keys of everything without parameters, and the names that take some. Names that are no built-in are custom."""
    custom = [name for name in sorted(names) if name not in BUILT_IN]
    if custom:
        own = {name: FactKey(name=name) for name in custom}
        return {**_PLAIN, **own}, _taking(names)
    return _PLAIN, _taking(names)


def _taking(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(name for name in names if name in BUILT_IN and BUILT_IN[name].takes))


_PLAIN: Mapping[str, FactKey] = {
    name: FactKey(name=name) for name, fact in BUILT_IN.items() if not fact.takes and fact.level != "local"
}
