"""Reads the pages of a list of events for the fields that somebody needs, and knows again what says nothing new.

Most of what a page says is what it said before, and of what is new most stands in fields that no rule looks at. So an
item is decoded by msgspec into a row of the needed fields, the rest of it is passed over, and the row is compared with
the one before: where they are equal, the item is the very object that it was. Nobody has to look at that again. Where
the needed fields change, because the rules did, everything is read anew: nothing is ever old in a field that counts.

What is not as simple as that (a number beyond all bounds, half a character, no array of items) is read by
`worker.api.wire`, slowly, which also says what is wrong with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from operator import is_

import msgspec

from worker.api.wire import LONGEST_NUMBER, Malformed, cleaned, parsed
from worker.model.document import EVENT_FIELDS, Field, FieldType
from worker.model.facts import Json

ITEM_DEPTH = 2
"""How deep in an answer its items stand."""
_PLAIN: frozenset[FieldType] = frozenset({"string", "timestamp"})
_NUMBERS: frozenset[FieldType] = frozenset({"integer", "number"})
_LARGEST = 10**LONGEST_NUMBER
_NOTHING = msgspec.Raw(b"")

Row = msgspec.Struct


class Item(msgspec.Struct):
    """What one item said last: the row, and the object that was made of it."""

    row: Row
    value: dict[str, Json]


class Envelope(msgspec.Struct):
    """The answer around the items. Other members than these say nothing that anybody reads."""

    items: list[Row]
    total: object = None
    limit: object = None
    page: object = None


@dataclass(frozen=True, slots=True)
class Reader:
    """Decodes pages for some fields. ``id_at``: where in a row the id stands; None where nobody needs it."""

    names: tuple[str, ...]
    kinds: tuple[FieldType | None, ...]
    decoder: "msgspec.json.Decoder[Envelope]"

    def value(self, row: Row) -> tuple[Row | None, dict[str, Json]]:
        """The record in a row, and the row as it may be kept to compare others with; None where an equal row could say
        something else. Raises `Malformed`."""
        value: dict[str, Json] = {}
        kept: list[object] = []
        comparable = True
        for name, kind, part in zip(self.names, self.kinds, msgspec.structs.astuple(row), strict=True):
            if part is msgspec.UNSET or part is _NOTHING:
                kept.append(part)
            elif isinstance(part, msgspec.Raw):  # equal to the last byte, or not equal
                value[name] = parsed(bytes(part), ITEM_DEPTH + 1)
                kept.append(part.copy())
            else:
                comparable &= part is None or kind in _NUMBERS or isinstance(part, str)
                if isinstance(part, int) and abs(part) >= _LARGEST:
                    raise Malformed("the answer holds a number that is out of range")
                clean = value[name] = cleaned(part, ITEM_DEPTH + 1)
                kept.append(clean)
        return type(row)(*kept) if comparable else None, value


@dataclass(slots=True)
class Rows:
    """The items of one list as they were read last, by id, and its pages. ``needed``: the fields that were asked for;
    `read` is for one set of them at a time."""

    needed: frozenset[str] = frozenset()
    _pages: dict[int, tuple[bytes, Json | Malformed]] = field(default_factory=dict)
    _items: dict[str, Item] = field(default_factory=dict)

    def read(self, number: int, needed: frozenset[str], raw: bytes) -> Json | Malformed:
        """The JSON of a page, its items with the needed fields only, or how it is malformed. What says nothing new is
        the object that it was: a page, or an item of one."""
        needed |= {"id"}
        if needed != self.needed:
            self.needed = needed
            self._pages.clear()
            self._items.clear()
        digest, last = sha256(raw).digest(), self._pages.get(number)
        if last is not None and last[0] == digest:
            return last[1]
        content: Json | Malformed
        try:
            content = self._decoded(raw, last[1] if last is not None else None)
        except Malformed as error:
            content = error
        self._pages[number] = (digest, content)
        return content

    def only(self, ids: Iterable[str]) -> None:
        """Forgets all other items."""
        self._items = {eid: self._items[eid] for eid in ids if eid in self._items}

    def _decoded(self, raw: bytes, last: Json | Malformed) -> Json:
        reader = reader_for(self.needed)
        try:
            page = reader.decoder.decode(raw)
            items: list[Json] = [self._item(reader, row) for row in page.items]
            members = (cleaned(one, 1) for one in (page.total, page.limit, page.page))
            content: dict[str, Json] = {**dict(zip(("total", "limit", "page"), members, strict=True)), "items": items}
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._slowly(raw)
        return last if not isinstance(last, Malformed) and _as_before(last, content) else content

    def _item(self, reader: Reader, row: Row) -> Json:
        eid = row.f0  # type: ignore[attr-defined] # the id, which is the first of every row
        known = self._items.get(eid) if isinstance(eid, str) else None
        if known is not None and known.row == row:
            return known.value
        kept, value = reader.value(row)
        if kept is not None and isinstance(eid, str):
            self._items[eid] = Item(kept, value)
        return value

    def _slowly(self, raw: bytes) -> Json:
        """As `parsed`, with the items' needed fields only. Raises `Malformed`."""
        content = parsed(raw)
        items = content.get("items") if isinstance(content, dict) else None
        if isinstance(items, list):
            items[:] = [
                {name: part for name, part in item.items() if name in self.needed} if isinstance(item, dict) else item
                for item in items
            ]
        return content


@lru_cache(maxsize=16)
def reader_for(needed: frozenset[str]) -> Reader:
    """How pages are decoded for these fields, the id among them. Fields of a row are numbered, because the service's
    may be called anything."""
    names = ("id", *sorted(needed - {"id"}))
    fields = [EVENT_FIELDS.get(name) for name in names]
    row = msgspec.defstruct(
        "EventRow",
        [(f"f{index}", *_typed(one)) for index, one in enumerate(fields)],
        rename={f"f{index}": name for index, name in enumerate(names)},
        gc=False,
    )
    page = msgspec.defstruct(
        "EventPage",
        [("items", list[row]), ("total", object, None), ("limit", object, None), ("page", object, None)],  # type: ignore[valid-type]
    )
    kinds = tuple(None if one is None else one.type for one in fields)
    return Reader(names=names, kinds=kinds, decoder=msgspec.json.Decoder(page))


def _typed(described: Field | None) -> tuple[object, object]:
    """The type of a field of a row, and what stands there where an item lacks it. Values of two types that are equal
    must not meet: a number that should be one is never true or false, and what may be anything is compared as it is
    spelled."""
    if described is not None and described.type in _PLAIN:
        return object, msgspec.UNSET
    if described is not None and described.type in _NUMBERS:
        return int | float | msgspec.UnsetType | None, msgspec.UNSET
    return msgspec.Raw, _NOTHING


def _as_before(last: Json, content: dict[str, Json]) -> bool:
    """Whether a page shows the very same items as before, and says the same of itself."""
    if not isinstance(last, dict):
        return False
    before, now = last.get("items"), content["items"]
    if not (isinstance(before, list) and isinstance(now, list) and len(before) == len(now)):
        return False
    said = [(type(one), one) for page in (last, content) for one in map(page.get, ("total", "limit", "page"))]
    return said[:3] == said[3:] and all(map(is_, before, now))
