"""Records into the action log and out again.

A `Journal` lives for one transaction: it reads the end of the chain, gives each record its seq, prev and hash, and
writes them together. What is hashed, stored and printed is one and the same object, so text that no JSON file could
hold (half a surrogate pair, infinity) is replaced before hashing. Records are only ever added.
"""

import json
import math
from collections.abc import Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import cast

from sqlalchemy import Row, insert, select

from worker.ledger.chain import GENESIS, canonical, hash_of_text, quoted
from worker.ledger.codec import millis_text
from worker.ledger.connections import Connection
from worker.ledger.prepared import Prepared
from worker.ledger.tables import action_log
from worker.model.facts import Json
from worker.model.records import Record

FIELDS: tuple[str, ...] = (
    *("seq", "at", "partner", "event", "rule", "episode", "write", "attempt", "action", "kind", "reason", "why"),
    *("request", "before", "response", "evidence", "facts", "by", "prev", "hash"),
)
"""In the order in which they are printed."""
JSON_FIELDS: tuple[str, ...] = ("request", "before", "response", "evidence", "facts")
_WORDS = ("partner", "event", "rule", "action", "kind", "reason", "why", "by")
_NUMBERS = ("episode", "write", "attempt")
_words, _numbers, _nested = (attrgetter(*names) for names in (_WORDS, _NUMBERS, JSON_FIELDS))
_MADE = ("at", "prev", *_WORDS, "seq", *_NUMBERS, *JSON_FIELDS)
"""In the order in which a record is put together: texts, numbers, and what is JSON by itself."""
_SPELLED = sorted(_MADE)
_SHAPE = "{" + ",".join(f'"{name}":%s' for name in _SPELLED) + "}"
_in_shape = itemgetter(*map(_MADE.index, _SPELLED))

_LAST = Prepared(select(action_log.c.seq, action_log.c.hash).order_by(action_log.c.seq.desc()).limit(1))
_ADD = Prepared(insert(action_log), (*_MADE, "hash"))
_COLUMNS = tuple(action_log.c[name] for name in FIELDS)
ALL_RECORDS = select(*_COLUMNS).order_by(action_log.c.seq)
"""Every record, oldest first; to be narrowed."""


class Journal:
    """The end of the chain within one writing transaction. Nothing is stored before `flush`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.seq, self.hash = end_of_chain(connection)
        self._rows: list[tuple[object, ...]] = []

    def add(self, records: Iterable[Record]) -> None:
        """Appends records in their order."""
        for record in records:
            values, text = _put_together(record, seq=self.seq + 1, prev=self.hash)
            self.seq, self.hash = self.seq + 1, hash_of_text(text)
            self._rows.append((*values, self.hash))

    def flush(self) -> None:
        """Writes what was added."""
        if self._rows:
            _ADD.run_rows(self._connection, self._rows)
            self._rows = []


def end_of_chain(connection: Connection) -> tuple[int, str]:
    """The last seq and its hash; 0 and `GENESIS` for an empty log."""
    row = _LAST.run(connection).fetchone()
    return (0, GENESIS) if row is None else (row[0], row[1])


def printed(row: Row[tuple[object, ...]]) -> dict[str, Json]:
    """A stored record as it is printed. Raises `ValueError` for JSON that this program cannot have written."""
    if bytes in map(type, row):
        raise ValueError("a field is not text, though it was written as text")
    body = dict(zip(FIELDS, cast("tuple[Json, ...]", tuple(row)), strict=True))
    for name in JSON_FIELDS:
        text = body[name]
        if text is None:
            continue
        value = cast(Json, json.loads(str(text)))
        if _text(value) != text:
            raise ValueError(f"{name} is not spelled as it was written")
        body[name] = value
    return body


def _put_together(record: Record, *, seq: int, prev: str) -> tuple[tuple[str | int | None, ...], str]:
    """What is stored of a record, but for its hash, and its spelling as `canonical` would have it.

    What is hashed is made of what is stored: spelling a record anew takes longer than SQLite takes to store it.
    """
    words = (millis_text(record.at), prev, *_words(record))
    if not "".join(filter(None, words)).isascii():
        words = tuple(cast("str | None", _clean(word)) for word in words)
    numbers = (seq, *_numbers(record))
    nested = tuple([None if value is None else canonical(_clean(value)) for value in _nested(record)])
    spelled = [
        *["null" if word is None else quoted(word) for word in words],
        *["null" if number is None else int.__repr__(number) for number in numbers],
        *["null" if text is None else text for text in nested],
    ]
    return (*words, *numbers, *nested), _SHAPE % cast("tuple[str, ...]", _in_shape(spelled))


def _text(value: Json) -> str | None:
    return None if value is None else canonical(value)


def _clean(value: object) -> Json:
    """The value as any JSON reader can take it."""
    if value is None:
        return None
    match value:
        case str():
            return value.encode("utf-8", errors="replace").decode("utf-8") if _broken(value) else value
        case float():
            return value if math.isfinite(value) else str(value)
        case bool() | int():
            return value
        case Mapping():
            return {str(_clean(str(name))): _clean(item) for name, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            raise TypeError(f"{type(value).__name__} is no JSON value")


def _broken(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)
