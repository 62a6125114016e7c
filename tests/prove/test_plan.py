"""`plan` and the next `run` agree, in random worlds: what it says would be sent is sent, and nothing else.

Each world is played for a while, the worker is stopped, and `plan` is asked. Then time is put back to the moment of the
question and the worker starts again: after a few looks every write must stand where it said.
``WORLDS_FROM`` and ``WORLDS`` choose the seeds of the long one; a failure names its seed.
"""

import os
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.calling import call, settle_in
from tests.prove.play import beginning
from tests.prove.stories import STORY_S, changes, drawn
from tests.rehearsing import rehearsed
from tests.virtual import run_virtually
from tests.worlds import PARTNER, Town
from worker.engine.rehearsal import Rehearsed
from worker.ledger.reading import open_reading
from worker.model.writes import Write, WriteKey

CHANGES = 8
"""How many things have changed since the worker ended, so that there is something to plan."""
POLLS_MAX = 4
"""How many looks the worker may take to read, and to read back, what a plan has at once."""
SHORT = 5
LONG = int(os.environ.get("WORLDS", "100"))
FROM = int(os.environ.get("WORLDS_FROM", "10000"))

Standing = tuple[str, str | None]


def told(found: Rehearsed) -> dict[WriteKey, Standing]:
    """Where `plan` says that each write would come to stand."""
    return {
        row.write.key: ("sent", None) if row.request is not None else (row.becomes, row.reason)
        for row in found.rows
        if row.becomes != "held"
    }


def done(here: Town, before: dict[WriteKey, Write]) -> dict[WriteKey, Standing]:
    """Where each write came to stand, of those that were open before or are new."""
    found: dict[WriteKey, Standing] = {}
    for write in here.writes():
        old = before.get(write.key)
        if old is not None and old.final:
            continue
        reason = write.held_by if write.state == "planned" and write.held_by else write.reason
        sent = write.attempt > (0 if old is None else old.attempt)
        found[write.key] = ("sent", None) if sent else (write.state, reason)
    return found


def firings_held(here: Town) -> set[tuple[str, str, str]]:
    """What the worker remembers of what holds a firing."""
    memories = here.worker.states[PARTNER].memories.items()
    return {(event, rule, memory.held) for (event, rule), memory in memories if memory.held is not None}


def _agree(plan: dict[WriteKey, Standing], run: dict[WriteKey, Standing]) -> bool:
    """Whether every write stands where `plan` said, but for those that wait for another one's answer, which it never
    gets: while the credentials are in doubt one write tries them, and the others go once it was taken."""
    answered = ("sent", None) in plan.values()
    waits = {key for key, standing in plan.items() if answered and standing == ("planned", "credentials")}
    return {key: one for key, one in plan.items() if key not in waits} == {
        key: one for key, one in run.items() if key not in waits
    }


async def both(here: Town) -> Counter[str]:
    """`plan`, and then the next `run`, from the same moment of the same world."""
    here.twin.faults.clear()
    moment, ledger = here.loop.time(), here.folder / "worker.db"
    with open_reading(here.ledger_url) as reader:
        before = {write.key: write for write in reader.writes()}
    stored = ledger.read_bytes()
    found = await rehearsed(here)
    assert ledger.read_bytes() == stored, "plan wrote into the ledger"
    here.loop.put_back(moment)
    here.start()
    state = here.worker.states[PARTNER]
    for look in range(POLLS_MAX):
        await here.clock.sleep(here.settings.interval.total_seconds() if look else 0)
        await here.worker.cycle.run(state)
        await here.worker.cycle.drain(state)
        if _agree(told(found), done(here, before)):
            break
    assert _agree(told(found), done(here, before))
    held = {(row.write.key.event, row.write.key.rule, row.reason) for row in found.rows if row.becomes == "held"}
    assert held <= firings_held(here)
    return Counter(standing if reason is None else f"{standing} {reason}" for standing, reason in told(found).values())


def seen_in(folder: Path, seeds: range) -> Counter[str]:
    """Plays these seeds; how often a write came to stand where."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        place, story = folder / str(seed), drawn(seed)
        place.mkdir()
        at = Random(seed).uniform(6.0, STORY_S)
        with beginning(place, story) as (here, nemesis):
            run_virtually(here.loop, nemesis.play_until(at, changes(seed, story, CHANGES)))
            seen += run_virtually(here.loop, both(here))
    return seen


def test_plan_and_the_next_run_agree_in_a_few_random_worlds(tmp_path: Path) -> None:
    assert seen_in(tmp_path, range(SHORT))["sent"] > 0, "worlds in which nothing is to be sent prove nothing"


@pytest.mark.prove
@pytest.mark.timeout(0)
def test_plan_and_the_next_run_agree_in_a_hundred_random_worlds(tmp_path: Path) -> None:
    seen = seen_in(tmp_path, range(FROM, FROM + LONG))
    print("\n" + ", ".join(f"{count} {what}" for what, count in sorted(seen.items())))  # noqa: T201 - what was proved
    assert sum(seen.values()) > LONG / 2


@pytest.mark.prove
@pytest.mark.timeout(0)
def test_the_command_reads_the_service_where_no_daemon_is_running(tmp_path: Path) -> None:
    """Against the embedded twin, over real sockets."""
    rules = "rules:\n  - id: pause-running\n    when: event.client_campaign_status == 'RUNNING'\n    do: [pause]\n"
    called = call("plan", "--format", "json", config=settle_in(tmp_path, rules=rules))
    found = called.json
    assert (called.code, found["source"]) == (0, "service")
    assert {one["becomes"] for one in found["writes"]} == {"sending"}
    assert not (tmp_path / "worker.db").exists(), "plan makes no ledger"
