"""`again`: what ended without effect is tried once more at the next true look, by a daemon that runs meanwhile."""

from dataclasses import replace

import pytest

from tests.calling import PAUSE
from tests.worlds import BOOST, CAMPAIGN, PARTNER, Town, draft, happening, in_town, world
from worker.engine.operators import Word, last_of_its_rule, rejected, reopening, spoken
from worker.engine.views import DecidingSettings as Deciding
from worker.model.writes import Write


def again(here: Town, *only: Write) -> None:
    """What the command does with every write that ended without effect, or with these, at this moment."""
    ledger, word = here.ledger, Word(because="the cause is mended", by="ann", at=here.clock.now())
    memories = {(one.partner, one.event, one.rule): one for one in ledger.rule_memories(PARTNER)}
    writes = only or [write for write in ledger.writes() if write.final and last_of_its_rule(write, memories)]
    ledger.reopen(reopening(writes, memories, ledger), [spoken(write, "again", word) for write in writes])


async def said_no(here: Town) -> None:
    """The event is cancelled, and the service refuses the pause."""
    here.fault("answer_before", "PUT", CAMPAIGN, status=422)
    await here.cancelled("rejected")


@in_town(world(happening("e1")))
async def test_a_write_that_the_service_said_no_to_is_made_anew_in_another_episode(here: Town) -> None:
    await said_no(here)
    await here.run(9)
    assert here.states() == ["rejected"], "one episode fires once"
    again(here)
    await here.until(lambda: here.states() == ["rejected", "confirmed"], "paused after all")
    assert here.campaigns() == ["PAUSED"]
    first, second = here.writes()
    assert second.key.episode > first.key.episode
    (record,) = here.log("again")
    assert (record["write"], record["by"], record["why"]) == (1, "ann", "the cause is mended")


@in_town(world(happening("e1")), PAUSE, deciding=Deciding(mode="shadow"))
async def test_what_was_only_shadowed_or_rejected_by_a_person_is_reopened_alike(here: Town) -> None:
    await here.cancelled("shadowed")
    here.settings = replace(here.settings, deciding=Deciding(mode="approve"))
    await here.restart()
    await here.run(9)
    assert here.states() == ["shadowed"]
    again(here)
    await here.until(lambda: here.states() == ["shadowed", "waiting"], "decided anew, now in approve mode")
    here.decide(rejected)
    await here.run(9)
    assert here.states() == ["shadowed", "cancelled"]
    again(here)
    await here.until(lambda: here.states() == ["shadowed", "cancelled", "waiting"], "and once more")


@in_town(world(happening("e1")))
async def test_an_episode_is_reopened_once(here: Town) -> None:
    await said_no(here)
    again(here)
    memories = {(one.partner, one.event, one.rule): one for one in here.ledger.rule_memories(PARTNER)}
    assert not last_of_its_rule(here.only, memories)


@pytest.mark.parametrize("archived", [False, True], ids=["still true", "false meanwhile"])
@in_town(world(draft("e1", total_budget=1_000_000)), BOOST, watched=15)
async def test_a_change_is_pending_again_against_the_baseline_before_it(here: Town, archived: bool) -> None:
    """The boost is refused because the draft's budget is out of range; a person corrects the draft."""
    here.suggest("e1", 2, 3)
    await here.until(lambda: here.states() == ["refused"], "out of range")
    here.change("e1", setup={"goal": "ROAS", "total_budget": 500, "state": "DRAFT"})
    if archived:
        here.set("e1", status="archived")
    await here.run(9)
    assert here.states() == ["refused"], "the change is consumed"
    again(here)
    here.set("e1", status="active")
    await here.until(lambda: here.states() == ["refused", "confirmed"], "boosted after all")
    assert here.writes()[1].intent.context["previous"] == here.writes()[0].intent.context["previous"]
    assert len(here.effects("boost")) == 1


RULES = PAUSE + "  - id: z-also\n    when: event.frontend_status == 'CANCELLED'\n    do: [pause]\n"


@in_town(world(happening("e1")), RULES)
async def test_every_rule_that_shares_the_write_may_fire_again(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=422)
    await here.sees("rejected", status="cancelled", frontend_status="CANCELLED")
    here.use(RULES.replace("pause-cancelled\n", "pause-cancelled\n    enabled: false\n"))
    again(here)
    await here.until(lambda: here.states() == ["rejected", "confirmed"], "the other one does it")
    assert here.writes()[1].key.rule == "z-also"


@in_town(world(happening("e1")), PAUSE + "    repeat: enforce\n    cooldown: 1m\n")
async def test_enforcing_that_stopped_after_a_reject_goes_on(here: Town) -> None:
    await said_no(here)
    await here.run(90)
    assert here.states() == ["rejected"], "it stops after a bad end"
    again(here)
    await here.until(lambda: here.states() == ["rejected", "confirmed"], "paused after all")


TWO = "rules: [{id: two, when: event.status == 'cancelled', do: [{optimisation: 'OFF'}, pause]}]"


@in_town(world(happening("e1")), TWO, watched=6)
async def test_what_waits_for_approval_beside_it_waits_in_the_new_firing_too(here: Town) -> None:
    """The pause that nobody had decided on yet was sent."""
    await here.restart(2 * 3600)
    await here.becomes("e1", 30, status="cancelled")
    here.decide(rejected, here.writes()[0])
    again(here, here.writes()[0])
    await here.run(30)
    assert [(one.state, one.reason) for one in here.writes()[2:]] == [("waiting", "gap")] * 2, here.story()
