"""A ledger on disk for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.ledger.examples import open_ledger
from worker.ledger.sql import SqlLedger


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[SqlLedger]:
    with open_ledger(tmp_path) as opened:
        yield opened
