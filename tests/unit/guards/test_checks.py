"""Every guard: what it objects to, by which reason code, and how."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Literal

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
from worker.guards import (
    AFTER_READING,
    BEFORE_READING,
    OF_WAITS,
    No,
    Situation,
    as_approved,
    as_no,
    as_of_now,
    budget_in_range,
    budget_of,
    condition_holds,
    created_here,
    defaults_confirmed,
    first_no,
    held_back_off,
    held_over,
    item_there,
    other_half,
    out_of_date,
    product_on,
    put_back,
    seen_after_all,
    sequence,
    setup_state,
    target_free,
    target_says,
    waited,
)
from worker.model.commits import REASONS, Halt, Hold
from worker.model.facts import Fact, Json, PartnerId, RuleId, UnknownCode, WriteId
from worker.model.rules import Judgement, Truth
from worker.model.writes import State, Write
from worker.writes.intents import wanted

Way = Literal["hold", "skip", "refuse", "ask", "confirm", "drop"]
SOON = NOW + timedelta(seconds=1)


def said(no: No | None) -> tuple[Way, str] | None:
    """How a guard objects and by which code; None where it does not."""
    if no is None:
        return None
    assert no.reason in REASONS, "every reason is documented"
    assert no.why, "every no says why"
    return no.way, no.reason


def another(named: str, state: State, number: int = 7, **changes: Any) -> Write:  # noqa: ANN401 - fields of Write
    """Another write on the same event, named by its action and, after a colon, its value."""
    action, _, value = named.partition(":")
    params: Mapping[str, Json] = {"value": value} if value else {}
    return a_write(action, state, params=params, id=WriteId(number), **changes)


@pytest.mark.parametrize("action", ["pause", "optimisation", "boost"])
def test_nothing_objects_to_an_ordinary_write(action: str) -> None:
    situation = a_situation(a_write(action, params={} if action != "optimisation" else {"value": "OFF"}))
    assert first_no(BEFORE_READING, situation) is None
    assert first_no(AFTER_READING, situation) is None


# --- before anything is read ---------------------------------------------------------------------------------------


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
    no = held_back_off(a_situation(a_write(held_by=held_by, held_until=until)))
    assert said(no) == (("hold", str(held_by)) if objects else None)
    if no is not None:
        assert no.until == SOON


@cases(
    "state, code, expected",
    ("planned", "condition", ("hold", "sequence"), "the step before was not sent yet"),
    ("waiting", "mode", ("hold", "sequence"), "the step before waits for a person"),
    ("sending", "condition", ("hold", "sequence"), "the step before is under way"),
    ("applied", "accepted", ("hold", "sequence"), "accepted is not confirmed"),
    ("unknown", "ambiguous", ("hold", "sequence"), "nobody knows of the step before"),
    ("needs_human", "attempts", ("hold", "sequence"), "the step before is for a person"),
    ("confirmed", "read", None, "the step before is done"),
    ("skipped", "already_so", None, "it was so already: the next one starts"),
    ("skipped", "nothing_to_pause", None, "there was nothing to pause: the next one starts"),
    ("cancelled", "undo", None, "an operator has it put back, and this step is about something else"),
    ("skipped", "undo", None, "an operator has it put back, and this step is about something else"),
    ("skipped", "no_longer_holds", ("skip", "sequence"), "any other end stops the sequence"),
    ("skipped", "superseded", ("skip", "sequence"), "any other end stops the sequence"),
    ("rejected", "refused_by_service", ("skip", "sequence"), "any other end stops the sequence"),
    ("refused", "no_draft", ("skip", "sequence"), "any other end stops the sequence"),
    ("unconfirmed", "never_confirmed", ("skip", "sequence"), "any other end stops the sequence"),
    ("cancelled", "person", ("skip", "sequence"), "any other end stops the sequence"),
    ("shadowed", "mode", ("skip", "sequence"), "any other end stops the sequence"),
)
def test_a_step_starts_when_the_ones_before_are_done(state: State, code: str, expected: tuple[Way, str] | None) -> None:
    earlier = another("pause", state, reason=code)
    assert said(sequence(a_situation(a_write("boost"), earlier=(earlier,)))) == expected


def a_halt(partner: str | None = None, rule: str | None = None) -> Halt:
    return Halt(
        id=1,
        partner=None if partner is None else PartnerId(partner),
        rule=None if rule is None else RuleId(rule),
        until=SOON,
        because="budget review",
        by="ann",
        at=NOW,
    )


@cases(
    "held_by, halt, shown",
    ("halt", a_halt(), "halt", "it is in force"),
    ("halt", a_halt(partner="other"), None, "another one is in force, which does not hold it"),
    ("halt", None, None, "it was resumed, or has run out"),
    ("backoff", None, "backoff", "what else holds it is the next look's to end"),
)
def test_no_write_is_shown_as_held_by_a_halt_that_has_ended(held_by: str, halt: Halt | None, shown: str | None) -> None:
    write = replace(a_write(), held_by=held_by, held_until=NOW, why="as it was judged last")

    found = as_of_now(write, () if halt is None else (halt,))

    assert found.held_by == shown
    assert (found == write) == (shown is not None)
    assert (found.held_until, found.why) != (NOW, "as it was judged last") or shown is not None


def test_an_assumption_nobody_vouched_for_holds_and_is_named() -> None:
    no = defaults_confirmed(a_situation(a_write(), unconfirmed=("boost.body", "setup.draft")))
    assert said(no) == ("hold", "assumption")
    assert no is not None
    assert "boost.body, setup.draft" in no.why
    assert defaults_confirmed(a_situation(a_write())) is None


# --- one target ----------------------------------------------------------------------------------------------------


@cases(
    "state, proved, free",
    ("needs_human", True, True, "its last attempt is proved absent: it no longer holds its target"),
    ("needs_human", False, False, "it may still take effect"),
    ("unknown", True, False, "an unknown one will be sent again"),
)
def test_a_write_before_a_person_frees_its_target_once_proved_absent(state: State, proved: bool, free: bool) -> None:
    situation = a_situation(a_write("run"), on_target=(another("pause", state, absent_proved=proved),))
    assert said(target_free(situation)) == (None if free else ("hold", "target_busy"))


# --- after reading -------------------------------------------------------------------------------------------------


@cases(
    "fact, expected",
    (partner_fact(), None, "the product is on"),
    (partner_fact(campaign_recommendations=False), ("hold", "product_off"), "it is off"),
    (a_fact({"id": "x"}), ("hold", "fact_unknown"), "the record lacks it"),
    (partner_fact(campaign_recommendations=None), ("hold", "fact_unknown"), "null is not on"),
    (partner_fact(campaign_recommendations="yes"), ("hold", "fact_unknown"), "a text is not on"),
    (a_fact("x"), ("hold", "fact_unknown"), "no record"),
    (unreadable(), ("hold", "fact_unknown"), "unreadable"),
)
def test_nothing_is_sent_unless_the_product_is_known_to_be_on(fact: Fact, expected: tuple[Way, str] | None) -> None:
    assert said(product_on(a_situation(a_write(), facts={"partner": fact}))) == expected


@pytest.mark.parametrize(
    ("truth", "expected"),
    [(Truth.TRUE, None), (Truth.FALSE, ("hold", "no_longer_holds")), (Truth.UNKNOWN, ("hold", "fact_unknown"))],
)
def test_the_condition_must_be_definitely_true(truth: Truth, expected: tuple[Way, str] | None) -> None:
    judgement = Judgement(truth=truth, why="event.status is active")
    assert said(condition_holds(a_situation(a_write(), judgement=judgement))) == expected


@cases(
    "code",
    ("gone", "event_gone"),
    ("unreadable", "fact_unknown"),
)
def test_an_event_that_does_not_answer_holds_its_writes_and_says_how(code: UnknownCode) -> None:
    facts = {"event": unreadable("the service answered", code)}
    assert said(condition_holds(a_situation(a_write(), facts=facts))) == ("hold", reason)


NULL_STATUS = event_fact(gaps={"client_campaign_status": NULL_GAP})


@cases(
    "action, facts, expected",
    ("pause", {"event": event_fact()}, None, "running: there is something to pause"),
    ("pause", {"event": event_fact(client_campaign_status="PAUSED")}, ("skip", "already_so"), "already so"),
    ("pause", {"event": NULL_STATUS}, ("skip", "nothing_to_pause"), "null: nothing to pause"),
    ("run", {"event": NULL_STATUS}, None, "null is not running"),
    ("run", {"event": event_fact()}, ("skip", "already_so"), "already so"),
    (
        "pause",
        {"event": event_fact(gaps={"client_campaign_status": MISSING_GAP})},
        ("hold", "target_unreadable"),
        "the field is missing",
    ),
    ("pause", {"event": unreadable()}, ("hold", "target_unreadable"), "the event cannot be read"),
    ("create_draft", {"setup": setup_fact("NONE")}, None, "there is none yet"),
    ("create_draft", {"setup": setup_fact("DRAFT")}, ("skip", "already_so"), "a setup exists"),
    ("create_draft", {"setup": setup_fact("PUBLISHED")}, ("skip", "already_so"), "a setup exists"),
    ("create_draft", {"setup": unreadable()}, ("hold", "target_unreadable"), "whether one exists is not known"),
    ("boost", {"setup": setup_fact("DRAFT")}, None, "there is a draft to publish"),
    ("boost", {"setup": setup_fact("PUBLISHED")}, ("skip", "already_so"), "already published"),
    ("boost", {"setup": unreadable()}, ("hold", "target_unreadable"), "the setup cannot be read"),
)
def test_what_the_target_says_before_a_write(
    action: str, facts: Mapping[str, Fact], expected: tuple[Way, str] | None
) -> None:
    assert said(target_says(a_situation(a_write(action), facts=facts))) == expected


@pytest.mark.parametrize("action", ["create_draft", "boost", "edit_cluster", "pause"])
def test_a_field_of_another_type_or_word_is_told_as_it_came(action: str) -> None:
    """It says which assumption to write, and that nothing is missing."""
    odd = {"state": "the setup's field state is 'LIVE'; see setup.published", "client_campaign_status": "a number"}
    facts = {"setup": setup_fact(gaps=odd), "event": event_fact(gaps=odd)}
    situation = a_situation(a_write(action), facts=facts)
    no = first_no((setup_state, target_says), situation)

    assert no is not None
    assert odd["client_campaign_status" if action == "pause" else "state"] in no.why


def test_a_budget_and_a_flag_of_another_type_are_told_as_they_came() -> None:
    facts = {"setup": setup_fact(gaps={"total_budget": "a text"}), "partner": partner_fact()}
    partner = replace(partner_fact(), value={}, gaps={"campaign_recommendations": "a text"})
    flag = product_on(a_situation(a_write(), facts={"partner": partner}))
    budget = budget_in_range(a_situation(a_write("boost"), facts=facts))

    assert flag is not None
    assert flag.why == "partner: campaign_recommendations: a text"
    assert budget is not None
    assert budget.why == "the budget it would commit cannot be read: total_budget: a text"


def test_nothing_is_skipped_as_already_so_while_the_target_is_unsettled() -> None:
    so = {"event": event_fact(client_campaign_status="PAUSED")}
    situation = a_situation(a_write("pause"), facts=so, on_target=(another("run", "unknown"),))
    assert said(target_says(situation)) == ("hold", "target_busy")


def test_nothing_to_pause_is_not_said_while_the_target_is_unsettled() -> None:
    facts = {"event": NULL_STATUS}
    situation = a_situation(a_write("pause"), facts=facts, on_target=(another("run", "unknown"),))
    assert said(target_says(situation)) == ("hold", "target_busy")


def test_what_was_sent_before_and_is_there_after_all_is_confirmed() -> None:
    sent = a_write("pause", attempt=1, extra_attempts=1)
    so = {"event": event_fact(client_campaign_status="PAUSED")}
    assert said(seen_after_all(a_situation(sent, facts=so))) == ("confirm", "read")
    unwanted = a_situation(sent, facts=so, judgement=Judgement(truth=Truth.FALSE, why="no"))
    no = first_no(AFTER_READING, unwanted)
    assert no is not None
    assert no.way == "confirm", "presence confirms also what is not wanted any more"
    never_left = replace(sent, uncounted=1)
    assert seen_after_all(a_situation(never_left, facts=so)) is None
    assert said(target_says(a_situation(never_left, facts=so))) == ("skip", "already_so"), "it was never sent"
    assert seen_after_all(a_situation(sent, facts={"event": event_fact(client_campaign_status="RUNNING")})) is None
    beside = a_situation(sent, facts=so, on_target=(another("run", "unknown", 8),))
    assert seen_after_all(beside) is None, "another write may have done it"
    settled = a_situation(sent, facts=so, on_target=(replace(another("run", "needs_human", 8), absent_proved=True),))
    assert said(seen_after_all(settled)) == ("confirm", "read"), "a write proved absent holds its target no more"


# --- drafts and budgets --------------------------------------------------------------------------------------------


@cases(
    "setup, expected",
    (setup_fact("DRAFT"), None, "the draft that was created"),
    (setup_fact("DRAFT", total_budget=500, name="x"), None, "the same values"),
    (setup_fact("DRAFT", total_budget=900.0), ("refuse", "other_value"), "somebody changed its budget"),
    (setup_fact("DRAFT", goal="VISIBILITY"), ("refuse", "other_value"), "somebody changed its goal"),
    (
        setup_fact("DRAFT", gaps={"goal": MISSING_GAP}),
        ("hold", "target_unreadable"),
        "whether it is ours is not known",
    ),
    (
        setup_fact("DRAFT", gaps={"goal": MISSING_GAP}, total_budget=900.0),
        ("refuse", "other_value"),
        "its budget alone shows that it is another",
    ),
    (unreadable(), ("hold", "target_unreadable"), "nothing is boosted that cannot be read"),
    (a_fact("x"), ("hold", "target_unreadable"), "so is one of no usable form"),
)
def test_after_create_draft_only_the_created_draft_is_boosted(setup: Fact, expected: tuple[Way, str] | None) -> None:
    made = another("create_draft", "confirmed")
    situation = a_situation(a_write("boost"), earlier=(another("pause", "confirmed", 2), made), facts={"setup": setup})
    assert said(created_here(situation)) == expected


def test_only_a_boost_needs_the_draft_that_was_created() -> None:
    made = another("create_draft", "confirmed")
    facts = {"setup": setup_fact("DRAFT", total_budget=900.0)}
    assert created_here(a_situation(a_write("pause"), facts=facts, earlier=(made,))) is None


def test_every_total_budget_of_a_write_must_be_in_the_range_however_it_is_spelled() -> None:
    spelled: dict[str, Json] = {"total_budget": 500, "totalBudget": "1000.1"}
    assert said(budget_in_range(a_situation(a_write("create_draft", params=spelled)))) == ("refuse", "budget_range")
    cap = a_write("edit_cluster", params={"tc": "a", "tc_run_id": 1, "bid_cap": 5000})
    assert budget_in_range(a_situation(cap)) is None, "other money has no range"
    assert budget_of(a_situation(cap)) == 5000


def test_a_boost_spends_all_the_money_of_the_draft_and_the_range_is_for_its_total_budget() -> None:
    more: dict[str, Json] = {"daily_budget": 99999, "lifetime": {"spend_cap": 99999}}
    draft = a_fact({"state": "DRAFT", "total_budget": 100.0, **more})
    boost = a_situation(a_write("boost"), facts={"setup": draft})
    assert budget_of(boost) == 200098
    assert budget_in_range(boost) is None
    shown = wanted(boost.write.intent, "", {"state": "DRAFT", "total_budget": 100.0, **more})
    assert shown.amount == budget_of(boost), "whoever approves it is shown what is counted"
    assert as_approved(replace(boost, approved_amount=shown.amount)) is None
    assert said(as_approved(replace(boost, approved_amount=100.0))) == ("ask", "moved")


@cases(
    "fact",
    (unreadable(), "the range cannot be read"),
    (a_fact([]), "it has no usable form"),
    (a_fact({"lower_limit": 1}), "it lacks its upper end"),
    (a_fact({"upper_limit": 1}), "it lacks its lower end"),
    (a_fact({"lower_limit": None, "upper_limit": 9}), "null is no limit"),
)
def test_a_range_that_is_not_known_holds(fact: Fact) -> None:
    situation = a_situation(a_write("create_draft"), facts={"budget_range": fact})
    assert said(budget_in_range(situation)) == ("hold", "fact_unknown")


@cases(
    "write, setup",
    (a_write("boost"), setup_fact("DRAFT", gaps={"total_budget": MISSING_GAP}), "the draft's budget is missing"),
    (a_write("boost"), setup_fact("DRAFT", total_budget=True), "a boolean is no budget"),
    (a_write("boost"), unreadable(), "the draft cannot be read"),
    (a_write("create_draft", params={"total_budget": "much"}), setup_fact("NONE"), "a text is no budget"),
    (a_write("edit_cluster", params={"budget": "much"}), setup_fact("PUBLISHED"), "nor of a cluster"),
)
def test_a_budget_that_is_not_known_holds(write: Write, setup: Fact) -> None:
    situation = a_situation(write, facts={"setup": setup})
    assert said(budget_in_range(situation)) == ("hold", "target_unreadable")
    assert budget_of(situation) is None


# --- order ---------------------------------------------------------------------------------------------------------

Changes = Callable[[Situation], Situation]


def with_facts(**facts: Fact) -> Changes:
    return lambda situation: replace(situation, facts={**situation.facts, **facts})


def left_otherwise(situation: Situation) -> Situation:
    """The write is an undo, and the draft's goal is not what the undone write left."""
    return replace(situation, left={"goal": "VISIBILITY"})


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
    ("no_longer_holds", lambda one: replace(one, judgement=Judgement(truth=Truth.FALSE, why="no"))),
    ("no_draft", with_facts(setup=setup_fact("NONE"))),
    ("already_so", with_facts(setup=setup_fact("PUBLISHED"))),
    ("moved", computed_from_another_value),
    ("moved", lambda one: replace(one, approved_amount=1.0)),
    ("changed_since", left_otherwise),
    ("other_value", with_earlier(a_write("create_draft", "confirmed", params={"total_budget": 1.0}))),
    ("budget_range", with_facts(budget_range=budget_range_fact(1.0, 2.0))),
]


