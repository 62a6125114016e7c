"""What one read says of a write to a draft's fields, to one campaign among several, and to a series."""

from collections.abc import Mapping

import pytest

from tests.builders import MISSING_GAP, a_fact, a_write, event_fact, setup_fact, unreadable
from worker.model.facts import Fact, Json
from worker.model.records import Says
from worker.writes.evidence import already_so, fact_key, judge, target_value, there

DRAFT: Mapping[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0}
ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}
EDIT: Mapping[str, Json] = {**ROCK, "budget": 5}
NONE: Mapping[str, Json] = {"exists": False}


def campaigns(*items: Json) -> Fact:
    return a_fact(list(items))


def series(*members: Json) -> Fact:
    return event_fact(campaign_event_series=list(members))


@pytest.mark.parametrize(
    ("fact", "says", "third", "reason"),
    [
        (setup_fact(total_budget=750), "there", None, "the values sent"),
        (setup_fact(total_budget=750.0, name="x"), "there", None, "what was not sent is not compared"),
        (setup_fact("PUBLISHED", total_budget=750), "there", None, "the values sent, and published since"),
        (setup_fact(), "not_there", None, "as before"),
        (setup_fact(total_budget=600.0), "cannot_tell", "third_value", "somebody else's value"),
        (setup_fact("NONE"), "cannot_tell", "third_value", "the draft is gone"),
        (setup_fact(gaps={"total_budget": MISSING_GAP}), "cannot_tell", None, "the field cannot be read"),
        (unreadable(), "cannot_tell", None, "nothing can be read"),
    ],
)
def test_what_a_setup_says_of_update_draft(fact: Fact, says: Says, third: str | None, reason: str) -> None:
    evidence = judge(a_write("update_draft", "unknown", params={"total_budget": 750}, before=dict(DRAFT)), fact)
    assert (evidence.says, evidence.third) == (says, third), reason


def test_a_field_that_the_draft_never_shows_proves_nothing() -> None:
    write = a_write("update_draft", "unknown", params={"name": "x"}, before=dict(DRAFT))
    assert judge(write, setup_fact()).says == "cannot_tell", "as before, but the effect would not show either"
    assert judge(write, setup_fact(name="x")).says == "there"


def test_a_draft_that_somebody_else_created_otherwise_is_another_one() -> None:
    write = a_write("create_draft", "unknown", params={"name": "mine"}, before={"state": "NONE"})
    assert judge(write, setup_fact(name="theirs")).third == "other_value"
    assert judge(write, setup_fact()).says == "there", "what it does not show cannot tell it apart"


@pytest.mark.parametrize(
    ("fact", "says", "third", "reason"),
    [
        (campaigns({**ROCK, "budget": 5}), "there", None, "it has the values sent"),
        (campaigns({**ROCK, "budget": 5.0, "status": "ACTIVE"}), "there", None, "5 is 5.0, and more may be there"),
        (campaigns({"tc": "pop", "tc_run_id": 7, "budget": 5}), "not_there", None, "another cluster's"),
        (campaigns({"tc": "rock", "tc_run_id": 8, "budget": 5}), "not_there", None, "another run's"),
        (campaigns("odd"), "not_there", None, "what is no campaign is not it"),
        (campaigns(), "not_there", None, "no campaigns, as before"),
        (campaigns({**ROCK, "budget": 4}), "cannot_tell", "third_value", "there with another value"),
        (campaigns(dict(ROCK)), "cannot_tell", None, "there, and its budget is not shown"),
        (campaigns({**ROCK, "budget": 4}, {**ROCK, "budget": 5}), "there", None, "of two of one name, the one wanted"),
        (unreadable(), "cannot_tell", None, "nothing can be read"),
        (a_fact({"items": []}), "cannot_tell", None, "no list"),
    ],
)
def test_what_campaigns_say_of_edit_cluster(fact: Fact, says: Says, third: str | None, reason: str) -> None:
    evidence = judge(a_write("edit_cluster", "unknown", params=EDIT, before=dict(NONE)), fact)
    assert (evidence.says, evidence.third) == (says, third), reason


def test_a_campaign_that_reads_as_before_is_as_before_only_where_the_value_shows() -> None:
    shown = a_write("edit_cluster", "unknown", params=EDIT, before={"exists": True, "budget": 4})
    assert judge(shown, campaigns({**ROCK, "budget": 4})).says == "not_there"
    hidden = a_write("edit_cluster", "unknown", params=EDIT, before={"exists": True})
    assert judge(hidden, campaigns(dict(ROCK))).says == "cannot_tell"


@pytest.mark.parametrize(
    ("fact", "says", "so", "reason"),
    [
        (campaigns(dict(ROCK)), "there", True, "it exists"),
        (campaigns({**ROCK, "budget": 9}), "there", True, "it exists, whatever else it has"),
        (campaigns({"tc": "pop", "tc_run_id": 7}), "not_there", False, "another one"),
        (campaigns(), "not_there", False, "none"),
        (unreadable(), "cannot_tell", None, "nothing can be read"),
    ],
)
def test_what_campaigns_say_of_create_campaign(fact: Fact, says: Says, so: bool | None, reason: str) -> None:
    write = a_write("create_campaign", "unknown", params=ROCK, before=dict(NONE))
    assert judge(write, fact).says == says, reason
    assert already_so(write.intent, fact) is so, reason


