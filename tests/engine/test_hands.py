"""More than one hand on a target: two rules, a person, the service's own optimisation; judged by the twin's books."""

from pathlib import Path

import pytest

from tests.worlds import Town, draft, happening, in_town, plays, world
from worker.engine.operators import rejected
from worker.sandbox.changes import By, EventChange
from worker.sandbox.faults import Kind

STATUS = "client_campaign_status"


def rules(*given: str) -> str:
    return "rules:\n" + "".join(f"  - {one}\n" for one in given)


STOP = "{id: stop, when: event.status == 'cancelled', do: [pause]%s}"
GO = "{id: go, when: event.frontend_status == 'FLAGGED', do: [run]%s}"


@pytest.mark.parametrize(
    ("stop", "go", "together", "value"),
    [
        ("", "", True, "PAUSED"),
        ("", "", False, "PAUSED"),
        ("", ", priority: 1", True, "RUNNING"),
        ("", ", priority: 1", False, "RUNNING"),
    ],
    ids=["a tie in one look", "a tie in later looks", "priority in one look", "priority in later looks"],
)
def test_of_two_opposite_wishes_one_is_done_once_and_the_other_is_held_and_says_so(
    tmp_path: Path, stop: str, go: str, together: bool, value: str
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.set("e1", frontend_status="FLAGGED")
        if not together:
            await here.run(12)
        here.set("e1", status="cancelled")
        await here.run(60)
        found = here.twin.world.at("partner-id-one", "e1")
        assert found is not None
        assert found.record[STATUS] == value
        assert here.twin.books.repeated == ()
        sent = [one.after for one in here.effects()]
        assert sent == (["RUNNING", "PAUSED"] if value == "PAUSED" and not together else [value]), "and no to and fro"
        loser = "go" if value == "PAUSED" else "stop"
        if together or value == "RUNNING":
            assert [one["reason"] for one in here.log("held") if one["rule"] == loser][-1] == "conflict"
        if value == "RUNNING":
            here.set("e1", frontend_status="DEFAULT")
            await here.until(lambda: here.effects()[-1].after == "PAUSED", "the loser acts once the other has ended")

    place = world(happening("e1", client_campaign_status="IDLE"))
    plays(script, tmp_path, place, rules(STOP % stop, GO % go))


def test_equal_wishes_are_one_write_of_the_highest_priority_and_both_firings_name_it(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.set("e1", status="cancelled", frontend_status="CANCELLED")
        await here.until(lambda: here.states() == ["confirmed"], "one write for both")
        assert (here.only.key.rule, here.only.rules) == ("b", ("b", "a"))
        assert {one["rule"] for one in here.log("fired")} == {"a", "b"}
        assert len(here.effects()) == 1

    two = rules(
        "{id: a, when: event.status == 'cancelled', do: [pause]}",
        "{id: b, when: event.frontend_status == 'CANCELLED', do: [pause], priority: 2}",
    )
    plays(script, tmp_path, world(happening("e1")), two)


@pytest.mark.parametrize(
    ("do", "path", "kind", "params"),
    [
        ("boost", "/boost$", "answer_before", {}),
        ("boost", "/boost$", "answer_after", {}),
        ("run", f"/{STATUS}$", "late_effect", {"after_s": 10.0}),
    ],
)
def test_a_pause_is_never_held_up_by_an_unknown_boost_or_run(
    tmp_path: Path, do: str, path: str, kind: Kind, params: dict[str, float]
) -> None:
    async def script(here: Town) -> None:
        here.fault(kind, None, path, status=503, **params)
        here.fault("answer_before", "GET", "/setup_processes/", status=500, times=None, skip=1)
        await here.until(lambda: here.states() == ["unknown"], "nobody knows")
        here.set("e1", status="cancelled")
        await here.until(lambda: "PAUSED" in [one.after for one in here.effects()], "paused", limit=24)
        assert here.writes()[0].state == ("unknown" if do == "boost" else "confirmed")
        here.twin.faults.clear()
        await here.run(60)
        found = here.twin.world.at("partner-id-one", "e1")
        assert found is not None
        assert found.record[STATUS] == "PAUSED", "and so it stays"

    first = f"{{id: first, when: event.category == 'new' && event.status == 'active', do: [{do}]}}"
    place = world(draft("e1", category="new", client_campaign_status="PAUSED" if do == "run" else "RUNNING"))
    plays(script, tmp_path, place, rules(first, STOP % ""))


@pytest.mark.parametrize(
    ("do", "field", "value", "by"),
    [
        ("pause", STATUS, "PAUSED", "person"),
        ("{optimisation: 'OFF'}", "campaign_optimisation_status", "OFF", "world"),
    ],
    ids=["a person", "the service's own optimisation"],
)
def test_what_another_hand_did_between_decision_and_send_is_skipped_and_observed_as_not_ours(
    tmp_path: Path, do: str, field: str, value: str, by: By
) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.ledger.append_halt(because="wait", by="ann", at=here.clock.now())
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["planned"], "decided, and held")
        here.twin.change(EventChange(event="e1", by=by, set={field: value}), here.loop.time())
        here.ledger.resume_halts(because="on", by="ann", at=here.clock.now())
        await here.until(lambda: here.states() == ["skipped"], "so already")
        assert (here.only.reason, here.twin.books.writes_sent) == ("already_so", 0)
        (seen,) = [one for one in here.log("observed") if field in one["why"]]
        assert seen["why"].endswith("not by the worker")

    plays(script, tmp_path, world(happening("e1")), rules(f"{{id: r, when: event.status == 'cancelled', do: [{do}]}}"))


@pytest.mark.parametrize(("repeat", "effects"), [("once", 1), ("enforce", 2)])
def test_what_a_person_set_is_set_back_only_where_the_rule_enforces(tmp_path: Path, repeat: str, effects: int) -> None:
    async def script(here: Town) -> None:
        await here.run(6)
        here.set("e1", status="cancelled")
        await here.until(lambda: here.states() == ["confirmed"], "paused")
        here.set("e1", by="person", client_campaign_status="RUNNING")
        await here.run(120)
        assert len(here.effects()) == effects

    keeps = STOP % f", repeat: {repeat}, cooldown: 1m"
    plays(script, tmp_path, world(happening("e1")), rules(keeps))


@in_town(
    world(happening("e1")),
    rules(
        "{id: asks, when: event.status == 'cancelled', mode: approve, priority: 10, do: [pause]}",
        "{id: enforces, when: event.status == 'cancelled', repeat: enforce, cooldown: 1m, do: [pause]}",
    ),
)
async def test_a_no_to_a_shared_write_is_a_no_to_every_rule_that_stood_behind_it(here: Town) -> None:
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["waiting"], "one write for both")
    assert here.only.rules == ("asks", "enforces")
    here.decide(rejected)
    await here.run(200)
    assert (here.states(), here.effects()) == (["cancelled"], [])
    assert [(one["rule"], one["reason"]) for one in here.log("held")] == [("enforces", "drift")], "and says so"
    here.set("e1", by="person", client_campaign_status="PAUSED")
    await here.run(9)
    here.set("e1", by="person", client_campaign_status="RUNNING")
    await here.until(lambda: here.states() == ["cancelled", "confirmed"], "the wanted value was read once")
    assert here.writes()[1].key.rule == "enforces"
