"""From an action of a rule to the writes it plans: target, wish, wanted values, and whether it spends.

One action is one write, but for ``frontend_status``, whose second call on the event-ingest service is a write of its
own (API section 3.2): it has its own life, its own outcome, and cannot be read back.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.ids import RuleId
from worker.model.rules import Computed, Rule, Scope, Step
from worker.model.writes import Intent

TOGGLES: Mapping[str, tuple[str, str | None]] = {
    "pause": ("client_campaign_status", "PAUSED"),
    "run": ("client_campaign_status", "RUNNING"),
    "optimisation": ("campaign_optimisation_status", None),
    "ad_optimisation": ("ad_campaign_optimisation_status", None),
    "frontend_status": ("frontend_status", None),
}
"""Actions that set one field of the event, and the value where the action's name implies it."""

SETUP_FIELDS_COMPARED: tuple[str, ...] = ("state", "goal", "total_budget")
"""What of a setup counts for "exactly as before": the fields the document names."""


EXACT_MAX = 1 << 53
"""The largest whole number up to which every whole number is a double."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a rule wants a target to be. Two wishes on one target and axis are equal or opposite."""

    target: str
    axis: str
    value: str
    stops: bool

    @property
    def text(self) -> str:
        """Stable spelling, stored with the write."""
        return f"{self.axis}:{self.value}"

    def opposes(self, other: "Wish") -> bool:
        """Same target, same axis, another value."""
        return self.target == other.target and self.axis == other.axis and self.value != other.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One write of a ``do``: its place and what it wants."""

    position: int
    item: str
    intent: Intent
    wish: Wish


class NotComputable(ValueError):
    """A value in ``do`` could not be computed at the firing; nothing is planned."""


def wish_of(action: str, params: Mapping[str, Json]) -> Wish:
    """The wish of an action with these parameters."""
    if action in TOGGLES:
        field, implied = TOGGLES[action]
        value = implied if implied is not None else str(params.get("value"))
        return Wish(target=field, axis="value", value=value, stops=value in ("PAUSED", "OFF"))
    target = ACTIONS[action].target
    if action == "boost":
        return Wish(target=target, axis="publish", value="published", stops=False)
    spelled = json.dumps(_as_doubles(dict(params)), sort_keys=True, ensure_ascii=False)
    return Wish(target=target, axis=action, value=spelled, stops=False)


def _as_doubles(value: Json) -> Json:
    """The value with every number as a double, so that a written 500 and a computed 500.0 are one wish."""
    if isinstance(value, dict):
        return {name: _as_doubles(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_as_doubles(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > EXACT_MAX:
        return value
    return float(value)


def wishes_of(rule: Rule) -> tuple[Wish, ...]:
    """The wishes a rule stands for by its text. Computed values make no standing wish: they differ by event."""
    found: list[Wish] = []
    for step in rule.do:
        if any(isinstance(value, Computed) for value in step.params.values()):
            continue
        found.append(wish_of(step.action, _plain(step)))
    return tuple(found)


def plan_steps(rule: Rule, scope: Scope, context: Mapping[str, Json]) -> tuple[Planned, ...]:
    """Every write of one firing, in order, with its computed values. Raises `NotComputable`."""
    planned: list[Planned] = []
    for position, step in enumerate(rule.do):
        params = _computed(rule.id, step, scope)
        for item in _items(step.action):
            order = len(planned)
            intent = replace(_intent(step.action, params, item), order=order, do_hash=rule.do_hash, context=context)
            planned.append(Planned(position=position, item=item, intent=intent, wish=wish_of(step.action, params)))
    return tuple(planned)


def amount_of(intent: Intent) -> float | None:
    """The budget that a write commits, in the partner's currency; None where the action has none of its own."""
    value = intent.params.get("total_budget")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def reads_back(intent: Intent, item: str) -> bool:
    """Whether a read can show this effect."""
    return not (intent.action == "frontend_status" and item == "cr")


def _items(action: str) -> tuple[str, ...]:
    return ("event", "cr") if action == "frontend_status" else ("",)


def _plain(step: Step) -> dict[str, Json]:
    return {name: value for name, value in step.params.items() if not isinstance(value, Computed)}


def _computed(rule: RuleId, step: Step, scope: Scope) -> dict[str, Json]:
    params = _plain(step)
    for name, value in step.params.items():
        if isinstance(value, Computed):
            try:
                params[name] = value.value(scope)
            except ValueError as error:
                raise NotComputable(f"rule {rule}: {step.action}.{name} = {value.source}: {error}") from error
    return params


def _intent(action: str, params: Mapping[str, Json], item: str) -> Intent:
    wish = wish_of(action, params)
    if action in TOGGLES:
        wanted: dict[str, Json] = {wish.target: wish.value} if item != "cr" else {}
    elif action == "boost":
        wanted = {"state": "PUBLISHED"}
    else:
        wanted = {name: params[name] for name in ("goal", "total_budget") if name in params}
    return Intent(
        action=action,
        target=wish.target,
        wish=wish.text,
        wanted=wanted,
        params=params,
        spends=ACTIONS[action].spends and not wish.stops,
        stops=wish.stops,
    )
