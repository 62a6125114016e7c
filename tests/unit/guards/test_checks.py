"""Every guard: what it objects to, by which reason code, and how."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.builders import (
    MISSING_GAP,
    NOW,
    NULL_GAP,
    a_fact,
    a_situation,
    a_write,
    budget_range_fact,
    cases,
    event_fact,
    partner_fact,
    setup_fact,
    unreadable,
)
from worker import guards
from worker.guards import AFTER_READING, BEFORE_READING, No, Situation, first_no
from worker.model.commits import REASONS, Halt, Hold
from worker.model.facts import Fact, Json, PartnerId, UnknownCode, WriteId
from worker.model.rules import Judgement, Truth
from worker.model.writes import NO_RULE, State, Write
from worker.writes.intents import wanted

Guard = Callable[[Situation], No | None]
SOON = NOW + timedelta(seconds=1)
LIMIT = timedelta(hours=1)
LONG_AGO = NOW - 2 * LIMIT
UNWANTED = Judgement(truth=Truth.FALSE, why="event.status is active")
ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}


def said(no: No | None) -> str | None:
    """How a guard objects and by which code, as in `hold halt`; None where it does not."""
    if no is None:
        return None
    assert no.reason in REASONS, "every reason is documented"
    assert no.why, "every no says why"
    return f"{no.way} {no.reason}"


def the_no(guard: Guard, situation: Situation) -> No:
    """What the guard objects, which it does."""
    no = guard(situation)
    assert no is not None
    return no


def before_reading(situation: Situation) -> No | None:
    return first_no(BEFORE_READING, situation)


def after_reading(situation: Situation) -> No | None:
    return first_no(AFTER_READING, situation)


def another(named: str, state: State, number: int = 7, **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """Another write on the same event, named by its action and, after a colon, its value."""
    action, _, value = named.partition(":")
    params: Mapping[str, Json] = {"value": value} if value else {}
    return a_write(action, state, params=params, id=WriteId(number), **changes)


def reading(write: str | Write, **facts: Fact) -> Situation:
    """An ordinary situation of that write, in which these facts are read."""
    return a_situation(a_write(write) if isinstance(write, str) else write, facts=facts)


def a_halt(partner: str | None = None) -> Halt:
    of = None if partner is None else PartnerId(partner)
    return Halt(id=1, partner=of, rule=None, until=SOON, because="budget review", by="ann", at=NOW)


@pytest.mark.parametrize("action", ["pause", "optimisation", "boost"])
def test_nothing_objects_to_an_ordinary_write(action: str) -> None:
    situation = a_situation(a_write(action, params={} if action != "optimisation" else {"value": "OFF"}))
    assert (before_reading(situation), after_reading(situation)) == (None, None)


@cases(
    "held_by, until, objects",
    ("backoff", SOON, True, "the back-off is not over"),
    ("credentials", SOON, True, "five minutes are not over"),
    ("backoff", NOW, False, "it is over now"),
    ("backoff", None, False, "a hold without a time is judged by what holds"),
    ("writes_per_hour", SOON, False, "brakes are judged anew each time"),
    (None, None, False, "nothing holds it"),
)
def test_a_hold_with_its_own_time_lasts_until_then(held_by: str | None, until: datetime | None, objects: bool) -> None:
    no = guards.held_back_off(a_situation(a_write(held_by=held_by, held_until=until)))
    assert (said(no), no and no.until) == ((f"hold {held_by}", SOON) if objects else (None, None))


@cases(
    "state, code, expected",
    ("planned", "condition", "hold sequence", "the step before was not sent yet"),
    ("waiting", "mode", "hold sequence", "the step before waits for a person"),
    ("sending", "condition", "hold sequence", "the step before is under way"),
    ("applied", "accepted", "hold sequence", "accepted is not confirmed"),
    ("unknown", "ambiguous", "hold sequence", "nobody knows of the step before"),
    ("needs_human", "attempts", "hold sequence", "the step before is for a person"),
    ("confirmed", "read", None, "the step before is done"),
    ("skipped", "already_so", None, "it was so already: the next one starts"),
    ("skipped", "nothing_to_pause", None, "there was nothing to pause: the next one starts"),
    ("cancelled", "undo", None, "an operator has it put back, and this step is about something else"),
    ("skipped", "undo", None, "an operator has it put back, and this step is about something else"),
    ("skipped", "no_longer_holds", "skip sequence", "any other end stops the sequence"),
    ("skipped", "superseded", "skip sequence", "any other end stops the sequence"),
    ("rejected", "refused_by_service", "skip sequence", "any other end stops the sequence"),
    ("refused", "no_draft", "skip sequence", "any other end stops the sequence"),
    ("unconfirmed", "never_confirmed", "skip sequence", "any other end stops the sequence"),
    ("cancelled", "person", "skip sequence", "any other end stops the sequence"),
    ("shadowed", "mode", "skip sequence", "any other end stops the sequence"),
)
def test_a_step_starts_when_the_ones_before_are_done(state: State, code: str, expected: str | None) -> None:
    earlier = another("pause", state, reason=code)
    assert said(guards.sequence(a_situation(a_write("boost"), earlier=(earlier,)))) == expected


@cases(
    "held_by, halts, shown",
    ("halt", (a_halt(),), "halt", "it is in force"),
    ("halt", (a_halt(partner="other"),), None, "another one is in force, which does not hold it"),
    ("halt", (), None, "it was resumed, or has run out"),
    ("backoff", (), "backoff", "what else holds it is the next look's to end"),
)
def test_a_halt_that_has_ended_is_not_shown(held_by: str, halts: tuple[Halt, ...], shown: str | None) -> None:
    write = replace(a_write(), held_by=held_by, held_until=NOW, why="as it was judged last")
    found = guards.as_of_now(write, halts)
    if shown is not None:
        assert (found, found.held_by) == (write, shown)
    else:
        assert (found.held_by, found.held_until, found.why != write.why) == (None, None, True)


def test_an_assumption_nobody_vouched_for_holds_and_is_named() -> None:
    no = the_no(guards.defaults_confirmed, a_situation(a_write(), unconfirmed=("boost.body", "setup.draft")))
    assert said(no) == "hold assumption"
    assert "boost.body, setup.draft" in no.why


@cases(
    "other, busy",
    (another("pause", "needs_human", absent_proved=True), False, "proved absent before a person: it holds nothing"),
    (another("pause", "needs_human"), True, "it may still take effect"),
    (another("pause", "unknown", absent_proved=True), True, "an unknown one will be sent again"),
)
def test_a_write_before_a_person_frees_its_target_once_proved_absent(other: Write, busy: bool) -> None:
    situation = a_situation(a_write("run"), on_target=(other,))
    assert said(guards.target_free(situation)) == ("hold target_busy" if busy else None)


NULL_STATUS = event_fact(gaps={"client_campaign_status": NULL_GAP})
LACKS_STATUS = event_fact(gaps={"client_campaign_status": MISSING_GAP})
CLUSTER = a_write("edit_cluster", params={**ROCK, "budget": 500.0})
SETUP_STATES = ("NONE", "DRAFT", "PUBLISHED")


@cases(
    "partner, expected",
    (partner_fact(), None, "the product is on"),
    (partner_fact(campaign_recommendations=False), "hold product_off", "it is off"),
    (a_fact({"id": "x"}), "hold fact_unknown", "the record lacks it"),
    (partner_fact(campaign_recommendations=None), "hold fact_unknown", "null is not on"),
    (partner_fact(campaign_recommendations="yes"), "hold fact_unknown", "a text is not on"),
    (a_fact("x"), "hold fact_unknown", "no record"),
    (unreadable(), "hold fact_unknown", "unreadable"),
)
def test_nothing_is_sent_unless_the_product_is_known_to_be_on(partner: Fact, expected: str | None) -> None:
    assert said(guards.product_on(reading("pause", partner=partner))) == expected


@cases(
    "action, fact, expected",
    ("pause", event_fact(), None, "running: there is something to pause"),
    ("pause", event_fact(client_campaign_status="PAUSED"), "skip already_so", "paused already"),
    ("pause", NULL_STATUS, "skip nothing_to_pause", "null: nothing to pause"),
    ("run", NULL_STATUS, None, "null is not running"),
    ("run", event_fact(), "skip already_so", "running already"),
    ("pause", LACKS_STATUS, "hold target_unreadable", "the field is missing"),
    ("pause", unreadable(), "hold target_unreadable", "the event cannot be read"),
    ("create_draft", setup_fact("NONE"), None, "there is none yet"),
    ("create_draft", setup_fact("DRAFT"), "skip already_so", "a draft exists"),
    ("create_draft", setup_fact("PUBLISHED"), "skip already_so", "a setup exists"),
    ("create_draft", unreadable(), "hold target_unreadable", "whether one exists is not known"),
    ("boost", setup_fact("DRAFT"), None, "there is a draft to publish"),
    ("boost", setup_fact("PUBLISHED"), "skip already_so", "published already"),
    ("boost", unreadable(), "hold target_unreadable", "the setup cannot be read"),
    ("reset_setup", setup_fact("NONE"), None, "what cannot be read back is never already so"),
)
def test_what_the_target_says_before_a_write(action: str, fact: Fact, expected: str | None) -> None:
    assert said(guards.target_says(reading(action, event=fact, setup=fact))) == expected


@pytest.mark.parametrize("setup", [unreadable(), a_fact([]), setup_fact(gaps={"state": MISSING_GAP})])
def test_a_state_that_cannot_be_read_holds_the_write(setup: Fact) -> None:
    assert said(guards.setup_state(reading(CLUSTER, setup=setup))) == "hold target_unreadable"


@cases(
    "action, none, draft, published",
    ("boost", "refuse no_draft", None, None, "what publishes needs a setup"),
    ("update_draft", "refuse no_draft", None, "refuse no_draft", "only a draft is changed"),
    ("edit_cluster", "refuse not_published", "refuse not_published", None, "only what is published has campaigns"),
    ("create_draft", None, None, None, "whether there is one already is the target's to say"),
    ("create_campaign", None, None, None, "not documented"),
    ("reset_setup", None, None, None, "nothing may be left to reset"),
    ("pause", None, None, None, "no matter of the setup"),
)
def test_in_which_state_of_the_setup_a_write_is_sent(
    action: str, none: str | None, draft: str | None, published: str | None
) -> None:
    write = a_write(action, params={**ROCK, "budget": 500.0})
    found = [said(guards.setup_state(reading(write, setup=setup_fact(state)))) for state in SETUP_STATES]
    assert found == [none, draft, published]


@pytest.mark.parametrize(
    ("truth", "expected"),
    [(Truth.TRUE, None), (Truth.FALSE, "hold no_longer_holds"), (Truth.UNKNOWN, "hold fact_unknown")],
)
def test_the_condition_must_be_definitely_true(truth: Truth, expected: str | None) -> None:
    situation = a_situation(a_write(), judgement=replace(UNWANTED, truth=truth))
    assert said(guards.condition_holds(situation)) == expected


@pytest.mark.parametrize(("code", "reason"), [("gone", "event_gone"), ("unreadable", "fact_unknown")])
def test_an_event_that_does_not_answer_holds_its_writes_and_says_how(code: UnknownCode, reason: str) -> None:
    situation = reading("pause", event=unreadable("the service answered", code))
    assert said(guards.condition_holds(situation)) == f"hold {reason}"


@pytest.mark.parametrize("action", ["create_draft", "boost", "edit_cluster", "pause"])
def test_a_field_of_another_type_or_word_is_told_as_it_came(action: str) -> None:
    """It says which assumption to write, and that nothing is missing."""
    odd = {"state": "the setup's field state is 'LIVE'; see setup.published", "client_campaign_status": "a number"}
    situation = reading(action, setup=setup_fact(gaps=odd), event=event_fact(gaps=odd))
    no = the_no(lambda one: first_no((guards.setup_state, guards.target_says), one), situation)
    assert odd["client_campaign_status" if action == "pause" else "state"] in no.why


def test_a_budget_and_a_flag_of_another_type_are_told_as_they_came() -> None:
    partner = replace(partner_fact(), value={}, gaps={"campaign_recommendations": "a text"})
    flag = the_no(guards.product_on, reading("pause", partner=partner))
    budget = the_no(guards.budget_in_range, reading("boost", setup=setup_fact(gaps={"total_budget": "a text"})))
    assert flag.why == "partner: campaign_recommendations: a text"
    assert budget.why == "the budget it would commit cannot be read: total_budget: a text"


@pytest.mark.parametrize("status", [event_fact(client_campaign_status="PAUSED"), NULL_STATUS])
def test_nothing_is_skipped_while_the_target_is_unsettled(status: Fact) -> None:
    situation = replace(reading("pause", event=status), on_target=(another("run", "unknown"),))
    assert said(guards.target_says(situation)) == "hold target_busy"


SENT = a_write("pause", attempt=1, extra_attempts=1)
PAUSED = reading(SENT, event=event_fact(client_campaign_status="PAUSED"))
NEVER_LEFT = replace(PAUSED, write=replace(SENT, uncounted=1))
BESIDE_UNKNOWN = replace(PAUSED, on_target=(another("run", "unknown", 8),))
BESIDE_ABSENT = replace(PAUSED, on_target=(another("run", "needs_human", 8, absent_proved=True),))


@cases(
    "guard, situation, expected",
    (guards.seen_after_all, PAUSED, "confirm read", "it is there"),
    (after_reading, replace(PAUSED, judgement=UNWANTED), "confirm read", "also where it is not wanted any more"),
    (guards.seen_after_all, NEVER_LEFT, None, "it was never sent"),
    (guards.target_says, NEVER_LEFT, "skip already_so", "never sent, and so already"),
    (guards.seen_after_all, reading(SENT, event=event_fact()), None, "it is not there"),
    (guards.seen_after_all, BESIDE_UNKNOWN, None, "another write may have done it"),
    (guards.seen_after_all, BESIDE_ABSENT, "confirm read", "a write proved absent holds its target no more"),
    (guards.seen_after_all, reading(a_write("reset_setup", attempt=1)), None, "no read shows it"),
)
def test_what_is_there_after_all_is_confirmed(guard: Guard, situation: Situation, expected: str | None) -> None:
    assert said(guard(situation)) == expected


CREATED = another("create_draft", "confirmed")
UPDATED = a_write("update_draft", "confirmed", params={"total_budget": 750.0, "name": "x"}, id=WriteId(8))
LACKS_GOAL = {"goal": MISSING_GAP}
OTHER_DRAFT = setup_fact(gaps=LACKS_GOAL, total_budget=9.0)


@cases(
    "write, earlier, setup, expected",
    ("boost", [CREATED], setup_fact(), None, "the draft that was created"),
    ("boost", [CREATED], setup_fact(total_budget=500, name="x"), None, "the same values"),
    ("boost", [CREATED], setup_fact(total_budget=900.0), "refuse other_value", "somebody changed its budget"),
    ("boost", [CREATED], setup_fact(goal="VISIBILITY"), "refuse other_value", "somebody changed its goal"),
    ("boost", [CREATED], setup_fact(gaps=LACKS_GOAL), "hold target_unreadable", "whether it is ours is not known"),
    ("boost", [CREATED], OTHER_DRAFT, "refuse other_value", "its budget alone shows that it is another"),
    ("boost", [CREATED], unreadable(), "hold target_unreadable", "nothing is boosted that cannot be read"),
    ("boost", [CREATED], a_fact("x"), "hold target_unreadable", "so is one of no usable form"),
    ("pause", [CREATED], setup_fact(total_budget=900.0), None, "only a boost needs the draft that was created"),
    ("boost", [CREATED, UPDATED], setup_fact(total_budget=750.0, name="x"), None, "what later steps made of it"),
    ("boost", [CREATED, UPDATED], setup_fact(), "refuse other_value", "what later steps made of it is gone"),
    ("boost", [UPDATED], setup_fact(), None, "a draft that the rule did not create may be as it is"),
)
def test_only_the_created_draft_is_boosted(write: str, earlier: list[Write], setup: Fact, expected: str | None) -> None:
    steps = (another("pause", "confirmed", 2), *earlier)
    assert said(guards.created_here(replace(reading(write, setup=setup), earlier=steps))) == expected


def test_every_total_budget_of_a_write_must_be_in_the_range_however_it_is_spelled() -> None:
    spelled: dict[str, Json] = {"total_budget": 500, "totalBudget": "1000.1"}
    assert said(guards.budget_in_range(a_situation(a_write("create_draft", params=spelled)))) == "refuse budget_range"
    cap = a_situation(a_write("edit_cluster", params={"tc": "a", "tc_run_id": 1, "bid_cap": 5000}))
    assert guards.budget_in_range(cap) is None, "other money has no range"
    assert guards.budget_of(cap) == 5000


def test_a_boost_spends_all_the_money_of_the_draft_and_the_range_is_for_its_total_budget() -> None:
    draft: Json = {"state": "DRAFT", "total_budget": 100.0, "daily_budget": 99999, "lifetime": {"spend_cap": 99999}}
    boost = reading("boost", setup=a_fact(draft))
    assert guards.budget_of(boost) == 200098
    assert guards.budget_in_range(boost) is None
    shown = wanted(boost.write.intent, "", draft)
    assert shown.amount == guards.budget_of(boost), "whoever approves it is shown what is counted"
    assert guards.as_approved(replace(boost, approved_amount=shown.amount)) is None
    assert said(guards.as_approved(replace(boost, approved_amount=100.0))) == "ask moved"


@cases(
    "budget_range",
    (unreadable(), "the range cannot be read"),
    (a_fact([]), "it has no usable form"),
    (a_fact({"lower_limit": 1}), "it lacks its upper end"),
    (a_fact({"upper_limit": 1}), "it lacks its lower end"),
    (a_fact({"lower_limit": None, "upper_limit": 9}), "null is no limit"),
)
def test_a_range_that_is_not_known_holds(budget_range: Fact) -> None:
    situation = reading("create_draft", budget_range=budget_range)
    assert said(guards.budget_in_range(situation)) == "hold fact_unknown"


@cases(
    "situation",
    (reading("boost", setup=setup_fact(gaps={"total_budget": MISSING_GAP})), "the draft's budget is missing"),
    (reading("boost", setup=setup_fact(total_budget=True)), "a boolean is no budget"),
    (reading("boost", setup=unreadable()), "the draft cannot be read"),
    (reading(a_write("create_draft", params={"total_budget": "much"})), "a text is no budget"),
    (reading(a_write("edit_cluster", params={"budget": "much"})), "nor of a cluster"),
)
def test_a_budget_that_is_not_known_holds(situation: Situation) -> None:
    assert said(guards.budget_in_range(situation)) == "hold target_unreadable"
    assert guards.budget_of(situation) is None


@cases(
    "state, undo, way",
    ("unknown", "planned", "drop", "an unknown one is dropped"),
    ("planned", "planned", "skip", "one not sent is skipped"),
    ("unknown", "waiting", "hold", "an unknown one is held while the undo waits for approval"),
    ("planned", "waiting", "hold", "so is one not sent"),
)
def test_a_write_that_is_to_be_put_back_is_not_sent(state: State, undo: State, way: str) -> None:
    situation = a_situation(a_write("boost", state))
    no = the_no(guards.put_back, replace(situation, put_back_by=another("pause", undo, 9)))
    assert (said(no), "9" in no.why) == (f"{way} undo", True)
    assert guards.put_back(situation) is None


Changes = Callable[[Situation], Situation]


def with_facts(**facts: Fact) -> Changes:
    return lambda situation: replace(situation, facts={**situation.facts, **facts})


def computed_from_another_value(situation: Situation) -> Situation:
    """The write's values were computed while the draft had another name."""
    intent = replace(situation.write.intent, context={"computed_from": {"name": "another"}})
    return replace(situation, write=replace(situation.write, intent=intent))


