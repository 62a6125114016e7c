"""The hash chain of the action log, pure: each record's hash covers the record and the hash before it.

The hash is of the record as ``log --format jsonl`` prints it, less ``hash`` itself, in canonical JSON: keys sorted, no
spaces, UTF-8 instead of escapes, numbers as Python's `json` spells them. So an exported log can be verified without the
ledger, with a dozen lines in any language. The chain shows a change, a removal, an insertion or another order; that the
end was cut off is shown by the mark, not by the chain. It proves nothing against one who writes the whole log anew.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from json.encoder import encode_basestring

from worker.model.commits import ChainBreak
from worker.model.facts import Json

GENESIS = "0" * 64
"""``prev`` of the first record."""
quoted = encode_basestring
"""A text as `canonical` spells it."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(value: Json) -> str:
    """The one spelling of a JSON value that is hashed and stored."""
    return _CANONICAL(value)


def hash_of(record: Mapping[str, Json]) -> str:
    """The hash of a record with its ``seq`` and ``prev``; a ``hash`` that it already has is left out."""
    body = {name: value for name, value in record.items() if name != "hash"}
    return hash_of_text(canonical(body))


def hash_of_text(text: str) -> str:
    """The hash of a record that is spelled already."""
    return hashlib.sha256(text.encode("utf-8", errors="surrogatepass")).hexdigest()


def verify(records: Iterable[Mapping[str, Json]]) -> ChainBreak | None:
    """The first place where the chain does not hold, reading from the first record on."""
    prev = GENESIS
    for seq, record in enumerate(records, start=1):
        if record.get("seq") != seq:
            return ChainBreak(seq=seq, why=f"record {seq} is missing: {record.get('seq')} stands in its place")
        if record.get("prev") != prev:
            return ChainBreak(seq=seq, why=f"record {seq} does not follow the one before it")
        if record.get("hash") != _hash_or_none(record):
            return ChainBreak(seq=seq, why=f"record {seq} was changed after it was written")
        prev = str(record["hash"])
    return None


def verify_to(records: Iterable[Mapping[str, Json]], marked: int) -> ChainBreak | None:
    """The first place where a log as it is read does not hold, or ends before the record that its mark had reached.

    A record that cannot be read at all (`ValueError`) is such a place.
    """
    reached = _Counted(records)
    try:
        found = verify(reached)
    except ValueError as error:
        return ChainBreak(seq=reached.count + 1, why=f"a record after seq {reached.count} cannot be read: {error}")
    if found is None and marked > reached.count:
        why = f"the log ends at seq {reached.count}, and its mark had reached seq {marked}: the end was cut off"
        return ChainBreak(seq=reached.count + 1, why=why)
    return found


class _Counted:
    """An iteration that can be asked how far it came."""

    def __init__(self, records: Iterable[Mapping[str, Json]]) -> None:
        self._records = records
        self.count = 0

    def __iter__(self) -> Iterator[Mapping[str, Json]]:
        for record in self._records:
            yield record
            self.count += 1


def _hash_or_none(record: Mapping[str, Json]) -> str | None:
    try:
        return hash_of(record)
    except (ValueError, TypeError):
        return None
