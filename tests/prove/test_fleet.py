"""Three real workers on one PostgreSQL in troubles of every kind: nothing is repeated, and nothing is lost.

``FLEET_ROUNDS`` says how many rounds, ``FLEET_FROM`` from which seed on. ``FLEET_RECORD`` names a file that each round
adds a line to; ``python -m tests.prove.test_fleet FILE`` says how long takeovers took.
"""

import asyncio
import json
import logging
import os
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import get_args

import pytest

from tests.contract.postgres import Server, running
from tests.fleet import NAMES, TAKEN_OVER, Kind, Trouble, Verdict, played

FROM = int(os.environ.get("FLEET_FROM", "0"))
ROUNDS = int(os.environ.get("FLEET_ROUNDS", "6"))
RECORD = os.environ.get("FLEET_RECORD")
KINDS = get_args(Kind)
LASTS_S = 50.0
LAST_S = 18.0
"""A trouble ends so long before the story does, or it would be seen by nobody."""
LEASE_S, BEAT_S = 5.0, 1.0
"""One that is over sooner costs nobody a partner."""
APART_S = 10.0
"""By then partners are taken over: a trouble that begins later has its own to wait for."""
SPACED_S = 15.0
"""In every second round troubles begin so far apart, so that each takeover can be timed."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


def troubles(seed: int) -> list[Trouble]:
    """Three, spaced or at random; the first kind by turns, so that every kind has its rounds of both."""
    chance = random.Random(seed)
    kinds = [KINDS[seed // 2 % len(KINDS)], chance.choice(KINDS), chance.choice(KINDS)]
    latest = LASTS_S - LAST_S
    spaced = [chance.uniform(0.0, latest - 2 * SPACED_S) + SPACED_S * turn for turn in range(len(kinds))]
    begins = spaced if seed % 2 else [chance.uniform(1.0, latest) for _ in kinds]
    return [
        Trouble(
            kind=kind,
            replica=chance.randrange(len(NAMES)),
            at_s=at_s,
            for_s=chance.uniform(1.0, 3.0 if kind == "server restart" else LAST_S),
        )
        for kind, at_s in zip(kinds, begins, strict=True)
    ]


def takeovers(begun: Sequence[Trouble], waits: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Each trouble that cost a worker its partners, and how long those waited; less those at which the ledger did not
    answer, a worker was cut from the service, or another one lost its partners too."""
    for one, wait_s in zip(begun, waits, strict=True):
        lasting = one.kind == "kill" or (one.for_s or 0.0) > LEASE_S
        others = [other for other in begun if other is not one]
        alone = not any(_touches(other, one) for other in others)
        if one.kind in TAKEN_OVER and lasting and alone and wait_s > LEASE_S - BEAT_S:  # else it had none
            yield one.kind, wait_s


def _touches(other: Trouble, one: Trouble) -> bool:
    """Whether the other trouble can make the takeover of this one's partners last longer."""
    ends_s = other.at_s + (other.for_s or 0.0)
    if other.kind in TAKEN_OVER and other.replica != one.replica:
        return abs(other.at_s - one.at_s) < APART_S
    if other.kind in TAKEN_OVER:  # the same worker's: it may not have had its partners back
        return one.at_s - APART_S < ends_s and other.at_s < one.at_s + APART_S
    return other.at_s < one.at_s + APART_S and one.at_s < ends_s + APART_S


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(FROM, FROM + ROUNDS))
def test_no_trouble_repeats_or_loses_a_write(seed: int, postgres: Server, tmp_path: Path) -> None:
    told: list[str] = []
    begun = troubles(seed)
    verdict = asyncio.run(played(postgres, tmp_path, begun, told.append, LASTS_S))
    told.append(str(verdict))
    logging.getLogger(__name__).info("%s", told[-1])
    if RECORD:
        line = {"seed": seed, "troubles": [asdict(one) for one in begun], **asdict(verdict)}
        with Path(RECORD).open("a", encoding="utf-8") as record:
            record.write(json.dumps(line) + "\n")
    assert (verdict.repeated, verdict.lost) == (0, 0), "\n".join(told)


def main(file: str) -> None:
    """What all recorded rounds say."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    books: Counter[str] = Counter()
    for line in Path(file).read_text("utf-8").splitlines():
        told = json.loads(line)
        begun = [Trouble(**one) for one in told.pop("troubles")]
        told.pop("seed")
        verdict = Verdict(**told)
        books.update(rounds=1, sent=verdict.sent, effects=verdict.effects, repeated=verdict.repeated, lost=verdict.lost)
        for kind, wait_s in takeovers(begun, verdict.waits):
            found[kind].append(wait_s)
            found["all"].append(wait_s)
    lines = [", ".join(f"{what} {count}" for what, count in books.items())]
    for kind, waits in sorted(found.items()):
        p99 = statistics.quantiles(waits, n=100, method="inclusive")[98] if len(waits) > 1 else waits[0]
        lines.append(
            f"{kind}: {len(waits)}, median {statistics.median(waits):.1f} s, p99 {p99:.1f} s, most {max(waits):.1f} s"
        )
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
