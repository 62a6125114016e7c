"""Rule tests: when looks happen, what facts are, and what each claim means."""

import pytest

from tests.builders import cases
from tests.unit.engine.ruletest_bench import BOOST, PAUSE, a_bench, failing, passes, ran
from worker.engine.views import DecidingSettings
from worker.model.errors import UsageError
from worker.model.facts import RuleId

CANCEL, FIRES = "set: {event: {status: cancelled}}", "{rule: pause, action: pause}"
RUNNING = "given: {event: {id: e1, status: active, client_campaign_status: RUNNING}}"


def test_a_look_happens_at_every_interval_and_right_after_each_set() -> None:
    done = ran(a_bench(PAUSE), f"{RUNNING}\nsteps: [{{at: 7s, {CANCEL}}}, {{at: 8s}}]")
    assert done.polls == 2, "0s and 7s; the looks at 3s and 6s are known to change nothing"
    body = f"""
{RUNNING}
steps:
  - {{at: 7s, set: {{event: {{status: cancelled}}}}, expect: [{{rule: pause, action: pause}}]}}
  - {{at: 7s, set: {{event: {{status: active}}}}, expect: []}}
  - at: 7s
    set: {{event: {{status: cancelled, client_campaign_status: RUNNING}}}}
    expect: [{{rule: pause, action: pause}}]
"""
    passes(a_bench(PAUSE), body)


def test_facts_that_are_not_given_are_unknown_but_for_the_setup() -> None:
    bench = a_bench(
        "{id: a, when: \"event.city != 'x'\", do: [pause]}",
        "{id: b, when: \"setup.state == 'NONE'\", do: [run]}",
        "{id: c, when: partner.campaign_recommendations, do: [{optimisation: ON}]}",
    )
    body = """
steps:
  - at: 0s
    expect: [{rule: a, action: pause}, {rule: b, action: run}, {rule: c, action: optimisation}]
"""
    words = failing(bench, body)
    assert "  - expected a: pause" in words
    assert "    a did not fire for e1: unknown: event has no field 'city'" in words
    assert "    c did not fire for e1: unknown: partner is unknown: the test does not give it" in words
    assert not any("b" in line.split(": ")[0] for line in words)


@cases(
    "given, condition, fires",
    ("event: {status: null}", "event.status != 'x'", False, "null where the document allows none is unknown"),
    ("event: {capacity: null}", "event.capacity != 5.0", False, "so one says that an answer got it wrong"),
    ("event: {special_ad_category: null}", "event.special_ad_category == null", True, "null is allowed here"),
    ("suggested_tcs: []", "size(suggested_tcs) == 0", False, "an empty list is not computed yet"),
    ("clusters: [{tc: a, tc_run_id: '12'}]", "clusters[0].tc_run_id == 12", True, "a run is an integer"),
    ("campaigns: []", "size(campaigns) == 0", True, "no campaigns are a value"),
    ("setup: {state: null}", "setup.state != 'DRAFT'", False, "a setup whose state was not understood"),
    ("permissions: [a, b]", "'a' in permissions", True, "partner-wide lists"),
    ("expected_value: 12.5", "expected_value > 12.0", True, "a number"),
    ("now: 2026-05-01T23:00:00Z", "now.getHours() == 23", True, "the moment of 0s"),
    ("event: {id: e1}", "now == timestamp('2026-01-01T12:00:00Z')", True, "else the clock begins here"),
    ("adplatform: {connected: true}", "adplatform.connected", True, "a record of the partner"),
    (
        "event: {start_date_time: '2026-01-04T12:00:00Z'}, budget_range: {lower_limit: 5}",
        "budget_range.lower_limit == 5.0",
        True,
        "a fact is found under the parameters that the rule asks by",
    ),
    ("budget_range: {lower_limit: 5}", "budget_range.lower_limit == 5.0", True, "also where nothing gives them"),
    ("expected_value: 7, defaults: {goal: ROAS}", "expected_value > 1.0", False, "a default without its budget"),
)
def test_facts_have_the_shapes_that_the_daemon_reads(given: str, condition: str, fires: bool) -> None:
    bench = a_bench(f'{{id: r, when: "{condition}", do: [pause]}}')
    expected = "[{rule: r, action: pause}]" if fires else "[]"
    assert ran(bench, f"given: {{{given}}}\nsteps: [{{at: 0s, expect: {expected}}}]").passed


