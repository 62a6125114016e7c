"""Rules that take too much to read, or end the process that reads them, do not come into force nor end the worker."""

import signal
import sys
from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import PAUSE, settle_in
from worker.cli import trial
from worker.cli.trial import Bounds
from worker.cli.wiring import FolderSource
from worker.config import load_config
from worker.model.errors import InputErrors

LONG = "rules: []\n# \N{GRINNING FACE}" + "\n" * 2_000_000
MANY = "rules:\n" + "- a\n" * 300_000


@pytest.fixture(autouse=True)
def _untried() -> None:
    """Here they are tried."""


async def refused(folder: Path, bounds: Bounds, rules: str = PAUSE) -> str:
    """Why these rules do not come into force."""
    with pytest.raises(InputErrors) as refusal:
        await FolderSource(load_config(settle_in(folder, rules=rules)), bounds).load()
    return str(refusal.value)


async def test_a_rule_set_that_is_read_within_its_bounds_is_taken(tmp_path: Path) -> None:
    found = await FolderSource(load_config(settle_in(tmp_path))).load()

    assert [rule.id for rule in found.rules] == ["pause-cancelled"]


async def test_nothing_of_the_folder_in_which_it_begins_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who publishes the rules of a repository stands in it; a file there with the name of a module of Python's was run,
    with the database's password in its environment, and where it failed no rule came into force."""
    (tmp_path / "statistics.py").write_text("raise SystemExit(1)")
    (tmp_path / "pickle.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    found = await FolderSource(load_config(settle_in(tmp_path))).load()

    assert [rule.id for rule in found.rules] == ["pause-cancelled"]


@cases(
    "rules, bounds, why",
    (LONG, Bounds(memory_mb=60), "reading them takes more than 60 MB of memory", "memory"),
    (MANY, Bounds(cpu_s=1), "reading them takes more than 1 s of processor time", "processor"),
    (MANY, Bounds(wall_s=0.01), "reading them takes more than 0.01 s", "time"),
)
async def test_one_that_takes_more_is_refused_with_what_to_do(
    tmp_path: Path, rules: str, bounds: Bounds, why: str
) -> None:
    said = await refused(tmp_path, bounds, rules)

    assert why in said
    assert "rules: the rules here were tried before they come into force, and are not taken" in said


async def test_one_that_ends_the_process_that_reads_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a fault in a parser would that is written in C."""
    (tmp_path / "worse.py").write_text(f"import os\nos.kill(os.getpid(), {int(signal.SIGSEGV)})\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(trial, "__name__", "worse")

    assert f"reading them ended the process that tried them ({-signal.SIGSEGV})" in await refused(tmp_path, Bounds())


async def test_where_no_process_can_be_started_nothing_comes_into_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))

    assert "no process can be started to try them: No such file" in await refused(tmp_path, Bounds())
