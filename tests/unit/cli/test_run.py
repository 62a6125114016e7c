"""`run` at its start: what is said before the first look."""

import shutil
from pathlib import Path

import pytest

from tests.calling import call, settle_in
from tests.unit.ledger.examples import NOW, key, open_ledger, place_in, plan, planned
from worker.ledger.lock import SenderLock


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


def test_who_may_not_run_on_a_ledger_is_not_told_to_remove_it(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home, tmp_path, dirs_exist_ok=True)

    with SenderLock.acquire(place_in(tmp_path), now=NOW):
        held = call("run", "--for", "1ms", config=tmp_path / "config.yaml")
    place_in(tmp_path).mark.unlink()
    lost = call("run", "--for", "1ms", config=tmp_path / "config.yaml")

    assert (held.code, "is held by process" in held.err, "anew" in held.err) == (3, True, False), held.err
    assert (lost.code, "mark" in lost.err, "to begin anew" in lost.err) == (3, True, False), lost.err