def test_set_merges_records_replaces_lists_and_makes_the_unknown_known() -> None:
    body = """
given: {event: {city: Ulm}, clusters: [{tc: a}, {tc: b}]}
steps:
  - {at: 0s, set: {event: {status: cancelled}}, expect: []}
  - {at: 3s, unknown: [clusters], expect: []}
  - {at: 6s, set: {clusters: [{tc: a}]}, expect: [{rule: r, action: pause}]}
"""
    passes(
        a_bench(
            "{id: r, when: \"event.status == 'cancelled' && event.city == 'Ulm' && size(clusters) == 1\", do: [pause]}"
        ),
        body,
    )


def test_several_events_have_facts_of_their_own() -> None:
    bench = a_bench("{id: r, when: \"event.status == 'active' && setup.state == 'DRAFT'\", do: [run]}")
    body = """
given: {event: [{id: a, status: active}, {id: b, status: active}], setup: {state: NONE}}
steps:
  - {at: 0s, expect: []}
  - {at: 3s, set: {event: {id: b}, setup: {state: DRAFT}}, expect: [{rule: r, action: run, event: b}]}
  - {at: 6s, set: {event: {id: c, status: active}, setup: {state: DRAFT}}, expect: [{rule: r, action: run, event: c}]}
  - {at: 9s, set: {setup: {state: DRAFT}}, expect: [{rule: r, action: run, event: a}]}
  - {at: 12s, set: {event: {id: d, status: active}}, expect: [{rule: r, action: run, event: d}]}
  - {at: 15s, set: {event: {status: archived}}, expect: []}
"""
    passes(bench, body)


def test_what_fired_is_compared_exactly_and_with_what_it_was_planned_with() -> None:
    bench = a_bench("{id: r, when: \"event.status == 'x'\", do: [{optimisation: OFF}, {frontend_status: HIDDEN}]}")
    given = "given: {event: [{id: a, status: x}, {id: b, status: x}]}\n"
    passes(
        bench,
        given
        + """steps:
  - at: 0s
    expect:
      - {rule: r, action: optimisation}
      - {rule: r, action: frontend_status, event: b, params: {value: HIDDEN}}
      - {rule: r, action: frontend_status}
      - {rule: r, action: optimisation, event: a}
    states:
      - {action: frontend_status, state: confirmed}
      - {action: frontend_status, state: confirmed, event: b, rule: r}
    sent: 6
""",
    )
    words = failing(bench, given + "steps: [{at: 0s, expect: [{rule: r, action: optimisation, params: {value: ON}}]}]")
    assert words[0] == "step at 0s (line 4), expect:"
    assert "  - expected r: optimisation {value: ON}" in words
    assert "  + happened r: optimisation {value: OFF} for a at 0s" in words


def test_two_rules_that_want_the_same_both_fire() -> None:
    bench = a_bench(PAUSE, "{id: too, when: \"event.status == 'cancelled'\", do: [pause], priority: 5}")
    body = """
given: {event: {status: cancelled, client_campaign_status: RUNNING}}
steps:
  - at: 0s
    expect: [{rule: pause, action: pause}, {rule: too, action: pause}]
    states: [{action: pause, state: confirmed, rule: pause}]
    sent: 1
"""
    passes(bench, body)


def test_what_holds_a_rule_is_told_and_why() -> None:
    bench = a_bench(PAUSE, "{id: go, when: \"event.city == 'Ulm'\", do: [run], priority: -1}")
    body = "given: {event: {status: cancelled, city: Ulm, client_campaign_status: PAUSED}}\n"
    passes(bench, body + "steps: [{at: 0s, held: [{rule: go, reason: conflict, event: e1}]}]")
    words = failing(bench, body + "steps: [{at: 0s, held: [{rule: go, reason: cooldown}]}]")
    assert words[1] == "  - expected go held by cooldown"
    assert words[2].startswith("  + happened go held by conflict for e1: rule pause (priority 0) wants")
    assert words[3].startswith("    go did not fire for e1: true: event.city is 'Ulm'; held by conflict: rule pause")
    words = failing(bench, body + "steps: [{at: 0s, held: []}]")
    assert words[1] == "  - expected nothing"


def test_what_came_to_be_held_since_the_step_before_is_told_as_over() -> None:
    rule = "{id: r, when: \"event.status == 'cancelled'\", for: 1m, do: [pause]}"
    body = "given: {event: {status: cancelled}}\nsteps: [{at: 2m, held: [{rule: r, reason: limit}]}]"
    assert "(no longer)" in "".join(failing(a_bench(rule), body))


