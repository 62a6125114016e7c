"""How much of a list an answer holds, by its own word, and the rest of it. Pure, but for asking through its caller.

Only a whole list says what is not in it. The document shows pages for the list of events (API section 2.4), and of the
campaigns of an event nothing at all (section 4.5). So whatever an answer says of more than it holds is heard: the
document's envelope, what other services write in its place, and their headers. The rest is asked for, page by page;
where it cannot be had the list is no fact, and what was read of it only shows what is there.

What says nothing is taken for whole, as a list without an envelope mostly is; but one as long as a page may be is
marked (`Trace.full`), and proves no absence.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from worker.api.wire import Malformed, integer_from, run_id_from
from worker.model.facts import Json

PAGES_MAX = 50
"""Pages read of the campaigns of one event."""
_TOTAL = re.compile(
    r"total(count|items|results|elements|records|rows|hits|size)?|(odata|item|record|result)?count|hits"
)
_PAGES = re.compile(r"pages|totalpages|pages?total|(num)?pagecount|numpages|lastpage")
_NEXT = re.compile(r"(odata)?next\w*|has(next|more)\w*|more\w*|cursor|after|(is)?truncated|partial|continuation\w*")
_LAST = re.compile(r"(is)?last")
_LIMIT = re.compile(r"limit|pagesize|perpage")
_WRAPPERS = re.compile(r"data|results?|meta(data)?|pagination|paging|page(info|able)?|links|cursors")
"""What lists say of themselves and where, each name in lower case and without what is no letter or digit; ``last``
says that there is no next page."""
_DEEP = 3
"""Records within records beside a list in which such words are looked for."""
_ROUND = (10, 25)
NOTHING: Mapping[str, Json] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One answer of a list: its items, and what it says of all of them. None where it does not say; ``more``: what it
    names as the next page, False where it says that there is none."""

    items: list[Json]
    total: int | None = None
    pages: int | None = None
    limit: int | None = None
    more: Json = None


def leaf_of(items: list[Json], value: Json, headers: Mapping[str, Json] = NOTHING) -> Leaf:
    """One answer, in which these items were found. ``headers``: as `said_in_headers`."""
    said = [*headers.items(), *_beside(value, items)]
    named = [part or False for name, part in said if _NEXT.fullmatch(name)]
    named += [not part for name, part in said if _LAST.fullmatch(name) and isinstance(part, bool)]
    return Leaf(
        items=items,
        total=_largest(said, _TOTAL),
        pages=_largest(said, _PAGES),
        limit=_largest(said, _LIMIT),
        more=next((part for part in named if part), False if named else None),
    )


def said_in_headers(headers: Mapping[str, str]) -> Mapping[str, Json]:
    """What headers say of a list's extent, by the same names: the relation ``next`` of a Link, totals, a next page, and
    the range that an answer is of."""
    said: dict[str, Json] = {}
    if re.search(r"""rel\s*=\s*["']?[^"',;]*\bnext\b""", headers.get("link", ""), re.IGNORECASE):
        said["next"] = True
    for name in headers:
        bare = _bare(name).removeprefix("x")
        if _TOTAL.fullmatch(bare) or _PAGES.fullmatch(bare) or bare == "nextpage":
            said[bare] = headers[name]
    if "content-range" in headers:
        said["total"] = headers["content-range"].rpartition("/")[2].strip()
    return said


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
        return "it changed while it was read"
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


async def pages_of(first: Leaf, ask: Callable[[int], Awaitable[Leaf]]) -> tuple[Sequence[Leaf], str]:
    """All pages of a list from its first, and what they lack of it. ``ask`` raises `Malformed` for a page that cannot
    be had, or is none."""
    leaves = [first]
    while (lacks := lacking(leaves)) and len(leaves) < PAGES_MAX:
        number = next_page(leaves)
        try:
            leaf = await ask(number)
        except Malformed as error:
            return leaves, f"{lacks}; page {number}: {error}"
        if any(leaf.items == one.items for one in leaves):
            return leaves, f"{lacks}; page {number} answered as one before it; see the assumption events.page_parameter"
        leaves.append(leaf)
    return leaves, lacks


def _beside(value: Json, items: list[Json], deep: int = _DEEP) -> Iterator[tuple[str, Json]]:
    """What an answer says beside its list, wherever it stands."""
    if isinstance(value, dict) and deep:
        for name, part in value.items():
            yield _bare(name), part
            if part is not items and _WRAPPERS.fullmatch(_bare(name)):
                yield from _beside(part, items, deep - 1)


def _bare(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()


def _largest(said: Sequence[tuple[str, Json]], names: re.Pattern[str]) -> int | None:
    numbers = [number for name, part in said if names.fullmatch(name) and (number := run_id_from(part)) is not None]
    return max(numbers, default=None)


def _twice(leaves: Sequence[Leaf]) -> bool:
    """Whether an item of one page stands on another too: something went from page to page, and another was missed."""
    return any(item in other.items for at, leaf in enumerate(leaves) for item in leaf.items for other in leaves[:at])


def lists_in(value: Json, deep: int = _DEEP) -> Iterator[list[Json]]:
    """The lists of an answer that are not items of another."""
    if isinstance(value, list):
        yield value
    elif isinstance(value, dict) and deep:
        for part in value.values():
            yield from lists_in(part, deep - 1)
