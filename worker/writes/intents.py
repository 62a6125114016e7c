"""From an action of a rule to the writes it plans: target, wish, wanted values, and whether it spends.

One action is one write, but for ``frontend_status``, whose second call on the event-ingest service is a write of its
own (API section 3.2): it has its own life, its own outcome, and cannot be read back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import assert_never, cast
from urllib.parse import unquote

from worker.model.action import Action
from worker.model.actions import ACTIONS
from worker.model.endpoints import Host, row_called
from worker.model.facts import Json
from worker.model.rules import Rule, Scope, Step
from worker.model.values import budgets_in, in_cents, money_in
from worker.model.writes import UNSETTLED, Intent, Write
from worker.writes.computing import NotComputable, computed_params, each_of, judged
from worker.writes.evidence import CONFIRM, own_values
from worker.writes.wishes import Wish, members, wish_of

COMPUTED_FROM = "computed_from"
"""In an intent's context: the fields of its own target, as they were, that its values are computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One write of a ``do``: its place and what it wants. ``fault``: why its computed values may not be sent; then the
    intent is without them, and stands for nothing."""

    position: int
    item: str
    intent: Intent
    wish: Wish
    fault: str = ""


def wishes_of(rule: Rule) -> tuple[Wish, ...]:
    """The wishes a rule stands for by its text. Computed values make no standing wish: they differ by event."""
    plain = [step for step in rule.do if not step.computed and not step.each and ACTIONS[step.action].target]
    return tuple(wish_of(step.action, _as_written(step)) for step in plain)


def plan_steps(rule: Rule, scope: Scope, context: Mapping[str, Json]) -> tuple[Planned, ...]:
    """Every write of one firing, in order, with its computed values. Raises `NotComputable`."""
    planned: list[Planned] = []
    order = 0
    for position, step in enumerate(rule.do):
        place = f"rule {rule.id}: {step.action}"
        if step.each:
            made = [(order, name, params) for name, params in each_of(place, step, scope).items()]
        else:
            params = computed_params(place, step, scope)
            made = [(order + index, item, params) for index, item in enumerate(ACTIONS[step.action].items)]
        order += 1 if step.each else len(made)
        for turn, item, values in made:
            fit, fault = judged(place, step, values)
            params = in_cents(fit)
            intent = replace(_intent(step.action, params, item), order=turn, do_hash=rule.do_hash, context=context)
            if step.relative and not fault:
                intent = replace(intent, context={**context, COMPUTED_FROM: _computed_from(place, step, intent, scope)})
            wish = wish_of(step.action, params)
            planned.append(Planned(position=position, item=item, intent=intent, wish=wish, fault=fault))
    return tuple(planned)


def _computed_from(place: str, step: Step, intent: Intent, scope: Scope) -> dict[str, Json]:
    """What the fields of the write's own target are that its values are computed from. Raises `NotComputable`."""
    own = ACTIONS[step.action].own_fact
    found = own_values(intent, scope.fact(own), step.relative)
    if found is None:
        raise NotComputable(f"{place}: {own} is not known, and a value is computed from it")
    return dict(found)


def amount_of(intent: Intent) -> float | None:
    """The money that a write carries, in the partner's currency; None where it carries none of its own."""
    return money_in(_sent(intent))


def amount_of_draft(record: Mapping[str, Json]) -> float | None:
    """The money that a boost of this draft commits: its total budget, and whatever else of the record is money. None
    where the total budget is no number."""
    budget = record.get("total_budget")
    if not isinstance(budget, int | float) or isinstance(budget, bool):
        return None
    return max(float(budget), money_in(dict(record)) or 0.0)


def budgets_of(intent: Intent) -> tuple[float, ...]:
    """Those of it that the service's budget range is for."""
    return tuple(budget for part in _sent(intent) if isinstance(part, Mapping) for budget in budgets_in(part))


def _sent(intent: Intent) -> list[Json]:
    """What of its parameters goes to the service."""
    if ACTIONS[intent.action].shown != "confirm":
        return [dict(intent.params)]
    return [intent.params.get("query"), intent.params.get("body")]


def holds_back(other: Write, write: Write) -> bool:
    """Whether another write must be settled, or gone, before this one of the same target may be sent: it may have an
    effect, or it is an older one of an action whose writes keep their order (API section 3.2: drafts)."""
    if (
        other.id == write.id
        or not write.intent.target
        or (other.key.event, other.intent.target) != (write.key.event, write.intent.target)
    ):
        return False
    older = other.state == "planned" and other.id < write.id and other.intent.action == write.intent.action
    return other.state in UNSETTLED or (older and ACTIONS[write.intent.action].in_order)


def reads_back(intent: Intent, item: str) -> bool:
    """Whether a read can show this effect."""
    row = ACTIONS[intent.action]
    if row.shown == "confirm":
        return CONFIRM in intent.params
    return row.shown not in ("answer", "handover") and item not in row.unseen


def asks_always(intent: Intent) -> tuple[str, str] | None:
    """Why a person must let it go, whatever the mode, as a reason and in words: what a DELETE takes away nobody can put
    back, and what a request does that the document does not name nobody knows."""
    if ACTIONS[intent.action].shown != "confirm":
        return None
    if intent.params.get("method") == "DELETE":
        return "delete", "a person must let a DELETE go"
    return None if _documented(intent.params) else ("undocumented", "the service's document names no such request")


def _as_written(step: Step) -> dict[str, Json]:
    """The parameters of a step that computes nothing."""
    return in_cents(cast("dict[str, Json]", dict(step.params)))


def _intent(action: str, params: Mapping[str, Json], item: str) -> Intent:
    row, wish = ACTIONS[action], wish_of(action, params)
    return Intent(
        action=action,
        target=wish.target,
        wish=wish.text,
        wanted={} if item in row.unseen else _wanted(row, params),
        params=params,
        spends=_spends(row, wish, params),
        stops=wish.stops,
    )


def _wanted(row: Action, params: Mapping[str, Json]) -> dict[str, Json]:
    """The values whose presence is the evidence."""
    match row.shown:
        case "field":
            return {row.target: row.value if row.value is not None else str(params.get("value"))}
        case "setup" if row.value is not None:
            return {"state": row.value}
        case "setup":
            return {name: value for name, value in params.items() if not row.creates or name in row.required}
        case "campaign":
            values = {} if row.creates else {name: one for name, one in params.items() if name not in row.required}
            return {"exists": True, **values}
        case "series":
            return {row.value or "": list(members(params))}
        case "confirm" | "answer" | "handover":
            return {}
    assert_never(row.shown)


def _documented(params: Mapping[str, Json]) -> bool:
    """Whether the document names the request that a rule wrote by hand."""
    host = cast("Host", params.get("host") or "api")
    return row_called(str(params.get("method")), unquote(str(params.get("path"))), host) is not None


def _spends(row: Action, wish: Wish, params: Mapping[str, Json]) -> bool:
    match row.spends:
        case "unless_off":
            return not wish.stops
        case "with_budget":
            return money_in(dict(params)) is not None
        case "unless_said":
            money = money_in([params.get("query"), params.get("body")])
            return params.get("spends") is not False or money is not None or not _documented(params)
        case _:
            return row.spends == "always"