def with_earlier(earlier: Write) -> Changes:
    return lambda situation: replace(situation, earlier=(earlier,))


BEFORE: list[tuple[str, Changes]] = [
    ("backoff", lambda one: replace(one, write=replace(one.write, held_by="backoff", held_until=SOON))),
    ("sequence", with_earlier(another("pause", "planned"))),
    ("halt", lambda one: replace(one, halts=(a_halt(),))),
    ("assumption", lambda one: replace(one, unconfirmed=("boost.body",))),
    ("credentials", lambda one: replace(one, credentials_until=SOON)),
    ("target_busy", lambda one: replace(one, on_target=(another("create_draft", "unknown", 8),))),
    ("undo", lambda one: replace(one, write=replace(one.write, attempt=1), put_back_by=another("pause", "planned", 9))),
]
AFTER: list[tuple[str, Changes]] = [
    ("product_off", with_facts(partner=partner_fact(campaign_recommendations=False))),
    ("no_longer_holds", lambda one: replace(one, judgement=UNWANTED)),
    ("no_draft", with_facts(setup=setup_fact("NONE"))),
    ("already_so", with_facts(setup=setup_fact("PUBLISHED"))),
    ("moved", computed_from_another_value),
    ("moved", lambda one: replace(one, approved_amount=1.0)),
    ("changed_since", lambda one: replace(one, left={"goal": "VISIBILITY"})),
    ("other_value", with_earlier(a_write("create_draft", "confirmed", params={"total_budget": 1.0}))),
    ("budget_range", with_facts(budget_range=budget_range_fact(1.0, 2.0))),
]
ELSEWHERE = (guards.seen_after_all, guards.held_over, guards.item_there, guards.other_half)
"""The guards whose place in the order other tests show."""


