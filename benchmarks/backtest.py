"""How long `backtest` takes: one day of a thousand events, recorded by the worker itself from the twin, turn by turn.

Every event changes ten times within the day, at moments and in ways that a seed decides; the worker's own cycle
looks every five minutes, records what changed, and makes the writes that its rules ask for. Then the command itself is
called, once with the same rules and once with other ones: from opening the ledger to the last line that it prints.
Beside it what cannot be left out: the five conditions, judged by a CEL library in Rust on the event after each change.
``EVENTS`` and ``CHANGES`` make it smaller or larger.
"""

import asyncio
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks import plain
from benchmarks.rivals import origin
from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import PARTNER, QUICK, Town, happening, world
from worker.cli.app import loaded
from worker.cli.app import main as campaign_worker
from worker.model.facts import Json
from worker.rules.load import read_rules
from worker.sandbox.changes import EventChange
from worker.sandbox.service import Twin

EVENTS = int(os.environ.get("EVENTS", "1000"))
CHANGES = int(os.environ.get("CHANGES", "10"))
DAY_S = 86_400.0
ASK_EVERY_S = 300.0
"""A look at a thousand events in every three seconds of a day would take hours to record, and show the same changes."""
BOUND_S = 15.0
"""What a backtest over a day may take."""
SETTINGS = replace(QUICK, page_size=1000, requests_per_minute=60_000, observations_kept=timedelta(days=7))
RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled' || event.frontend_status == 'CANCELLED'
    do: [pause]
  - id: run-flagged
    when: event.frontend_status == 'FLAGGED' && event.status == 'active'
    for: 10m
    cooldown: 2h
    do: [run]
  - id: rest-when-sold
    when: event.predicted_sales_share > 0.9
    do: [{optimisation: "OFF"}]
  - id: push-before-the-start
    when: event.start_date_time - now < duration('90d') && event.predicted_sales_share < 0.05
    do: [{ad_optimisation: "ON"}]
  - id: hide-archived
    when: event.status == 'archived'
    for: 1h
    do: [{frontend_status: HIDDEN}]
"""
OTHER = RULES.replace("0.9", "0.8").replace("for: 1h", "for: 2h").replace("for: 10m", "for: 5m")


def drawn(chance: Random, number: int) -> tuple[float, EventChange]:
    """One change of one event, at a second of the day."""
    kinds: list[tuple[str, list[Json]]] = [
        ("status", ["active", "active", "active", "cancelled", "archived"]),
        ("frontend_status", ["DEFAULT", "DEFAULT", "FLAGGED", "CANCELLED"]),
        ("predicted_sales_share", [round(chance.random(), 2)]),
        ("predicted_sales_share", [round(chance.random(), 2)]),
        ("capacity", [chance.randint(100, 900)]),
        ("title", [f"Title {chance.randint(1, 99)}"]),
    ]
    name, values = chance.choice(kinds)
    change = EventChange(event=f"e{number:05}", partner=PARTNER, set={name: chance.choice(values)})
    return chance.uniform(60.0, DAY_S - 60.0), change


def of_the_day() -> list[tuple[float, EventChange]]:
    """All changes, in their order."""
    chance = Random(7)
    return sorted((drawn(chance, number) for number in range(EVENTS) for _ in range(CHANGES)), key=lambda one: one[0])


def bare() -> float:
    """CPU seconds of judging what each change leaves."""
    texts = re.findall("when: (.*)", RULES.replace("'90d'", "'2160h'"))
    now = datetime(2026, 3, 1, tzinfo=UTC)
    starts = {"start_date_time": now + timedelta(days=80)}  # that library subtracts no texts
    events = {f"e{number:05}": {**happening(f"e{number:05}").record, **starts} for number in range(EVENTS)}
    changes = of_the_day()
    began = time.process_time()
    assert plain.judged(texts, after(events, changes), {"now": now}) > EVENTS
    return time.process_time() - began


def after(events: dict[str, plain.Record], changes: list[tuple[float, EventChange]]) -> Iterator[plain.Record]:
    """The event as each change leaves it."""
    for _, change in changes:
        events[change.event] |= change.set
        yield events[change.event]


async def a_day(here: Town) -> None:
    """A cycle in every five minutes, and some at the end to see what the writes of the last ones did."""
    changes = of_the_day()
    here.start()
    state = here.worker.states[PARTNER]
    index = 0
    while index < len(changes):
        await here.clock.sleep(ASK_EVERY_S)
        while index < len(changes) and changes[index][0] <= here.at:
            here.twin.change(changes[index][1], here.loop.time())
            index += 1
        await here.worker.cycle.run(state)
    for _ in range(3):
        await here.clock.sleep(here.settings.interval.total_seconds())
        await here.worker.cycle.run(state)
        await here.worker.cycle.drain(state)
    await asyncio.sleep(0)


def recorded(folder: Path) -> None:
    """The ledger of a worker that has watched the day."""
    loop = VirtualLoop()
    twin = Twin(world(*(happening(f"e{number:05}") for number in range(EVENTS))))
    here = Town(loop, twin, folder, read_rules({"rules.yaml": RULES}).rules, SETTINGS)
    run_virtually(loop, a_day(here))
    here.ledger.close()
    loop.close()


def timed(*arguments: str) -> tuple[float, float, str]:
    """Seconds and processor seconds of one command, and what it said to a person."""
    out, err = io.StringIO(), io.StringIO()
    began, cpu = time.perf_counter(), time.process_time()
    code: object = None
    with redirect_stdout(out), redirect_stderr(err):
        try:
            campaign_worker(arguments)
        except SystemExit as stop:
            code = stop.code
    assert code in (0, None), err.getvalue()
    said = next(line for line in err.getvalue().splitlines() if "same" in line)
    return time.perf_counter() - began, time.process_time() - cpu, said


def main() -> None:
    """Records the day, and measures."""
    loaded("backtest")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text("rules: rules.yaml\n", "utf-8")
        (folder / "rules.yaml").write_text(RULES, "utf-8")
        (folder / "other.yaml").write_text(OTHER, "utf-8")
        began = time.process_time()
        recorded(folder)
        size = (folder / "worker.db").stat().st_size / 1e6
        print(origin())
        print(f"a day of {EVENTS} events with {CHANGES} changes each, recorded in {time.process_time() - began:.0f} s")
        print(f"of processor time; the ledger has {size:.1f} MB; 5 rules")
        print(f"{'what':<28}{'seconds':>9}{'CPU':>9}{'ratio':>7}   result")
        least = bare()
        print(f"{'the bare conditions':<28}{'':>9}{least:>9.2f}{1:>7}")
        config = ("--config", str(folder / "config.yaml"))
        for rules in ("rules.yaml", "other.yaml"):
            wall, cpu, said = timed(*config, "backtest", "--rules", str(folder / rules))
            print(f"{'backtest --rules ' + rules:<28}{wall:>9.2f}{cpu:>9.2f}{cpu / least:>7.0f}   {said}")
            assert cpu < BOUND_S, f"a backtest over a day takes {cpu:.1f} s, and {BOUND_S:g} are allowed"


if __name__ == "__main__":
    main()
