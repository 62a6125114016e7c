"""`run` at its start: what is said before the first look."""

import shutil
from pathlib import Path

import pytest

from tests.calling import call, settle_in
from tests.unit.ledger.examples import key, open_ledger, plan, planned


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a write of an earlier world."""
    folder = tmp_path_factory.mktemp("home")
    settle_in(folder)
    with open_ledger(folder) as ledger:
        planned(ledger, plan(key()))
    return folder


def test_the_embedded_world_begins_anew_and_its_ledger_does_not_which_is_said(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)

    done = call("run", "--for", "1ms", config=tmp_path / "config.yaml")

    assert done.code == 0
    assert f"the embedded sandbox begins anew at every start; the ledger {tmp_path / 'worker.db'} does not" in done.err
    assert "it remembers 1 write of earlier worlds" in done.err
    assert "remove worker.db*" in done.err
    assert (tmp_path / "worker.db").exists(), "nothing is thrown away"


def test_a_first_run_says_nothing_of_earlier_worlds(tmp_path: Path) -> None:
    done = call("run", "--for", "1ms", config=settle_in(tmp_path))

    assert done.code == 0
    assert "anew" not in done.err
