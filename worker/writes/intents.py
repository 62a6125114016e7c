"""From an action of a rule to the writes it plans: target, wish, wanted values, and whether it spends.

One action is one write, but for ``frontend_status``, whose second call on the event-ingest service is a write of its
own (API section 3.2): it has its own life, its own outcome, and cannot be read back.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import takewhile
from math import isfinite
from typing import Final, assert_never, cast
from urllib.parse import unquote

from worker.model.actions import (
    ACTIONS,
    UNDO,
    UNDO_STEPS,
    WAIT,
    Action,
    Param,
    budgets_in,
    fault_of,
    in_cents,
    money_fields,
    money_in,
    money_text,
)
from worker.model.endpoints import Host, row_called
from worker.model.facts import Fact, Json, Known, number_of, parts_of, record_of, whole_of
from worker.model.rules import Computed, Rule, RuleStep, Scope, Template, Truth, computed_in
from worker.model.writes import UNSETTLED, Intent, Write
from worker.writes.evidence import CONFIRM, EXACT_MAX, SERIES, Wish, members, own_values, target_value, wish_of

# The parameters of a step at its firing: what is written as CEL is computed, and ``each`` is gone through.
#
# Everything is computed at once and kept with the write, so that what an operator approves is what is sent. What cannot
# be computed now holds the firing; what was computed and is no value of its parameter is never sent (`judged`).

RUN = "tc_run_id"
EACH = "each"
"""The item, in the scope of its values; and in an intent's context, the list that it comes from."""
ADDED = "added"
CLIENT = "{client_id}"
_WITH_RUNS = ("suggested_tcs", "clusters")
"""Facts in which a cluster stands beside its run."""


_ANY = Param(type="any", about="what nobody names")


class NotComputable(ValueError):
    """A value in ``do`` could not be computed at the firing, or is not known; nothing is planned."""


def judged(place: str, step: RuleStep, params: Mapping[str, Json]) -> tuple[dict[str, Json], str]:
    """The parameters without those that were computed and may not be sent, and what is wrong with these; empty where
    nothing is."""
    types, faults = ACTIONS[step.action].params, dict[str, str]()
    for name, value in step.params.items():
        if any(computed_in(value)) and (fault := fault_of(name, types.get(name, _ANY), params[name])):
            faults[name] = f"{place}.{name} {fault}"
    return {name: value for name, value in params.items() if name not in faults}, "; ".join(faults.values())


def computed_params(place: str, step: RuleStep, scope: Scope) -> dict[str, Json]:
    """The parameters of a step, with everything in them computed. ``place`` names the step. Raises `NotComputable`."""
    params = {name: _value(f"{place}.{name}", value, scope) for name, value in step.params.items()}
    row = ACTIONS[step.action]
    if RUN in row.params and (run := whole_of(params.get(RUN))) is not None:
        params[RUN] = run
    if row.shown == "confirm" and _names_client(params):
        params["client_id"] = _client_id(place, scope)
    return params


def each_of(place: str, step: RuleStep, scope: Scope) -> dict[str, dict[str, Json]]:
    """The parameters of one write for each item of its list that is meant, by the item's name."""
    found: dict[str, dict[str, Json]] = {}
    for given in _listed(place, step, scope):
        item = _with_run(given, scope)
        of_item = replace(scope, extra={**scope.extra, EACH: item})
        judged = step.where.judge(of_item) if step.where is not None else None
        if judged is not None and judged.truth is Truth.UNKNOWN:
            raise NotComputable(f"{place}: each.where: {judged.why}")
        if judged is not None and judged.truth is Truth.FALSE:
            continue
        params = computed_params(place, step, of_item)
        for name, param in ACTIONS[step.action].params.items():
            if param.of_item and name not in params:
                params[name] = _part(place, item, name)
        found.setdefault(f"{params['tc']}:{params[RUN]}", params)
    return found


def _listed(place: str, step: RuleStep, scope: Scope) -> list[Json]:
    """What the watched list has gained, or all items of a fact."""
    if step.each == ADDED:
        added = scope.extra.get(ADDED)
        if isinstance(added, list):
            return added
        raise NotComputable(f"{place}: each: nothing is known to have been added")
    fact = scope.fact(step.each)
    if isinstance(fact, Known) and isinstance(fact.value, list):
        return fact.value
    why = fact.why if not isinstance(fact, Known) else "it is no list"
    raise NotComputable(f"{place}: each: {step.each} is not known: {why}")


