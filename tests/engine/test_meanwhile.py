"""What changes between a decision and its send, or while a write waits: an edited rule, an undo, a hand, a clock."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.engine.test_daemon import NoRules, Told, no_budget
from tests.engine.test_undo import undo
from tests.worlds import PARTNER, Town, draft, happening, rule_set, town, world
from worker.engine.daemon import Daemon
from worker.engine.operators import Word, resolved
from worker.engine.ports import Parts
from worker.engine.preflight import Fresh, Preflight
from worker.engine.state import PartnerState
from worker.guards import Limits
from worker.model.commits import Commit, Record
from worker.model.errors import LedgerUnwritable, NotSafe, StateConflict
from worker.model.exchange import Places
from worker.model.rules import Rule, RuleSet, SpendLimits
from worker.model.writes import Write
from worker.sandbox.changes import EventChange

RUN = """
rules:
  - id: run-flagged
    when: event.frontend_status == 'FLAGGED'
    do: [run]
"""
AT_REST = happening("e1", client_campaign_status="PAUSED")


def in_the_pre_flight(monkeypatch: pytest.MonkeyPatch, does: Callable[[Write], None]) -> None:
    """Something happens while a write reads what it needs before it leaves."""
    read = Preflight.read

    async def after_that(
        self: Preflight,
        state: PartnerState,
        write: Write,
        rules: tuple[Rule, ...],
        earlier: tuple[Write, ...],
        places: Places,
    ) -> Fresh:
        does(write)
        return await read(self, state, write, rules, earlier, places)

    monkeypatch.setattr(Preflight, "read", after_that)


def test_a_rule_that_is_narrowed_while_its_write_reads_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(here: Town) -> None:
        def narrowed(_write: Write) -> None:
            here.rules.current = rule_set(RUN.replace("'FLAGGED'", "'FLAGGED' && event.city == 'Ulm'"))

        in_the_pre_flight(monkeypatch, narrowed)
        await here.run(6)
        here.set("e1", frontend_status="FLAGGED")
        await here.run(60)
        assert here.effects() == [], here.story()
        assert (here.only.state, here.only.reason) == ("skipped", "no_longer_holds")

    with town(tmp_path, world(AT_REST), RUN) as (_, play):
        play(script)


def test_an_undo_that_comes_while_an_absent_write_reads_keeps_it_from_being_sent_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(here: Town) -> None:
        def undone(write: Write) -> None:
            if write.state == "unknown" and len(here.writes()) == 1:
                undo(here)

        in_the_pre_flight(monkeypatch, undone)
        await here.run(6)
        here.fault("answer_before", "PUT", "/client_campaign_status$", status=500)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: len(here.writes()) == 2, "undone while it was to be sent again")
        await here.run(300)
        assert here.effects() == [], here.story()
        assert here.writes()[0].attempt == 1

    with town(tmp_path, world(AT_REST), RUN) as (_, play):
        play(script)


RAISE = """
rules:
  - id: raise-drafts
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [{update_draft: {total_budget: 1200}}]
"""


def test_what_was_there_before_an_attempt_declared_void_is_neither_booked_against_nor_told(tmp_path: Path) -> None:
    """A hand lowers the draft after an attempt that had no effect: the next one would add 1,100 and not 200."""

    async def script(here: Town) -> None:
        here.fault("answer_before", "PUT", None, status=429)
        await here.until(lambda: here.states() == ["unknown"], "not heard")
        here.twin.change(
            EventChange(event="e1", partner=PARTNER, by="person", setup={"total_budget": 100}), here.loop.time()
        )
        await here.until(lambda: here.states() == ["needs_human"], "a third value")
        now = here.clock.now()
        no = resolved(here.only, Word(because="no", by="ann", at=now), applied=False, settings=here.settings)
        here.ledger.apply(Commit(at=now, moves=(no,)))
        await here.run(120)
        assert (here.only.state, here.only.held_by) == ("planned", "spend"), here.story()
        assert "with 1100 it would be" in here.only.why

    limits = Limits(spend=SpendLimits(per_day=500))
    with town(tmp_path, world(draft("e1", total_budget=1000)), RAISE, limits=limits) as (_, play):
        play(script)


REMIND = """
rules:
  - id: told
    when: event.status == 'cancelled' && event.city == 'Ulm'
    do: [{notify: {text: it is cancelled, remind: 10m}}]
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""


def test_a_reminder_is_planned_once_where_the_clock_is_set_back_before_it_is_given(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        here.set("e1", status="cancelled", client_campaign_status="PAUSED")
        await here.run(595)
        here.ledger.append_halt(because="let me look", by="ann", at=here.clock.now())
        await here.run(9)
        here.ledger.resume_halts(because="seen", by="ann", at=here.clock.now())
        here.clock.skew = timedelta(minutes=-2)
        await here.run(200)
        here.set("e2", status="cancelled")
        await here.until(lambda: len(here.effects()) == 1, "the other event is paused", 30)
        assert {one.error for one in here.reports[-5:]} == {None}

    events = happening("e1", city="Ulm"), happening("e2")
    with town(tmp_path, world(*events), REMIND) as (_, play):
        play(script)


def test_a_partner_whose_decisions_conflict_again_and_again_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(here: Town) -> None:
        told, running = Told(), here.worker
        parts = Parts(clock=here.clock, service=running.service, ledger=running.ledger, settings=here.settings)
        daemon = Daemon(parts, source=NoRules(), reporter=told, pid=1, budgets=no_budget)
        list(daemon._partners.take_up((PARTNER,)))
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

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


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


def test_rules_that_could_not_be_tried_are_tried_again_and_said_once(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        told, running, source = Told(), here.worker, LateRules(fails=2)
        parts = Parts(clock=here.clock, service=running.service, ledger=running.ledger, settings=here.settings)
        daemon = Daemon(parts, source=source, reporter=told, pid=1, budgets=no_budget)
        for _ in range(60):
            await daemon._reload()
            await here.clock.sleep(3)
        assert source.tried == 3
        assert told.said.count("rules_refused") == 1
        assert [rule.id for rule in parts.rules.current.rules] == ["run-flagged"]

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


def test_an_outcome_that_was_stored_without_an_answer_is_no_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def script(here: Town) -> None:
        ledger = here.worker.ledger
        apply = ledger.apply
        unheard: list[Commit | Record] = []

        def stored_unheard(commit: Commit) -> tuple[Write, ...]:
            made = apply(commit)
            if any(move.before.state == "sending" for move in commit.moves) and not unheard:
                unheard.append(commit)
                raise LedgerUnwritable("no answer within 10 s")
            return made

        monkeypatch.setattr(ledger, "apply", stored_unheard)
        monkeypatch.setattr(ledger, "testify", unheard.extend)
        await here.run(6)
        here.set("e1", frontend_status="FLAGGED")
        await here.until(lambda: here.states() == ["confirmed"], "confirmed")
        assert len(unheard) == 1, "and nobody testifies"

    with town(tmp_path, world(AT_REST), RUN) as (_, play):
        play(script)
