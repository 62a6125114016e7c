"""Three real workers on one PostgreSQL in troubles of every kind: nothing is repeated, and nothing is lost."""

import asyncio
import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.contract.postgres import Server, running
from tests.fleet import NAMES, STORY_S, Kind, Trouble, played

ROUNDS = int(os.environ.get("FLEET_ROUNDS", "6"))
KINDS = get_args(Kind)
LAST_S = 25.0
"""A trouble ends so long before the story does, or it would be seen by nobody."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with running() as server:
        yield server


def troubles(seed: int) -> list[Trouble]:
    """Three, one after the other or at once; the first kind by turns, so that every kind has its rounds."""
    chance = random.Random(seed)
    kinds = [KINDS[seed % len(KINDS)], chance.choice(KINDS), chance.choice(KINDS)]
    return [
        Trouble(
            kind=kind,
            replica=chance.randrange(len(NAMES)),
            at_s=chance.uniform(1.0, STORY_S - LAST_S),
            for_s=chance.uniform(1.0, 3.0 if kind == "server restart" else LAST_S),
        )
        for kind in kinds
    ]


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_trouble_repeats_or_loses_a_write(seed: int, postgres: Server, tmp_path: Path) -> None:
    told: list[str] = []
    verdict = asyncio.run(played(postgres, tmp_path, troubles(seed), told.append))
    told.append(str(verdict))
    logging.getLogger(__name__).info("%s", told[-1])
    assert (verdict.repeated, verdict.lost) == (0, 0), "\n".join(told)
