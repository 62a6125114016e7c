"""Values that are computed from what their own action writes: which they are, and how often they may be written."""

import pytest

from tests.builders import cases
from tests.unit.rules.reading import problems, the_rule
from worker.model.facts import CustomFact
from worker.rules.registry import with_custom

OWN = with_custom(
    {
        "draft_budget": CustomFact(name="draft_budget", get="/setup_processes/{eid}", value="total_budget"),
        "ad_spend": CustomFact(name="ad_spend", get="/events/{eid}/spend"),
        "encoded": CustomFact(name="encoded", get="/%73etup_processes/{eid}/?a=b"),
        "dotted": CustomFact(name="dotted", get="/./x/../setup_processes/{eid}"),
    }
)
BUDGET = 'update_draft: {total_budget: "=%s"}'
CLUSTER = 'edit_cluster: {tc: jazz, tc_run_id: 1, budget: "=%s"}'
STATUS = """frontend_status: "=%s == 'HIDDEN' ? 'DEFAULT' : 'HIDDEN'\""""


def spelled(action: str, more: str) -> str:
    return f"rules:\n  - {{id: a, when: event.status == 'active', do: [{action}]{more}}}\n"


def relative(action: str, more: str = "") -> tuple[str, ...]:
    """The own fields that the first action reads."""
    return the_rule(spelled(action, more), OWN).do[0].relative


def errors(action: str, more: str = "") -> list[str]:
    found = problems(spelled(action, more), OWN)
    assert {problem.code for problem in found} == {"relative"}
    return [problem.message for problem in found]


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        (BUDGET % "setup.total_budget * 1.2", ("total_budget",)),
        (BUDGET % "setup['total_budget'] * 1.2", ("total_budget",)),
        (BUDGET % "setup['limits'].high", ("limits",)),
        (BUDGET % "[setup].map(s, s['bid'] * 1.2)[0]", ("bid", "total_budget")),
        ("update_draft: {extra: {parts: ['=setup.total_budget', 5]}}", ("total_budget",)),
        ("create_draft: {goal: '=setup.goal', total_budget: 500}", ("goal",)),
        (CLUSTER % "campaigns.filter(c, c.tc == 'jazz')[0]['budget'] * 1.2", ("budget",)),
        (STATUS % "event.frontend_status", ("frontend_status",)),
        (STATUS % "[event][0].frontend_status", ("frontend_status",)),
    ],
)
def test_a_value_that_reads_its_own_target_says_how_often(action: str, fields: tuple[str, ...]) -> None:
    for pace in (", cooldown: 1h", ", cooldown: 2d", ", limit: {per_event_per_day: 3}", ", at: '0 8 * * *'"):
        assert relative(action, pace) == fields
    for pace in ("", ", cooldown: 59m", ", for: 2h", ", mode: approve"):
        (message,) = errors(action, pace)
        assert "which this action itself writes, and nothing says how often" in message
    for pace in ("", ", cooldown: 2h", ", limit: {per_event_per_day: 1}"):
        (message,) = errors(action, f", repeat: enforce{pace}")
        assert "with `repeat: enforce` each write would be the ground of the next" in message


@cases(
    "action",
    ("update_draft: {total_budget: 500}", "a literal is the same each time"),
    (BUDGET % "defaults.total_budget * 1.2", "what the rule does not write"),
    (BUDGET % "campaigns[0]['budget']", "another target"),
    (BUDGET % "ad_spend", "a fact of the config that is read elsewhere"),
    (CLUSTER % "setup.total_budget * 0.1", "another target"),
    (STATUS % "event.city", "another field of the event"),
    ("notify: '=setup.goal'", "a message has no target"),
    ("series_add: ['=event.id']", "what is added is there or not"),
    ("pause", "nothing is computed"),
)
def test_any_other_value_may_be_written_as_often_as_the_rule_fires(action: str) -> None:
    assert relative(action) == ()
    if action != "notify: '=setup.goal'":
        assert relative(action, ", repeat: enforce, cooldown: 1m") == ()


@pytest.mark.parametrize(
    ("value", "fields"), [("each['budget'] * 1.2", ("budget",)), ("added[0]['budget'] * 1.2", ("budget",))]
)
def test_an_item_of_the_watched_campaigns_is_the_target_itself(value: str, fields: tuple[str, ...]) -> None:
    action = f'{{edit_cluster: {{budget: "={value}"}}, each: added}}'
    assert relative(action, ", on_change: campaigns, cooldown: 1h") == fields
    assert errors(action, ", on_change: campaigns")
    assert relative(action.replace("budget'", "size'"), ", on_change: {fact: suggested_tcs, by: [tc, size]}") == ()


def test_a_campaigns_name_is_no_value_of_it() -> None:
    action = "{edit_cluster: {extra: {label: '=each.tc'}, budget: 5}, each: added}"
    assert relative(action, ", on_change: campaigns") == ()


@pytest.mark.parametrize("name", ["draft_budget", "encoded", "dotted"])
def test_the_target_under_a_name_of_the_config_is_named_as_what_it_is(name: str) -> None:
    (message,) = errors(BUDGET % f"{name} * 1.2", ", cooldown: 1h")
    assert message.endswith(f"{name} is read from /setup_processes/{{eid}}, which this action itself writes")
    (message,) = errors(BUDGET % f"previous.{name} * 1.2", f", on_change: {name}, cooldown: 1h")
    assert message.endswith(f"{name} is read from /setup_processes/{{eid}}, which this action itself writes")


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ("previous.setup.total_budget * 1.2", ("total_budget",)),
        ("previous['setup']['bid'] * 1.2", ("bid",)),
        ("[previous].map(p, p.setup['bid'] * 1.2)[0]", ("bid", "setup", "total_budget")),
    ],
)
def test_what_was_remembered_of_its_own_target_is_its_own_target(value: str, fields: tuple[str, ...]) -> None:
    watched = ", on_change: [setup, {fact: event, by: [status]}]"
    assert relative(BUDGET % value, f"{watched}, cooldown: 1h") == fields
    (message,) = errors(BUDGET % value, f"{watched}, cooldown: 59m")
    assert "computed from previous" in message
    assert "nothing says how often" in message


def test_what_was_remembered_of_another_fact_is_any_value() -> None:
    assert relative(BUDGET % "previous.event.capacity * 1.2", ", on_change: [{fact: event, by: [capacity]}]") == ()


def test_the_place_is_that_of_the_name_in_the_value() -> None:
    (problem,) = problems(spelled(BUDGET % "1.2 * setup.total_budget", ""), OWN)
    assert (problem.line, problem.column) == (2, 87)
    assert "total_budget: 500" in problem.hint, "what to write instead"


def test_every_value_that_runs_away_is_told() -> None:
    assert len(errors("update_draft: {total_budget: '=setup.total_budget', extra: {bid: '=setup.total_budget'}}")) == 2
