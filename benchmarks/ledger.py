"""What recording costs: intent and outcome of a write in the ledger, against a bare append and fdatasync.

Both in the same run and on the same disk, turn by turn, so that a busy machine slows both. One write is three commits
of the ledger (planned, sending with its mark beside the file, and the outcome); its bare counterpart is three appends
of as many bytes, each synced.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, Sending
from worker.model.ids import EventId, PartnerId, RuleId
from worker.model.outcomes import Accepted, Answered
from worker.model.writes import Intent, Plan, Write, WriteKey
from worker.writes.life import Attempted, Policy, advance
from worker.writes.states import move

WRITES = int(os.environ.get("WRITES", "200"))
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


def intent_and_outcome(ledger: SqlLedger, number: int) -> tuple[float, float, float]:
    """One write from its decision to its outcome: milliseconds of the three commits."""
    now = START + timedelta(seconds=number)
    times = []
    began = time.perf_counter()
    planned = ledger.apply(Commit(at=now, plans=(plan_of(number),)))[0]
    times.append(time.perf_counter())
    sending = move(
        planned, "sending", at=now, reason="condition", why="attempt 1", attempt=1, last_sent_at=now, before="RUNNING"
    )
    assert ledger.record_sendings([Sending(move=sending, check=lambda _view: None, amount=None)]) == (None,)
    times.append(time.perf_counter())
    _accepted(ledger, sending.after, now)
    times.append(time.perf_counter())
    return tuple((end - start) * 1000 for start, end in zip([began, *times], times, strict=False))  # type: ignore[return-value]


def _accepted(ledger: SqlLedger, sending: Write, now: datetime) -> None:
    outcome = Attempted(outcome=Accepted(answer=Answered(status=204)))
    step = advance(sending, None, outcome, POLICY, (now, 0.0))
    assert step.move is not None
    ledger.apply(Commit(at=now, moves=(step.move,)))


def append(file: int, count: int = 1) -> float:
    """Milliseconds of some appends, each synced."""
    began = time.perf_counter()
    for _ in range(count):
        os.write(file, b"x" * RECORD_BYTES)
        os.fdatasync(file)
    return (time.perf_counter() - began) * 1000


def row(name: str, times: list[float], base: float) -> None:
    """One line of the table."""
    middle = statistics.median(times)
    print(f"{name:<44}{min(times):>9.2f}{middle:>9.2f}{max(times):>9.2f}{middle / base:>8.1f}")


def measure(folder: Path, turn: Callable[[SqlLedger, int], tuple[float, float, float]]) -> None:
    """Turn by turn: one write in the ledger, one bare append, three bare appends."""
    parts: list[tuple[float, float, float]] = []
    ones: list[float] = []
    threes: list[float] = []
    cpu: list[float] = []
    file = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with SqlLedger.open(f"sqlite:///{folder / 'worker.db'}", clock_now=lambda: START) as ledger:
        for number in range(WRITES):
            began = time.process_time()
            parts.append(turn(ledger, number))
            cpu.append((time.process_time() - began) * 1000)
            ones.append(append(file))
            threes.append(append(file, 3))
        assert ledger.verify() is None
    os.close(file)
    one = statistics.median(ones)
    print(f"{WRITES} writes; milliseconds")
    print(f"{'what':<44}{'min':>9}{'median':>9}{'max':>9}{'ratio':>8}")
    row("a bare append and fdatasync", ones, one)
    for index, name in enumerate(("planned", "sending, with its mark: before the byte", "outcome")):
        row(name, [part[index] for part in parts], one)
    row("three bare appends and fdatasyncs", threes, statistics.median(threes))
    row("the whole write, against those three", [sum(part) for part in parts], statistics.median(threes))
    row("of that, processor time", cpu, statistics.median(threes))


def main() -> None:
    """Measures beside this file, because a folder for temporary files may be in memory."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        measure(Path(folder), intent_and_outcome)


main()
