"""A wall clock that jumps a year ahead, back an hour, or ahead and back: nothing is repeated, nothing is stuck."""

import asyncio
from datetime import timedelta
from itertools import count

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from tests.builders import cases
from tests.engine.test_daemon import Told, daemon_of
from tests.virtual import EPOCH
from tests.worlds import CAMPAIGN, HOUR, MINUTE, PAUSE, RUN, Town, happening, in_town, rules_of, world
from worker.engine.daemon import Every
from worker.engine.operators import approved
from worker.engine.views import DecidingSettings as Deciding
from worker.guards import Limits
from worker.sandbox.faults import Kind

YEAR, BACK = timedelta(days=365), timedelta(hours=-1)


@pytest.mark.parametrize("kind", ["answer_before", "answer_after"])
@pytest.mark.parametrize("jump", [YEAR, BACK], ids=["a year ahead", "back an hour"])
@in_town(world(happening("e1")))
async def test_a_jump_while_a_write_is_unknown_repeats_and_loses_nothing(
    here: Town, jump: timedelta, kind: Kind
) -> None:
    here.fault(kind, "PUT", CAMPAIGN, status=500)
    await here.cancelled("unknown")
    sent_at = here.at
    here.clock.skew = jump
    await here.until(lambda: here.states()[0] in ("confirmed", "needs_human"), "settled, or before a person")
    if kind == "answer_after":
        assert (here.states(), here.campaigns()) == (["confirmed"], ["PAUSED"])
    elif here.only.attempt > 1:
        assert here.at - sent_at >= here.settings.settle.total_seconds(), "time alone makes nothing sendable"
    assert len(here.campaigns()) <= 1


