"""Rule tests: what becomes of writes that meet the answers of a test."""

from tests.builders import cases, spending
from tests.unit.engine.ruletest_bench import BOOST, PAUSE, a_bench, passes

CANCELLED = "given: {event: {id: e1, status: cancelled, client_campaign_status: RUNNING}}"
BOOSTS = "{id: r, when: \"event.status == 'x'\", do: [boost]}"
MAKE = (
    "{id: make, when: \"event.status == 'x' && setup.state == 'NONE'\", "
    "do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]}"
)


SAID = {
    "is": "states: [{{action: pause, state: {}}}]",
    "fires": "expect: [{{rule: pause, action: {}}}]",
    "held": "held: [{{rule: pause, reason: {}}}]",
    "sent": "sent: {}",
    "status": "set: {{event: {{status: {}}}}}",
    "campaigns": "set: {{event: {{client_campaign_status: {}}}}}",
    "unread": "unknown: [{}]",
    "approve": "approve: [{}]",
    "reject": "reject: [{}]",
}
"""What a step says of the pause and its event, by a word of its own."""


def steps(story: str) -> str:
    """The steps of a test: a moment each, and words with what they are about."""
    lines = []
    for step in story.split(", "):
        at, *words = step.split()
        pairs = zip(words[::2], words[1::2], strict=True)
        claims = [
            SAID[word].partition("[")[0] + "[]" if of == "nothing" else SAID[word].format(of) for word, of in pairs
        ]
        lines.append(f"{{{', '.join([f'at: {at}', *claims])}}}")
    return ", ".join(lines)


FOR_10S, ASKS = PAUSE.replace("do:", "for: 10s, do:"), PAUSE.replace("do:", "mode: approve, do:")
AT_ONE = PAUSE.replace("do:", 'at: "1 12 * * *", do:')
SEVEN_HOURS = "0s status active fires nothing, 5h {}, 7h status cancelled fires pause is {}"


@cases(
    "rule, story",
    (
        FOR_10S,
        "0s status active, 4s status cancelled held for, 14s fires nothing, 15s fires pause held nothing",
        "what is set off the grid for less than an interval is seen all the same",
    ),
    (FOR_10S, "2m fires pause held for", "what came to be held since the step before can be asked for"),
    (FOR_10S, "2m fires pause held nothing", "and so can that nothing is held now"),
    (ASKS, "0s held mode sent 0, 1h approve pause is confirmed sent 1, 2h fires nothing", "a step approves"),
    (ASKS, "0s held mode sent 0, 1h reject pause is cancelled sent 0, 2h fires nothing", "or rejects what waits"),
    (PAUSE, SEVEN_HOURS.format("unread event", "waiting"), "a long time without events is a gap"),
    (PAUSE, SEVEN_HOURS.format("sent 0", "confirmed"), "and quiet hours are none"),
    (
        AT_ONE,
        "30s unread event, 60s fires nothing held nothing, 10m status cancelled fires nothing held missed",
        "a missed time is seen",
    ),
)
def test_a_rule_decides_as_in_the_daemon(rule: str, story: str) -> None:
    assert passes(a_bench(rule), f"{CANCELLED}\nsteps: [{steps(story)}]").passed


