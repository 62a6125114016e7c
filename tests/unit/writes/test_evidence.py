"""What one read says of each action's write: there, not there, or cannot tell."""

from collections.abc import Mapping

import pytest

from tests.builders import MISSING_GAP, NULL_GAP, a_fact, a_write, cases, event_fact, setup_fact, unreadable
from worker.model.commits import Says
from worker.model.facts import Fact, Json
from worker.writes.evidence import judge


def test_a_field_that_reads_as_neither_is_for_a_person() -> None:
    evidence = judge(a_write("pause", "unknown", before="RUNNING"), event_fact({"client_campaign_status": "FLAGGED"}))
    assert (evidence.says, evidence.value, evidence.third) == ("cannot_tell", "FLAGGED", "third_value")
    assert "'RUNNING'" in evidence.why


# --- the setup -----------------------------------------------------------------------------------------------------

NO_SETUP: Mapping[str, Json] = {"state": "NONE"}
DRAFT: Mapping[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0}


@cases(
    "fact, says, third",
    (setup_fact("NONE"), "not_there", None, "no setup, as before"),
    (setup_fact("DRAFT"), "there", None, "a setup with the values sent"),
    (setup_fact("DRAFT", total_budget=500), "there", None, "500 is 500.0"),
    (setup_fact("PUBLISHED"), "there", None, "the values sent, and published since"),
    (setup_fact("DRAFT", name="My draft"), "there", None, "what was not sent is not compared"),
    (setup_fact("DRAFT", goal="VISIBILITY"), "cannot_tell", "other_value", "another setup: a person"),
    (setup_fact("DRAFT", total_budget=501.0), "cannot_tell", "other_value", "another setup: a person"),
    (setup_fact("DRAFT", gaps={"goal": MISSING_GAP}), "cannot_tell", None, "whether it is ours is not known"),
    (
        setup_fact("DRAFT", gaps={"goal": MISSING_GAP, "total_budget": NULL_GAP}),
        "cannot_tell",
        None,
        "whether it is ours is not known",
    ),
    (
        setup_fact("DRAFT", gaps={"goal": MISSING_GAP}, total_budget=900.0),
        "cannot_tell",
        "other_value",
        "one value that was not sent is enough: another setup",
    ),
    (setup_fact(gaps={"state": MISSING_GAP}), "cannot_tell", None, "a setup in no known state"),
    (unreadable(), "cannot_tell", None, "it could not be read"),
    (a_fact("a text"), "cannot_tell", None, "no record at all"),
)
def test_what_a_setup_says_of_create_draft(fact: Fact, says: Says, third: str | None) -> None:
    write = a_write("create_draft", "unknown", params={"goal": "ROAS", "total_budget": 500.0}, before=dict(NO_SETUP))
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, third)
    assert evidence.why


def test_a_draft_that_was_read_in_part_before_is_as_before_only_in_the_same_part() -> None:
    write = a_write("boost", "unknown", before={"state": "DRAFT", "goal": "ROAS"})
    same = judge(write, setup_fact("DRAFT", gaps={"total_budget": MISSING_GAP}))
    assert same.says == "not_there", "exactly as before"
    more = judge(write, setup_fact("DRAFT"))
    assert (more.says, more.third) == ("cannot_tell", None), "whether its budget was the same is not known"


# --- in general ----------------------------------------------------------------------------------------------------


def test_without_a_before_nothing_is_proved_absent() -> None:
    write = a_write("pause", "unknown", before=None, before_known=False)
    assert judge(write, event_fact()).says == "cannot_tell"
    assert judge(write, event_fact(gaps={"client_campaign_status": NULL_GAP})).says == "cannot_tell"
    assert judge(a_write("boost", "unknown", before=None, before_known=False), setup_fact()).says == "cannot_tell"


@pytest.mark.parametrize(
    ("body", "response", "says"),
    [
        ({"price": 500.4}, {"data": {"price": 500}}, "cannot_tell"),
        ({"prices": [{"price": 500.4}]}, {"data": [{"price": 500}]}, "cannot_tell"),
        ({"price": 700}, {"data": {"price": 500}}, "not_there"),
        ({"price": 500}, {"data": {"price": 500}}, "not_there"),
        ({"price": 500.4}, "sha256:0", "cannot_tell"),
        (None, "sha256:0", "not_there"),
    ],
    ids=[
        "deep in a record",
        "in a list",
        "far from it",
        "the same as before, and the condition says it is not there",
        "in an answer too long to be kept",
        "of nothing that was to be set",
    ],
)
def test_what_a_confirm_reads_may_be_rounded_wherever_it_stands(body: Json, response: Json, says: str) -> None:
    params: dict[str, Json] = {"method": "PUT", "path": "/x", "body": body, "confirm": {"get": "/x", "when": "false"}}
    read: Json = {"when": False, "response": response}
    write = a_write("write", "unknown", params=params, before=read)
    assert judge(write, a_fact(read)).says == says
