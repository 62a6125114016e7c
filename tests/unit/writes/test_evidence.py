"""What one read says of each action's write: there, not there, or cannot tell; and when two values are one."""

import re
from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders import MISSING_GAP, NULL_GAP, a_fact, a_write, cases, event_fact, setup_fact, unreadable
from worker.model.facts import Fact, Json, Known, Trace, Unknown
from worker.model.writes import UNDOES, Write
from worker.writes.evidence import alike, already_so, fact_key, judge, same, same_field, target_value, unclear

DRAFT: Mapping[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0}
ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}
POP: Mapping[str, Json] = {"tc": "pop", "tc_run_id": 7}
EDIT: Mapping[str, Json] = {**ROCK, "budget": 5}
CALL: Mapping[str, Json] = {"method": "PUT", "path": "/x", "client_id": "7", "confirm": {"get": "/y", "when": "z"}}
NO_GOAL = {"goal": MISSING_GAP}
NO_BUDGET = {"total_budget": MISSING_GAP}


def unknown(action: str, params: Mapping[str, Json] | None = None, *, before: Mapping[str, Json] | Json) -> Write:
    """An unknown write before which its target read like this."""
    return a_write(action, "unknown", params=params, before=dict(before) if isinstance(before, Mapping) else before)


def campaigns(*items: Mapping[str, Json] | Json) -> Known:
    return a_fact([dict(item) if isinstance(item, Mapping) else item for item in items])


def series(*members: Json) -> Fact:
    return event_fact(campaign_event_series=list(members))


def in_series(action: str, *before: Json) -> Write:
    """An unknown change of e7 and e8 in a series that had these members before."""
    return unknown(action, {"value": ["e8", "e7"]}, before=list(before))


def confirm(when: bool, response: Json, **more: Json) -> Fact:
    return a_fact({"when": when, "response": response, **more})


def told(write: Write, fact: Fact) -> str:
    """What the read says, or of what cannot be told the reason for a person."""
    evidence = judge(write, fact)
    assert evidence.third is None or evidence.says == "cannot_tell"
    assert evidence.why, "every verdict says why"
    return evidence.third or evidence.says


CREATE = unknown("create_draft", {"goal": "ROAS", "total_budget": 500.0}, before={"state": "NONE"})
NAMED = unknown("create_draft", {"name": "mine"}, before={"state": "NONE"})
UPDATE = unknown("update_draft", {"total_budget": 750}, before=DRAFT)
PUBLISH = unknown("boost", before={"state": "DRAFT", "goal": "ROAS"})
CHANGE = unknown("edit_cluster", EDIT, before={"exists": False})
CHANGE_SHOWN = unknown("edit_cluster", EDIT, before={"exists": True, "budget": 4})
CHANGE_HIDDEN = unknown("edit_cluster", EDIT, before={"exists": True})
HALF_IN, NONE_IN = in_series("series_add", "e7"), in_series("series_add")
HALF_OUT, NONE_OUT = in_series("series_remove", "e7"), in_series("series_remove", "e7", "e8")
BY_HAND = unknown("write", CALL, before={"when": False, "response": {"n": 1}})
BY_HAND_CUT = replace(BY_HAND, before={"when": False, "response": {"n": 1}, "full": True})
NO_BEFORE = a_write("pause", "unknown", before=None, before_known=False)