@cases(
    "answers, story",
    (["429, effect: hidden"], "0s is unknown, 3s is confirmed, 1h sent 1", "presence is proof at the next look"),
    (["429, effect: late 40s"], "39s is unknown, 42s is confirmed, 1h sent 1", "late, and sent no second time"),
    (["503"], "117s sent 1, 120s sent 2 is confirmed", "sent again once it is proved absent, to no named answer"),
    (
        ["503", "timeout", "cut"],
        "1h sent 3 is needs_human, 2h campaigns PAUSED is confirmed",
        "each answer is for one attempt; the last one is still watched",
    ),
    (["503"] * 3, "10m sent 3, 1d status active is skipped", "proved absent and no longer wanted"),
    (["503"], "9s status active, 5m is skipped sent 1", "absent, and the condition is false"),
    (["503"], "9s unread event, 5m is unknown, 1h is needs_human sent 1", "what cannot be read is no evidence"),
    (["422"], "1h is rejected sent 1", "the service said no"),
    (["200, effect: none"], "1m is applied, 1h is unconfirmed sent 1", "accepted, and reads never show it"),
    (["202"], "0s is applied, 3s is confirmed", "accepted by name: read back at the next look"),
    (["crash, effect: hidden"], "0s is sending, 3s is unknown, 6s is confirmed sent 1", "found in sending, unknown"),
    (["no_connection"], "3s is planned held backoff sent 0, 6s is confirmed sent 1", "tried again after the back-off"),
    (["401", "403"], "3s held credentials sent 2, 6m is confirmed sent 3", "a second refusal in a row holds them"),
)
def test_a_write_lives_as_in_the_daemon(answers: list[str], story: str) -> None:
    named = ", ".join(f"{{action: pause, answer: {answer}}}" for answer in answers)
    assert passes(a_bench(PAUSE), f"{CANCELLED}\nanswers: [{named}]\nsteps: [{steps(story)}]").passed


@cases(
    "answer, story",
    ("no_connection", "1m fires pause held backoff, 62s status active, 3m is skipped", "it is not waited for"),
    ("429, effect: none", "1m fires pause is unknown, 10m is confirmed sent 2", "it is settled between its times"),
)
def test_what_a_time_asked_for_lives_so_too(answer: str, story: str) -> None:
    body = f"{CANCELLED}\nanswers: [{{action: pause, answer: {answer}}}]\nsteps: [{steps(story)}]"
    assert passes(a_bench(AT_ONE), body).passed


def test_a_refusal_of_what_no_read_shows_is_for_a_person() -> None:
    body = f"""
{CANCELLED}
answers: [{{action: reset_setup, answer: 403, effect: hidden}}]
steps: [{{at: 3s, states: [{{action: reset_setup, state: needs_human}}], sent: 1}}]
"""
    passes(a_bench(PAUSE.replace("do: [pause]", "do: [reset_setup]")), body)


def test_answers_of_a_step_are_for_what_it_fires_itself() -> None:
    body = """
given: {event: {status: active, client_campaign_status: RUNNING}}
steps:
  - at: 3s
    set: {event: {status: cancelled}}
    answers: [{action: pause, answer: 400}]
    states: [{action: pause, state: rejected}]
"""
    passes(a_bench(PAUSE), body)


def test_a_sequence_goes_on_when_the_step_before_is_confirmed() -> None:
    bench, given = a_bench(MAKE), "given: {event: {status: x}}\n"
    done = """
steps:
  - at: 0s
    expect: [{rule: make, action: create_draft, params: {total_budget: 500}}, {rule: make, action: boost}]
    states: [{action: create_draft, state: confirmed}, {action: boost, state: confirmed}]
  - {at: 10s, expect: []}
"""
    late = """
answers: [{action: create_draft, answer: 429, effect: late 20s}]
steps:
  - {at: 18s, held: [{rule: make, reason: sequence}], states: [{action: boost, state: planned}]}
  - {at: 21s, states: [{action: create_draft, state: confirmed}, {action: boost, state: confirmed}], sent: 2}
"""
    never = """
answers: [{action: create_draft, answer: 422}]
steps: [{at: 0s, states: [{action: create_draft, state: rejected}, {action: boost, state: skipped}]}]
"""
    for body in (done, late, never):
        passes(bench, given + body)


def test_an_absent_setup_proves_nothing_while_the_event_cannot_be_read() -> None:
    body = """
answers: [{action: create_draft, answer: 429}]
steps:
  - {at: 3s, unknown: [event]}
  - {at: 14m, states: [{action: create_draft, state: unknown}], sent: 1}
  - {at: 16m, states: [{action: create_draft, state: needs_human}], sent: 1}
"""
    passes(a_bench(MAKE.replace("event.status == 'x' && ", "").replace(", boost", "")), body)