@pytest.mark.parametrize(("order", "objections"), [(BEFORE_READING, BEFORE), (AFTER_READING, AFTER)])
def test_the_first_guard_that_objects_wins(order: tuple[Guard, ...], objections: list[tuple[str, Changes]]) -> None:
    order = tuple(guard for guard in order if guard not in ELSEWHERE)
    assert len(order) == len(objections), "every guard has its place here"
    for first in range(len(objections)):
        situation = a_situation(a_write("boost"))
        for _, change in reversed(objections[first:]):
            situation = change(situation)
        assert the_no(lambda one: first_no(order, one), situation).reason == objections[first][0]


def test_a_brake_of_the_transaction_that_lasts_too_long_asks_a_person() -> None:
    brake = Hold(reason="halt", why="wait", until=None)
    young = a_situation(a_write("boost"))
    assert said(guards.as_no(young, brake)) == "hold halt"
    old = replace(young, now=young.write.changed_at + young.limits.held_longer_than + timedelta(seconds=1))
    assert said(guards.as_no(old, brake)) == "ask gap"
    for reason in ("spend", "writes_per_hour"):
        assert said(guards.as_no(old, replace(brake, reason=reason))) == f"hold {reason}", "nobody is asked beyond it"


def test_what_a_spending_limit_held_for_long_is_out_of_date_and_nothing_else_is() -> None:
    held = a_situation(a_write("boost", held_by="spend", due_since=LONG_AGO))
    assert guards.out_of_date(held) == "a spending limit held it for longer than 1:00:00"
    assert guards.out_of_date(a_situation(a_write("boost", held_by="spend"))) is None
    assert guards.out_of_date(a_situation(a_write("boost", held_by="halt", due_since=LONG_AGO))) is None
    assert guards.out_of_date(a_situation(a_write("boost", "unknown", held_by="spend", due_since=LONG_AGO))) is None
    assert guards.held_over(held) is None, "and it asks nobody"