@pytest.mark.parametrize("jump", [YEAR, BACK], ids=["a year ahead", "back an hour"])
@in_town(world(happening("e1"), happening("e2")))
async def test_after_a_jump_the_worker_goes_on_as_before(here: Town, jump: timedelta) -> None:
    await here.cancelled("confirmed")
    here.clock.skew = jump
    await here.run(6)
    here.set("e2", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"] * 2, "after", limit=60)
    await here.becomes("e1", 6, status="active", client_campaign_status="RUNNING")
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"] * 3, "in its next episode", limit=60)
    assert here.twin.books.summary()["repeated"] == 0


@in_town(world(happening("e1")), watched=6)
async def test_what_fires_at_the_very_look_after_a_jump_ahead_waits_as_after_a_silence(here: Town) -> None:
    here.clock.skew = YEAR
    await here.becomes("e1", 6, status="cancelled")
    assert [(write.state, write.reason) for write in here.writes()] == [("waiting", "gap")]


# --- a year ahead, and corrected: what was stamped meanwhile counts for no longer than it could have ---------------


async def ahead_and_back(here: Town) -> None:
    """Something is done while the clock is a year ahead; then it is right again."""
    here.clock.skew = YEAR
    await here.run(6)
    here.set("e1", frontend_status="FLAGGED")
    await here.until(lambda: len(here.writes()) == 1 and here.writes()[0].attempt > 0, "tried a year ahead")
    await here.run(3)
    here.clock.skew = timedelta(0)


@pytest.mark.parametrize("kind", ["no_connection", "answer_before"])
@in_town(world(happening("e1", client_campaign_status="PAUSED")), RUN, watched=6)
async def test_a_back_off_and_refused_credentials_do_not_hold_for_a_year(here: Town, kind: Kind) -> None:
    here.fault(kind, "PUT", CAMPAIGN, times=2, **({"status": 401} if kind == "answer_before" else {}))
    await ahead_and_back(here)
    if kind == "no_connection":  # a refusal of what spends is unknown, and read back: nobody is asked
        await here.until(lambda: here.states() == ["waiting"], "since when it is held is not known", limit=MINUTE)
        here.decide(approved)
    await here.until(lambda: here.states() == ["confirmed"], "tried on", limit=2 * MINUTE)


@pytest.mark.parametrize("key", ["cooldown: 1h", "limit: {per_event_per_day: 1}", "for: 1m", ""])
@in_town(
    world(happening("e1", client_campaign_status="PAUSED")),
    lambda key: f"{RUN}    {key}\n" if key else RUN,
    deciding=Deciding(gap=timedelta(hours=1), gap_then="act"),
    limits=Limits(writes_per_hour=1),
    watched=6,
)
async def test_the_pace_of_a_rule_and_the_writes_of_an_hour_do_not_hold_for_a_year(here: Town, key: str) -> None:
    if key.startswith("for"):
        here.clock.skew = YEAR
        await here.becomes("e1", 6, frontend_status="FLAGGED")
        here.clock.skew = timedelta(0)
    else:
        await ahead_and_back(here)
        await here.until(lambda: here.states() == ["confirmed"], "confirmed")
        await here.becomes("e1", 6, frontend_status="DEFAULT", client_campaign_status="PAUSED")
        here.set("e1", frontend_status="FLAGGED")
    before = len(here.campaigns())
    await here.until(lambda: len(here.campaigns()) > before, "not in a year", limit=2 * MINUTE)


@pytest.mark.parametrize("ahead", [YEAR, timedelta(minutes=15)], ids=["a year ahead", "a little longer than the wait"])
@in_town(world(happening("e1", status="cancelled")), PAUSE.replace("[pause]", "[pause, {wait: 10m}, run]"))
async def test_a_wait_that_began_ahead_asks_instead_of_lasting_so_long(here: Town, ahead: timedelta) -> None:
    here.clock.skew = ahead
    await here.until(lambda: here.states() == ["confirmed", "planned"], "it waits")
    here.clock.skew = timedelta(0)
    await here.until(lambda: here.states()[2:] == ["waiting"], "nobody knows when it was over", limit=12 * MINUTE)


@in_town(
    world(happening("e1")),
    PAUSE + "    repeat: enforce\n    cooldown: 1m\n",
    deciding=Deciding(gap_then="act"),
    watched=6,
)
async def test_enforcing_goes_on_when_the_clock_is_right_again(here: Town) -> None:
    here.clock.skew = YEAR
    await here.cancelled("confirmed")
    here.clock.skew = timedelta(0)
    await here.run(6)
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.until(lambda: len(here.campaigns()) == 2, "set back", limit=3 * MINUTE)


@in_town(world(happening("e1"), happening("e2")), watched=6)
async def test_a_silence_is_noticed_although_the_last_look_was_stamped_in_the_future(here: Town) -> None:
    here.clock.skew = YEAR
    await here.run(40)
    await here.kill()
    here.clock.skew = timedelta(0)
    here.set("e1", status="cancelled")
    here.loop.jump(5 * HOUR)
    here.start()
    await here.run(9)
    assert [(write.state, write.reason) for write in here.writes()] == [("waiting", "gap")]


@in_town(world(happening("e1")), watched=6)
async def test_a_write_held_since_a_future_that_never_came_asks_a_person(here: Town) -> None:
    here.halt()
    here.clock.skew = YEAR
    await here.cancelled("planned")
    here.clock.skew = timedelta(0)
    await here.run(6)
    assert [(write.state, write.reason) for write in here.writes()] == [("waiting", "gap")]


@in_town(
    world(happening("e1")),
    rules_of(
        "{id: rest, when: event.category == 'tired', do: [pause]}",
        "{id: after-it, after: rest, when: event.capacity > 0.0, do: [{notify: rested}]}",
        "{id: by-hand, when: set_by.frontend_status == 'external', do: [{notify: by hand}]}",
    ),
)
async def test_what_was_done_before_the_clock_was_set_back_has_been_done(here: Town) -> None:
    """Until the clock had caught up it counted for nothing; then the rules fired once more for it."""
    here.clock.skew = timedelta(minutes=1)
    await here.run(6)
    await here.becomes("e1", 30, by="person", category="tired", frontend_status="FLAGGED")
    here.clock.skew = timedelta(0)
    for capacity in (410, 420):
        await here.becomes("e1", 60, capacity=capacity)
    assert sorted(here.texts) == ["by hand", "rested"]


@in_town(world(happening("e1")), PAUSE + "    for: 10m\n")
async def test_a_clock_that_was_set_back_by_less_than_a_gap_delays_no_for(here: Town) -> None:
    """Of a quiet event it was noted when it is due again, by the clock that was ahead."""
    here.clock.skew = timedelta(minutes=50)
    await here.run(30)
    await here.becomes("e1", 60, status="cancelled")
    here.clock.skew = timedelta(0)
    await here.until(lambda: here.states() == ["confirmed"], "held for ten minutes", limit=11 * MINUTE)


@in_town(world(happening("e1", status="cancelled")), PAUSE + "    at: '0 * * * *'\n", deciding=Deciding(gap_then="act"))
async def test_a_time_that_was_dealt_with_a_year_ahead_keeps_none_before_it_from_coming(here: Town) -> None:
    here.clock.skew = YEAR
    await here.until(lambda: here.states() == ["confirmed"], "a year ahead", limit=HOUR + MINUTE)
    here.clock.skew = timedelta(0)
    await here.run(HOUR - MINUTE)
    assert here.log("held") == [], "and none is missed"
    await here.until(lambda: len(here.writes()) == 2, "at the next full hour", limit=2 * MINUTE)


@in_town(world(happening("e1"), happening("e2")), PAUSE + "    for: 1m\n", watched=6)
async def test_what_came_back_a_year_ahead_is_not_back_at_every_look_until_then(here: Town) -> None:
    here.clock.skew = YEAR
    await here.run(6)
    here.change("e1", remove=True)
    await here.run(30)
    here.change("e1", add=True, set=happening("e1").record)
    await here.run(30)
    here.clock.skew = timedelta(0)
    await here.run(30)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "held for a minute", limit=2 * MINUTE)


