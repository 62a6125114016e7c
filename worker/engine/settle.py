"""Reads back what is not settled: one round for one write, and what any read of a target means for it.

Ordinary polls count as evidence where they were begun after the attempt; otherwise the target is read by itself. A 404
for a setup says *not there* only if the event itself answered after it in the same round. Task state is read only after
a PUT that has one, with waits that double, a few times, and proves nothing by itself. How often it was read is in the
ledger: another process goes on with the next wait, and takes the task for running until it has read it itself.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache

from worker.engine.ports import Stage, Urgency
from worker.engine.state import EVENT, PartnerState, TaskWatch
from worker.engine.views import policy_for
from worker.model.actions import ACTIONS
from worker.model.commits import Commit, LogFilter, Record, of_write
from worker.model.errors import LedgerUnwritable, StateConflict
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, PartnerId, Unknown, spelled
from worker.model.rules import Condition, Scope, Truth
from worker.model.writes import Write
from worker.rules.evaluate import expression
from worker.writes.evidence import CONFIRM, HASHED, Evidence, fact_key, judge, needs_event, read_of
from worker.writes.intents import set_beside
from worker.writes.life import FoundSending, Input, Next, Policy, Settling, TaskFailed, Then, advance

SAID_AGAIN_S = 60.0
"""What a held write would be sent on is logged again after so long."""
WATCHED_AGAIN = timedelta(minutes=2)
"""At least this often the target of a write that is before an operator is read by itself."""
TASK_READS = 6
TASK_FIRST_WAIT_S = 2.0


class Settler(Stage):
    """Settles writes by reading."""

    async def settle(self, state: PartnerState, write: Write) -> Then:
        """One round of evidence for an applied, unknown or needs_human write; says what shall follow."""
        policy = policy_for(write, self._rules.current, self._settings)
        settling = state.settling.get(write.id)
        if settling is None:
            looked_at, late_s = self._first_read(write, policy), self._ledger.late_s(write)
            settling = Settling(ended=self._clock.monotonic(), looked_at=looked_at, late_s=late_s)
            state.settling[write.id] = settling
        self._watch(state, write, settling)
        then: Then = "read"
        if policy.reads_back:
            fact = await self._target(state, write, settling)
            event = None
            if needs_event(write, fact):  # after a setup that is not there
                event = await self._service.read(write.key.partner, write.key.event, EVENT, urgency=Urgency.EVIDENCE)
            then = self.reconcile(state, write, fact, event)
        await self._task(state, write)
        if write.state == "needs_human":
            first_s = self._settings.interval.total_seconds()
            state.rest(write, self._clock.monotonic(), first_s, WATCHED_AGAIN.total_seconds())
        return then

    def _first_read(self, write: Write, policy: Policy) -> datetime | None:
        """When a process before this one first read the target of a write that it should have settled by then."""
        applied = write.state == "applied"
        since, limit = (
            (write.changed_at, policy.confirm_within) if applied else (write.unknown_since, policy.evidence_within)
        )
        if since is None or self._clock.now() - since < limit:
            return None
        reads = self._ledger.log(LogFilter(write=write.id, since=since + limit))
        return next((datetime.fromisoformat(str(one["at"])) for one in reads if one["kind"] == "evidence"), None)

    def reconcile(self, state: PartnerState, write: Write, fact: Fact | None, event: Fact | None) -> Then:
        """What a read of the target means for the write, whoever made it; the one way from a read to `advance`.

        ``event``: the event itself, as read in the same round; it counts where it was begun after ``fact``.
        """
        settling, others = state.settling.get(write.id), self.on_target(write)
        if settling is None or write.state not in (one.state for one in others if one.id == write.id):
            return "rest"
        shown = state.shown.get(write.id)
        if shown is not None and shown.trace is not None and shown.trace.began >= settling.ended:
            fact = shown
        if fact is None or fact.trace is None or fact.trace.began < settling.ended:
            return "read"
        began = fact.trace.began
        answered = isinstance(event, Known) and event.trace is not None and event.trace.began >= began
        watch = state.tasks_of_service.get(write.id)
        runs = watch is not None and watch.verdict == "running" and watch.reads < TASK_READS
        read = read_of(write, fact, others, began=began, running=runs, event_answered=answered)
        step = self._advanced(state, write, read)
        if read.evidence.says == "there":
            state.shown[write.id] = fact  # until the ledger has taken it: another read may not show it any more
        self._store(state, write, step, self._evidence_record(state, write, fact, read.evidence, step))
        state.shown.pop(write.id, None)
        return step.then

    def confirm_seen(self, state: PartnerState, writes: Iterable[Write]) -> None:
        """Presence in an ordinary poll confirms at once, whatever else is being waited for. Never waits itself."""
        for write in writes:
            fact = self._seen(state, write)
            if fact is None:
                continue
            if write.state == "sending":  # kept until its answer is there, and is stored
                state.shown[write.id] = fact
            else:
                self.reconcile(state, write, fact, None)

    def _seen(self, state: PartnerState, write: Write) -> Fact | None:
        """The poll's own read of a write's target, where it shows that the effect is there."""
        settling = state.settling.get(write.id)
        ended = None if settling is None else settling.ended
        since = state.in_flight.get(write.id) if write.state == "sending" else ended
        if write.state not in ("sending", "applied", "unknown", "needs_human") or since is None:
            return None
        fact = state.fact(write.key.event, fact_key(write.intent))
        policy = policy_for(write, self._rules.current, self._settings)
        if not policy.reads_back or fact is None or fact.trace is None or needs_event(write, fact):
            return None
        return fact if fact.trace.began >= since and judge(write, fact).says == "there" else None

    def found_sending(self, state: PartnerState, write: Write) -> None:
        """A row in ``sending`` at start: the process ended while it was being sent."""
        self._store(state, write, self._advanced(state, write, FoundSending(late_s=self._ledger.late_s(write))))

    def _advanced(self, state: PartnerState, write: Write, event: Input) -> Next:
        policy = policy_for(write, self._rules.current, self._settings)
        now = (self._clock.now(), self._clock.monotonic())
        return advance(write, state.settling.get(write.id), event, policy, now)

    async def _target(self, state: PartnerState, write: Write, settling: Settling) -> Fact:
        """The newest fact of the target: this cycle's poll where it is new enough, else a read of its own."""
        key = fact_key(write.intent)
        last = state.fact(write.key.event, key)
        newest = settling.last_read if settling.last_read is not None else settling.ended
        if isinstance(last, Known) and last.trace is not None and last.trace.began > max(newest, settling.ended):
            return last
        urgency = Urgency.FACT if write.state == "needs_human" else Urgency.EVIDENCE
        fact = as_judged(key, await self._service.read(write.key.partner, write.key.event, key, urgency=urgency))
        state.observe(write.key.event, key, fact)
        return fact

    def _watch(self, state: PartnerState, write: Write, settling: Settling) -> None:
        """Begins to watch the task behind the write's last attempt, or goes on where another process left off."""
        if not ACTIONS[write.intent.action].task or not write.sent or write.id in state.tasks_of_service:
            return
        reads = self._ledger.task_reads(write)
        due = settling.ended + TASK_FIRST_WAIT_S * (1 << reads)
        state.tasks_of_service[write.id] = TaskWatch(due=due, reads=reads, verdict="running" if reads else "unread")

    async def _task(self, state: PartnerState, write: Write) -> None:
        """Reads the task where it is time to."""
        watch = state.tasks_of_service.get(write.id)
        if watch is None or write.reason == "restored":
            return
        over = watch.reads >= TASK_READS or watch.verdict not in ("unread", "running", "unreadable")
        if over or self._clock.monotonic() < watch.due:
            return
        others, own = self.on_target(write), write.sending_order
        if write.state not in (one.state for one in others if one.id == write.id):
            return
        if own is not None and any(one.sending_order is not None and one.sending_order > own for one in others):
            watch.reads = TASK_READS  # another write's PUT came after it: the task is that one's, with waits of its own
            return
        self._ledger.note_task_read(write)
        watch.reads += 1
        task = await self._service.task_state(write.key.partner, write.key.event)
        watch.due = self._clock.monotonic() + TASK_FIRST_WAIT_S * (1 << watch.reads)
        watch.verdict = task.verdict
        if task.verdict == "failed":
            self._store(state, write, self._advanced(state, write, TaskFailed(state=task.state)))

    def on_target(self, write: Write) -> tuple[Write, ...]:
        """Every write of its target, also itself as it stands now, and those that may bring something else onto it."""
        own = write.intent.target
        found = self._ledger.target_writes(write.key.partner, write.key.event, own, *set_beside(write.intent))
        return tuple(one for one in found if one.intent.target == own or ACTIONS[one.intent.action].brings)

    def _evidence_record(
        self, state: PartnerState, write: Write, fact: Fact, evidence: Evidence, step: Next
    ) -> Record | None:
        """One ``evidence`` record where a read says something new, or decides something; what would be sent, if it were
        not held, says it now and then."""
        said, now = f"{evidence.says} {evidence.value!r}", self._clock.monotonic()
        before, when = state.said.get(write.id, ("", now))
        rests = step.then != "send" or (write.held_by is not None and now - when < SAID_AGAIN_S)
        if before == said and step.move is None and rests:
            return None
        state.said[write.id] = said, now
        record = of_write(write, at=self._clock.now(), kind="evidence", reason=None, why=evidence.why)
        return replace(record, evidence=_spelled(fact, evidence))

    def _store(self, state: PartnerState, write: Write, step: Next, record: Record | None = None) -> None:
        """Stores a step, and only then takes it over."""
        moves = (step.move,) if step.move is not None else ()
        records = (record,) if record is not None else ()
        if moves or records:
            try:
                commit = Commit(at=self._clock.now(), records=records, moves=moves)
                state.stored.commit(self._ledger, commit, [write.key.event])  # with what the read has shown
            except StateConflict:
                return  # an operator's verdict came first; it stands
            except LedgerUnwritable:
                state.said.pop(write.id, None)  # nothing was said after all
                raise
        if step.move is not None:
            state.wake_beside(write)
        if step.settling is not None:
            state.settling[write.id] = step.settling
        else:
            state.settling.pop(write.id, None)