@pytest.mark.parametrize(
    ("state", "undo", "way"),
    [
        ("unknown", "planned", "drop"),
        ("planned", "planned", "skip"),
        ("unknown", "waiting", "hold"),
        ("planned", "waiting", "hold"),
    ],
)
def test_a_write_that_is_to_be_put_back_is_not_sent_and_ends_once_that_is_certain(
    state: State, undo: State, way: str
) -> None:
    situation = a_situation(a_write("boost", state))
    no = put_back(replace(situation, put_back_by=another("pause", undo, 9)))
    assert no is not None
    assert (no.way, no.reason) == (way, "undo")
    assert "9" in no.why
    assert put_back(situation) is None


@pytest.mark.parametrize(("guards", "objections"), [(BEFORE_READING, BEFORE), (AFTER_READING, AFTER)])
def test_the_first_guard_that_objects_wins(
    guards: tuple[Callable[[Situation], No | None], ...], objections: list[tuple[str, Changes]]
) -> None:
    guards = tuple(guard for guard in guards if guard not in (seen_after_all, held_over, item_there, other_half))
    assert len(guards) == len(objections), "every guard has its place here"
    for first in range(len(objections)):
        situation = a_situation(a_write("boost"))
        for _, change in reversed(objections[first:]):
            situation = change(situation)
        no = first_no(guards, situation)
        assert no is not None
        assert no.reason == objections[first][0]


