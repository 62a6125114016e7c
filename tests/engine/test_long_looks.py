"""News with very much to judge: everything else goes on in between, and nothing is decided otherwise for it."""

from pathlib import Path
from typing import Any

import pytest

from tests.engine.test_daemon import Edited, Told, daemon_of
from tests.engine.test_screened import log_of
from tests.worlds import HOUR, PARTNER, PAUSE, Town, happening, in_town, world
from worker.engine import observe
from worker.model.commits import Commit
from worker.model.errors import LedgerUnwritable

EVENTS = [f"e{number}" for number in range(10, 50)]
FEW = 4
"""Rules and events judged in one go; the daemon's own number is much greater."""
HELD = """  - id: wait-a-while
    when: event.category == 'party'
    for: 30s
    do: [pause]
"""


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """News comes in pieces of four pairs of a rule and an event."""
    monkeypatch.setattr(observe, "PAIRS_AT_ONCE", FEW)


@pytest.mark.usefixtures("few_at_once")
@in_town(world(*map(happening, EVENTS)), PAUSE)
async def test_everything_else_has_its_turn_while_much_is_judged(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, commits, apply = list[int](), list[int](), here.ledger.apply

    def noted(commit: Commit) -> Any:  # noqa: ANN401 - as the ledger's
        commits.append(len(turns))
        here.loop.call_soon(turns.append, len(commits))
        return apply(commit)

    monkeypatch.setattr(here.ledger, "apply", noted)
    await here.run(1)
    assert len(commits) >= 10, "forty pairs, four at once"
    assert commits[:10] == list(range(10)), "what wanted to be done at a commit was done before the next"


@pytest.mark.usefixtures("few_at_once")
@in_town(world(*(happening(one, status="cancelled" if one == EVENTS[-1] else "active") for one in EVENTS)), PAUSE)
async def test_a_stop_in_the_middle_of_much_news_loses_nothing(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    told = Told()
    daemon = daemon_of(here, told, Edited(PAUSE))
    apply, asked = here.ledger.apply, list[float]()

    def judged() -> int:
        return sum(one.looked_at is not None for one in here.ledger.observed(PARTNER))

    def stopping_after_one(commit: Commit) -> Any:  # noqa: ANN401 - as the ledger's
        made = apply(commit)
        if judged() and not asked:
            asked.append(here.at)
            daemon.stop()
        return made

    monkeypatch.setattr(here.ledger, "apply", stopping_after_one)
    await daemon.run()
    assert here.at - asked[0] < 0.1
    assert 0 < judged() < len(EVENTS), "it was stopped in the middle"
    assert here.log("fired") == []
    monkeypatch.setattr(here.ledger, "apply", apply)
    await here.restart()
    await here.until(lambda: here.states() == ["confirmed"], "the one that is cancelled is paused", HOUR)
    assert judged() == len(EVENTS)


@pytest.mark.usefixtures("few_at_once")
@in_town(world(*(happening(one, status="cancelled") for one in EVENTS)), PAUSE)
async def test_a_surge_is_counted_over_all_pieces_of_the_news_before_anything_is_sent(here: Town) -> None:
    await here.run(60)
    assert set(here.states()) == {"waiting"}
    assert len(here.states()) == len(EVENTS)
    assert here.effects() == []


async def story(here: Town) -> None:
    """Events change, some fire, some are held; the worker restarts after a silence."""
    await here.run(30)
    here.set("e12", status="cancelled")
    await here.becomes("e20", 60, category="party")
    here.set("e12", status="active")
    here.set("e30", status="cancelled")
    await here.restart(2 * HOUR)
    await here.run(60)


def played(folder: Path) -> list[tuple[Any, ...]]:
    told = log_of(folder, world(*map(happening, EVENTS)), PAUSE + HELD, story)
    return [one for one in told if one[0] not in ("evidence", "started")]


def test_in_pieces_everything_is_decided_as_in_one_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = played(tmp_path / "at-once")
    monkeypatch.setattr(observe, "PAIRS_AT_ONCE", FEW)
    assert played(tmp_path / "in-pieces") == at_once
    assert ("waiting", "gap", "e30", "pause-cancelled", 1) in at_once


@pytest.mark.usefixtures("few_at_once")
@in_town(
    world(*(happening(one, status={"e48": "cancelled", "e49": "archived"}.get(one, "active")) for one in EVENTS)), PAUSE
)
async def test_rules_that_change_within_much_news_are_those_of_the_next(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply, edited = here.ledger.apply, await Edited(PAUSE.replace("cancelled", "archived")).load()

    def edited_after_one(commit: Commit) -> Any:  # noqa: ANN401 - as the ledger's
        here.rules.current = edited
        return apply(commit)

    with monkeypatch.context() as patch:
        patch.setattr(here.ledger, "apply", edited_after_one)
        await here.worker.cycle.run(here.worker.states[PARTNER])
    assert here.log("fired") == []
    await here.run(20)
    assert {one["event"] for one in here.log("fired")} == {"e49"}


@pytest.mark.parametrize("asked", ["standing", "confirmed"], ids=["to decide", "to know what is to be read"])
@in_town(
    world(happening("e1")),
    PAUSE + "  - {id: tell, after: pause-cancelled, when: setup.state == 'NONE', do: [{notify: paused}]}\n",
)
async def test_a_ledger_that_cannot_be_read_is_in_the_report(
    here: Town, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    def fail(_partner: object, _after: object) -> None:
        raise LedgerUnwritable("the disk is failing")

    await here.run(4)
    with monkeypatch.context() as patch:
        patch.setattr(here.ledger, asked, fail)
        await here.becomes("e1", 3, city="Erfurt")
    assert here.reports[-1].error == "the disk is failing"
    await here.run(4)
    assert here.reports[-1].error is None


@in_town(world(*map(happening, EVENTS)), PAUSE)
async def test_of_events_for_which_nothing_holds_no_memory_is_stored_and_none_is_missed(here: Town) -> None:
    await here.run(30)
    assert list(here.ledger.all_rule_memories(PARTNER)) == []
    noted = {one.event: one.looked_at for one in here.ledger.observed(PARTNER) if one.looked_at is not None}
    assert set(noted) == set(EVENTS)
    await here.restart()
    await here.run(30)
    again = {one.event: one.looked_at for one in here.ledger.observed(PARTNER) if one.looked_at is not None}
    assert again == noted, "noted once"
    here.set("e12", status="cancelled")
    await here.until(lambda: here.states() == ["confirmed"], "it is paused, as an event that was looked at", HOUR)
    assert [one.event for one in here.ledger.all_rule_memories(PARTNER)] == ["e12"]