def _names_client(value: Json) -> bool:
    return CLIENT in value if isinstance(value, str) else any(map(_names_client, parts_of(value)))


def _client_id(place: str, scope: Scope) -> str:
    """The partner's internal id, kept with the write as it was at the firing (API section 2.1)."""
    found = record_of(scope.fact("partner")).get("id")
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
        raise NotComputable(f"{place}: an item has no {name}")
    if name != RUN:
        return value
    run = whole_of(value)
    if run is None:
        raise NotComputable(f"{place}.{RUN}: {value!r} is no run of clusters")
    return run


COMPUTED_FROM = "computed_from"
"""In an intent's context: the fields of its own target, as they were, that its values are computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One write of a ``do``: its place and what it wants. ``fault``: why its computed values may not be sent, or
    nothing is put back; then the intent is without them, and stands for nothing. ``why``: what it puts back."""

    position: int
    item: str
    intent: Intent
    wish: Wish
    fault: str = ""
    reason: str = "bad_value"
    why: str = ""


def wishes_of(rule: Rule, over: int = -1) -> tuple[Wish, ...]:
    """The wishes a rule stands for by its text, up to its first wait behind the one at the position ``over``; of what
    comes before that one, of each target the last. Computed values make no standing wish: they differ by event."""
    begun = takewhile(lambda one: one[0] <= over or one[1].action != WAIT, enumerate(rule.do))
    plain = [one for one in begun if not one[1].computed and not one[1].each and ACTIONS[one[1].action].target]
    wishes = [(at, wish_of(step.action, in_cents(cast("Mapping[str, Json]", step.params)))) for at, step in plain]
    last = {wish.target: at for at, wish in wishes}
    return tuple(wish for at, wish in wishes if at > over or at == last[wish.target])


def waited(writes: Iterable[Write]) -> int:
    """The position of the last wait that is over, of a firing whose writes these are."""
    return max((one.key.position for one in writes if one.waits and (one.over or one.state == "confirmed")), default=-1)


def plan_steps(rule: Rule, scope: Scope, context: Mapping[str, Json], after: int = -1) -> tuple[Planned, ...]:
    """Every write of one firing up to its first wait, in order, with its computed values; but for what an undo becomes.
    ``after``: those that come after the wait at this position. Raises `NotComputable`."""
    planned: list[Planned] = []
    for order, position, step in steps_after(rule, after):
        if step.action == UNDO:
            continue
        place = f"rule {rule.id}: {step.action}"
        if step.each:
            made = [(order, name, params) for name, params in each_of(place, step, scope).items()]
        else:
            params = computed_params(place, step, scope)
            made = [(order + index, item, params) for index, item in enumerate(ACTIONS[step.action].items)]
        of_step = {**context, EACH: step.each} if step.each else context
        for turn, item, values in made:
            fit, fault = judged(place, step, values)
            params = in_cents(fit)
            intent = replace(_intent(step.action, params, item), order=turn, do_hash=rule.do_hash, context=of_step)
            if step.relative and not fault:
                intent = replace(intent, context={**of_step, COMPUTED_FROM: _computed_from(place, step, intent, scope)})
            wish = wish_of(step.action, params)
            planned.append(Planned(position=position, item=item, intent=intent, wish=wish, fault=fault))
    return tuple(planned)


def steps_after(rule: Rule, after: int = -1) -> Iterator[tuple[int, int, RuleStep]]:
    """The steps after the wait at this position, up to the next one: the order of each one's first write, its position,
    and the step."""
    order = 0
    for position, step in enumerate(rule.do):
        if position > after:
            yield order, position, step
            if step.action == WAIT:
                return
        wide = UNDO_STEPS if step.action == UNDO else 1 if step.each else len(ACTIONS[step.action].items)
        order += wide


def _computed_from(place: str, step: RuleStep, intent: Intent, scope: Scope) -> dict[str, Json]:
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
    budget = number_of(record.get("total_budget"))
    return None if budget is None else max(float(budget), money_in(dict(record)) or 0.0)


