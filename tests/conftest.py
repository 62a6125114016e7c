"""What holds for all tests: a unit test that needs more than two seconds is waiting for something, and fails."""

from importlib.util import find_spec
from pathlib import Path

import pytest

UNIT = Path(__file__).parent / "unit"
UNIT_LIMIT_S = 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every unit test its limit, unless it names one of its own."""
    if find_spec("pytest_timeout") is None:
        return
    for item in items:
        if UNIT in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(UNIT_LIMIT_S))
