"""`advance`: the next state of one write, from what just happened to it.

Why one function over a closed set of inputs: the daemon, the operators' commands, the rule tests and the simulation all
push writes through this door, so that what is proved of it holds for all of them. It never sends; `Next.then` says what
the shell shall do next. Time, a restart or a lost lock alone never makes an unknown write sendable: only a row of reads
that all say *not there* does, and presence in any single read settles it for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias, assert_never

from worker.model.commits import Move, PartnerMemory, Record, of_write
from worker.model.exchange import Accepted, NotSent, Outcome, Refused, Uncertain
from worker.model.writes import State, Write
from worker.writes.evidence import Evidence, TargetRead

# Refusals of our credentials (401, 403), counted for the partner and not for the write. Pure.
#
# The first one may be a token that has just ended: the next attempt signs in anew. A second one in a row, by whichever
# write of the partner, means that a new token does not help, and holds all of its writes, so that nobody hammers a
# door that is locked and no account gets blocked. Attempts that were under way together were made with the same token
# and are one refusal. What ends the row is an answer that shows that a write was let in; a 429 or a broken connection
# shows nothing. The row is part of the partner's memory: it outlives the process.

CREDENTIALS_HOLD = timedelta(minutes=5)
"""How long the writes are held before the credentials are tried again, by one write alone."""


def in_a_row(memory: PartnerMemory, sending: Write) -> bool:
    """Whether a refusal of this attempt is the second in a row: it was recorded after the first one had come."""
    sent = sending.last_sent_at
    return memory.denied_at is not None and sent is not None and sent > memory.denied_at


def after_outcome(memory: PartnerMemory, sending: Write, outcome: Outcome, now: datetime) -> PartnerMemory:
    """The partner's memory after an attempt. ``sending`` is the write as it was recorded for it."""
    if sending.message:
        return memory
    if isinstance(outcome, NotSent) and outcome.cause == "denied":
        if in_a_row(memory, sending):
            return replace(memory, denied_until=now + CREDENTIALS_HOLD)
        first = min(memory.denied_at or now, now)  # one that is still to come was stamped by a clock that was wrong
        return replace(memory, denied_at=first)
    if isinstance(outcome, Accepted | Refused) and memory.denied_at is not None:
        return replace(memory, denied_at=None, denied_until=None)
    return memory


# The state machine of a write: one table and one door.
#
# Every change of state in the worker is made by `move`; a pair that the table lacks is a programming error and raises
# before anything is stored. The one exception has a function of its own, `restored`: what becomes of open writes where
# an operator accepts a restored ledger. The pictures in docs/operating.md and docs/reference.md are drawn from this
# table.

MOVES: Mapping[State, tuple[State, ...]] = {
    "planned": ("waiting", "sending", "refused", "skipped", "cancelled", "confirmed"),
    "waiting": ("planned", "cancelled", "skipped"),
    "sending": ("applied", "unknown", "rejected", "planned"),
    "applied": ("confirmed", "unconfirmed", "needs_human", "planned"),
    "unknown": ("confirmed", "sending", "skipped", "cancelled", "needs_human"),
    "needs_human": ("confirmed", "planned", "skipped", "cancelled"),
    "confirmed": (),
    "unconfirmed": (),
    "rejected": (),
    "refused": (),
    "skipped": (),
    "shadowed": (),
    "cancelled": (),
}
"""``applied`` goes to ``planned`` only where an overtaken opposite write landed afterwards."""


class IllegalMove(Exception):
    """The table has no such move. A defect of the worker, never of its input."""


