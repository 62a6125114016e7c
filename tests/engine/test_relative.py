"""Values computed from what their own action writes: sent only against the value that they were computed from."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.worlds import Town, draft, in_town, world
from worker.engine.explaining import wanted_of
from worker.engine.operators import approved
from worker.engine.views import DecidingSettings as Deciding
from worker.logs import tell
from worker.messages import note_of
from worker.model.writes import Mode
from worker.sandbox.world import Happening

DRAFTS = "/setup_processes/"
MORE = """
rules:
  - id: a-fifth-more
    when: event.frontend_status == 'FLAGGED'
    cooldown: 1h
    do: [{update_draft: {total_budget: "=setup.total_budget * 1.2"}}]
"""
CLUSTER = """
rules:
  - id: more-for-the-cluster
    when: event.frontend_status == 'FLAGGED'
    limit: {per_event_per_day: 1}
    do:
      - edit_cluster: {tc: jazz, tc_run_id: 1, budget: "=campaigns.filter(c, c.tc == 'jazz')[0]['budget'] * 1.2"}
"""


def budget(here: Town, amount: float, event: str = "e1") -> None:
    """A hand in the service's own screens."""
    here.change(event, by="person", setup={"goal": "ROAS", "total_budget": amount})


def in_mode(mode: Mode) -> Deciding:
    return replace(Deciding(), mode=mode)


def sent(here: Town) -> list[Any]:
    return [one.after["total_budget"] for one in here.effects("update_setup")]


async def waiting(here: Town) -> None:
    """The raise of 100 to 120 waits for approval."""
    await here.sees("waiting", frontend_status="FLAGGED")
    assert here.only.intent.params == {"total_budget": 120.0}


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(draft("e1", total_budget=100)), MORE, deciding=in_mode("approve"))
async def test_an_approved_raise_of_100_does_not_go_out_once_a_hand_has_set_50(here: Town, restarted: bool) -> None:
    await waiting(here)
    budget(here, 50)
    if restarted:
        await here.restart()
    await here.run(10)
    here.decide(approved)
    here.tell(tell)
    with capture_logs() as lines:
        await here.until(lambda: here.only.final, "it ends")
    assert (here.only.state, here.only.reason, here.only.attempt) == ("skipped", "moved", 0), here.story()
    assert "total_budget reads 50" in here.only.why
    assert "computed from 100" in here.only.why
    (line,) = [one for one in lines if one.get("reason") == "moved"]
    assert (line["event"], line["log_level"], line["write"]) == ("recorded", "warning", 1)
    item = note_of(here.log("skipped")[0], frozenset({"moved"}))
    assert item is not None, "who asks for it by notify.on is told"
    assert "it had been approved as it was" in item.text, "who approved it must hear of it"
    await here.run(300)
    assert here.states() == ["skipped"], "the episode has fired"
    assert here.effects() == []


@pytest.mark.parametrize(
    ("rules", "hands"),
    [(MORE, [50, 100]), (MORE.replace('"=setup.total_budget * 1.2"', "500"), [50, 50])],
    ids=["nothing has moved in the end", "a literal budget"],
)
@in_town(world(draft("e1", total_budget=100)), lambda rules: rules, deciding=in_mode("approve"))
async def test_an_approved_raise_goes_out_where_its_ground_has_not_moved(here: Town, hands: list[float]) -> None:
    await here.sees("waiting", frontend_status="FLAGGED")
    for amount in hands:
        await here.run(10)  # no look has seen the last of them: what counts is the read before the write
        budget(here, amount)
    here.decide(approved)
    await here.until(lambda: here.states() == ["confirmed"], "raised to 120, or set to 500")
    assert len(here.effects()) == 1


@in_town(world(draft("e1", total_budget=100)), MORE)
async def test_an_attempt_proved_absent_is_sent_again_against_the_value_that_it_was_computed_from(here: Town) -> None:
    here.fault("answer_before", "PUT", DRAFTS, status=500)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["confirmed"], "raised at the second attempt")
    assert here.only.attempt == 2
    assert len(here.effects()) == 1