HALTED = a_situation(a_write(), halts=(a_halt(),))
UNKNOWN = replace(HALTED, write=a_write(state="unknown"))


def old(situation: Situation, age: timedelta = 2 * LIMIT) -> Situation:
    """The same, the write having been due for so long."""
    return replace(situation, write=replace(situation.write, due_since=NOW - age))


@cases(
    "guard, situation, expected",
    (before_reading, old(HALTED, LIMIT), "hold halt", "an hour is not longer than an hour"),
    (before_reading, old(HALTED, LIMIT + timedelta(seconds=1)), "ask gap", "later it would go off at an odd hour"),
    (before_reading, old(a_situation(a_write())), "ask gap", "also where nothing holds it any more"),
    (before_reading, old(UNKNOWN), "hold halt", "an unknown one never waits for approval"),
    (after_reading, old(reading("boost", setup=setup_fact("NONE"))), "refuse no_draft", "what ends it ends it"),
)
def test_a_write_held_for_too_long_waits_for_approval(guard: Guard, situation: Situation, expected: str) -> None:
    assert said(guard(situation)) == expected


def test_what_waits_for_approval_says_what_held_it() -> None:
    assert "halt: halted by ann" in the_no(before_reading, old(HALTED)).why


@cases(
    "first, expected",
    (a_write(held_by="writes_per_hour"), "hold sequence", "what holds the one before it is asked of nobody"),
    (a_write(held_by="halt"), "ask gap", "that one asks as well"),
    (a_write(state="applied", first_sent_at=NOW), "hold sequence", "it could not have been sent before"),
    (a_write(state="needs_human", first_sent_at=LONG_AGO), "ask gap", "somebody was long about it"),
    (a_write(state="skipped", reason="already_so"), None, "nor before that one ended, unsent"),
)
def test_a_step_is_held_as_the_one_that_it_follows(first: Write, expected: str | None) -> None:
    assert said(before_reading(old(a_situation(a_write(), earlier=(first,))))) == expected


