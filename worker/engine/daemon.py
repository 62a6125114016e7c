"""When to poll: one job a partner on APScheduler, none overlapping, missed ones run once.

The only importer of apscheduler. The daemon starts nothing before it has been quiet for one interval (a process that
was restarted must not read sooner than the floor allows), takes up edited rules as a whole or not at all, and on a stop
records nothing new and waits for what is in flight.
"""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from worker.engine.cycle import Cycle
from worker.engine.partners import Identities, Partners, held_while_gone, said_of
from worker.engine.ports import BEAT_S, NOTHING_PUBLISHED, RELOAD_EVERY, CycleReport, Fleet, Parts, ServersClock, Stage
from worker.engine.state import PartnerState
from worker.engine.views import modes_said
from worker.model.commits import Commit, DaemonStatus, Record
from worker.model.errors import LedgerUnwritable, NotSafe, OwnershipLost, StateConflict, WorkerError
from worker.model.facts import Json, PartnerId, spelled
from worker.model.rules import RuleSet
from worker.model.writes import Write
from worker.rules.spelling import counted

FAILING_AFTER = timedelta(minutes=1)
"""A poll that failed is nothing: the next one comes in seconds. When none gets through for so long, nothing is decided
for the partner, and somebody who watches no figures is told, once, and once that it is over."""

# Takes what lasts out of the garbage collector's way.
#
# After a first poll of a partner, its events, facts and memories are some hundred thousand objects that stay for as
# long as the process does. A full collection would go through all of them again and again, 50 ms and more with ten
# thousand events, in which everything else waits; and it would find nothing, because what is replaced of them is freed
# at once.
#
# Done once for each partner and rule set, never regularly: what happens to be under way at that moment (a request, its
# task) is also kept from the collector, and must not become a leak. Before, while the list grows, full collections are
# few: each would hold everybody up for a sixth of a second.

FULL_AFTER = 100
"""So many collections of what is younger come before a full one."""
WORTH_IT = 1_000
"""Events met for the first time, of all partners; the objects of fewer are gone through in no time."""


def seldom() -> None:
    """Full collections are few from now on, in all of the process."""
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, FULL_AFTER)


def keep() -> None:
    """Collects what is garbage now; all the rest is not gone through any more. The first time only what is younger is
    collected: the whole list is among the rest, and to go through it would hold everybody up."""
    gc.collect(2 if gc.get_freeze_count() else 1)
    gc.freeze()


# Where rules come from while the daemon runs, and which of them are in force.


class RuleSource(Protocol):
    """Where rules come from. ``files_hash`` is cheap; ``load`` raises `InputErrors` and changes nothing."""

    def files_hash(self) -> str: ...
    async def load(self) -> RuleSet: ...


PARTNERS_EVERY = timedelta(seconds=60)
RULES_AGAIN = timedelta(seconds=60)
"""How soon rules that could not be taken up are tried again, though nobody has edited them."""
SIGN_IN_AGAIN = timedelta(seconds=5)
SIGN_IN_AGAIN_MAX = timedelta(seconds=60)
"""How soon a service that cannot be reached is tried again: twice as late each time."""
DENIED_AGAIN = timedelta(minutes=5)
"""How long a partner for which the service refuses our credentials is left in peace."""
LATE = 3
"""A job due later than this many intervals from now is due because the wall clock was set back."""
JOB_OPTIONS = {"max_instances": 1, "coalesce": True, "misfire_grace_time": None}
"""No two runs of one job overlap, missed ones run once, and none is dropped for being late."""
SAID_EVERY = timedelta(seconds=1)
"""How often at the most the daemon saves what it says of itself."""
TIME_KEPT_EVERY_S = 3.0
"""How often the daemon looks at its clock, and saves what it has still to say of itself, however seldom it polls."""
SILENT_FOR = 3
"""So many intervals after its last word the daemon says that it is alive, where no poll has said so."""
UNWRITABLE_FOR = timedelta(seconds=5)
"""So long another process may hold the ledger, or its disk be full, before anybody is told."""


