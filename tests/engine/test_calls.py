"""Writes that a rule makes by hand, and messages, through the twin."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import PARTNER, QUICK, Town, happening, in_town, plays, world
from worker.engine.operators import approved
from worker.guards import Limits
from worker.sandbox.faults import Kind

EDIT = """
rules:
  - id: r
    when: event.status == 'cancelled'
    do:
      - write:
          host: cr
          method: PUT
          path: /events/{eid}
          query: {event_type: concert, partner_product: campaign, hall_name: "closed for {client_id}"}
          spends: false
        confirm: {get: "/events/{eid}", when: response.hall_name.startsWith('closed')}
"""
CLEAR = """
rules:
  - id: r
    when: event.status == 'cancelled'
    do: [{write: {method: DELETE, path: /daily_revenue_summary, query: {eid: "{eid}"}}}]
"""


def fires(here: Town) -> None:
    here.set("e1", status="cancelled")


def hall(here: Town) -> Any:  # noqa: ANN401 - a field of the twin's record
    found = here.twin.world.at(PARTNER, "e1")
    assert found is not None
    return found.record["hall_name"]


@pytest.mark.parametrize(
    ("kind", "params", "sent"),
    [
        ("slow", {"delay_s": 1}, 1),
        ("answer_after", {"status": 429}, 1),
        ("answer_before", {"status": 429}, 2),
        ("cut_after", {}, 1),
        ("late_effect", {"status": 503, "after_s": 12.0}, 1),
    ],
)
@in_town(world(happening("e1")), EDIT)
async def test_a_write_with_confirm_takes_effect_once_whatever_becomes_of_the_answer(
    here: Town, kind: Kind, params: dict[str, object], sent: int
) -> None:
    await here.run(6)
    here.fault(kind, "PUT", "^/events/e1$", **params)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed"], "confirm.when is true of a fresh GET")
    assert hall(here) == f"closed for client of {PARTNER}"
    assert (here.only.confirmed_by, here.only.intent.spends) == ("read", False)
    assert (here.twin.books.writes_sent, len(here.effects())) == (sent, 1)
    assert here.only.before["when"] is False  # type: ignore[index,call-overload]


@in_town(world(happening("e1", hall_name="closed")), EDIT)
async def test_a_write_whose_confirm_is_true_already_is_not_sent(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["skipped"], "so already")
    assert (here.only.reason, here.twin.books.writes_sent) == ("already_so", 0)


@in_town(world(happening("e1", hall_name=7)), EDIT)
async def test_a_write_whose_confirm_cannot_be_judged_is_held(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.run(30)
    assert (here.states(), here.only.held_by) == (["planned"], "target_unreadable")
    assert "startsWith" in here.only.why, "a number does not start with anything"
    here.set("e1", hall_name="Halle A")
    await here.until(lambda: here.states() == ["confirmed"], "once it can")


@in_town(world(happening("e1")), EDIT)
async def test_another_hands_change_under_an_unknown_write_goes_to_a_person(here: Town) -> None:
    await here.run(6)
    here.fault("answer_before", "PUT", "^/events/e1$", status=429)
    fires(here)
    await here.until(lambda: here.states() == ["unknown"], "nobody knows")
    here.set("e1", by="person", hall_name="Halle B")
    await here.until(lambda: here.states() == ["needs_human"], "it reads neither as before nor as wanted")
    assert (here.only.reason, here.twin.books.writes_sent) == ("third_value", 1)


@in_town(
    world(happening("e1")),
    EDIT.replace('get: "/events/{eid}", when: response.hall_name', 'get: "/nowhere/{eid}", when: response.x'),
)
async def test_what_confirm_does_not_find_is_not_there_only_if_the_event_answers(here: Town) -> None:
    await here.run(6)
    here.fault("answer_before", "PUT", "^/events/e1$", status=429, times=9)
    fires(here)
    await here.until(lambda: here.states() == ["needs_human"], "each attempt is proved absent")
    assert (here.only.reason, here.only.attempt) == ("attempts", 3)
    assert here.effects() == []


@in_town(world(happening("e1"), happening("e2")), EDIT[: EDIT.index("        confirm:")])
async def test_without_confirm_the_answer_confirms_and_an_unknown_outcome_is_for_a_person(here: Town) -> None:
    await here.run(6)
    here.fault("cut_after", "PUT", "^/events/e2$")
    fires(here)
    here.set("e2", status="cancelled")
    await here.until(lambda: sorted(here.states()) == ["confirmed", "needs_human"], "one answered, one lost")
    assert {write.confirmed_by for write in here.writes()} == {"answer", None}


@in_town(world(happening("e1")), CLEAR)
async def test_a_delete_waits_for_a_person_in_live_mode_too(here: Town) -> None:
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["waiting"], "a person must let it go")
    await here.run(30)
    assert (here.only.reason, here.twin.books.writes_sent) == ("delete", 0)
    here.decide(approved)
    await here.until(lambda: here.states() == ["confirmed"], "and then it goes")
    assert [one.operation for one in here.effects()] == ["clear_sales"]


# --- messages ------------------------------------------------------------------------------------------------------

TELL = """
rules:
  - id: r
    when: event.status == 'cancelled'
    do: [pause, {notify: "=event.title + ' is paused'"}]
