"""What an undo puts back, and what it leaves alone: one verdict for each case, without a service."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, get_args

import pytest

from tests.builders import NOW, a_rule, a_write, cases
from worker.model.actions import ACTIONS
from worker.model.commits import Commit
from worker.model.facts import Json, RuleId, WriteId
from worker.model.rules import RuleStep
from worker.model.writes import FINAL, NO_RULE, Plan, State, Write
from worker.writes.intents import Planned
from worker.writes.undo import (
    Foreign,
    NotUndone,
    Undo,
    Undoing,
    last_firing,
    left_now,
    may_have_effect,
    put_back_by,
    undo_steps,
    undoing,
    wish_ended,
)


def sent(number: int, action: str = "pause", before: Json = "RUNNING", **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """A confirmed write, the ``number``-th of its target."""
    write = a_write(action, "confirmed", before=before, params=changes.pop("params", None), **changes)
    at = NOW + timedelta(minutes=number)
    return replace(write, id=WriteId(number), last_sent_at=at, first_sent_at=at)


CLUSTER: dict[str, Json] = {"tc": "jazz", "tc_run_id": 7}
PAIR: dict[str, Json] = {"value": ["e7", "e8"]}


def nobody(_write: Write) -> str | None:
    return None


def said(found: Undoing) -> list[str]:
    """What stays, and why: ``cannot`` where the service offers no way to put it back."""
    return [f"{one.write.id}{' cannot' * one.cannot}: {one.why}" for one in found.kept]


def of(chosen: Sequence[Write], history: Sequence[Write] = (), foreign: Foreign = nobody) -> Undoing:
    return undoing(chosen, history or chosen, foreign)


def a_status(number: int, to: str, before: Json, item: str = "event", **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    return sent(number, "frontend_status", before, params={"value": to}, item=item, **changes)


def a_switch(action: str, to: str, before: str) -> Write:
    return sent(1, action, before, params={"value": to})


@cases(
    "write, action, params, before",
    (sent(1), "run", {}, "RUNNING", "a pause"),
    (sent(1, "run", "PAUSED"), "pause", {}, "PAUSED", "a run"),
    (a_switch("optimisation", "OFF", "ON"), "optimisation", {"value": "ON"}, "ON", "optimisation"),
    (a_switch("ad_optimisation", "ON", "OFF"), "ad_optimisation", {"value": "OFF"}, "OFF", "ad_optimisation"),
    (a_status(1, "HIDDEN", "FLAGGED"), "frontend_status", {"value": "FLAGGED"}, "FLAGGED", "a status"),
)
def test_the_value_before_is_put_back(write: Write, action: str, params: dict[str, Json], before: str) -> None:
    found = of([write]).put_back
    assert found is not None
    assert (found.steps, found.undoes) == ((RuleStep(action=action, params=params),), (write,))
    assert (list(found.back.values()), found.left) == ([before], write.intent.wanted)


NEW_CAMPAIGN = sent(1, "create_campaign", {"exists": False}, params=CLUSTER)
NO_COLOUR = sent(1, "update_draft", {"state": "DRAFT"}, params={"colour": 1})
NO_BUDGET = sent(1, "edit_cluster", None, params={**CLUSTER, "budget": 5})
NULL_BUDGET = sent(1, "edit_cluster", {"exists": True, "budget": None}, params={**CLUSTER, "budget": 5})


@pytest.mark.parametrize(
    ("write", "why"),
    [
        (sent(1, "boost", {"state": "DRAFT"}), "what is published cannot be unpublished"),
        (sent(1, "create_draft", {"state": "NONE"}), "the service offers nothing that takes a draft away"),
        (NEW_CAMPAIGN, "the service offers nothing that takes a campaign away"),
        (sent(1, "reset_setup", None), "what a reset took away cannot be brought back"),
        (NO_COLOUR, "what its colour was before it is not known"),
        (NO_BUDGET, "what its budget was before it is not known"),
        (NULL_BUDGET, "what its budget was before it is not known"),
        (sent(1, "series_add", ["e7"], params={"value": ["e7"]}), "all of it was so before it"),
        (sent(1, before=None), "client_campaign_status was None before it, which no write can set"),
        (sent(1, before_known=False), "what was there before it is not known"),
    ],
)
def test_what_cannot_be_undone_is_named_and_says_why(write: Write, why: str) -> None:
    found = of([write])
    assert (found.put_back, said(found)) == (None, [f"1 cannot: {why}"])


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_either_put_back_or_named(name: str) -> None:
    values: dict[str, Json] = {"on_off": "ON", "frontend_status": "HIDDEN", "eids": ["e7"], "integer": 7, "number": 5.0}
    ordinary = {one: values.get(param.type, "ROAS") for one, param in ACTIONS[name].params.items()}
    if name == "undo":
        assert ACTIONS[name].for_good, "it becomes other actions"
        return
    write = sent(1, name, "OFF" if ordinary.get("value") == "ON" else "DEFAULT", params=ordinary)
    found = of([write])
    assert (found.put_back is None) == bool(found.kept)


A_DRAFT: dict[str, Json] = {"state": "DRAFT", "goal": "ROAS", "total_budget": 500.0, "colour": "blue"}
RED: dict[str, Json] = {"total_budget": 750.0, "colour": "red"}
REPAINT = sent(1, "update_draft", A_DRAFT, params=RED)
MORE = sent(1, "edit_cluster", {"exists": True, "budget": 80}, params={**CLUSTER, "budget": 120})
OF_TEXT = replace(MORE, before={"exists": True, "budget": "80.00"})


@cases(
    "write, action, params, left",
    (REPAINT, "update_draft", {"total_budget": 500.0, "colour": "blue"}, RED, "a draft"),
    (MORE, "edit_cluster", {**CLUSTER, "budget": 80}, {"budget": 120}, "a campaign"),
    (
        OF_TEXT,
        "edit_cluster",
        {**CLUSTER, "budget": 80.0},
        {"budget": 120},
        "a budget that is shown as a text is sent as a number",
    ),
    (sent(1, "series_add", ["e7"], params=PAIR), "series_remove", {"value": ["e8"]}, {"e8": True}, "out of the series"),
    (sent(1, "series_remove", ["e7"], params=PAIR), "series_add", {"value": ["e7"]}, {"e7": False}, "into the series"),
)
def test_records_and_series_by_field(write: Write, action: str, params: dict[str, Json], left: dict[str, Json]) -> None:
    found = of([write]).put_back
    assert found is not None
    assert (found.steps, found.left) == ((RuleStep(action=action, params=params),), left)
    assert (found.guarded, len(found.words())) == ("series" not in action, len(left))


def budget(number: int, to: float, before: float | str) -> Write:
    """A change of the draft's budget."""
    return sent(number, "update_draft", {"state": "DRAFT", "total_budget": before}, params={"total_budget": to})