class Every(BaseTrigger):  # type: ignore[misc]  # the scheduler has no types
    """Again and again after an interval. What was missed is passed over at once: the scheduler's own trigger counts up
    every missed time, also where only one is run, and would be busy for minutes when the clock jumps a year ahead."""

    def __init__(self, interval: timedelta) -> None:
        self.interval = interval

    def get_next_fire_time(self, previous_fire_time: datetime | None, now: datetime) -> datetime:
        """The next time after the previous one; one interval from now where that is over already, or there is none."""
        if previous_fire_time is None or previous_fire_time + self.interval <= now:
            return now + self.interval
        return previous_fire_time + self.interval


class Reporter(Protocol):
    """Who is told of what happens beside the records."""

    def cycle(self, report: CycleReport) -> None: ...
    def note(self, message: str, **keys: object) -> None: ...
    def alarm(self, message: str, **keys: object) -> None: ...


class Daemon(Stage):
    """Watches every partner until it is told to stop."""

    def __init__(
        self,
        parts: Parts,
        *,
        source: RuleSource,
        reporter: Reporter,
        pid: int,
        budgets: Callable[[PartnerId], Mapping[str, Json]],
        waits: Callable[[], Mapping[str, Json]] = dict,
    ) -> None:
        self._stop = asyncio.Event()
        parts = replace(parts, stopping=self._stop.is_set, defect=self._tell_of)
        super().__init__(parts)
        self.clock = parts.clock
        own = parts.clock.own if isinstance(parts.clock, ServersClock) else parts.clock
        self._wall = own.now  # this machine's, by which the scheduler goes
        self._source = source
        self._reporter = reporter
        self._pid = pid
        self._budgets = budgets
        self._waits = waits
        self._cycle = Cycle(parts)
        said: dict[str, Json] = {"hash": "", "files_hash": "", "loaded_at": spelled(parts.clock.now())}
        self._rules_said = {**said, "error": None, "refused_at": None}
        self._rules_again = 0.0
        self._fleet = parts.fleet
        self._named: tuple[PartnerId, ...] = ()
        self._polls: dict[PartnerId, asyncio.Task[None]] = {}
        self._partners = Partners(self._cycle.load, parts.clock.now, away=parts.fleet is None)
        self._identities = Identities(parts)
        self._since = parts.clock.now()
        self._first_polls: set[tuple[PartnerId, str]] = set()
        self._met = 0
        self._cycle_ms: int | None = None
        self._said_at, self._unsaid = float("-inf"), False
        self._owed: list[Record] = []
        self._unwritable_since: float | None = None
        self._unreachable: str | None = None
        self._ended: str | None = None

    @property
    def rules(self) -> RuleSet:
        """The rules in force; may be asked from any thread."""
        return self._rules.current

    def tells(self, record: Mapping[str, Json]) -> bool:
        """Whether this process is the one to tell of a record: in a fleet, of its own partners' and of its own, and one
        of all also of what operators do that concerns all. May be asked from any thread."""
        if self._fleet is None:
            return True
        partner, replica = record.get("partner"), record.get("replica")
        if partner:
            return partner in self._fleet.mine
        return replica == self._fleet.replica if replica else self._fleet.speaks

    def stop(self) -> None:
        """Asks the daemon to stop; what is in flight is awaited by `run`."""
        self._stop.set()

    async def run(self, *, lasting: timedelta | None = None) -> None:
        """Runs until `stop`, or for ``lasting``. Raises `NotSafe` where credentials are refused or nothing is found."""
        seldom()
        if self._fleet is not None:
            self._fleet.beat(())
        files = self._source.files_hash()  # first: what is edited while it loads is seen by the next reload
        self._take_rules(await self._source.load(), files)
        self._record("started", f"pid {self._pid}; {modes_said(self.rules.rules, self._settings.deciding)}")
        scheduler = AsyncIOScheduler(timezone="UTC")
        beside = [asyncio.ensure_future(self._keep_time(scheduler))]
        sharing = None if self._fleet is None else asyncio.ensure_future(self._share(self._fleet, scheduler))
        if lasting is not None:
            beside.append(asyncio.ensure_future(self._end_after(lasting)))
        try:
            self._save_status()
            await self._or_stop(self._clock.sleep(self._settings.interval.total_seconds()))
            await self._or_stop(self._sign_in())
            if self._named:
                if self._fleet is None:
                    await self._or_stop(self._identify())
                self._renew(scheduler, self._named)
                job = self._until_ended
                scheduler.add_job(job, Every(RELOAD_EVERY), args=(self._reload,), id="rules", **JOB_OPTIONS)
                again = (self._refresh, scheduler)
                scheduler.add_job(job, Every(PARTNERS_EVERY), args=again, id="partners", **JOB_OPTIONS)
                scheduler.start()
            await self._stop.wait()
            self._ended = "as it was told to"
        except WorkerError as problem:
            self._ended = str(problem)
            raise
        finally:
            for task in beside:
                task.cancel()
            if scheduler.running:
                scheduler.shutdown(wait=False)
            await self._finish(scheduler)
            if sharing is not None:
                sharing.cancel()

    async def _until_ended(self, job: Callable[..., Coroutine[object, object, None]], *args: object) -> None:
        """Runs a job. One that is ended by a stop, or as its partner left, is no failure: whoever is next sees what it
        would have."""
        with suppress(asyncio.CancelledError):
            await job(*args)

    def _look_back(self, writes: Iterable[Write]) -> None:
        """What an earlier process was sending for whom nobody watches is not known to be so any more."""
        for partner in {write.key.partner for write in writes if write.state == "sending"} - self._watched():
            if self._fleet is None and not self._partners.in_flight(partner):
                self._cycle.load(partner)

    async def _refresh(self, scheduler: AsyncIOScheduler) -> None:
        """Asks who the partners are now."""
        try:
            self._named = await self._partners_now()
        except WorkerError as problem:
            self._reporter.alarm("partners_unknown", error=str(problem), hint=problem.hint)
            return  # who they are stays as it was; their own polls say what else is wrong
        if self._fleet is None:
            await self._identify()
        try:
            self._renew(scheduler, self._named)
        except LedgerUnwritable as problem:
            self._reporter.alarm("ledger_unwritable", error=str(problem), hint=problem.hint)

    def _renew(self, scheduler: AsyncIOScheduler, named: tuple[PartnerId, ...]) -> None:
        """Watches those of the partners that are this process's to watch, and nobody else. In a fleet, which would give
        up whoever is silent meanwhile, what of it takes longer than a beat is left for the next."""
        began, watched = self._clock.monotonic(), self._own(named)
        for partner in self._partners.leave(watched):
            scheduler.remove_job(f"cycle {partner}")
            if partner in self._polls:
                self._polls[partner].cancel()  # whoever has it next asks the same
            if partner in named:
                self._reporter.note("partner_left", partner=partner)
            else:
                self._reporter.alarm("partner_lost", partner=partner)
        for partner in self._partners.take_up(watched):
            self._reporter.note("partner_found", partner=partner)
            scheduler.add_job(
                self._until_ended,
                Every(self._settings.interval),
                args=(self._poll, scheduler, partner),
                id=f"cycle {partner}",
                next_run_time=self._wall(),
                **JOB_OPTIONS,
            )
            if self._fleet is not None and self._clock.monotonic() >= began + BEAT_S:
                break
        self._hold_gone(named)

    def _own(self, named: tuple[PartnerId, ...]) -> tuple[PartnerId, ...]:
        """Those that this process watches: of all, or in a fleet of its share, those of whom it knows who they are."""
        mine = named if self._fleet is None else self._fleet.mine
        return self._identities.watchable(mine, named, self._watched())

    def _watched(self) -> set[PartnerId]:
        return {state.partner for state in self._partners}

    async def _share(self, fleet: Fleet, scheduler: AsyncIOScheduler) -> None:
        """The beat of a fleet; it goes on while what is in flight is awaited at the end."""
        asking: asyncio.Task[None] | None = None
        while True:
            try:
                ruled = self._rules_said["files_hash"] != NOTHING_PUBLISHED and not self._rules_said["error"]
                fleet.beat(self._named if ruled else ())
                self._identities.known = fleet.known  # another may have given one's record to its new name
                if self._watched() != set(self._own(self._named)) and not self._stop.is_set():
                    self._renew(scheduler, self._named)
                fleet.give_back(self._busy)
                strange = self._identities.held or not fleet.mine <= self._identities.known
                if strange and (asking is None or asking.done()):
                    asking = asyncio.ensure_future(self._identify())
            except LedgerUnwritable as problem:
                self._unwritable(problem)
            except StateConflict:
                pass  # somebody else was faster; the next beat shows it
            except Exception as defect:  # noqa: BLE001 - without a beat all partners are lost
                self._reporter.alarm("defect", error=self._scrubbed(repr(defect)))
            await self._clock.sleep(BEAT_S)

    async def _identify(self) -> None:
        """Asks the service who those are of whom nobody knows it yet, and says once of each that is named, and not
        watched, why."""
        if self._stop.is_set():
            return  # they were given back before this began
        before = self._identities.held
        with suppress(LedgerUnwritable):
            mine = {*self._named, *self._ledger.partners()} if self._fleet is None else self._fleet.mine
            await self._identities.ask(mine, self._named, self._watched())
        for partner, why in self._identities.held.items():
            if before.get(partner) != why:
                self._record("held", why, partner=partner, reason="same_partner")
                hint = "take one of its groups from the user, or list under `partners:` those that are to be watched"
                self._reporter.alarm("partner_held", partner=partner, error=why, hint=hint)

    def _busy(self, partner: PartnerId) -> bool:
        """Whether anything of the partner is under way here."""
        return partner in self._polls or self._partners.in_flight(partner)

    def _hold_gone(self, named: tuple[PartnerId, ...]) -> None:
        """The open writes of partners that are gone say so, in a fleet those of its own, before they are given back.
        What cannot be stored now is tried a minute later."""
        now = self._clock.now()
        with suppress(LedgerUnwritable, StateConflict):
            of = (None,) if self._fleet is None else sorted(self._fleet.owned.difference(self._own(named)))
            writes = [write for partner in of for write in self._ledger.open_writes(partner)]
            self._look_back(writes)
            within = self._settings.evidence_within
            self._ledger.apply(Commit(at=now, moves=held_while_gone(writes, named, now, within, self._identities.held)))

    async def _poll(self, scheduler: AsyncIOScheduler, partner: PartnerId) -> None:
        """One poll, or as many as follow each other at once. The next is due when the list may be asked again, which is
        an interval after its answer: one that began sooner would wait for that, and the one after it for longer."""
        if (polling := asyncio.current_task()) is not None:
            self._polls[partner] = polling
        try:
            while await self._one_cycle(partner):  # the list is long: one poll took longer than the interval
                pass
        finally:
            self._polls.pop(partner, None)
        state = self._partners.get(partner)
        left_s = 0.0 if state is None else self._settings.interval.total_seconds() - self._listed_for_s(state)
        if left_s > 0.0:
            with suppress(JobLookupError):
                scheduler.modify_job(f"cycle {partner}", next_run_time=self._wall() + timedelta(seconds=left_s))

    async def _one_cycle(self, partner: PartnerId) -> bool:
        """Whether another one is due at once."""
        state = self._partners.get(partner)
        if state is None or (self._stop.is_set() and not state.in_flight):
            return False
        if self._clock.monotonic() < state.quiet_until:
            return False
        short = state.expected is not None and state.expected.short
        try:
            report = await self._cycle.run(state)
        except Exception as problem:  # noqa: BLE001 - a defect in one partner's poll stops no other, and is seen
            defect = WorkerError(self._scrubbed(repr(problem)), hint="this is a defect")
            told = problem if isinstance(problem, WorkerError) else defect
            state.last_error = str(told)
            self._reporter.alarm("cycle_failed", partner=partner, error=str(told), hint=told.hint)
            return False
        self._cycle_ms = report.took_ms
        if report.complete:
            self._keep_what_lasts(report)
        self._reporter.cycle(report)
        if report.denied:
            state.quiet_until = self._clock.monotonic() + DENIED_AGAIN.total_seconds()
            self._reporter.alarm("partner_denied", partner=partner, again_in=DENIED_AGAIN.total_seconds())
        self._say_if_failing(state, report)
        self._say_if_short(state, before=short)
        self.say()
        return report.complete and self._listed_for_s(state) >= self._settings.interval.total_seconds()

    def _keep_what_lasts(self, report: CycleReport) -> None:
        """Of looks at one partner under one rule set only the first makes much that lasts."""
        poll = (report.partner, self._rules.current.hash)
        self._met += 0 if poll in self._first_polls else report.events
        self._first_polls.add(poll)
        if self._met >= WORTH_IT:
            self._met = 0
            keep()

    def _say_if_failing(self, state: PartnerState, report: CycleReport) -> None:
        """A partner that refuses us has an alarm of its own."""
        now = self._clock.monotonic()
        if report.complete:
            if state.failing_told:
                self._reporter.note("partner_well", partner=state.partner)
            state.failing_since, state.failing_told = None, False
        elif report.error is not None and not report.denied:
            state.failing_since = now if state.failing_since is None else state.failing_since
            if not state.failing_told and now - state.failing_since >= FAILING_AFTER.total_seconds():
                self._reporter.alarm("partner_failing", partner=state.partner, error=report.error)
                state.failing_told = True

    def _listed_for_s(self, state: PartnerState) -> float:
        return self._clock.monotonic() - state.listed_at

    def _say_if_short(self, state: PartnerState, *, before: bool) -> None:
        """Says once that the rules want more than the budget gives, with what to expect; and once that it is over."""
        expected = state.expected
        if expected is None or expected.short == before:
            return
        if not expected.short:
            self._reporter.note("budget_enough", partner=state.partner)
            return
        self._reporter.note(
            "budget_short",
            partner=state.partner,
            facts=expected.wanted,
            list_seen_after_s=round(expected.of_list, 1),
            facts_seen_after_s=round(expected.of_facts, 1),
            hint="raise requests.per_minute, narrow the rules that name these facts, or live with it",
        )

    def _tell_of(self, of: Mapping[str, Json], defect: Exception) -> None:
        self._reporter.alarm("defect", **of, error=self._scrubbed(repr(defect)))

    async def _sign_in(self) -> None:
        """Learns the partners to watch. A service that cannot be reached is tried on; refused credentials end the
        start."""
        wait = SIGN_IN_AGAIN
        while not (self._named or self._stop.is_set()):
            try:
                self._named = await self._partners_now()
            except NotSafe:
                raise
            except WorkerError as problem:
                self._unreachable = str(problem)
                self._reporter.alarm("service_unreachable", error=str(problem), again_in=wait.total_seconds())
                self._save_status()
                with suppress(LedgerUnwritable):
                    self._look_back(self._ledger.open_writes())
                await self._clock.sleep(wait.total_seconds())
                wait = min(SIGN_IN_AGAIN_MAX, wait * 2)
                continue
            self._unreachable = None
            if not self._named:
                hint = "its token names no partner-id-<slug> group; set operator_prefix, or list partners"
                raise NotSafe("the account belongs to no partner", hint=hint)

    async def _partners_now(self) -> tuple[PartnerId, ...]:
        partners, only = await self._service.partners(), self._settings.only_partners
        return partners if only is None else tuple(partner for partner in partners if partner in only)

    async def _reload(self) -> None:
        """Takes up an edited rule folder as a whole; a broken one changes nothing, is said once, and tried again: what
        was wrong may be the machine, which had no time or memory to try it."""
        files, refused, now = self._source.files_hash(), self._rules_said["error"], self._clock.monotonic()
        known = files == self._rules_said["files_hash"]
        if known and (refused is None or now < self._rules_again):
            return
        try:
            rules = await self._source.load()
        except LedgerUnwritable as problem:  # where they are published: that says nothing of them, and is tried again
            self._unwritable(problem)
            return
        except WorkerError as problem:
            self._rules_again = now + RULES_AGAIN.total_seconds()
            since = self._rules_said["refused_at"] or spelled(self._clock.now())
            self._rules_said |= {"files_hash": files, "error": str(problem), "refused_at": since}
            if not known or refused != str(problem):
                last = "the last good set stays in force" if self._fleet is None else "this replica decides nothing"
                self._record("rules_refused", f"{last}: {problem}")
                self._reporter.alarm("rules_refused", error=str(problem))
                self._save_status()
            return
        self._take_rules(rules, files)

    def _take_rules(self, rules: RuleSet, files: str) -> None:
        self._rules.current = rules
        same = rules.hash == self._rules_said["hash"]
        since = self._rules_said["loaded_at"] if same else spelled(self._clock.now())
        ids: list[Json] = [str(rule.id) for rule in rules.rules if rule.enabled]
        said: dict[str, Json] = {"hash": rules.hash, "files_hash": files, "loaded_at": since, "ids": ids}
        self._rules_said = {**said, "error": None, "refused_at": None}
        if not ids:
            hint = "nothing is ever done without a rule; `campaign-worker check` says more"
            if files == NOTHING_PUBLISHED:
                hint = "no rules were published yet, so this replica owns nothing: `campaign-worker rules publish`"
            self._reporter.alarm("no_rules", hint=hint)
        names = ", ".join(map(str, ids)) or "none"
        self._record("rules_loaded", f"{counted(len(rules.rules), 'rule')}, in force: {names}; hash {rules.hash[:12]}")

    def _record(self, kind: str, why: str, *, partner: PartnerId | None = None, reason: str | None = None) -> None:
        """Stores a record of the daemon's own; one that the ledger cannot take is stored with the next status. It may
        then stand there twice, after a commit that only seemed to fail."""
        now = self._clock.now()
        self._owed.append(Record(at=now, kind=kind, why=why, partner=partner, reason=reason))
        try:
            self._record_owed(now)
        except LedgerUnwritable as problem:
            self._unwritable(problem)

    def _record_owed(self, now: datetime) -> None:
        owed = tuple(self._owed)
        try:
            self._ledger.apply(Commit(at=now, records=owed))
        except OwnershipLost:  # of a partner that is another's by now: said all the same
            self._ledger.testify(owed)
        self._owed.clear()

    def _unwritable(self, problem: LedgerUnwritable) -> None:
        """Cries out where the ledger cannot be written for longer than another process may hold it."""
        now, self._unsaid = self._clock.monotonic(), True
        if self._unwritable_since is None:
            self._unwritable_since = now
        if self._stop.is_set() or now - self._unwritable_since >= UNWRITABLE_FOR.total_seconds():
            self._reporter.alarm("ledger_unwritable", error=str(problem), hint=problem.hint)

    def say(self) -> None:
        """Saves the status soon. It holds all partners, so of many of them not every poll is worth a commit."""
        if self._clock.monotonic() - self._said_at >= SAID_EVERY.total_seconds():
            self._save_status()
        else:
            self._unsaid = True

    def _save_status(self) -> None:
        now, self._said_at, self._unsaid = self._clock.now(), self._clock.monotonic(), False
        every: dict[str, Json] = {"interval_s": self._settings.interval.total_seconds()}
        partners: dict[str, Json] = {
            str(state.partner): {**said_of(state, now), **every, **self._budgets(state.partner)}
            for state in self._partners
        }
        body: dict[str, Json] = {
            "cycle_ms": self._cycle_ms,
            "unreachable": self._unreachable,
            "rules": self._rules_said,
            "partners": partners,
            "named": list(self._named),
            "partners_held": {str(partner): why for partner, why in self._identities.held.items()},
            **self._waits(),
            "ended": self._ended,
        }
        try:
            self._record_owed(now)
            self._ledger.save_status(DaemonStatus(pid=self._pid, since=self._since, seen_at=now, body=body))
            self._ledger.mark_words()  # before anything is sent against them, and soon after they are said
        except LedgerUnwritable as problem:
            self._unwritable(problem)
        else:
            self._unwritable_since = None

    async def _or_stop(self, work: Coroutine[object, object, object]) -> None:
        """Waits for this, but no longer than until the stop. Raises what it raises."""
        working: asyncio.Future[object] = asyncio.ensure_future(work)
        stopping: asyncio.Future[object] = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.cancel():
            working.result()

    async def _keep_time(self, scheduler: AsyncIOScheduler) -> None:
        """The scheduler goes by the wall clock; where that was set back, its jobs are brought back to now, and where
        they are overdue, it is woken. And that the daemon is alive is said also while a poll takes long."""
        interval_s = self._settings.interval.total_seconds()
        while not self._stop.is_set():
            await self._clock.sleep(min(interval_s, TIME_KEPT_EVERY_S))
            now = self._wall()
            for state in self._partners:
                if state.pages is not None and state.last_ok_at is None:
                    pages, of_pages = state.pages
                    self._reporter.note("first_list", partner=state.partner, pages=pages, of_pages=of_pages)
                    self._unsaid = True
            silent_s = self._clock.monotonic() - self._said_at
            if self._unsaid or silent_s >= SILENT_FOR * interval_s:
                self._save_status()
            for job in scheduler.get_jobs():
                due, late = job.next_run_time, LATE * job.trigger.interval
                if due is not None and due - now > late:
                    self._reporter.note("clock_set_back", job=job.id)
                    job.modify(next_run_time=now)
                elif due is not None and now - due > late:
                    scheduler.wakeup()  # it sleeps until then by a clock that was set back, and forth again since

    async def _end_after(self, lasting: timedelta) -> None:
        await self._clock.sleep(lasting.total_seconds())
        self._stop.set()

    async def _poll_on(self, fleet: Fleet, scheduler: AsyncIOScheduler, state: PartnerState) -> None:
        """Watches a partner on that cannot be given back before what is in flight there has ended."""
        while state.in_flight and state.partner in fleet.owned:
            await self._clock.sleep(max(BEAT_S, self._settings.interval.total_seconds() - self._listed_for_s(state)))
            await self._poll(scheduler, state.partner)

    async def _finish(self, scheduler: AsyncIOScheduler) -> None:
        """Awaits what is in flight, up to ``stop_within``; what is then still open is unknown at the next start."""
        self._stop.set()
        if self._fleet is not None:
            self._fleet.stop()
        flying, others = self._partners.tasks()
        for task in others:
            task.cancel()
        fleet, busy = self._fleet, [state for state in self._partners if state.in_flight]
        polls = [asyncio.ensure_future(self._poll_on(fleet, scheduler, one)) for one in busy if fleet is not None]
        if flying:
            limit = asyncio.ensure_future(self._clock.sleep(self._settings.stop_within.total_seconds()))
            ended = asyncio.ensure_future(asyncio.wait(flying))
            await asyncio.wait([limit, ended], return_when=asyncio.FIRST_COMPLETED)
            limit.cancel()
        for poll in polls:
            poll.cancel()
        self._record("stopped", f"pid {self._pid}")
        self._save_status()
        if self._fleet is not None:
            with suppress(LedgerUnwritable, StateConflict):
                while self._fleet.give_back(self._partners.in_flight):
                    await self._clock.sleep(BEAT_S)  # while the beat of `_share` goes on
                self._fleet.leave()
