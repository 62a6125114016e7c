"""What changes between a decision and its send, or while a write waits: an edited rule, an undo, a hand, a clock."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.test_daemon import Told, daemon_of, watching
from tests.engine.test_undo import undo
from tests.worlds import CAMPAIGN, PARTNER, PAUSE, RUN, Disk, Town, draft, happening, in_town, rule_set, several, world
from worker.engine.preflight import Fresh, Preflight
from worker.engine.state import PartnerState
from worker.guards import Limits
from worker.model.commits import Record
from worker.model.errors import NotSafe, StateConflict
from worker.model.rules import RuleSet, SpendLimits
from worker.model.writes import Write

AT_REST = happening("e1", client_campaign_status="PAUSED")


def in_the_pre_flight(monkeypatch: pytest.MonkeyPatch, does: Callable[[Write], None]) -> None:
    """Something happens while a write reads what it needs before it leaves."""
    read = Preflight.read

    async def after_that(self: Preflight, state: PartnerState, write: Write, *more: Any) -> Fresh:  # noqa: ANN401
        does(write)
        return await read(self, state, write, *more)

    monkeypatch.setattr(Preflight, "read", after_that)


@in_town(world(AT_REST), RUN)
async def test_a_rule_narrowed_while_its_write_reads_sends_nothing(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    def narrowed(_write: Write) -> None:
        here.use(RUN.replace("'FLAGGED'", "'FLAGGED' && event.city == 'Ulm'"))

    in_the_pre_flight(monkeypatch, narrowed)
    await here.run(6)
    await here.becomes("e1", 60, frontend_status="FLAGGED")
    assert here.effects() == [], here.story()
    assert (here.only.state, here.only.reason) == ("skipped", "no_longer_holds")


@in_town(world(AT_REST), RUN)
async def test_an_undo_while_an_absent_write_reads_keeps_it_unsent(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    def undone(write: Write) -> None:
        if write.state == "unknown" and len(here.writes()) == 1:
            undo(here)

    in_the_pre_flight(monkeypatch, undone)
    await here.run(6)
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: len(here.writes()) == 2, "undone while it was to be sent again")
    await here.run(300)
    assert here.effects() == [], here.story()
    assert here.writes()[0].attempt == 1


@pytest.mark.parametrize("lags", [True, False])
@in_town(world(happening("e1")))
async def test_what_polls_see_all_the_time_is_not_lost_by_one_read_that_says_else(
    here: Town, monkeypatch: pytest.MonkeyPatch, lags: bool
) -> None:
    """The read before the second attempt is of the past, or the event is active between two polls: the rule would never
    have fired for the cancellation again."""

    def active_once(write: Write) -> None:
        if write.state != "unknown" or here.log("held"):
            return
        if lags:
            here.fault("stale_reads", "GET", "^/events/e1$", by_s=60)
        else:
            here.set("e1", status="active")
            here.loop.call_later(2.0, lambda: here.set("e1", status="cancelled"))

    in_the_pre_flight(monkeypatch, active_once)
    here.fault("answer_before", "PUT", CAMPAIGN, status=500)
    await here.cancelled("confirmed")
    assert [one["reason"] for one in here.log("held")] == ["no_longer_holds"], here.story()
    assert here.campaigns() == ["PAUSED"]


RAISE = """
rules:
  - id: raise-drafts
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [{update_draft: {total_budget: 1200}}]
"""


@in_town(world(draft("e1", total_budget=1000)), RAISE, limits=Limits(spend=SpendLimits(per_day=500)))
async def test_what_was_there_before_an_attempt_declared_void_is_neither_booked_against_nor_told(here: Town) -> None:
    """A hand lowers the draft after an attempt that had no effect: the next one would add 1,100 and not 200."""
    here.fault("answer_before", "PUT", None, status=429)
    await here.until(lambda: here.states() == ["unknown"], "not heard")
    here.change("e1", by="person", setup={"total_budget": 100})
    await here.until(lambda: here.states() == ["needs_human"], "a third value")
    here.resolve(here.only, applied=False)
    await here.run(120)
    assert (here.only.state, here.only.held_by) == ("planned", "spend"), here.story()
    assert "with 1100 it would be" in here.only.why


TWO_RAISE = """
rules:
  - {id: a-raise, when: event.city == 'Ulm' && setup.state == 'DRAFT', do: [{update_draft: {total_budget: 1500}}]}
  - id: b-raise
    when: event.category == 'fair' && setup.state == 'DRAFT'
    spend: {per_day: 100}
    do: [{update_draft: {total_budget: 1500}}]