@cases(
    "of, fact, expected",
    ("campaigns", a_fact([dict(ROCK)]), None, "it is there"),
    ("campaigns", a_fact([{**ROCK, "tc_run_id": 8}]), "refuse gone", "that is another run"),
    ("campaigns", a_fact([]), "refuse gone", "nothing is"),
    ("campaigns", unreadable(), "hold target_unreadable", "nobody knows"),
    ("campaigns", a_fact({}), "hold target_unreadable", "it is no list"),
    ("clusters", a_fact([{"tc": "rock"}]), None, "a cluster goes by its name"),
    ("clusters", a_fact([{"tc": "jazz"}, "rock"]), "refuse gone", "another one"),
    ("added", a_fact([]), None, "what was added is judged by the change"),
)
def test_an_item_must_be_in_its_list_still(of: str, fact: Fact, expected: str | None) -> None:
    write = replace(CLUSTER, intent=replace(CLUSTER.intent, context={"each": of}))
    assert said(guards.item_there(reading(write, **{of: fact}))) == expected
    assert guards.item_there(reading(replace(write, attempt=1), **{of: fact})) is None, "once sent, reads settle it"


def test_a_wait_counts_from_the_confirmation_of_the_step_before_or_from_its_planning() -> None:
    wait = a_situation(a_write("wait", params={"value": 3600.0}))
    done = a_write("pause", "confirmed", changed_at=NOW + timedelta(minutes=5))
    assert guards.waited(wait).until == NOW + timedelta(hours=1)
    assert guards.waited(replace(wait, earlier=(done,))).until == NOW + timedelta(hours=1, minutes=5)
    under_way = replace(wait, earlier=(replace(done, state="sending"),))
    assert said(first_no(guards.OF_WAITS, under_way)) == "hold sequence"
    assert guards.waited(a_situation(a_write("wait", params={"value": "x"}))).until == NOW


