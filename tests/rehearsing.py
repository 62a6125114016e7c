"""A rehearsal in a town: as the command does it, on a copy of the twin, so that the worker's own reads are not judged
together with it. Time goes on meanwhile, and can be put back."""

from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta

from tests.worlds import PARTNER, Town
from worker.engine.ports import Parts
from worker.engine.rehearsal import Rehearsal, Rehearsed, Remembered
from worker.engine.views import sendings_reach
from worker.ledger.sql import draft_of
from worker.model.facts import EventId, PartnerId
from worker.sandbox.service import Twin


async def rehearsed(
    here: Town,
    *,
    partner: PartnerId = PARTNER,
    beside: bool = False,
    only: str | None = None,
    within: timedelta | None = None,
    after_12_s: Callable[[Twin], None] = lambda _twin: None,
) -> Rehearsed:
    """What each rule would do now. ``beside``: by what the running worker has observed."""
    here.twin.advance(here.loop.time())  # what is due lands here, and not in the copy's stead
    twin = deepcopy(here.twin)
    client, gate, pacer = here.client(twin)
    with draft_of(here.ledger_url, now=here.clock.now(), reach=sendings_reach(here.rules.current.rules)) as draft:
        event = EventId(only) if only is not None else None
        service = Remembered(event, client, here.clock, None if beside else client, within)
        parts = Parts(clock=here.clock, service=service, ledger=draft, settings=here.settings, rules=here.rules)
        here.loop.call_later(12, after_12_s, twin)
        try:
            found = await Rehearsal(parts, partner, service, seen_at=None, beside=beside).run()
        finally:
            await gate.aclose()
            await pacer.aclose()
            await client.aclose()
    asked = list(twin.books.requests)[len(here.twin.books.requests) :]
    sent = [f"{one.method} {one.path}" for one in asked if one.method != "GET" and one.path != "/auth"]
    assert sent == [], "a rehearsal sends nothing"
    return found