"""


@in_town(world(draft("e1", total_budget=1000)), TWO_RAISE, watched=12)
async def test_a_rule_that_joins_a_write_while_that_reads_holds_it_by_its_own_limit(here: Town) -> None:
    here.set("e1", city="Ulm")
    here.loop.call_later(4.0, lambda: here.set("e1", category="fair"))
    await here.run(60)
    assert here.effects() == [], here.story()
    assert (here.only.held_by, here.only.rules) == ("spend", ("a-raise", "b-raise"))


FOR_A_MINUTE = PAUSE.replace("do:", "for: 1m\n    do:")


@in_town(world(*several(happening, 5)), FOR_A_MINUTE, watched=12)
async def test_what_is_seen_long_after_the_list_counts_from_when_it_was_seen(here: Town) -> None:
    """Two have left the list: the back-off that one of them meets comes before the other is read."""
    here.fault("vanish", "GET", "^/events/$", times=None, eid=["e2", "e3"])
    await here.run(12)
    here.fault("answer_before", "GET", "^/events/e2$", status=429, retry_after=60)
    here.set("e3", status="cancelled")
    await here.run(90)
    assert here.effects() == [], here.story()
    await here.run(60)
    assert here.campaigns("e3") == ["PAUSED"], here.story()


REMIND = """
rules:
  - id: told
    when: event.status == 'cancelled' && event.city == 'Ulm'
    do: [{notify: {text: it is cancelled, remind: 10m}}]
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
"""


@in_town(world(happening("e1", city="Ulm"), happening("e2")), REMIND)
async def test_a_reminder_is_planned_once_where_the_clock_is_set_back_before_it_is_given(here: Town) -> None:
    await here.becomes("e1", 595, status="cancelled", client_campaign_status="PAUSED")
    here.halt()
    await here.run(9)
    here.resume()
    here.clock.skew = timedelta(minutes=-2)
    await here.run(200)
    here.set("e2", status="cancelled")
    await here.until(lambda: len(here.effects()) == 1, "the other event is paused", 30)
    assert {one.error for one in here.reports[-5:]} == {None}


@in_town(world(happening("e1")))
async def test_a_partner_whose_decisions_always_conflict_is_told_of(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = watching(here, told := Told())
    await daemon._one_cycle(PARTNER)
    state = daemon._partners.get(PARTNER)
    assert state is not None
    well = state.last_ok_at

    def conflict(*_: object) -> None:
        raise StateConflict("it exists already")

    monkeypatch.setattr(daemon._cycle._decider, "decide", conflict)
    for _ in range(10):
        await here.clock.sleep(12)
        await daemon._one_cycle(PARTNER)
    assert told.said.count("partner_failing") == 1
    assert state.last_ok_at == well, "and /healthz says it too"
    assert state.last_error == "decided anew in the next cycle: it exists already"


class LateRules:
    """Rules that nobody edits, and that cannot be tried so many times."""

    def __init__(self, fails: int) -> None:
        self.fails = fails
        self.tried = 0

    def files_hash(self) -> str:
        return "generation 2"

    async def load(self) -> RuleSet:
        self.tried += 1
        if self.tried <= self.fails:
            raise NotSafe("the rules took longer than 30 s to be tried")
        return rule_set(RUN)


@in_town(world(happening("e1")))
async def test_rules_that_could_not_be_tried_are_tried_again_and_said_once(here: Town) -> None:
    told, source = Told(), LateRules(fails=2)
    daemon = daemon_of(here, told, source)
    for _ in range(60):
        await daemon._reload()
        await here.clock.sleep(3)
    assert source.tried == 3
    assert told.said.count("rules_refused") == 1
    assert [rule.id for rule in daemon.rules.rules] == ["run-flagged"]


@in_town(world(AT_REST), RUN)
async def test_an_outcome_stored_without_an_answer_is_no_takeover(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    testified: list[Record] = []
    monkeypatch.setattr(here.ledger, "testify", testified.extend)
    disk = Disk(here, lambda commit: any(move.before.state == "sending" for move in commit.moves), unsure=1)
    await here.sees("confirmed", frontend_status="FLAGGED")
    assert (disk.failed, testified) == (1, [])


WATCHING_TCS = """
rules:
  - id: pause-without-clusters
    when: size(suggested_tcs) > 5
    do: [pause]
"""
MOODLESS = """
rules:
  - id: pause-moodless
    when: "!has(event.mood)"
    do: [pause]
"""
MOOD_CHANGED = """
rules:
  - id: pause-when-the-mood-changes
    on_change: {fact: event, by: [mood]}
    do: [pause]
"""


@pytest.mark.parametrize("slow", ["^/events/$", "suggested_tcs"])
@pytest.mark.parametrize("rules", [MOODLESS, MOOD_CHANGED])
@in_town(world(*several(happening, 3, first=0, mood="glad")), WATCHING_TCS, watched=30)
async def test_rules_edited_during_a_look_are_judged_by_a_list_read_for_them(here: Town, rules: str, slow: str) -> None:
    here.suggest("e1", 7)
    here.fault("slow", "GET", slow, delay_s=2.0)
    here.loop.call_later(1.0, here.use, rules)
    await here.run(60)
    assert here.log("fired") == [], here.story()
    await here.becomes("e1", 30, mood="sad")
    assert [one["event"] for one in here.log("fired")] == (["e1"] if rules is MOOD_CHANGED else []), here.story()


@in_town(world(*several(happening, 3, first=0, mood="glad"), happening("e3")), WATCHING_TCS, page_size=2, watched=30)
async def test_an_event_whose_page_failed_since_is_judged_once_a_list_has_shown_it(here: Town) -> None:
    """Facts that are read between the pages of a later list must not be judged beside its old record."""
    state = here.worker.states[PARTNER]
    here.use(MOODLESS)
    here.fault("answer_before", "GET", "^/events/$", status=500, skip=1, times=20)
    here.reports.append(await here.worker.cycle.run(state))
    assert not here.reports[-1].complete
    assert state.lacking == {"e2", "e3"}
    await here.until(lambda: here.reports[-1].complete, "the list is had as a whole")
    assert state.lacking == set()
    await here.run(30)
    assert [one["event"] for one in here.log("fired")] == ["e3"], here.story()
