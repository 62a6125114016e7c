"""What an edit of the rules does to writes that were not sent yet, and to the memory behind them. Pure.

A rule that was removed, or whose ``do`` or ``with`` was edited, leaves the writes that it stands behind: one that
nobody stands behind any more is cancelled, the others stay with those who remain. A rule that leaves has not acted, so
its episode is closed, and it may fire anew: an edited one at the next true look, a removed one once it is back, which
is as after a gap. Had its firing been made to wait for a person, so is the next one: an edit goes round no approval.

Writes in flight or unsettled are left alone: they are settled by reading.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.looks import ASKED, reset_before
from worker.guards.situation import No
from worker.model.commits import Baseline, Move, PartnerMemory, RuleMemory
from worker.model.facts import EventId, RuleId
from worker.model.records import REASONS
from worker.model.rules import RuleSet
from worker.model.writes import UNSENT, Write
from worker.writes.life import and_then, move, note

Pairs = Mapping[tuple[EventId, RuleId], RuleMemory]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """One write that an edit has changed, and the rules that have left it."""

    write: Write
    change: Move
    left: tuple[RuleId, ...]


def edits_of(rules: RuleSet, writes: Iterable[Write], memories: Pairs, now: datetime) -> Iterator[Edited]:
    """What the rules as they are now change about unsent writes. An undo has no rule that could be gone."""
    for write in writes:
        if write.state not in UNSENT or write.undo:
            continue
        left = {rule: no for rule in write.rules if (no := _leaves(rules, rule, write, memories)) is not None}
        if not left:
            continue
        reason, why = left.get(write.key.rule) or next(iter(left.values()))
        stay = tuple(rule for rule in write.rules if rule not in left)
        if stay:
            change = note(write, rules=stay, reason=reason, why=why)
        else:
            change = move(write, "cancelled", at=now, reason=reason, why=why)
        yield Edited(write=write, change=change, left=tuple(left))


def _leaves(rules: RuleSet, rule_id: RuleId, write: Write, memories: Pairs) -> tuple[str, str] | None:
    """Why a rule does not stand behind the write any more: the reason code and the words; None where it does."""
    rule, owner = rules.get(rule_id), rule_id == write.key.rule
    if rule is None:
        return "rule_gone", f"rule {rule_id} was removed before this was sent"
    if not rule.enabled:
        return None if owner else ("rule_edited", f"rule {rule_id} was disabled before this was sent")
    if rule.do_hash == wanted_by(rule_id, write, memories):
        return None
    return "rule_edited", f"rule {rule_id} was edited before this was sent; it is planned anew"


def wanted_by(rule: RuleId, write: Write, memories: Pairs) -> str:
    """The text by which a rule asked for the write, as its ``do_hash``: its own write says it; for one that it joined,
    the text of its last firing does."""
    if rule == write.key.rule:
        return write.intent.do_hash
    memory = memories.get((write.key.event, rule))
    return memory.do_hash if memory is not None else ""


def reopened_by(edits: Iterable[Edited], memories: Pairs) -> dict[tuple[EventId, RuleId], RuleMemory]:
    """The new memories of rules that left a write: they may fire anew. A newer episode has nothing to do with it."""
    result: dict[tuple[EventId, RuleId], RuleMemory] = {}
    for one in edits:
        write = one.write
        waited = write.reason if write.state == "waiting" and write.reason in ASKED else None
        for rule in one.left:
            pair = (write.key.event, rule)
            memory = result.get(pair) or memories.get(pair)
            if memory is None or not memory.fired:
                continue
            if rule != write.key.rule or memory.episode == write.key.episode:
                result[pair] = replace(reopened(memory), asked=memory.waited or waited)
    return result


def reopened(memory: RuleMemory) -> RuleMemory:
    """The memory of a pair whose unsent writes were cancelled: the next true look is a new episode, and a change is
    pending again. Since when the condition or the new value has held stays known."""
    changed = {key: memory.baselines[key] for key, old in memory.before_firing.items() if memory.baselines[key] != old}
    return replace(
        memory,
        open=False,
        fired=False,
        baselines={**memory.baselines, **memory.before_firing},
        before_firing={},
        pending={**{key: new.value for key, new in changed.items()}, **memory.pending},
        pending_since=memory.pending_since or max((new.seen_at for new in changed.values()), default=None),
    )


def let_go(write: Write, reason: str, memories: Pairs) -> dict[tuple[EventId, RuleId], RuleMemory]:
    """The new memories of those who stood behind an unknown write that was proved absent and is asked for no more.

    Nothing came of the firing, so it is not lost: an edited rule fires by its new text, one that lost to a stronger
    wish may act once that ends, and one that is gone fires when it is back. A change that lost is consumed; so is what
    a person has put back.
    """
    if reason == "undo":
        return {}
    result: dict[tuple[EventId, RuleId], RuleMemory] = {}
    for rule in write.rules or (write.key.rule,):
        pair = (write.key.event, rule)
        memory = memories.get(pair)
        if memory is None or not memory.fired or (rule == write.key.rule and memory.episode != write.key.episode):
            continue
        if reason == "conflict":
            result[pair] = replace(memory, open=False, fired=False, before_firing={})
        else:
            result[pair] = reopened(with_remembered(memory, write))
    return result


def with_remembered(memory: RuleMemory, write: Write) -> RuleMemory:
    """The memory as it was at the firing of a write that has been sent since: with the baselines before it."""
    remembered = write.intent.context.get("remembered") if write.key.rule == memory.rule else None
    known = memory.baselines
    before = {
        key: Baseline(value=value, seen_at=known[key].seen_at if key in known else write.planned_at)
        for key, value in (remembered.items() if isinstance(remembered, Mapping) else ())
    }
    return replace(memory, baselines={**before, **known}, before_firing=before)


def in_one(edits: Iterable[Edited], moves: Iterable[Move]) -> tuple[Move, ...]:
    """One move for each write, also where an edit and the decision both changed it."""
    found = {one.write.id: one.change for one in edits}
    for change in moves:
        earlier = found.get(change.before.id)
        found[change.before.id] = (
            change
            if earlier is None
            else replace(change, before=earlier.before, records=(*earlier.records, *change.records))
        )
    return tuple(found.values())


# After the service was reset, another event may stand under an id: what was decided before is asked about anew.
#
# A write that is planned goes out to no event that came back with a reset, unless a person has let it go since: an
# approval of before was for another event. What is in flight or unsettled is settled by reading as ever, and sent again
# only by a person's word.


def decided_before(memory: PartnerMemory, write: Write, now: datetime) -> bool:
    """Whether the event came back with a reset after the write was decided on, or after a person's last word on it.

    A return that is still to come was stamped by a clock that was wrong. A write that is to be sent anew because it had
    been overtaken was decided on when it was sent.
    """
    returned = reset_before(memory, write.key.event)
    overtaken = write.last_sent_at if write.reason == "overtaken" else None
    return returned is not None and (overtaken or write.due_since) < returned <= now


def asked_anew(memory: PartnerMemory, edits: Iterable[Edited], writes: Iterable[Write], now: datetime) -> list[Edited]:
    """The edits, and what a reset makes of writes that are planned still: they wait for a person."""
    changed = {one.write.id: one for one in edits}
    for write in writes:
        edit = changed.get(write.id)
        current = write if edit is None else edit.change.after
        if current.state != "planned" or not decided_before(memory, current, now):
            continue
        why = f"decided before {REASONS['reset']}: another event may have its id now"
        if edit is None:
            change = move(write, "waiting", at=now, reason="reset", why=why, approved=False)
            changed[write.id] = Edited(write=write, change=change, left=())
        else:
            change = and_then(edit.change, "waiting", at=now, reason="reset", why=why, approved=False)
            changed[write.id] = replace(edit, change=change)
    return list(changed.values())


def reset_objection(memory: PartnerMemory, write: Write, now: datetime) -> No | None:
    """Why a write whose outcome is unknown is not sent again, whatever reads show."""
    if write.state != "unknown" or not decided_before(memory, write, now):
        return None
    why = f"sent before {REASONS['reset']}: another event may have its id now, and nothing is sent to that unasked"
    return No(way="hold", reason="reset", why=why)
