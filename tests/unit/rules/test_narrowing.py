"""Whether what costs nothing can spare a request, told from the text of a condition alone."""

from tests.builders import cases
from tests.unit.rules.reading import the_rule
from worker.rules.lint import costly_names, narrowed
from worker.rules.registry import BUILT_IN_REGISTRY


@cases(
    "condition, spares",
    ("event.status == 'active' && setup.state == 'DRAFT'", True, "false before the setup is read"),
    ("event.status == 'active' || setup.state == 'DRAFT'", False, "true at once, or nothing without the setup"),
    ("!(event.status == 'active' || setup.state == 'DRAFT')", True, "where it is active, it is false"),
    ("!(event.status == 'active' && setup.state == 'DRAFT')", False, "where it is active, the setup is needed"),
    ("setup.state == 'DRAFT'", False, "nothing else is there"),
    ("true && setup.state == 'DRAFT'", False, "what is always true spares nothing"),
    ("false && setup.state == 'DRAFT'", True, "what is never true spares all"),
    ("(event.status == 'a' || setup.state == 'DRAFT') && event.city == 'x'", True, "by the city"),
    ("(event.city == 'x' || true) && setup.state == 'DRAFT'", False, "what is always true spares nothing"),
    ("event.city == 'x'", True, "nothing is read at all"),
    ("event.capacity > defaults.total_budget", False, "one comparison of both"),
    ("setup.state == 'DRAFT' && clusters.exists(c, c.tc == 'x')", False, "both cost a request"),
)
def test_what_costs_nothing_can_spare_a_request(condition: str, spares: bool) -> None:
    rule = the_rule(f'rules: [{{id: a, do: [pause], when: "{condition}"}}]')
    assert narrowed(rule, BUILT_IN_REGISTRY) is spares


def test_a_change_without_a_condition_is_looked_for_everywhere() -> None:
    rule = the_rule("rules: [{id: a, do: [pause], on_change: [suggested_tcs, event]}]")
    assert not narrowed(rule, BUILT_IN_REGISTRY)
    assert costly_names(rule.names, BUILT_IN_REGISTRY) == ("suggested_tcs",)
