"""Thirty days on the simulator with every rule of the cookbook in force: ``python -m tests.thirty_days`` writes what
each of them did anew (`fired.txt`). An operator who polls once an hour, approves at nine and at six what waits, and
looks at it a month later.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.virtual import VirtualLoop, run_virtually
from tests.worlds import QUICK, Town
from worker.engine.operators import approved
from worker.engine.playing import amount_shown
from worker.model.commits import Commit
from worker.model.facts import PartnerId
from worker.model.writes import Write
from worker.rules.load import load_rules
from worker.sandbox.start import FIRST_PARTNER, built

HERE: Final = Path(__file__).parent
FIRED: Final = HERE / "fired.txt"
ROOT: Final = HERE.parents[1]
PARTNER: Final = PartnerId(FIRST_PARTNER)
BEGINS: Final = datetime(2026, 3, 1, tzinfo=UTC)
DAYS: Final = 30
HOUR: Final = timedelta(hours=1)
HOURS: Final = (0, 2, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 19, 20, 21, 22, 23)
"""Of the hours of a day those with a poll: those at which rules look, or the story turns, and no silence between."""
CONFIG: Final = """
rules: rules
poll: {interval: 1h}
safety: {confirm_within: 4h, settle: 2h, gap: {longer_than: 3h}}
observations: {keep: 40d}
"""
SETTINGS: Final = replace(
    QUICK,
    interval=HOUR,
    settle=2 * HOUR,
    confirm_within=4 * HOUR,
    evidence_within=12 * HOUR,
    deciding=replace(QUICK.deciding, gap=3 * HOUR),
    limits=replace(QUICK.limits, held_longer_than=3 * HOUR),
    observations_kept=timedelta(days=40),
    requests_per_minute=60_000,
)


def rules_in(folder: Path) -> Path:
    """The cookbook with every rule switched on, and the shipped rule that pauses what is cancelled."""
    rules = folder / "rules"
    rules.mkdir()
    for file in [*(ROOT / "rules" / "cookbook").glob("*.yaml"), ROOT / "rules" / "pause-cancelled.yaml"]:
        (rules / file.name).write_text(file.read_text("utf-8").replace("    enabled: false\n", ""), "utf-8")
    (folder / "config.yaml").write_text(CONFIG, "utf-8")
    return rules


async def thirty_days(here: Town) -> None:
    """A poll a second after the hour, when what happens on the hour has happened; somebody approves at nine and six."""
    here.twin.advance(here.loop.time())
    await here.clock.sleep(1.0)
    here.start(PARTNER)
    state = here.worker.states[PARTNER]
    for day, hour in product(range(DAYS), HOURS):
        at = BEGINS + timedelta(days=day, hours=hour, seconds=1)
        await here.clock.sleep((at - here.clock.now()).total_seconds())
        await here.worker.cycle.run(state)
        if at.hour in (9, 18):
            for write in here.ledger.writes():
                if write.state == "waiting":
                    word = approved(
                        write, because="", by="ann", now=here.clock.now(), amount=amount_shown(state, write)
                    )
                    here.ledger.apply(Commit(at=here.clock.now(), moves=(word,)))
    await asyncio.sleep(0)
    assert here.worker.defects == []


@contextmanager
def played(folder: Path) -> Iterator[Town]:
    """The worker after thirty days."""
    loop = VirtualLoop()
    twin = built(HERE / "story.yaml", None, BEGINS)
    here = Town(loop, twin, folder, load_rules(rules_in(folder)), SETTINGS)
    here.clock.skew = BEGINS - here.clock.now()
    try:
        run_virtually(loop, thirty_days(here))
        yield here
    finally:
        here.ledger.close()
        loop.close()


def spelled(writes: list[Write]) -> str:
    """What each rule did, by event, with the moments and what became of it; many equal ones in one line. What two rules
    share is told of both."""
    found: dict[str, dict[tuple[str, str, str], list[Write]]] = defaultdict(lambda: defaultdict(list))
    for write in writes:
        item = f"{write.intent.action} {write.key.item}".strip()
        for rule in write.rules or (write.key.rule,):
            found[rule][write.key.event, item, write.state].append(write)
    lines = []
    for name, groups in sorted(found.items()):
        lines.append(f"{name}: {sum(map(len, groups.values()))}")
        for (event, item, state), group in sorted(groups.items(), key=lambda one: (int(one[0][0][1:]), one[0])):
            times = [f"{write.planned_at:%d %H:%M}" for write in group]
            told = ", ".join(times) if len(times) <= 4 else f"{len(times)} times, {times[0]} to {times[-1]}"
            lines.append(f"  {event} {item}: {told}: {state}")
    return "\n".join(lines) + "\n"


def main() -> None:
    with TemporaryDirectory() as folder, played(Path(folder)) as here:
        FIRED.write_text(spelled(here.ledger.writes()), "utf-8")


if __name__ == "__main__":
    main()
