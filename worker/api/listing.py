"""Lists, page by page: what they show, and whether something's absence from them means anything.

A well-formed item is a fact whatever the rest of its list is like; only absence needs a whole list. The pages may
change while they are read. That makes a list incomplete, never wrong.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType

from worker.api.answers import EventPage, Malformed, NoValue, integer_from, page_from, run_id_from
from worker.api.exchanges import ReadResponse
from worker.model.exchange import Listing
from worker.model.facts import EventId, Json, Known, PartnerId, UnknownCode

PAGES_MAX = 500
"""Pages read of one list; at 100 events a page, more than any organiser has."""
PAGES_AT_ONCE = 4
BYTES_MAX = 48 * 1024 * 1024
"""Bytes of all pages of one list: 20,000 events of 2 KB."""
FAULTS_SHOWN = 3
PAGING = "see the assumption events.page_parameter"

Query = tuple[tuple[str, str], ...]


@dataclass(slots=True, kw_only=True)
class EventLists:
    """Reads the lists of events. One instance serves all partners.

    The name of the parameter that selects a page is not shown (API section 4.6), and a service ignores what it does not
    know: it would answer the first page for ever, and every event beyond it would seem to have vanished. So a list is
    complete only if its pages say so themselves: their numbers, their total, and no event twice. One page that the
    service cannot give does not hide the events of the others; where it asks for patience or refuses us, the rest is
    not asked for.

    A page that is byte for byte what it was is not read again: most polls find nothing new.
    """

    ask: Callable[[PartnerId, Query], Awaitable[ReadResponse]]
    page_size: int
    page_parameter: str
    _pages: dict[PartnerId, dict[int, tuple[bytes, object, EventPage]]] = field(default_factory=dict)
    _whole: dict[PartnerId, int] = field(default_factory=dict)

    async def listing(self, partner: PartnerId, needed: frozenset[str] | None = None) -> AsyncIterator[Listing]:
        """The list of events while it is read, a few pages at a time, and at last as a whole. The second page is read
        alone, unless the last list was whole: if it is the first again, no other is worth a request.

        ``needed``: the fields of an event that somebody looks at, None for all; others may be left out.
        """
        found, known = Assembly(), self._whole.get(partner, 0)
        number, pages = 1, max(1, known)
        while number <= pages and found.worth_going_on:
            at_once = PAGES_AT_ONCE if known or number > 2 else 1
            batch = range(number, min(number + at_once, pages + 1))
            replies = await asyncio.gather(*(self.ask(partner, self._query(page)) for page in batch))
            for page, reply in zip(batch, replies, strict=True):
                if (read := self._page(partner, page, reply, needed, found)) is not None:
                    found.add(page, read, reply)
            number, pages = batch.stop, min(found.pages_expected(), PAGES_MAX)
            if number <= pages and found.worth_going_on:
                yield found.so_far(left=pages - number + 1)
        listing = found.whole()
        self._whole[partner] = pages if listing.complete else 0
        self._pages[partner] = {page: kept for page, kept in self._pages[partner].items() if page <= pages}
        yield listing

    def _query(self, number: int) -> Query:
        """The first page needs no parameter whose name would have to be assumed."""
        limit = ("limit", str(self.page_size))
        return (limit,) if number == 1 else (limit, (self.page_parameter, str(number)))

    def _page(
        self, partner: PartnerId, number: int, reply: ReadResponse, needed: frozenset[str] | None, found: "Assembly"
    ) -> EventPage | None:
        """What the answer says; None, and a fault of the list, where it is no page."""
        found.bytes += len(reply.body)
        if found.bytes > BYTES_MAX:
            found.failed(number, f"the list is longer than {BYTES_MAX:,} bytes; the rest is not read", "unreadable")
            found.worth_going_on = False
            return None
        known, digest = self._pages.setdefault(partner, {}), sha256(reply.body).digest()
        try:
            if reply.ok and (last := known.get(number)) is not None and last[:2] == (digest, needed):
                return last[2]
            page = page_from(reply.json(), needed)
        except NoValue as error:
            found.failed(number, str(error), "unreadable" if error.code == "gone" else error.code)
            found.worth_going_on = reply.ok or (reply.verdict == "failed" and reply.status is not None)
            return None
        known[number] = (digest, needed, page)
        return page


@dataclass(slots=True)
class Assembly:
    """A list of events as far as its pages are known. Pages come in order."""

    events: dict[EventId, Known] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    code: UnknownCode | None = None
    first: EventPage | None = None
    bytes: int = 0
    worth_going_on: bool = True

    def add(self, number: int, page: EventPage, reply: ReadResponse) -> None:
        """Takes one page."""
        shown = {
            EventId(eid): Known(value=record, read_at=reply.read_at, gaps=gaps, trace=reply.trace)
            for eid, (record, gaps) in page.records.items()
        }
        repeated = len(page.ids) - len(shown) + len(shown.keys() & self.events.keys())
        self.events |= shown
        self.faults.extend(f"page {number}: {fault}" for fault in page.faults)
        if self.first is None:
            self.first = page
        elif self.first.ids and (page.ids == self.first.ids or (page.page or 0) == self.first.page):
            self.faults.append(f"page {number} answered as page {page.page or 1}; {PAGING}")
            self.worth_going_on = False
            return
        if repeated:
            self.faults.append(f"page {number}: {repeated} events stand in the list twice")
        if page.page not in (number, None):
            self.faults.append(f"page {number} calls itself {page.page}; {PAGING}")
        if (page.total, page.limit) != (self.first.total, self.first.limit):
            self.faults.append(f"page {number}: the list changed while it was read")
        if page.more and number >= self.pages_expected():
            self.faults.append(f"page {number} names a next page, and there is none by the total")

    def failed(self, number: int, why: str, code: UnknownCode) -> None:
        """A page could not be had."""
        self.faults.append(f"page {number}: {why}")
        self.code = self.code or code

    def pages_expected(self) -> int:
        """How many pages there are by the first one's own word, the larger where it says two; the limit may be less
        than was asked for."""
        if self.first is None or self.first.total is None or self.first.limit is None:
            return 1
        return max(-(-self.first.total // self.first.limit), self.first.pages or 0)

    def so_far(self, left: int) -> Listing:
        """The list while pages are left to be read."""
        pages = min(self.pages_expected(), PAGES_MAX)
        return Listing(events=self.events, complete=False, pages=pages, left=left)

    def whole(self) -> Listing:
        """The list, complete only if nothing whatever speaks against it."""
        if (pages := self.pages_expected()) > PAGES_MAX:
            self.faults.append(f"the list has {pages} pages; {PAGES_MAX} are read")
        total = self.first.total if self.first is not None else None
        if not self.faults and total is not None and len(self.events) != total:
            self.faults.append(f"{len(self.events)} events where the total is {total}")
        shown = "; ".join(self.faults[:FAULTS_SHOWN])
        more = f"; and {len(self.faults) - FAULTS_SHOWN} more" if len(self.faults) > FAULTS_SHOWN else ""
        listing = self.so_far(left=0)
        return replace(listing, complete=not self.faults, why=shown + more, code=self.code)


# Whether a list is whole, by its own word, and the rest of it (docs/decisions/0011).
#
# Only a whole list says what is not in it. The document shows pages for the list of events (API section 2.4), and of
# the campaigns of an event nothing at all (section 4.5). So whatever an answer says of more than it holds is heard:
# the document's envelope, what other services write in its place, and their headers. The rest is asked for, page by
# page; where it cannot be had the list is no fact, and what was read of it only shows what is there.
#
# What says nothing is taken for whole, as a list without an envelope mostly is; but one as long as a page may be is
# marked (`Trace.full`), and proves no absence.

CAMPAIGN_PAGES_MAX = 50
"""Pages read of the campaigns of one event."""
CHANGED = "it changed while it was read"
"""What a list lacks that no further page makes whole."""
_TOTAL = re.compile(
    r"(grand)?total(of)?(count|items|results|elements|records|rows|hits|size|campaigns|events)?|hits|found|"
    r"(odata|items?|records?|results?|campaigns?|events?)?(count|total)"
)
_PAGES = re.compile(r"pages|totalpages|pages?total|(num)?pagecount|numpages|lastpage")
_NEXT = re.compile(r"(odata)?next\w*|has(next|more)\w*|more\w*|cursor|after|(is)?truncated|partial|continuation\w*")
_NEXT_HEADER = re.compile(r"(has)?next(page|cursor|token|link|url)?|hasmore|cursor|continuation(token)?|(is)?truncated")
_LAST = re.compile(r"(is)?last")
_LIMIT = re.compile(r"limit|pagesize|perpage")
_WRAPPERS = re.compile(r"data|results?|meta(data)?|pagination|paging|page(info|able)?|links|cursors")
"""What lists say of themselves and where, each name in lower case and without what is no letter or digit; ``last``
says that there is no next page."""
_DEEP = 3
"""Records within records beside a list in which such words are looked for."""
_ROUND = (10, 25)
NO_HEADERS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One answer of a list: its items, and what it says of all of them. None where it does not say; ``more``: what it
    names as the next page, False where it says that there is none."""

    items: list[Json]
    total: int | None = None
    pages: int | None = None
    limit: int | None = None
    more: Json = None


