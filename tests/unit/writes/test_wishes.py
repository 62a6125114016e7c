"""Which wishes of the later actions go together, and which cannot both be had."""

from collections.abc import Mapping

from tests.builders import cases
from worker.model.facts import Json
from worker.writes.evidence import wish_of

PUT: Mapping[str, Json] = {"method": "PUT", "path": "/y"}
POST: Mapping[str, Json] = {"method": "POST", "path": "/y"}
ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}
ROCK_8: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 8}


@cases(
    "one, other, opposite",
    (("update_draft", {"goal": "ROAS"}), ("update_draft", {"total_budget": 5}), False, "two fields"),
    (("update_draft", {"goal": "ROAS"}), ("update_draft", {"goal": "VISIBILITY"}), True, "two goals"),
    (("update_draft", {"total_budget": 5}), ("create_draft", {"total_budget": 6}), True, "a draft has one budget"),
    (("update_draft", {"total_budget": 5}), ("boost", {}), False, "a draft is changed in order to be published"),
    (("reset_setup", {}), ("boost", {}), True, "what is reset is not published"),
    (("reset_setup", {}), ("create_draft", {"total_budget": 6}), True, "nor is it a draft"),
    (("reset_setup", {}), ("reset_setup", {}), False, "equal"),
    (("reset_setup", {}), ("pause", {}), False, "another target"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK, "budget": 6}), True, "two budgets"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK, "bid": 6}), False, "two fields"),
    (("edit_cluster", {**ROCK, "budget": 5}), ("edit_cluster", {**ROCK_8, "budget": 6}), False, "two campaigns"),
    (("create_campaign", ROCK), ("edit_cluster", {**ROCK, "budget": 6}), False, "both want it to be there"),
    (("series_add", {"value": ["a"]}), ("series_remove", {"value": ["a", "b"]}), True, "in and out"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "body": {"x": 2}}), True, "one thing, two values"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "body": {"x": 1.0}}), False, "equal"),
    (("write", {**PUT, "body": {"x": 1}}), ("write", {**PUT, "path": "/z", "body": {"x": 2}}), False, "two things"),
    (("write", {**POST, "body": {"x": 1}}), ("write", {**POST, "body": {"x": 2}}), False, "each adds its own"),
    (("notify", {"value": "x"}), ("notify", {"value": "y"}), False, "messages go with everything"),
    (("series_add", {"value": ["a"]}), ("series_remove", {"value": ["b"]}), False, "two events"),
    (("pause", {}), ("run", {}), True, "two values of one field"),
    (("pause", {}), ("optimisation", {"value": "ON"}), False, "two fields"),
    (("update_draft", {"tcs": [{"a": 1.0}, 2]}), ("update_draft", {"tcs": [{"a": 1}, 2.0]}), False, "equal inside"),
    (("update_draft", {"flag": True}), ("update_draft", {"flag": 1}), True, "a boolean is no number"),
    (("series_add", {"value": ["a", "b"]}), ("series_add", {"value": ["b", "c"]}), False, "both in"),
)
def test_which_wishes_are_opposite(
    one: tuple[str, Mapping[str, Json]], other: tuple[str, Mapping[str, Json]], opposite: bool
) -> None:
    first, second = wish_of(*one), wish_of(*other)
    assert first.opposes(second) is opposite
    assert second.opposes(first) is opposite


def test_a_cluster_named_like_a_placeholder_is_only_a_name() -> None:
    odd = wish_of("edit_cluster", {"tc": "{tc_run_id}", "tc_run_id": 7})
    assert odd.target == "campaign:{tc_run_id}:7"
    assert wish_of("edit_cluster", {"tc": "rock"}).target == "campaign:rock:{tc_run_id}"
