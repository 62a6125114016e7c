"""Stories are read without surprises, refused with file and line, and told at their times."""

from pathlib import Path

import pytest

from tests.builders import cases
from tests.unit.sandbox.desk import Desk
from worker.sandbox.changes import EventChange, ResetChange, change_from, check_story, read_story, seconds
from worker.sandbox.settings import SandboxInputError, TwinSettings
from worker.sandbox.start import FIRST_DAY, FIRST_PARTNER, SECOND_PARTNER, built, demo_story, demo_world

STORY = """\
settings: {token_lifetime_s: 90}
events: 12
story:
  - at: 12s
    event: e3
    set: {status: cancelled, campaign_optimisation_status: OFF, start_date_time: 2031-06-01T20:00:00Z}
  - at: 500ms
    event: e1
    partner: partner-id-harbour-hall
    suggested_tcs: [{tc: "a/b", tc_run_id: 7}]
  - at: 20
    person: {event: e4, set: {client_campaign_status: RUNNING}}
  - at: 1m
    fault: {kind: answer_after, match: {method: PUT}, params: {status: 429}}
  - at: 2m
    reset: true
  - at: 2m
    partner: partner-id-harbour-hall
    set: {campaign_recommendations: false}
    features: [one]
"""


def test_a_story_is_read_in_the_order_of_its_times() -> None:
    story = read_story(STORY)

    assert [step.at_s for step in story.steps] == [0.5, 12.0, 20.0, 60.0, 120.0, 120.0]
    assert (story.settings.token_lifetime_s, story.events) == (90, 12)
    cancelled, by_hand, reset = (story.steps[place].change for place in (1, 2, 4))
    assert isinstance(cancelled, EventChange)
    assert cancelled.set == {
        "status": "cancelled",
        "campaign_optimisation_status": "OFF",
        "start_date_time": "2031-06-01T20:00:00Z",
    }, "OFF is a word, and a timestamp is text"
    assert isinstance(by_hand, EventChange)
    assert (cancelled.by, by_hand.by) == ("world", "person")
    assert isinstance(reset, ResetChange)


def test_a_bare_list_is_a_story_too_and_so_is_nothing() -> None:
    assert len(read_story("- {at: 1s, reset: true}").steps) == 1
    assert read_story("").steps == ()


@cases(
    "text, message",
    ("- at: 1s\n  event: e1\n  sett: {}", r"s\.yaml:3: unknown key 'sett', did you mean 'set'"),
    ("- at: 1s\n  reset: true\n- at: soon\n  reset: true", r"s\.yaml:3: 'at' is a time like 12s .* not 'soon'"),
    ("- at: -1\n  reset: true", r"s\.yaml:1: 'at' is a time"),
    ("- reset: true", r"s\.yaml:1: a step is a map with `at`"),
    ("- at: 1s", r"s\.yaml:1: a change is a map with one of"),
    ("- at: 1s\n  reset: false", r"s\.yaml:2: reset cannot be False"),
    ("- at: 1s\n  reset: true\n  event: e1", r"s\.yaml:3: unknown key 'event'"),
    ("- at: 1s\n  fault:\n    kind: slwo", r"s\.yaml:3: fault\.kind cannot be 'slwo', did you mean 'slow'"),
    ("- at: 1s\n  settings: {task_fail: true}", r"s\.yaml:2: unknown key 'task_fail' in settings, did you mean"),
    ("- at: 1s\n  event: e1\n  clusters: [x]", r"s\.yaml:3: clusters\.0 cannot be 'x': expected a map"),
    ("- at: 1s\n  event: e1\n  by: ghost", r"by cannot be 'ghost'; known: person, world"),
    ("- at: 1s\n  person: {reset: true}", r"s\.yaml:2: unknown key 'reset' in person"),
    ("- at: 1s\n  event: e1\n  1: x", r"s\.yaml:\d: unknown key '1'"),
    ("story: 3", r"s\.yaml:1: story cannot be 3: expected a list"),
    ("stroy: []", r"s\.yaml:1: unknown key 'stroy', did you mean 'story'"),
    ("settings: {page_parameter: 3}", r"s\.yaml:1: settings\.page_parameter cannot be 3: expected a valid string"),
    ("just text", r"s\.yaml:1: a story is a list"),
    ("- {at: 1s, event: e1, set: &a {x: *a}}", r"s\.yaml:1: this cannot be read: Circular"),
    ("- {at: 1s, event: e1, set: {[1, 2]: x}}", r"s\.yaml:1: "),
    ("- at: 1s\n  event: {", r"s\.yaml:\d: "),
)
def test_a_story_that_cannot_be_read_says_where_and_what(text: str, message: str) -> None:
    with pytest.raises(SandboxInputError, match=message):
        read_story(text, "s.yaml")


@cases(
    "text, message",
    ("- at: 1s\n  event: e99\n  set: {status: x}", "s.yaml:1: no partner has an event 'e99'"),
    ("- at: 1s\n  event: e1\n  set: {status: x}", "several partners have an event 'e1': name the partner"),
    ("- at: 1s\n  event: e1\n  partner: partner-id-aurora-liv", "did you mean 'partner-id-aurora-live'"),
    ("- at: 1s\n  partner: nobody\n  set: {status: x}", "unknown partner 'nobody'"),
    ("- {at: 1s, event: e3, set: {staus: cancelled}}", "s.yaml:1: unknown field 'staus', did you mean 'status'"),
    (
        f"- {{at: 1s, partner: {FIRST_PARTNER}, set: {{campaign_recommendation: false}}}}",
        "s.yaml:1: unknown field 'campaign_recommendation', did you mean 'campaign_recommendations'",
    ),
)
def test_a_story_about_nobody_is_refused_before_it_begins(text: str, message: str) -> None:
    with pytest.raises(SandboxInputError, match=message):
        check_story(read_story(text, "s.yaml"), demo_world())


