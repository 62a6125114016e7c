"""Who asks for a write that is about to be sent: the rules in force, the config, other rules, and persons.

A write was planned under the rules and the config of its time; what they say now decides whether it may still go. Reads
memory and the ledger, and changes nothing: an objection is handed back as a guard's no.
"""

from typing import Literal

from worker.engine.conflicts import Standing, overruled, standing_wishes, wishes_in_force
from worker.engine.edits import wanted_by
from worker.engine.looks import mode_of
from worker.engine.parts import Parts
from worker.engine.state import PartnerState
from worker.guards.situation import No
from worker.model.rules import Rule
from worker.model.writes import Write
from worker.writes.intents import always_asks
from worker.writes.wishes import wish_of


class Asking:
    """One instance serves all partners."""

    def __init__(self, parts: Parts) -> None:
        self._ledger = parts.ledger
        self._settings = parts.settings
        self._rules = parts.rules

    def objection(self, state: PartnerState, write: Write) -> No | None:
        """Why nobody asks for this write now, or not for now."""
        return self._unwanted(state, write) or self._overruled(state, write)

    def rules(self, state: PartnerState, write: Write) -> tuple[Rule, ...]:
        """The rules in force that still ask for this very write of this partner."""
        found = (self._rules.current.get(rule) for rule in (write.rules or (write.key.rule,)))
        return tuple(
            rule
            for rule in found
            if rule is not None
            and rule.enabled
            and (rule.partners is None or write.key.partner in rule.partners)
            and rule.do_hash == wanted_by(rule.id, write, state.memories)
        )

    def _overruled(self, state: PartnerState, write: Write) -> No | None:
        """A write is not sent again against a stronger standing wish; unsent ones end when that wish arises.

        An undo bows to no wish of a rule that fires once: it is there to go against what that rule did. One that
        enforces its wish would only set it back again, so against that it is held.
        """
        if write.undo:
            return self._enforced_against(state, write)
        if write.state != "unknown":
            return None
        standing = self._standing(state, write)
        mine = [one for rule in self.rules(state, write) for one in wishes_in_force(rule, self._settings.deciding)]
        why = overruled(mine, standing)
        return None if why is None else No(way="drop", reason="conflict", why=why)

    def _standing(self, state: PartnerState, write: Write) -> list[Standing]:
        """The wishes in force for the write's event."""
        rules = [rule for rule in self._rules.current.rules if rule.enabled]
        event = write.key.event
        memories = {rule.id: memory for rule in rules if (memory := state.memories.get((event, rule.id)))}
        writes = [one for one in self._ledger.open_writes(write.key.partner) if one.key.event == event]
        return standing_wishes(rules, memories, writes, self._settings.deciding)

    def _enforced_against(self, state: PartnerState, undo: Write) -> No | None:
        mine = wish_of(undo.intent.action, undo.intent.params)
        for other in self._standing(state, undo):
            if other.rule.repeat == "enforce" and not other.shadow and other.wish.opposes(mine):
                why = f"rule {other.rule.id} enforces the opposite, and would set it again: disable it first"
                return No(way="hold", reason="conflict", why=why)
        return None

    def _unwanted(self, state: PartnerState, write: Write) -> No | None:
        """What config and rules say of a write that was planned under others: mode, partners, and the rule's text.

        An undo has no rule, and its person has let it go already; but in shadow mode nothing is sent.
        """
        if write.undo:
            shadow = self._settings.deciding.mode == "shadow"
            return No(way="hold", reason="mode", why="shadow mode: nothing is sent") if shadow else None
        rules = self.rules(state, write)
        if not rules:
            way: Literal["hold", "drop"] = "drop" if write.state == "unknown" else "hold"
            gone = not any(self._rules.current.get(rule) for rule in (write.rules or (write.key.rule,)))
            why = "no rule in force asks for this write any more"
            return No(way=way, reason="rule_gone" if gone else "rule_edited", why=why)
        modes = {mode_of(rule, self._settings.deciding) for rule in rules}
        if modes == {"shadow"}:
            return No(way="hold", reason="mode", why="shadow mode: nothing is sent")
        if always_asks(write.intent) and not write.approved and write.state == "planned" and not write.sent:
            return No(way="ask", reason="delete", why="a person must let a DELETE go")
        if "live" not in modes and not write.approved:
            asks = write.state == "planned" and not write.sent
            return No(way="ask" if asks else "hold", reason="mode", why="approve mode: a person must let it go")
        return None
