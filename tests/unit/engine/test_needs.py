"""Which facts are worth a request: those that can still make a difference."""

from collections.abc import Mapping

from tests.builders import a_fact, an_observation, cases
from tests.polls import BUDGET_500, START, TCS, a_rule
from worker.engine.observe import unread_keys, wanted_keys, weight_of
from worker.model.facts import FactKey, Json, Observation
from worker.model.rules import Rule

ACTIVE = "event.status == 'active'"


def seen(facts: Mapping[str, Json]) -> Observation:
    return an_observation({name: a_fact(value) for name, value in facts.items()})


def named(keys: frozenset[FactKey]) -> set[str]:
    return {key.text for key in keys}


OF_DRAFTS = a_rule("r", f"{ACTIVE} && setup.state == 'DRAFT'")
WATCHING = a_rule("r", ACTIVE, on_change="suggested_tcs")
IS: Mapping[str, Json] = {"event": {"status": "active"}}
IS_NOT: Mapping[str, Json] = {"event": {"status": "x"}}
NO_DRAFT: Mapping[str, Json] = {**IS, "setup": {"state": "NONE"}}
IN_RANGE = a_rule("r", f"{ACTIVE} && budget_range.lower_limit < 5.0")
COMPUTING = a_rule("r", ACTIVE, "create_draft =defaults.total_budget * 2.0")
ENFORCING = a_rule("r", f"{ACTIVE} && now > timestamp('2026-01-01T00:00:00Z')", "boost", repeat="enforce")
DEFAULTS: Json = {"total_budget": 500, "goal": "ROAS"}


def watching(when: str | None) -> Rule:
    return a_rule("r", when, on_change="suggested_tcs", parameters=BUDGET_500)


WATCHING_DRAFTS = watching(f"{ACTIVE} && setup.state == 'DRAFT'")


@cases(
    "rule, facts, wanted",
    (OF_DRAFTS, IS, {"setup"}, "open"),
    (OF_DRAFTS, IS_NOT, set(), "false without it"),
    (OF_DRAFTS, NO_DRAFT, {"setup"}, "false because of it: it is what may change"),
    (WATCHING_DRAFTS, NO_DRAFT, {"setup"}, "what is watched is not wanted while the condition is false"),
    (watching(None), {}, {TCS.text}, "a rule without a condition is always possible"),
    (WATCHING, IS, {"defaults"}, "its parameters come first"),
    (WATCHING, IS_NOT, set(), "and not while it cannot be true"),
    (WATCHING, {**IS, "defaults": DEFAULTS}, {"defaults", TCS.text}, "they are read on, or no change of them is seen"),
    (IN_RANGE, IS, set(), "without a start the runtime is not known, and the event is read anyway"),
    (COMPUTING, IS, {"defaults"}, "what `do` computes with is wanted while the condition is possible"),
    (ENFORCING, IS, {"setup"}, "enforcing looks at its target; the time costs no read"),
    (watching(f"{ACTIVE} && size(added) > 0"), IS, {TCS.text}, "what is made at the look is not read"),
)
def test_what_is_wanted(rule: Rule, facts: Mapping[str, Json], wanted: set[str]) -> None:
    costs_nothing = {"event"}
    assert named(wanted_keys(rule, seen(facts), START)) - costs_nothing == wanted


def test_what_was_read_once_is_wanted_and_not_unread() -> None:
    assert named(unread_keys(OF_DRAFTS, seen(IS), START)) == {"setup"}
    assert unread_keys(OF_DRAFTS, seen({**IS, "setup": {"state": "DRAFT"}}), START) == frozenset()


@cases(
    "priorities, starts, weight",
    ([0], "2026-04-15T20:00:00Z", 1.0, "an ordinary rule, an event in some weeks"),
    ([0, 3], "2026-04-15T20:00:00Z", 8.0, "the highest priority counts"),
    ([100], "2026-04-15T20:00:00Z", 32.0, "and no further than that"),
    ([-100], "2026-04-15T20:00:00Z", 1 / 32, "nor down"),
    ([0], "2026-03-03T20:00:00Z", 2.0, "it starts in two days"),
    ([0], "2026-12-24T20:00:00Z", 0.5, "it is months away"),
    ([0], None, 1.0, "when is not known"),
    ([], None, 1.0, "no rule at all"),
)
def test_what_matters_more_is_read_sooner(priorities: list[int], starts: str | None, weight: float) -> None:
    facts: dict[str, Json] = {"event": {} if starts is None else {"start_date_time": starts}}
    assert weight_of(priorities, seen(facts), START) == weight