def test_a_story_may_set_fields_that_the_document_does_not_name() -> None:
    told = read_story("- {at: 0, event: e3, set: {campaign_state: x, price_from: 40, predicted_sales_total: 3}}")
    check_story(told, demo_world())


@pytest.mark.parametrize(
    "later", [f"partner: {FIRST_PARTNER}", "set: {city: Ulm}"], ids=["of the partner", "by its id"]
)
def test_a_story_may_tell_of_events_that_it_brings_itself(later: str) -> None:
    text = f"- {{at: 0, event: x, partner: {FIRST_PARTNER}, add: true}}\n- {{at: 1, event: x, {later}}}"
    check_story(read_story(text), demo_world())


def test_steps_happen_at_their_time_counted_from_the_beginning() -> None:
    desk = Desk(story=read_story(STORY).steps)
    desk.passes(11.9)
    assert desk.read("/events/e3")["status"] == "active"
    desk.passes(0.1)
    assert desk.read("/events/e3")["status"] == "cancelled"
    desk.passes(48.0)
    assert desk.pause("e1") == 429
    assert desk.effects == [("set_client_campaign_status", "e1")]
    desk.passes(60.0)
    desk.partner = SECOND_PARTNER
    assert desk.read("/features") == ["one"]
    assert desk.read("/partners/")["campaign_recommendations"] is False


def test_a_step_about_an_event_that_is_gone_by_then_is_noted_and_the_show_goes_on() -> None:
    steps = read_story(
        "- {at: 1s, settings: {reset_result: empty}}\n- {at: 2s, reset: true}\n- {at: 3s, event: e3}"
    ).steps
    desk = Desk(story=steps)
    desk.passes(5.0)

    assert desk.read("/events/")["total"] == 0
    assert desk.service.untold == ["3s (line 3): no partner has an event 'e3'"]


@pytest.mark.parametrize(("text", "expected"), [("500ms", 0.5), ("12s", 12), ("2m", 120), ("1h", 3600), ("7d", 604800)])
def test_times_are_written_with_their_unit(text: str, expected: float) -> None:
    assert seconds(text) == expected


def test_the_built_in_story_fits_its_world_and_every_world() -> None:
    for events in (0, 1, 2, 5, 12, 40):
        world = demo_world(events)
        check_story(demo_story(world), world)
        assert sum(len(world.listing(partner)) for partner in world.tenants) == events


def test_the_built_in_story_is_over_within_a_minute_and_tells_of_four_lost_answers() -> None:
    story = demo_story(demo_world())
    kinds = [step.change.fault.kind for step in story.steps if hasattr(step.change, "fault")]

    assert max(step.at_s for step in story.steps) <= 60
    assert kinds == ["answer_after", "answer_before", "cut_after", "cut_before"]


def test_the_sandbox_command_names_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(SandboxInputError, match=r"nowhere\.yaml: cannot be read: No such file or directory$"):
        built(tmp_path / "nowhere.yaml", None, FIRST_DAY)


def test_a_setup_that_says_it_is_published_is() -> None:
    desk = Desk()
    desk.change("e2", setup={"goal": "ROAS", "total_budget": 9, "state": "PUBLISHED"})

    assert desk.read("/setup_processes/e2") == {"eid": "e2", "goal": "ROAS", "total_budget": 9, "state": "PUBLISHED"}


def test_a_change_of_an_event_that_is_not_there_changes_nothing() -> None:
    desk = Desk()
    with pytest.raises(SandboxInputError, match="cannot be read"):
        change_from({"event": "e1", "set": {"capacity": float("nan")}}, TwinSettings())
    change = change_from({"event": "e99", "partner": FIRST_PARTNER, "set": {"status": "x"}}, TwinSettings())
    with pytest.raises(SandboxInputError, match="has no event 'e99'"):
        desk.service.change(change, desk.now_s)

    assert desk.read("/events/")["total"] == 8


def test_a_story_says_how_events_perform() -> None:
    """What it does not say is worked out, and the sums of statistics are those of the sales."""
    told = read_story("""
      - at: 1s
        event: e1
        partner: partner-id-aurora-live
        insights: {spend: 240.0}
        results: [{tc: "late-night crowd", tc_run_id: "42", purchases: 4}, {tc: families/weekend, revenue: 9.5}]
        sales: [{date: "2031-04-01", tickets: 31, revenue: 1240.0}, {date: "2031-04-02", tickets: 4, revenue: 160.0}]
      - at: 5s
        event: e1
        partner: partner-id-aurora-live
        statistics: {tickets: 90}
    """)
    desk = Desk(story=told.steps)
    results = "/integrations/adplatform/events/e1/campaign_results"
    before = desk.read(results)
    desk.passes(1)

    insights = desk.read("/integrations/adplatform/events/e1/adplatform_insights")
    sold = desk.read("/events/e1/statistics")

    assert (insights["spend"], insights["clicks"]) == (240.0, 74)
    assert (sold["tickets"], sold["revenue"]) == (35.0, 1400.0)
    named = [(each["tc"], each["tc_run_id"]) for each in before["results"]]
    assert named == [("families/weekend", 42), ("студенты", 42)], "the campaigns of e1"
    assert [(each["purchases"], each["revenue"]) for each in desk.read(results)["results"]] == [(0, 9.5), (0, 0.0)]
    desk.passes(4)
    sold = desk.read("/events/e1/statistics")
    assert (sold["tickets"], sold["revenue"]) == (90, 1400.0)