@cases(
    "write, fact, expected",
    (CREATE, setup_fact("NONE"), "not_there", "create_draft: no setup, as before"),
    (CREATE, setup_fact(), "there", "create_draft: a setup with the values sent"),
    (CREATE, setup_fact(total_budget=500), "there", "create_draft: 500 is 500.0"),
    (CREATE, setup_fact("PUBLISHED"), "there", "create_draft: the values sent, and published since"),
    (CREATE, setup_fact(name="My draft"), "there", "create_draft: what was not sent is not compared"),
    (CREATE, setup_fact(goal="VISIBILITY"), "other_value", "create_draft: another goal: a person"),
    (CREATE, setup_fact(total_budget=501.0), "other_value", "create_draft: another budget: a person"),
    (CREATE, setup_fact(gaps=NO_GOAL), "cannot_tell", "create_draft: whether it is ours is not known"),
    (CREATE, setup_fact(gaps={**NO_GOAL, "total_budget": NULL_GAP}), "cannot_tell", "create_draft: nothing shows it"),
    (CREATE, setup_fact(gaps=NO_GOAL, total_budget=900.0), "other_value", "create_draft: one other value is enough"),
    (CREATE, setup_fact(gaps={"state": MISSING_GAP}), "cannot_tell", "create_draft: a setup in no known state"),
    (CREATE, unreadable(), "cannot_tell", "create_draft: it could not be read"),
    (CREATE, a_fact("a text"), "cannot_tell", "create_draft: no record at all"),
    (NAMED, setup_fact(name="theirs"), "other_value", "create_draft: somebody else's"),
    (NAMED, setup_fact(), "there", "create_draft: what it does not show cannot tell it apart"),
    (UPDATE, setup_fact(total_budget=750), "there", "update_draft: the values sent"),
    (UPDATE, setup_fact(total_budget=750.0, name="x"), "there", "update_draft: what was not sent is not compared"),
    (UPDATE, setup_fact("PUBLISHED", total_budget=750), "there", "update_draft: and published since"),
    (UPDATE, setup_fact(), "not_there", "update_draft: as before"),
    (UPDATE, setup_fact(total_budget=600.0), "third_value", "update_draft: somebody else's value"),
    (UPDATE, setup_fact("NONE"), "third_value", "update_draft: the draft is gone"),
    (UPDATE, setup_fact(gaps=NO_BUDGET), "cannot_tell", "update_draft: the field cannot be read"),
    (UPDATE, unreadable(), "cannot_tell", "update_draft: nothing can be read"),
    (PUBLISH, setup_fact(gaps=NO_BUDGET), "not_there", "boost: read in the same part as before"),
    (PUBLISH, setup_fact(), "cannot_tell", "boost: whether its budget was the same is not known"),
    (CHANGE, campaigns(EDIT), "there", "edit_cluster: it has the values sent"),
    (CHANGE, campaigns({**ROCK, "budget": 5.0, "status": "ACTIVE"}), "there", "edit_cluster: more may be there"),
    (CHANGE, campaigns({**EDIT, "tc": "pop"}), "not_there", "edit_cluster: another cluster's"),
    (CHANGE, campaigns({**EDIT, "tc_run_id": 8}), "cannot_tell", "edit_cluster: another run's: it may be it"),
    (CHANGE, campaigns({**EDIT, "tc": "ROCK "}), "cannot_tell", "edit_cluster: spelled otherwise"),
    (CHANGE, campaigns({**EDIT, "tc": " rock"}), "there", "edit_cluster: blanks around a name do not count"),
    (CHANGE, campaigns("odd"), "not_there", "edit_cluster: what is no campaign is not it"),
    (CHANGE, campaigns(), "not_there", "edit_cluster: no campaigns, as before"),
    (CHANGE, campaigns({**ROCK, "budget": 4}), "third_value", "edit_cluster: there with another value"),
    (CHANGE, campaigns(ROCK), "cannot_tell", "edit_cluster: there, and its budget is not shown"),
    (CHANGE, campaigns({**ROCK, "budget": 4}, EDIT), "there", "edit_cluster: of two of one name, the one wanted"),
    (CHANGE, unreadable(), "cannot_tell", "edit_cluster: nothing can be read"),
    (CHANGE, a_fact({"items": []}), "cannot_tell", "edit_cluster: no list"),
    (CHANGE_SHOWN, campaigns({**ROCK, "budget": 4}), "not_there", "edit_cluster: with the value as before"),
    (CHANGE_HIDDEN, campaigns(ROCK), "cannot_tell", "edit_cluster: whether it has the value as before is not shown"),
    (NONE_IN, series("e7", "e8", "e9"), "there", "series_add: all of them are in it"),
    (NONE_IN, series("e9"), "not_there", "series_add: none of them, as before; others do not matter"),
    (NONE_IN, series("e7"), "third_value", "series_add: one of them"),
    (HALF_IN, series("e7"), "not_there", "series_add: one of them, as before"),
    (NONE_IN, event_fact(), "cannot_tell", "series_add: the answer lacks the series"),
    (NONE_IN, event_fact(gaps={"campaign_event_series": "null"}), "cannot_tell", "series_add: null is no list"),
    (NONE_IN, series("e7 ", " e8"), "there", "series_add: blanks around an id do not count"),
    (NONE_IN, series("E7", "e8"), "cannot_tell", "series_add: whether E7 is e7 is not known"),
    (NONE_OUT, series("e9"), "there", "series_remove: none of them is in it"),
    (NONE_OUT, series("e8", "e7", "e1"), "not_there", "series_remove: both, as before"),
    (HALF_OUT, series("e7"), "not_there", "series_remove: the one of them that was"),
    (NONE_OUT, series("e8"), "third_value", "series_remove: one of them"),
    (NONE_OUT, unreadable(), "cannot_tell", "series_remove: nothing can be read"),
    (NONE_OUT, series("E7"), "cannot_tell", "series_remove: whether E7 is e7 is not known"),
    (BY_HAND_CUT, confirm(False, {"n": 1}, full=True), "cannot_tell", "write: a list that may be cut off"),
    (BY_HAND_CUT, confirm(True, {"n": 1}, full=True), "there", "write: presence is proof also in such a list"),
    (NO_BEFORE, event_fact(), "third_value", "without a before nothing is proved absent"),
    (NO_BEFORE, event_fact(gaps={"client_campaign_status": NULL_GAP}), "third_value", "nor by null"),
    (replace(PUBLISH, before=None, before_known=False), setup_fact(), "third_value", "nor of a setup"),
)
def test_what_a_read_says_of_a_write(write: Write, fact: Fact, expected: str) -> None:
    assert told(write, fact) == expected


