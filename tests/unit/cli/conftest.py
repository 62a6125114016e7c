"""The folder of an operator, for commands that are tried on it."""

import shutil
from pathlib import Path

import pytest

from tests.calling import settle_in
from tests.unit.ledger.examples import NOW, key, open_ledger, plan, planned, sent


@pytest.fixture(autouse=True)
def _untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules come into force without a process that tries them first, which takes longer than all else of a `run`.
    test_trial.py is about that process, and tests/acceptance starts the worker as it is."""

    async def untried(*_: object) -> None:
        return

    monkeypatch.setattr("worker.cli.wiring.try_out", untried)


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
