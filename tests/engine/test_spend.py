"""The brake on money, with real drafts: what was compared is what is booked."""

from pathlib import Path

from tests.worlds import PARTNER, Town, draft, happening, town, world
from worker.engine.operators import resolved
from worker.guards.checks import Limits
from worker.model.commits import Commit
from worker.sandbox.changes import EventChange

BOOST_DRAFTS = """
rules:
  - id: boost-drafts
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]
"""
CREATE_AND_BOOST = """
rules:
  - id: set-up
    when: event.status == 'active' && setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]
"""


def test_a_boost_after_not_applied_is_booked_with_the_budget_that_it_commits(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        here.fault("answer_before", "POST", "/boost$", status=500)
        await here.until(lambda: here.states() == ["needs_human"], "asked")
        parts = {"setup": {"goal": "ROAS", "total_budget": 900}}
        here.twin.change(EventChange(event="e1", partner=PARTNER, **parts), here.loop.time())
        verdict = resolved(
            here.only, applied=False, because="no", by="me", now=here.clock.now(), settings=here.settings
        )
        here.ledger.apply(Commit(at=here.clock.now(), moves=(verdict,)))
        await here.until(lambda: here.states() == ["confirmed"], "boosted with 900")
        back = draft("e2", total_budget=500)
        new = EventChange(event="e2", partner=PARTNER, add=True, set=back.record, setup=back.setup)
        here.twin.change(new, here.loop.time())
        await here.run(30)
        second = here.writes()[1]
        assert (second.key.event, second.state, second.held_by) == ("e2", "planned", "spend"), here.story()
        assert "900 sent today; with 500 it would be 1400" in second.why

    limits = Limits(spend_per_day=1300.0)
    with town(tmp_path, world(draft("e1")), BOOST_DRAFTS, limits=limits, ask=True) as (_, play):
        play(script)


def test_a_draft_and_its_boost_in_one_do_are_one_budget(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.until(lambda: here.states() == ["confirmed", "confirmed"], "created and published", limit=120)
        assert len(here.effects("boost")) == 1

    with town(tmp_path, world(happening("e1")), CREATE_AND_BOOST, limits=Limits(spend_per_event=500.0)) as (_, play):
        play(script)