def test_a_field_that_reads_as_neither_is_for_a_person() -> None:
    evidence = judge(a_write("pause", "unknown", before="RUNNING"), event_fact({"client_campaign_status": "FLAGGED"}))
    assert (evidence.says, evidence.value, evidence.third) == ("cannot_tell", "FLAGGED", "third_value")
    assert "'RUNNING'" in evidence.why


@cases(
    "fact, says, so",
    (campaigns(ROCK), "there", True, "it exists"),
    (campaigns({**ROCK, "budget": 9}), "there", True, "it exists, whatever else it has"),
    (campaigns({**ROCK, "tc_run_id": 6}), "cannot_tell", False, "of an older run"),
    (campaigns({**ROCK, "tc_run_id": 8}), "cannot_tell", None, "of a newer run: it may be this one"),
    (campaigns({**ROCK, "tc_run_id": None}), "cannot_tell", False, "of no run"),
    (campaigns({**ROCK, "tc": "R\uff2fCK"}), "cannot_tell", None, "in other letters: it may be this one"),
    (campaigns(POP), "not_there", False, "another one"),
    (campaigns(), "not_there", False, "none"),
    (unreadable(), "cannot_tell", None, "nothing can be read"),
)
def test_what_campaigns_say_of_create_campaign(fact: Fact, says: str, so: bool | None) -> None:
    _, before = target_value(a_write("create_campaign", params={**ROCK, "tc": "x"}).intent, fact)
    write = unknown("create_campaign", ROCK, before=before)
    assert judge(write, fact).says == says
    assert already_so(write.intent, fact) is so


@pytest.mark.parametrize("names", [[], ["pop", "folk"], ["folk"], ["pop", "pop"], ["pop"]], ids=str)
def test_a_list_that_has_gained_or_lost_a_campaign_is_a_third_value_for_one_that_was_to_be_created(
    names: list[str],
) -> None:
    write = unknown("create_campaign", ROCK, before={"exists": False, "others": ["pop:7"]})
    expected = "not_there" if names == ["pop"] else "other_value"
    assert told(write, campaigns(*({**POP, "tc": tc, "budget": 9} for tc in names))) == expected


def in_part(*items: Mapping[str, Json]) -> Fact:
    return Unknown(code="unreadable", why="the list is not whole", part=[dict(item) for item in items])


