"""Partners that come and go: nothing of theirs is lost, and nothing more is sent for those that left."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from worker.engine.partners import Partners, told_apart
from worker.engine.state import PartnerState, Stored
from worker.model.commits import PartnerMemory
from worker.model.facts import PartnerId, WriteId

HALL, CLUB = PartnerId("partner-id-hall"), PartnerId("partner-id-club")
NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def renewed(partners: Partners, named: list[PartnerId]) -> tuple[list[PartnerId], list[PartnerId]]:
    """Who was found, and who was lost."""
    lost = partners.leave(named)
    return list(partners.take_up(named)), lost


def loaded(partner: PartnerId) -> PartnerState:
    stored = Stored(partner=partner)
    return PartnerState(partner=partner, memory=PartnerMemory(partner=partner), memories={}, stored=stored)


def test_what_one_that_left_has_on_the_wire_is_awaited_and_the_rest_is_dropped() -> None:
    async def story() -> None:
        partners = Partners(loaded, lambda: NOW)
        renewed(partners, [HALL])
        state = partners.get(HALL)
        assert state is not None
        forever = asyncio.Event()
        sending = asyncio.ensure_future(_until(forever))
        preparing = asyncio.ensure_future(_until(forever))
        state.running = {WriteId(1): sending, WriteId(2): preparing}
        state.in_flight = {WriteId(1)}

        renewed(partners, [])
        await asyncio.sleep(0)

        assert state.left, "an attempt that was about to be recorded is not"
        assert preparing.cancelled()
        assert partners.tasks()[0] == [sending], "the stop waits for it"
        assert renewed(partners, [HALL]) == ([], []), "its outcome comes first"
        forever.set()
        await sending
        state.in_flight.clear()
        assert renewed(partners, [HALL]) == ([HALL], [])

    asyncio.run(story())


async def _until(event: asyncio.Event) -> None:
    await event.wait()


BOAT = PartnerId("partner-id-boat")
SHUT: Mapping[PartnerId, str] = {HALL: "cannot be read: 403", CLUB: "has no id", BOAT: "has no id"}
NOBODY: list[PartnerId] = []
Ids = list[PartnerId]
Words = Mapping[PartnerId, str]
Case = tuple[Ids, Ids, Words, Words, Ids, Ids, str]
"""Named, watched, the ids of records, those that cannot be read; then who is to be watched, and who is held."""
APART: list[Case] = [
    ([HALL], NOBODY, {}, {}, [HALL], NOBODY, "one alone is asked nothing"),
    ([CLUB, HALL], NOBODY, {CLUB: "1", HALL: "2"}, {}, [CLUB, HALL], NOBODY, "two are two"),
    ([CLUB, HALL], NOBODY, {CLUB: "1", HALL: "1"}, {}, [CLUB], [HALL], "one under two groups"),
    ([CLUB, HALL, BOAT], [CLUB], {CLUB: "1", HALL: "2", BOAT: "1"}, {}, [CLUB, HALL], [BOAT], "beside a third"),
    ([CLUB, HALL], NOBODY, {CLUB: "1"}, {}, [CLUB], [HALL], "who comes later was not asked"),
    ([CLUB, HALL], NOBODY, {HALL: "1"}, {CLUB: SHUT[CLUB]}, [HALL], [CLUB], "one that says nothing keeps no other"),
    ([CLUB, HALL], NOBODY, {}, SHUT, [CLUB], [HALL], "of none it is known: the first"),
    ([CLUB, HALL], [CLUB], {}, {}, [CLUB], [HALL], "a second turns up, and nobody was asked"),
    ([CLUB, HALL], [CLUB], {HALL: "1"}, SHUT, [CLUB], [HALL], "beside one of whom it is not known, nobody new"),
    ([CLUB, HALL], [CLUB, HALL], {CLUB: "1", HALL: "2"}, {}, [CLUB, HALL], NOBODY, "those that are watched stay it"),
    (NOBODY, NOBODY, {}, {}, NOBODY, NOBODY, "nobody is named"),
]


@pytest.mark.parametrize("case", APART, ids=[one[-1] for one in APART])
def test_nobody_is_watched_twice(case: Case) -> None:
    order, watched, records, unreadable, chosen, held, reason = case
    found, not_watched = told_apart(order, watched, records, unreadable)
    assert (found, list(not_watched)) == (chosen, held), reason
