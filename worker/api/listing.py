"""The list of events from its pages: which events it shows, and whether an event's absence from it means anything.

The name of the parameter that selects a page is not shown (API section 4.6), and a service ignores what it does not
know: it would answer the first page for ever, and every event beyond it would seem to have vanished. So a list is
complete only if its pages say so themselves: their numbers, their total, and no event twice. A well-formed item is a
fact for its event whatever the rest of the list is like; only absence needs a whole list.

The pages may change while they are read. That makes a list incomplete, never wrong. One page that the service cannot
give does not hide the events of the others; where it asks for patience or refuses us, the rest is not asked for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Protocol

from worker.api.decoding import Rows
from worker.api.exchanges import Decode, Pages, Reply
from worker.api.wire import Malformed, Page
from worker.model.exchange import Clock, Listing, PartOfList, TellPart, told_nobody
from worker.model.facts import EventId, Known, PartnerId, UnknownCode

PAGES_MAX = 500
"""Pages read of one list; at 100 events a page, more than any organiser has."""
PAGES_AT_ONCE = 4
FAULTS_SHOWN = 3
PAGING = "see the assumption events.page_parameter"

AskPage = Callable[[int], Awaitable[Reply]]


async def listing_of(
    ask: AskPage, now: Callable[[], datetime], pages_before: Pages | None = None, told: TellPart = told_nobody
) -> Listing:
    """Reads page after page. The second is read alone, unless the last list was whole: if it is the first again, no
    other is worth a request.

    ``pages_before``: the pages of the same list as they were last; the events of one that is the same are the same
    objects again. ``told``: hears what some pages showed while others are still to be asked.
    """
    began_at = now()
    found = Assembly(before=pages_before or Pages())
    known = found.before.whole
    number, pages = 1, max(1, known)
    while number <= pages and found.worth_going_on:
        alone = number <= 2 and not known
        batch = range(number, number + 1 if alone else min(number + PAGES_AT_ONCE, pages + 1))
        shown: dict[EventId, Known] = {}
        for page, reply in zip(batch, await asyncio.gather(*(ask(page) for page in batch)), strict=True):
            shown |= found.add(page, reply)
        number, pages = batch.stop, found.pages_expected()
        if number <= pages and found.worth_going_on:
            await told(PartOfList(events=shown, pages=len(batch), of_pages=pages))
    listing = found.listing(began_at, now())
    found.before.whole = pages if listing.complete else 0
    return listing


@dataclass(slots=True)
class Assembly:
    """The list as far as its pages are known. Pages come in order."""

    before: Pages
    events: dict[EventId, Known] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    code: UnknownCode | None = None
    first: Page | None = None
    worth_going_on: bool = True

    def add(self, number: int, reply: Reply) -> Mapping[EventId, Known]:
        """Takes one page's answer, whatever it is. The events that it shows."""
        page = self._page(number, reply)
        if page is None:
            return {}
        before = len(self.events)
        shown = {
            EventId(eid): Known(value=record.value, gaps=record.gaps, read_at=reply.read_at, trace=reply.trace)
            for eid, record in page.records.items()
        }
        self.events |= shown
        again = before + len(shown) - len(self.events)
        self.faults.extend(f"page {number}: {fault}" for fault in page.faults)
        if self.first is None:
            self.first = page
        if self._is_first_again(number, page):
            self.faults.append(f"page {number} answered as page {page.page or 1}; {PAGING}")
            self.worth_going_on = False
            return shown
        repeated = len(page.ids) - len(page.records) + again
        if repeated:
            self.faults.append(f"page {number}: {repeated} events stand in the list twice")
        if page.page != number:
            self.faults.append(f"page {number} calls itself {page.page}; {PAGING}")
        if (page.total, page.limit) != (self.first.total, self.first.limit):
            self.faults.append(f"page {number}: the list changed while it was read")
        return shown

    def pages_expected(self) -> int:
        """How many pages there are by the first one's own word; the limit may be less than was asked for."""
        if self.first is None or self.first.total is None or self.first.limit is None:
            return 1
        pages = -(-self.first.total // self.first.limit)
        if pages > PAGES_MAX:
            self.faults.append(f"the list has {pages} pages; {PAGES_MAX} are read")
        return min(pages, PAGES_MAX)

    def listing(self, began_at: datetime, ended_at: datetime) -> Listing:
        """The list, complete only if nothing whatever speaks against it."""
        total = self.first.total if self.first is not None else None
        if not self.faults and total is not None and len(self.events) != total:
            self.faults.append(f"{len(self.events)} events where the total is {total}")
        shown = "; ".join(self.faults[:FAULTS_SHOWN])
        more = f"; and {len(self.faults) - FAULTS_SHOWN} more" if len(self.faults) > FAULTS_SHOWN else ""
        return Listing(
            events=self.events,
            complete=not self.faults,
            why=shown + more,
            code=self.code,
            began_at=began_at,
            ended_at=ended_at,
            pages=self.pages_expected(),
        )

    def _page(self, number: int, reply: Reply) -> Page | None:
        try:
            if not reply.ok:
                self._failed(number, reply.why or f"status {reply.status}", "denied" if reply.denied else "unreadable")
                self.worth_going_on = reply.verdict == "failed" and reply.status is not None
                return None
            if isinstance(reply.content, Malformed):
                raise reply.content
            return self.before.page(number, reply.content)
        except Malformed as error:
            self._failed(number, str(error), "malformed")
            return None

    def _failed(self, number: int, why: str, code: UnknownCode) -> None:
        self.faults.append(f"page {number}: {why}")
        self.code = self.code or code

    def _is_first_again(self, number: int, page: Page) -> bool:
        if number == 1 or self.first is None or not self.first.ids:
            return False
        return page.ids == self.first.ids or (page.page is not None and page.page == self.first.page)


Query = tuple[tuple[str, str], ...]
Needed = frozenset[str] | None
"""The fields of an event that somebody looks at; None for all."""


class AskList(Protocol):
    """One request for the list of a partner's events. ``decode``: how its answer is read; None for as a whole."""

    def __call__(self, partner: PartnerId, query: Query, decode: Decode | None, /) -> Awaitable[Reply]: ...


@dataclass(slots=True)
class Lists:
    """Reads lists. One instance serves all partners. ``page_parameter``: see `worker.api.listing`."""

    ask: AskList
    clock: Clock
    page_size: int
    page_parameter: str
    _pages: dict[PartnerId, Pages] = field(default_factory=dict)

    async def listing(self, partner: PartnerId, told: TellPart = told_nobody, needed: Needed = None) -> Listing:
        """The list of events. ``told``: hears what some pages showed while others are to be asked. ``needed``: the
        fields of an event that somebody looks at; others may be left out."""
        pages = self._pages.setdefault(partner, Pages())
        return await listing_of(self._asker(partner, pages.rows, needed), self.clock.now, pages, told)

    def _asker(self, partner: PartnerId, rows: Rows, needed: Needed) -> Callable[[int], Awaitable[Reply]]:
        """Asks for one page. The first needs no parameter whose name would have to be assumed."""
        limit = ("limit", str(self.page_size))

        def ask(number: int) -> Awaitable[Reply]:
            page = () if number == 1 else ((self.page_parameter, str(number)),)
            decode = None if needed is None else partial(rows.read, number, needed)
            return self.ask(partner, (limit, *page), decode)

        return ask
