"""What the looks leave behind: facts as they change, evaluations by their ending, and no decision the later for it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.worlds import PARTNER, PAUSE, QUICK, Town, draft, happening, town, world
from worker.engine.recording import PAIRS_AT_ONCE
from worker.ledger.sql import SqlLedger
from worker.model.commits import OF_PARTNER, Commit, Evaluation
from worker.model.errors import LedgerUnwritable
from worker.model.facts import EventId, Fact, Known, PartnerId
from worker.model.writes import Write
from worker.rules.load import read_rules
from worker.sandbox.changes import EventChange, PartnerChange

E1 = EventId("e1")
HELD = """
rules:
  - id: hide-archived
    when: event.status == 'archived'
    for: 10s
    do: [{frontend_status: HIDDEN}]
"""
TWO = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: boost-drafts
    when: event.category == 'party' && setup.state == 'DRAFT'
    do: [boost]
"""
ON_CHANGE = """
rules:
  - id: on-tcs
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT' && size(added) > 0
    cooldown: 10m
    do: [boost]
"""


def evaluations(here: Town, event: str = "e1", rule: str | None = None) -> list[Evaluation]:
    found = here.ledger.evaluations([EventId(event)], PARTNER)
    return sorted((one for one in found if rule in (None, one.rule)), key=lambda one: one.at)


def endings(here: Town, rule: str | None = None) -> list[str]:
    return [one.ending for one in evaluations(here, rule=rule)]


def seen(fact: Fact) -> Any:  # noqa: ANN401 - whatever JSON the service gave
    return fact.value if isinstance(fact, Known) else fact.code


def event_changes(here: Town, event: str = "e1") -> list[Any]:
    return [seen(one.fact) for one in here.ledger.history(PARTNER).changes if one.event == event]


def count_evaluations(here: Town) -> int:
    with here.ledger._store.reading() as connection:
        return int(connection.raw.execute("SELECT count(*) FROM evaluations").fetchone()[0])


def stored_bytes(folder: Path) -> bytes:
    """Everything on disk: the file and what waits in the WAL."""
    return b"".join(path.read_bytes() for path in (folder / "worker.db", folder / "worker.db-wal"))


