"""In which state of the setup a write is taken, and what was made of a draft before it is published."""

import pytest

from tests.builders import LIMITS, MISSING_GAP, NOW, a_fact, a_situation, a_write, setup_fact, unreadable
from worker.guards import created_here, held_in_transaction, seen_after_all, setup_state, target_free, target_says
from worker.model.commits import SendingView
from worker.model.facts import Fact, Json, WriteId
from worker.writes.intents import holds_back

CLUSTER: dict[str, Json] = {"tc": "rock", "tc_run_id": 7, "budget": 500.0}


@pytest.mark.parametrize(
    ("action", "state", "expected"),
    [
        ("boost", "NONE", ("refuse", "no_draft")),
        ("boost", "DRAFT", None),
        ("boost", "PUBLISHED", None),
        ("update_draft", "NONE", ("refuse", "no_draft")),
        ("update_draft", "DRAFT", None),
        ("update_draft", "PUBLISHED", ("refuse", "no_draft")),
        ("edit_cluster", "NONE", ("refuse", "not_published")),
        ("edit_cluster", "DRAFT", ("refuse", "not_published")),
        ("edit_cluster", "PUBLISHED", None),
        ("create_draft", "PUBLISHED", None),
        ("create_campaign", "NONE", None),
        ("reset_setup", "NONE", None),
        ("pause", "NONE", None),
    ],
)
def test_a_write_is_sent_only_in_a_state_in_which_the_service_takes_it(
    action: str, state: str, expected: tuple[str, str] | None
) -> None:
    no = setup_state(a_situation(a_write(action, params=CLUSTER), facts={"setup": setup_fact(state)}))
    assert (None if no is None else (no.way, no.reason)) == expected
    assert no is None or no.why


@pytest.mark.parametrize("fact", [unreadable(), a_fact([]), setup_fact(gaps={"state": MISSING_GAP})])
def test_a_state_that_cannot_be_read_holds_the_write(fact: Fact) -> None:
    no = setup_state(a_situation(a_write("edit_cluster", params=CLUSTER), facts={"setup": fact}))
    assert no is not None
    assert (no.way, no.reason) == ("hold", "target_unreadable")


def test_a_draft_may_have_become_what_later_steps_made_of_it() -> None:
    created = a_write("create_draft", "confirmed", params={"goal": "ROAS", "total_budget": 500.0}, id=WriteId(7))
    updated = a_write("update_draft", "confirmed", params={"total_budget": 750.0, "name": "x"}, id=WriteId(8))
    earlier = (created, updated)
    good = a_situation(a_write("boost"), earlier=earlier, facts={"setup": setup_fact(total_budget=750.0, name="x")})
    assert created_here(good) is None
    bad = created_here(a_situation(a_write("boost"), earlier=earlier, facts={"setup": setup_fact()}))
    assert bad is not None
    assert (bad.way, bad.reason) == ("refuse", "other_value")
    alone = a_situation(a_write("boost"), earlier=(updated,), facts={"setup": setup_fact()})
    assert created_here(alone) is None, "a draft that the rule did not create may be as it is"


def test_what_cannot_be_read_back_is_never_already_so() -> None:
    assert target_says(a_situation(a_write("reset_setup"))) is None
    assert seen_after_all(a_situation(a_write("reset_setup", attempt=1))) is None


def test_a_message_waits_for_no_other_and_counts_among_no_writes_of_an_hour() -> None:
    message = a_write("notify", params={"value": "x"}, id=WriteId(5))
    other = a_write("notify", "needs_human", params={"value": "x"}, id=WriteId(3))
    assert not holds_back(other, message)
    assert target_free(a_situation(message, on_target=(other,))) is None
    many = SendingView(sent_last_hour=(NOW,) * 120)
    assert held_in_transaction(message, None, LIMITS, NOW, many) is None
    assert held_in_transaction(a_write("run"), None, LIMITS, NOW, many) is not None


def test_changes_of_a_draft_keep_their_order_also_while_one_is_held() -> None:
    older = a_write("update_draft", params={"total_budget": 1.0}, id=WriteId(3))
    newer = a_write("update_draft", params={"goal": "ROAS"}, id=WriteId(5))
    assert holds_back(older, newer)
    assert not holds_back(newer, older)
    assert not holds_back(newer, newer)
    assert not holds_back(a_write("boost", id=WriteId(3)), newer), "a boost that was not sent orders nothing"
    assert not holds_back(a_write("run", id=WriteId(3)), a_write("run", id=WriteId(5))), "only drafts have an order"
    assert holds_back(a_write("boost", "unknown", id=WriteId(9)), newer), "it may have an effect"
