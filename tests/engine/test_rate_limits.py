"""Short quotas and limits that nobody tells: found and used, and what must go out goes out meanwhile."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.limiters import FOUND_S, MEASURED_S, TokenBucket
from tests.worlds import (
    BOOST,
    BOOST_DRAFTS,
    CAMPAIGN,
    HOUR,
    MINUTE,
    PAUSE,
    Town,
    draft,
    happening,
    in_town,
    several,
    world,
)
from worker.engine import observe
from worker.engine.views import DecidingSettings as Deciding
from worker.guards import Limits
from worker.sandbox.settings import TwinRequest

NGINX = 5.0
"""What passes at once after a rest where nginx has ``burst=4``."""
WANTS_MUCH = """
  - id: wants-more-than-the-limit-gives
    when: event.status == 'active' && (setup.state == 'NOWHERE' || suggested_tcs.exists(t, t.tc == 'none such'))
    with: {budget: 500, goal: ROAS}
    do: [pause]
"""


def limit(here: Town, per_minute: float, burst: float = NGINX) -> Callable[[], list[tuple[float, bool]]]:
    """A limiter before the twin; gives what it let pass and what not, with the time of each in the test."""
    bucket, seen = TokenBucket(burst=burst), list[tuple[float, bool]]()

    def too_many(request: TwinRequest, _now_s: float) -> bool:
        if request.is_sign_in:
            return False
        seen.append((here.at, bucket.admits(here.at, per_minute)))
        return not seen[-1][1]

    here.twin._too_many = too_many  # type: ignore[method-assign, assignment]
    return lambda: seen


@pytest.mark.parametrize("per_minute", [90, 60, 30])
@in_town(world(*several(draft, 4)), BOOST)
async def test_a_write_that_leans_on_many_reads_does_not_meet_the_limit(here: Town, per_minute: int) -> None:
    limit(here, per_minute)
    await here.run(5 * MINUTE)
    for number in range(1, 5):
        here.suggest(f"e{number}", 2)
        await here.until(lambda: here.states().count("confirmed") == number, "boosted", limit=5 * MINUTE)  # noqa: B023
    assert {one.attempt for one in here.writes()} == {1}, here.story()
    assert here.log("unknown") == []


@in_town(world(*several(draft, 12, first=0)), PAUSE + WANTS_MUCH)
async def test_a_limit_is_found_and_used_and_hardly_any_answer_is_a_429(here: Town) -> None:
    seen = limit(here, 90)
    await here.run(FOUND_S + MEASURED_S)
    measured = [passed for at, passed in seen() if FOUND_S <= at < FOUND_S + MEASURED_S]
    assert sum(measured) >= 0.8 * 90 * MEASURED_S / MINUTE
    assert measured.count(False) <= 0.05 * len(measured)
    lists = [one for one in here.twin.books.requests if one.path == "/events/" and one.at_s - 1000.0 >= FOUND_S]
    assert len(lists) >= 10 * MEASURED_S / MINUTE, "facts do not keep it from the list"


@in_town(world(*several(draft, 3, first=0), *(happening(f"f{number}") for number in range(12))), BOOST + WANTS_MUCH)
async def test_under_a_lower_pace_nothing_else_leaves_between_the_reads_of_a_write_and_the_write(here: Town) -> None:
    limit(here, 60)
    await here.run(3 * MINUTE)
    began = len(here.twin.books.requests)
    for number in range(3):
        here.suggest(f"e{number}", 2)
    await here.until(lambda: here.states() == ["confirmed"] * 3, "boosted", limit=5 * MINUTE)
    seen = list(here.twin.books.requests)[began:]
    for place, write in enumerate(seen):
        if write.method == "POST" and write.path.endswith("/boost"):
            event = write.path.split("/")[-2]
            before = [one for one in seen[:place] if write.at_s - one.at_s < 3.0][-4:]
            assert all(event in one.path.split("/") or "?" in one.path for one in before), [
                (one.at_s, one.path) for one in (*before, write)
            ]
            assert [one.at_s for one in before] == sorted({one.at_s for one in before}), "one by one"


@pytest.mark.parametrize("per_minute", [90, 60, 30])
@in_town(world(*several(draft, 12, first=0)), PAUSE + WANTS_MUCH)
async def test_where_no_burst_is_granted_a_dead_event_is_paused_within_a_minute(here: Town, per_minute: int) -> None:
    limit(here, per_minute, burst=1.0)
    await here.run(5 * MINUTE)
    for number in range(1, 5):
        here.set(f"e{number}", status="cancelled")
        await here.until(lambda: here.states().count("confirmed") == number, "paused", limit=MINUTE)  # noqa: B023


@in_town(world(*several(draft, 12, first=0)), PAUSE + BOOST.replace("\nrules:\n", ""))
async def test_writes_that_cannot_be_had_without_a_burst_keep_lists_and_pauses_from_nothing(here: Town) -> None:
    """A boost leans on four reads: they and it do not fit into one interval where requests must be a second apart. Each
    try went on after its 429 and met more, once a minute for each write, and the list came once in half a minute."""
    seen = limit(here, 60, burst=1.0)
    await here.run(5 * MINUTE)
    for number in range(4):
        here.suggest(f"e{number}", 2)
    await here.run(20 * MINUTE)
    here.set("e8", status="cancelled")
    await here.until(lambda: here.states() == ["planned"] * 4 + ["confirmed"], "paused", limit=MINUTE)
    passed = [passed for at, passed in seen() if at >= 5 * MINUTE]
    assert passed.count(False) <= 0.1 * len(passed)
    lists = [one for one in here.twin.books.requests if one.path == "/events/" and one.at_s - 1000.0 >= 5 * MINUTE]
    assert len(lists) >= 6 * 20
    assert {one.held_by for one in here.writes()[:4]} == {"fact_unknown"}
    assert "429" in here.writes()[0].why


AT_NOON = """
rules:
  - id: daily
    at: "5 12 * * *"
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [{notify: look at it}]
"""


@in_town(world(*several(draft, 60, first=0)), AT_NOON, requests_per_minute=10, interval=timedelta(seconds=12))
async def test_a_time_of_a_rule_loses_no_event_for_want_of_quota(here: Town) -> None:
    """Some five facts a minute are left beside the list: sixty events take longer than the five minutes of old."""
    await here.run(25 * 60)
    assert len(here.messages) == 60, here.story()
    assert [one for one in here.log("held") if one["reason"] == "missed"] == []


@in_town(world(*several(draft, 30, first=0)), AT_NOON, requests_per_minute=25, interval=timedelta(seconds=12))
async def test_events_that_are_left_when_the_hour_is_over_are_named_in_one_record(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where they are judged in pieces."""
    monkeypatch.setattr(observe, "PAIRS_AT_ONCE", 4)
    await here.run(301)
    here.fault("answer_before", "GET", "/setup_processes/", times=100_000, status=500)
    await here.run(62 * 60)
    (missed,) = [one for one in here.log("held") if one["reason"] == "missed"]
    told = {one["event"] for one in here.messages}
    left = [f"e{number}" for number in range(30) if f"e{number}" not in told]
    assert left
    assert f"{len(left)} events ({', '.join(sorted(left))})" in missed["why"]


