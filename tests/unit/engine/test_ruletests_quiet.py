"""Rule tests: jumping over quiet times gives what every look would give."""

from datetime import datetime, timedelta
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engine.ruletest_bench import PAUSE, a_bench, failing, passes, ran
from worker.engine.deciding import Clocked, clocked
from worker.engine.playing import Bench, Play
from worker.engine.ruletests import Ran
from worker.guards import Limits
from worker.rules.evaluate import Expression
from worker.rules.load import read_rules

CLOCKS = (
    "event.start_date_time - now < duration('7m')",
    "now + duration('3m') >= event.start_date_time",
    "now.getMinutes() == 3",
    "now.getHours() >= 13",
    "now.getHours('Asia/Kathmandu') >= 13",
    "event.status == 'x'",
    "(event.status == 'x' || now.getMinutes() > 6) && event.start_date_time > now",
    "event.client_campaign_status != 'PAUSED' && now.getMinutes() < 6",
)
MORE = ("", ", {wait: 2m}, {optimisation: 'OFF'}", ", {optimisation: 'OFF'}, {wait: 3m}, {notify: it is so}")
KEYS = ("", "for: 2m, ", "cooldown: 3m, ", "limit: {per_event_per_day: 1}, ", "repeat: enforce, cooldown: 4m, ")


def at_every_look(bench: Bench, body: str) -> Ran:
    """The same, but nothing is jumped over: the next look is always due."""

    def now(_play: Play, now: datetime, _horizon: datetime) -> datetime:
        return now

    with patch.object(Play, "_wakes", now):
        return ran(bench, body)


@pytest.mark.parametrize(
    ("condition", "expected", "reason"),
    [
        ("event.status == 'x'", Clocked(), "no clock at all"),
        ("now.getHours() == 3", Clocked(every=timedelta(hours=1)), "only the hour"),
        ("now.getHours('Europe/Berlin') == 3", Clocked(every=timedelta(minutes=15)), "which is not full everywhere"),
        ("now.getDate('Asia/Kathmandu') == 3", Clocked(every=timedelta(minutes=15)), "nor is the day"),
        ("now.getHours('+05:07') == 3", Clocked(every=timedelta(minutes=1)), "and here it is as somebody writes it"),
        ("now.getHours(event.city) == 3", Clocked(every=timedelta(minutes=1)), "or as the event says"),
        ("now.getHours(string(now)) == 3", Clocked(restless=True), "no zone at all"),
        ("now.getHours() == 3 || now.getMinutes() == 5", Clocked(every=timedelta(minutes=1)), "the finer one"),
        ("[now.getDate()] == [1]", Clocked(every=timedelta(hours=1)), "wherever it stands"),
        ("now.getSeconds() == 3", Clocked(restless=True), "every look"),
        ("(now + duration('5m')).getHours() == 3", Clocked(restless=True), "the hour of another moment"),
        ("string(now) == 'x'", Clocked(restless=True), "no comparison"),
        ("now == event.start_date_time", Clocked(restless=True), "true for a moment only"),
        ("now.getHours() == 3 || now == event.start_date_time", Clocked(restless=True), "one part is enough"),
    ],
)
def test_how_a_condition_depends_on_the_clock(condition: str, expected: Clocked, reason: str) -> None:
    (rule,) = read_rules({"r.yaml": f'rules: [{{id: r, when: "{condition}", do: [pause]}}]'}).rules.rules
    assert clocked(rule) == expected, reason


def test_a_value_of_the_moment_is_computed_at_a_firing_and_keeps_no_look() -> None:
    text = "rules: [{id: r, when: \"event.status == 'x'\", do: [{frontend_status: '=string(now)'}]}]"
    (rule,) = read_rules({"r.yaml": text}).rules.rules
    assert clocked(rule) == Clocked()
    (rule,) = a_bench("{id: r, on_change: setup, do: [pause]}").rules.rules
    assert clocked(rule) == Clocked()


