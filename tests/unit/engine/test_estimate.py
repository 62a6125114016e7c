"""What a rule set costs a partner's budget, reckoned as the daemon spends it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.broken_rules.__main__ import SETTINGS
from tests.builders import cases
from worker.engine.checking import Estimate, estimate
from worker.model.facts import CustomFact
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY, with_custom

FREE = "{id: free, when: event.status == 'x', do: [pause]}"
NARROW = "{id: narrow, when: event.status == 'x' && setup.state == 'DRAFT', do: [boost]}"
OF_BUDGET = "{id: a, on_change: suggested_tcs, do: [boost], with: {budget: %d, goal: ROAS}}"
LIST = 20 + 1
"""One page every 3 s, and the partner's record once a minute."""
WIDE = "{id: wide, when: setup.goal == 'ROAS', do: [pause]}"


SELDOM = {
    "fees": CustomFact(name="fees", get="/f", every=timedelta(minutes=2)),
    "clicks": CustomFact(name="clicks", get="/x/{eid}", every=timedelta(seconds=30)),
}


def reckoned(*rules: str, events: int = 100, **changes: int) -> Estimate:
    registry = with_custom(
        {"spend": CustomFact(name="spend", get="/x/{eid}"), "tax": CustomFact(name="tax", get="/t"), **SELDOM}
    )
    found = read_rules({"r": "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)}, registry)
    return estimate(found.rules.rules, registry, replace(SETTINGS, **changes), events)  # type: ignore[arg-type]


@cases(
    "rules, per_minute",
    ([FREE], LIST, "the event itself is in the list"),
    ([FREE, NARROW], LIST + 2000, "a setup of each of 100 events, 20 times"),
    ([NARROW, WIDE], LIST + 2000, "two rules share a read"),
    (["{id: a, when: partner.currency == 'EUR', do: [pause]}"], 20 + 20, "named, the record is read at every look"),
    (["{id: a, when: tax > 5.0, do: [pause]}"], LIST + 20, "a fact of the config, of the whole partner"),
    (["{id: a, when: fees > 5.0, do: [pause]}"], LIST + 0.5, "one that is asked every other minute"),
    (["{id: a, when: clicks > 5.0, do: [pause]}"], LIST + 200, "one of each event, asked twice a minute"),
    (["{id: a, when: spend > 5.0, do: [pause]}"], LIST + 2000, "a fact of the config, of each event"),
    ([OF_BUDGET % 5], LIST + 2000, "with its parameters given, the list alone"),
    (["{id: a, on_change: suggested_tcs, do: [boost]}"], LIST + 4000, "without, the defaults are read as well"),
    ([OF_BUDGET % 5, OF_BUDGET.replace("a,", "b,") % 6], LIST + 4000, "other parameters, another resource"),
    (["{id: a, when: event.status == 'x', do: [boost], repeat: enforce}"], LIST + 2000, "enforcing reads its target"),
    ([WIDE.replace("do:", "enabled: false, do:")], LIST, "a disabled rule reads nothing"),
    ([], LIST, "the list is read without any rule"),
)
def test_the_requests_of_a_rule_set_are_counted_as_the_daemon_reads(rules: list[str], per_minute: float) -> None:
    assert reckoned(*rules).needed == pytest.approx(per_minute)


def test_the_cost_is_one_sentence_that_says_what_comes_later_than_wanted() -> None:
    found = reckoned(NARROW, events=120)
    assert found.round == timedelta(seconds=10 * 3), "12 reads a look are left beside the list, for 120 events"
    assert found.sentence == (
        "with 120 events a partner (--events N): the list is read at every poll, and setup of each event at least "
        "every 30s, within the 300 requests a minute that are allowed"
    )
    assert reckoned(FREE).sentence == (
        "with 100 events a partner (--events N): at most 21 of the 300 requests a minute that are allowed"
    )


def test_only_what_is_too_slow_to_be_meant_is_a_warning() -> None:
    assert reckoned(NARROW, events=1400).warnings == reckoned(WIDE, events=100).warnings == ()
    [(slow, remedy)] = reckoned(WIDE, events=1100).warnings
    assert slow == "with 1100 events, setup would be read of each event only once in 11m"
    assert "narrow" in remedy


def test_a_list_that_alone_takes_the_budget_is_a_warning() -> None:
    [(message, remedy)] = reckoned(FREE, events=2000).warnings
    assert message.startswith("the list of 2000 events and the partner's facts alone take 401 requests a minute")
    assert "poll.page_size" in remedy
    assert reckoned(FREE, events=2000, page_size=1000).warnings == ()


def test_the_estimate_is_a_script_s_too() -> None:
    assert reckoned(NARROW, events=100).as_json() == {
        "events": 100,
        "per_minute": 2021.0,
        "budget": 300,
        "listing": 20.0,
        "partner": 1.0,
        "facts": [{"fact": "setup", "per_minute": 2000.0, "narrowed": True, "rules": ["narrow"]}],
        "round_s": 24.0,
    }
    assert reckoned(FREE).as_json()["round_s"] is None
    assert BUILT_IN_REGISTRY.facts["setup"].per_event_request


def test_rules_with_at_read_only_at_their_times_and_are_told_of_where_the_time_is_too_short() -> None:
    daily = "{id: daily, at: '0 8 * * *', when: setup.state == 'DRAFT', do: [boost]}"
    often = "{id: often, at: '*/5 * * * *', when: setup.state == 'DRAFT', do: [boost]}"
    steady = "{id: steady, at: '0 8 * * *', for: 1h, when: setup.state == 'DRAFT', do: [boost]}"
    once = "{id: once, at: '0 8 29 2 *', when: setup.state == 'DRAFT', do: [boost]}"
    assert reckoned(daily).needed == LIST
    assert reckoned(steady).needed == LIST + 2000, "with for it is looked at all the while"
    back = "{id: back, at: '0 8 * * *', when: \"delta(statistics.tickets, '3d') == 0.0\", do: [pause]}"
    assert reckoned(back).needed == LIST + 2000, "for an hour, so that it is known three days later"
    assert reckoned(daily).warnings == ()
    late = reckoned(often, daily, once, events=2000)
    assert [one[0] for one in late.late] == ["often"]
    twice = often.replace("*/5 *", "0,5 0")
    assert reckoned(twice, events=2000).late == late.late, "the first two times that come are a day apart"
    ((message, hint),) = [one for one in late.warnings if "times" in one[0]]
    assert message.startswith("rule 'often' asks at its times of 2000 events (--events N) what takes up to ")
    assert message.endswith("and has 5m: of the others the time is missed")
    assert "requests.per_minute" in hint
