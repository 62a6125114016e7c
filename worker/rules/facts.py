"""The facts that rules name: under which parameters, which of their fields, what stands there, how changes are told.

Parameters of facts come from ``with``, else from other facts. Everything is a function of its arguments; a value that
cannot be had is absent, never a default.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from worker.model.actions import money_fields
from worker.model.facts import Fact, FactKey, Json, Known, Observation, Scalar, Unknown, parse_time, record_of, whole_of
from worker.model.rules import Computed, Condition, Rule, Scope, Watch
from worker.rules.cel import SINCE, THEN, WRITE, Path, fields_in
from worker.rules.registry import BUILT_IN, FROM_DEFAULTS, LOCAL, MADE, SET_FIELDS
from worker.rules.spelling import parse_duration

# The parameters with which facts are asked for: what ``with`` says of them, and where the others come from. Pure.
#
# A parameter that a rule does not give comes from another fact (the event's defaults, its start, the partner's
# currency) or from the calendar. One that cannot be had is absent, never a guess, and then the fact is unknown. Days
# are UTC.

STEPS_MAX: Final = 250_000
"""What one evaluation may take. A step is a part of a condition looked at once, an item, or 32 characters: a tenth of
a microsecond or two. So no condition holds the worker for longer than some 30 ms, or makes more than some MB."""
DATES: frozenset[str] = frozenset({"start_date", "end_date"})
DAYS_MAX = 3660
"""The farthest that a day may be from today."""
_DAY = re.compile(r"today(?:([+-])(\d{1,4})d)?")


def resolved(
    rule: Rule, takes: tuple[str, ...], observation: Observation, now: datetime
) -> tuple[tuple[str, Scalar], ...] | None:
    """The parameters of a fact, sorted by name; None where one of them cannot be had yet."""
    found: list[tuple[str, Scalar]] = []
    for name in sorted(takes):
        value = parameter(rule, name, observation, now)
        if value is None:
            return None
        found.append((name, value))
    return tuple(found)


def parameter(rule: Rule, name: str, observation: Observation, now: datetime) -> Scalar | None:
    """One parameter, as the rule gives it or as it follows from the facts."""
    given = rule.parameters.get(name)
    if given is None:
        given = _DEFAULT[name](observation, now) if name in _DEFAULT else None
    if name in DATES and isinstance(given, str):
        return day_of(given, now)
    return float(given) if name == "budget" and given is not None else given


def lacks_defaults(rule: Rule, fact: str) -> bool:
    """Whether a parameter of the fact comes from the event's default campaign parameters, because the rule gives
    none."""
    takes = BUILT_IN[fact].takes if fact in BUILT_IN else ()
    return not FROM_DEFAULTS.intersection(takes) <= rule.parameters.keys()


def day_of(text: str, now: datetime) -> str | None:
    """The day that a text names, as ``2026-03-01``: an ISO date, ``today``, or days before or after it."""
    relative = _DAY.fullmatch(text)
    if relative is not None:
        days = int(relative[2] or 0) * (-1 if relative[1] == "-" else 1)
        return str(now.date() + timedelta(days=days)) if abs(days) <= DAYS_MAX else None
    try:
        return str(date.fromisoformat(text))
    except ValueError:
        return None


def runtime_in_days(observation: Observation, now: datetime) -> int | None:
    """Whole days from now to the event's start, at least 1."""
    start = _field(observation, "event", "start_date_time")
    moment = parse_time(start) if isinstance(start, str) else None
    return None if moment is None else max(1, (moment - now) // timedelta(days=1))


def _field(observation: Observation, fact: str, name: str) -> Json:
    return record_of(observation.get(FactKey(name=fact))).get(name)


def _text(observation: Observation, fact: str, name: str) -> str | None:
    value = _field(observation, fact, name)
    return value if isinstance(value, str) and value.strip() else None


def _budget(observation: Observation, _now: datetime) -> float | None:
    value = _field(observation, "defaults", "total_budget")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _lead_form(observation: Observation, _now: datetime) -> str | None:
    """Empty where the event's defaults have none, which the service allows. The document gives it no type."""
    value = record_of(observation.get(FactKey(name="defaults"))).get("lead_form_id", False)
    return None if isinstance(value, bool | list | dict) else str("" if value is None else value).strip()


_DEFAULT: Mapping[str, Callable[[Observation, datetime], Scalar | None]] = {
    "budget": _budget,
    "goal": lambda seen, _now: _text(seen, "defaults", "goal"),
    "runtime_in_days": runtime_in_days,
    "type": lambda _seen, _now: "capacity",
    "currency": lambda seen, _now: _text(seen, "partner", "currency"),
    "start_date": lambda _seen, _now: "today-30d",
    "end_date": lambda _seen, _now: "today",
    "lead_form_id": _lead_form,
    "location": lambda seen, _now: _text(seen, "event", "city"),
    "distance_unit": lambda _seen, _now: "kilometer",
}
"""``has_pixel`` is not among them: no fact that the document names can tell it, so a rule must."""

SHOWN_LENGTH_MAX = 60
BY_DEFAULT: Mapping[str, tuple[str, ...]] = {"suggested_tcs": ("tc", "tc_run_id"), "clusters": ("tc",)}
"""What tells the items of these lists apart. An empty one is "not computed yet": no value."""


def keys_for(rule: Rule, observation: Observation, now: datetime) -> Mapping[str, FactKey]:
    """The key of every fact that the rule names, under its parameters, and of all facts without parameters.

    A fact whose parameters cannot be resolved yet is absent. For rules that name none with parameters it is the same
    mapping each time, so that their conditions can share one context.
    """
    plain, taking = _split(rule.names | rule.past)
    if not taking and rule.after is None:
        return plain
    found = dict(plain)
    if rule.after is not None:
        found[WRITE] = FactKey(name=WRITE, params=(("after", rule.after), ("for", rule.id)))
    for name in taking:
        parameters = resolved(rule, BUILT_IN[fact_of(name)].takes, observation, now)
        if parameters is not None:
            found[name] = FactKey(name=name, params=parameters)
    return found


def scope_of(rule: Rule, observation: Observation, now: datetime) -> Scope:
    """The rule's scope over these facts."""
    return Scope(observation=observation, keys=keys_for(rule, observation, now), now=now)


def fact_of(name: str) -> str:
    """The name of a fact, also where it is the one of what it was."""
    return name.partition(THEN)[0]


def windows_of(rules: Iterable[Rule]) -> Mapping[str, timedelta]:
    """What rules ask for as it was some time ago: by its name, how long ago."""
    names = frozenset[str]().union(*(rule.past for rule in rules))
    return {name: parse_duration(name.partition(THEN)[2]) for name in sorted(names)}


def since_of(rule: Rule) -> tuple[Path, ...]:
    """The fields of which the rule asks how they have changed since the write that it comes after."""
    texts = (rule.when, *(text for step in rule.do for text in (step.where, *step.computed)))
    paths = (path for text in texts for path in getattr(text, "paths", ()))
    asked = (path.fields[1:] for path in paths if path.name == WRITE and path.fields[:1] == (SINCE,))
    return tuple(Path(name=name, fields=tuple(fields)) for name, *fields in dict.fromkeys(asked))


def kept_of(rule: Rule, observation: Observation, now: datetime) -> dict[str, Json]:
    """What is kept of these fields, those that are a number, with a write that is about to be sent."""
    found: dict[str, Json] = {}
    keys = keys_for(rule, observation, now)
    for path in since_of(rule):
        fact = observation.get(keys[path.name]) if path.name in keys else None
        value = _within(fact.value, path.fields) if isinstance(fact, Known) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[_place(keys[path.name], path)] = float(value)
    return found


def since_then(rule: Rule, kept: Mapping[str, Json], observation: Observation, now: datetime) -> dict[str, Json]:
    """What was kept, as the record that a condition of this rule looks into."""
    found: dict[str, Any] = {}
    keys = keys_for(rule, observation, now)
    for path in since_of(rule):
        place = _place(keys[path.name], path) if path.name in keys else ""
        if place in kept:
            below, names = found, (path.name, *path.fields)
            for name in names[:-1]:
                below = below.setdefault(name, {})
            below[names[-1]] = kept[place]
    return found


def _place(key: FactKey, path: Path) -> str:
    return ".".join((key.text, *path.fields))


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
    if watch.fact in BY_DEFAULT and not value:
        return None
    if isinstance(value, list):
        return _compared_list(value, by) if by else value
    if isinstance(value, dict):
        if not by:
            return None if fact.gaps else value
        return _narrowed(value, by)
    return value


def unless_reordered(value: Json, remembered: Iterable[Json]) -> Json:
    """A watched value; where only a list in it has another order, what is remembered: that is no change."""
    return next((one for one in remembered if one == value or _as_sets(one) == _as_sets(value)), value)


def _as_sets(value: Json) -> object:
    if isinstance(value, dict):
        return {name: _as_sets(part) for name, part in value.items()}
    return sorted(map(_canonical, value)) if isinstance(value, list) else value


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
    run = whole_of(value.get("tc_run_id"))  # lists of suggestions carry it as a text: "12" against 12 is no change
    return {name: value[name] if name != "tc_run_id" or run is None else run for name in by}


def _canonical(value: Json) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _split(names: frozenset[str]) -> tuple[Mapping[str, FactKey], tuple[str, ...]]:
    """Keys of everything without parameters, and the names that take some. Names that are no built-in are custom."""
    taking = tuple(sorted(name for name in names if (fact := BUILT_IN.get(fact_of(name))) and fact.takes))
    own = {name: FactKey(name=name) for name in sorted(names) if name not in BUILT_IN and name not in taking}
    return {**_PLAIN, **own} if own else _PLAIN, taking


_PLAIN: Mapping[str, FactKey] = {
    name: FactKey(name=name) for name, fact in BUILT_IN.items() if not fact.takes and fact.level != "local"
}


# --- what stands under a name ---


_LAST = Path(name=WRITE, fields=())
NOT_READ = "not read "
"""Stands before the name of a fact that nobody has asked for yet."""


class TooCostly(Exception):
    """The evaluation took all the steps it has; nothing absorbs that."""

    def __init__(self) -> None:
        super().__init__(f"it takes more than {STEPS_MAX:,} steps over these lists and texts")


NUMBERS: Final = frozenset({int, float})


class Run:
    """One evaluation: what stands under each name, JSON or a value, and the steps that are left."""

    __slots__ = ("left", "values")

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.left = STEPS_MAX

    def spend(self, steps: int) -> None:
        """Takes note of work. Raises `TooCostly`."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly

    def equal(self, left: Any, right: Any) -> bool:  # noqa: ANN401 - values, whose kinds are found out here
        """Whether two values are the same: of one kind, or two numbers. Raises `TooCostly`."""
        kind, other = left.__class__, right.__class__
        if kind is not other:
            return kind in NUMBERS and other in NUMBERS and float(left) == float(right)
        if kind is list:
            self.spend(4 * len(left))
            return len(left) == len(right) and all(self.equal(*pair) for pair in zip(left, right, strict=True))
        if kind is dict:
            self.spend(4 * len(left))
            return left.keys() == right.keys() and all(self.equal(left[name], right[name]) for name in left)
        return bool(left == right)


def values_of(scope: Scope, names: Iterable[str]) -> dict[str, Any]:
    """What these names stand for. Unknown facts are left out: a part that takes hold of one has no value."""
    values: dict[str, Any] = {"now": scope.now}
    for name in names:
        if name in scope.extra:
            values[name] = scope.extra[name]
            continue
        key = scope.keys.get(name)
        fact = None if key is None else scope.observation.facts.get(key)
        if isinstance(fact, Known):
            values[name] = fact.value
        elif name not in LOCAL and (fact is None or (fact.code == "unread" and THEN not in name)):
            values[NOT_READ + name] = True
    return values


def gaps(names: Iterable[str], scope: Scope) -> Iterator[str]:
    """Fields missing in the items of a list: no path leads there, but they may be what an error is about."""
    for name in sorted(names):
        fact = scope.fact(name)
        if isinstance(fact, Known):
            yield from (f"{place} is unknown: {why}" for place, why in sorted(fact.gaps.items()))


def missing_words(path: Path, scope: Scope) -> str | None:
    """Why a path has no value, in words; None where it has one."""
    if path.name == "now":
        return None
    if path.name in LOCAL:
        return None if path.name in scope.extra else f"{path.name} is unknown: no watched value has changed"
    key = scope.keys.get(path.name)
    whole = path.text if THEN in path.name else path.name
    if key is None:
        return f"{whole} is unknown: its parameters are not known yet"
    fact = scope.observation.get(key)
    if isinstance(fact, Unknown):
        return f"{whole} is unknown: {fact.why}"
    if path.name == WRITE and fact.value is None:
        return f"rule {key.params[0][1]} has no confirmed write on the event that stands"
    return _missing_field(path, fact)


def _missing_field(path: Path, fact: Known) -> str | None:
    if path.name == WRITE and path.fields[:1] == (SINCE,):
        kept = _within(fact.value, path.fields) is not None
        return None if kept else f"{path.text} is unknown: it was not read when that write was sent"
    value: Json = fact.value
    whole, then, _ = path.name.partition(THEN)
    place = f"what {whole} was" if then else whole
    for depth, name in enumerate(path.fields):
        if depth == 0 and name in fact.gaps:
            return f"{path.text if then else f'{whole}.{name}'} is unknown: {fact.gaps[name]}"
        if not isinstance(value, dict):
            return f"{place} is {short(value)} and has no field '{name}'"
        if name not in value:
            return f"{place} has no field '{name}'"
        value = value[name]
        place += f".{name}"
    return None


def value_at(path: Path, scope: Scope) -> Json:
    """What stands at a path; None where nothing does."""
    fact = scope.fact(path.name)
    whole = scope.extra.get(path.name) if path.name in LOCAL else fact.value if isinstance(fact, Known) else None
    return _within(whole, path.fields)


def _within(value: Json, fields: Iterable[str]) -> Json:
    for name in fields:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def shown(path: Path, scope: Scope) -> str:
    """What stands at a path, in words."""
    missing = missing_words(path, scope)
    if missing is not None:
        return missing
    if path.name == "now":
        return f"now is {scope.now:%Y-%m-%dT%H:%M:%SZ}"
    value = value_at(path, scope)
    if path == _LAST and isinstance(value, dict):
        return f"the last {value['action']} of rule {scope.keys[WRITE].params[0][1]} stands"
    if isinstance(value, list):
        return f"{path.text} has {len(value)} {'item' if len(value) == 1 else 'items'}"
    return f"{path.text} is {short(value)}"


def short(value: object) -> str:
    """A value in few words."""
    if isinstance(value, str):
        text = f"'{value}'"
    elif isinstance(value, bool | float | int) or value is None:
        text = json.dumps(value)
    elif isinstance(value, dict):
        text = f"a record of {len(value)} fields"
    elif isinstance(value, list):
        text = f"a list of {len(value)}"
    else:
        text = str(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"


# --- which fields are named ---

Fields = frozenset[str] | None
"""Fields of a record; None for all of it."""


def decides(rule: Rule) -> Mapping[str, Fields]:
    """What the rule's condition and its ``on_change`` look at, by the fact's name."""
    watched = ((one.fact, frozenset(one.by) if one.by and _is_record(one.fact) else None) for one in rule.on_change)
    return _joined((*(_named(rule.when) if rule.when is not None else ()), *watched))


def looked_at(rules: Iterable[Rule]) -> Mapping[str, Fields]:
    """What any of the rules names, in computed values too."""
    rules = tuple(rules)
    computed = (one for value in _computed(rules) for one in _named(value))
    return _joined((*(one for rule in rules for one in decides(rule).items()), *computed))


def paths_named(rules: Iterable[Rule]) -> Iterator[Path]:
    """Every path that any of the rules names, also into a fact of which the document shows no fields."""
    rules = tuple(rules)
    for text in (*(rule.when for rule in rules if rule.when is not None), *_computed(rules)):
        yield from _paths(text)


def _computed(rules: Iterable[Rule]) -> Iterator[Condition | Computed]:
    for step in (step for rule in rules for step in rule.do):
        yield from step.computed
        if step.where is not None:
            yield step.where


def worth_keeping(rules: Iterable[Rule]) -> Mapping[str, Fields]:
    """Of every record what rules may be written about: its documented fields, and those that a rule names."""
    types = {name: fact.type for name, fact in BUILT_IN.items() if name not in LOCAL | MADE and _is_record(name)}
    documented = {name: frozenset(one.fields) for name, one in types.items() if one.fields is not None}
    named = ((name, fields) for name, fields in looked_at(rules).items() if name in documented)
    return _joined((*documented.items(), *named))


def narrowed(fact: Fact, fields: Fields) -> Fact:
    """The fact with these fields only, and of a draft all its money, which a boost commits. What is no record, what is
    unknown, and what has no others stays as it is."""
    if fields is None or not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return fact
    if fact.value.get("state") == "DRAFT":
        fields = fields.union(money_fields(fact.value))
    if fields.issuperset(fact.value) and fields.issuperset(fact.gaps):
        return fact
    whole = fact.value
    value: dict[str, Json] = {name: whole[name] for name in _in_order(fields) if name in whole}
    gaps = {name: why for name, why in fact.gaps.items() if name in fields} if fact.gaps else fact.gaps
    return Known(value=value, read_at=fact.read_at, gaps=gaps)


@lru_cache(maxsize=256)
def _in_order(fields: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(fields))


def _paths(text: Condition | Computed) -> Iterator[Path]:
    """What a text looks at, and what of an event is looked at to make the facts that it names."""
    paths: Iterable[Path] | None = getattr(text, "paths", None)
    for path in [Path(name=name, fields=()) for name in text.names] if paths is None else paths:
        yield path
        if path.name == "events" and (tree := getattr(text, "tree", None)) is not None:
            yield from (Path(name="event", fields=(name,)) for name in sorted(fields_in(tree)))
        elif path.name == "set_by":
            fields = [name.removesuffix("_rules") for name in path.fields[:1]] or SET_FIELDS
            yield from (Path(name="event", fields=(name,)) for name in fields)


def _named(text: Condition | Computed) -> Iterator[tuple[str, Fields]]:
    """The facts that are read for a text, each with the field that it names, or all."""
    for path in _paths(text):
        if path.name not in LOCAL | MADE:
            yield path.name, frozenset({path.fields[0]}) if path.fields and _is_record(path.name) else None


def _joined(named: Iterable[tuple[str, Fields]]) -> Mapping[str, Fields]:
    """All of a fact where any asks for all of it, else what each asks for."""
    found: dict[str, Fields] = {}
    for name, fields in named:
        before = found.get(name, frozenset())
        found[name] = None if before is None or fields is None else before | fields
    return found


def _is_record(name: str) -> bool:
    return name in BUILT_IN and BUILT_IN[name].type.kind == "object"
