"""A ledger grows for years, and what a look asks of it must not: nothing may walk all that has ended."""

from datetime import timedelta

from tests.unit.ledger.examples import intent, key, plan, raw_of
from tests.worlds import PARTNER, PAUSE, Town, happening, in_town, world
from worker.model.commits import Commit

ENDED = 3_000
"""Writes that ended in the past."""
STEPS = 50
"""SQLite counts the work of a statement in steps of its machine; one that walks these writes takes thousands more."""


def end(here: Town, number: int) -> None:
    """So many writes have ended long ago."""
    keys = (key(event=f"old {number} {n}", partner=PARTNER) for n in range(number))
    past = here.clock.now() - timedelta(days=90)
    here.ledger.apply(Commit(at=past, plans=tuple(plan(one, intent(), "shadowed") for one in keys)))


@in_town(world(happening("e1")), PAUSE)
async def test_what_a_look_asks_does_not_grow_with_what_has_ended(here: Town) -> None:
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    async def work() -> int:
        nonlocal counted
        await here.run(3)  # what is new in the log is looked through once
        counted = 0
        await here.run(30)
        here.ledger.standing(PARTNER, here.ledger.last_seq() - 5)
        return counted

    here.halt()
    here.set("e1", status="cancelled")
    await here.until(lambda: here.states() == ["planned"], "held")
    with here.ledger._store.reading() as connection:
        raw_of(connection).set_progress_handler(count, STEPS)
    end(here, 1)
    young = await work()
    end(here, ENDED)

    old = await work()

    assert young > 10, "work is counted at all"
    assert old <= young + ENDED / STEPS / 4, "no statement walks what has ended"
