"""Partners that come and go: nothing of theirs is lost, and nothing more is sent for those that left."""

import asyncio
import gc
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast
from weakref import ref

from tests.unit.reading.virtual import VirtualClock
from worker.engine.partners import Identities, Partners
from worker.engine.ports import Parts
from worker.engine.state import PARTNER, PartnerState, Stored
from worker.model.commits import OF_PARTNER, Observed, PartnerMemory
from worker.model.facts import EventId, PartnerId, WriteId
from worker.model.facts import Known as Value

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
        state.in_flight = {WriteId(1): 0.0}

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


def test_what_was_known_of_a_partner_that_another_replica_has_is_not_kept() -> None:
    """It was kept for as long as the process ran: after a day of comings and goings, that of all partners."""

    class Memories(dict[Any, Any]):
        """Of a kind that can be asked whether it is still there."""

    partners = Partners(lambda one: replace(loaded(one), memories=Memories()), lambda: NOW, away=False)
    renewed(partners, [HALL])
    (known,) = (ref(state.memories) for state in partners)
    renewed(partners, [])
    gc.collect()
    assert known() is None


class Known(VirtualClock):
    """A ledger in which it takes long to find out who a partner is, by the clock that it is; and the pauses between."""

    def __init__(self) -> None:
        super().__init__()
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(self.seconds)
        self.seconds += seconds

    def identified(self) -> frozenset[PartnerId]:
        return frozenset()

    def partner_memory(self, _: PartnerId) -> None:
        return None

    def partners(self) -> tuple[PartnerId, ...]:
        return ()

    def observed(self, partner: PartnerId, _: EventId) -> list[Observed]:
        record = Value(value={"id": f"42{partner}"}, read_at=NOW)
        return [Observed(event=OF_PARTNER, key=PARTNER, fact=record, at=NOW)]

    def identify(self, partner: PartnerId, *_: object) -> PartnerId:
        self.seconds += 0.4
        return partner


def test_a_beat_comes_through_while_it_is_found_out_who_many_partners_are() -> None:
    """Six hundred took 3.6 s beside the server: at some distance from it a replica was given up for its silence."""
    ledger, many = Known(), [PartnerId(f"p{number}") for number in range(8)]
    parts = Parts(clock=ledger, service=cast("Any", None), ledger=cast("Any", ledger), settings=cast("Any", None))
    who = Identities(parts)
    asyncio.run(who.ask(many, many, []))
    assert who.known == set(many)
    assert [round(at, 1) for at in ledger.pauses] == [1.2, 2.5]


async def _until(event: asyncio.Event) -> None:
    await event.wait()
