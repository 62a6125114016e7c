"""Decodes answers, and none twice: what comes back byte for byte the same gives the very same objects again.

Most looks find nothing new, and decoding a list of ten thousand events costs more than all the rest of such a look. The
objects are shared from then on; nobody may change them, and nobody does: what is made of them is made anew.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from worker.api.wire import Malformed, Page, page_from, parsed
from worker.model.facts import Json

KEPT_MAX = 4_000
"""Answers kept; those asked for longest ago go first."""


@dataclass(slots=True)
class Decoder:
    """The last answer of each place, as bytes and as JSON."""

    _kept: OrderedDict[Hashable, tuple[bytes, Json | Malformed]] = field(default_factory=OrderedDict)

    def content(self, place: Hashable, raw: bytes) -> Json | Malformed:
        """The JSON of an answer, or how it is malformed."""
        known = self._kept.get(place)
        if known is not None and known[0] == raw:
            self._kept.move_to_end(place)
            return known[1]
        content: Json | Malformed
        try:
            content = parsed(raw)
        except Malformed as error:
            content = error
        self._kept[place] = (raw, content)
        self._kept.move_to_end(place)
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return content


@dataclass(slots=True)
class Pages:
    """The pages of one list as they were last, by number. ``whole``: how many they were, if they were a whole list."""

    whole: int = 0
    _last: dict[int, tuple[Json, Page]] = field(default_factory=dict)

    def page(self, number: int, content: Json) -> Page:
        """The page that this content is. Raises `Malformed`."""
        last = self._last.get(number)
        if last is not None and last[0] is content:
            return last[1]
        page = page_from(content)
        self._last[number] = (content, page)
        return page
