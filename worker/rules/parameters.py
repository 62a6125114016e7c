"""The parameters with which facts are asked for: what ``with`` says of them, and where the others come from. Pure.

A parameter that a rule does not give comes from another fact (the event's defaults, its start, the partner's currency)
or from the calendar. One that cannot be had is absent, never a guess, and then the fact is unknown. Days are UTC.
"""

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta

from worker.model.facts import FactKey, Json, Known, Observation, Scalar, parse_time
from worker.model.rules import Rule
from worker.rules.registry import BUILT_IN, FROM_FACTS

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
    return any(FROM_FACTS.get(name) == "defaults" and name not in rule.parameters for name in takes)


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
    found = observation.get(FactKey(name=fact))
    return found.value.get(name) if isinstance(found, Known) and isinstance(found.value, dict) else None


def _text(observation: Observation, fact: str, name: str) -> str | None:
    value = _field(observation, fact, name)
    return value if isinstance(value, str) and value.strip() else None


def _budget(observation: Observation, _now: datetime) -> float | None:
    value = _field(observation, "defaults", "total_budget")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _lead_form(observation: Observation, _now: datetime) -> str | None:
    """Empty where the event's defaults have none, which the service allows."""
    found = observation.get(FactKey(name="defaults"))
    if not isinstance(found, Known) or not isinstance(found.value, dict) or "lead_form_id" not in found.value:
        return None
    return _text(observation, "defaults", "lead_form_id") or ""


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
