"""A ledger that tells what it has recorded, after it has.

The log lines of the daemon and the progress of the demo are made from the very records of the action log, so that what
a person sees and what an auditor reads cannot differ. Nothing is told of a transaction that failed.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from worker.engine.ports import Ledger
from worker.model.commits import Brake, Commit, DaemonStatus, Halt, LogFilter, Sending, SendingView
from worker.model.facts import Json, Place
from worker.model.ids import EventId, PartnerId, RuleId, WriteId
from worker.model.memory import PartnerMemory, RuleMemory
from worker.model.records import Record, ToldChange, of_write
from worker.model.trail import Evaluation, Observed
from worker.model.writes import Write

Tell = Callable[[Record], None]


class ToldLedger:
    """Delegates to a ledger and tells each record once it is stored.

    What is stored is stored, whether it could be told or not: a log line that fails (a closed pipe, a full disk) must
    not look like a commit that failed.
    """

    def __init__(self, ledger: Ledger, tell: Tell) -> None:
        self._ledger = ledger
        self._telling = tell

    def _tell(self, record: Record) -> None:
        with suppress(Exception):
            self._telling(record)

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        """Stores, then tells: the records, those of the moves, and one for each new write."""
        made = self._ledger.apply(commit)
        for record in commit.records:
            self._tell(record)
        for change in commit.moves:
            for record in change.records:
                self._tell(record)
        for write in made:
            record = of_write(write, at=commit.at, kind=write.state, reason=write.reason, why=write.why)
            self._tell(replace(record, by=commit.by))
        return made

    def record_sendings(self, group: Sequence[Sending]) -> tuple[Brake | None, ...]:
        """Stores the attempts, then tells them; one that a brake held tells nothing."""
        brakes = self._ledger.record_sendings(group)
        for one, brake in zip(group, brakes, strict=True):
            if brake is None:
                for record in one.move.records:
                    self._tell(record)
        return brakes

    def sending_view(self, write: Write, now: datetime) -> SendingView:
        """See `Ledger`."""
        return self._ledger.sending_view(write, now)

    def partner_memory(self, partner: PartnerId) -> PartnerMemory | None:
        """See `Ledger`."""
        return self._ledger.partner_memory(partner)

    def all_rule_memories(self, partner: PartnerId) -> Iterable[RuleMemory]:
        """See `Ledger`."""
        return self._ledger.all_rule_memories(partner)

    def write(self, write_id: WriteId) -> Write | None:
        """See `Ledger`."""
        return self._ledger.write(write_id)

    def open_writes(self, partner: PartnerId | None = None) -> tuple[Write, ...]:
        """See `Ledger`."""
        return self._ledger.open_writes(partner)

    def episode_writes(self, partner: PartnerId, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        """See `Ledger`."""
        return self._ledger.episode_writes(partner, event, rule, episode)

    def target_writes(self, partner: PartnerId, event: EventId, target: str) -> tuple[Write, ...]:
        """See `Ledger`."""
        return self._ledger.target_writes(partner, event, target)

    def log(self, wanted: LogFilter) -> Iterator[dict[str, Json]]:
        """See `Ledger`."""
        return self._ledger.log(wanted)

    def task_reads(self, write: Write) -> int:
        """See `Ledger`."""
        return self._ledger.task_reads(write)

    def note_task_read(self, write: Write) -> None:
        """See `Ledger`."""
        self._ledger.note_task_read(write)

    def first_sendings(
        self, partner: PartnerId, since: datetime
    ) -> Mapping[tuple[EventId, RuleId], Sequence[datetime]]:
        """See `Ledger`."""
        return self._ledger.first_sendings(partner, since)

    def firings(self, partner: PartnerId, since: datetime) -> Sequence[tuple[RuleId, EventId, datetime]]:
        """See `Ledger`."""
        return self._ledger.firings(partner, since)

    def last_seq(self) -> int:
        """See `Ledger`."""
        return self._ledger.last_seq()

    def reopened(self, partner: PartnerId, after_seq: int) -> bool:
        """See `Ledger`."""
        return self._ledger.reopened(partner, after_seq)

    def changed(self, partner: PartnerId, after_seq: int) -> frozenset[EventId]:
        """See `Ledger`."""
        return self._ledger.changed(partner, after_seq)

    def changes_told(self, partner: PartnerId, event: EventId, after_seq: int) -> Sequence[ToldChange]:
        """See `Ledger`."""
        return self._ledger.changes_told(partner, event, after_seq)

    def last_values(
        self, partner: PartnerId, lacking: Mapping[Place, Collection[str] | None]
    ) -> Mapping[Place, Mapping[str, Json]]:
        """See `Ledger`."""
        return self._ledger.last_values(partner, lacking)

    def evaluations(self, events: Sequence[EventId], partner: PartnerId | None = None) -> Sequence[Evaluation]:
        """See `Ledger`."""
        return self._ledger.evaluations(events, partner)

    def observed(self, partner: PartnerId, event: EventId | None = None) -> Sequence[Observed]:
        """See `Ledger`."""
        return self._ledger.observed(partner, event)

    def halts(self, now: datetime) -> tuple[Halt, ...]:
        """See `Ledger`."""
        return self._ledger.halts(now)

    def save_status(self, status: DaemonStatus) -> None:
        """See `Ledger`."""
        self._ledger.save_status(status)

    def mark_words(self) -> None:
        """See `Ledger`."""
        self._ledger.mark_words()