def derived(action: str, params: Mapping[str, Json], computed_from: Json, item: str = "") -> Write:
    """A write whose values were computed from this."""
    write = a_write(action, params=params, item=item)
    return replace(write, intent=replace(write.intent, context={"computed_from": computed_from}))


HIDE = {"value": "HIDDEN"}
HALF = a_write("frontend_status", params=HIDE, item="cr")
MORE = derived("update_draft", {"total_budget": 120.0}, {"total_budget": 100})
MORE_OF_ROCK = derived("edit_cluster", {**ROCK, "budget": 24.0}, {"budget": 20})
HIDE_IT = derived("frontend_status", HIDE, {"frontend_status": "DEFAULT"}, "event")


@cases(
    "write, fact, expected",
    (MORE, setup_fact(total_budget=100.0), None, "as it was"),
    (MORE, setup_fact(total_budget=100.0, goal="VISIBILITY"), None, "another field does not matter"),
    (MORE, setup_fact(total_budget=50.0), "skip moved", "another value"),
    (MORE, setup_fact("NONE"), "skip moved", "the draft is gone"),
    (MORE, setup_fact(gaps={"total_budget": NULL_GAP}), "hold target_unreadable", "null"),
    (MORE, unreadable(), "hold target_unreadable", "the draft cannot be read"),
    (MORE, a_fact("what is no record"), "hold target_unreadable", "it is no record"),
    (MORE_OF_ROCK, a_fact([{**ROCK, "budget": 20}]), None, "the cluster as it was"),
    (MORE_OF_ROCK, a_fact([{"tc": "soul", "tc_run_id": 7}, {**ROCK, "budget": 21}]), "skip moved", "another budget"),
    (MORE_OF_ROCK, a_fact([]), "skip moved", "the cluster is gone"),
    (HIDE_IT, event_fact(frontend_status="FLAGGED"), "skip moved", "another status"),
    (a_write("update_draft", params={"total_budget": 500.0}), setup_fact(total_budget=1.0), None, "from nothing"),
)
def test_what_has_moved_is_left_as_it_is(write: Write, fact: Fact, expected: str | None) -> None:
    situation = reading(write, setup=fact, campaigns=fact, event=fact)
    assert said(guards.as_computed_from(situation)) == expected


