"""An undo puts back only what the undone writes left, and judges nothing else by it."""

from dataclasses import replace

from tests.builders import MISSING_GAP, a_situation, a_write, cases, event_fact, setup_fact
from tests.unit.guards.test_checks import after_reading, said, the_no
from worker.guards import Situation, as_it_was_left
from worker.model.facts import Fact, Json
from worker.model.writes import NO_RULE, Write


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


LACKS = event_fact(gaps={"client_campaign_status": MISSING_GAP})
HALVES = [an_undo("frontend_status", {"frontend_status": "HIDDEN"}, item) for item in ("event", "cr")]
DRAFT: dict[str, Json] = {"goal": "ROAS", "total_budget": 500.0}


@cases(
    "situation, expected",
    (about(an_undo(), event=status("PAUSED")), None, "as it was left"),
    (about(an_undo(), event=status("STOPPED")), "skip changed_since", "a third value"),
    (about(an_undo(), event=status("RUNNING")), "skip already_so", "put back already"),
    (about(an_undo(), event=LACKS), "hold target_unreadable", "what cannot be read has not changed"),
    (about(HALVES[0], event=status("CANCELLED")), "skip changed_since", "somebody set another value"),
    (about(HALVES[1], event=status("FLAGGED")), None, "the second half follows the first, which is what is read"),
    (
        about(an_undo("boost", DRAFT), setup=setup_fact(total_budget=700.0)),
        "skip changed_since",
        "a record is compared by the fields that were changed",
    ),
    (about(an_undo("boost", {"goal": "ROAS"}), setup=setup_fact(total_budget=700.0)), None, "and by no other"),
    (about(a_write("run"), event=status("STOPPED")), None, "a rule's write is no undo"),
)
def test_what_another_hand_has_set_since_is_left_alone(situation: Situation, expected: str | None) -> None:
    assert said(after_reading(situation)) == expected


def test_the_words_say_what_is_there_and_what_was_left() -> None:
    no = the_no(as_it_was_left, about(an_undo(), event=status("STOPPED")))
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
def test_what_may_be_what_was_left_shown_rounded_counts_as_left(
    read: float, unread: bool, expected: str | None
) -> None:
    write = an_undo("update_draft", {"total_budget": 500.4})
    write = replace(write, intent=replace(write.intent, wanted={"total_budget": 300.0}))
    situation = about(write, setup=setup_fact(total_budget=read))
    assert said(after_reading(replace(situation, left_unread=unread))) == expected