def test_three_quiet_days_cost_a_few_looks() -> None:
    body = "given: {event: {status: active}}\nsteps: [{at: 3d, expect: []}]"
    assert ran(a_bench(PAUSE), body).polls < 5
    late = "{id: r, when: \"event.start_date_time - now < duration('36h')\", do: [pause]}"
    body = """
given: {event: {start_date_time: "2026-01-04T12:00:01Z", client_campaign_status: RUNNING}}
steps:
  - {at: 36h, expect: []}
  - {at: 36h3s, expect: [{rule: r, action: pause}]}
  - {at: 3d, expect: []}
"""
    assert passes(a_bench(late), body).polls < 10
    nightly = "{id: r, when: now.getHours() == 3, cooldown: 1h, do: [pause]}"
    body = "given: {event: {id: e1}}\nsteps: [{at: 15h, expect: [{rule: r, action: pause}]}, {at: 3d, EXPECT}]"
    more = (
        "set: {event: {client_campaign_status: RUNNING}}, expect: [{rule: r, action: pause}, {rule: r, action: pause}]"
    )
    assert passes(a_bench(nightly), body.replace("EXPECT", more)).polls < 150
    elsewhere = PAUSE.replace("event.status == 'cancelled'", "now.getHours('Asia/Kathmandu') == 3")
    body = """
given: {now: 2026-01-01T12:00:00Z, event: {id: e1, client_campaign_status: RUNNING}}
steps: [{at: 9h14m57s, expect: []}, {at: 9h15m, expect: [{rule: pause, action: pause}]}, {at: 1d, expect: []}]
"""
    assert passes(a_bench(elsewhere), body).polls < 150, "quarters of an hour, where every look took a minute"


def test_a_time_that_waits_for_facts_is_over_in_an_hour_and_the_looks_until_then_are_jumped_over() -> None:
    rule = """{id: r, at: "0 20 * * *", when: "delta(adplatform_insights.spend, '24h') > 1.0", do: [pause]}"""
    body = """
given: {now: 2026-01-01T19:00:00Z, event: {client_campaign_status: RUNNING}, adplatform_insights: {spend: 1}}
steps:
  - {at: 90m, expect: [], held: [{rule: r, reason: fact_unknown}]}
  - {at: 24h30m, set: {adplatform_insights: {spend: 3}}, expect: []}
  - {at: 25h10m, expect: [{rule: r, action: pause}]}
"""
    assert passes(a_bench(rule), body).polls < 30, "it took 1,200 looks more"
    bench = a_bench(rule, interval=timedelta(minutes=5))
    few, every = ran(bench, body), at_every_look(bench, body)
    told = [(one.at, one.claim, one.happened) for one in few.failures]
    assert told == [(one.at, one.claim, one.happened) for one in every.failures] == []


def test_what_a_wait_does_not_keep_is_forgotten_before_quiet_hours_are_jumped_over() -> None:
    rests = "{id: rests, at: '0 12 * * *', when: statistics.tickets < 9.0, do: [pause, {wait: 9h}, run]}"
    when = "event.city == 'Ulm' && ago(statistics.tickets, '3h') == 5.0"
    later = f"{{id: later, when: \"{when}\", for: 30m, do: [{{optimisation: 'OFF'}}]}}"
    body = """
given: {now: 2026-03-01T11:00:00Z, event: {client_campaign_status: RUNNING, city: Bonn}, statistics: {tickets: 5}}
steps:
  - {at: 3h, set: {event: {city: Ulm}}, expect: [{rule: rests, action: pause}]}
  - {at: 4h40m, expect: []}
  - {at: 6h4m, expect: [{rule: later, action: optimisation}]}
"""
    bench = a_bench(rests, later, interval=timedelta(minutes=2))
    assert passes(bench, body).polls < 20, "nobody read tickets from a little after noon until the third hour"
    assert not at_every_look(bench, body).failures