def test_states_are_of_the_newest_write_of_each_place() -> None:
    body = """
given: {event: {status: cancelled, client_campaign_status: PAUSED}}
steps:
  - {at: 0s, states: [{action: pause, state: skipped}]}
  - {at: 3s, set: {event: {status: active, client_campaign_status: RUNNING}}}
  - {at: 6s, set: {event: {status: cancelled}}, states: [{action: pause, state: STATE}]}
"""
    passes(a_bench(PAUSE), body.replace("STATE", "confirmed"))
    words = failing(a_bench(PAUSE), body.replace("STATE", "skipped"))
    assert words[1] == "  - expected pause skipped"
    assert words[2].startswith("  + happened pause of pause for e1 confirmed: read")
    assert failing(a_bench(PAUSE), "given: {event: {status: cancelled}}\nsteps: [{at: 0s, states: []}]")
    passes(a_bench(PAUSE), "steps: [{at: 0s, states: []}]")


def test_sent_counts_what_left_so_far() -> None:
    words = failing(
        a_bench(PAUSE), "given: {event: {status: cancelled}}\nsteps: [{at: 0s, sent: 1}, {at: 9s, sent: 0}]"
    )
    assert words == ["step at 9s (line 4), sent:", "  - expected 0 sent", "  + happened 1 sent"]


def test_the_mode_is_live_but_for_stricter_rules_and_partners_do_not_count() -> None:
    bench = a_bench(
        "{id: ask, when: \"event.status == 'x'\", do: [pause], mode: approve, partners: [partner-id-acme]}",
        "{id: dry, when: \"event.status == 'x'\", do: [{optimisation: OFF}], mode: shadow}",
        "{id: off, when: \"event.status == 'x'\", do: [boost], enabled: false}",
        deciding=DecidingSettings(mode="shadow"),
    )
    body = """
given: {event: {status: x, client_campaign_status: RUNNING}}
steps:
  - at: 0s
    expect: [{rule: ask, action: pause}, {rule: dry, action: optimisation, params: {value: "OFF"}}]
    held: [{rule: ask, reason: mode}]
    states: [{action: pause, state: waiting}, {action: optimisation, state: shadowed}]
    sent: 0
"""
    passes(bench, body)
    words = failing(bench, "steps: [{at: 0s, expect: [{rule: off, action: boost}]}]")
    assert words[-1] == "    off did not fire for e1: the rule is disabled"


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_word_on_what_does_not_wait_fails(word: str) -> None:
    """A step's word comes before its poll, so what its own `set` lets fire is not there yet."""
    bench = a_bench(PAUSE.replace("do:", "mode: approve, do:"))
    too_soon = failing(bench, f"{RUNNING}\nsteps: [{{at: 3s, {CANCEL}, {word}: [pause]}}]")
    assert too_soon == [
        f"step at 3s (line 4), {word}:",
        "  - expected a write of pause that waits before this poll",
        "  + happened pause of pause for e1 waiting: mode: approve mode: event.status is 'cancelled'",
    ]
    twice = f"{{at: 3s, {CANCEL}}}, {{at: 6s, {word}: [pause]}}, {{at: 9s, {word}: [pause]}}"
    assert any("pause of pause for e1 c" in line for line in failing(bench, f"{RUNNING}\nsteps: [{twice}]"))


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_word_on_a_rule_is_about_its_own_writes_as_with_the_commands(word: str) -> None:
    two = "when: \"event.status == 'cancelled'\", mode: approve, do: [pause]}"
    bench, both = a_bench(f"{{id: a, {two}", f"{{id: b, {two}"), f"{{at: 3s, {CANCEL}}}, {{at: 6s, {word}: [RULE]"
    missing = failing(bench, f"{RUNNING}\nsteps: [{both.replace('RULE', 'b')}}}]")
    assert "  - expected a write of b that waits before this poll" in missing, "its desired value is in that of a"
    end = {"approve": "confirmed", "reject": "cancelled"}[word]
    passes(bench, f"{RUNNING}\nsteps: [{both.replace('RULE', 'a')}, states: [{{action: pause, state: {end}}}]}}]")


def test_what_comes_after_a_wait_is_expected_when_it_comes_in_every_mode() -> None:
    rule = "{id: r, when: \"event.status == 'active'\", do: [{optimisation: OFF}, {wait: 2h}, {ad_optimisation: OFF}]"
    body = """
given: {event: {status: active, campaign_optimisation_status: "ON", ad_campaign_optimisation_status: "ON"}}
steps:
  - {at: 0s, expect: [{rule: r, action: optimisation}]}
  - {at: 1m, APPROVE states: [{action: optimisation, state: confirmed}], expect: []}
  - {at: 1h59m, expect: [], held: [{rule: r, reason: wait}]}
  - {at: 3h, expect: [{rule: r, action: ad_optimisation}], states: [{action: ad_optimisation, state: STATE}]}
"""
    passes(a_bench(f"{rule}}}"), body.replace("APPROVE", "").replace("STATE", "confirmed"))
    passes(a_bench(f"{rule}, mode: approve}}"), body.replace("APPROVE", "approve: [r],").replace("STATE", "waiting"))


