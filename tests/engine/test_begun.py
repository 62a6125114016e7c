"""A firing that has begun what would have its effect once more is not made anew unasked: not by an edit, not after a
stronger wish, not by `again`."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.engine.test_again import again
from tests.worlds import Town, draft, happening, in_town, world
from worker.engine.operators import ended_without_effect, rejected

MORE = """
rules:
  - id: a-fifth-more
    when: event.frontend_status == 'FLAGGED'
    cooldown: 1h
    do: [{update_draft: {total_budget: "=setup.total_budget * 1.2"}}, {notify: raised}, run]
  - id: pause-cancelled
    priority: 10
    when: event.status == 'cancelled'
    do: [pause]
"""
ANEW = """
rules:
  - {id: begin-anew, when: event.status == 'cancelled', do: [reset_setup, {notify: begun anew}]}
"""


async def begun(here: Town, what: str, *, within: float = 60, **change: Any) -> None:  # noqa: ANN401 - fields of an event
    """A change whose first write is confirmed, and whose note, the next one, is held until `resume`."""
    await here.run(6)
    here.set("e1", **change)
    await here.until(lambda: here.states()[:1] == ["confirmed"], what, within)
    assert here.texts == []
    here.halt(rule=here.writes()[0].key.rule)


async def an_hour(here: Town) -> None:
    await here.clock.sleep(3000)
    await here.run(700)


async def edited(here: Town) -> None:
    here.use(MORE.replace("raised", "raised by a fifth"))
    await here.run(60)


async def overruled(here: Town) -> None:
    await here.becomes("e1", 30, status="cancelled")
    await here.becomes("e1", 60, status="active")


async def asked_again(here: Town) -> None:
    await overruled(here)
    again(here)
    await here.run(60)


@pytest.mark.parametrize("meanwhile", [edited, overruled, asked_again])
@in_town(world(draft("e1", total_budget=100)), MORE)
async def test_what_is_computed_from_what_it_wrote_is_not_written_once_more_unasked(
    here: Town, meanwhile: Callable[[Town], Awaitable[None]]
) -> None:
    await begun(here, "raised", frontend_status="FLAGGED")
    await an_hour(here)
    await meanwhile(here)
    here.resume()
    await here.run(60)
    assert [one.after["total_budget"] for one in here.effects("update_setup")] == [120.0]
    (anew,) = [one for one in here.writes() if one.key.rule == "a-fifth-more" and one.state == "waiting"][:1]
    assert (anew.intent.action, anew.reason) == ("update_draft", "begun")


@in_town(world(draft("e1")), ANEW)
async def test_what_no_read_shows_is_not_made_once_more_unasked(here: Town) -> None:
    await begun(here, "reset", status="cancelled")
    here.use(ANEW.replace("begun anew", "reset"))
    await here.run(60)
    assert len(here.effects("reset_setup")) == 1
    assert [one.reason for one in here.writes() if one.state == "waiting"] == ["begun"]


RULES = ANEW.replace("reset_setup", "pause, {wait: 1h}")


@in_town(world(happening("e1")), RULES)
async def test_what_is_sure_to_be_so_once_is_planned_anew_as_ever(here: Town) -> None:
    await begun(here, "paused", status="cancelled")
    here.use(RULES.replace("begun anew", "paused"))
    here.resume()
    await here.run(60)
    assert [one.state for one in here.writes()][-2:] == ["skipped", "planned"]


@in_town(world(draft("e1")), ANEW, watched=6)
async def test_what_was_given_up_whichever_happened_is_not_made_again(here: Town) -> None:
    here.fault("answer_after", "PUT", "/reset_campaigns_setup$", status=429)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states()[:1] == ["needs_human"], "asked", 60)
    here.decide(rejected, here.writes()[0])
    assert [ended_without_effect(one) for one in here.writes()[:1]] == [False]


AT = MORE.replace("    cooldown: 1h\n", "    at: '*/30 * * * *'\n")


@in_town(world(draft("e1", total_budget=100)), AT)
async def test_each_time_of_at_is_a_firing_of_its_own_and_none_asks_for_what_another_one_did(here: Town) -> None:
    await begun(here, "raised", within=3000, frontend_status="FLAGGED")
    here.use(AT.replace("raised", "raised by a fifth"))
    here.resume()
    await here.run(1900)
    assert [one.after["total_budget"] for one in here.effects("update_setup")] == [120.0, 144.0]


@in_town(world(draft("e1", total_budget=100)), MORE)
async def test_what_was_begun_waits_too_once_it_was_rejected_and_is_asked_for_again(here: Town) -> None:
    await begun(here, "raised", frontend_status="FLAGGED")
    await an_hour(here)
    await edited(here)
    here.decide(rejected)
    again(here)
    await here.run(60)
    assert len(here.effects("update_setup")) == 1
