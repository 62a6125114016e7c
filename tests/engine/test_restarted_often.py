"""A supervisor that starts the worker anew again and again, each time before the reads could settle anything."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

import pytest

from tests.worlds import Town, happening, in_town, plays, world
from worker.ledger.sql import SqlLedger
from worker.sandbox.faults import Kind

RESTART_EVERY_S = 8


async def restarted_until(here: Town, state: str, limit: timedelta) -> None:
    ends = here.at + limit.total_seconds()
    while here.states() != [state]:
        assert here.at < ends, f"within {limit} never {state}: {here.story()}"
        await here.kill()
        here.start()
        await here.run(RESTART_EVERY_S)


async def after_the_first_attempt(here: Town, kind: Kind, **how: object) -> None:
    await here.run(6)
    here.fault(kind, "PUT", "/client_campaign_status$", **how)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() in (["unknown"], ["applied"]), "sent")


@in_town(world(happening("e1")), evidence_within=timedelta(minutes=3))
async def test_an_unknown_write_reaches_a_person_also_where_no_process_lives_long_enough(here: Town) -> None:
    await after_the_first_attempt(here, "answer_before", status=500)
    fair = here.settings.evidence_within + 2 * here.settings.settle
    await restarted_until(here, "needs_human", fair + timedelta(minutes=1))
    assert here.only.reason == "no_evidence"
    assert (here.only.attempt, here.effects()) == (1, []), "time and restarts make nothing sendable"


@in_town(world(happening("e1")), evidence_within=timedelta(minutes=3))
async def test_an_accepted_write_that_nobody_can_see_reaches_a_person_also_where_no_process_lives_long_enough(
    here: Town,
) -> None:
    await after_the_first_attempt(here, "answer_before", status=204)
    fair = here.settings.evidence_within + 2 * here.settings.settle
    await restarted_until(here, "needs_human", fair + timedelta(minutes=1))
    assert (here.only.attempt, here.effects()) == (1, [])


@pytest.mark.parametrize("late_s", [30.0, 100.0])
@in_town(world(happening("e1")), settle=timedelta(minutes=2))
async def test_an_effect_that_comes_late_is_confirmed_by_whichever_process_sees_it(here: Town, late_s: float) -> None:
    await after_the_first_attempt(here, "late_effect", status=500, after_s=late_s)
    await restarted_until(here, "confirmed", timedelta(seconds=late_s + 60))
    assert [one.after for one in here.effects()] == ["PAUSED"]


def test_a_row_in_sending_that_a_start_cannot_store_as_unknown_is_stored_once_the_ledger_is_free(
    tmp_path: Path,
) -> None:
    """Another process holds the ledger from the moment in which this one has opened it."""
    tool: sqlite3.Connection | None = None

    class Held(SqlLedger):
        @classmethod
        def open(cls, url: str, *, clock_now: Callable[[], datetime]) -> Self:
            nonlocal tool
            opened = super().open(url, clock_now=clock_now)
            opened.in_a_loop()
            tool = sqlite3.connect(tmp_path / "worker.db", isolation_level=None)
            tool.execute("BEGIN EXCLUSIVE")
            return opened

    async def script(here: Town) -> None:
        await here.run(6)
        here.fault("hang_after", "PUT", "/client_campaign_status$")
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["sending"], "under way")
        await here.kill()
        here.start(ledger=Held)
        await here.run(6)
        assert here.states() == ["sending"]
        assert tool is not None
        tool.close()
        await here.until(lambda: here.states() == ["confirmed"], "settled")
        assert [one["reason"] for one in here.log("unknown")] == ["crash"]
        assert len(here.effects()) == 1

    plays(script, tmp_path, world(happening("e1")))


@in_town(world(happening("e1")), late_s=65.0)
async def test_what_another_replica_sent_counts_by_the_time_out_that_one_had(here: Town) -> None:
    """Whoever takes a partner over may have a shorter time-out than who had it: its bytes may leave later."""
    await here.run(6)
    here.fault("hang_before", "PUT", "/client_campaign_status$")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["sending"], "sent")
    await here.kill()
    here.settings = replace(here.settings, late_s=25.0)
    here.start()
    for _ in range(2):
        await here.run(60)
        assert (here.only.attempt, here.only.reason) == (1, "takeover")
        await here.kill()
        here.start()
    began = here.at
    await here.until(lambda: here.effects() != [], "the event is paused")
    assert here.at - began >= 65.0, "a second takeover begins that anew"