"""


@in_town(world(happening("e1")), TELL)
async def test_a_message_goes_out_once_after_the_step_before_it_is_confirmed(here: Town) -> None:
    await here.run(6)
    here.fault("answer_after", "PUT", "/client_campaign_status$", status=429)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "paused, and told")
    assert [(one.text, one.event, one.rule) for one in here.notebook.messages] == [("Event e1 is paused", "e1", "r")]
    confirmed = [one["write"] for one in here.log("confirmed")]
    assert confirmed == [1, 2]
    assert here.twin.books.writes_sent == 1, "a message asks nothing of the service"
    assert here.writes()[1].confirmed_by == "answer"
    request = next(one["request"] for one in here.log("sending") if one["write"] == 2)
    assert request == {"method": "NOTIFY", "url": "message", "body": "Event e1 is paused"}


@in_town(world(happening("e1")), TELL)
async def test_a_message_that_is_not_taken_is_handed_over_again(here: Town) -> None:
    here.notebook.fails = 2
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "told in the end")
    assert (len(here.notebook.messages), here.writes()[1].attempt) == (1, 3)


@in_town(world(happening("e1")), TELL)
async def test_a_message_of_which_nobody_knows_whether_it_was_taken_is_not_sent_twice(here: Town) -> None:
    here.notebook.slow_s = 60.0
    await here.run(6)
    fires(here)
    await here.until(lambda: here.states() == ["confirmed", "needs_human"], "nobody knows")
    assert here.writes()[1].reason == "no_readback"


def test_two_rules_with_the_same_message_have_each_their_own_and_no_budget_of_writes_counts_it(tmp_path: Path) -> None:
    rules = "rules:\n" + "".join(
        f"  - {{id: r{number}, when: event.status == 'cancelled', do: [{{notify: look}}]}}\n" for number in range(3)
    )

    async def script(here: Town) -> None:
        await here.run(6)
        fires(here)
        await here.until(lambda: here.states() == ["confirmed"] * 3, "each is told")
        assert sorted(one.rule for one in here.notebook.messages) == ["r0", "r1", "r2"]

    settings = replace(QUICK, limits=Limits(writes_per_hour=1))
    plays(script, tmp_path, world(happening("e1")), rules, settings=settings)


def test_a_rule_with_at_acts_at_its_time_and_reads_nothing_before(tmp_path: Path) -> None:
    rules = """
rules:
  - id: r
    when: event.status == 'cancelled' && setup.state == 'NONE'
    at: "3 12 * * *"
    do: [pause]
"""

    async def script(here: Town) -> None:
        fires(here)
        await here.run(170)
        assert here.writes() == []
        assert not any("/setup_processes/" in one.path for one in here.twin.books.requests)
        await here.until(lambda: here.states() == ["confirmed"], "at three past twelve")
        assert here.at < 200
        await here.run(60)
        here.set("e1", client_campaign_status="RUNNING")
        await here.run(400)
        assert here.states() == ["confirmed"], "and not again"

    plays(script, tmp_path, world(happening("e1")), rules)


@in_town(world(happening("e1")), "rules: [{id: r, when: event.status == 'cancelled', at: '3 12 * * *', do: [pause]}]")
async def test_a_time_that_a_worker_slept_through_is_told_and_left(here: Town) -> None:
    fires(here)
    await here.run(30)
    await here.kill()
    here.loop.jump(600)
    here.start()
    await here.run(30)
    assert here.writes() == []
    (missed,) = here.log("held")
    assert (missed["reason"], missed["rule"]) == ("missed", "r")
