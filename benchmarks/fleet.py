"""A thousand partners of a hundred events on three workers and one PostgreSQL, on real time, over real sockets.

Every partner is to be listed every 3 seconds. When all were met, one event after the other is cancelled, and each is a
pause that is planned, sent and read back. What the workers, the server and the simulator take is counted apart, from
what the kernel says of each process. The server keeps its promise of a disk (fsync), on memory where there is any.

``PARTNERS``, ``EVENTS`` (of each), ``REPLICAS``, ``SECONDS`` and ``CANCELLED`` (a second) change the size
(1,000, 100, 3, 60, 4).
Ends with 1 where a write took effect twice or an event was left running, and never for being slow: on two processors
the simulator is half of the work.
"""

import json
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

import asyncio

from tests.contract.postgres import Server, running
from tests.worlds import happening, tenant
from worker.model.facts import PartnerId
from worker.sandbox.app import serving
from worker.sandbox.changes import EventChange
from worker.sandbox.service import Twin
from worker.sandbox.world import TwinWorld

PARTNERS = int(os.environ.get("PARTNERS", "1000"))
EVENTS = int(os.environ.get("EVENTS", "100"))
REPLICAS = int(os.environ.get("REPLICAS", "3"))
SECONDS = float(os.environ.get("SECONDS", "60"))
CANCELLED = float(os.environ.get("CANCELLED", "4"))
PATIENCE_S = 1_200.0
SETTLED_WITHIN_S = 300.0
TICKS = os.sysconf("SC_CLK_TCK")
RULES = """\
rules:
  - {id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}
  - {id: run-flagged, when: event.frontend_status == 'FLAGGED' && event.predicted_sales_share > 0.9, do: [run]}
"""
CONFIG = """\
api: {{base_url: "http://127.0.0.1:{port}/api/v3"}}
credentials: {{username: sandbox, password: sandbox}}
ledger: {ledger}
state_dir: state-{number}
"""
IDS = [PartnerId(f"partner-id-{number:04}") for number in range(PARTNERS)]


def world() -> TwinWorld:
    """All partners, with events that run."""
    return TwinWorld(
        replace(tenant(one, *events), record={**tenant(one).record, "id": f"42{number:04}"})
        for number, one in enumerate(IDS)
        for events in [[happening(f"{number:04}-{turn}") for turn in range(EVENTS)]]
    )


async def simulated(pipe: Connection) -> None:
    """Serves, and does what it is told: cancel one event, or tell what happened since."""
    service = Twin(world())
    async with serving(service, clock=time.monotonic, sleep=asyncio.sleep) as address:
        pipe.send(address.port)
        seen, cancelled = 0.0, list[tuple[PartnerId, str]]()
        while (told := await asyncio.to_thread(pipe.recv)) != "end":
            if told == "cancel":
                turn = len(cancelled)
                number = turn % PARTNERS
                one, eid = IDS[number], f"{number:04}-{turn // PARTNERS}"
                service.change(EventChange(event=eid, partner=one, set={"status": "cancelled"}), time.monotonic())
                cancelled.append((one, eid))
                continue
            now = time.monotonic()
            new, seen = [one for one in service.books.requests if seen <= one.at_s < now], now
            lists = [(one.partner, one.at_s) for one in new if one.method == "GET" and one.path.endswith("/events/")]
            there = [service.world.at(*one) for one in cancelled]
            left = sum(1 for one in there if one and one.record["client_campaign_status"] != "PAUSED")
            pipe.send((len(new), lists, left, service.books.summary()))


def serve(pipe: Connection) -> None:
    """The simulator's process."""
    asyncio.run(simulated(pipe))


def cpu_s(*processes: int) -> float:
    """Processor seconds of these so far, with what those had that they started and that have ended."""
    used = 0
    for pid in processes:
        with suppress(FileNotFoundError):  # it ended just now, and counts for who started it
            fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
            used += sum(map(int, fields[11:15]))
    return used / TICKS


def of_server(server: Server) -> list[int]:
    """The server's processes: its first one, and what that started."""
    first = int((server.folder / "data" / "postmaster.pid").read_text("utf-8").split()[0])
    children = subprocess.run(["pgrep", "-P", str(first)], capture_output=True, text=True, check=False).stdout
    return [first, *map(int, children.split())]


def megabytes(pid: int) -> float:
    """Resident."""
    lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1e3


def counted(server: Server) -> tuple[int, float]:
    """The server's commits so far, and when."""
    with server.connect() as connection:
        connection.execute("SELECT pg_stat_clear_snapshot()")
        row = connection.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = 'postgres'").fetchone()
    assert row is not None
    return int(str(row[0])), time.monotonic()


