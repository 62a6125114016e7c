"""A rehearsal in a town: as the command does it, on a copy of the twin, so that the worker's own reads are not judged
together with it. Time goes on meanwhile, and can be put back."""

from copy import deepcopy

from tests.worlds import PARTNER, Town
from worker.engine.looks import sendings_reach
from worker.engine.ports import Parts, Service
from worker.engine.rehearsal import Rehearsal, Rehearsed
from worker.engine.remembered import Remembered
from worker.ledger.reading import open_reading
from worker.ledger.sql import draft_of
from worker.model.facts import PartnerId


async def rehearsed(here: Town, *, partner: PartnerId = PARTNER, beside: bool = False) -> Rehearsed:
    """What each rule would do now. ``beside``: by what the running worker has observed."""
    reach = sendings_reach(here.rules.current.rules)
    here.twin.advance(here.loop.time())  # what is due lands here, and not in the copy's stead
    twin = deepcopy(here.twin)
    client, gate, pacer = here.client(twin)
    with (
        draft_of(here.ledger_url, now=here.clock.now(), reach=reach) as draft,
        open_reading(here.ledger_url) as reader,
    ):
        service: Service = Remembered(reader, client, here.clock, here.settings.shared) if beside else client
        parts = Parts(clock=here.clock, service=service, ledger=draft, settings=here.settings, rules=here.rules)
        try:
            found = await Rehearsal(parts, partner, beside=beside).run()
        finally:
            await gate.aclose()
            await pacer.aclose()
            await client.aclose()
    asked = list(twin.books.requests)[len(here.twin.books.requests) :]
    sent = [f"{one.method} {one.path}" for one in asked if one.method != "GET" and one.path != "/auth"]
    assert sent == [], "a rehearsal sends nothing"
    return found