def of_rule(write: Write, rule: str, episode: int = 1, **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    return replace(write, key=replace(write.key, rule=RuleId(rule), episode=episode), **changes)


def undoes(write: Write, *undone: int, **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """The same write, as the undo of these."""
    return replace(write, intent=replace(write.intent, context={"undoes": list(undone)}), **changes)


PAUSE, RUN = sent(1), sent(2, "run", "PAUSED")
MINE, GOAL = budget(1, 500.0, 300.0), sent(2, "update_draft", A_DRAFT, params={"goal": "VISIBILITY"})
FIRST, SECOND = a_status(1, "HIDDEN", "DEFAULT"), a_status(2, "HIDDEN", None, "cr", before_known=False)
FLAG, FLAG_AGAIN = a_status(1, "FLAGGED", "DEFAULT"), a_status(2, "FLAGGED", "FLAGGED")
AGAIN, AS_TEXT, BOOST = budget(3, 700.0, 500.0), budget(2, 700.0, "500.00"), sent(2, "boost", {"state": "DRAFT"})
BACK = budget(3, 500.0, 700.0)
CANCELLED_HIDDEN, FLAGGED_HIDDEN = a_status(3, "HIDDEN", "CANCELLED"), a_status(3, "HIDDEN", "FLAGGED")
UNDER_WAY = undoes(replace(RUN, attempt=0), 1, state="planned")
SET = "has set the target since"
PUBLISHED = "what is published cannot be unpublished"
NOT_ALONE = "no read shows its effect: undo the write before it, of which it is the second half"
CHANGED_BETWEEN = "the target was changed between it and write 3, and that is what is put back"
SET_BY_2 = f"1: write 2 of rule r1 {SET}"
ALREADY = "write 2 is to put the target back already"
TOGETHER = "together they left it as it was"


@cases(
    "chosen, others, expected",
    ([MINE], [GOAL], ["1 to 300.0"], "others changed another field of the record"),
    ([MINE], [GOAL, AGAIN], [f"1: write 3 of rule r1 {SET}"], "others changed the same field"),
    ([MINE, BOOST], [], [f"2 cannot: {PUBLISHED}", "1: write 2 after it is not undone"], "nothing below a publishing"),
    ([FIRST, SECOND], [], ["1 to DEFAULT"], "the second half of a pair goes with the first"),
    ([SECOND], [FIRST], [f"2 cannot: {NOT_ALONE}"], "and never alone"),
    ([MINE, AS_TEXT], [], ["2, 1 to 300.0"], "a text is followed as the number that it spells"),
    ([AS_TEXT, BACK], [], [f"3: {TOGETHER}", f"2: {TOGETHER}"], "and so it is told that nothing has changed"),
    ([FLAG, CANCELLED_HIDDEN], [], ["3 to CANCELLED", f"1: {CHANGED_BETWEEN}"], "what followed after a break stays"),
    ([FLAG, FLAGGED_HIDDEN], [FLAG_AGAIN], ["3 to FLAGGED", SET_BY_2], "a write of ours came between"),
    ([PAUSE], [of_rule(RUN, "r2")], [f"1: write 2 of rule r2 {SET}"], "another rule's is another hand"),
    ([PAUSE], [undoes(of_rule(RUN, ""), 9)], [f"1: write 2 of an undo {SET}"], "and so is another undo"),
    ([PAUSE], [replace(RUN, state="rejected")], ["1 to RUNNING"], "what came to nothing is no hand at all"),
    ([PAUSE], [UNDER_WAY], [f"1: {ALREADY}"], "an undo that is planned is not planned twice"),
    ([PAUSE], [replace(UNDER_WAY, state="waiting")], [f"1: {ALREADY}"], "nor one that waits"),
    ([PAUSE], [replace(UNDER_WAY, state="skipped")], ["1 to RUNNING"], "after one that came to nothing it is"),
    ([PAUSE, RUN], [], [f"2: {TOGETHER}", f"1: {TOGETHER}"], "writes that together changed nothing are named"),
)
def test_which_writes_are_put_back(chosen: list[Write], others: list[Write], expected: list[str]) -> None:
    found = of(chosen, [*chosen, *others])
    values = found.put_back.back.values() if found.put_back else ()
    ids = ", ".join(str(one.id) for one in found.put_back.undoes) if found.put_back else ""
    assert [*(f"{ids} to {value}" for value in values), *said(found)] == expected


def test_another_hand_that_was_observed_since_keeps_everything_as_it_is() -> None:
    found = of([sent(1), sent(2, before="PAUSED")], foreign=lambda write: f"a person, after {write.id}")
    assert (found.put_back, said(found)) == (None, ["2: a person, after 2", "1: write 2 after it is not undone"])


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_was_sent_and_may_have_come_to_something_can_be_undone(state: State) -> None:
    had = state in ("sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed", "cancelled")
    assert may_have_effect(a_write(state=state)) is had
    assert not may_have_effect(a_write(state=state, attempt=0)), "nothing was sent"
    assert not may_have_effect(a_write(state=state, attempt=2, uncounted=2)), "no byte of it left"
    if state in ("needs_human", "cancelled"):
        assert not may_have_effect(a_write(state=state, absent_proved=True))
    assert had or state in FINAL or state in ("planned", "waiting")


def an_undo(*undone: int, state: State = "planned", **left: Json) -> Write:
    """An undo that was planned for these writes, of what they had ``left``."""
    undo = sent(9, "run", "PAUSED")
    context: dict[str, Json] = {"undoes": list(undone), "left": left or {"client_campaign_status": "PAUSED"}}
    key = replace(undo.key, rule=NO_RULE)
    return replace(undo, key=key, state=state, attempt=0, intent=replace(undo.intent, context=context))


UNPROVED = sent(2, "pause", "RUNNING", absent_proved=True)
"""A write that an undo was planned for, and that proved absent after that."""


@cases(
    "undo, history, expected",
    (an_undo(1), [sent(1)], {"client_campaign_status": "PAUSED"}, "what it left"),
    (an_undo(2), [UNPROVED], {"client_campaign_status": "RUNNING"}, "nothing of ours is there: what is put back"),
    (an_undo(1, 2), [sent(1), UNPROVED], {"client_campaign_status": "PAUSED"}, "what the other one left"),
    (an_undo(1, 3), [sent(1), sent(3, "run", "PAUSED")], {"client_campaign_status": "RUNNING"}, "the newest"),
    (an_undo(1), [sent(1), sent(3, "run", "PAUSED")], {"client_campaign_status": "PAUSED"}, "others do not count"),
    (an_undo(1), [sent(1, before="STOPPED")], {"client_campaign_status": "RUNNING"}, "what cannot be undone"),
)
def test_an_undo_finds_what_they_left(undo: Write, history: list[Write], expected: dict[str, Json]) -> None:
    assert left_now(undo, history) == expected


def test_an_undo_of_members_of_a_series_asks_nothing_of_the_target() -> None:
    undo = an_undo(1)
    assert left_now(replace(undo, intent=replace(undo.intent, context={"undoes": [1]})), [sent(1)]) is None


@cases(
    "write, undo, expected",
    (sent(1), an_undo(1), 9, "it is about to be put back"),
    (sent(1), an_undo(2), None, "another one is"),
    (sent(1), an_undo(1, state="waiting"), 9, "it is, once a person approves that"),
    (sent(1), an_undo(1, state="skipped"), None, "the undo is over, and a verdict came after it"),
    (a_write("pause", "planned", id=WriteId(1)), an_undo(1, state="skipped"), 9, "its attempt never left"),
    (a_write("pause", "planned", id=WriteId(1)), an_undo(1, state="cancelled"), None, "a person rejected the undo"),
)
def test_who_is_about_to_put_a_write_back(write: Write, undo: Write, expected: int | None) -> None:
    found = put_back_by(write, [write, undo])
    assert (None if found is None else found.id) == expected


OLD, LAST, OTHER = of_rule(PAUSE, "some-rule"), of_rule(RUN, "some-rule", 2), of_rule(sent(3), "another")
WHOLE = of_rule(a_status(1, "HIDDEN", "DEFAULT"), "some-rule")
HALF = replace(WHOLE, id=WriteId(2), key=replace(WHOLE.key, item="cr"))
MESSAGE = of_rule(replace(sent(3), intent=replace(sent(3).intent, target="")), "some-rule")
PART = of_rule(sent(1, "edit_cluster", {"budget": 5}, params={**CLUSTER, "budget": 9}), "some-rule")
UNDO = of_rule(sent(3), "")


@cases(
    "writes, standing, number",
    ([], (), 0, "nothing was written"),
    ([OTHER], (), 0, "another rule's"),
    ([OLD, LAST, OTHER], (2,), 2, "what of the last episode stands"),
    ([OLD, LAST, replace(OTHER, rules=(OTHER.key.rule, OLD.key.rule))], (3,), 3, "a write that it shares"),
    ([OLD, LAST, undoes(UNDO, 2)], (1,), 1, "a write whose undo is confirmed stands no more"),
    ([OLD, LAST, undoes(UNDO, 2, state="applied")], (2,), 2, "it does before that"),
    ([OLD, LAST, undoes(UNDO, 2, state="unconfirmed")], (2,), 2, "and where nobody saw it"),
    ([WHOLE, HALF, MESSAGE], (1,), 1, "what shows no effect of its own does not count"),
    ([PART, replace(PART, id=WriteId(2)), undoes(UNDO, 1)], (2,), 1, "it keeps its number where a part is undone"),
)
def test_the_last_firing_of_a_rule(writes: list[Write], standing: tuple[int, ...], number: int) -> None:
    found = last_firing(writes, "some-rule")
    assert (tuple(one.id for one in found.standing), found.first) == (standing, number)


@pytest.mark.parametrize("state", ["planned", "applied", "confirmed", "waiting", "skipped", "refused"])
def test_the_wish_behind_a_write_ends_with_its_undo(state: State) -> None:
    mine, other = of_rule(sent(1), "some-rule", 3), of_rule(sent(2), "another")
    shared = replace(mine, rules=(RuleId("some-rule"), RuleId("shares")))
    undo = undoes(of_rule(sent(4), "puts-back"), 1, state=state)
    ended = state in ("planned", "applied", "confirmed")
    assert wish_ended([mine, other, undo], "some-rule", 3) is ended
    assert not wish_ended([mine, other, undo], "some-rule", 4), "a newer firing wishes anew"
    assert not wish_ended([mine, other, undo], "another", 1)
    assert wish_ended([shared, undo], "shares", 1) is ended


def test_an_undo_is_stored_in_one_commit() -> None:
    assert Undo().commit("ann", NOW) == Commit(at=NOW, by="ann")


def the_steps(found: Undo, after: int = -1) -> list[Planned]:
    do = (RuleStep(action="pause"), RuleStep(action="wait"), RuleStep(action="undo", params={"value": "other"}))
    return list(undo_steps(a_rule(*do), lambda named: found if named == "other" else Undo(), {"k": 1}, after)[0])


def test_the_step_of_a_rule_becomes_the_writes_of_the_undo_in_its_place() -> None:
    def plan(turn: int, action: str, item: str = "") -> Plan:
        key = replace(sent(1).key, rule=NO_RULE, position=turn, item=item)
        intent = replace(sent(1, action).intent, target="series", order=turn)
        return Plan(key=key, intent=intent, state="planned", reason="undo", why=f"undo {turn}")

    plans = [plan(0, "run"), plan(1, "pause"), plan(0, "run", "cr")]
    made = the_steps(Undo(plans=plans, kept=[NotUndone(write=sent(7), why="it stays")]), after=1)
    assert [(one.position, one.item, one.intent.order) for one in made] == [
        (2, "series", 2),
        (2, "series 1", 3),
        (2, "cr", 2),
        (2, "client_campaign_status of 7", 2),
    ]
    assert [(one.why, one.fault, one.reason) for one in made[1:]] == [
        ("undo 1", "", "bad_value"),
        ("undo 0", "", "bad_value"),
        ("", "write 7 is left as it is: it stays", "no_undo"),
    ]
    assert dict(made[0].intent.context) == {"k": 1}
    assert the_steps(Undo(plans=plans)) == [], "what comes after a wait is planned when it is over"
