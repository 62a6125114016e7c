"""The people around the worker, who speak to it through the functions behind its own commands."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Protocol

from tests.simulation.disk import Disk
from tests.simulation.loop import SimLoop
from tests.twin import BASE_URLS
from tests.worlds import rule_set
from worker.engine.operators import (
    Word,
    after_restore,
    approved,
    ended_without_effect,
    last_of_its_rule,
    rejected,
    reopening,
    resolved,
    spoken,
    undo_of,
)
from worker.engine.views import EngineSettings
from worker.ledger.sql import SqlLedger
from worker.ledger.upkeep import accept_restore, moved
from worker.model.commits import Commit
from worker.model.errors import NotFound, StateConflict, WorkerError
from worker.model.facts import PartnerId, RuleId
from worker.model.writes import Write
from worker.sandbox.world import Happening
from worker.writes.undo import may_have_effect

WHO = "somebody"
FOR_EVER_S = 1e9


class Folder(Protocol):
    """The rule files, which a halt of a rule is looked up in."""

    text: str


class Place(Protocol):
    """Where they live."""

    loop: SimLoop

    @property
    def disk(self) -> Disk: ...

    settings: EngineSettings
    halts: list[tuple[float, float]]
    rule_halts: list[tuple[str, float, float]]
    partners: tuple[PartnerId, ...]
    campaigns: dict[str, int]

    @property
    def rules(self) -> Folder: ...

    def wall(self) -> datetime: ...
    def at(self, event: str) -> Happening | None: ...
    def tell(self, text: str) -> None: ...


def is_there(found: Happening, write: Write, campaigns: int = 0) -> bool:
    """Whether the service shows the effect of a write on an event that had so many campaigns in the beginning."""
    if write.key.item == "cr":
        return found.last_updated_on_fe is not None
    if write.intent.action == "create_campaign":
        return len(found.campaigns) > campaigns
    if write.intent.action == "update_draft":
        return found.setup is not None and found.setup.get("total_budget") == write.intent.wanted["total_budget"]
    if write.intent.target != "setup":
        return bool(found.record.get(write.intent.target) == write.intent.wanted[write.intent.target])
    return found.setup is not None and (write.intent.action == "create_draft" or found.published)


class People:
    """They approve, halt, look at the service themselves, and say what they found."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._came_back = False

    @contextmanager
    def _ledger(self) -> Iterator[SqlLedger | None]:
        """The ledger, in a short transaction of a command's own; None where it cannot be used now."""
        if not self._place.disk.file.exists() or self._place.disk.full or self._place.disk.held:
            yield None
            return
        try:
            ledger = SqlLedger.open(self._place.disk.url, clock_now=self._place.wall)
        except WorkerError:
            yield None
            return
        try:
            yield ledger
        finally:
            ledger.close()

    def open_writes(self) -> bool:
        """Whether anything is not final, as anybody sees who looks into the file; what was meant for an event that is
        gone is kept until that comes back, and does not count."""
        return any(
            state not in ("planned", "waiting") or self._place.at(event) is not None
            for event, state in self._place.disk.open_writes()
        )

    def _any(self, state: str) -> bool:
        return any(one == state for _, one in self._place.disk.open_writes())

    def decide(self, *, approve: bool) -> None:
        """Somebody lets go, or rejects, all that waits."""
        if not self._any("waiting"):
            return
        with self._ledger() as ledger:
            for write in ledger.open_writes() if ledger is not None else ():
                if ledger is not None and write.state == "waiting":
                    now = self._place.wall()
                    verdict = approved if approve else rejected
                    move = verdict(write, because="looked at it", by=WHO, now=now)
                    self._place.tell(f"somebody {'approves' if approve else 'rejects'} {write.id}")
                    try:
                        ledger.apply(Commit(at=now, moves=(move,)))
                    except StateConflict:
                        continue

    def resolve_all(self) -> None:
        """Somebody looks at the service for each write that nobody could settle, and says what is there."""
        if not self._any("needs_human"):
            return
        with self._ledger() as ledger:
            for write in ledger.open_writes() if ledger is not None else ():
                if ledger is not None and write.state == "needs_human":
                    now = self._place.wall()
                    there = self._is_there(write)
                    self._place.tell(f"somebody says that {write.id} is {'there' if there else 'not there'}")
                    word, late_s = Word(because="looked", by=WHO, at=now), ledger.late_s(write)
                    try:
                        move = resolved(write, word, applied=there, settings=self._place.settings, late_s=late_s)
                        ledger.apply(Commit(at=now, moves=(move,)))
                    except (NotFound, StateConflict):
                        continue

    def _is_there(self, write: Write) -> bool:
        found = self._place.at(write.key.event)  # where it is gone, nobody wants to send that again
        return found is None or is_there(found, write, self._place.campaigns.get(write.key.event, 0))

    def halt(self, seconds: float) -> None:
        with self._ledger() as ledger:
            if ledger is None:
                return
            now = self._place.wall()
            only = self._place.partners[0] if len(self._place.partners) == 1 else None
            ledger.append_halt(partner=only, because="let me look", by=WHO, at=now, until=now + timedelta(days=400))
            began = self._place.loop.now
            self._place.halts.append((began, began + FOR_EVER_S))
        self._place.loop.call_later(seconds, self.resume)

    def halt_rule(self, rule: str, seconds: float) -> None:
        """Somebody halts one rule, and resumes it later."""
        with self._ledger() as ledger:
            if ledger is None:
                return
            if rule not in self._known_rules(ledger):
                self._place.tell(f"there is no rule {rule} to halt")
                return
            now = self._place.wall()
            ledger.append_halt(rule=RuleId(rule), because="let me look at this rule", by=WHO, at=now)
            began = self._place.loop.now
            self._place.rule_halts.append((rule, began, began + FOR_EVER_S))
        self._place.tell(f"somebody halts {rule}")
        self._place.loop.call_later(seconds, lambda: self._resume_rule(rule))

    def _known_rules(self, ledger: SqlLedger) -> set[str]:
        """As the command knows them: from the ledger, what a daemon has said, and the rule files."""
        said = ledger.status()
        rules = said.body.get("rules") if said is not None else None
        loaded = rules.get("ids") if isinstance(rules, dict) else None
        found = {str(one) for one in (loaded if isinstance(loaded, list) else ())}
        return found | set(ledger.known("rule")) | {rule.id for rule in rule_set(self._place.rules.text).rules}

    def _resume_rule(self, rule: str) -> None:
        with self._ledger() as ledger:
            if ledger is None:
                return
            ended = ledger.resume_halts(rule=RuleId(rule), because="seen enough", by=WHO, at=self._place.wall())
        self._place.tell(f"somebody resumes {rule}" if ended else f"no halt of {rule} is in force")
        at_s, halts = self._place.loop.now, self._place.rule_halts
        halts[:] = [(of, began, min(until, at_s) if of == rule else until) for of, began, until in halts]

    def undo(self, rule: str) -> None:
        """Somebody puts back all that a rule has sent."""
        with self._ledger() as ledger:
            if ledger is None:
                return
            word = Word(because="that was wrong", by=WHO, at=self._place.wall())
            sent = [write for write in ledger.writes(rule=rule) if write.last_sent_at and may_have_effect(write)]
            if not sent:
                self._place.tell(f"{rule} has sent nothing that may have had an effect")
                return
            found = undo_of(ledger, sent, word, shadow=False)
            try:
                made = ledger.apply(found.commit(word.by, word.at))
            except StateConflict as problem:
                self._place.tell(f"nothing was undone: {problem}")
                return
        for put, at in found.undone:
            self._place.tell(f"somebody undoes {[int(one.id) for one in put.undoes]} by {made[at].id}")
        for kept in found.kept:
            self._place.tell(f"write {kept.write.id} {'cannot be undone' if kept.cannot else 'stays'}: {kept.why}")

    def again(self, rule: str, event: str | None) -> None:
        """Somebody lets a rule act anew where its last write ended without effect, for one event or for all."""
        with self._ledger() as ledger:
            if ledger is None:
                return
            found = [one for one in ledger.writes(rule=rule, event=event) if ended_without_effect(one)]
            known = [one for partner in self._place.partners for one in ledger.rule_memories(partner)]
            memories = {(one.partner, one.event, one.rule): one for one in known}
            writes = [write for write in found if last_of_its_rule(write, memories)]
            if not writes:
                self._place.tell(f"{rule} has nothing that can be reopened")
                return
            word = Word(because="once more", by=WHO, at=self._place.wall())
            try:
                ledger.reopen(reopening(writes, memories, ledger), [spoken(write, "again", word) for write in writes])
            except StateConflict as problem:
                self._place.tell(f"nothing was reopened: {problem}")
                return
        self._place.tell(f"somebody asks {rule} for {[int(one.id) for one in writes]} once more")

    def resume(self) -> None:
        if not self._place.halts and not self._place.rule_halts:
            return  # nobody has ever halted anything, so no backup that came back can hold a halt
        with self._ledger() as ledger:
            if ledger is None:
                return
            ledger.resume_halts(because="seen enough", by=WHO, at=self._place.wall())
        self._came_back = False
        ended = self._place.loop.now
        halts = self._place.halts
        halts[:] = [(began, min(until, ended)) for began, until in halts]
        of_rules = self._place.rule_halts
        of_rules[:] = [(rule, began, min(until, ended)) for rule, began, until in of_rules]

    def still_halted(self) -> bool:
        """Whether a halt could not be ended, because nobody could open the ledger, or came back with a restored one."""
        ends = [until for _, until in self._place.halts] + [until for _, _, until in self._place.rule_halts]
        return self._came_back or any(until >= FOR_EVER_S for until in ends)

    def look_at_halts(self) -> None:
        """Another ledger may hold a halt that had been ended: somebody will look for that, and end it again."""
        self._came_back = bool(self._place.halts or self._place.rule_halts)

    def take_back(self) -> None:
        """A process whose config named another service was the first to meet a partner with this ledger: somebody gives
        it to the right one."""
        now, right = self._place.wall(), BASE_URLS["api"]
        self._place.tell("somebody takes the ledger to the right service")
        try:
            moved(
                self._place.disk.url,
                service=right,
                because="the config was wrong",
                by=WHO,
                now=now,
                restored=lambda write: after_restore(write, by=WHO, now=now, moved_to=right),
            )
        except WorkerError as problem:
            self._place.tell(f"it cannot be taken: {problem}")

    def accept_restore(self) -> None:
        """Somebody has looked at what happened to the ledger, and says to go on with this one."""
        now = self._place.wall()
        self.look_at_halts()
        self._place.tell("somebody accepts the ledger")
        try:
            accept_restore(
                self._place.disk.url,
                by=WHO,
                now=now,
                restored=lambda write: after_restore(write, by=WHO, now=now),
            )
        except WorkerError as problem:
            self._place.tell(f"it cannot be accepted: {problem}")