def test_an_evaluation_of_each_ending_stays_with_the_values_that_decided(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(7)
        assert endings(here) == ["false"]
        here.set("e1", status="cancelled")
        await here.run(10)
        here.set("e1", title="Another title", status="cancelled", frontend_status="HIDDEN")
        await here.run(10)
        here.set("e1", status="active")
        await here.run(10)
        here.fault("missing_fields", "GET", "/events/$", fields=["items.status"], times=100)
        await here.run(10)

        fired, true, false, unknown = evaluations(here)
        assert [one.ending for one in (fired, true, false, unknown)] == ["fired", "true", "false", "unknown"]
        assert seen(fired.facts["event"].fact) == {"frontend_status": "DEFAULT", "status": "cancelled"}
        assert (fired.reason, fired.episode, fired.since) == ("condition", 1, fired.at)
        assert seen(true.facts["event"].fact) == {"frontend_status": "HIDDEN", "status": "cancelled"}
        assert seen(false.facts["event"].fact) == {"frontend_status": "HIDDEN", "status": "active"}
        unknown_event = unknown.facts["event"].fact
        assert isinstance(unknown_event, Known)
        assert "status" in unknown_event.gaps
        assert here.ledger.condition_text(fired.when_hash) == here.rules.current.rules[0].when.source  # type: ignore[union-attr]

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


def test_what_holds_a_firing_is_kept_with_since_when_and_until_when(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(7)
        here.set("e1", status="archived")
        await here.run(7)

        (held,) = (one for one in evaluations(here) if one.ending == "held")
        assert held.reason == "for"
        assert held.until == held.since + timedelta(seconds=10)
        await here.run(10)
        assert endings(here) == ["false", "held", "fired", "true"]

    with town(tmp_path, world(happening("e1")), HELD) as (_, play):
        play(script)


def test_a_change_that_was_watched_is_kept_with_what_it_gained(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(10)
        assert endings(here) == ["false"], "nothing was added, so size(added) is unknown beside a definite false"

    async def changing(here: Town) -> None:
        await here.run(10)
        here.suggest("e1", 1, 2)
        await here.run(15)
        (fired,) = (one for one in evaluations(here) if one.ending == "fired")
        assert fired.reason == "change"
        assert fired.extra["added"] == [{"tc": "cluster 2", "tc_run_id": 2}]
        assert fired.facts["suggested_tcs"].key.params == (("budget", 500.0), ("goal", "ROAS"))
        assert seen(fired.facts["setup"].fact) == {"state": "DRAFT"}

    (tmp_path / "a").mkdir()
    with town(tmp_path / "a", world(draft("e1", status="archived")), ON_CHANGE) as (_, play):
        play(script)
    with town(tmp_path, world(draft("e1")), ON_CHANGE) as (_, play):
        play(changing)


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(20, id="20 events"),
        pytest.param(10_000, id="10,000 events", marks=[pytest.mark.prove, pytest.mark.timeout(0)]),
    ],
)
def test_a_quiet_cycle_under_twenty_rules_writes_nothing(tmp_path: Path, count: int) -> None:
    ids = [EventId(f"e{number}") for number in range(count)]
    rules = "rules:\n" + "".join(
        f"  - id: r{number}\n    when: event.capacity > {number}000.0 && event.status == 'cancelled'\n    do: [pause]\n"
        for number in range(20)
    )
    settings = replace(QUICK, page_size=1000, requests_per_minute=6000)

    async def script(here: Town) -> None:
        looks = 20 * count // PAIRS_AT_ONCE + 1
        await here.run(3)
        assert count_evaluations(here) == min(20 * count, PAIRS_AT_ONCE), "bit by bit"
        await here.run(3 * looks)
        assert count_evaluations(here) == 20 * count
        await here.clock.sleep(30)
        await here.run(3)
        before = stored_bytes(tmp_path)
        await here.run(9)
        assert stored_bytes(tmp_path) == before

    with town(tmp_path, world(*(happening(one) for one in ids)), rules, settings=settings) as (_, play):
        play(script)


def test_a_restart_records_only_what_changed_meanwhile(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(10)
        changes, kept = event_changes(here), evaluations(here)
        await here.kill()
        here.start()
        await here.run(10)
        assert (event_changes(here), evaluations(here)) == (changes, kept)
        await here.kill()
        here.set("e1", status="archived")
        here.start()
        await here.run(10)
        assert [one["status"] for one in event_changes(here)] == ["active", "archived"]

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


def test_of_a_record_the_documented_fields_are_kept_and_those_that_a_rule_names(tmp_path: Path) -> None:
    naming = "rules:\n  - id: r\n    when: event['mood'] == 'sad'\n    do: [pause]\n"

    async def script(here: Town) -> None:
        await here.run(7)
        here.set("e1", mood="glad", noise=1)
        await here.run(7)
        assert len(event_changes(here)) == 1, "no rule names them, and the document does not"
        here.rules.current = read_rules({"rules.yaml": naming}).rules
        await here.run(7)
        assert [one.get("mood") for one in event_changes(here)] == [None, "glad"]
        here.set("e1", noise=2)
        await here.run(7)
        here.set("e1", mood="sad")
        await here.run(7)
        assert [one.get("mood") for one in event_changes(here)] == [None, "glad", "sad"]
        assert all("noise" not in one for one in event_changes(here))

    with town(tmp_path, world(happening("e1", client_campaign_status="PAUSED"))) as (_, play):
        play(script)


def test_an_edited_rule_is_evaluated_anew_under_its_new_text(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(7)
        old = evaluations(here)[-1].when_hash
        here.rules.current = read_rules({"rules.yaml": PAUSE.replace("'cancelled'", "'called off'")}).rules
        await here.run(7)
        (found,) = evaluations(here)
        assert found.when_hash != old
        assert "called off" in str(here.ledger.condition_text(found.when_hash))

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


def test_facts_of_the_partner_silences_and_events_out_of_sight_are_kept_too(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
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

    with town(tmp_path, world(happening("e1"), happening("e2")), PAUSE) as (_, play):
        play(script)


def test_old_changes_are_dropped_after_their_time(tmp_path: Path) -> None:
    settings = replace(QUICK, observations_kept=timedelta(minutes=10))

    async def script(here: Town) -> None:
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

    with town(tmp_path, world(happening("e1")), settings=settings) as (_, play):
        play(script)


class NoRoomForTrails(SqlLedger):
    """A disk that has room for decisions and for nothing more. ``full`` says whether it is so now."""

    full = True

    def apply(self, commit: Commit) -> tuple[Write, ...]:
        if commit.trail is not None and self.full:
            raise LedgerUnwritable("the disk is full")
        return super().apply(commit)


def test_where_there_is_no_room_for_the_trail_the_decision_is_stored_without_it(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        here.start(ledger=NoRoomForTrails)
        await here.run(10)
        here.set("e1", status="cancelled")
        await here.run(15)
        assert here.states() == ["confirmed"], here.story()
        assert [one.error for one in here.reports if one.error] == []
        assert evaluations(here) == []
        assert isinstance(here.ledger, NoRoomForTrails)
        here.ledger.full = False
        await here.run(80)
        assert endings(here) == ["true"], "the firing is in the log; what was not stored is not made up"

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)


class Unreadable(SqlLedger):
    """A ledger whose evaluations cannot be read."""

    def evaluations(self, events: Sequence[EventId], partner: PartnerId | None = None) -> tuple[Evaluation, ...]:
        raise LedgerUnwritable(f"the evaluations of {len(events)} events of {partner} cannot be read")


def test_where_the_trail_cannot_be_compared_the_decision_goes_on(tmp_path: Path) -> None:
    async def script(here: Town) -> None:
        await here.run(4)
        await here.kill()
        here.start(ledger=Unreadable)
        here.set("e1", status="cancelled")
        await here.run(15)
        assert here.states() == ["confirmed"], here.story()

    with town(tmp_path, world(happening("e1"))) as (_, play):
        play(script)
