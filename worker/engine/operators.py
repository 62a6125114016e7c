"""What an operator's word does: to a write through the same door as everything else, to memory as an edit does. Pure.

The commands store what comes of it in a short transaction of their own; a running daemon sees it in its next cycle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from worker.engine.derived import attributed
from worker.engine.planning import begun, reopened, with_remembered
from worker.engine.ports import ReadableLedger
from worker.engine.views import EngineSettings, of_another, policy_for, waits
from worker.model.actions import AFTER
from worker.model.commits import WORKER, MemoryChange, Move, PartnerMemory, Record, RuleMemory, of_write
from worker.model.errors import NotFound, WorkerError
from worker.model.facts import EventId, Json, Observation, PartnerId, RuleId
from worker.model.rules import Rule, RuleSet, Scope
from worker.model.writes import NO_RULE, UNDOES, UNSENT, Plan, State, Write, WriteKey
from worker.writes.intents import plan_steps
from worker.writes.life import Verdict, advance, move, restored
from worker.writes.undo import PutBack, Undo, last_firing, may_have_effect, undoing, undone_by

WITHOUT_EFFECT: frozenset[State] = frozenset({"rejected", "refused", "skipped", "shadowed", "cancelled"})
"""States that ``again`` reopens: the write ended, and nothing came of it."""


def ended_without_effect(write: Write) -> bool:
    """Whether ``again`` may reopen it. Of one that was sent and given up nobody knows."""
    return write.state in WITHOUT_EFFECT and not may_have_effect(write)


Memories = Mapping[tuple[PartnerId, EventId, RuleId], RuleMemory]


NO_REASON = "no reason given"
"""What stands in the log where somebody approved or rejected without a word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """An operator's word: why, who, and when."""

    because: str
    by: str
    at: datetime


def resolved(write: Write, word: Word, *, applied: bool, settings: EngineSettings, late_s: float = 0.0) -> Move:
    """The move of a ``resolve``: confirmed by an operator, or planned again for exactly one more attempt. ``late_s``:
    how late a byte of an attempt may leave; until then nobody can know that it did not take effect. Raises
    `NotFound`."""
    late = timedelta(seconds=max(late_s, settings.late_s))
    until = write.changed_at + late
    if not applied and timedelta(0) < until - word.at <= late:  # later than that only a clock says that was set back
        raise NotFound(
            f"write {write.id}: what was sent may still leave a worker until {until:%H:%M:%S} UTC; nothing was changed",
            hint="look at the service after that, and say it then",
        )
    policy = policy_for(write, RuleSet(), settings)
    step = advance(write, None, Verdict(applied=applied, because=word.because), policy, (word.at, 0.0))
    if step.move is None:
        raise WorkerError(f"write {write.id} cannot be resolved from {write.state}")
    said = "it took effect" if applied else "it did not take effect; one more attempt is allowed"
    verdict = of_write(write, at=word.at, kind="resolved", reason="person", why=f"{said}: {word.because}")
    return _by(word.by, step.move, verdict)


def approved(write: Write, *, because: str, by: str, now: datetime, amount: float | None = None) -> Move:
    """The move of an ``approve``: a waiting write is planned again, and still passes every guard. ``amount``: what the
    one who approves it was shown that it spends."""
    facts: Mapping[str, Json] | None = None if amount is None else {"amount": amount}
    change = move(write, "planned", at=now, reason="person", why=because, approved=True)
    return _decided(write, "approved", change, by, facts)


def rejected(write: Write, *, because: str, by: str, now: datetime) -> Move:
    """The move of a ``reject``: the write ends as cancelled, and its episode does not plan it again."""
    return _decided(write, "resolved", move(write, "cancelled", at=now, reason="person", why=because), by)


def _decided(write: Write, kind: str, change: Move, by: str, facts: Mapping[str, Json] | None = None) -> Move:
    """The person's word first, then the state that follows from it; both say who it was."""
    word = "let go" if kind == "approved" else "rejected"
    said = of_write(write, at=change.after.changed_at, kind=kind, reason="person", why=f"{word}: {change.after.why}")
    return _by(by, change, replace(said, facts=facts))