@cases(
    "earlier, status, goes",
    (a_write("frontend_status", "confirmed", params=HIDE, item="event"), "HIDDEN", True, "the first half moved it"),
    (a_write("frontend_status", "confirmed", params=HIDE, item="event"), "DEFAULT", False, "somebody has set it back"),
    (a_write("pause", "confirmed"), "HIDDEN", False, "another target moves nothing"),
)
def test_an_earlier_step_moves_its_target(earlier: Write, status: str, goes: bool) -> None:
    second = derived("frontend_status", HIDE, {"frontend_status": "DEFAULT"}, "cr")
    situation = replace(reading(second, event=event_fact(frontend_status=status)), earlier=(earlier,))
    assert (guards.as_computed_from(situation) is None) is goes


@pytest.mark.parametrize(
    ("approved", "words"),
    [(False, "total_budget reads 50.0, computed from 100"), (True, "it had been approved as it was")],
)
def test_the_words_say_what_it_reads_what_it_was_and_that_somebody_had_approved_it(approved: bool, words: str) -> None:
    situation = reading(replace(MORE, approved=approved), setup=setup_fact(total_budget=50.0))
    assert the_no(guards.as_computed_from, situation).why.endswith(words)


@cases(
    "half, event, expected",
    (HALF, event_fact(frontend_status="HIDDEN"), None, "the other half has set it"),
    (HALF, event_fact(frontend_status="CANCELLED"), "hold no_longer_holds", "somebody has set another value"),
    (HALF, event_fact(gaps={"frontend_status": MISSING_GAP}), "hold target_unreadable", "what lacks is no value"),
    (HIDE_IT, event_fact(frontend_status="FLAGGED"), None, "the first half follows none"),
)
def test_the_half_that_no_read_shows_goes_with_the_other(half: Write, event: Fact, expected: str | None) -> None:
    assert said(guards.other_half(reading(half, event=event))) == expected