def test_a_brake_of_the_transaction_that_lasts_too_long_asks_a_person() -> None:
    brake = Hold(reason="halt", why="wait", until=None)
    young = a_situation(a_write("boost"))
    assert said(as_no(young, brake)) == ("hold", "halt")
    old = replace(young, now=young.write.changed_at + young.limits.held_longer_than + timedelta(seconds=1))
    assert said(as_no(old, brake)) == ("ask", "gap")
    for reason in ("spend", "writes_per_hour"):
        assert said(as_no(old, replace(brake, reason=reason))) == ("hold", reason), "nobody is asked to go beyond it"


def test_what_a_spending_limit_held_for_long_is_out_of_date_and_nothing_else_is() -> None:
    long_ago = NOW - timedelta(hours=2)
    held = a_situation(a_write("boost", held_by="spend", due_since=long_ago))
    assert out_of_date(held) == "a spending limit held it for longer than 1:00:00"
    assert out_of_date(a_situation(a_write("boost", held_by="spend"))) is None
    assert out_of_date(a_situation(a_write("boost", held_by="halt", due_since=long_ago))) is None
    assert out_of_date(a_situation(a_write("boost", "unknown", held_by="spend", due_since=long_ago))) is None
    assert held_over(held) is None, "and it asks nobody"