def _by(by: str, change: Move, *said: Record) -> Move:
    """The move with what somebody has said before its own records, all by the one who said it."""
    return replace(change, records=tuple(replace(record, by=by) for record in (*said, *change.records)))


def after_restore(write: Write, *, by: str, now: datetime, moved_to: str = "") -> Move:
    """The move of a write that was open in a ledger that an operator accepts as restored, or takes to another
    service."""
    return _by(by, restored(write, at=now, moved_to=moved_to))


def last_of_its_rule(write: Write, memories: Memories) -> bool:
    """Whether the write's episode is the last one of its rule and event: what came later has taken its place."""
    memory = memories.get((write.key.partner, write.key.event, write.key.rule))
    return memory is not None and memory.episode == write.key.episode


def reopening(writes: Iterable[Write], memories: Memories, history: ReadableLedger) -> list[MemoryChange]:
    """What ``again`` changes: the memory of the rule whose write it is, and of those that share it still. What they
    have done already is done once more only if somebody lets it, and so is what waits for approval still."""
    changes: dict[tuple[PartnerId, EventId, RuleId], MemoryChange] = {}
    for write in writes:
        for rule in dict.fromkeys((write.key.rule, *write.rules)):
            pair = (write.key.partner, write.key.event, rule)
            memory = memories.get(pair)
            if memory is not None and (rule == write.key.rule or (memory.open and memory.fired)):
                of_firing = history.episode_writes(*pair, memory.episode)
                waited = "begun" if memory.waited == "begun" else None  # of its own it had sent nothing
                asked = waited or begun(of_firing) or next(filter(None, map(waits, of_firing)), None)
                changes.setdefault(pair, MemoryChange(before=memory, after=_reopened(memory, write, asked)))
    return list(changes.values())


def spoken(write: Write, kind: str, word: Word) -> Record:
    """The record of an operator's word about a write."""
    reason = "undo" if word.by == WORKER else "person"
    return replace(of_write(write, at=word.at, kind=kind, reason=reason, why=word.because), by=word.by)


def _reopened(memory: RuleMemory, write: Write, asked: str | None) -> RuleMemory:
    """The next true poll opens another episode, and a change is pending again against the baseline before it.

    The number after the closed episode is used up, so that a daemon which decides at this very moment on the memory as
    it was cannot store it over this one: its commit is behind the ledger, and it decides anew.
    """
    closed = reopened(with_remembered(memory, write))
    forced = memory.forced if memory.looked_at is None else None
    return replace(closed, episode=memory.episode + 1, forced=forced, waited=None, asked=asked, stopped=None, held=None)


# What an undo plans, and what it leaves alone: one undo for each target. Reads the ledger, stores nothing.
#
# The command stores what comes of it in a short transaction of its own; a running daemon sends it as any other write.
# Of a rule it is a step: the same writes, in its firing's place.


def undo_by_rule(
    history: ReadableLedger, memory: PartnerMemory, event: EventId, rule: Rule, undone: str, now: datetime
) -> Undo:
    """What the step ``undo`` of a rule becomes: of the last firing of another one, or of that which the rule comes
    after, which is one of the confirmed. ``memory``: that of the partner, which tells of resets."""
    every = history.writes(event=event, partner=memory.partner)
    writes = [one for one in every if one.intent.target and may_have_effect(one) and not of_another(memory, one)]
    ground = [one for one in writes if one.state == "confirmed"] if undone == AFTER else writes
    found = last_firing(ground, str(rule.after) if undone == AFTER else undone)
    of = {(one.key.rule, one.key.episode) for one in found.standing}
    undos = {number for one in ground if one.undo for number in one.undoes}
    chosen = [one for one in writes if (one.key.rule, one.key.episode) in of and one.id not in undos]
    return undo_of(history, chosen, Word(because=f"rule {rule.id}", by=WORKER, at=now), shadow=False, own=rule.id)