def test_what_a_fact_of_the_partner_asks_for_is_read_before_quiet_hours_are_jumped_over() -> None:
    rule = "{id: r, when: \"'boost' in features && statistics.tickets > 5.0\", do: [pause]}"
    body = """
given: {event: {client_campaign_status: RUNNING}, statistics: {tickets: 9}, features: []}
steps:
  - {at: 10m, set: {features: [boost]}}
  - {at: 10m6s, expect: [{rule: r, action: pause}]}
  - {at: 5h, expect: []}
"""
    assert passes(a_bench(rule), body).polls < 10
    assert not at_every_look(a_bench(rule, interval=timedelta(minutes=2)), body.replace("6s", "4m")).failures


def test_the_days_left_ask_for_a_range_by_another_key() -> None:
    rule = "{id: r, on_change: budget_range, when: \"event.status == 'x'\", do: [pause]}"
    body = """
given: {event: {status: x, start_date_time: "2026-01-03T12:04:00Z"}, budget_range: {lower_limit: 1, upper_limit: 2}}
steps:
  - {at: 10m, set: {budget_range: {upper_limit: 3}}, expect: [{rule: r, action: pause}]}
"""
    assert passes(a_bench(rule), body).polls < 10
    assert not at_every_look(a_bench(rule), body).failures


def test_a_write_for_a_person_and_one_that_waits_are_jumped_over() -> None:
    body = """
given: {event: {status: cancelled, client_campaign_status: RUNNING}}
answers: [{action: pause, answer: 429}]
steps:
  - {at: 3d, states: [{action: pause, state: STATE}]}
"""
    ask = "{id: r, when: \"event.status == 'cancelled'\", do: [pause], on_unknown: ask}"
    assert passes(a_bench(ask), body.replace("STATE", "needs_human")).polls < 70
    approve = "{id: r, when: \"event.status == 'cancelled'\", do: [pause], mode: approve}"
    assert passes(a_bench(approve), body.replace("STATE", "waiting")).polls < 5
    unreadable = body.replace("steps:", "steps:\n  - {at: 0s}\n  - {at: 3s, unknown: [event]}")
    assert passes(a_bench(ask), unreadable.replace("STATE", "needs_human")).polls < 5


def test_a_write_that_a_limit_holds_is_tried_as_often_as_in_the_daemon() -> None:
    bench = a_bench(PAUSE.replace("pause", "run"), limits=Limits(writes_per_hour=0, held_longer_than=timedelta(days=9)))
    body = """
given: {event: {status: cancelled, client_campaign_status: PAUSED}}
steps:
  - {at: 1h, held: [{rule: run, reason: writes_per_hour}], sent: 0}
"""
    assert passes(bench, body).polls < 80, "once a minute"


RUNS = "event.client_campaign_status == 'RUNNING'"


@pytest.mark.parametrize(
    "rule",
    [
        f'when: "{RUNS} && now.getMinutes() < 30", do: [pause, {{wait: 45m}}, {{optimisation: "OFF"}}]',
        f'when: "{RUNS} && now.getMinutes() < 50", do: [pause, {{wait: 45m}}, {{optimisation: "OFF"}}]',
        f'when: "{RUNS} || now.getMinutes() > 40", do: [pause, {{wait: 45m}}, run, {{notify: it runs}}]',
        'when: "now.getMinutes() < 40", do: [pause, {optimisation: "OFF"}], mode: approve',
        "when: \"event.status == 'x'\", do: [boost, {notify: it is out}], spend: {per_day: 5}",
    ],
)
def test_quiet_times_are_jumped_over_while_a_firing_runs_by_what_it_is_judged_by(rule: str) -> None:
    """Two days of a `wait` were 57,600 looks, where the condition names the time."""
    states = "".join(f"  - {{at: {at}, expect: [], states: []}}\n" for at in ("29m", "31m", "46m", "52m"))
    body = f"""
given:
  event: {{status: x, client_campaign_status: RUNNING, campaign_optimisation_status: "ON"}}
  setup: {{state: DRAFT, total_budget: 50}}
steps:
{states}"""
    bench = a_bench(f"{{id: r, {rule}}}", interval=timedelta(seconds=6))
    few, every = ran(bench, body), at_every_look(bench, body)
    told = [(one.at, one.claim, one.happened) for one in few.failures]
    assert told == [(one.at, one.claim, one.happened) for one in every.failures] != []
    assert few.polls * 5 < every.polls


