"""Editing the rules: what becomes of writes that were not sent yet, and of the episodes behind them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.builders import cases
from tests.polls import E1, HOUR, TCS, Story, a_rule, a_set, a_story, tcs
from worker.engine.planning import edits_of, in_one, reopened, reopened_after, reopened_by
from worker.engine.views import DecidingSettings
from worker.model.facts import RuleId, WriteId
from worker.model.rules import Rule
from worker.model.writes import State
from worker.writes.life import move

X, Y = "event.city.contains('x')", "event.city.contains('y')"
CHANGE: dict[str, Any] = {"on_change": "suggested_tcs", "parameters": {"budget": 500, "goal": "ROAS"}}


def fired(*rules: Rule, **keys: Any) -> Story:  # noqa: ANN401 - fields of Story
    """Where x holds these rules have looked, and nothing is sent."""
    story = a_story(*rules, confirming=False, **keys).event(city="x")
    story.look()
    return story


def changing(**keys: Any) -> Story:  # noqa: ANN401 - fields of Story
    """A rule that watches the clusters has seen some, and by now there are others."""
    story = a_story(a_rule("r", X, "boost", **CHANGE), confirming=False, **keys).event(city="x")
    story.put(TCS, tcs("a")).look()
    return story.put(TCS, tcs("b"))


def held_for_long(story: Story, reason: str = "gap") -> None:
    """The rule's write is put before a person by its age."""
    held = story.write("r")
    story.writes[held.id] = move(held, "waiting", at=story.now, reason=reason, why="held for too long").after


def none(*_: object) -> tuple[()]:
    """The writes of an episode that has sent nothing."""
    return ()


@cases(
    "city, before, after",
    ("xy", ["r"], [], "true by the old text, it keeps its episode"),
    ("y", [], ["r: pause"], "true only by the new one, it is a first look"),
)
def test_an_edited_condition(city: str, before: list[str], after: list[str]) -> None:
    story = a_story(a_rule("r", X)).event(city=city)
    assert story.fires() == before
    assert story.reload(a_rule("r", Y)).look().planned == after


@cases(
    "edited, states, planned",
    (a_rule("r", X, "optimisation OFF"), ["cancelled", "planned"], ["r: optimisation"], "its `do` was edited"),
    (a_rule("r", X, parameters={"budget": 5}), ["cancelled", "planned"], ["r: pause"], "its `with` was edited"),
    (a_rule("r", X, cooldown=HOUR), ["planned"], [], "other keys leave what was decided alone"),
    (a_rule("r", X, "optimisation OFF", enabled=False), ["planned"], [], "disabled: frozen"),
    (a_rule("other", Y), ["cancelled"], [], "the rule is gone"),
)
@pytest.mark.parametrize("restarting", [False, True])
def test_unsent_writes_of_edited_rules_are_cancelled_and_planned_anew(
    edited: Rule, states: list[State], planned: list[str], restarting: bool
) -> None:
    story = fired(a_rule("r", X), restarting=restarting)
    assert story.reload(edited).look().planned == planned
    assert story.states("r") == states
    assert [write.key.episode for write in story.writes.values()] == list(range(1, len(states) + 1))


@pytest.mark.parametrize("state", ["sending", "applied", "unknown", "needs_human"])
def test_writes_in_flight_are_settled_by_reading_whatever_became_of_their_rule(state: State) -> None:
    story = fired(a_rule("r", X))
    story.send(story.write("r"), state, effect=False)
    for rules in (a_set(), a_set(a_rule("r", X, "run"))):
        assert list(edits_of(rules, story.writes.values(), story.memories, story.now)) == []


def test_for_counts_on_when_what_is_done_is_edited() -> None:
    story = fired(a_rule("r", X, hold_for=HOUR))
    assert story.fires(HOUR) == ["r"]
    assert story.reload(a_rule("r", X, "run", hold_for=HOUR)).fires() == ["r"], "it has been true for an hour"


