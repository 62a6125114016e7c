"""What holds for all tests: a unit test that uses more than two seconds of the processor is doing too much, and fails.

Counted is the processor's time of this process and not the wall's, so that a busy machine makes no test fail; a test
that waits for something that never comes is ended by the limit of pyproject.toml.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

UNIT = Path(__file__).parent / "unit"
UNIT_LIMIT_S = 2.0
TRACED = 2.5
"""How much slower a test may be while coverage is measured."""


@pytest.fixture(autouse=True)
def within_the_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Gives every unit test its limit, unless it names one of its own."""
    item = request.node
    if UNIT not in item.path.parents or item.get_closest_marker("timeout") is not None:
        yield
        return
    began = time.process_time()
    yield
    used = time.process_time() - began
    limit = UNIT_LIMIT_S * (TRACED if request.config.pluginmanager.hasplugin("_cov") else 1.0)
    assert used <= limit, f"{used:.1f} s of processor time; a unit test has {limit:.1f} s"
