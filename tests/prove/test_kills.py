"""Real processes, killed with SIGKILL at random moments, frozen and thawed, on a disk that is full at times: one effect
for each wish.

One ledger and one twin live through all rounds. In each round something happens that calls for a write, the service
spoils some answers, and the worker is killed wherever it happens to be. Judged from outside, at the end: the twin's
books, the commands' own output. ``KILLS`` is the number of rounds, ``KILLS_SEED`` chooses their moments.
"""

import os
import signal
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.acceptance.processes import BOOST, Home, Sandbox, Worker, home, room, sandbox, until
from tests.prove.proofs import say
from tests.worlds import PAUSE

pytestmark = [pytest.mark.prove, pytest.mark.timeout(0)]
ROUNDS = int(os.environ.get("KILLS", "30"))
SEED = int(os.environ.get("KILLS_SEED", "1"))
EACH = 25
"""So many rounds one ledger lives through; further ones play the others, each with a seed and a verdict of its own."""
TOLD_EVERY = 5
FORGIVEN = ("task_without_put", "task_too_soon")
"""After a death between record and byte nobody knows whether a PUT left; its task is read all the same, with the waits
of a new one."""
FIRST = "partner-id-aurora-live"
STATE = "/client_campaign_status$"
ENDS = ("confirmed", "skipped")
END_S = 300.0
DRAFT = {"goal": "ROAS", "total_budget": 300, "state": "DRAFT"}
FAULTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("answer_before", {"status": 429}),
    ("answer_after", {"status": 429}),
    ("answer_after", {"status": 502}),
    ("cut_before", {}),
    ("cut_after", {}),
    ("hang_before", {}),
    ("hang_after", {}),
    ("slow", {"delay_s": 1.5}),
)
SURGE = "{events: 1000, within: 10m}"
GENTLE = {"surge": SURGE, "writes_per_hour": 1000, "max_attempts": 9, "evidence_within": "30m"}


def cause(box: Sandbox, chance: Random, event: str) -> str:
    """Something happens that calls for one write, and perhaps its answer will be spoiled; the effect it must have."""
    boost = chance.random() < 0.5
    if chance.random() < 0.7:
        kind, params = chance.choice(FAULTS)
        method, path = ("POST", f"/{event}/boost$") if boost else ("PUT", f"/{event}{STATE}")
        box.fault(kind, method, path, params=params)
    if boost:
        box.post("change", {"event": event, "partner": FIRST, "setup": DRAFT, "set": {"title": "boost me"}})
        return "boost"
    box.cancel(event)
    return "set_client_campaign_status"


def wait_for_a_look(box: Sandbox) -> None:
    """Until the worker has read the list once more: starting takes long on a busy machine."""
    before = len(box.get("requests"))
    until(lambda: any(one["path"] == "/events/" for one in box.get("requests")[before:]), "the worker looks")


def wait_for_the_write(box: Sandbox, event: str) -> None:
    """Until a write of the event has come to the service: few moments that are drawn would be in its flight."""

    def there() -> bool:
        return any(one["method"] != "GET" and event in one["path"].split("/") for one in box.get("requests"))

    with suppress(AssertionError):  # one whose firing is held longer than that is killed all the same
        until(there, "the write comes", limit_s=30.0)


def disturb(running: Worker, chance: Random, box: Sandbox, event: str) -> str:
    """Fills the disk for a while, freezes and thaws the worker, perhaps; then kills it, at any moment or just after its
    write has left."""
    full = chance.random() < 0.3
    if full:
        time.sleep(chance.uniform(0.0, 4.0))
        room(running.process, 1)
        time.sleep(chance.uniform(0.2, 5.0))
        if chance.random() < 0.3:
            running.kill()
            return "killed on a full disk"
        room(running.process)
    if chance.random() < 0.6:
        wait_for_the_write(box, event)
        time.sleep(chance.choice([0.0, 0.0, 0.2, 1.0]))
    else:
        time.sleep(chance.uniform(0.0, 5.0))
    if chance.random() < 0.4:
        running.process.send_signal(signal.SIGSTOP)
        time.sleep(chance.uniform(0.1, 4.5))
        if chance.random() < 0.7:
            running.process.send_signal(signal.SIGCONT)
            time.sleep(chance.uniform(0.0, 2.0))
    running.kill()
    return "killed after a full disk" if full else "killed"


def attempts_and_requests(where: Home, box: Sandbox) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """How often each write's address was recorded as sending, and how often it was seen on the wire."""
    recorded = Counter(
        (one["request"]["method"], one["request"]["url"].split("/api/v3")[-1].split("?")[0])
        for one in where.log()
        if one["kind"] == "sending"
    )
    seen = Counter(
        (one["method"], one["path"])
        for one in box.get("requests")
        if one["method"] != "GET" and one["path"] != "/auth" and one["reached"]
    )
    return recorded, seen


@pytest.mark.parametrize(
    ("seed", "rounds"), [(SEED + first // EACH, min(EACH, ROUNDS - first)) for first in range(0, ROUNDS, EACH)]
)
def test_sigkill_at_any_moment_leaves_one_effect_for_each_wish(tmp_path: Path, seed: int, rounds: int) -> None:
    chance = Random(seed)
    events = [f"e{number}" for number in range(11, 11 + rounds)]
    with sandbox(tmp_path, "--events", str(3 * (len(events) + 12) // 2), forgiven=FORGIVEN) as box:
        where = home(tmp_path, box, [PAUSE, BOOST], timeout="3s", **GENTLE)
        wanted: dict[str, str] = {}
        states, ways = Counter[str](), Counter[str]()
        began = time.monotonic()
        for number, event in enumerate(events, 1):
            if number % TOLD_EVERY == 0:
                say(f"seed {seed}: round {number} of {rounds} after {time.monotonic() - began:.0f} s, {dict(states)}")
            with where.worker() as running:
                if chance.random() < 0.8:
                    wait_for_a_look(box)
                wanted[event] = cause(box, chance, event)
                ways[disturb(running, chance, box, event)] += 1
            states.update(one["state"] for one in where.writes() if one["event"] == event)
        with where.worker() as last:
            _wait(where, len(events))
            assert last.stop() == 0
        took = time.monotonic() - began
        say(f"{dict(ways)}, seed {seed}, {took:.0f} s; after the kill the write of the round was {dict(states)}")
        _judge(where, box, wanted)


def _wait(where: Home, number: int) -> None:
    """Until every write has ended; says what has not."""
    try:
        until(lambda: _over(where.writes(), number), "every write has ended", limit_s=END_S)
    except AssertionError as late:
        open_writes = [one for one in where.writes() if one["state"] not in ENDS]
        raise AssertionError(f"{late}: {open_writes}") from late


def _over(writes: list[dict[str, Any]], number: int) -> bool:
    return len(writes) >= number and all(one["state"] in ENDS for one in writes)


def _judge(where: Home, box: Sandbox, wanted: dict[str, str]) -> None:
    books = box.get("books")
    assert books["repeated"] == 0
    assert "the chain holds" in where.call("log", "--verify").stdout
    effects = Counter((one["eid"], one["operation"]) for one in books["list"])
    assert effects == Counter(wanted.items()), "one effect for each wish, and no other"
    recorded, seen = attempts_and_requests(where, box)
    assert not seen - recorded, "every request on the wire has an attempt of its own in the ledger"
    crashed = sum(one["reason"] == "crash" for one in where.log() if one["kind"] == "unknown")
    say(
        f"attempts {sum(recorded.values())}, requests {sum(seen.values())}, effects {len(books['list'])}, "
        f"found in sending at a start {crashed}, repeated 0"
    )