def budgets_of(intent: Intent) -> tuple[float, ...]:
    """Those of it that the service's budget range is for."""
    return tuple(budget for part in _sent(intent) if isinstance(part, Mapping) for budget in budgets_in(part))


def _sent(intent: Intent) -> list[Json]:
    """What of its parameters goes to the service."""
    if ACTIONS[intent.action].shown != "confirm":
        return [dict(intent.params)]
    return [intent.params.get("query"), intent.params.get("body")]


def set_beside(intent: Intent) -> Iterator[str]:
    """The targets whose writes may bring something else onto this one's than it wants (API section 3.2): a boost runs
    the campaigns that a pause stops."""
    for row in ACTIONS.values():
        if any(intent.wanted.get(name, value) != value for name, value in row.brings.items()):
            yield row.target


def holds_back(other: Write, write: Write) -> bool:
    """Whether another write of its target, or one that may bring something else onto it, must be settled, or gone,
    before this one may be sent: it may have an effect, or it is an older one of an action whose writes keep their order
    (API section 3.2: drafts)."""
    if other.id == write.id or not write.intent.target:
        return False
    older = other.state == "planned" and other.id < write.id and other.intent.action == write.intent.action
    return other.state in UNSETTLED or (older and ACTIONS[write.intent.action].in_order)


def reads_back(intent: Intent, item: str) -> bool:
    """Whether a read can show this effect."""
    row = ACTIONS[intent.action]
    if row.shown == "confirm":
        return CONFIRM in intent.params
    return row.shown not in ("answer", "handover", "clock", "undone") and item not in row.unseen


def asks_always(intent: Intent) -> tuple[str, str] | None:
    """Why an operator must let it go, whatever the mode, as a reason and in words: what a DELETE takes away nobody can
    put back, and what a request does that the document does not name nobody knows."""
    if ACTIONS[intent.action].shown != "confirm":
        return None
    if intent.params.get("method") == "DELETE":
        return "delete", "an operator must let a DELETE go"
    return None if _documented(intent.params) else ("undocumented", "the service's document names no such request")


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
        case "confirm" | "answer" | "handover" | "clock" | "undone":
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


# What a write will do and what it will spend, in words: whoever is asked for a yes must see what the yes is to.
#
# It is said here and nowhere else, for commands, page and messages. A boost has no value of its own: it publishes the
# draft, so what was read last of the draft stands for it. That is read and judged anew before anything is sent.