# --- held for too long ---------------------------------------------------------------------------------------------

LIMIT = timedelta(hours=1)


@cases(
    "age, expected",
    (LIMIT, ("hold", "halt"), "an hour is not longer than an hour"),
    (LIMIT + timedelta(seconds=1), ("ask", "gap"), "after that it would go off at an odd hour"),
)
def test_a_write_held_for_too_long_waits_for_approval(age: timedelta, expected: tuple[Way, str]) -> None:
    situation = a_situation(a_write(due_since=NOW - age), halts=(a_halt(),))
    assert said(first_no(BEFORE_READING, situation)) == expected


def test_what_waits_for_approval_says_what_held_it() -> None:
    no = first_no(BEFORE_READING, a_situation(a_write(due_since=NOW - 2 * LIMIT), halts=(a_halt(),)))
    assert no is not None
    assert "halt: halted by ann" in no.why


def test_an_old_write_that_nothing_holds_any_more_waits_as_well() -> None:
    assert said(first_no(BEFORE_READING, a_situation(a_write(due_since=NOW - 2 * LIMIT)))) == ("ask", "gap")


@cases(
    "first, expected",
    (a_write(held_by="writes_per_hour"), ("hold", "sequence"), "what holds the one before it is asked of nobody"),
    (a_write(held_by="halt"), ("ask", "gap"), "that one asks as well"),
    (a_write(state="applied", first_sent_at=NOW), ("hold", "sequence"), "it could not have been sent before"),
    (a_write(state="needs_human", first_sent_at=NOW - 2 * LIMIT), ("ask", "gap"), "somebody was long about it"),
    (a_write(state="skipped", reason="already_so"), None, "nor before that one ended, unsent"),
)
def test_a_step_is_held_as_the_one_that_it_follows(first: Write, expected: tuple[Way, str] | None) -> None:
    step = a_write(due_since=NOW - 2 * LIMIT)
    assert said(first_no(BEFORE_READING, a_situation(step, earlier=(first,)))) == expected