MANY = Deciding(surge=replace(Deciding().surge, events=1000))


@pytest.mark.parametrize(
    ("rules", "per_minute"), [(BOOST, 90), (BOOST, 30), (BOOST, 10), (PAUSE, 20), (PAUSE, 10), (PAUSE, 4)]
)
@in_town(world(draft("e1")), lambda rules: rules, requests_per_minute=lambda per_minute: per_minute)
async def test_a_boost_is_sent_under_a_small_quota_too_and_a_pause_under_a_tiny_one(here: Town, rules: str) -> None:
    await here.run(2 * MINUTE)
    here.suggest("e1", 2)
    here.set("e1", status="active" if rules is BOOST else "cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "sent", limit=(10 if rules is BOOST else 5) * MINUTE)


@in_town(
    world(*(happening(f"e{number:02}", client_campaign_status="PAUSED") for number in range(36))),
    "rules: [{id: run-again, when: event.status == 'active', do: [run]}]",
    requests_per_minute=40,
    deciding=MANY,
)
async def test_what_was_proved_absent_is_sent_again_before_what_was_never_sent(here: Town) -> None:
    here.fault("answer_before", "PUT", CAMPAIGN, status=429)
    await here.until(lambda: any(one.attempt == 2 for one in here.writes()), "sent again", limit=10 * MINUTE)
    assert sum(one.attempt == 0 for one in here.writes()) >= 10, "the others still wait for their first turn"
    await here.until(lambda: set(here.states()) == {"confirmed"}, "all run", limit=10 * MINUTE)


@pytest.mark.parametrize(
    ("state", "per_hour"), [("needs_human", 1000), ("planned", 1)], ids=["before a person", "held by a brake"]
)
@in_town(
    world(*several(draft, 40, first=0)),
    BOOST_DRAFTS,
    ask=True,
    deciding=MANY,
    limits=lambda per_hour: Limits(writes_per_hour=per_hour),
)
async def test_many_writes_that_wait_do_not_slow_the_looks(here: Town, state: str) -> None:
    if state == "needs_human":
        here.fault("answer_before", "POST", "/boost$", status=500, times=1000)
    await here.until(lambda: here.states().count(state) >= 36, "all wait", limit=HOUR)
    await here.run(3 * MINUTE)
    assert max(one.took_ms for one in here.reports[-5:]) < 6_000


@in_town(
    world(*several(draft, 30, first=0), happening("cancelled")),
    PAUSE + BOOST.replace("\nrules:\n", ""),
    deciding=MANY,
    watched=15,
)
async def test_a_pause_goes_out_before_the_boosts_that_wait_with_it(here: Town) -> None:
    """A cancelled event costs money every minute; a boost that comes a minute later costs nothing."""
    for number in range(30):
        here.suggest(f"e{number}", 2)
    await here.run(6)
    here.set("cancelled", status="cancelled")
    await here.until(lambda: bool(here.effects("set_client_campaign_status")), "paused", limit=MINUTE)
    assert len(here.effects("boost")) < 25, "the line was still long"


TWENTY = [f"e{number}" for number in range(1, 21)]


def records(here: Town, kind: str) -> list[dict[str, Any]]:
    return [one for one in here.log(kind) if one["write"] is not None]


@in_town(world(*map(happening, TWENTY)), requests_per_minute=20_000, watched=10)
async def test_many_writes_at_once_are_each_sent_once_and_confirmed_by_their_own_evidence(here: Town) -> None:
    for event in TWENTY:
        here.set(event, status="cancelled")
    await here.until(lambda: here.states().count("applied") == 20, "all accepted")
    assert len(records(here, "sending")) == 20, here.story()
    await here.until(lambda: here.states() == ["confirmed"] * 20, "all confirmed")
    shown = {one["write"]: one["seq"] for one in records(here, "evidence")}
    assert len(shown) == len(records(here, "evidence")) == 20
    assert all(one["seq"] == shown[one["write"]] + 1 for one in records(here, "confirmed")), here.story()
    assert all(one.attempt == 1 for one in here.writes())