UNSAID: Final = frozenset({"confirm", "spends", "client_id"})
"""Parameters of a free call that say nothing of what is sent."""
OF_DRAFT: Final = ("total_budget", "goal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``does``: what is set, and of a boost the draft that it publishes. ``before``: what is there now, or was there
    before it was sent; empty where nobody has read it. ``amount``: what it spends, in the partner's ``currency`` where
    that is known; ``unknown``: why a write that spends has no amount. ``changes``: each field, its value before and its
    value then."""

    does: str
    before: str = ""
    amount: float | None = None
    currency: str = ""
    unknown: str = ""
    changes: tuple[tuple[str, str, str], ...] = ()

    @property
    def change(self) -> str:
        """From what it is to what it shall be."""
        return f"{self.before} -> {self.does}" if self.before else self.does

    @property
    def spends(self) -> str:
        """What it spends, or that nobody can tell; empty where it spends nothing."""
        if self.amount is not None:
            return f"spends {money_text(self.amount, self.currency)}"
        return f"amount unknown: {self.unknown}" if self.unknown else ""

    @property
    def told(self) -> dict[str, Json]:
        """The same for programs."""
        changes: list[Json] = [{"field": name, "now": now, "then": then} for name, now, then in self.changes]
        words: dict[str, Json] = {"wants": self.does, "now": self.before, "spends": self.spends, "amount": self.amount}
        return {**words, "changes": changes}

    @property
    def line(self) -> str:
        """All of it in one line."""
        return "; ".join(part for part in (self.change, self.spends) if part)


def shown_value(intent: Intent, fact: Fact) -> tuple[bool, Json]:
    """The target as somebody who is asked sees it: as evidence compares it, and of a boost all the money of the draft,
    which is what it commits."""
    readable, value = target_value(intent, fact)
    if ACTIONS[intent.action].budget == "draft" and isinstance(value, dict):
        value = {**value, **money_fields(record_of(fact))}
    return readable, value


def wanted(intent: Intent, item: str, before: Json, currency: str = "") -> Wanted:
    """What a write of this intent will do and spend. ``before``: its target as evidence compares it, None where nobody
    has read it; ``item`` tells the writes of one action apart."""
    row = ACTIONS[intent.action]
    seen = before if isinstance(before, Mapping) else {}
    does, known = _sets(intent), ""
    if reads_back(intent, item):
        named = {name: seen[name] for name in intent.wanted if name in seen and name != "exists"}
        plain = row.value is not None and len(named) == 1
        known = ", ".join(map(_spelled, named.values())) if plain else _named(named)
        known = known if isinstance(before, Mapping | list | None) else _spelled(before)
    if row.budget == "draft" and (draft := {name: seen[name] for name in OF_DRAFT if seen.get(name) is not None}):
        does = f"{does}, draft: {_named(draft)}"
    if item and item in row.items:
        does = f"{does} ({item})"
    amount, unknown = _spent(intent, seen) if intent.spends else (None, "")
    changes = _changes(intent, before if reads_back(intent, item) else None)
    return Wanted(does=does, before=known, amount=amount, currency=currency, unknown=unknown, changes=changes)


def _changes(intent: Intent, before: Json) -> tuple[tuple[str, str, str], ...]:
    """Field by field what is there, empty where that is not known, and what shall be; of a boost all of the draft."""
    row = ACTIONS[intent.action]
    named = {name: value for name, value in _said(intent).items() if name not in ("value", "text")}
    sets = {**intent.wanted, **named}
    sets.pop("exists", None)
    if not isinstance(before, Mapping):
        now = "" if before is None else _spelled(before)
        return tuple((SERIES if row.shown == "series" else name, now, _spelled(to)) for name, to in sets.items())
    if row.budget == "draft":
        sets = {**before, **sets}
    return tuple((name, _spelled(before[name]) if name in before else "", _spelled(to)) for name, to in sets.items())


def in_all(together: Iterable[Wanted]) -> str:
    """What several writes spend together; empty where they spend nothing."""
    sums: dict[str, float] = {}
    unknown = 0
    for one in together:
        if one.amount is not None:
            sums[one.currency] = sums.get(one.currency, 0.0) + one.amount
        unknown += bool(one.unknown)
    known = " + ".join(money_text(amount, currency) for currency, amount in sorted(sums.items()))
    parts = (f"{known} in all" if known else "", f"amount unknown: {unknown} of them" if unknown else "")
    return "; ".join(part for part in parts if part)


def _said(intent: Intent) -> dict[str, Json]:
    """The parameters that say what is sent, and how long something takes in words."""
    said = {name: value for name, value in intent.params.items() if name not in UNSAID}
    for name, param in ACTIONS[intent.action].params.items():
        if param.type == "duration" and (seconds := number_of(said.get(name))) is not None:
            said[name] = str(timedelta(seconds=seconds))
    return said


def _sets(intent: Intent) -> str:
    """The value that is set, or the parameters by name."""
    params = _said(intent)
    if set(params) in ({"value"}, {"text"}):
        return _spelled(*params.values())
    return _named(params) if params else ", ".join(map(_spelled, intent.wanted.values()))


def _spent(intent: Intent, before: Mapping[str, Json]) -> tuple[float | None, str]:
    """The budget that it commits, or why that cannot be told."""
    if ACTIONS[intent.action].budget != "draft":
        amount = amount_of(intent)
        return amount, "" if amount is not None else "it names no budget of its own"
    draft = amount_of_draft(before)
    if draft is not None:
        return (draft, "") if isfinite(draft) else (None, "it shows money that cannot be counted")
    if before.get("state") == "NONE":
        return None, "there is no draft yet"
    return None, "the draft shows no total_budget" if before else "the draft has not been read yet"


def _named(values: Mapping[str, Json]) -> str:
    return ", ".join(f"{name} {_spelled(value)}" for name, value in values.items())


def _spelled(value: Json) -> str:
    """Every number of the service's comes as a double; an operator reads 500 and not 500.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_MAX:
        return str(int(value))
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