def _spelled(fact: Fact, evidence: Evidence) -> dict[str, Json]:
    trace = fact.trace
    return {
        "get": trace.get if trace is not None else None,
        "read_at": spelled(fact.read_at),
        "status": trace.status if trace is not None else None,
        "x_request_id": trace.x_request_id if trace is not None else None,
        "value": evidence.value,
        "says": evidence.says,
    }


# What a rule's own `confirm` makes of an answer. The client knows what was answered and not what a rule makes of it,
# while evidence and guards know what a target reads as and not how CEL is judged: between them the answer becomes a
# fact like any other, whether the rule's condition is true of it, and what it was, so that "exactly as before" can be
# told.

_compiled: Callable[[str], Condition] = lru_cache(maxsize=256)(expression)
RESPONSE = FactKey(name="response")
KEPT_MAX = 2_000
"""Characters of an answer that are kept with a write; of a longer one, only what tells it from another."""


def as_judged(key: FactKey, fact: Fact) -> Fact:
    """A fact as it was read, and a rule's own ``confirm`` as it was judged."""
    return confirmation(key, fact) if key.name == CONFIRM else fact


def confirmation(key: FactKey, fact: Fact) -> Fact:
    """What a read of a write's ``confirm`` says: ``{when, response}``, and ``absent`` where it answered 404.

    A 404 is null for the condition; where the condition makes nothing of null, it is not true.
    """
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping) or "when" in fact.value:
        return fact  # unknown, or judged already: a rule test says what a condition would be, and not what was read
    absent, body = fact.value.get("status") == 404, fact.value.get("body")
    answered = {RESPONSE: Known(value=body, read_at=fact.read_at)}
    seen = Observation(partner=PartnerId(""), event=EventId(""), facts=answered)
    scope = Scope(observation=seen, keys={RESPONSE.name: RESPONSE}, now=fact.read_at)
    judged = _compiled(str(dict(key.params)["when"])).judge(scope)
    if judged.truth is Truth.UNKNOWN and not absent:
        why = f"confirm.when could not be judged: {judged.why}"
        return Unknown(code="malformed", why=why, read_at=fact.read_at, trace=fact.trace)
    value: dict[str, Json] = {"when": judged.truth is Truth.TRUE, "response": _kept(body)}
    marks: dict[str, Json] = {"absent": absent, "full": fact.value.get("full", False)}
    return replace(fact, value={**value, **{name: True for name, so in marks.items() if so}})


def _kept(body: Json) -> Json:
    text = json.dumps(body, sort_keys=True, ensure_ascii=False)
    return body if len(text) <= KEPT_MAX else f"{HASHED}{hashlib.sha256(text.encode()).hexdigest()}"
