"""What one read says of a write to a draft's fields, to one campaign among several, and to a series."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders import MISSING_GAP, a_fact, a_write, cases, event_fact, setup_fact, unreadable
from worker.model.commits import Says
from worker.model.facts import Fact, Json, Known, Trace, Unknown
from worker.model.writes import UNDOES
from worker.writes.evidence import already_so, fact_key, judge, target_value, unclear

DRAFT: Mapping[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0}
ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}
EDIT: Mapping[str, Json] = {**ROCK, "budget": 5}
NONE: Mapping[str, Json] = {"exists": False}


def campaigns(*items: Json) -> Known:
    return a_fact(list(items))


def series(*members: Json) -> Fact:
    return event_fact(campaign_event_series=list(members))


@cases(
    "fact, says, third",
    (setup_fact(total_budget=750), "there", None, "the values sent"),
    (setup_fact(total_budget=750.0, name="x"), "there", None, "what was not sent is not compared"),
    (setup_fact("PUBLISHED", total_budget=750), "there", None, "the values sent, and published since"),
    (setup_fact(), "not_there", None, "as before"),
    (setup_fact(total_budget=600.0), "cannot_tell", "third_value", "somebody else's value"),
    (setup_fact("NONE"), "cannot_tell", "third_value", "the draft is gone"),
    (setup_fact(gaps={"total_budget": MISSING_GAP}), "cannot_tell", None, "the field cannot be read"),
    (unreadable(), "cannot_tell", None, "nothing can be read"),
)
def test_what_a_setup_says_of_update_draft(fact: Fact, says: Says, third: str | None) -> None:
    evidence = judge(a_write("update_draft", "unknown", params={"total_budget": 750}, before=dict(DRAFT)), fact)
    assert (evidence.says, evidence.third) == (says, third)


def test_a_draft_that_somebody_else_created_otherwise_is_another_one() -> None:
    write = a_write("create_draft", "unknown", params={"name": "mine"}, before={"state": "NONE"})
    assert judge(write, setup_fact(name="theirs")).third == "other_value"
    assert judge(write, setup_fact()).says == "there", "what it does not show cannot tell it apart"


@cases(
    "fact, says, third",
    (campaigns({**ROCK, "budget": 5}), "there", None, "it has the values sent"),
    (campaigns({**ROCK, "budget": 5.0, "status": "ACTIVE"}), "there", None, "5 is 5.0, and more may be there"),
    (campaigns({"tc": "pop", "tc_run_id": 7, "budget": 5}), "not_there", None, "another cluster's"),
    (campaigns({"tc": "rock", "tc_run_id": 8, "budget": 5}), "cannot_tell", None, "another run's: it may be it"),
    (campaigns({"tc": "ROCK ", "tc_run_id": 7, "budget": 5}), "cannot_tell", None, "spelled otherwise"),
    (campaigns({"tc": " rock", "tc_run_id": 7, "budget": 5}), "there", None, "blanks around a name do not count"),
    (campaigns("odd"), "not_there", None, "what is no campaign is not it"),
    (campaigns(), "not_there", None, "no campaigns, as before"),
    (campaigns({**ROCK, "budget": 4}), "cannot_tell", "third_value", "there with another value"),
    (campaigns(dict(ROCK)), "cannot_tell", None, "there, and its budget is not shown"),
    (campaigns({**ROCK, "budget": 4}, {**ROCK, "budget": 5}), "there", None, "of two of one name, the one wanted"),
    (unreadable(), "cannot_tell", None, "nothing can be read"),
    (a_fact({"items": []}), "cannot_tell", None, "no list"),
)
def test_what_campaigns_say_of_edit_cluster(fact: Fact, says: Says, third: str | None) -> None:
    evidence = judge(a_write("edit_cluster", "unknown", params=EDIT, before=dict(NONE)), fact)
    assert (evidence.says, evidence.third) == (says, third)


def test_a_campaign_that_reads_as_before_is_as_before_only_where_the_value_shows() -> None:
    shown = a_write("edit_cluster", "unknown", params=EDIT, before={"exists": True, "budget": 4})
    assert judge(shown, campaigns({**ROCK, "budget": 4})).says == "not_there"
    hidden = a_write("edit_cluster", "unknown", params=EDIT, before={"exists": True})
    assert judge(hidden, campaigns(dict(ROCK))).says == "cannot_tell"


@cases(
    "fact, says, so",
    (campaigns(dict(ROCK)), "there", True, "it exists"),
    (campaigns({**ROCK, "budget": 9}), "there", True, "it exists, whatever else it has"),
    (campaigns({"tc": "rock", "tc_run_id": 6}), "cannot_tell", False, "of an older run"),
    (campaigns({"tc": "rock", "tc_run_id": 8}), "cannot_tell", None, "of a newer run: it may be this one"),
    (campaigns({"tc": "rock", "tc_run_id": None}), "cannot_tell", False, "of no run"),
    (campaigns({"tc": "R\uff2fCK", "tc_run_id": 7}), "cannot_tell", None, "in other letters: it may be this one"),
    (campaigns({"tc": "pop", "tc_run_id": 7}), "not_there", False, "another one"),
    (campaigns(), "not_there", False, "none"),
    (unreadable(), "cannot_tell", None, "nothing can be read"),
)
def test_what_campaigns_say_of_create_campaign(fact: Fact, says: Says, so: bool | None) -> None:
    _, before = target_value(a_write("create_campaign", params={**ROCK, "tc": "x"}).intent, fact)
    write = a_write("create_campaign", "unknown", params=ROCK, before=before)
    assert judge(write, fact).says == says
    assert already_so(write.intent, fact) is so


def test_a_list_that_has_gained_or_lost_a_campaign_is_a_third_value_for_one_that_was_to_be_created() -> None:
    write = a_write("create_campaign", "unknown", params=ROCK, before={"exists": False, "others": ["pop:7"]})
    for names in ([], ["pop", "folk"], ["folk"], ["pop", "pop"]):
        listed: list[Json] = [{"tc": tc, "tc_run_id": 7} for tc in names]
        evidence = judge(write, campaigns(*listed))
        assert (evidence.says, evidence.third) == ("cannot_tell", "other_value"), names
    assert judge(write, campaigns({"tc": "pop", "tc_run_id": 7, "budget": 9})).says == "not_there"


def in_part(*items: Json) -> Fact:
    return Unknown(code="unreadable", why="the list is not whole", part=list(items))


def cut(count: int) -> Known:
    """A list as long as a page may be."""
    listed: list[Json] = [{"tc": f"cluster {n}", "tc_run_id": 7} for n in range(count)]
    return replace(campaigns(*listed), trace=Trace(get="/", full=True))


def test_a_part_of_a_list_shows_what_is_there_and_never_what_is_not() -> None:
    create, edit = (
        a_write(one, "unknown", params=EDIT, before=dict(NONE)) for one in ("create_campaign", "edit_cluster")
    )
    for write in (create, edit):
        assert judge(write, in_part({**ROCK, "budget": 5})).says == "there"
        assert already_so(write.intent, in_part({**ROCK, "budget": 5})) is True
        evidence = judge(write, in_part({"tc": "pop", "tc_run_id": 7}))
        assert (evidence.says, evidence.third, evidence.why) == ("cannot_tell", None, "the list is not whole")
        assert already_so(write.intent, in_part()) is None
    assert judge(edit, in_part({**ROCK, "budget": 4})).says == "cannot_tell", "another of that name may be on a page"


@pytest.mark.parametrize(
    ("action", "count", "so"),
    [("create_campaign", 20, None), ("create_campaign", 10, False), ("edit_cluster", 20, False)],
)
def test_a_list_as_long_as_a_page_proves_no_absence_and_a_long_one_holds_a_new_campaign_back(
    action: str, count: int, so: bool | None
) -> None:
    intent = a_write(action, params=EDIT).intent
    write = a_write(action, "unknown", params=EDIT, before=target_value(intent, cut(count))[1])
    evidence = judge(write, cut(count))
    assert (evidence.says, evidence.third) == ("cannot_tell", None)
    assert f"{count} campaigns are as many as a page may hold" in evidence.why
    assert already_so(intent, cut(count)) is so
    assert so is not None or "as many as a page may hold" in unclear(intent, cut(count))
    assert judge(write, replace(cut(count), trace=None)).says == "not_there", "whole, by the word of who gave it"


@pytest.mark.parametrize(
    ("params", "before", "says"),
    [
        ({"total_budget": 500.4}, {"total_budget": 500.0}, "cannot_tell"),
        ({"total_budget": 499.01}, {"total_budget": 500}, "cannot_tell"),
        ({"total_budget": 501}, {"total_budget": 500}, "not_there"),
        ({"total_budget": 500.4, "goal": "VISIBILITY"}, {"total_budget": 500.0}, "cannot_tell"),
        ({"total_budget": 500, "goal": "VISIBILITY"}, {"total_budget": 500.0}, "not_there"),
        ({"name": "Summer  Night"}, {"name": "summer night"}, "cannot_tell"),
        ({"name": "summer"}, {"name": "winter"}, "not_there"),
        ({"spend": "500.4"}, {"spend": 500}, "cannot_tell"),
        ({"paid": True}, {"paid": False}, "not_there"),
        ({"bids": [1.2, 3]}, {"bids": [1, 3]}, "cannot_tell"),
        ({"bids": [1, 3]}, {"bids": [1]}, "not_there"),
        ({"cap": {"day": 7.5}}, {"cap": {"day": 8}}, "cannot_tell"),
        ({"cap": {"day": 7.5}}, {"cap": {"week": 8}}, "not_there"),
    ],
)
def test_what_could_be_shown_as_it_was_before_is_no_evidence_of_absence(
    params: Mapping[str, Json], before: Mapping[str, Json], says: Says
) -> None:
    fact = a_fact({**DRAFT, **before})
    write = a_write("update_draft", "unknown", params=params, before={**DRAFT, **before})
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, None)
    assert says == "not_there" or "could be shown as" in evidence.why
    assert already_so(write.intent, fact) is False, "and it is no evidence of presence either"


def test_an_undo_of_what_read_as_wanted_before_it_is_never_proved_by_reading_so_again() -> None:
    shown = {**DRAFT, "total_budget": 500}
    write = a_write("update_draft", "unknown", params={"total_budget": 500}, before=shown)
    assert judge(write, a_fact(shown)).says == "there", "no other write is sent to what reads as wanted"
    undo = replace(write, intent=replace(write.intent, context={**write.intent.context, UNDOES: [1]}))
    evidence = judge(undo, a_fact(shown))
    assert (evidence.says, evidence.third) == ("cannot_tell", None)
    assert evidence.why.startswith("the target read")
    assert evidence.why.endswith("before it, too")


@cases(
    "action, before, fact, says, third",
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
    ("series_add", [], series("e7 ", " e8"), "there", None, "blanks around an id do not count"),
    ("series_add", [], series("E7", "e8"), "cannot_tell", None, "whether E7 is e7 is not known"),
    ("series_remove", ["e7", "e8"], series("E7"), "cannot_tell", None, "nor whether it is still in"),
)
def test_what_the_event_says_of_a_series(action: str, before: Json, fact: Fact, says: Says, third: str | None) -> None:
    write = a_write(action, "unknown", params={"value": ["e8", "e7"]}, before=before)
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, third)


def test_a_setup_of_somebody_else_is_so_and_is_not_ours() -> None:
    write = a_write("create_draft")
    assert already_so(write.intent, setup_fact(total_budget=900.0)) is True
    facts = setup_fact(total_budget=900.0), setup_fact(), unreadable()
    assert [judge(write, fact).says == "there" for fact in facts] == [False, True, False]


CALL: Mapping[str, Json] = {"method": "PUT", "path": "/x", "client_id": "7", "confirm": {"get": "/y", "when": "z"}}


def confirm(when: bool, response: Json, **more: Json) -> Fact:
    return a_fact({"when": when, "response": response, **more})


@cases(
    "fact, says, third",
    (confirm(True, {"n": 2}), "there", None, "the rule's condition is true"),
    (confirm(False, {"n": 1}), "not_there", None, "the answer is as before"),
    (confirm(False, {"n": 3}), "cannot_tell", "third_value", "the answer is another, and still not as wanted"),
    (unreadable("confirm.when could not be judged"), "cannot_tell", None, "nothing can be told"),
    (a_fact({"status": 200}), "cannot_tell", None, "nobody judged it"),
)
def test_what_a_rules_own_confirm_says(fact: Fact, says: Says, third: str | None) -> None:
    write = a_write("write", "unknown", params=CALL, before={"when": False, "response": {"n": 1}})
    evidence = judge(write, fact)
    assert (evidence.says, evidence.third) == (says, third)
    assert already_so(write.intent, fact) is (None if says == "cannot_tell" and third is None else says == "there")


def test_a_number_that_confirm_could_read_rounded_as_it_was_is_no_evidence_of_absence() -> None:
    cases: list[tuple[Mapping[str, Json], Says]] = [
        ({"body": {"spend": 7.5}}, "cannot_tell"),
        ({"query": {"spend": "9"}}, "not_there"),
    ]
    for sent, says in cases:
        write = a_write("write", "unknown", params={**CALL, **sent}, before={"when": False, "response": {"spend": 7}})
        assert judge(write, confirm(False, {"spend": 7})).says == says
    write = a_write("write", "unknown", params={**CALL, "body": {"n": 1.5}}, before={"when": False, "response": "gone"})
    assert judge(write, confirm(False, "gone")).says == "not_there"


def test_a_list_that_confirm_reads_and_that_may_be_cut_off_is_no_evidence_of_absence() -> None:
    read: dict[str, Json] = {"when": False, "response": {"n": 1}, "full": True}
    write = a_write("write", "unknown", params=CALL, before=read)
    assert judge(write, a_fact(read)).says == "cannot_tell"
    assert judge(write, a_fact({**read, "when": True})).says == "there"


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