@cases(
    "given, state",
    ("setup: {state: DRAFT}", "confirmed", "what the test does not give holds nothing back"),
    ("setup: {state: DRAFT}, budget_range: {lower_limit: 1, upper_limit: 2}", "confirmed", "a budget nobody gave"),
    ("setup: {state: DRAFT, total_budget: 9}, budget_range: {upper_limit: 10}", "confirmed", "half a range"),
    ("setup: {state: DRAFT, total_budget: 9}, budget_range: {upper_limit: 8}", "refused", "out of range"),
    ("setup: {state: DRAFT}, partner: {name: x}", "confirmed", "a partner without its flag"),
)
def test_guards_object_to_what_the_test_says_and_not_to_what_it_leaves_open(given: str, state: str) -> None:
    body = f"""
given: {{{given}, suggested_tcs: [{{tc: a, tc_run_id: 1}}]}}
steps:
  - at: 3s
    set: {{suggested_tcs: [{{tc: b, tc_run_id: 1}}]}}
    states: [{{action: boost, state: {state}}}]
"""
    assert passes(a_bench(BOOST), body).passed


def test_a_fact_that_the_test_makes_unreadable_holds_the_write() -> None:
    body = """
given: {event: {status: x}, setup: {state: DRAFT}}
steps:
  - {at: 0s, unknown: [setup], held: [{rule: r, reason: target_unreadable}], states: [{action: boost, state: planned}]}
  - {at: 9s, set: {setup: {total_budget: 3}}, states: [{action: boost, state: confirmed}]}
"""
    passes(a_bench(BOOSTS), body)


def test_brakes_are_on() -> None:
    make = "{id: r, when: \"event.status == 'x'\", do: [{create_draft: {goal: ROAS, total_budget: 60}}]}"
    body = """
given: {event: [{id: a, status: x}, {id: b, status: x}]}
steps: [{at: 0s, sent: 1, held: [{rule: r, reason: spend}]}]
"""
    done = passes(a_bench(make, limits=spending(per_day=100.0)), body)
    assert done.held_back == {"r"}, "the test saw it hold back"


def test_a_change_that_moved_on_is_not_sent_as_it_was() -> None:
    rule = (
        "{id: r, on_change: {fact: suggested_tcs, by: [tc]}, for: 1m, "
        "when: \"setup.state == 'DRAFT' && size(added) > 0\", do: [boost]}"
    )
    body = """
given: {setup: {state: DRAFT}, suggested_tcs: [{tc: a}]}
steps:
  - {at: 3s, set: {suggested_tcs: [{tc: a}, {tc: b}]}, held: [{rule: r, reason: for}]}
  - {at: 60s, unknown: [partner]}
  - {at: 63s, expect: [{rule: r, action: boost}], held: [{rule: r, reason: fact_unknown}]}
  - {at: 70s, set: {suggested_tcs: [{tc: a}, {tc: b}, {tc: c}], partner: {campaign_recommendations: true}}, sent: 0}
  - {at: 71s, held: [{rule: r, reason: no_longer_holds}]}
  - {at: 3m, expect: [{rule: r, action: boost}], sent: 1, states: [{action: boost, state: confirmed}]}
"""
    passes(a_bench(rule), body)
    body = """
given: {setup: {state: DRAFT}, suggested_tcs: [{tc: a}]}
steps:
  - {at: 3s, set: {suggested_tcs: [{tc: a}, {tc: b}]}, unknown: [partner]}
  - {at: 63s, expect: [{rule: r, action: boost}], sent: 0}
  - {at: 2m, set: {partner: {campaign_recommendations: true}}, sent: 1}
"""
    passes(a_bench(rule), body)
