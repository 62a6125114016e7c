"""Simulated fleets: two to five replicas on one ledger, whatever befalls them, their links and the server.

A few run with every test run; ``make prove`` plays many. ``FLEETS`` and ``FLEETS_LONG`` say how many, ``FLEETS_FROM``
from which seed on. A failure says how to play it again alone.
"""

import os
from itertools import islice

import pytest

from tests.simulation.nemesis import Try, swarm, tried
from tests.simulation.scenes import FLEET
from tests.simulation.scenes import FLEETS as FLEETS_NAMED
from tests.simulation.test_worlds import judged

FLEETS = int(os.environ.get("FLEETS", "12"))
LONG = int(os.environ.get("FLEETS_LONG", "1500"))
FROM = FLEET + int(os.environ.get("FLEETS_FROM", "100000"))
PARTS = 4
GROUP = 100


@pytest.mark.parametrize("part", range(PARTS))
def test_a_few_fleets_repeat_and_lose_nothing(part: int) -> None:
    judged(islice(swarm(FLEET, FLEETS), part, None, PARTS))


@pytest.mark.prove
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(FROM, FROM + LONG, GROUP))
def test_fleets_repeat_and_lose_nothing(first: int) -> None:
    judged(swarm(first, min(GROUP, FROM + LONG - first)))


@pytest.mark.prove
@pytest.mark.parametrize("scene", [one.name for one in FLEETS_NAMED])
def test_named_fleets_repeat_and_lose_nothing(scene: str) -> None:
    judged([Try(scene=scene)])


def test_a_fleets_world_follows_from_its_seed() -> None:
    one = Try(seed=FLEET)
    assert tried(one)[0].told == tried(one)[0].told