def leaf_of(items: list[Json], value: Json, headers: Mapping[str, str] = NO_HEADERS) -> Leaf:
    """One answer, in which these items were found."""
    said = [*_in_headers(headers), *_beside(value, items)]
    named = [part or False for name, part in said if _NEXT.fullmatch(name)]
    named += [not part for name, part in said if _LAST.fullmatch(name) and isinstance(part, bool)]
    return Leaf(
        items=items,
        total=_largest(said, _TOTAL),
        pages=_largest(said, _PAGES),
        limit=_largest(said, _LIMIT),
        more=next((part for part in named if part), False if named else None),
    )


def lacking(leaves: Sequence[Leaf]) -> str:
    """What these pages, which are the first of a list, lack of it by their own word; empty where they lack nothing."""
    first, last = leaves[0], leaves[-1]
    held = sum(len(leaf.items) for leaf in leaves)
    if first.total is not None and held < first.total:
        return f"it holds {held} of {first.total}"
    if first.pages is not None and len(leaves) < first.pages:
        return f"it is {len(leaves)} of {first.pages} pages"
    if last.more:
        return "it names a next page"
    if (first.pages is not None or any(leaf.more for leaf in leaves)) and not all(leaf.items for leaf in leaves[1:]):
        return "a page that it told of is empty"
    if len(leaves) > 1 and (last.total != first.total or _twice(leaves)):
        return CHANGED
    if first.total is None and first.pages is None and last.more is None and last.limit is not None:
        return f"it is as long as its limit of {last.limit}" if len(last.items) >= last.limit else ""
    return ""


