"""`make fleet`: three workers on one PostgreSQL, one killed and one frozen in the middle, and the simulator's books.

Real processes, a real server, real sockets. Six partners have six events each; one event after the other is cancelled,
and must be paused once. Some answers get lost, with and without an effect. Exits 1 where the books show a write that
took effect twice, or an event that was left running. tests/prove plays it with every trouble there is.
"""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tests.contract.link import Link, tcp
from tests.contract.postgres import Server, running
from worker.sandbox.app import serving
from worker.sandbox.changes import EventChange
from worker.sandbox.faults import Fault, Match
from worker.sandbox.service import Twin
from worker.sandbox.start import demo_world
from worker.sandbox.world import TwinWorld

PARTNERS, EVENTS = 6, 6
NAMES = ("ann", "ben", "cleo")
RULES = "rules: [{id: pause-cancelled, when: event.status == 'cancelled', do: [pause]}]\n"
CONFIG = """\
api: {{base_url: "http://127.0.0.1:{service}/api/v3", timeout: 5s}}
credentials: {{username: sandbox, password: sandbox}}
ledger: {ledger}
state_dir: state-{name}
safety: {{settle: 8s, evidence_within: 2m, confirm_within: 30s, max_attempts: 6}}
"""
STORY_S = 72.0
READY_S = 90.0
SETTLED_WITHIN_S = 180.0
LOST_ANSWERS = ("answer_after", "answer_before", "cut_after", "cut_before") * 3
"""What becomes of the answers to the first pauses, with an effect and without one. No 429, for which a partner would be
left alone for a while: that would hide how long a takeover takes."""
OPEN = ("planned", "sending", "applied", "unknown", "needs_human")
Act = Callable[[], object]
Kind = Literal["kill", "freeze", "cut from the service", "cut from the ledger", "silent ledger", "server restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What befalls one worker, or the server, and for how long."""

    kind: Kind
    replica: int = 0
    at_s: float
    for_s: float | None = 20.0


TAKEN_OVER: tuple[Kind, ...] = ("kill", "freeze", "cut from the ledger", "silent ledger")
"""What costs a worker its partners, where it lasts."""
READS_FOR_S = 2.5
"""So long a worker may still ask after it was cut from the ledger."""
SHOWN = (Trouble(kind="kill", replica=0, at_s=15.0, for_s=None), Trouble(kind="freeze", replica=1, at_s=30.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the books say. ``waits``: for each trouble, in its order, how long after its beginning the last of the
    partners that had not been asked for since was asked for again."""

    sent: int
    effects: int
    repeated: int
    lost: int
    longest_gap_s: float
    waits: tuple[float, ...]

    def __str__(self) -> str:
        told = f"writes sent {self.sent}, effects {self.effects}, repeated {self.repeated}, lost {self.lost}"
        return f"{told}, longest gap {self.longest_gap_s:.1f} s"


def world() -> TwinWorld:
    """Partners alike but for their names; every event runs."""
    first = next(iter(demo_world(3 * EVENTS).tenants.values()))
    events = tuple([one for one in first.events if one.published][:EVENTS])
    return TwinWorld(
        replace(
            first,
            partner_id=f"partner-id-hall-{number}",
            record={**first.record, "id": f"42{number:02}", "name": f"Hall {number}"},
            events=events,
        )
        for number in range(1, PARTNERS + 1)
    )


class Replica:
    """One worker, in a folder of its own, with a way of its own to the service and to the ledger."""

    def __init__(self, folder: Path, name: str, server: Server, ledger: str, port: int) -> None:
        self.name = name
        self.to_service, self.to_ledger = Link(tcp("127.0.0.1", port)), server.link()
        self._config = folder / f"{name}.yaml"
        own_way = server.through(self.to_ledger, ledger)
        self._config.write_text(CONFIG.format(service=self.to_service.port, ledger=own_way, name=name))
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "worker", "--config", str(self._config), *arguments]

    async def call(self, *arguments: str) -> str:
        process = await asyncio.create_subprocess_exec(*self.command(*arguments), stdout=-1, stderr=-1)
        out, err = await process.communicate()
        if process.returncode:
            raise SystemExit(f"{' '.join(arguments)}: {err.decode()}")
        return out.decode()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Its process, ended at the end of the block whatever became of it."""
        self.start()
        try:
            yield
        finally:
            self.send(signal.SIGCONT)
            self.send(signal.SIGTERM)
            if self._process is not None:
                try:
                    self._process.wait(timeout=30)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            self.to_service.close()
            self.to_ledger.close()

    def start(self) -> None:
        """A new process, unless one runs."""
        if self._process is None or self._process.poll() is not None:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(self.command("run"), stdout=log, stderr=log)

    def send(self, number: signal.Signals) -> None:
        """A signal to the process, if it is there."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def said(self) -> str:
        return "\n".join(self._log.read_text("utf-8").splitlines()[-8:])


class Play:
    """The story, with its troubles, and what the books say at its end."""

    def __init__(self, service: Twin, server: Server, replicas: Sequence[Replica], say: Callable[[str], None]) -> None:
        self._service, self._server, self._replicas, self._say = service, server, replicas, say
        self._cancelled: list[tuple[str, str]] = []

    async def run(self, troubles: Sequence[Trouble], lasts_s: float) -> Verdict:
        """From the first list of every partner until nothing is open any more."""
        await self._until_all_are_listed()
        self._say("every partner is polled")
        began = time.monotonic()
        acts = [*self._cancelling(lasts_s), *(act for trouble in troubles for act in self._befalling(trouble))]
        for at_s, what, act in sorted(acts, key=lambda one: one[0]):
            await asyncio.sleep(max(0.0, began + at_s - time.monotonic()))
            if what:
                self._say(what)
                await asyncio.to_thread(act)  # a server takes its time
            else:
                act()
        ends = time.monotonic() + SETTLED_WITHIN_S
        while (self._left() or await self._open()) and time.monotonic() < ends:  # noqa: ASYNC110 - other processes'
            await asyncio.sleep(1)
        return self._verdict([began + trouble.at_s for trouble in troubles])

    def _cancelling(self, lasts_s: float) -> Iterator[tuple[float, str, Act]]:
        tenants = self._service.world.tenants.items()
        events = sorted((one.eid, partner) for partner, tenant in tenants for one in tenant.events)
        for number, (eid, partner) in enumerate(events):
            yield lasts_s * number / len(events), "", partial(self._cancel, partner, eid)

    def _befalling(self, trouble: Trouble) -> Iterator[tuple[float, str, Act]]:
        one = self._replicas[trouble.replica]
        acts: dict[Kind, tuple[Act, Act]] = {
            "kill": (partial(one.send, signal.SIGKILL), one.start),
            "freeze": (partial(one.send, signal.SIGSTOP), partial(self._thaw, one)),
            "cut from the service": (one.to_service.cut, one.to_service.is_cut.clear),
            "cut from the ledger": (one.to_ledger.cut, one.to_ledger.is_cut.clear),
            "silent ledger": (one.to_ledger.silent.set, partial(self._speak, one)),
            "server restart": (self._server_down, self._server_up),
        }
        begin, end = acts[trouble.kind]
        who = "" if trouble.kind == "server restart" else f"{one.name}: "
        yield trouble.at_s, f"{who}{trouble.kind}", begin
        if trouble.for_s is not None:
            yield trouble.at_s + trouble.for_s, f"{who}over: {trouble.kind}", end

    def _server_down(self) -> None:
        if self._server.is_up:  # or another trouble of the same kind was sooner
            self._server.stop()

    def _server_up(self) -> None:
        if not self._server.is_up:
            self._server.start()

    def _thaw(self, one: Replica) -> None:
        """It goes on, or was ended by its kernel in the moment before a send, and is started again."""
        one.send(signal.SIGCONT)
        time.sleep(1)
        one.start()

    def _speak(self, one: Replica) -> None:
        one.to_ledger.silent.clear()
        one.to_ledger.cut()  # what was kept back is lost, as on a link that lost its state
        one.to_ledger.is_cut.clear()

    def _cancel(self, partner: str, eid: str) -> None:
        change = EventChange(event=eid, partner=partner, set={"status": "cancelled"})
        self._service.change(change, time.monotonic())
        self._cancelled.append((partner, eid))

    def _left(self) -> list[tuple[str, str]]:
        found = {one: self._service.world.at(*one) for one in self._cancelled}
        return [one for one, now in found.items() if now and now.record["client_campaign_status"] != "PAUSED"]

    async def _open(self) -> list[dict[str, Any]]:
        found = json.loads(await self._replicas[-1].call("writes", "--format", "json"))
        return [one for one in found if one["state"] in OPEN]

    def _lists(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {}
        for one in self._service.books.requests:
            if one.method == "GET" and one.path.rstrip("/").endswith("/events"):
                found.setdefault(one.partner, []).append(one.at_s)
        return found

    def _verdict(self, began: Sequence[float]) -> Verdict:
        summary = self._service.books.summary()
        sent, effects, repeated = (int(str(summary[name])) for name in ("writes_sent", "effects", "repeated"))
        lists = self._lists().values()
        return Verdict(
            sent=sent,
            effects=effects,
            repeated=repeated,
            lost=len(self._left()),
            longest_gap_s=max(after - before for asked in lists for before, after in pairwise(asked)),
            waits=tuple(
                max(next(one for one in at if one > from_s + READS_FOR_S) for at in lists) - from_s for from_s in began
            ),
        )

    async def _until_all_are_listed(self) -> None:
        ends = time.monotonic() + READY_S
        while len(self._lists()) < PARTNERS:
            if time.monotonic() > ends:
                said = [await self._replicas[0].call("fleet"), *(one.said() for one in self._replicas)]
                raise SystemExit("\n".join([f"not every partner was polled within {READY_S:g} s", *said]))
            await asyncio.sleep(0.2)


async def played(
    server: Server, folder: Path, troubles: Sequence[Trouble], say: Callable[[str], None], lasts_s: float = STORY_S
) -> Verdict:
    """The whole story on a ledger of its own."""
    pauses = Match(method="PUT", path="/client_campaign_status$")
    faults = [
        Fault(kind=kind, match=pauses, skip=turn, params={"status": 503})  # type: ignore[arg-type] # each kind is one
        for turn, kind in enumerate(LOST_ANSWERS)
    ]
    service = Twin(world(), faults=faults)
    async with serving(service, clock=time.monotonic, sleep=asyncio.sleep) as address:
        ledger, port = server.ledger(), address.port
        replicas = [Replica(folder, name, server, ledger, port) for name in NAMES]
        (folder / "rules").mkdir()
        (folder / "rules" / "rules.yaml").write_text(RULES)
        await replicas[0].call("rules", "publish")
        with ExitStack() as stack:
            for one in replicas:
                stack.enter_context(one.running())
            return await Play(service, server, replicas, say).run(troubles, lasts_s)


def main() -> None:
    """Plays it once, with a worker killed and another one frozen."""
    began = time.monotonic()

    def say(text: str) -> None:
        sys.stderr.write(f"{time.monotonic() - began:6.1f}s  {text}\n")

    say(f"{len(NAMES)} workers, one PostgreSQL, {PARTNERS} partners; one event is cancelled every two seconds")
    with running() as server, tempfile.TemporaryDirectory() as name:
        verdict = asyncio.run(played(server, Path(name), SHOWN, say))
    sys.stdout.write(f"{verdict}\n")
    sys.exit(1 if verdict.repeated or verdict.lost else 0)


if __name__ == "__main__":
    main()