def an_undo(action: str = "run", left: dict[str, Json] | None = None, item: str = "") -> Write:
    write = a_write(action, item=item, params={"value": "FLAGGED"} if action == "frontend_status" else None)
    context: dict[str, Json] = {"undoes": [1], "left": left or {"client_campaign_status": "PAUSED"}}
    key = replace(write.key, rule=NO_RULE)
    return replace(write, key=key, rules=(), intent=replace(write.intent, context=context))


def about(write: Write, **facts: Fact) -> Situation:
    """The write, and where it is an undo what it must find: all that it undoes may have had an effect."""
    left = write.intent.context.get("left")
    return replace(a_situation(write, facts=facts), left=left if isinstance(left, dict) else None)


def status(value: str) -> Fact:
    return event_fact(client_campaign_status=value, frontend_status=value)


HALVES = [an_undo("frontend_status", {"frontend_status": "HIDDEN"}, item) for item in ("event", "cr")]
DRAFT: dict[str, Json] = {"goal": "ROAS", "total_budget": 500.0}
OTHER_BUDGET = setup_fact(total_budget=700.0)


@cases(
    "situation, expected",
    (about(an_undo(), event=status("PAUSED")), None, "as it was left"),
    (about(an_undo(), event=status("STOPPED")), "skip changed_since", "a third value"),
    (about(an_undo(), event=status("RUNNING")), "skip already_so", "put back already"),
    (about(an_undo(), event=LACKS_STATUS), "hold target_unreadable", "what cannot be read has not changed"),
    (about(HALVES[0], event=status("CANCELLED")), "skip changed_since", "somebody set another value"),
    (about(HALVES[1], event=status("FLAGGED")), None, "the second half follows the first, which is what is read"),
    (about(an_undo("boost", DRAFT), setup=OTHER_BUDGET), "skip changed_since", "a record: a field that was changed"),
    (about(an_undo("boost", {"goal": "ROAS"}), setup=OTHER_BUDGET), None, "a record: no other field matters"),
    (about(a_write("run"), event=status("STOPPED")), None, "a rule's write is no undo"),
)
def test_what_another_hand_has_set_since_is_left_alone(situation: Situation, expected: str | None) -> None:
    assert said(after_reading(situation)) == expected


def test_the_words_say_what_is_there_and_what_was_left() -> None:
    no = the_no(guards.as_it_was_left, about(an_undo(), event=status("STOPPED")))
    assert no.why.endswith("client_campaign_status reads 'STOPPED' and was left as 'PAUSED'")


def test_a_value_that_another_hand_has_set_back_is_that_hands_and_stays() -> None:
    words = "another hand has changed it since, to 'RUNNING'"
    no = the_no(after_reading, replace(about(an_undo(), event=status("PAUSED")), touched=words))
    assert (said(no), no.why) == ("skip changed_since", words)


@cases(
    "read, unread, expected",
    (500, True, None, "what was left, shown rounded: nobody has changed it"),
    (500, False, "skip changed_since", "a read has shown 500.4, so this service does not round"),
    (499, True, "skip changed_since", "another value"),
    (300, True, "skip already_so", "put back already"),
)
def test_what_was_left_may_be_shown_rounded(read: float, unread: bool, expected: str | None) -> None:
    write = an_undo("update_draft", {"total_budget": 500.4})
    write = replace(write, intent=replace(write.intent, wanted={"total_budget": 300.0}))
    situation = about(write, setup=setup_fact(total_budget=read))
    assert said(after_reading(replace(situation, left_unread=unread))) == expected