def test_a_fault_of_the_worker_ends_the_test_also_where_no_write_is_open() -> None:
    with patch.object(Expression, "judge", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        ran(a_bench(PAUSE), "steps: [{at: 0s, expect: []}]")


def _steps() -> st.SearchStrategy[list[tuple[int, str]]]:
    change = st.sampled_from(
        (
            "set: {event: {status: x}}",
            "set: {event: {status: y}}",
            "set: {event: {client_campaign_status: RUNNING}}",
            "set: {event: {client_campaign_status: null}}",
            "set: {suggested_tcs: [{tc: a}]}",
            "set: {suggested_tcs: [{tc: b}]}",
            "unknown: [event]",
            "answers: [{action: pause, answer: 429, effect: late 50s}]",
            "answers: [{action: pause, answer: 500}]",
            "sent: 999",
        )
    )
    return st.lists(st.tuples(st.integers(0, 240), change), min_size=1, max_size=6)


@settings(max_examples=25, deadline=None)
@given(
    conditions=st.lists(
        st.tuples(st.sampled_from(CLOCKS), st.sampled_from(KEYS), st.booleans(), st.sampled_from(MORE)),
        min_size=1,
        max_size=2,
    ),
    steps=_steps(),
)
@pytest.mark.timeout(300)
def test_every_look_and_the_few_give_the_same(
    conditions: list[tuple[str, str, bool, str]], steps: list[tuple[int, str]]
) -> None:
    rules = []
    for number, (condition, keys, changing, more) in enumerate(conditions):
        do = f"{('pause', 'run')[number]}{'' if 'enforce' in keys else more}"
        watched = "on_change: {fact: suggested_tcs, by: [tc]}, " if changing and "enforce" not in keys else ""
        rules.append(f'{{id: r{number}, {watched}when: "{condition}", {keys}do: [{do}]}}')
    at, lines = 0, []
    for wait, change in steps:
        at += wait
        claims = "expect: [{rule: r0, action: boost}], held: [{rule: r0, reason: reset}]"
        claims += ", states: [{action: boost, state: unknown}]"
        lines.append(f"  - {{at: {at}s, {change}, {claims}}}")
    body = """
given:
  event: {status: x, client_campaign_status: RUNNING, start_date_time: "2026-01-01T12:09:01Z"}
  suggested_tcs: [{tc: a}]
steps:
""" + "\n".join(lines)
    bench = a_bench(*rules)
    few, every = ran(bench, body), at_every_look(bench, body)
    assert few.polls <= every.polls
    told = [(one.at, one.claim, one.happened) for one in few.failures]
    assert told == [(one.at, one.claim, one.happened) for one in every.failures]


@pytest.mark.parametrize(
    ("later", "fires"),
    [
        ("when: \"ago(event.capacity, '1h') == 400.0\"", "1h10m"),
        ("after: pause, when: \"now - write.at > duration('2h')\"", "2h3s"),
    ],
)
def test_a_write_that_waits_hides_no_moment_of_what_looks_back(later: str, fires: str) -> None:
    waits = "{id: waits, when: \"event.category == 'x'\", mode: approve, do: [{ad_optimisation: 'OFF'}]}"
    bench = a_bench(PAUSE, waits, f"{{id: later, {later}, do: [{{optimisation: 'OFF'}}]}}")
    body = """
given: {event: {status: cancelled, category: x, capacity: 300}}
steps:
  - {at: 0s}
  - at: 10m
    set: {event: {capacity: 400}}
    states: [{action: ad_optimisation, state: waiting}, {action: pause, state: confirmed}]
  - {at: 1h9m57s, expect: []}
  - {at: 6h, expect: [{rule: later, action: optimisation}]}
"""
    assert passes(bench, body).polls < 60
    (line,) = [
        one for one in failing(bench, body.replace("expect: [{rule: later", "expect: [{rule: pause")) if "+" in one
    ]
    assert line.strip().endswith(f"at {fires}")
