"""An undo puts back only what the undone writes left, and judges nothing else by it."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tests.builders import MISSING_GAP, a_situation, a_write, cases, event_fact, setup_fact
from worker.guards import AFTER_READING, Situation, as_it_was_left, first_no
from worker.model.facts import Fact, Json
from worker.model.writes import NO_RULE, Write


def an_undo(action: str = "run", left: dict[str, Json] | None = None, item: str = "") -> Write:
    write = a_write(action, item=item, params={"value": "FLAGGED"} if action == "frontend_status" else None)
    context: dict[str, Json] = {"undoes": [1], "left": left or {"client_campaign_status": "PAUSED"}}
    key = replace(write.key, rule=NO_RULE)
    return replace(write, key=key, rules=(), intent=replace(write.intent, context=context))


def about(write: Write, facts: Mapping[str, Fact]) -> Situation:
    """The write, and where it is an undo what it must find: all that it undoes may have had an effect."""
    left = write.intent.context.get("left")
    return replace(a_situation(write, facts=facts), left=left if isinstance(left, dict) else None)


@cases(
    "undo, facts, expected",
    (an_undo(), {"event": event_fact(client_campaign_status="PAUSED")}, None, "as it was left"),
    (an_undo(), {"event": event_fact(client_campaign_status="STOPPED")}, "changed_since", "a third value"),
    (an_undo(), {"event": event_fact(client_campaign_status="RUNNING")}, "already_so", "put back already"),
    (
        an_undo(),
        {"event": event_fact(gaps={"client_campaign_status": MISSING_GAP})},
        "target_unreadable",
        "what cannot be read has not changed",
    ),
    (
        an_undo("frontend_status", {"frontend_status": "HIDDEN"}, "event"),
        {"event": event_fact(frontend_status="CANCELLED")},
        "changed_since",
        "somebody set another value",
    ),
    (
        an_undo("frontend_status", {"frontend_status": "HIDDEN"}, "cr"),
        {"event": event_fact(frontend_status="FLAGGED")},
        None,
        "the second half follows the first, whose effect is what is read",
    ),
    (
        an_undo("boost", {"goal": "ROAS", "total_budget": 500.0}),
        {"setup": setup_fact(total_budget=700.0)},
        "changed_since",
        "a record is compared by the fields that were changed",
    ),
    (an_undo("boost", {"goal": "ROAS"}), {"setup": setup_fact(total_budget=700.0)}, None, "and by no other"),
    (a_write("run"), {"event": event_fact(client_campaign_status="STOPPED")}, None, "a rule's write is no undo"),
)
def test_what_another_hand_has_set_since_is_left_alone(
    undo: Write, facts: dict[str, Fact], expected: str | None
) -> None:
    no = first_no(AFTER_READING, about(undo, facts))
    assert (no.reason if no is not None else None) == expected


def test_the_words_say_what_is_there_and_what_was_left() -> None:
    no = as_it_was_left(about(an_undo(), {"event": event_fact(client_campaign_status="STOPPED")}))
    assert no is not None
    assert no.way == "skip"
    assert no.why.endswith("client_campaign_status reads 'STOPPED' and was left as 'PAUSED'")


def test_a_value_that_another_hand_has_set_back_is_that_hands_and_stays() -> None:
    facts = {"event": event_fact(client_campaign_status="PAUSED")}
    situation = replace(about(an_undo(), facts), touched="another hand has changed it since, to 'RUNNING'")
    no = first_no(AFTER_READING, situation)
    assert no is not None
    assert (no.way, no.reason) == ("skip", "changed_since")
    assert no.why == situation.touched


@pytest.mark.parametrize(
    ("read", "unread", "expected"),
    [
        (500, True, None),  # what was left, shown rounded: nobody has changed it
        (500, False, "changed_since"),  # a read has shown 500.4, so this service does not round
        (499, True, "changed_since"),
        (300, True, "already_so"),
    ],
)
def test_what_may_be_what_was_left_shown_rounded_counts_as_left(
    read: float, unread: bool, expected: str | None
) -> None:
    write = an_undo("update_draft", {"total_budget": 500.4})
    write = replace(write, intent=replace(write.intent, wanted={"total_budget": 300.0}))
    situation = about(write, {"setup": setup_fact(state="DRAFT", total_budget=read)})
    no = first_no(AFTER_READING, replace(situation, left_unread=unread))
    assert (no.reason if no is not None else None) == expected