def test_an_unknown_write_never_waits_for_approval() -> None:
    write = a_write(state="unknown", due_since=NOW - 2 * LIMIT)
    assert said(first_no(BEFORE_READING, a_situation(write, halts=(a_halt(),)))) == ("hold", "halt")


def test_what_ends_a_write_ends_it_however_old_it_is() -> None:
    situation = a_situation(a_write("boost", due_since=NOW - 2 * LIMIT), facts={"setup": setup_fact("NONE")})
    assert said(first_no(AFTER_READING, situation)) == ("refuse", "no_draft")


ROCK: Mapping[str, Json] = {"tc": "rock", "tc_run_id": 7}


@cases(
    "of, fact, expected",
    ("campaigns", a_fact([dict(ROCK)]), None, "it is there"),
    ("campaigns", a_fact([{**ROCK, "tc_run_id": 8}]), ("refuse", "gone"), "that is another run"),
    ("campaigns", a_fact([]), ("refuse", "gone"), "nothing is"),
    ("campaigns", unreadable(), ("hold", "target_unreadable"), "nobody knows"),
    ("campaigns", a_fact({}), ("hold", "target_unreadable"), "it is no list"),
    ("clusters", a_fact([{"tc": "rock"}]), None, "a cluster goes by its name"),
    ("clusters", a_fact([{"tc": "jazz"}, "rock"]), ("refuse", "gone"), "another one"),
    ("added", a_fact([]), None, "what was added is judged by the change"),
)
def test_an_item_must_be_in_its_list_still(of: str, fact: Fact, expected: tuple[Way, str] | None) -> None:
    write = a_write("edit_cluster", params={**ROCK, "budget": 5.0})
    write = replace(write, intent=replace(write.intent, context={"each": of}))
    assert said(item_there(a_situation(write, facts={of: fact}))) == expected
    assert item_there(a_situation(replace(write, attempt=1), facts={of: fact})) is None, "once sent, reads settle it"


def test_a_wait_counts_from_the_confirmation_of_the_step_before_or_from_its_planning() -> None:
    wait = a_write("wait", params={"value": 3600.0})
    done = a_write("pause", "confirmed", changed_at=NOW + timedelta(minutes=5))
    assert waited(a_situation(wait)).until == NOW + timedelta(hours=1)
    assert waited(a_situation(wait, earlier=(done,))).until == NOW + timedelta(hours=1, minutes=5)
    assert said(first_no(OF_WAITS, a_situation(wait, earlier=(replace(done, state="sending"),)))) == (
        "hold",
        "sequence",
    )
    assert waited(a_situation(a_write("wait", params={"value": "x"}))).until == NOW