@pytest.mark.parametrize(
    ("action", "before", "fact", "says", "third", "reason"),
    [
        ("series_add", [], series("e7", "e8", "e9"), "there", None, "all of them are in it"),
        ("series_add", [], series("e9"), "not_there", None, "none of them, as before; others do not matter"),
        ("series_add", [], series("e7"), "cannot_tell", "third_value", "one of them"),
        ("series_add", ["e7"], series("e7"), "not_there", None, "one of them, as before"),
        ("series_add", [], event_fact(), "cannot_tell", None, "the answer lacks the series"),
        ("series_add", [], event_fact(gaps={"campaign_event_series": "null"}), "cannot_tell", None, "null is no list"),
        ("series_remove", ["e7", "e8"], series("e9"), "there", None, "none of them is in it"),
        ("series_remove", ["e7", "e8"], series("e8", "e7", "e1"), "not_there", None, "both, as before"),
        ("series_remove", ["e7"], series("e7"), "not_there", None, "the one of them that was"),
        ("series_remove", ["e7", "e8"], series("e8"), "cannot_tell", "third_value", "one of them"),
        ("series_remove", ["e7", "e8"], unreadable(), "cannot_tell", None, "nothing can be read"),
    ],
)
def test_what_the_event_says_of_a_series(
    action: str, before: Json, fact: Fact, says: Says, third: str | None, reason: str
) -> None:
    write = a_write(action, "unknown", params={"value": ["e8", "e7"]}, before=before)
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, third), reason


@pytest.mark.parametrize(
    ("action", "params", "fact", "so", "reason"),
    [
        ("update_draft", {"total_budget": 500}, setup_fact(), True, "it has the value"),
        ("update_draft", {"total_budget": 500}, setup_fact("NONE"), False, "there is none"),
        ("update_draft", {"name": "x"}, setup_fact(), False, "it does not show the value"),
        ("edit_cluster", EDIT, campaigns({**ROCK, "budget": 5}), True, "it has the value"),
        ("edit_cluster", EDIT, campaigns({**ROCK, "budget": 4}), False, "it has another"),
        ("edit_cluster", ROCK, campaigns(dict(ROCK)), True, "nothing to change, and it is there"),
        ("edit_cluster", EDIT, campaigns(), False, "it is not there"),
        ("series_add", {"value": ["e7"]}, series("e7"), True, "it is in"),
        ("series_add", {"value": ["e7"]}, series(), False, "it is not"),
        ("series_remove", {"value": ["e7"]}, series(), True, "it is out"),
        ("series_remove", {"value": ["e7"]}, series("e7"), False, "it is not"),
    ],
)
def test_when_a_target_is_already_so(
    action: str, params: Mapping[str, Json], fact: Fact, so: bool, reason: str
) -> None:
    intent = a_write(action, params=params).intent
    assert already_so(intent, fact) is so, reason
    assert there(intent, fact) is so, reason


def test_a_setup_of_somebody_else_is_so_and_is_not_ours() -> None:
    intent = a_write("create_draft").intent
    assert already_so(intent, setup_fact(total_budget=900.0)) is True
    assert not there(intent, setup_fact(total_budget=900.0))
    assert there(intent, setup_fact())
    assert not there(intent, unreadable())


CALL: Mapping[str, Json] = {"method": "PUT", "path": "/x", "client_id": "7", "confirm": {"get": "/y", "when": "z"}}


def confirm(when: bool, response: Json, **more: Json) -> Fact:
    return a_fact({"when": when, "response": response, **more})


@pytest.mark.parametrize(
    ("fact", "says", "third", "reason"),
    [
        (confirm(True, {"n": 2}), "there", None, "the rule's condition is true"),
        (confirm(False, {"n": 1}), "not_there", None, "the answer is as before"),
        (confirm(False, {"n": 3}), "cannot_tell", "third_value", "the answer is another, and still not as wanted"),
        (unreadable("confirm.when could not be judged"), "cannot_tell", None, "nothing can be told"),
        (a_fact({"status": 200}), "cannot_tell", None, "nobody judged it"),
    ],
)
def test_what_a_rules_own_confirm_says(fact: Fact, says: Says, third: str | None, reason: str) -> None:
    write = a_write("write", "unknown", params=CALL, before={"when": False, "response": {"n": 1}})
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, third), reason
    assert already_so(write.intent, fact) is (None if says == "cannot_tell" and third is None else says == "there")


def test_what_confirm_reads_is_named_by_what_it_asks_and_how_it_judges() -> None:
    key = fact_key(a_write("write", params=CALL).intent)
    assert (key.name, key.params) == ("confirm", (("client_id", "7"), ("get", "/y"), ("when", "z")))


@pytest.mark.parametrize(
    ("action", "fact"),
    [
        ("update_draft", "setup"),
        ("edit_cluster", "campaigns"),
        ("create_campaign", "campaigns"),
        ("series_add", "event"),
        ("series_remove", "event"),
        ("reset_setup", "event"),
    ],
)
def test_each_action_is_shown_by_its_fact(action: str, fact: str) -> None:
    assert fact_key(a_write(action, params=EDIT).intent).name == fact


def test_what_is_kept_of_a_target_is_what_tells_it_apart() -> None:
    update = a_write("update_draft", params={"name": "x"}).intent
    assert target_value(update, setup_fact(name="y", other=1)) == (True, {**DRAFT, "name": "y"})
    edit = a_write("edit_cluster", params=EDIT).intent
    assert target_value(edit, campaigns({**ROCK, "budget": 4, "status": "ACTIVE"})) == (
        True,
        {"exists": True, "budget": 4},
    )
    assert target_value(a_write("series_add", params={"value": ["b", "a"]}).intent, series("c", "b", 1)) == (
        True,
        ["b"],
    )