def test_a_removed_rule_leaves_a_shared_write_to_the_rules_that_still_want_it() -> None:
    story = fired(a_rule("a", X), a_rule("b", X))
    assert story.reload(a_rule("b", X)).look().moved == []
    assert story.write("a").rules == ("b",)
    story.look()
    assert story.states("a") == ["planned"], "and it is left to them for good"
    assert story.event(city="").look().moved == ["a: skipped no_longer_holds"]


@pytest.mark.parametrize(("edited", "other"), [("a", "b"), ("b", "a")], ids=["its owner", "who only shares it"])
def test_an_edited_rule_leaves_a_shared_write_and_plans_its_own(edited: str, other: str) -> None:
    story = fired(a_rule("a", X), a_rule("b", X))
    story.reload(a_rule(edited, X, "optimisation OFF"), a_rule(other, X))
    assert story.look().planned == [f"{edited}: optimisation"], "its share is planned anew, by its new text"
    assert story.look().commit.empty
    ends = [("planned", (other,)), ("planned", (edited,))]
    assert [(write.state, write.rules) for write in story.writes.values()] == ends


@pytest.mark.parametrize("gone", [True, False])
def test_a_rule_that_is_gone_or_disabled_leaves_a_write_that_it_only_shares(gone: bool) -> None:
    story = fired(a_rule("a", X), a_rule("b", X))
    b = () if gone else (a_rule("b", X, enabled=False),)
    story.reload(a_rule("a", X), *b).look()
    assert story.write("a").rules == ("a",)
    story.reload(a_rule("a", Y), a_rule("b", X))
    assert story.look().outcome == (["b"], [], ["b: pause waiting gap"], ["a: skipped no_longer_holds"])


# What had to wait for a person waits after an edit, too.


def changed_in_a_silence() -> Story:
    """The clusters change while nobody looks, and the change waits for approval."""
    story = changing()
    assert story.silence(2 * HOUR).look().planned == ["r: boost waiting gap"]
    return story


@pytest.mark.parametrize("let_go", [False, True], ids=["waiting", "let go, for it was another write"])
def test_an_edited_change_that_waited_waits_again(let_go: bool) -> None:
    story = changed_in_a_silence()
    if let_go:
        waiting = story.write("r")
        yes = move(waiting, "planned", at=story.now, reason="person", why="yes", approved=True)
        story.writes[waiting.id] = yes.after
    assert story.reload(a_rule("r", X, "pause", **CHANGE)).look().planned == ["r: pause waiting gap"]
    story.reload(a_rule("r", X, "boost", **CHANGE))
    assert story.look().planned == ["r: boost waiting gap"], "and again after another edit"


def test_a_change_after_one_that_was_sent_waits_no_more() -> None:
    story = changed_in_a_silence()
    story.send(story.write("r"))
    assert story.put(TCS, tcs("c")).look().planned == ["r: boost"]


@pytest.mark.parametrize(
    ("reason", "planned"),
    [
        ("gap", "r: optimisation waiting gap"),
        ("reset", "r: optimisation waiting reset"),
        ("surge", "r: optimisation"),
        ("mode", "r: optimisation"),
    ],
)
def test_a_write_that_was_put_before_a_person_by_its_age_stays_there_under_a_new_text(
    reason: str, planned: str
) -> None:
    story = fired(a_rule("r", X))
    held_for_long(story, reason)
    story.reload(a_rule("r", X, "optimisation OFF"))
    assert story.look().planned == [planned], "surge and mode are judged anew"


def test_the_next_stretch_of_true_has_not_waited() -> None:
    story = fired(a_rule("r", X))
    held_for_long(story)
    story.event(city="").look()
    assert story.event(city="x").look().planned == ["r: pause"]


@pytest.mark.parametrize("then", ["act", "reobserve"])
def test_a_waiting_write_waits_under_a_new_text_whatever_a_gap_means(then: str) -> None:
    settings = DecidingSettings(gap_then=then)  # type: ignore[arg-type]  # one of the two
    story = changing(settings=settings)
    assert story.look().planned == ["r: boost"]
    held_for_long(story)
    story.reload(a_rule("r", X, "pause", **CHANGE))
    assert story.look().planned == ["r: pause waiting gap"], "the change is not lost, and is not let go either"


# Removed, and back again.


