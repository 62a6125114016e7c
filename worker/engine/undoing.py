"""What a person's undo plans, and what it leaves alone: one undo for each target. Reads the ledger, stores nothing.

The command stores what comes of it in a short transaction of its own; a running daemon sends it as any other write.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from worker.engine.operators import Word, spoken
from worker.model.commits import Commit, LogFilter
from worker.model.facts import Json, Observation
from worker.model.ids import EventId, PartnerId
from worker.model.records import Record
from worker.model.rules import Rule, Scope
from worker.model.writes import NO_RULE, Plan, Write, WriteKey
from worker.writes.intents import plan_steps
from worker.writes.undo import Foreign, Kept, PutBack, undoing, undone_by


class Log(Protocol):
    """Where the changes that looks have seen stand."""

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]: ...


class History(Log, Protocol):
    """What an undo asks of the ledger."""

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]: ...
    def writes(
        self, *, event: str | None = None, partner: str | None = None, rule: str | None = None
    ) -> list[Write]: ...


@dataclass(slots=True)
class Undo:
    """What is to be stored, and what is to be said. ``undone``: each with its place among ``plans``."""

    plans: list[Plan] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    undone: list[tuple[PutBack, int]] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def commit(self, word: Word) -> Commit:
        """The transaction."""
        return Commit(at=word.at, records=tuple(self.records), plans=tuple(self.plans), by=word.by)


def undo_of(history: History, chosen: Sequence[Write], word: Word, *, shadow: bool) -> Undo:
    """One undo for each target of the chosen writes. Each of these must pass `worker.writes.undo.may_have_effect`.

    ``shadow``: the config is in shadow mode, so that nothing is sent.
    """
    found = Undo()
    targets: dict[tuple[PartnerId, EventId, str], list[Write]] = {}
    for write in chosen:
        targets.setdefault((write.key.partner, write.key.event, write.intent.target), []).append(write)
    episodes: dict[tuple[PartnerId, EventId], int] = {}
    for (partner, event, target), writes in targets.items():
        result = undoing(writes, history.target_writes(partner, event, target), _foreign(history))
        found.kept.extend(result.kept)
        if result.put_back is None:
            continue
        last = episodes.get((partner, event)) or _last_undo(history, partner, event)
        episodes[partner, event] = last + 1
        found.undone.append((result.put_back, len(found.plans)))
        found.plans.extend(_plans(result.put_back, word, episode=last + 1, shadow=shadow))
        found.records.extend(spoken(write, "undone", word) for write in result.put_back.undoes)
    return found


def _last_undo(history: History, partner: PartnerId, event: EventId) -> int:
    return max((write.key.episode for write in history.writes(rule=NO_RULE, partner=partner, event=event)), default=0)


def touched_meanwhile(log: Log, undo: Write, history: Iterable[Write]) -> str | None:
    """What the log says of a change of an undo's field that was not the worker's, since the newest write that it undoes
    and that may have had an effect was sent, or since the undo was planned where none may: then the field may read as
    it was left, and it was another hand that left it so. ``history``: every write of the target."""
    undone = undone_by(undo, history)
    if undone:
        return _foreign(log)(undone[0])
    planned = next(log.log(LogFilter(write=undo.id, limit=1)), None)
    seq = planned["seq"] if planned is not None else 0
    return _by_another(log, undo, LogFilter(after_seq=seq if isinstance(seq, int) else 0))


def _foreign(log: Log) -> Foreign:
    def changed(write: Write) -> str | None:
        """The same of a write's field, after the write was sent. What came after it goes by the log's numbers, and by
        the time only where the log does not tell: a wall clock that was set back turns times round."""
        since = None if write.sent_seq else write.last_sent_at
        return _by_another(log, write, LogFilter(after_seq=write.sent_seq, since=since))

    return changed


def _by_another(log: Log, write: Write, wanted: LogFilter) -> str | None:
    """What these records tell of another hand's change of the write's target. Not what they tell before the first that
    says that the worker made of the target what the write asks for: a look tells of changes in their order, and of some
    after a write that came later."""
    name, made = f"event.{write.intent.target}", write.intent.wanted.get(write.intent.target)
    found, came = None, False
    for record in log.log(replace(wanted, partner=write.key.partner, event=write.key.event)):
        facts = record["facts"]
        if record["kind"] != "observed" or not isinstance(facts, Mapping) or name not in facts:
            continue
        if not facts["ours"]:
            found = found or f"another hand has changed {name} since, to {facts[name]!r} (log record {record['seq']})"
        elif facts[name] == made and not came:
            found, came = None, True
    return found


def _plans(put: PutBack, word: Word, *, episode: int, shadow: bool) -> Iterator[Plan]:
    """The writes of one undo, made as a rule's are. ``episode``: which undo of the event this is."""
    key = put.undoes[0].key
    numbers = ", ".join(str(write.id) for write in put.undoes)
    said = "; ".join(f"{name} back {words}" for name, words in put.words().items())
    context: dict[str, Json] = {"undoes": [int(write.id) for write in put.undoes]}
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
