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
from msgspec.structs import astuple

from worker.api.wire import Malformed, cleaned, parsed
from worker.model.document import EVENT_FIELDS, Field, FieldType
from worker.model.facts import Json

ITEM_DEPTH = 2
"""How deep in an answer its items stand."""
_PLAIN: frozenset[FieldType] = frozenset({"string", "timestamp"})
_NUMBERS: frozenset[FieldType] = frozenset({"integer", "number"})
_NOTHING = msgspec.Raw(b"")
_anything = msgspec.json.Decoder()

Row = msgspec.Struct


class Item(msgspec.Struct):
    """What one item said: the row, and the object that was made of it. ``comparable``: an equal row says the same."""

    row: Row
    value: dict[str, Json]
    comparable: bool


class Envelope(msgspec.Struct, kw_only=True):
    """The answer around the items. Other members than these say nothing that anybody reads."""

    items: list[Row]
    total: object = None
    limit: object = None
    page: object = None


OF_PAGE = tuple(name for name in Envelope.__struct_fields__ if name != "items")
"""What a page says of itself."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Decodes pages for some fields. ``nothing``: the values of a row that has none of them."""

    names: tuple[str, ...]
    nothing: tuple[object, ...]
    kinds: tuple[FieldType | None, ...]
    decoder: "msgspec.json.Decoder[Envelope]"

    def item(self, row: Row, before: "Item | None") -> "Item":
        """What an item says. ``before``: what it said last, of which all is taken over that is still so. Raises
        `Malformed`, and msgspec's errors."""
        old = self.nothing if before is None else astuple(before.row)
        value: dict[str, Json] = {} if before is None else dict(before.value)
        kept, comparable = list(old), True
        for index, part in enumerate(astuple(row)):
            if part is old[index] or part == old[index]:
                continue
            name = self.names[index]
            if part is msgspec.UNSET or part is _NOTHING:
                del value[name]
                kept[index] = part
            elif isinstance(part, msgspec.Raw):  # equal to the last byte, or not equal
                value[name] = cleaned(_anything.decode(part), ITEM_DEPTH + 1)
                kept[index] = part.copy()
            else:
                comparable &= part is None or self.kinds[index] in _NUMBERS or isinstance(part, str)
                kept[index] = value[name] = cleaned(part, ITEM_DEPTH + 1)
        return Item(type(row)(*kept), value, comparable)


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
            content: dict[str, Json] = {name: cleaned(getattr(page, name), 1) for name in OF_PAGE}
            content["items"] = items
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return self._slowly(raw)
        return last if not isinstance(last, Malformed) and _as_before(last, content) else content

    def _item(self, reader: Reader, row: Row) -> Json:
        eid = row.f0  # type: ignore[attr-defined] # the id, which is the first of every row
        known = self._items.get(eid) if isinstance(eid, str) else None
        if known is not None and known.row == row:
            return known.value
        item = reader.item(row, known)
        if isinstance(eid, str):
            if item.comparable:
                self._items[eid] = item
            else:
                self._items.pop(eid, None)
        return item.value

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
    page = msgspec.defstruct("EventPage", [("items", list[row])], bases=(Envelope,), kw_only=True)  # type: ignore[valid-type]
    kinds = tuple(None if one is None else one.type for one in fields)
    nothing = tuple(_typed(one)[1] for one in fields)
    return Reader(names=names, nothing=nothing, kinds=kinds, decoder=msgspec.json.Decoder(page))


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
    said, says = ([(type(page.get(name)), page.get(name)) for name in OF_PAGE] for page in (last, content))
    return said == says and all(map(is_, before, now))
