"""A process that is stopped between recording and sending, and woken later (SIGSTOP, a suspended machine)."""

from collections.abc import Callable

import pytest

from tests.worlds import BOOST_DRAFTS, Town, draft, in_town, world
from worker.model.commits import Record


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
async def test_a_process_that_slept_for_longer_than_the_timeout_does_not_send(
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
