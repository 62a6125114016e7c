"""The folder of an operator, for commands that are tried on it."""

import shutil
from pathlib import Path

import pytest

from tests.calling import settle_in
from tests.unit.ledger.examples import NOW, key, open_ledger, plan, planned, sent


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with one write that was sent. A module that needs another one has a fixture of this name."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder)
    with open_ledger(folder) as ledger:
        sent(ledger, planned(ledger, plan(key()))[0], NOW)
    return folder


@pytest.fixture
def config(home: Path, tmp_path: Path) -> Path:
    """A copy of it, for a test to do with as it likes."""
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)
    return tmp_path / "config.yaml"