FALL = "rules: [{id: fall, when: \"delta(event.capacity, '2h') <= -100.0\", do: [pause]}]"
STILL = "rules: [{id: still, when: \"delta(event.capacity, '2h') == 0.0 && event.city == 'Bonn'\", do: [pause]}]"
SLOW = timedelta(minutes=2)


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(happening("e1")), FALL, interval=SLOW, watched=HOUR / 5)
async def test_what_was_is_told_also_where_a_clock_that_was_ahead_has_stamped_a_change(
    here: Town, restarted: bool
) -> None:
    here.clock.skew = YEAR
    await here.becomes("e1", 360, capacity=399)
    here.clock.skew = timedelta(0)
    if restarted:
        await here.restart(10)
    await here.run(3 * HOUR)
    for capacity in (340, 280):
        await here.becomes("e1", 3 * HOUR, capacity=capacity)
    assert here.writes() == [], "it has fallen by 60 within two hours, not by 120"
    await here.becomes("e1", 360, capacity=150)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1")), STILL, interval=SLOW, watched=3 * HOUR)
async def test_what_a_clock_that_was_ahead_has_dropped_of_the_record_is_not_known(here: Town) -> None:
    await here.becomes("e1", 360, capacity=399)
    here.clock.skew = YEAR
    for category in ("fair", "match"):
        await here.becomes("e1", 360, category=category)
    here.clock.skew = timedelta(0)
    await here.run(360)
    await here.becomes("e1", 1.7 * HOUR, city="Bonn")
    assert here.writes() == [], "it had another capacity, but for the last hours"
    await here.run(HOUR / 2)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1"), happening("e2")))
async def test_what_came_back_and_was_seen_is_not_back_once_more(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its return was stamped a moment later than the look that saw it: so whatever came true next, though an hour
    later, waited for approval. The clock of other tests stands between two looks at it, and shows nothing of that."""
    ticks, now = count(1), here.clock.now
    monkeypatch.setattr(here.clock, "now", lambda: now() + timedelta(microseconds=next(ticks)))
    await here.run(6)
    here.change("e1", remove=True)
    await here.run(30)
    here.change("e1", add=True, set=happening("e1").record)
    await here.run(MINUTE)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "nobody is asked", limit=MINUTE)


# --- the scheduler -------------------------------------------------------------------------------------------------


@cases(
    "jump, brought_back, woken",
    (timedelta(0), False, False, "a job that is due in its interval is left alone"),
    (timedelta(seconds=-5), False, False, "a few seconds are waited for"),
    (BACK, True, False, "an hour would be an hour without a look"),
    (YEAR, False, True, "the scheduler runs what is overdue, but it may sleep by a clock that was set back before"),
)
@in_town(world(happening("e1")))
async def test_a_clock_set_back_delays_no_look(here: Town, jump: timedelta, brought_back: bool, woken: bool) -> None:
    said = Told()
    daemon = daemon_of(here, said)
    scheduler = AsyncIOScheduler(timezone="UTC")
    scheduler.start(paused=True)
    due = here.clock.now() + here.settings.interval
    scheduler.add_job(print, Every(here.settings.interval), id="cycle", next_run_time=due)
    here.clock.skew = jump
    wakes: list[None] = []
    scheduler.wakeup = lambda: wakes.append(None)
    keeping = asyncio.ensure_future(daemon._keep_time(scheduler))
    await asyncio.sleep(3.5)
    assert bool(wakes) is woken
    (job,) = scheduler.get_jobs()
    assert (job.next_run_time != due) is brought_back
    assert job.next_run_time <= max(due, here.clock.now())
    assert said.said == (["clock_set_back"] if brought_back else [])
    keeping.cancel()
    scheduler.shutdown(wait=False)


@pytest.mark.parametrize(
    ("late", "runs", "following"),
    [(0.0, 1, 3.0), (2.9, 1, 3.0), (3.0, 1, 6.0), (10.0, 1, 13.0), (YEAR.total_seconds(), 1, YEAR.total_seconds() + 3)],
)
def test_a_look_that_is_late_by_whatever_is_made_and_counted_once(late: float, runs: int, following: float) -> None:
    """The scheduler makes a list of all missed times; a year of them, 3 s apart, took it minutes."""
    scheduler = BackgroundScheduler(timezone="UTC")
    scheduler.start(paused=True)
    job = scheduler.add_job(print, Every(timedelta(seconds=3)), next_run_time=EPOCH)
    now = EPOCH + timedelta(seconds=late)
    assert len(job._get_run_times(now)) == runs
    assert job.trigger.get_next_fire_time(EPOCH, now) == EPOCH + timedelta(seconds=following)
    scheduler.shutdown(wait=False)
