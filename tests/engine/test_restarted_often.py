"""A process that is started anew again and again, or sleeps before its byte; and the task behind a PUT."""

import sqlite3
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Self, cast

import pytest

from tests.worlds import BOOST_DRAFTS, CAMPAIGN, Town, draft, happening, in_town, world
from worker.ledger.sql import SqlLedger
from worker.model.commits import Record
from worker.sandbox.faults import Kind
from worker.sandbox.settings import TwinSettings

RESTART_EVERY_S = 8


async def restarted_until(here: Town, state: str, limit: timedelta) -> None:
    ends = here.at + limit.total_seconds()
    while here.states() != [state]:
        assert here.at < ends, f"within {limit} never {state}: {here.story()}"
        await here.restart()
        await here.run(RESTART_EVERY_S)


async def after_the_first_attempt(here: Town, kind: Kind, **how: object) -> None:
    await here.run(6)
    here.fault(kind, "PUT", CAMPAIGN, **how)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() in (["unknown"], ["applied"]), "sent")


@pytest.mark.parametrize("status", [500, 204], ids=["unknown", "accepted, and nobody can see it"])
@in_town(world(happening("e1")), evidence_within=timedelta(minutes=3))
async def test_an_unknown_write_reaches_a_person_also_where_no_process_lives_long_enough(
    here: Town, status: int
) -> None:
    await after_the_first_attempt(here, "answer_before", status=status)
    fair = here.settings.evidence_within + 2 * here.settings.settle
    await restarted_until(here, "needs_human", fair + timedelta(minutes=1))
    assert here.only.reason == "no_evidence" or status == 204
    assert (here.only.attempt, here.effects()) == (1, []), "time and restarts make nothing sendable"


@pytest.mark.parametrize("late_s", [30.0, 100.0])
@in_town(world(happening("e1")), settle=timedelta(minutes=2))
async def test_an_effect_that_comes_late_is_confirmed_by_whichever_process_sees_it(here: Town, late_s: float) -> None:
    await after_the_first_attempt(here, "late_effect", status=500, after_s=late_s)
    await restarted_until(here, "confirmed", timedelta(seconds=late_s + 60))
    assert [one.after for one in here.effects()] == ["PAUSED"]


class Held(SqlLedger):
    """Another process holds the ledger from the moment in which this one has opened it."""

    tool: sqlite3.Connection

    @classmethod
    def open(cls, url: str, *, clock_now: Callable[[], datetime]) -> Self:
        opened = super().open(url, clock_now=clock_now)
        opened.in_a_loop()
        opened.tool = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        opened.tool.execute("BEGIN EXCLUSIVE")
        return opened


@in_town(world(happening("e1")))
async def test_a_row_in_sending_that_a_start_cannot_store_is_stored_once_the_ledger_is_free(here: Town) -> None:
    here.fault("hang_after", "PUT", CAMPAIGN)
    await here.cancelled("sending")
    await here.kill()
    here.start(ledger=Held)
    await here.run(6)
    assert here.states() == ["sending"]
    cast(Held, here.ledger).tool.close()
    await here.until(lambda: here.states() == ["confirmed"], "settled")
    assert [one["reason"] for one in here.log("unknown")] == ["crash"]
    assert len(here.effects()) == 1


@in_town(world(happening("e1")), late_s=65.0)
async def test_what_another_replica_sent_counts_by_the_time_out_that_one_had(here: Town) -> None:
    """Whoever takes a partner over may have a shorter time-out than who had it: its bytes may leave later."""
    here.fault("hang_before", "PUT", CAMPAIGN)
    await here.cancelled("sending")
    await here.kill()
    here.settings = replace(here.settings, late_s=25.0)
    here.start()
    for _ in range(2):
        await here.run(60)
        assert (here.only.attempt, here.only.reason) == (1, "takeover")
        await here.restart()
    began = here.at
    await here.until(lambda: here.effects() != [], "the event is paused")
    assert here.at - began >= 65.0, "a second takeover begins that anew"


def frozen_once(here: Town, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> None:
    """The process sleeps for so long right after its first ``sending`` is on disk."""
    slept: list[Record] = []

    def tell(record: Record) -> None:
        if record.kind == "sending" and not slept:
            slept.append(record)
            here.loop.jump(seconds)
            meanwhile()

    here.tell(tell)


@pytest.mark.parametrize(
    ("seconds", "attempts", "reason"),
    [(9.0, 1, "not longer than api.timeout: it is sent"), (11.0, 2, "longer: what was judged then is not sent now")],
)
@in_town(world(draft("e1")), BOOST_DRAFTS)
async def test_who_slept_longer_than_the_timeout_does_not_send(
    here: Town, seconds: float, attempts: int, reason: str
) -> None:
    frozen_once(here, seconds)
    await here.until(lambda: here.states() == ["confirmed"], "boosted")
    assert here.only.attempt == attempts, reason
    assert here.only.counted == 1, "an attempt proven unsent does not count"
    assert len(here.effects("boost")) == 1
    kinds = [one["kind"] for one in here.log() if one["write"] == 1]
    again = ["planned", "sending"] if attempts == 2 else []
    assert [one for one in kinds if one not in ("evidence", "held")] == [
        *["planned", "sending"],
        *again,
        *["applied", "confirmed"],
    ]


@in_town(world(draft("e1")), BOOST_DRAFTS)
async def test_what_a_person_changed_while_it_slept_is_seen_before_anything_is_sent(here: Town) -> None:
    frozen_once(here, 600.0, lambda: here.set("e1", by="person", status="archived"))
    await here.until(lambda: bool(here.writes()) and here.only.final, "it ends")
    assert (here.only.state, here.effects("boost")) == ("skipped", [])


TASK = "/events/e1/client_campaign_status/task"


def reads_of_the_task(here: Town) -> int:
    return sum(one.method == "GET" and one.path == TASK for one in here.twin.books.requests)


@in_town(world(happening("e1")), twin=TwinSettings(task_duration_s=10_000.0, task_effect="when_done"))
async def test_a_task_that_never_ends_is_read_six_times_over_restarts_and_then_counts_no_more(here: Town) -> None:
    here.fault("answer_after", "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    for seconds in (5, 9, 20):
        await here.run(seconds)
        await here.restart()
        await here.clock.sleep(3)
    await here.run(60)
    assert here.states() == ["unknown"], "a task that runs makes every read one that cannot tell" + here.story()
    await here.until(lambda: reads_of_the_task(here) == 6, "the sixth read")
    await here.until(lambda: here.only.attempt == 2, "its state counts no more: absence is proved, it is sent again")
    assert reads_of_the_task(here) == 6, "the first PUT's task is read no seventh time"
