"""A relative value is sent only against the value that it was computed from."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders import MISSING_GAP, NULL_GAP, a_fact, a_situation, a_write, event_fact, setup_fact, unreadable
from worker.guards import No, Situation, as_computed_from, other_half
from worker.model.facts import Fact, Json
from worker.model.writes import Write


def a_relative_write(
    action: str, params: Mapping[str, Json], computed_from: Json, item: str = "", *, approved: bool = False
) -> Write:
    write = a_write(action, params=params, item=item, approved=approved)
    return replace(write, intent=replace(write.intent, context={"computed_from": computed_from}))


def judged(write: Write, *earlier: Write, **facts: Fact) -> No | None:
    situation: Situation = a_situation(write, facts=facts)
    return as_computed_from(replace(situation, earlier=earlier))


MORE = a_relative_write("update_draft", {"total_budget": 120.0}, {"total_budget": 100})
HIDE = {"value": "HIDDEN"}
JAZZ: Mapping[str, Json] = {"tc": "jazz", "tc_run_id": 1}
CLUSTER = a_relative_write("edit_cluster", {**JAZZ, "budget": 24.0}, {"budget": 20})


@pytest.mark.parametrize(
    ("write", "facts", "expected"),
    [
        (MORE, {"setup": setup_fact(total_budget=100.0)}, None),
        (MORE, {"setup": setup_fact(total_budget=100.0, goal="VISIBILITY")}, None),
        (MORE, {"setup": setup_fact(total_budget=50.0)}, ("skip", "moved")),
        (MORE, {"setup": setup_fact("NONE")}, ("skip", "moved")),
        (MORE, {"setup": setup_fact(gaps={"total_budget": NULL_GAP})}, ("hold", "target_unreadable")),
        (MORE, {"setup": unreadable()}, ("hold", "target_unreadable")),
        (MORE, {"setup": a_fact("what is no record")}, ("hold", "target_unreadable")),
        (CLUSTER, {"campaigns": a_fact([{**JAZZ, "budget": 20}])}, None),
        (CLUSTER, {"campaigns": a_fact([{"tc": "soul", "tc_run_id": 1}, {**JAZZ, "budget": 21}])}, ("skip", "moved")),
        (CLUSTER, {"campaigns": a_fact([])}, ("skip", "moved")),
        (
            a_relative_write("frontend_status", HIDE, {"frontend_status": "DEFAULT"}, "event"),
            {"event": event_fact(frontend_status="FLAGGED")},
            ("skip", "moved"),
        ),
        (a_write("update_draft", params={"total_budget": 500.0}), {"setup": setup_fact(total_budget=1.0)}, None),
    ],
)
def test_what_has_moved_since_is_left_as_it_is(
    write: Write, facts: Mapping[str, Fact], expected: tuple[str, str] | None
) -> None:
    no = judged(write, **facts)
    assert (None if no is None else (no.way, no.reason)) == expected


def test_an_earlier_step_of_the_same_target_moves_it_for_the_later_ones() -> None:
    second = a_relative_write("frontend_status", HIDE, {"frontend_status": "DEFAULT"}, "cr")
    first = a_write("frontend_status", "confirmed", params=HIDE, item="event")
    assert judged(second, first, event=event_fact(frontend_status="HIDDEN")) is None
    no = judged(second, first, event=event_fact(frontend_status="DEFAULT"))
    assert no is not None, "somebody has set it back, which is no ground for the second half either"
    other = a_write("pause", "confirmed")
    assert judged(second, other, event=event_fact(frontend_status="HIDDEN")) is not None, "another target moves nothing"


def test_the_words_say_what_it_reads_what_it_was_and_that_somebody_had_approved_it() -> None:
    moved = setup_fact(total_budget=50.0)
    no = judged(MORE, setup=moved)
    assert no is not None
    assert no.why.endswith("total_budget reads 50.0, computed from 100")
    approved = judged(replace(MORE, approved=True), setup=moved)
    assert approved is not None
    assert approved.why.endswith("it had been approved as it was")


@pytest.mark.parametrize(
    ("item", "shown", "goes"), [("cr", "HIDDEN", True), ("cr", "CANCELLED", False), ("event", "FLAGGED", True)]
)
def test_the_half_that_no_read_shows_goes_only_with_what_the_other_has_set(item: str, shown: str, goes: bool) -> None:
    half = a_write("frontend_status", params=HIDE, item=item)
    assert (other_half(a_situation(half, facts={"event": event_fact(frontend_status=shown)})) is None) is goes


def test_a_field_that_the_answer_lacks_is_no_other_value() -> None:
    half = a_write("frontend_status", params=HIDE, item="cr")
    lacking = event_fact(gaps={"frontend_status": MISSING_GAP})
    no = other_half(a_situation(half, facts={"event": lacking}))
    assert no is not None
    assert (no.way, no.reason) == ("hold", "target_unreadable")
