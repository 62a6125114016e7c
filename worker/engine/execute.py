"""One attempt of one write: guards, fresh facts, the record, the request, the outcome.

Order is everything here. The `sending` row is on disk before the first byte leaves; halts and limits are read in the
transaction that records it; a process that slept in between does not send. What the service answered is recorded as
soon as the ledger takes it: while it takes nothing, the outcome is kept and recorded again and again, and nothing else
is sent.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from worker.engine.changes import to_compute_from
from worker.engine.episodes import momentary
from worker.engine.operators import touched_meanwhile
from worker.engine.planning import behind, reopened_after
from worker.engine.ports import Parts, Stage
from worker.engine.preflight import UNASKED, Fresh, Memories, Preflight, WhoAsks, as_at_firing, sending
from worker.engine.settle import Settler
from worker.engine.state import PartnerState
from worker.engine.views import policy_for, unconfirmed_for
from worker.guards import (
    AFTER_READING,
    BEFORE_READING,
    OF_MESSAGES,
    OF_WAITS,
    Limits,
    No,
    Situation,
    added_by,
    as_no,
    credentials,
    earlier_in_do,
    first_no,
    held_in_transaction,
    out_of_date,
    put_back,
    too_old,
)
from worker.model.actions import ACTIONS, WAIT
from worker.model.commits import HANDED_OVER, Commit, LogFilter, Move, PartnerMemory, Sending, SendingView, of_write
from worker.model.errors import LedgerUnwritable, SendingUnmarked, StateConflict
from worker.model.exchange import Accepted, Answered, NotSent, Outcome, WriteRequest
from worker.model.facts import UNREAD, Json, Known
from worker.model.rules import RuleSet
from worker.model.writes import State, Write
from worker.rules.cel import SINCE
from worker.rules.facts import scope_of
from worker.writes.evidence import fact_key, fact_name, text_of_message
from worker.writes.intents import NotComputable, holds_back, plan_steps
from worker.writes.life import Attempted, Settling, Unwanted, advance, after_outcome, hold, in_a_row, move, note
from worker.writes.undo import left_now, put_back_by, undone_by

_ENDS: Mapping[str, State] = {"skip": "skipped", "refuse": "refused", "ask": "waiting", "confirm": "confirmed"}
RECORD_AGAIN = timedelta(seconds=1)
"""How soon an outcome that the ledger could not take is recorded again."""
HELD_AGAIN = timedelta(seconds=10)
"""The longest that a write which its fresh facts held waits for its next pre-flight."""
LIMITED_AGAIN = timedelta(seconds=60)
"""The same for a write that a limit held: what lets it go is time, or an operator."""
THROTTLED_AGAIN = timedelta(minutes=10)
"""The same for a write whose pre-flight met a 429: each try costs the partner a back-off. Where no burst is granted,
one that needs many reads may never get through, and must not keep lists and pauses of dead events waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """A write that no guard objects to, with what it was judged on. ``held``: but for one, in spite of which an unknown
    write is still read, and a wait still waits. ``view``: the ledger as it was then; ``rules``: those in force."""

    write: Write
    fresh: Fresh
    situation: Situation
    view: SendingView
    rules: RuleSet
    held: No | None = None


class _Stopped(Exception):
    """Why there is no attempt now: a guard's no, or none where there is nothing to record. ``rest``: the longest
    wait until the next try."""

    def __init__(self, no: No | None = None, rest: timedelta | None = None) -> None:
        super().__init__()
        self.no = no
        self.rest = rest


# Where a write goes: to the service, but for a message, which is given with the record that confirms it. Whoever asked
# to be told is told from the log (`worker.messages`).

NO_HOST = "message"
"""The host of a request that is a message."""