def must_be_whole(leaf: Leaf, what: str) -> None:
    """Raises `Malformed` for an answer that holds a part of what it is to tell."""
    if lacks := lacking([leaf]):
        raise Malformed(f"{what} is not whole: {lacks}")


def next_page(leaves: Sequence[Leaf]) -> int:
    """The number of the page after these."""
    named = integer_from(leaves[-1].more)
    return named if named is not None else len(leaves) + 1


def full(leaf: Leaf) -> bool:
    """Whether a list that says nothing of its extent is as long as a page often is: then it may have been cut off."""
    if (leaf.total, leaf.pages, leaf.limit, leaf.more) != (None, None, None, None):
        return False
    return len(leaf.items) >= min(_ROUND) and any(len(leaf.items) % one == 0 for one in _ROUND)


def _in_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, Json]]:
    """What headers say of a list's extent, by the same names: the relation ``next`` of a Link, totals, a next page, and
    the range that an answer is of."""
    if any(map(_names_next, re.split("[;,]", headers.get("link", "")))):
        yield "next", True
    for name, text in headers.items():
        bare = _bare(name).removeprefix("x")
        if _TOTAL.fullmatch(bare) or _PAGES.fullmatch(bare):
            yield bare, text
        elif _NEXT_HEADER.fullmatch(bare):
            yield bare, text.strip().lower() not in ("", "0", "false", "no", "none", "null") and text
        elif bare == "pagination":
            with suppress(ValueError, RecursionError):
                yield from _beside(json.loads(text), [])
    if "content-range" in headers:
        yield "total", headers["content-range"].rpartition("/")[2].strip()


def _names_next(part: str) -> bool:
    """Whether a part of a Link is the relation ``next``. A pattern over the whole header took 16 s for one that was
    made for that."""
    name, _, value = part.partition("=")
    return name.strip().lower() == "rel" and "next" in value.strip(" \t\"'").lower().split()


def _beside(value: Json, items: list[Json], deep: int = _DEEP) -> Iterator[tuple[str, Json]]:
    """What an answer says beside its list, wherever it stands."""
    if isinstance(value, dict) and deep:
        within = items not in value.values()
        for name, part in value.items():
            yield _bare(name), part
            if _WRAPPERS.fullmatch(_bare(name)) or (within and _holds(part, items)):
                yield from _beside(part, items, deep - 1)


def _holds(value: Json, items: list[Json]) -> bool:
    return isinstance(value, dict) and any(part == items or _holds(part, items) for part in value.values())


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _largest(said: Sequence[tuple[str, Json]], names: re.Pattern[str]) -> int | None:
    numbers = [number for name, part in said if names.fullmatch(name) and (number := run_id_from(part)) is not None]
    return max(numbers, default=None)


def _twice(leaves: Sequence[Leaf]) -> bool:
    """Whether an item of one page stands on another too: something went from page to page, and another was missed."""
    before: set[str] = set()
    for leaf in leaves:
        own = {json.dumps(item, sort_keys=True) for item in leaf.items}
        if own & before:
            return True
        before |= own
    return False


def lists_in(value: Json, deep: int = _DEEP) -> Iterator[list[Json]]:
    """The lists of an answer that are not items of another."""
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict) and deep:
        for part in value.values():
            yield from lists_in(part, deep - 1)