@pytest.mark.parametrize("action", ["create_campaign", "edit_cluster"])
def test_a_part_of_a_list_shows_what_is_there_and_never_what_is_not(action: str) -> None:
    write = unknown(action, EDIT, before={"exists": False})
    assert (told(write, in_part(EDIT)), already_so(write.intent, in_part(EDIT))) == ("there", True)
    evidence = judge(write, in_part(POP))
    assert (evidence.says, evidence.third, evidence.why) == ("cannot_tell", None, "the list is not whole")
    assert already_so(write.intent, in_part()) is None
    if action == "edit_cluster":
        assert told(write, in_part({**ROCK, "budget": 4})) == "cannot_tell", "another of that name may be on a page"


@pytest.mark.parametrize(
    ("action", "count", "so"),
    [("create_campaign", 20, None), ("create_campaign", 10, False), ("edit_cluster", 20, False)],
)
def test_a_list_as_long_as_a_page_proves_no_absence_and_a_long_one_holds_a_new_campaign_back(
    action: str, count: int, so: bool | None
) -> None:
    whole = replace(campaigns(*({**POP, "tc": f"cluster {n}"} for n in range(count))), trace=None)
    cut = replace(whole, trace=Trace(get="/", full=True))
    write = unknown(action, EDIT, before=target_value(a_write(action, params=EDIT).intent, cut)[1])
    assert told(write, cut) == "cannot_tell"
    assert f"{count} campaigns are as many as a page may hold" in judge(write, cut).why
    assert already_so(write.intent, cut) is so
    assert so is not None or "as many as a page may hold" in unclear(write.intent, cut)
    assert told(write, whole) == "not_there", "whole, by the word of who gave it"


@cases(
    "params, before, says",
    ({"total_budget": 500.4}, {"total_budget": 500.0}, "cannot_tell", "a rounded budget"),
    ({"total_budget": 499.01}, {"total_budget": 500}, "cannot_tell", "rounded up"),
    ({"total_budget": 501}, {"total_budget": 500}, "not_there", "one more"),
    ({"total_budget": 500.4, "goal": "VISIBILITY"}, {"total_budget": 500.0}, "cannot_tell", "with another field"),
    ({"total_budget": 500, "goal": "VISIBILITY"}, {"total_budget": 500.0}, "not_there", "another field"),
    ({"name": "Summer  Night"}, {"name": "summer night"}, "cannot_tell", "in other letters"),
    ({"name": "summer"}, {"name": "winter"}, "not_there", "another name"),
    ({"spend": "500.4"}, {"spend": 500}, "cannot_tell", "a text"),
    ({"paid": True}, {"paid": False}, "not_there", "a truth"),
    ({"bids": [1.2, 3]}, {"bids": [1, 3]}, "cannot_tell", "in a list"),
    ({"bids": [1, 3]}, {"bids": [1]}, "not_there", "a longer list"),
    ({"cap": {"day": 7.5}}, {"cap": {"day": 8}}, "cannot_tell", "in a record"),
    ({"cap": {"day": 7.5}}, {"cap": {"week": 8}}, "not_there", "another key"),
)
def test_what_could_be_shown_as_before(params: Mapping[str, Json], before: Mapping[str, Json], says: str) -> None:
    fact = a_fact({**DRAFT, **before})
    write = unknown("update_draft", params, before={**DRAFT, **before})
    assert told(write, fact) == says
    assert says == "not_there" or "could be shown as" in judge(write, fact).why
    assert already_so(write.intent, fact) is False, "and it is no evidence of presence either"


def test_an_undo_of_what_read_as_wanted_before_it_is_never_proved_by_reading_so_again() -> None:
    shown = {**DRAFT, "total_budget": 500}
    write = unknown("update_draft", {"total_budget": 500}, before=shown)
    assert told(write, a_fact(shown)) == "there", "no other write is sent to what reads as wanted"
    undo = replace(write, intent=replace(write.intent, context={**write.intent.context, UNDOES: [1]}))
    assert told(undo, a_fact(shown)) == "cannot_tell"
    assert re.fullmatch("the target read.*before it, too", judge(undo, a_fact(shown)).why)


def test_a_setup_of_somebody_else_is_so_and_is_not_ours() -> None:
    write = a_write("create_draft")
    assert already_so(write.intent, setup_fact(total_budget=900.0)) is True
    facts = setup_fact(total_budget=900.0), setup_fact(), unreadable()
    assert [judge(write, fact).says == "there" for fact in facts] == [False, True, False]