@pytest.mark.parametrize("restarting", [False, True])
def test_a_rule_that_comes_back_before_it_has_acted_acts_as_after_a_gap(restarting: bool) -> None:
    story = fired(a_rule("r", X), restarting=restarting)
    story.reload().look()
    assert (story.write("r").state, story.write("r").reason) == ("cancelled", "rule_gone")
    story.reload(a_rule("r", X))
    assert story.look().planned == ["r: pause waiting gap"], "its firing came to nothing, and is not lost"


def test_a_change_that_was_cancelled_with_its_rule_is_pending_when_the_rule_is_back() -> None:
    story = changing()
    assert story.look().planned == ["r: boost"]
    story.reload().look(timedelta(hours=3))
    assert story.write("r").reason == "rule_gone"
    assert story.reload(a_rule("r", X, "boost", **CHANGE)).look().planned == ["r: boost waiting gap"]


@pytest.mark.parametrize("at_rest", [{"enabled": False}, {"partners": frozenset({"another"})}])
@pytest.mark.parametrize(("rests", "ends"), [("a", "y"), ("b", "x")])
def test_a_rule_at_rest_whose_shared_write_ended_with_the_other_rule_acts_when_it_is_back(
    rests: str, ends: str, at_rest: dict[str, Any]
) -> None:
    """Nothing came of its firing, and its condition has held all the while."""
    both = {"a": X, "b": Y}
    story = a_story(*(a_rule(name, when) for name, when in both.items()), confirming=False).event(city="xy")
    assert story.look().planned == ["a: pause"]
    story.reload(*(a_rule(name, when, **at_rest if name == rests else {}) for name, when in both.items())).look()
    story.event(city="yx".replace(ends, "")).look()
    assert story.write("a").state == "skipped"
    story.reload(*(a_rule(name, when) for name, when in both.items()))
    assert story.look().planned == [f"{rests}: pause waiting gap"]


# One move for each write.


def test_a_write_that_an_edit_and_the_decision_both_change_is_moved_once() -> None:
    story = fired(a_rule("a", X), a_rule("b", X))
    write = story.write("a")
    (edit,) = edits_of(a_set(a_rule("a", X)), [write], story.memories, story.now)
    end = move(edit.change.after, "skipped", at=story.now, reason="no_longer_holds", why="it ended")
    other = move(replace(write, id=WriteId(9)), "skipped", at=story.now, reason="no_longer_holds", why="it ended")
    (first, second) = in_one([edit], [end, other])
    assert (first.before, first.after) == (write, end.after)
    assert second == other
    assert in_one([edit], []) == (edit.change,)


def test_an_edit_touches_no_episode_but_the_one_whose_write_it_ends() -> None:
    story, pair = fired(a_rule("r", X)), (E1, RuleId("r"))
    edits = list(edits_of(a_set(), story.writes.values(), story.memories, story.now))
    before, (write,) = story.memories[pair], story.writes.values()
    for memory in (replace(before, episode=7), replace(before, fired=False), None):
        memories = {} if memory is None else {pair: memory}
        assert reopened_after(write, "rule_edited", memories, none) == {}
        assert reopened_by(edits, memories, none) == {}
    assert reopened(replace(before, before_firing={})) == replace(before, open=False, fired=False)


# Unknown writes that are let go: nothing came of the firing.


def let_go_of(story: Story, reason: str) -> None:
    """The unknown write of the rule is proved absent, and ends for this reason."""
    write = story.write("r")
    story.end(write, "cancelled", reason)
    for pair, memory in reopened_after(write, reason, story.memories, none).items():
        story.memories[pair] = story.stored[pair] = memory


@pytest.mark.parametrize(
    ("reason", "planned", "why"),
    [
        ("rule_edited", ["r: boost"], "the change is pending again, against the value before it"),
        ("conflict", [], "a change that lost is consumed"),
    ],
)
def test_a_change_whose_write_was_let_go(reason: str, planned: list[str], why: str) -> None:
    story = changing()
    story.look()
    story.send(story.write("r"), "unknown", effect=False).look()
    let_go_of(story, reason)
    assert story.look().planned == planned, why
