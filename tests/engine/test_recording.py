"""What the looks leave behind: facts as they change, and nothing of a quiet look."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.worlds import BOOST, PARTNER, PAUSE, QUICK, Town, draft, happening, in_town, plays, world
from worker.model.commits import OF_PARTNER
from worker.model.facts import EventId, Fact, Known
from worker.sandbox.changes import EventChange, PartnerChange

E1 = EventId("e1")


def seen(fact: Fact) -> Any:  # noqa: ANN401 - whatever JSON the service gave
    return fact.value if isinstance(fact, Known) else fact.code


def event_changes(here: Town, event: str = "e1") -> list[Any]:
    return [seen(one.fact) for one in here.ledger.history(PARTNER).changes if one.event == event]


def stored_bytes(folder: Path) -> bytes:
    """Everything on disk: the file and what waits in the WAL."""
    return b"".join(path.read_bytes() for path in (folder / "worker.db", folder / "worker.db-wal"))


@in_town(world(happening("e1"), happening("e2")), PAUSE)
async def test_facts_of_the_partner_silences_and_events_out_of_sight_are_kept_too(here: Town) -> None:
    await here.run(7)
    here.twin.change(PartnerChange(partner=PARTNER, set={"currency": "SEK"}), here.loop.time())
    await here.run(70)
    await here.kill()
    here.loop.jump(500)
    here.twin.change(EventChange(event="e1", partner=PARTNER, remove=True), here.loop.time())
    here.start()
    await here.run(15)

    found: dict[str, list[Any]] = {}
    for one in here.ledger.history(PARTNER).changes:
        if one.event == OF_PARTNER:
            found.setdefault(one.key.name, []).append(seen(one.fact))
    assert [one["currency"] for one in found["partner"]] == ["EUR", "SEK"]
    assert len(found["#silence"]) == 1
    assert [list(one["gone"]) for one in found["#memory"]] == [[], ["e1"]]


HOUSE = "rules: [{id: r, when: house.currency == 'SEK', do: [{notify: moved}]}]"


@in_town(world(happening("e1")), HOUSE, facts={"house": "/partners/"})
async def test_a_change_of_what_a_rule_names_is_told_also_where_it_is_the_whole_partners(here: Town) -> None:
    await here.run(7)
    here.twin.change(PartnerChange(partner=PARTNER, set={"currency": "SEK"}), here.loop.time())
    await here.run(7)
    assert [one["facts"] for one in here.log("observed")] == [{"house.currency": "SEK", "before": "EUR"}]


@in_town(world(happening("e1")), settings=replace(QUICK, observations_kept=timedelta(minutes=10)))
async def test_old_changes_are_dropped_after_their_time(here: Town) -> None:
    async def becomes(category: str) -> None:
        here.set("e1", category=category)
        await here.run(3)
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


@in_town(world(draft("e1")), BOOST.replace("do:", "mode: shadow\n    do:"))
async def test_a_watched_list_is_recorded_when_it_changes_also_over_reads_that_failed(here: Town) -> None:
    await here.run(9)
    here.fault("answer_before", "GET", "/suggested_tcs$", times=2, status=500)
    here.suggest("e1", 3, 1)
    await here.run(15)
    here.suggest("e1", 1, 3)
    await here.run(9)

    (record,) = [one for one in here.log("observed") if "suggested_tcs" in one["facts"]]
    assert record["event"] == "e1"
    assert record["why"] == "suggested_tcs changed: gained [{'tc': 'cluster 3', 'tc_run_id': 3}], lost nothing"
    assert [one["tc"] for one in record["facts"]["before"]] == ["cluster 1"]


def test_a_field_of_any_fact_that_a_condition_names_is_recorded_when_it_changes(tmp_path: Path) -> None:
    rules = "rules: [{id: a, when: \"event.id == 'e1' && statistics.tickets > 99.0\", do: [pause]}]\n"
    day = {"date": "2026-01-02", "tickets": 40, "revenue": 1400.0}

    async def script(here: Town) -> None:
        await here.run(15)
        more = ({**day, "tickets": 41},)
        here.twin.change(EventChange(event="e1", partner=PARTNER, sales=more), here.loop.time())
        await here.run(15)

        (record,) = here.log("observed")
        assert record["why"] == "statistics.tickets changed from 40.0 to 41.0, not by the worker"

    plays(script, tmp_path, world(replace(happening("e1"), sales=(day,))), rules)
