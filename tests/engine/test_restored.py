"""Ledgers in trouble: refused first, and after a person's word nothing goes out without another."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.worlds import PAUSE, Town, happening, in_town, several, world
from worker.engine.operators import after_restore, approved
from worker.ledger.upkeep import accept_restore
from worker.model.errors import NotSafe


def accept(here: Town, folder: Path) -> None:
    now = here.clock.now()
    accept_restore(
        f"sqlite:///{folder / 'worker.db'}",
        by="ann",
        now=now,
        restored=lambda write: after_restore(write, by="ann", now=now),
    )


def put_back(folder: Path) -> None:
    """The backup takes the place of the ledger, as an operator would copy it."""
    (folder / "worker.db-wal").unlink(missing_ok=True)
    (folder / "worker.db-shm").unlink(missing_ok=True)
    shutil.copy(folder / "backup.db", folder / "worker.db")


def lose(folder: Path) -> None:
    for name in ("worker.db", "worker.db-wal", "worker.db-shm"):
        (folder / name).unlink(missing_ok=True)


def lose_mark(folder: Path) -> None:
    (folder / "worker.db.mark").unlink()


@pytest.mark.parametrize("damage", [put_back, lose, lose_mark])
@in_town(world(*several(happening, 4)), PAUSE)
async def test_a_ledger_that_forgot_sends_is_refused_and_once_accepted_repeats_none(
    here: Town, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    here.set("e2", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "a pause before the backup")
    here.ledger.backup(tmp_path / "backup.db")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed", "confirmed"], "a pause that the backup forgot")
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.kill()
    damage(tmp_path)
    with pytest.raises(NotSafe) as refused:
        here.start()
    assert "accept-restore" in refused.value.hint
    accept(here, tmp_path)
    here.start()
    await here.becomes("e3", 30, status="cancelled")
    open_writes = {(str(write.key.event), write.state, write.reason) for write in here.ledger.open_writes()}
    assert {event for event, _, _ in open_writes} >= {"e1", "e3"}, "what is true at the first look fires"
    assert {(state, reason) for _, state, reason in open_writes} == {("waiting", "restored")}
    assert all(write.key.episode > 1_000_000 for write in here.ledger.open_writes()), "also where nothing was known"
    assert len(here.effects()) == 2, "and nothing of it is sent"
    here.decide(approved)
    await here.until(lambda: not here.ledger.open_writes(), "let go by a person")
    ends = {str(write.key.event): write.state for write in here.writes()}
    assert (ends["e1"], ends["e3"]) == ("confirmed", "confirmed")
    assert ends["e2"] in ("confirmed", "skipped"), "it is paused already"
    assert [one.eid for one in here.effects()].count("e2") == 1


FIRST_DRAFT = """
rules:
  - id: first-draft
    when: event.title == 'go' && setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}]
"""


@in_town(world(happening("e1")), FIRST_DRAFT)
async def test_a_write_forgotten_by_a_ledger_put_back_is_put_before_an_operator(here: Town, tmp_path: Path) -> None:
    """The poll after it saw the draft that the write had made, and ended it as not wanted any more: as if it had never
    been sent (found by the simulation, seed 20209688)."""
    here.halt()
    here.set("e1", title="go")
    await here.until(lambda: here.states() == ["planned"], "held")
    here.ledger.backup(tmp_path / "backup.db")
    here.resume()
    await here.until(lambda: len(here.effects()) == 1, "sent")
    with (
        closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
        closing(sqlite3.connect(tmp_path / "worker.db")) as ledger,
    ):
        backup.backup(ledger)  # through SQLite, into the very file
    await here.run(30)
    assert here.states() == ["planned"], "nothing is decided on what somebody put back"
    await here.kill()
    accept(here, tmp_path)
    here.start()
    assert here.states() == ["needs_human"]
    assert len(here.effects()) == 1
