"""Small and obvious: what tests of the core talk about, with everything ordinary filled in.

Each builder returns a thing that no guard objects to and that every read can judge; a test names only what it is about.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from worker.guards import Limits, Situation
from worker.model.facts import (
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    Observation,
    PartnerId,
    RuleId,
    Trace,
    Unknown,
    UnknownCode,
    WriteId,
)
from worker.model.rules import Judgement, Rule, RuleStep, Scope, SpendLimits, Truth
from worker.model.writes import Intent, State, Write, WriteKey
from worker.writes.intents import plan_steps
from worker.writes.life import Policy


def cases(names: str, *rows: tuple[Any, ...]) -> pytest.MarkDecorator:
    """A table of cases. What a row shows, where it does not speak for itself, is said last in it, and is its name."""
    columns = len(names.split(","))
    named = [pytest.param(*row[:-1], id=row[-1]) if len(row) > columns else row for row in rows]
    return pytest.mark.parametrize(names, named)


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PARTNER = PartnerId("partner-id-acme")
EVENT = EventId("e1")
RULE = RuleId("r1")

INTERVAL = timedelta(seconds=3)
SETTLE = timedelta(minutes=2)
LIMITS = Limits()

NULL_GAP = "null, which the document does not allow"
MISSING_GAP = "missing in the answer"


def a_fact(value: Json, *, gaps: Mapping[str, str] | None = None, began: float = 0.0) -> Known:
    """A well-formed answer whose request began at monotonic ``began``."""
    return Known(value=value, read_at=NOW, gaps=gaps or {}, trace=Trace(get="/", began=began, status=200))


def unreadable(why: str = "the service answered 500", code: UnknownCode = "unreadable") -> Unknown:
    """A fact that could not be read."""
    return Unknown(code=code, why=why)


def event_fact(
    values: Mapping[str, Json] | None = None,
    /,
    *,
    gaps: Mapping[str, str] | None = None,
    began: float = 0.0,
    **fields: Json,
) -> Known:
    """An active event with running campaigns, and these fields on it; ``gaps`` are taken out of it."""
    value: dict[str, Json] = {
        "id": EVENT,
        "status": "active",
        "frontend_status": "DEFAULT",
        "client_campaign_status": "RUNNING",
        "campaign_optimisation_status": "ON",
        "ad_campaign_optimisation_status": "ON",
        **(values or {}),
        **fields,
    }
    return a_fact(_without(value, gaps), gaps=gaps, began=began)


def setup_fact(
    state: str = "DRAFT", *, gaps: Mapping[str, str] | None = None, began: float = 0.0, **fields: Json
) -> Known:
    """A setup with a goal and a budget, or for NONE what is known of an event without one."""
    ordinary: dict[str, Json] = {} if state == "NONE" else {"goal": "ROAS", "total_budget": 500.0}
    return a_fact(_without({"state": state, **ordinary, **fields}, gaps), gaps=gaps, began=began)


def partner_fact(**fields: Json) -> Known:
    """A partner whose campaign product is on."""
    return a_fact({"id": "client-1", "currency": "EUR", "campaign_recommendations": True, **fields})


def budget_range_fact(lower: float = 100.0, upper: float = 1000.0) -> Known:
    """The service's budget range for the event."""
    return a_fact({"lower_limit": lower, "upper_limit": upper})


def an_observation(facts: Mapping[str, Fact] | None = None) -> Observation:
    """An event's facts by name, none of them with parameters."""
    named: Mapping[str, Fact] = {"event": event_fact(), "setup": setup_fact()} if facts is None else facts
    return Observation(partner=PARTNER, event=EVENT, facts={FactKey(name=name): fact for name, fact in named.items()})


def a_scope(facts: Mapping[str, Fact] | None = None) -> Scope:
    """What a condition or a computed value is judged in."""
    observation = an_observation(facts)
    return Scope(observation=observation, keys={key.name: key for key in observation.facts}, now=NOW)


