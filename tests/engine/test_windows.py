"""What was, and what the looks leave behind: over restarts, silences, and before a write is sent."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.worlds import BOOST, HOUR, MINUTE, PARTNER, PAUSE, QUICK, Town, draft, happening, in_town, world
from worker.model.commits import OF_PARTNER
from worker.model.facts import EventId, Fact, Known

SLOW = timedelta(seconds=30)
FALL = "rules:\n  - {id: fall, when: \"delta(event.capacity, '2h') <= -100.0\", do: [pause]}\n"


@in_town(world(happening("e1")), FALL, interval=SLOW, watched=60)
async def test_the_record_outlives_the_process(here: Town) -> None:
    await here.becomes("e1", 60, capacity=300)
    await here.restart(HOUR / 2)
    await here.run(1.4 * HOUR)
    assert here.writes() == [], "two hours ago nobody had looked yet"
    await here.run(0.2 * HOUR)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1")), FALL, interval=SLOW, watched=60)
async def test_in_a_long_silence_nothing_is_known(here: Town) -> None:
    here.set("e1", capacity=300)
    await here.restart(3 * HOUR)
    await here.run(1.9 * HOUR)
    assert here.writes() == [], "what it was two hours ago lies in the silence"
    await here.becomes("e1", 0.2 * HOUR, capacity=150)
    assert here.states() == ["waiting"], "what it rests on was first seen after the silence"
    (fired,) = here.log("fired")
    assert "ago(event.capacity, '2h') is 300" in str(fired["why"])


@in_town(world(happening("e1")), FALL.replace("do: [pause]", "mode: approve, do: [pause]"), interval=SLOW, watched=60)
async def test_before_a_write_is_sent_what_was_is_read_from_the_record_anew(here: Town) -> None:
    """The fall lies further back than the rule asks when the write may go at last."""
    await here.becomes("e1", 2 * HOUR, capacity=300)
    assert here.states() == ["waiting"]
    await here.run(0.2 * HOUR)
    assert here.states() == ["skipped"], "nothing has fallen in the last two hours"


@in_town(world(happening("e1")), FALL, interval=SLOW, observations_kept=timedelta(minutes=10), watched=60)
async def test_changes_are_kept_as_long_as_a_rule_asks_back(here: Town) -> None:
    await here.becomes("e1", 2.1 * HOUR, capacity=300)
    assert here.states() == ["confirmed"]


@in_town(world(happening("e1")), FALL.replace("'2h'", "'10m'"), interval=SLOW, observations_kept=timedelta(minutes=10))
async def test_a_rule_that_asks_further_back_than_was_kept_is_unknown_until_it_is(here: Town) -> None:
    await here.run(3 * HOUR)
    await here.becomes("e1", 60, capacity=350)
    here.use(FALL)
    await here.becomes("e1", 60, capacity=200)
    assert here.writes() == []


E1 = EventId("e1")


def seen(fact: Fact) -> Any:  # noqa: ANN401 - whatever JSON the service gave
    return fact.value if isinstance(fact, Known) else fact.code


@in_town(world(happening("e1"), happening("e2")), PAUSE, watched=7)
async def test_facts_of_the_partner_silences_and_events_out_of_sight_are_kept_too(here: Town) -> None:
    here.become(currency="SEK")
    await here.run(70)
    here.change("e1", remove=True)
    await here.restart(500)
    await here.run(15)

    found: dict[str, list[Any]] = {}
    for one in here.ledger.history(PARTNER).changes:
        if one.event == OF_PARTNER:
            found.setdefault(one.key.name, []).append(seen(one.fact))
    assert [one["currency"] for one in found["partner"]] == ["EUR", "SEK"]
    assert len(found["#silence"]) == 1
    assert [list(one["gone"]) for one in found["#memory"]] == [[], ["e1"]]


HOUSE = "rules: [{id: r, when: house.currency == 'SEK', do: [{notify: moved}]}]"


@in_town(world(happening("e1")), HOUSE, facts={"house": "/partners/"}, watched=7)
async def test_a_change_of_what_a_rule_names_is_told_also_where_it_is_the_whole_partners(here: Town) -> None:
    here.become(currency="SEK")
    await here.run(7)
    assert [one["facts"] for one in here.log("observed")] == [{"house.currency": "SEK", "before": "EUR"}]


@in_town(world(happening("e1")), settings=replace(QUICK, observations_kept=timedelta(minutes=10)))
async def test_old_changes_are_dropped_after_their_time(here: Town) -> None:
    async def becomes(category: str) -> None:
        await here.becomes("e1", 3, category=category)
        await here.clock.sleep(297)

    await here.run(5)
    for category in ("a", "b", "c"):
        await becomes(category)
    history = here.ledger.history(PARTNER)
    assert [seen(one.fact)["category"] for one in history.start if one.event == E1] == ["concert"]
    assert [seen(one.fact)["category"] for one in history.changes if one.event == E1] == ["a", "b", "c"]
    await becomes("d")
    history = here.ledger.history(PARTNER)
    assert [seen(one.fact)["category"] for one in history.start if one.event == E1] == ["a"]


@in_town(world(draft("e1")), BOOST.replace("do:", "mode: shadow\n    do:"), watched=9)
async def test_a_watched_list_is_recorded_when_it_changes_also_over_reads_that_failed(here: Town) -> None:
    here.fault("answer_before", "GET", "/suggested_tcs$", times=2, status=500)
    here.suggest("e1", 3, 1)
    await here.run(15)
    here.suggest("e1", 1, 3)
    await here.run(9)

    (record,) = [one for one in here.log("observed") if "suggested_tcs" in one["facts"]]
    assert record["event"] == "e1"
    assert record["why"] == "suggested_tcs changed: gained [{'tc': 'cluster 3', 'tc_run_id': 3}], lost nothing"
    assert [one["tc"] for one in record["facts"]["before"]] == ["cluster 1"]


DAY = {"date": "2026-01-02", "tickets": 40, "revenue": 1400.0}


@in_town(
    world(replace(happening("e1"), sales=(DAY,))),
    "rules: [{id: a, when: \"event.id == 'e1' && statistics.tickets > 99.0\", do: [pause]}]\n",
    watched=15,
)
async def test_a_field_of_any_fact_that_a_condition_names_is_recorded_when_it_changes(here: Town) -> None:
    more = ({**DAY, "tickets": 41},)
    here.change("e1", sales=more)
    await here.run(15)

    (record,) = here.log("observed")
    assert record["why"] == "statistics.tickets changed from 40.0 to 41.0, not by the worker"


FALLEN = "rules: [{id: fallen, when: \"delta(tenant_statistics.active, '10m') <= -1.0\", do: [pause]}]"
OF_ANOTHER = "rules: [{id: other, when: event.city == 'Ulm', do: [pause]}]"


@pytest.mark.parametrize("restarted", [False, True])
@in_town(world(happening("e1"), happening("e2")), FALLEN, interval=SLOW, watched=60)
async def test_of_a_time_in_which_no_rule_named_it_nothing_is_known_of_a_fact(here: Town, restarted: bool) -> None:
    here.use(OF_ANOTHER)
    if restarted:
        await here.restart()
    here.set("e2", status="archived")
    await here.run(15 * MINUTE)
    here.use(FALLEN)
    await here.run(5 * MINUTE)
    assert here.writes() == [], "ten minutes ago nobody read it"