def undo_of(
    history: ReadableLedger, chosen: Sequence[Write], word: Word, *, shadow: bool, own: RuleId = NO_RULE
) -> Undo:
    """One undo for each target of the chosen writes. Each of these must pass `worker.writes.undo.may_have_effect`.

    ``shadow``: the config is in shadow mode, so that nothing is sent. ``own``: the rule that asks; what it has not sent
    yet of an older firing is replaced by this one.
    """
    found = Undo()
    targets: dict[tuple[PartnerId, EventId, str], list[Write]] = {}
    for write in chosen:
        targets.setdefault((write.key.partner, write.key.event, write.intent.target), []).append(write)
    episodes: dict[tuple[PartnerId, EventId], int] = {}
    for (partner, event, target), writes in targets.items():
        of_target = history.target_writes(partner, event, target)
        others = [one for one in of_target if one.key.rule != own or not own or one.state not in UNSENT]
        result = undoing(writes, others, partial(_by_another, history))
        found.kept.extend(result.kept)
        if result.put_back is None:
            continue
        last = episodes.get((partner, event)) or max(
            (one.key.episode for one in history.writes(rule=NO_RULE, partner=partner, event=event)), default=0
        )
        episodes[partner, event] = last + 1
        found.undone.append((result.put_back, len(found.plans)))
        found.plans.extend(_plans(result.put_back, word, episode=last + 1, shadow=shadow))
        found.records.extend(spoken(write, "undone", word) for write in result.put_back.undoes)
    return found


def touched_meanwhile(history: ReadableLedger, undo: Write, of_target: Iterable[Write]) -> str | None:
    """What the log says of a change of an undo's field that was not the worker's, since the newest write that it undoes
    and that may have had an effect was sent, or since the undo was planned where none may: then the field may read as
    it was left, and it was somebody else that left it so. ``of_target``: every write of the target."""
    undone = undone_by(undo, of_target)
    return _by_another(history, undone[0] if undone else undo)


def _by_another(history: ReadableLedger, write: Write) -> str | None:
    """What the log tells of somebody else's change of the write's target after it was sent, or planned where it was
    not. That goes by the log's numbers, and by times only where the log does not tell: a wall clock is set back. Not
    what it tells before the first record of the worker's own change to what the write asks for: a poll tells of changes
    in their order, and of some after a write that came later."""
    key, name = write.key, f"event.{write.intent.target}"
    doings = history.doings(key.partner, key.event)
    makers = attributed(doings, history.writes(event=key.event, partner=key.partner))
    since = write.last_sent_at if write.sent and not write.sent_seq else None
    planned = next((one.seq for one in doings if one.write == write.id), 0)
    after = write.sent_seq if write.sent else planned
    found, came = None, False
    for one in doings:
        facts = one.facts or {}
        if one.seq not in makers or name not in facts or one.seq <= after or (since is not None and one.at < since):
            continue
        if makers[one.seq] is None:
            found = found or f"somebody else has changed {name} since, to {facts[name]!r} (log record {one.seq})"
        elif facts[name] == write.intent.wanted.get(write.intent.target) and not came:
            found, came = None, True
    return found


def _plans(put: PutBack, word: Word, *, episode: int, shadow: bool) -> Iterator[Plan]:
    """The writes of one undo, made as a rule's are. ``episode``: which undo of the event this is."""
    key = put.undoes[0].key
    numbers = ", ".join(str(write.id) for write in put.undoes)
    said = "; ".join(f"{name} back {words}" for name, words in put.words().items())
    context: dict[str, Json] = {UNDOES: [int(write.id) for write in put.undoes]}
    if put.guarded:
        context["left"] = dict(put.left)
    nothing = Observation(partner=key.partner, event=key.event, facts={})
    asked = Rule(id=NO_RULE, file="", do=put.steps)
    for step in plan_steps(asked, Scope(observation=nothing, keys={}, now=word.at), context):
        yield Plan(
            key=WriteKey(
                partner=key.partner,
                event=key.event,
                rule=NO_RULE,
                episode=episode,
                position=step.position,
                item=step.item,
            ),
            intent=step.intent,
            state="shadowed" if shadow else "planned",
            reason="mode" if shadow else "undo",
            why=f"{'shadow mode: ' if shadow else ''}undo of {numbers}: {said}: {word.because}",
        )