def a_step(action: str, params: Mapping[str, Json] | None = None) -> RuleStep:
    """One action of ``do``; create_draft has a goal and a budget of its own."""
    ordinary: Mapping[str, Json] = {"goal": "ROAS", "total_budget": 500.0} if action == "create_draft" else {}
    return RuleStep(action=action, params={**ordinary, **(params or {})})


def a_rule(*steps: RuleStep, **changes: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    """A rule without a condition that does these steps."""
    return replace(Rule(id=RULE, file="rules/r1.yaml", do=steps, do_hash="do-1"), **changes)


def an_intent(action: str = "pause", params: Mapping[str, Json] | None = None, item: str = "") -> Intent:
    """What a write of that action wants, as the planner makes it; ``item`` cr is frontend_status' second call."""
    planned = plan_steps(a_rule(a_step(action, params)), a_scope(), {})
    return next(one.intent for one in planned if one.item == item or not item)


def a_write(
    action: str = "pause",
    state: State = "planned",
    *,
    params: Mapping[str, Json] | None = None,
    item: str = "",
    **changes: Any,  # noqa: ANN401 - fields of Write
) -> Write:
    """A write of that action in that state; what was sent has one attempt and its ``before``, if it has a usual one."""
    write = Write(
        id=WriteId(1),
        key=WriteKey(partner=PARTNER, event=EVENT, rule=RULE, episode=1, position=0, item=item),
        intent=an_intent(action, params, item),
        state=state,
        reason="condition",
        why="event.status is cancelled",
        rules=(RULE,),
        planned_at=NOW,
        changed_at=NOW,
        due_since=NOW,
    )
    if state not in ("planned", "waiting", "shadowed"):
        write = replace(
            write,
            attempt=1,
            first_sent_at=NOW,
            last_sent_at=NOW,
            before=_USUAL_BEFORE.get(action),
            before_known=action in _USUAL_BEFORE or "before" in changes,
            unknown_since=NOW if state in ("unknown", "needs_human") else None,
        )
    return replace(write, **changes)


_USUAL_BEFORE: Mapping[str, Json] = {
    "pause": "RUNNING",
    "run": "PAUSED",
    "optimisation": "ON",
    "ad_optimisation": "ON",
    "frontend_status": "DEFAULT",
    "create_draft": {"state": "NONE"},
    "boost": {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0},
}


def a_policy(**changes: Any) -> Policy:  # noqa: ANN401 - fields of Policy
    """The shipped ``safety`` numbers."""
    ordinary = Policy(
        settle=SETTLE,
        evidence_reads=3,
        evidence_within=timedelta(minutes=15),
        confirm_within=timedelta(minutes=2),
        max_attempts=3,
        interval=INTERVAL,
    )
    return replace(ordinary, **changes)


def spending(writes_per_hour: int = 120, **limits: float) -> Limits:
    """Limits on what may be spent."""
    return Limits(writes_per_hour=writes_per_hour, spend=SpendLimits(**limits))


def holds(why: str = "it holds") -> Judgement:
    """A condition that is definitely true."""
    return Judgement(truth=Truth.TRUE, why=why)


def a_situation(write: Write, *, facts: Mapping[str, Fact] | None = None, **changes: Any) -> Situation:  # noqa: ANN401 - fields of Situation
    """A situation in which nothing objects to a pause, a create_draft-free boost or the like; ``facts`` override."""
    fresh: dict[str, Fact] = {
        "partner": partner_fact(),
        "event": event_fact(),
        "setup": setup_fact(),
        "budget_range": budget_range_fact(),
    }
    fresh.update(facts or {})
    return replace(Situation(write=write, now=NOW, limits=LIMITS, judgement=holds(), facts=fresh), **changes)


def _without(value: dict[str, Json], gaps: Mapping[str, str] | None) -> dict[str, Json]:
    return {name: part for name, part in value.items() if name not in (gaps or {})}
