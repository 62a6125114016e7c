"""Decodes answers, and none twice: what comes back byte for byte the same gives the very same objects again.

Most looks find nothing new, and decoding a list of ten thousand events costs more than all the rest of such a look. The
objects are shared from then on; nobody may change them, and nobody does: what is made of them is made anew. Of an
answer only a digest is kept beside its objects, and of a page that has changed the events that have not stay the
objects that they were: a list of ten thousand is in memory once.
"""

import marshal
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from worker.api.rows import ITEM_DEPTH, Rows
from worker.api.wire import Malformed, Page, Record, event_from, page_from, parsed
from worker.model.facts import Json

_PARTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
UNCHANGED_MAX = 4_000
"""Answers kept; those asked for longest ago go first."""
WITHOUT_REFERENCES = 2
"""The newest way of `marshal` in which equal values are the same bytes, whoever else holds them."""


@dataclass(slots=True)
class Decoder:
    """The last answer of each place, as a digest of its bytes and as JSON."""

    _kept: OrderedDict[Hashable, tuple[bytes, Json | Malformed]] = field(default_factory=OrderedDict)
    _items: dict[Hashable, dict[bytes, Json]] = field(default_factory=dict)

    def content(self, place: Hashable, raw: bytes) -> Json | Malformed:
        """The JSON of an answer, or how it is malformed."""
        known, digest = self._kept.get(place), _digest(raw)
        if known is not None and known[0] == digest:
            self._kept.move_to_end(place)
            return known[1]
        content: Json | Malformed
        try:
            content = self._in_items(place, raw)
        except Malformed as error:
            content = error
        self._kept[place] = (digest, content)
        self._kept.move_to_end(place)
        if len(self._kept) > UNCHANGED_MAX:
            gone, _ = self._kept.popitem(last=False)
            self._items.pop(gone, None)
        return content

    def _in_items(self, place: Hashable, raw: bytes) -> Json:
        """The JSON of an answer; of one that has items, those that are as they were are not decoded again. What cannot
        be taken apart is read as a whole, which says what is wrong with it. Raises `Malformed`."""
        if b'"items"' not in raw:
            return parsed(raw)
        try:
            parts = _PARTS.decode(raw)
            items = _ITEMS.decode(parts.pop("items"))
            before, now = self._items.get(place, {}), dict[bytes, Json]()
            listed = []
            for item in items:
                digest = _digest(item)
                value = before[digest] if digest in before else parsed(bytes(item), ITEM_DEPTH)
                now[digest] = value
                listed.append(value)
            content: dict[str, Json] = {name: parsed(bytes(part), 1) for name, part in parts.items()}
        except (msgspec.MsgspecError, KeyError, ValueError, RecursionError):
            self._items.pop(place, None)
            return parsed(raw)
        self._items[place] = now
        return {**content, "items": listed}


@dataclass(slots=True)
class Pages:
    """The pages of one list as they were last, by number. ``whole``: how many they were, if they were a whole list;
    ``rows``: how those are read of which not every field is needed."""

    whole: int = 0
    rows: Rows = field(default_factory=Rows)
    _last: dict[int, tuple[Json, Page]] = field(default_factory=dict)
    _items: dict[str, tuple[Json, Record]] = field(default_factory=dict)

    def page(self, number: int, content: Json) -> Page:
        """The page that this content is. Raises `Malformed`."""
        last = self._last.get(number)
        if last is not None and last[0] is content:
            return last[1]
        items = content.get("items") if isinstance(content, dict) else None
        if isinstance(items, list):
            items[:] = [self._as_before(item) for item in items]
        page = page_from(content, self._event)
        self._last[number] = (content, page)
        if len(self._items) > 2 * sum(len(one.records) for _, one in self._last.values()):
            listed = [eid for _, one in self._last.values() for eid in one.records]
            self._items = {eid: self._items[eid] for eid in listed}
            self.rows.only(self._items)
        return page

    def _as_before(self, item: Json) -> Json:
        """The same item as it was answered before, if there is one."""
        eid = item.get("id") if isinstance(item, dict) else None
        known = self._items.get(eid) if isinstance(eid, str) else None
        return known[0] if known is not None and _alike(known[0], item) else item

    def _event(self, item: Json) -> tuple[str, Record]:
        """As `event_from`, with the record that was made of the very same item before."""
        eid = item.get("id") if isinstance(item, dict) else None
        known = self._items.get(eid) if isinstance(eid, str) else None
        if known is not None and known[0] is item and isinstance(eid, str):
            return eid, known[1]
        made = event_from(item)
        self._items[made[0]] = (item, made[1])
        return made


def _digest(raw: bytes | msgspec.Raw) -> bytes:
    return sha256(raw).digest()


def _alike(one: Json, other: Json) -> bool:
    """Whether two values are the same to the last type: ``True``, ``1`` and ``1.0`` are equal, and not alike."""
    return one is other or (
        one == other and marshal.dumps(one, WITHOUT_REFERENCES) == marshal.dumps(other, WITHOUT_REFERENCES)
    )