@contextmanager
def workers(folder: Path, server: Server, port: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes, on a ledger with the rules in force, ended at the end."""
    ledger = server.ledger()
    for number in range(REPLICAS):
        (folder / f"{number}.yaml").write_text(CONFIG.format(port=port, ledger=ledger, number=number), "utf-8")
    (folder / "rules").mkdir()
    (folder / "rules" / "rules.yaml").write_text(RULES, "utf-8")
    call(folder, "rules", "publish")
    with (folder / "log").open("ab") as log:
        started = [
            subprocess.Popen(command(folder, number, "run"), stdout=log, stderr=log) for number in range(REPLICAS)
        ]
        try:
            yield started
        finally:
            for one in started:
                one.send_signal(signal.SIGTERM)
            for one in started:
                one.wait(60)


def command(folder: Path, number: int, *arguments: str) -> list[str]:
    """As a shell would call it."""
    return [sys.executable, "-m", "worker", "--config", str(folder / f"{number}.yaml"), *arguments]


def call(folder: Path, *arguments: str) -> str:
    """One command to its end."""
    done = subprocess.run(command(folder, 0, *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr}")
    return done.stdout


def owned(folder: Path) -> dict[str, int]:
    """How many partners each worker has."""
    found: dict[str, Any] = json.loads(call(folder, "fleet", "--format", "json"))
    owners = [one["owner"] for one in found["partners"] if one["owner"]]
    return {one: owners.count(one) for one in sorted(set(owners))}


def main() -> None:
    """Measures and prints."""
    ours, its = multiprocessing.get_context("spawn").Pipe()
    simulator = multiprocessing.get_context("spawn").Process(target=serve, args=(its,), daemon=True)
    simulator.start()
    port = ours.recv()

    def asked() -> tuple[int, list[tuple[str, float]], int, dict[str, Any]]:
        ours.send("tell")
        found: tuple[int, list[tuple[str, float]], int, dict[str, Any]] = ours.recv()
        return found

    with running() as server, tempfile.TemporaryDirectory() as name, workers(Path(name), server, port) as started:
        began, times = time.monotonic(), dict[str, int]()
        while sum(count >= 3 for count in times.values()) < PARTNERS:
            if time.monotonic() - began > PATIENCE_S or any(one.poll() is not None for one in started):
                said = (Path(name) / "log").read_text("utf-8")[-2_000:]
                raise SystemExit(f"{len(times)} of {PARTNERS} partners were met\n{said}")
            time.sleep(1)
            for one, _ in asked()[1]:
                times[one] = times.get(one, 0) + 1
        met_s = time.monotonic() - began
        owners = owned(Path(name))

        def used() -> dict[str, float]:
            return {
                "workers": cpu_s(*(one.pid for one in started)),
                "PostgreSQL": cpu_s(*of_server(server)),
                "simulator": cpu_s(simulator.pid or 0),
            }

        before = used()
        commits, began = counted(server)
        asked()
        for turn in range(round(SECONDS * CANCELLED)):
            time.sleep(max(0.0, began + turn / CANCELLED - time.monotonic()))
            ours.send("cancel")
        requests, lists, _, _ = asked()
        commits_after, ended = counted(server)
        took = ended - began
        after = used()
        memory = [megabytes(one.pid) for one in started]

        ends = time.monotonic() + SETTLED_WITHIN_S
        while asked()[2] and time.monotonic() < ends:
            time.sleep(1)
        settled_s = time.monotonic() - ended
        _, _, left, books = asked()
    ours.send("end")

    gaps = [later - one for at in by_partner(lists).values() for one, later in pairwise(at)]
    print(f"{PARTNERS} partners of {EVENTS} events, {REPLICAS} workers, {took:.0f} s; all were met after {met_s:.0f} s")
    print(f"partners of each worker: {', '.join(map(str, sorted(owners.values())))}")
    print("| what | min | median | p99 | max |\n|---|---|---|---|---|")
    print(f"| s from a list to the partner's next | {spread(gaps)} |")
    print(f"| MB of a worker | {min(memory):.0f} | {statistics.median(memory):.0f} | | {max(memory):.0f} |")
    print(f"lists a second: {len(lists) / took:.0f} of {PARTNERS / 3:.0f}; requests a second: {requests / took:.0f}")
    print(f"commits a second: {(commits_after - commits) / took:.0f}")
    for side in after:
        seconds = after[side] - before[side]
        each_ms = 1e3 * seconds / took / PARTNERS
        print(f"CPU of {side}: {100 * seconds / took:.0f}% of one core, {each_ms:.2f} ms a partner and second")
    sent, effects, repeated = (int(str(books[one])) for one in ("writes_sent", "effects", "repeated"))
    told = f"writes sent {sent}, effects {effects}, repeated {repeated}, lost {left}"
    print(f"{told}; the last one {settled_s:.0f} s after the measure")
    sys.exit(1 if repeated or left else 0)


def by_partner(lists: list[tuple[str, float]]) -> dict[str, list[float]]:
    """When each partner was listed."""
    found: dict[str, list[float]] = {}
    for one, at in lists:
        found.setdefault(one, []).append(at)
    return found


def spread(values: list[float]) -> str:
    """Least, median, 99 of 100, most."""
    hundredths = statistics.quantiles(values, n=100)
    return f"{min(values):.1f} | {statistics.median(values):.1f} | {hundredths[98]:.1f} | {max(values):.1f}"


if __name__ == "__main__":
    main()
