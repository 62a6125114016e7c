"""What holds for all tests: a unit test that uses more than two seconds of the processor is doing too much, and fails.

Counted is the processor's time of this process and not the wall's, so that a busy machine makes no test fail; and it is
measured against a fixed piece of work timed in the same process, so that a slow machine makes none fail either. A test
that waits for something that never comes is ended by the limit of pyproject.toml.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)  # readline sets them in the process that starts the test workers: no terminal is meant

UNIT = Path(__file__).parent / "unit"
UNIT_LIMIT_S = 2.0
"""On a machine that does the fixed work in ``FIXED_WORK_S``."""
FIXED_WORK_S = 0.05
MANY_CASES = 3.0
"""How much longer a property-based test may take: it is some fifty tests in one."""
TRACED = 2.5
"""How much slower a test may be while coverage is measured."""


def _fixed_work() -> float:
    """Seconds of processor time that the fixed piece of work takes here; the best of three, tracing left out."""

    def once() -> float:
        began = time.process_time()
        sum(map(hash, map(str, range(200_000))))
        return time.process_time() - began

    return min(once() for _ in range(3))


SLOWNESS = max(1.0, _fixed_work() / FIXED_WORK_S)


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
    limit = UNIT_LIMIT_S * SLOWNESS
    limit *= TRACED if request.config.pluginmanager.hasplugin("_cov") else 1.0
    limit *= MANY_CASES if getattr(item.obj, "is_hypothesis_test", False) else 1.0
    assert used <= limit, f"{used:.1f} s of processor time; a unit test has {limit:.1f} s"
