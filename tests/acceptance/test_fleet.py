"""Workers that share a ledger, as processes: one is killed, stopped or told to end, and another goes on with its work.

Judged by the sandbox's own books, which know every request and every effect, whoever made it.
"""

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import BOOST, FIRST, WORKER, Home, Sandbox, Worker, sandbox, until
from tests.contract.postgres import Server, running
from tests.worlds import PAUSE

pytestmark = pytest.mark.timeout(300)
TAKEN_OVER_S = 10.0
HANDED_OVER_S = 4.0
SLOW_S = 1.5
"""What a busy machine may add to a gap; a fleet that loses its partners is behind by much more."""
OFF = """
import datetime, sys, time
class Off(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return datetime.datetime.fromtimestamp(time.time() + off_s, tz)
off_s = float(sys.argv.pop(1))
from apscheduler.schedulers import base
from worker import system
base.datetime = system.datetime = Off
from worker.__main__ import main
main()
"""
"""A worker on a machine whose wall clock is off by so many seconds."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as found:
        yield found


@contextmanager
def fleet(
    folder: Path, server: Server, box: Sandbox, size: int, rules: str = PAUSE, *, off_s: float = 0.0, timeout_s: int = 3
) -> Iterator[list[tuple[Home, Worker]]]:
    """So many workers that share the partners, once each has its part. ``off_s``: how far their clocks are off."""
    url, homes = server.ledger(), []
    for number in range(size):
        where = Home(folder=folder / f"replica{number}")
        where.folder.mkdir()
        where.config.write_text(
            f"api:\n  base_url: {box.base_url}\n  cr_url: {box.cr_url}\n  timeout: {timeout_s}s\n"
            f"ledger: {url}\nstate_dir: state\nsafety: {{settle: 2s, evidence_within: 60s, confirm_within: 30s}}\n",
            encoding="utf-8",
        )
        where.rule(rules)
        homes.append(where)
    homes[0].call("rules", "publish", str(homes[0].folder / "rules"))
    with ExitStack() as stack:
        run = [sys.executable, "-c", OFF, str(off_s)] if off_s else WORKER
        commands = ((one, [*run, "--config", str(one.config), "run"]) for one in homes)
        found = [(where, stack.enter_context(where.started(*command))) for where, command in commands]
        until(lambda: shared(homes[0], min(size, 2)), "the partners are shared out")
        yield found


def shared(where: Home, among: int) -> bool:
    """Whether both partners belong to living workers, and to so many."""
    found = where.json("fleet")
    alive = {one["id"] for one in found["replicas"] if one["state"] == "running"}
    owners = {one["owner"] for one in found["partners"]}
    return len(found["partners"]) == 2 and owners <= alive and len(owners) == among


def owner(found: list[tuple[Home, Worker]]) -> tuple[Worker, Home]:
    """Whose the first partner is, and the home of another one."""
    told = found[0][0].json("fleet")
    (of,) = [one["owner"] for one in told["partners"] if one["partner"] == FIRST]
    (pid,) = [one["pid"] for one in told["replicas"] if one["id"] == of]
    others = (where for where, worker in found if worker.process.pid != pid)
    return next(worker for _, worker in found if worker.process.pid == pid), next(others)


def lists(box: Sandbox) -> list[dict[str, Any]]:
    return [one for one in box.get("requests") if one["path"].endswith("/events/") and one["partner"] == FIRST]


def gap_after(box: Sandbox, seen: int) -> float:
    """The longest time between two lists of the first partner, from so many lists on."""
    times = [float(one["at_s"]) for one in lists(box)[max(0, seen - 1) :]]
    return max(later - sooner for sooner, later in pairwise(times))


@pytest.mark.parametrize("kind", [pytest.param("hang_before", marks=pytest.mark.prove), "hang_after"])
def test_a_killed_workers_partner_is_taken_over_and_its_write_in_flight_is_settled_once(
    tmp_path: Path, server: Server, kind: str
) -> None:
    with sandbox(tmp_path) as box, fleet(tmp_path, server, box, 2, BOOST) as found:
        box.fault(kind, "POST", "/boost$")
        box.set("e4", title="boost me")
        until(lambda: [one for one in box.get("requests") if one["path"].endswith("/boost")], "a boost in flight")
        worker, other = owner(found)
        seen = len(lists(box))
        worker.kill()
        other.comes_to("confirmed")
        until(lambda: len(lists(box)) > seen + 2, "lists of the new owner")
        assert gap_after(box, seen) < TAKEN_OVER_S
        assert [one["operation"] for one in box.effects()].count("boost") == 1
        assert box.get("books")["repeated"] == 0
        kinds = [(one["kind"], one["reason"]) for one in other.log("--partner", FIRST)]
        assert ("takeover", "takeover") in kinds
        assert ("unknown", "takeover") in kinds
        assert other.writes()[0]["attempt"] == (2 if kind == "hang_before" else 1)
        assert "BROKEN" not in other.call("log", "--verify").stdout.upper().replace("IS BROKEN AT", "BROKEN")


def test_a_stopped_workers_partner_is_taken_over_and_it_goes_on_as_another_when_it_wakes(
    tmp_path: Path, server: Server
) -> None:
    with sandbox(tmp_path, forgiven=["floor"]) as box, fleet(tmp_path, server, box, 2) as found:
        worker, other = owner(found)
        before = {one["id"] for one in other.json("fleet")["replicas"]}
        seen = len(lists(box))
        os.kill(worker.process.pid, signal.SIGSTOP)
        box.cancel("e1")
        other.comes_to("confirmed")
        assert gap_after(box, seen) < TAKEN_OVER_S
        os.kill(worker.process.pid, signal.SIGCONT)
        until(lambda: shared(other, 2), "the one that woke has a partner again")
        ids = {one["id"] for one in other.json("fleet")["replicas"] if one["pid"] == worker.process.pid}
        assert ids - before, "under an id that nobody had"
        assert box.get("books")["repeated"] == 0
        assert len(box.effects()) == 1


def test_a_worker_that_is_told_to_end_hands_its_partners_over(tmp_path: Path, server: Server) -> None:
    with sandbox(tmp_path) as box, fleet(tmp_path, server, box, 3) as found:
        worker, other = owner(found)
        seen, began = len(lists(box)), time.monotonic()
        assert worker.stop() == 0
        assert time.monotonic() - began < TAKEN_OVER_S
        until(lambda: len(lists(box)) > seen + 2, "lists of the new owner")
        assert gap_after(box, seen) < HANDED_OVER_S + SLOW_S
        assert "takeover" not in [one["kind"] for one in other.log("--partner", FIRST)]


def test_a_worker_that_is_told_to_end_watches_on_what_it_cannot_hand_over_yet(tmp_path: Path, server: Server) -> None:
    with sandbox(tmp_path) as box, fleet(tmp_path, server, box, 2, timeout_s=12) as found:
        box.fault("hang_after", "PUT", "/client_campaign_status$")
        box.cancel("e1")
        worker, other = owner(found)
        other.comes_to("sending")
        seen = len(lists(box))
        assert worker.stop() == 0
        other.comes_to("confirmed")
        assert gap_after(box, seen) < HANDED_OVER_S + SLOW_S
        assert len(box.effects()) == 1


def test_a_worker_whose_clock_is_off_goes_by_the_servers(tmp_path: Path, server: Server) -> None:
    """A halt for an hour would be over for who is two hours ahead, and what was sent before would be in no limit."""
    with sandbox(tmp_path) as box, fleet(tmp_path, server, box, 1, off_s=7200.0) as found:
        ((where, _),) = found
        began = datetime.now(UTC)
        where.call("halt", "--for", "1h", "--because", "a look first")
        box.cancel("e1")
        until(lambda: [one["held_by"] for one in where.writes()] == ["halt"], "the halt holds the write")
        where.call("resume", "--because", "seen")
        where.comes_to("confirmed")
        assert where.call("status", "--healthy").returncode == 0
        seen = len(lists(box))
        until(lambda: len(lists(box)) > seen + 2, "the list is asked for again and again")
        assert gap_after(box, seen) < HANDED_OVER_S + SLOW_S
        times = [datetime.fromisoformat(str(one["at"])) for one in where.log("--partner", FIRST)]
        assert all(abs(at - began) < timedelta(minutes=2) for at in times)