def move(write: Write, to: State, *, at: datetime, reason: str, why: str, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """The move of ``write`` to state ``to``, with its record. ``changes`` are further fields of the write; one that
    begins a hold is recorded as well.

    A hold ends with every change of state. How long a write is held counts from when it could first be sent: an attempt
    that is proven unsent begins nothing anew. Raises `IllegalMove`.
    """
    if to not in MOVES[write.state]:
        raise IllegalMove(f"a write cannot go from {write.state} to {to}")
    fields: dict[str, Any] = {"held_by": None, "held_until": None, **changes}
    if (to == "planned" and write.state != "sending") or (to == "sending" and write.state == "unknown"):
        fields["due_since"] = at
    after = replace(write, state=to, changed_at=at, reason=reason, why=why, **fields)
    records = [of_write(after, at=at, kind=to, reason=reason, why=why)]
    if after.held_by is not None:
        records.append(of_write(after, at=at, kind="held", reason=after.held_by, why=why))
    return Move(before=write, after=after, records=tuple(records))


def restored(write: Write, *, at: datetime, moved_to: str = "") -> Move:
    """The move of a write that was not final in a ledger that an operator accepted as restored, or took to another
    service (``moved_to``): whatever the table says, nobody knows what became of it since. Raises `IllegalMove`."""
    if write.final:
        raise IllegalMove(f"a write that is {write.state} stays so when its ledger is restored")
    why = f"was {write.state} when the ledger was backed up; what happened to it since is not known"
    if moved_to:
        why = f"was {write.state} when the ledger was taken to {moved_to}; what it came to there is not known"
    after = replace(
        write,
        state="needs_human",
        reason="restored",
        why=why,
        changed_at=at,
        held_by=None,
        held_until=None,
        absent_proved=False,
    )
    return Move(
        before=write, after=after, records=(of_write(after, at=at, kind="needs_human", reason="restored", why=why),)
    )


def and_then(first: Move, to: State, *, at: datetime, reason: str, why: str, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """Two moves made at once, where the first leaves nothing to wait for; each has its record."""
    return first.then(move(first.after, to, at=at, reason=reason, why=why, **changes))


def hold(write: Write, *, at: datetime, reason: str, why: str, until: datetime | None = None) -> Move | None:
    """The write stays where it is and says what holds it; None where it already says so.

    A record is made only when the reason changes, so that a long hold does not fill the log.
    """
    if (write.held_by, write.held_until, write.why) == (reason, until, why):
        return None
    records: tuple[Record, ...] = ()
    if write.held_by != reason:
        records = (of_write(write, at=at, kind="held", reason=reason, why=why),)
    return Move(before=write, after=replace(write, held_by=reason, held_until=until, why=why), records=records)


def note(write: Write, **changes: Any) -> Move:  # noqa: ANN401 - fields of Write
    """A change of a write's own fields without a change of state and without a record."""
    return Move(before=write, after=replace(write, **changes))


# What `advance` is told and what it answers: the closed set of inputs, the policy it judges by, and the step it gives.
#
# Plain shapes without judgement, apart from the function so that those who only hand something in need not know it.


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How long and how often to look before anything is concluded; the ``safety`` section for one kind of write.

    ``toggle``: a second send would undo the first, so an unknown outcome is always for an operator. ``reads_back``: a
    read can show the effect. ``ask``: unknown outcomes are put before an operator at once. ``spends``: twice, it costs
    money.
    """

    settle: timedelta
    evidence_reads: int
    evidence_within: timedelta
    confirm_within: timedelta
    max_attempts: int
    interval: timedelta
    ask: bool = False
    toggle: bool = False
    reads_back: bool = True
    spends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Settling:
    """What this process knows of an unsettled write; lost on a restart on purpose, so that the row begins anew.

    Times are monotonic seconds. ``ended``: end of the last attempt, or the start of the process. ``absent``: reads in a
    row that said *not there*. ``looked_at``: when, by the ledger, a process before this one first read the target after
    the time in which reads should have settled it; None where none did. ``late_s``: so long after ``ended`` a replica
    that is gone may still let out a byte: until then a read can show the effect, and no absence. ``seen``: a read has
    shown the effect while the attempt's answer was awaited, and so nothing proves that it had none.
    """

    ended: float
    late_s: float = 0.0
    absent: int = 0
    last_read: float | None = None
    looked_at: datetime | None = None
    seen: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempted:
    """One attempt ended. ``denied_before``: the partner's credentials were refused already, and no write was let in
    since: a refusal of this one is the second in a row."""

    outcome: Outcome
    denied_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSending:
    """The row stood in ``sending`` when the process started, or in a fleet took the partner over: see `Settling`."""

    late_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFailed:
    """The service's task for this write failed."""

    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """An operator says whether the write took effect."""

    applied: bool
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwanted:
    """The write is not wanted any more: its condition is definitely false, or a newer write takes its place."""

    reason: str
    why: str


Input: TypeAlias = Attempted | TargetRead | FoundSending | TaskFailed | Verdict | Unwanted
Then: TypeAlias = Literal["read", "send", "rest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What follows: the move to record (None: nothing changed), the new settling, and what to do next."""

    move: Move | None
    settling: Settling | None
    then: Then


BACKOFF_FIRST = timedelta(seconds=5)
BACKOFF_MAX = timedelta(seconds=60)
DENIALS_BEFORE_HOLD = 2
"""A refusal of our credentials is answered by signing in anew, once; the second in a row of one write holds it."""


def advance(write: Write, settling: Settling | None, event: Input, policy: Policy, at: tuple[datetime, float]) -> Next:
    """The write's next step. ``at`` is now, as UTC and as monotonic seconds.

    Raises `worker.writes.life.IllegalMove` for an input that the write's state does not allow.
    """
    now, monotonic = at
    _must_take(write, event)
    if isinstance(event, Attempted):
        return _after_attempt(write, event, policy, now, monotonic)
    if isinstance(event, TargetRead):
        return _after_read(write, settling or Settling(ended=monotonic), event, policy, at)
    if isinstance(event, FoundSending):
        reason, why = "crash", "the process ended while this write was being sent"
        if event.late_s:
            reason, why = "takeover", "the replica that was sending this write is gone"
        unknown = _became_unknown(write, reason, f"{why}; whether it took effect is not known", policy, now, monotonic)
        return replace(unknown, settling=Settling(ended=monotonic, late_s=event.late_s))
    if isinstance(event, TaskFailed):
        return _task_failed(write, settling, event, now)
    if isinstance(event, Verdict):
        return _verdict(write, event, policy, now)
    if isinstance(event, Unwanted):
        return _unwanted(write, settling, event, policy, now)
    assert_never(event)


def _must_take(write: Write, event: Input) -> None:
    """Refuses what only another state can meet. The table alone would let some of it through: a verdict on a write
    that is being sent looks like an attempt that was not sent."""
    states = _TAKEN_IN.get(type(event))
    if states is not None and write.state not in states:
        raise IllegalMove(f"a write that is {write.state} cannot meet {type(event).__name__}")


_TAKEN_IN: Mapping[type, frozenset[State]] = {
    Attempted: frozenset({"sending"}),
    FoundSending: frozenset({"sending"}),
    TargetRead: frozenset({"applied", "unknown", "needs_human"}),
    Verdict: frozenset({"needs_human"}),
}
"""States in which each input means something; the others are taken in any state and may change nothing."""


def may_resend(write: Write, settling: Settling, policy: Policy, monotonic: float) -> bool:
    """Whether an unknown write is proved absent and its back-off is over; the condition is judged by the pre-flight."""
    return _proved_absent(settling, policy) and monotonic - settling.ended >= backoff(write.counted).total_seconds()


def attempts_left(write: Write, policy: Policy) -> bool:
    """Whether one more attempt is allowed. An operator's ``--not-applied`` allows exactly one beyond those made."""
    return write.counted < policy.max_attempts + write.extra_attempts


def backoff(attempts: int) -> timedelta:
    """How long to wait after so many attempts, without jitter: 5 s, 10 s, 20 s … 60 s."""
    doublings = min(max(attempts - 1, 0), 6)
    return min(BACKOFF_MAX, BACKOFF_FIRST * (1 << doublings))


def _after_attempt(write: Write, event: Attempted, policy: Policy, now: datetime, monotonic: float) -> Next:
    outcome = event.outcome
    if isinstance(outcome, Accepted):
        said = outcome.why or f"the service answered {outcome.answer.status}"
        if not policy.reads_back:
            taken = move(write, "applied", at=now, reason="accepted", why=said, denied=0)
            why = outcome.why or "the service accepted it, and this effect cannot be read back"
            done = and_then(taken, "confirmed", at=now, reason="answer", why=why, confirmed_by="answer")
            return Next(move=done, settling=None, then="rest")
        taken = move(write, "applied", at=now, reason="accepted", why=f"{said}; the next reads must show it", denied=0)
        return Next(move=taken, settling=Settling(ended=monotonic), then="read")
    if isinstance(outcome, Refused):
        done = move(write, "rejected", at=now, reason="refused_by_service", why=outcome.why)
        return Next(move=done, settling=None, then="rest")
    if isinstance(outcome, NotSent) and _may_have_landed(outcome, policy):
        why = f"{outcome.why}; the effect may be there all the same"
        return _became_unknown(write, "ambiguous", why, policy, now, monotonic)
    if isinstance(outcome, NotSent):
        return _not_sent(write, outcome, now, denied_before=event.denied_before)
    if isinstance(outcome, Uncertain):
        return _became_unknown(write, "ambiguous", outcome.why, policy, now, monotonic)
    assert_never(outcome)


def _may_have_landed(outcome: NotSent, policy: Policy) -> bool:
    """A refusal of our credentials is no proof that nothing happened: not of what spends, because the read before the
    next attempt may be too old to show it, and not of what no read shows, where the token had just worked."""
    if outcome.cause != "denied" or outcome.answer is None:
        return False
    ago = outcome.accepted_ago
    return policy.spends or (not policy.reads_back and ago is not None and ago <= policy.interval)


def _not_sent(write: Write, outcome: NotSent, now: datetime, *, denied_before: bool) -> Next:
    denied, uncounted = write.denied + 1 if outcome.cause == "denied" else 0, write.uncounted + 1
    held: dict[str, object] = {}
    if denied >= DENIALS_BEFORE_HOLD or (denied and denied_before):
        held = {"held_by": "credentials", "held_until": now + CREDENTIALS_HOLD}
    elif not denied:
        held = {"held_by": "backoff", "held_until": now + backoff(uncounted)}
    reason = "denied" if denied else "not_sent"
    back = move(write, "planned", at=now, reason=reason, why=outcome.why, uncounted=uncounted, denied=denied, **held)
    return Next(move=back, settling=None, then="send")


def _became_unknown(write: Write, reason: str, why: str, policy: Policy, now: datetime, monotonic: float) -> Next:
    since = write.unknown_since or now
    lost = move(write, "unknown", at=now, reason=reason, why=why, unknown_since=since, denied=0)
    asked = _for_operator(policy)
    if asked is not None:
        code, words = asked
        lost = and_then(lost, "needs_human", at=now, reason=code, why=f"{why}; {words}")
    return Next(move=lost, settling=Settling(ended=monotonic), then="read")


def _for_operator(policy: Policy) -> tuple[str, str] | None:
    """Why an unknown outcome of this kind is never settled by reading alone: the reason code, and the words."""
    if not policy.reads_back:
        return "no_readback", "and this effect cannot be read back"
    if policy.toggle:
        return "toggle", "and sending a toggle again would undo it"
    if policy.ask:
        return "ask", "and such outcomes are put before an operator by configuration"
    return None


def _after_read(write: Write, settling: Settling, read: TargetRead, policy: Policy, at: tuple[datetime, float]) -> Next:
    now, _ = at
    if read.began < settling.ended:
        return Next(move=None, settling=settling, then="read")
    if read.overtook == "unsettled" and (read.evidence.says == "there" or write.state == "applied"):
        return Next(move=None, settling=replace(settling, absent=0, last_read=read.began), then="read")
    if read.evidence.says == "there":
        done = move(
            write, "confirmed", at=now, reason="read", why=read.evidence.why, confirmed_by="read", absent_proved=False
        )
        return Next(move=done, settling=None, then="rest")
    if read.overtook == "landed" and _undone(write, settling, read, policy):
        return _sent_anew(write, read, now)
    counted = _counted(settling, read, policy)
    if write.state == "applied":
        return _still_applied(write, counted, read, policy, at)
    if write.state == "unknown":
        return _still_unknown(write, counted, read, policy, at)
    newly = not write.absent_proved and _proved_absent(counted, policy)
    change = note(write, absent_proved=True) if newly else None  # a proof stands: only presence takes it back
    return Next(move=change, settling=counted, then="read")


def _undone(write: Write, settling: Settling, read: TargetRead, policy: Policy) -> bool:
    """The target shows something else so long after the attempt that neither a lagging read nor a late effect of our
    own explains it: the overtaken write landed last."""
    unread = (write.state, write.reason) == ("needs_human", "no_evidence")  # as long as nothing could be read
    settled = read.began - settling.ended - settling.late_s >= policy.settle.total_seconds()
    return (write.state == "applied" or unread) and settled and _disagrees(read.evidence)


def _disagrees(evidence: Evidence) -> bool:
    """The target was read, and shows something else; what could not be read, or not be told, says nothing."""
    return evidence.says == "not_there" or evidence.third is not None


def _sent_anew(write: Write, read: TargetRead, now: datetime) -> Next:
    """The opposite write that this one had overtaken landed after it: what stops spending is sent once more, which
    does not count against the attempts."""
    why = f"an opposite write that it had overtaken landed after it: {read.evidence.why}"
    extra = write.extra_attempts + 1
    back = move(write, "planned", at=now, reason="overtaken", why=why, extra_attempts=extra, unknown_since=None)
    return Next(move=back, settling=None, then="send")


def _counted(settling: Settling, read: TargetRead, policy: Policy) -> Settling:
    """The row of reads with this one: *cannot tell* starts it anew; reads too close together count once.

    The order is that in which reads began: an answer that comes late never stands behind one that began after it.
    """
    last = settling.last_read
    if read.evidence.says == "cannot_tell":
        return replace(settling, absent=0, last_read=read.began if last is None else max(last, read.began))
    least = policy.interval.total_seconds() if settling.absent > 0 else 0.0
    if last is not None and read.began - last < least:
        return settling
    return replace(settling, absent=settling.absent + 1, last_read=read.began)


def _proved_absent(settling: Settling, policy: Policy) -> bool:
    if settling.seen or settling.absent < policy.evidence_reads or settling.last_read is None:
        return False
    return settling.last_read - settling.ended - settling.late_s >= policy.settle.total_seconds()


def _still_applied(
    write: Write, settling: Settling, read: TargetRead, policy: Policy, at: tuple[datetime, float]
) -> Next:
    """Reads that disagree for too long end it; reads that fail say nothing, and end it only much later. Where only the
    wall clock says so, because processes come and go, an operator is asked: that clock may be wrong; and where the
    opposite write that it overtook has landed, which may stand now."""
    now, monotonic = at
    disagrees, landed = _disagrees(read.evidence), read.overtook == "landed"
    limit = policy.confirm_within if disagrees else policy.evidence_within
    over = monotonic - settling.ended > limit.total_seconds()
    restarts = now - write.changed_at > limit and _read_for_long(settling, policy, now)
    if (disagrees and landed) or not (over or restarts):
        return Next(move=None, settling=settling, then="read")
    during = f"for {limit}" if over else "over several restarts"
    why = f"the service accepted it, and {during} no read has shown it: {read.evidence.why}"
    if landed or not over:
        up = move(write, "needs_human", at=now, reason="no_evidence", why=why)
        return Next(move=up, settling=settling, then="read")
    end = move(write, "unconfirmed", at=now, reason="never_confirmed", why=why)
    return Next(move=end, settling=None, then="rest")


def _still_unknown(
    write: Write, settling: Settling, read: TargetRead, policy: Policy, at: tuple[datetime, float]
) -> Next:
    now, monotonic = at
    given_up = _given_up(write, settling, read, policy, at)
    if given_up is not None:
        code, why = given_up
        up = move(write, "needs_human", at=now, reason=code, why=why, absent_proved=_proved_absent(settling, policy))
        return Next(move=up, settling=settling, then="read")
    young = now - (write.unknown_since or now) < policy.evidence_within
    then: Then = "send" if young and may_resend(write, settling, policy, monotonic) else "read"
    return Next(move=None, settling=settling, then=then)


def _given_up(
    write: Write, settling: Settling, read: TargetRead, policy: Policy, at: tuple[datetime, float]
) -> tuple[str, str] | None:
    """Why an operator must tell: the reason code, and the words. None while reads may still settle it."""
    if read.evidence.third is not None:
        return read.evidence.third, read.evidence.why
    asked = _for_operator(policy)
    if asked is not None:
        code, words = asked
        return code, f"whether it took effect is not known, {words}"
    proved = _proved_absent(settling, policy)
    if proved and not attempts_left(write, policy):
        return "attempts", f"{write.counted} attempts are proved to have had no effect, and no more are allowed"
    if _too_long(write, settling, policy, *at):
        said = "prove it absent, and it was not sent again" if proved else "could not settle whether it took effect"
        return "no_evidence", f"for {policy.evidence_within} reads {said}: {read.evidence.why}"
    return None


def _too_long(write: Write, settling: Settling, policy: Policy, now: datetime, monotonic: float) -> bool:
    """Too long in this process, or by the wall clock once this process had a fair time to look for itself, or several
    that came and went had it together. That clock only ever asks an operator, or does so later."""
    here = monotonic - settling.ended
    if here >= policy.evidence_within.total_seconds():
        return True
    fair = here >= 2 * policy.settle.total_seconds() or _read_for_long(settling, policy, now)
    return fair and now - (write.unknown_since or now) >= policy.evidence_within


def _read_for_long(settling: Settling, policy: Policy, now: datetime) -> bool:
    """Whether processes before this one began to look so long ago, by the ledger's times, that all together had a fair
    time, though each of them ended too soon."""
    return settling.looked_at is not None and now - settling.looked_at >= 2 * policy.settle


def _task_failed(write: Write, settling: Settling | None, event: TaskFailed, now: datetime) -> Next:
    if write.state != "applied":
        return Next(move=None, settling=settling, then="read")
    why = f"the service accepted it and then reported its task as {event.state}"
    up = move(write, "needs_human", at=now, reason="task_failed", why=why)
    return Next(move=up, settling=settling, then="read")


def _verdict(write: Write, event: Verdict, policy: Policy, now: datetime) -> Next:
    if event.applied:
        done = move(write, "confirmed", at=now, reason="person", why=event.because, confirmed_by="person")
        return Next(move=done, settling=None, then="rest")
    anew = {"extra_attempts": write.counted + 1 - policy.max_attempts, "absent_proved": False, "unknown_since": None}
    back = move(write, "planned", at=now, reason="person", why=event.because, **anew)
    return Next(move=back, settling=None, then="send")


def _unwanted(write: Write, settling: Settling | None, event: Unwanted, policy: Policy, now: datetime) -> Next:
    """An unsent write ends; one that was sent ends only where its last attempt is proved absent."""
    if write.state == "unknown":
        ends = settling is not None and _proved_absent(settling, policy)
    elif write.state == "needs_human":
        ends = write.absent_proved
    else:
        ends = write.state in ("planned", "waiting")
    if not ends:
        return Next(move=None, settling=settling, then="read")
    end = move(write, "skipped", at=now, reason=event.reason, why=event.why)
    return Next(move=end, settling=None, then="rest")