class Outward(Stage):
    """Makes the requests of writes, and sends them."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._instead = parts.instead

    def request_for(self, write: Write) -> WriteRequest:
        """What is sent, without secrets."""
        key, intent = write.key, write.intent
        if ACTIONS[intent.action].message:
            return WriteRequest(host=NO_HOST, method="NOTIFY", path=NO_HOST, body=text_of_message(intent.params))
        return self._service.request_for(key.partner, key.event, intent, key.item)

    def spelled(self, request: WriteRequest) -> dict[str, Json]:
        """The request as the log keeps it."""
        url = request.path if request.host == NO_HOST else self._service.url(request)
        return {"method": request.method, "url": url, "body": request.body}

    async def send(self, write: Write, request: WriteRequest, *, not_after: float) -> Outcome:
        """One attempt. Never raises but when it is cancelled."""
        if self._instead is not None:
            return await self._instead(write, request)
        if request.host == NO_HOST:
            return Accepted(answer=Answered(status=202), why=f"{HANDED_OVER}{request.body}")
        return await self._service.send(write.key.partner, request, not_after=not_after)


class Executor(Stage):
    """Makes attempts."""

    def __init__(self, parts: Parts, settler: Settler) -> None:
        super().__init__(parts)
        self._settler = settler
        self._outward = Outward(parts)
        self._preflight = Preflight(parts)
        self._asking = WhoAsks(parts)

    async def attempt(self, state: PartnerState, write: Write) -> None:
        """Brings a planned write, or an unknown one proved absent, to its next attempt, or says what holds it."""
        try:
            before = self._guarded(state, write)
            ready = await self._with_fresh_facts(state, before)
            sending, request, not_after = self._record_sending(state, ready)
            outcome = await self._outward.send(write, request, not_after=not_after)
            await self._record_outcome(state, sending, outcome)
        except _Stopped as stopped:
            if stopped.no is not None:
                self._apply_no(state, write, stopped.no)
            if stopped.rest is not None:
                self._rest(state, write, stopped.rest)
        except SendingUnmarked as problem:
            await self._record_outcome(state, problem.write, NotSent(cause="ledger", why=str(problem)))
        finally:
            state.in_flight.pop(write.id, None)

    def _guarded(self, state: PartnerState, write: Write) -> Ready:
        """Asks the guards that need no reading. An unknown write that is held is read all the same, because it may have
        to end; then it rests."""
        view = self._ledger.sending_view(write, self._clock.now())
        situation = self._situation(state, write, self._earlier(write), view)
        guards = OF_WAITS if write.waits else OF_MESSAGES if write.message else BEFORE_READING
        no = self._asking.objection(state, write) or first_no(guards, situation)
        rest = LIMITED_AGAIN if no is None or no.until is not None else None
        no = no or self._held_already(state, situation, view)
        rules = self._rules.current
        ready = Ready(write=write, fresh=UNASKED, situation=situation, view=view, held=no, rules=rules)
        if no is not None and no.reason == "wait":
            return ready
        if no is not None and (write.state != "unknown" or no.way != "hold"):
            raise _Stopped(no, rest)
        if no is not None:
            self._apply_no(state, write, no)
        if state.resting(write, self._clock.monotonic()):
            raise _Stopped
        if no is None and (doubt := self._doubt(state, write)) is not None:
            raise _Stopped(doubt)
        return ready

    async def _with_fresh_facts(self, state: PartnerState, before: Ready) -> Ready:
        """Reads the fresh facts, and asks the guards that judge them. A message needs none of it."""
        write, earlier, held = before.write, before.situation.earlier, before.held
        if held is not None and held.reason == "wait":
            await self._wait(state, write, earlier, held)
            raise _Stopped
        if write.message:
            return before
        rules = self._asking.rules(state, write)
        async with self._preflight.together(state, write, rules) as places:
            fresh = await self._preflight.read(state, write, rules, earlier, places)
            situation = self._judged(before.situation, fresh)
            target, event = fresh.named.get(fact_name(write.intent)), fresh.named.get("event")
            if write.state == "unknown" and self._settler.reconcile(state, write, target, event) != "send":
                raise _Stopped  # anything but *not there* ends the attempt
            if (stale := out_of_date(situation)) is not None:
                self._compute_anew(state, write, fresh, stale)
                raise _Stopped
            no = first_no(AFTER_READING, situation)
            if no is not None and no.reason == "no_longer_holds" and write.state == "planned" and momentary(rules):
                no = replace(no, way="skip")
            if no is not None:
                again = LIMITED_AGAIN if write.intent.stops else THROTTLED_AGAIN
                raise _Stopped(no, again if fresh.throttled else HELD_AGAIN)
            if held is not None:
                raise _Stopped(rest=LIMITED_AGAIN)
            if self._preflight.still(fresh.facts):
                await self._service.ready_to_write(write.key.partner, places, by=fresh.young_until)
            if not self._preflight.still(fresh.facts):
                why = "the facts it needs could not be read within one interval"
                raise _Stopped(No(way="hold", reason="fact_unknown", why=why), HELD_AGAIN)
        return replace(before, fresh=fresh, situation=situation)

    def _record_sending(self, state: PartnerState, ready: Ready) -> tuple[Write, WriteRequest, float]:
        """The attempt, looked at once more and on disk, in one uninterrupted step; its request, and until when it may
        leave. Raises `_Stopped` where something changed while the write waited for its turn."""
        write, request = ready.write, self._outward.request_for(ready.write)
        not_after = self._clock.monotonic() + self._settings.timeout.total_seconds()
        if self._stopping() or state.left or not self._preflight.still(ready.fresh.facts):
            raise _Stopped
        current = self._ledger.write(write.id)
        if current is None or not _as_it_was(current, write) or current.rules != write.rules:
            raise _Stopped  # somebody moved or joined it meanwhile; the next cycle goes by what it is now
        if self._rules.current is not ready.rules or self._asking.objection(state, current) is not None:
            raise _Stopped  # the rules were replaced while its facts were read, or a stronger one has come
        undo = put_back_by(current, self._on_target(current)[0]) if current.attempt else None
        if (no := put_back(replace(ready.situation, put_back_by=undo))) is not None:
            raise _Stopped(no)
        if (doubt := self._doubt(state, current)) is not None:
            raise _Stopped(doubt)
        sent: list[Json] = [{name: value} for name, value in request.query]
        asked = replace(current, rules=ready.situation.write.rules)
        amount, limits = added_by(ready.situation, ready.view.booked, [*sent, request.body]), self._limits(asked)
        sending = Sending(
            move=self._sending(state, replace(ready, write=current), request),
            check=lambda view: held_in_transaction(asked, amount, limits, self._clock.now(), view),
            amount=amount,
            late_s=self._settings.late_s,
        )
        state.shown.pop(write.id, None)
        state.in_flight[write.id] = self._clock.monotonic()
        held = self._ledger.record_sending(sending)
        if held is not None:
            raise _Stopped(as_no(ready.situation, held), LIMITED_AGAIN)
        return sending.move.after, request, not_after

    def _doubt(self, state: PartnerState, write: Write) -> No | None:
        """Whether the partner's credentials are in doubt: held, or tried by another write just now. One tries at a
        time, and the others wait for what it hears. A message has none."""
        if write.message:
            return None
        now, until = self._clock.now(), state.memory.denied_until
        no = credentials(Situation(write=write, now=now, limits=self._settings.limits, credentials_until=until))
        if no is not None or state.memory.denied_at is None or not state.in_flight:
            return no
        why = "the service refused the credentials, and another write of the partner is trying them now"
        return No(way="hold", reason="credentials", why=why)

    def _held_already(self, state: PartnerState, before: Situation, view: SendingView) -> No | None:
        """A limit that is on now: nothing is read for a write that could not be sent. What it would add is only known
        here where its target was read before; the transaction of the sending has the last word in any case."""
        write, now = before.write, before.now
        key = fact_key(write.intent)
        seen = state.merged(write.key.event).get(key, UNREAD)
        known = isinstance(seen, Known) and ACTIONS[write.intent.action].budget == "own"
        amount = added_by(replace(before, facts={key.name: seen}), view.booked) if known else None
        held = held_in_transaction(write, amount, self._limits(write), now, view)
        return as_no(before, held) if held is not None else None

    def _limits(self, write: Write) -> Limits:
        """The config's limits, and those of the rules that the write stands for."""
        rules = (self._rules.current.get(rule) for rule in write.rules)
        of_rules = {rule.id: rule.spend for rule in rules if rule is not None and rule.spend is not None}
        return replace(self._settings.limits, of_rules=of_rules)

    def _compute_anew(self, state: PartnerState, write: Write, fresh: Fresh, why: str) -> None:
        """A write that a spending limit held for long, with its values by the facts as they are now; what somebody had
        approved waits for approval again. What another rule has left to those that share it stays as they share it."""
        rule = next((one for one in self._asking.rules(state, write) if one.id == write.key.rule), None)
        event, now, intent = write.key.event, self._clock.now(), write.intent
        if rule is not None and not write.undo:
            seen, earlier = self._preflight.seen(state, event, (rule,), fresh.facts), self._earlier(write)
            seen = to_compute_from(as_at_firing(write, earlier, seen), seen, rule, earlier)
            scope = replace(scope_of(rule, seen, now), extra=write.intent.context)
            try:
                waits = [turn for turn, step in enumerate(rule.do[: write.key.position]) if step.action == WAIT]
                steps = plan_steps(rule, scope, write.intent.context, max(waits, default=-1))
            except NotComputable as error:
                self._apply_no(state, write, No(way="hold", reason="fact_unknown", why=str(error)))
                self._rest(state, write, HELD_AGAIN)
                return
            place = write.key.position, write.key.item, intent.target
            new = next((one for one in steps if (one.position, one.item, one.intent.target) == place), None)
            if new is None or new.fault:
                why = new.fault if new is not None else f"{why}; what it is for is gone"
                self._apply_no(state, write, No(way="refuse", reason="bad_value" if new else "gone", why=why))
                return
            intent = replace(new.intent, order=intent.order)
        anew = {"intent": intent, "due_since": now}
        if write.approved:
            why = f"{why}: it is computed anew, and waits again"
            self._store(move(write, "waiting", at=now, reason="spend", why=why, approved=False, **anew))
        else:
            self._store(note(write, held_by=None, held_until=None, why=f"{why}: computed anew", **anew))

    async def _record_outcome(self, state: PartnerState, sending: Write, outcome: Outcome) -> None:
        """Stores what the attempt told us, again and again until the ledger takes it."""
        policy = policy_for(sending, self._rules.current, self._settings)
        event = Attempted(outcome=outcome, denied_before=in_a_row(state.memory, sending))
        step = advance(sending, None, event, policy, (self._clock.now(), self._clock.monotonic()))
        if step.move is None:
            return
        first, *others = step.move.records  # what follows from the state that the answer led to has none
        told = replace(step.move, records=(replace(first, response=response_of(outcome)), *others))
        while True:
            now = self._clock.now()
            memory = after_outcome(state.memory, sending, outcome, now)
            try:
                if not self._stored(told, memory if memory != state.memory else None, outcome, now):
                    return
                state.memory = memory
                break
            except LedgerUnwritable:
                await self._clock.sleep(RECORD_AGAIN.total_seconds())
        self._remember(state, told.after, step.settling)

    def _stored(self, told: Move, memory: PartnerMemory | None, outcome: Outcome, now: datetime) -> bool:
        """Stores an outcome. False where another replica has found the attempt since, whether or not the partner came
        back: then what became of it is stored for people to read, and the partner's owner goes by what it reads."""
        try:
            self._ledger.apply(Commit(at=now, moves=(told,), partner=memory))
        except StateConflict:
            sending, current = told.before, self._ledger.write(told.before.id)
            if current is not None and _as_it_was(current, told.after):
                return True  # it was stored all the same, when nobody answered
            said = f"attempt {sending.attempt} of a replica that had lost the partner meanwhile"
            why = f"{said}: {outcome.why or 'accepted'}"
            record = of_write(sending, at=now, kind="evidence", reason="takeover", why=why)
            if not self._ledger.testify([replace(record, response=response_of(outcome))]):
                raise
            return False
        return True

    def _remember(self, state: PartnerState, write: Write, settling: Settling | None) -> None:
        if settling is not None:
            state.settling[write.id] = replace(settling, seen=write.id in state.shown)
        state.tasks_of_service.pop(write.id, None)
        state.said.pop(write.id, None)
        state.wake_beside(write)

    async def _wait(self, state: PartnerState, write: Write, earlier: tuple[Write, ...], no: No) -> None:
        """A wait rests until it is over. Then its rule's facts are read, and it is held without an end, which tells the
        next poll to plan what comes after it."""
        left_s = (no.until - self._clock.now()).total_seconds() if no.until is not None else 0.0
        if left_s > 0.0:
            self._apply_no(state, write, no)
            state.rest(write, self._clock.monotonic(), left_s, left_s)
            return
        rules = self._asking.rules(state, write)
        async with self._preflight.together(state, write, rules) as places:
            await self._preflight.read(state, write, rules, earlier, places)
        self._apply_no(state, write, replace(no, until=None))
        state.waited.add(write.key.event)
        self._rest(state, write, HELD_AGAIN)

    def _rest(self, state: PartnerState, write: Write, longest: timedelta) -> None:
        first = self._settings.interval.total_seconds()
        state.rest(write, self._clock.monotonic(), first, max(first, longest.total_seconds()))

    def _sending(self, state: PartnerState, ready: Ready, request: WriteRequest) -> Move:
        fact = ready.fresh.named.get(fact_name(ready.write.intent))
        change = sending(ready.write, fact, self._clock.now(), ready.fresh.judgement.why)
        if kept := self._preflight.kept(state, ready.write, ready.fresh):
            intent = replace(change.after.intent, context={**change.after.intent.context, SINCE: kept})
            change = replace(change, after=replace(change.after, intent=intent))
        spelled = self._outward.spelled(request)
        before: Json = change.after.before
        return replace(change, records=(replace(change.records[0], request=spelled, before=before),))

    def _apply_no(self, state: PartnerState, write: Write, no: No) -> None:
        """What a guard's no does to a write that has not been sent, or whose last attempt was proved absent."""
        at = self._clock.now()
        situation = Situation(write=write, now=at, limits=self._settings.limits, earlier=self._earlier(write))
        no = too_old(situation, no)
        stale = out_of_date(situation)
        if stale is not None and no.way == "hold":  # whatever holds it by now, it is computed anew before it goes
            no = replace(no, reason="spend", why=f"{stale}; by now {no.reason}: {no.why}")
        if no.way == "drop":
            why = f"proved absent, and {no.why}"
            ended = move(write, "cancelled", at=at, reason=no.reason, why=why, absent_proved=True)
            writes_of = partial(self._ledger.episode_writes, state.partner)
            self._drop(state, ended, reopened_after(write, no.reason, state.memories, writes_of))
        elif write.state == "unknown" and no.way != "ask" and self._ends(state, write, no.reason):
            unwanted = Unwanted(reason=no.reason, why=f"proved absent, and no longer wanted: {no.why}")
            policy = policy_for(write, self._rules.current, self._settings)
            now = (at, self._clock.monotonic())
            self._store(advance(write, state.settling.get(write.id), unwanted, policy, now).move)
        elif no.way == "hold" or write.state == "unknown":
            self._store(hold(write, at=at, reason=no.reason, why=no.why, until=no.until if no.way == "hold" else None))
        else:
            by = "read" if no.way == "confirm" else None
            self._store(move(write, _ENDS[no.way], at=at, reason=no.reason, why=no.why, confirmed_by=by))

    def _ends(self, state: PartnerState, write: Write, reason: str) -> bool:
        """Whether a write that is proved absent is over with this objection: not while the polls still see what its
        rules fired for, because those would never fire for it again."""
        if reason != "no_longer_holds" or momentary(self._asking.rules(state, write)):
            return reason in ("no_longer_holds", "moved")
        return all(one.pending for one in behind(write, write.rules, state.memories))

    def _drop(self, state: PartnerState, ended: Move, memories: Memories) -> None:
        """An unknown write, proved absent, that nobody asks for any more: it ends, and who asked may fire anew."""
        with suppress(StateConflict):
            self._ledger.apply(Commit(at=self._clock.now(), moves=(ended,), memory=tuple(memories.values())))
            state.memories.update(memories)
            state.due.pop(ended.before.key.event, None)

    def _situation(self, state: PartnerState, write: Write, earlier: tuple[Write, ...], view: SendingView) -> Situation:
        others, busy = self._on_target(write)
        rules = self._asking.rules(state, write)
        return Situation(
            write=replace(write, rules=tuple(one.id for one in rules) or write.rules),
            now=self._clock.now(),
            limits=self._settings.limits,
            halts=view.halts,
            on_target=busy,
            earlier=earlier,
            unconfirmed=unconfirmed_for(write.intent.action, next(iter(rules), None), self._settings),
            credentials_until=state.memory.denied_until,
            put_back_by=put_back_by(write, others),
        )

    def _judged(self, before: Situation, fresh: Fresh) -> Situation:
        """The situation with what was read just now, and with what has come onto the target meanwhile."""
        write = before.write
        others, busy = self._on_target(write)
        situation = replace(before, now=self._clock.now(), on_target=busy, judgement=fresh.judgement, facts=fresh.named)
        if write.approved:
            situation = replace(situation, approved_amount=self._approved_amount(write))
        if write.undo:
            touched = None if write.sent else touched_meanwhile(self._ledger, write, others)
            done = [one for one in undone_by(write, others) if one.state != "cancelled"]
            unread = any(one.confirmed_by != "read" for one in done)
            situation = replace(situation, touched=touched, left=left_now(write, others), left_unread=unread)
        return situation

    def _earlier(self, write: Write) -> tuple[Write, ...]:
        key = write.key
        return earlier_in_do(write, self._ledger.episode_writes(key.partner, key.event, key.rule, key.episode))

    def _on_target(self, write: Write) -> tuple[tuple[Write, ...], tuple[Write, ...]]:
        """Every write of its target, and those of them that hold it back."""
        others = self._settler.on_target(write)
        return others, tuple(one for one in others if holds_back(one, write))

    def _approved_amount(self, write: Write) -> float | None:
        """What whoever approved the write last was shown that it spends, as the log has it."""
        said = [one["facts"] for one in self._ledger.log(LogFilter(write=write.id)) if one["kind"] == "approved"]
        amount = said[-1].get("amount") if said and isinstance(said[-1], dict) else None
        return float(amount) if isinstance(amount, int | float) else None

    def _store(self, change: Move | None) -> None:
        if change is not None:
            with suppress(StateConflict):  # somebody else moved it first; the next cycle reads what it is now
                self._ledger.apply(Commit(at=self._clock.now(), moves=(change,)))


def _as_it_was(write: Write, known: Write) -> bool:
    """Whether nobody has moved it since."""
    return (write.state, write.attempt, write.changed_at) == (known.state, known.attempt, known.changed_at)


def response_of(outcome: Outcome) -> dict[str, Json]:
    """The ``response`` field of a record."""
    answer = outcome.answer
    if answer is None:
        return {"error": outcome.why}
    return {
        "status": answer.status,
        "x_request_id": answer.x_request_id,
        "retry_after": answer.retry_after.total_seconds() if answer.retry_after is not None else None,
        "took_ms": answer.took_ms,
    }