@cases(
    "fact, expected, so",
    (confirm(True, {"n": 2}), "there", True, "the rule's condition is true"),
    (confirm(False, {"n": 1}), "not_there", False, "the answer is as before"),
    (confirm(False, {"n": 3}), "third_value", False, "the answer is another, and still not as wanted"),
    (unreadable("confirm.when could not be judged"), "cannot_tell", None, "nothing can be told"),
    (a_fact({"status": 200}), "cannot_tell", None, "nobody judged it"),
)
def test_what_a_rules_own_confirm_says(fact: Fact, expected: str, so: bool | None) -> None:
    assert (told(BY_HAND, fact), already_so(BY_HAND.intent, fact)) == (expected, so)


@cases(
    "sent, response, says",
    ({"body": {"price": 500.4}}, {"data": {"price": 500}}, "cannot_tell", "deep in a record"),
    ({"body": {"prices": [{"price": 500.4}]}}, {"data": [{"price": 500}]}, "cannot_tell", "in a list"),
    ({"body": {"price": 700}}, {"data": {"price": 500}}, "not_there", "far from it"),
    ({"body": {"price": 500}}, {"data": {"price": 500}}, "not_there", "the same as before"),
    ({"body": {"price": 500.4}}, "sha256:0", "cannot_tell", "in an answer too long to be kept"),
    ({"body": None}, "sha256:0", "not_there", "of nothing that was to be set"),
    ({"query": {"spend": "9"}}, {"spend": 7}, "not_there", "far from it in the query"),
    ({"body": {"n": 1.5}}, "gone", "not_there", "in a text"),
)
def test_a_number_that_confirm_could_read_rounded(sent: Mapping[str, Json], response: Json, says: str) -> None:
    write = unknown("write", {**CALL, **sent}, before={"when": False, "response": response})
    assert told(write, confirm(False, response)) == says


def test_what_confirm_reads_is_named_by_what_it_asks_and_how_it_judges() -> None:
    key = fact_key(a_write("write", params=CALL).intent)
    assert (key.name, key.params) == ("confirm", (("client_id", "7"), ("get", "/y"), ("when", "z")))


@pytest.mark.parametrize(
    ("fact", "actions"),
    [
        ("setup", ["update_draft"]),
        ("campaigns", ["edit_cluster", "create_campaign"]),
        ("event", ["series_add", "series_remove", "reset_setup"]),
    ],
)
def test_each_action_is_shown_by_its_fact(fact: str, actions: list[str]) -> None:
    assert {fact_key(a_write(action, params=EDIT).intent).name for action in actions} == {fact}


@cases(
    "field, one, other, so",
    ("budget", 10.001, 10, True, "below a cent"),
    ("budget", 10.01, 10, False, "a cent more"),
    ("budget", "10.00", 10, True, "a text that is the number"),
    ("budget", "10.01", 10, False, "a text that is another"),
    ("budget", "ten", 10, False, "a word"),
    ("budget", None, "none", False, "null is no word"),
    ("share", "10.00", 10, False, "no budget: a text is no number"),
    ("share", 10.001, 10, False, "no budget: to the letter"),
    ("share", " x ", "x", True, "no budget: but for blanks"),
)
def test_budgets_are_the_same_in_cents(field: str, one: Json, other: Json, so: bool) -> None:
    assert same_field(field, one, other) is so


@pytest.mark.parametrize("one", ["jazz ", "Jazz", "ja\u200bzz", "ja\u00adzz", "jazz.", "j\u00e1zz"])
def test_names_are_alike_that_a_person_would_take_for_one(one: str) -> None:
    assert alike(one, "jazz")
    assert same(one, "jazz") is (one == "jazz ")


@pytest.mark.parametrize(("one", "other", "so"), [("jazz", "jazz 2", False), ("...", "!!!", False), ("", "", True)])
def test_other_names_are_not_alike_and_no_letters_are_no_name(one: str, other: str, so: bool) -> None:
    assert alike(one, other) is so
    assert same(one, other) is so