@in_town(world(draft("e1", total_budget=100)), MORE, ask=True)
async def test_one_more_attempt_after_not_applied_meets_the_same_guard(here: Town) -> None:
    here.fault("answer_before", "PUT", DRAFTS, status=500)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["needs_human"], "asked")
    budget(here, 50)
    here.resolve(here.only, applied=False)
    await here.until(lambda: here.only.final, "it ends")
    assert (here.only.state, here.only.reason, here.only.attempt) == ("skipped", "moved", 1), here.story()
    assert here.effects() == []


def rows(jazz: float, soul: float = 50) -> list[dict[str, Any]]:
    return [
        {"tc": "jazz", "tc_run_id": 1, "budget": jazz, "bid": 1},
        {"tc": "soul", "tc_run_id": 1, "budget": soul, "bid": 1},
    ]


def edit(here: Town, event: str, *campaigns: dict[str, Any]) -> None:
    """A hand in the service's own screens."""
    here.change(event, by="person", campaigns=list(campaigns))


def published(eid: str) -> Happening:
    return replace(draft(eid), published=True, campaigns=tuple(rows(20)))


@in_town(world(published("e1")), CLUSTER.replace("budget: ", "extra: {bid: ").replace('* 1.2"}', '* 0.1"}}'))
async def test_what_is_proved_absent_is_not_sent_again_once_what_it_was_computed_from_has_moved(here: Town) -> None:
    """The bid reads as before, so the attempt had no effect; the budget, of which it is a tenth, is another."""
    here.fault("answer_before", "POST", "/campaigns_setup$", status=500)
    await here.sees("unknown", frontend_status="FLAGGED")
    edit(here, "e1", *rows(30))
    await here.until(lambda: here.only.final, "it ends")
    assert (here.only.state, here.only.reason, here.only.attempt) == ("skipped", "moved", 1), here.story()
    assert "proved absent" in here.only.why


@in_town(world(published("e1"), published("e2")), CLUSTER, deciding=in_mode("approve"), watched=6)
async def test_a_clusters_budget_is_compared_in_its_own_row(here: Town) -> None:
    here.set("e1", frontend_status="FLAGGED")
    here.set("e2", frontend_status="FLAGGED")
    await here.until(lambda: here.states() == ["waiting", "waiting"], "both wait")
    assert [write.intent.params["budget"] for write in here.writes()] == [24.0, 24.0]
    edit(here, "e1", *rows(20, soul=90))
    edit(here, "e2", *rows(21))
    here.decide(approved)
    await here.until(lambda: all(write.final for write in here.writes()), "both end")
    ends = {str(write.key.event): (write.state, write.reason) for write in here.writes()}
    assert ends["e1"] == ("confirmed", "read"), "another cluster is nobody's business"
    assert ends["e2"] == ("skipped", "moved"), here.story()


BOOST_ASKED = """
rules:
  - id: boost-drafts
    mode: approve
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
"""


def yes(here: Town) -> None:
    here.decide(partial(approved, amount=wanted_of(here.ledger, here.only).amount))


@in_town(world(draft("e1", total_budget=500)), BOOST_ASKED)
async def test_an_approved_boost_that_is_proved_absent_is_asked_about_where_it_spends_more_by_now(here: Town) -> None:
    """It is still wanted: an operator is asked. What else of a draft is money is not compared with what was before."""
    await here.until(lambda: here.states() == ["waiting"], "it waits")
    yes(here)
    here.fault("answer_before", "POST", "/boost$", status=500)
    await here.until(lambda: here.states() == ["unknown"], "nobody knows")
    here.change("e1", by="person", setup={"goal": "ROAS", "total_budget": 500, "daily_spend": 900})
    await here.until(lambda: here.only.final or here.only.state == "needs_human", "it ends")
    assert here.only.state == "needs_human", here.story()


@in_town(world(draft("e1", total_budget=500)), BOOST_ASKED)
async def test_an_approved_boost_of_500_does_not_publish_a_draft_of_5000(here: Town) -> None:
    """Nobody approves blind: what was shown is what the yes was to. A draft that is cheaper by then goes out."""
    await here.until(lambda: here.states() == ["waiting"], "it waits")
    yes(here)
    budget(here, 5000)
    await here.until(lambda: here.states() == ["waiting"] and here.only.reason == "moved", "it is asked again")
    assert "500 was approved, and it spends 5000 by now" in here.only.why
    assert here.effects("boost") == []
    yes(here)
    budget(here, 4000)
    await here.until(lambda: here.states() == ["confirmed"], "it goes out")