def test_a_boost_that_was_approved_for_less_is_asked_again() -> None:
    body = """
given: {setup: {state: DRAFT, total_budget: 500}}
steps:
  - {at: 0s, states: [{action: boost, state: waiting}]}
  - at: 9s
    approve: [r]
    set: {setup: {total_budget: 900}}
    states: [{action: boost, state: waiting}]
    sent: 0
"""
    passes(a_bench("{id: r, when: \"setup.state == 'DRAFT'\", do: [boost], mode: approve}"), body)


@cases(
    "steps, fired, held_back",
    ("{at: 0s, expect: []}", set(), {"pause"}, "its condition was false and the step said so"),
    ("{at: 0s}", set(), set(), "nothing was claimed"),
    (f"{{at: 0s, {CANCEL}, expect: [{FIRES}]}}", {"pause"}, set(), "it fired, and nothing else was claimed"),
    (f"{{at: 0s, {CANCEL}}}, {{at: 9s, expect: []}}", {"pause"}, set(), "that it fires once is no test of it"),
    ("{at: 0s, unknown: [event], expect: []}", set(), {"pause"}, "what is unknown fires nothing"),
)
def test_what_a_test_saw(steps: str, fired: frozenset[RuleId], held_back: frozenset[RuleId]) -> None:
    done = ran(a_bench(PAUSE), f"{RUNNING}\nsteps: [{steps}]")
    assert (done.fired, done.held_back) == (fired, held_back)


def test_a_rule_whose_facts_are_not_given_was_not_seen_to_hold_back() -> None:
    assert not ran(a_bench(PAUSE), "steps: [{at: 0s, expect: []}]").held_back


def test_a_change_that_is_none_was_seen_to_hold_back_but_not_at_the_first_look() -> None:
    assert not ran(a_bench(BOOST), f"{DRAFT}\nsteps: [{{at: 0s, expect: []}}]").held_back
    assert ran(a_bench(BOOST), f"{DRAFT}\nsteps: [{{at: 0s, expect: []}}, {{at: 3s, expect: []}}]").held_back


DRAFT = "given: {setup: {state: DRAFT}, suggested_tcs: [{tc: a, tc_run_id: 1}]}"
BEFORE = "before that, `when` was false, or nothing known"
AGAIN = "set: {setup: {state: DRAFT}}"
BOOSTS = "expect: [{rule: boost, action: boost}]"
OTHERS = "set: {setup: {state: NONE}, suggested_tcs: [{tc: b, tc_run_id: 1}]}"


@pytest.mark.parametrize(
    ("rule", "body", "why"),
    [
        (BOOST, f"{DRAFT}\nsteps: [{{at: 0s}}, {{at: 3s, {BOOSTS}}}]", "no watched value has changed"),
        (
            BOOST,
            f"{DRAFT}\nsteps: [{{at: 0s}}, {{at: 3s, {OTHERS}}}, {{at: 6s, {AGAIN}, {BOOSTS}}}]",
            f"nothing has changed since 6s, when it was first remembered: {BEFORE}",
        ),
        (BOOST, f"given: {{setup: {{state: DRAFT}}}}\nsteps: [{{at: 3s, {BOOSTS}}}]", "no watched value was seen yet"),
        (
            PAUSE,
            f"given: {{event: {{status: cancelled}}}}\nsteps: [{{at: 0s}}, {{at: 3s, expect: [{FIRES}]}}]",
            "it has fired already in this episode",
        ),
    ],
)
def test_why_a_rule_did_not_fire_is_told(rule: str, body: str, why: str) -> None:
    assert failing(a_bench(rule), body)[-1].endswith(f"; {why}")


def test_a_step_that_is_years_away_is_refused_where_every_look_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.engine.playing.POLLS_MAX", 10)
    bench = a_bench("{id: r, when: \"string(now) == 'x'\", do: [pause]}")
    with pytest.raises(UsageError, match=r"t\.yaml:2: more than 10 polls"):
        ran(bench, "steps: [{at: 1m, expect: []}]")
