"""Who asks for a write that is about to be sent: the rules in force, the config, other rules, and persons.

A write was planned under the rules and the config of its time; what they say now decides whether it may still go. Reads
memory and open writes, and changes nothing: an objection is handed back as a guard's no. Rule tests ask by it, too.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from worker.engine.conflicts import Standing, overruled, standing_wishes, wishes_in_force
from worker.engine.edits import wanted_by
from worker.engine.looks import Settings, mode_of
from worker.engine.parts import Parts
from worker.engine.resets import reset_objection
from worker.engine.state import PartnerState
from worker.guards.situation import No
from worker.model.ids import EventId, RuleId
from worker.model.memory import RuleMemory
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Write
from worker.writes.intents import asks_always
from worker.writes.wishes import wish_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked by: the rules in force, what they remember, and the open writes of the partner."""

    rules: RuleSet
    memories: Mapping[tuple[EventId, RuleId], RuleMemory]
    open_writes: Iterable[Write]
    deciding: Settings


def objection(write: Write, asked: Asked) -> No | None:
    """Why nobody asks for this write now, or not for now."""
    return _unwanted(write, asked) or _overruled(write, asked)


def rules_for(write: Write, rules: RuleSet, memories: Mapping[tuple[EventId, RuleId], RuleMemory]) -> tuple[Rule, ...]:
    """The rules in force that still ask for this very write of this partner."""
    found = (rules.get(rule) for rule in (write.rules or (write.key.rule,)))
    return tuple(
        rule
        for rule in found
        if rule is not None and rule.looks_at(write.key.partner) and rule.do_hash == wanted_by(rule.id, write, memories)
    )


class Asking:
    """The same, of the daemon's own parts. One instance serves all partners."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.clock
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules

    def objection(self, state: PartnerState, write: Write) -> No | None:
        """Why nobody asks for this write now, or not for now."""
        asked = Asked(
            rules=self._rules.current,
            memories=state.memories,
            open_writes=self._ledger.open_writes(write.key.partner),
            deciding=self._settings.deciding,
        )
        return objection(write, asked) or reset_objection(state.memory, write, self._clock.now())

    def rules(self, state: PartnerState, write: Write) -> tuple[Rule, ...]:
        """The rules in force that still ask for this very write of this partner."""
        return rules_for(write, self._rules.current, state.memories)


def _overruled(write: Write, asked: Asked) -> No | None:
    """A write is not sent again against a stronger standing wish: an unknown one ends, and one to which a person has
    granted another attempt waits until that wish is gone. Those that were never sent end when the wish arises.

    An undo bows to no wish of a rule that fires once: it is there to go against what that rule did. One that
    enforces its wish would only set it back again, so against that it is held.
    """
    if write.undo:
        return _enforced_against(write, asked)
    if write.state != "unknown" and not write.sent:
        return None
    mine = [
        one for rule in rules_for(write, asked.rules, asked.memories) for one in wishes_in_force(rule, asked.deciding)
    ]
    why = overruled(mine, _standing(write, asked))
    if why is None:
        return None
    return No(way="drop" if write.state == "unknown" else "hold", reason="conflict", why=why)


def _standing(write: Write, asked: Asked) -> list[Standing]:
    """The wishes in force for the write's event."""
    rules = [rule for rule in asked.rules.rules if rule.enabled]
    event = write.key.event
    memories = {rule.id: memory for rule in rules if (memory := asked.memories.get((event, rule.id)))}
    writes = [one for one in asked.open_writes if one.key.event == event]
    return standing_wishes(rules, memories, writes, asked.deciding)


def _enforced_against(undo: Write, asked: Asked) -> No | None:
    mine = wish_of(undo.intent.action, undo.intent.params)
    for other in _standing(undo, asked):
        if other.rule.repeat == "enforce" and not other.shadow and other.wish.opposes(mine):
            why = f"rule {other.rule.id} enforces the opposite, and would set it again: disable it first"
            return No(way="hold", reason="conflict", why=why)
    return None


def _unwanted(write: Write, asked: Asked) -> No | None:
    """What config and rules say of a write that was planned under others: mode, partners, and the rule's text.

    An undo has no rule, and its person has let it go already; but in shadow mode nothing is sent.
    """
    if write.undo:
        shadow = asked.deciding.mode == "shadow"
        return No(way="hold", reason="mode", why="shadow mode: nothing is sent") if shadow else None
    rules = rules_for(write, asked.rules, asked.memories)
    if not rules:
        way: Literal["hold", "drop"] = "drop" if write.state == "unknown" else "hold"
        gone = not any(asked.rules.get(rule) for rule in (write.rules or (write.key.rule,)))
        why = "no rule in force asks for this write any more"
        return No(way=way, reason="rule_gone" if gone else "rule_edited", why=why)
    modes = {mode_of(rule, asked.deciding) for rule in rules}
    if modes == {"shadow"}:
        return No(way="hold", reason="mode", why="shadow mode: nothing is sent")
    always = asks_always(write.intent)
    if always is not None and not write.approved and write.state == "planned" and not write.sent:
        return No(way="ask", reason=always[0], why=always[1])
    if "live" not in modes and not write.approved:
        asks = write.state == "planned" and not write.sent
        return No(way="ask" if asks else "hold", reason="mode", why="approve mode: a person must let it go")
    return None
