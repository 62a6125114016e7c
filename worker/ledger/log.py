"""The action log as a file for auditors, and the proof that such a file is what was exported. Pure.

An export is JSON lines, a JSON array or CSV; each holds every field, so the chain can be recomputed from any of them on
a machine that has nothing but the file. What ties the file to the ledger is the chain's head, ``SEQ:HASH``, which is
noted when the export is made and kept apart from it: who changes a record, leaves one out or cuts off the end cannot
come to the same head without a gap.

CSV is read by spreadsheets, which take ``=1+1`` for a formula. Text that begins like one gets a ``'`` in front, which
is taken off again when the file is verified.
"""

import csv
import hashlib
import io
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Self, cast

from sqlalchemy import Connection, Row, Select, bindparam, select
from sqlalchemy.dialects.postgresql import insert

from worker.ledger.database import Store
from worker.ledger.tables import action_log, millis_text, partners, storable, upsert
from worker.model.commits import ChainBreak, LogFilter, Record
from worker.model.errors import NotSafe
from worker.model.exchange import Owner
from worker.model.facts import Json, object_of

# The hash chain of the action log, pure: each record's hash covers the record and the hash before it.
#
# The hash is of the record as ``log --format jsonl`` prints it, less ``hash`` itself and what is empty of ``chain`` and
# ``replica``, in canonical JSON: keys sorted, no spaces, UTF-8 instead of escapes, numbers as Python's `json` spells
# them. So an exported log can be verified without the ledger, with a dozen lines in any language. The chain shows a
# change, a removal, an insertion or another order; that the end was cut off is shown by the row that says where it is,
# and by the mark. It proves nothing against one who writes the whole log anew.
#
# A ledger in a file has one chain, without a name. In a fleet each partner has one of its own, so that nobody waits for
# another partner's commits, and what concerns all stands in the one without a name.

GENESIS = "0" * 64
"""``prev`` of the first record."""
HASH_BEGIN_MIN = 12
"""Digits of a hash that are enough to know a record by: so many stand in the name of an export, 13 in the figures."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def canonical(value: Json) -> str:
    """The one spelling of a JSON value that is hashed and stored."""
    return _CANONICAL(value)


def hash_of(record: Mapping[str, Json]) -> str:
    """The hash of a record with its ``seq`` and ``prev``; a ``hash`` that it already has is left out."""
    body = {name: value for name, value in record.items() if name != "hash" and (value or name not in IN_A_FLEET)}
    return hashlib.sha256(canonical(body).encode("utf-8", errors="surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The end of a chain: the last record's number and hash; ``0`` and zeros for an empty one."""

    seq: int = 0
    hash: str = GENESIS
    chain: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """The head that ``SEQ:HASH`` spells, or ``CHAIN:SEQ:HASH``, the hash whole or its beginning. Raises
        `ValueError`."""
        begin, _, digest = text.strip().rpartition(":")
        chain, _, seq = begin.rpartition(":")
        known = HASH_BEGIN_MIN <= len(digest) <= len(GENESIS) and set(digest) <= set("0123456789abcdef")
        if not (seq.isascii() and seq.isdigit() and known):
            raise ValueError(
                f"a head is SEQ:HASH, a number and 64 hexadecimal digits, or the first {HASH_BEGIN_MIN} or more"
            )
        return cls(seq=int(seq), hash=digest, chain=chain)

    def of(self, seq: object, digest: object) -> bool:
        """Whether this is the head of a log that ends with that record."""
        return seq == self.seq and str(digest).startswith(self.hash)

    def __str__(self) -> str:
        return f"{self.chain}:{self.seq}:{self.hash}" if self.chain else f"{self.seq}:{self.hash}"


def verified(
    records: Iterable[Mapping[str, Json]], against: Collection[Head] = ()
) -> tuple[Mapping[str, Head], ChainBreak | None]:
    """How far each chain holds, reading from its first record on, and the first place where one does not, or where it
    is not the one that has its heads in ``against`` and ends with the last of them."""
    ends: dict[str, Head] = {}
    heads: dict[str, list[Head]] = {}
    for head in sorted(against, key=lambda one: one.seq):
        heads.setdefault(head.chain, []).append(head)
    for record in records:
        chain = str(record.get("chain") or "")
        last = ends.get(chain, Head(chain=chain))
        why, here = _wrong(record, last), replace(last, seq=last.seq + 1, hash=str(record.get("hash")))
        if not why and any(one.seq == here.seq and not one.of(here.seq, here.hash) for one in heads.get(chain, ())):
            why = f"record {here.seq} has another hash than the head: this is not the log that the head was taken of"
        if why:
            return ends, ChainBreak(seq=here.seq, why=why, chain=chain)
        ends[chain] = here
    for chain, (*_, head) in heads.items():
        reached = ends[chain].seq if chain in ends else 0
        why = "what stands after the head came later, or from somebody else: this is not what the head was taken of"
        if reached < head.seq:
            why = f"it ends at record {reached} and has no record {head.seq}: its end was cut off"
        if reached != head.seq:
            return ends, ChainBreak(seq=min(reached, head.seq) + 1, why=why, chain=chain)
    return ends, None


def _wrong(record: Mapping[str, Json], last: Head) -> str:
    """Why a record cannot stand after the one before it; empty where it can."""
    seq = last.seq + 1
    if record.get("seq") != seq:
        return f"record {seq} is missing: {record.get('seq')} stands in its place"
    if record.get("prev") != last.hash:
        return f"record {seq} does not follow the one before it"
    return "" if record.get("hash") == _hash_or_none(record) else f"record {seq} was changed after it was written"


def _hash_or_none(record: Mapping[str, Json]) -> str | None:
    try:
        return hash_of(record)
    except (ValueError, TypeError, RecursionError):
        return None


# Records into the action log and out again.
#
# A `Journal` lives for one transaction: it reads the end of each chain, gives each record its seq, prev and hash, and
# writes them together. What is hashed, stored and printed is one and the same object, so text that no JSON file could
# hold (half a surrogate pair, infinity) is replaced before hashing. Records are only ever added.

FIELDS: tuple[str, ...] = (
    *("chain", "replica", "seq", "at", "partner", "event", "rule", "episode", "write", "attempt", "action", "kind"),
    *("reason", "why", "request", "before", "response", "evidence", "facts", "by", "prev", "hash"),
)
"""In the order in which they are printed."""
IN_A_FLEET = ("chain", "replica")
"""Fields that are empty in a ledger that one process writes."""
JSON_FIELDS: tuple[str, ...] = ("request", "before", "response", "evidence", "facts")
_SAID = tuple(name for name in FIELDS if name not in ("chain", "replica", "seq", "at", "prev", "hash"))
OF_ALL = ""
"""The row of `partners` that is the ledger's own."""
_P = partners.c
_CHAIN = select(_P.partner, _P.seq, _P.hash, _P.owner, _P.epoch).where(_P.partner == bindparam("of"))
_HOLD = _CHAIN.with_for_update()
_ENDS = select(_P.partner, _P.seq, _P.hash).where(_P.seq > 0)
_MAKE = insert(partners).values(hash=GENESIS).on_conflict_do_nothing()
_SAVE_END = upsert(partners, "partner", changed=("seq", "hash"))
_ADD = insert(action_log)
ALL_RECORDS = select(*(action_log.c[name] for name in FIELDS), action_log.c.id).order_by(action_log.c.id)
"""Every record, as they came; to be narrowed."""


def narrowed(query: Select[tuple[object, ...]], wanted: LogFilter) -> Select[tuple[object, ...]]:
    """The records that are wanted of a query."""
    for column in ("chain", "partner", "event", "rule", "write", "kind", "reason"):
        value = getattr(wanted, column)
        if value is not None:
            query = query.where(action_log.c[column] == value)
    if wanted.since is not None:
        query = query.where(action_log.c.at >= millis_text(wanted.since))
    if wanted.until is not None:
        query = query.where(action_log.c.at < millis_text(wanted.until))
    if wanted.after_seq:
        query = query.where(action_log.c.seq > wanted.after_seq)
    return query if wanted.before_id is None else query.where(action_log.c.id < wanted.before_id)


@contextmanager
def recording(
    store: Store, of: Iterable[str | None], replica: str = "", begin: Callable[[Connection], None] | None = None
) -> Iterator[tuple[Connection, "Journal"]]:
    """A transaction that writes records of these partners, or of all (None): it takes hold of their rows before it
    reads anything, and what is added meanwhile is stored when it ends. ``begin``: what comes even before that.

    Only then are the records told. What is stored is stored, whether it could be told or not: a log line that fails (a
    closed pipe, a full disk) must not look like a commit that failed."""
    with store.writing() as connection:
        if begin is not None:
            begin(connection)
        journal = Journal(connection, store.chains(of), replica)
        yield connection, journal
        journal.flush()
    for record in journal.added:
        with suppress(Exception):
            store.tell(record)


class Journal:
    """The ends of chains within one writing transaction, held so that nobody else goes on from them. Nothing is stored
    before `flush`. ``ends``: of each chain; ``owners``: whose the partners are, while they are held; ``added``: every
    record of it."""

    def __init__(self, connection: Connection, chains: Sequence[str], replica: str = "") -> None:
        self._connection = connection
        self._replica = replica
        held = [row for chain in chains for row in connection.execute(_HOLD, {"of": chain})]
        if len(held) < len(chains):
            connection.execute(_MAKE, [{"partner": chain} for chain in chains])
            held = [row for chain in chains for row in connection.execute(_HOLD, {"of": chain})]
        self.ends = {row.partner: Head(seq=row.seq, hash=row.hash, chain=row.partner) for row in held}
        self.owners = {row.partner: Owner(replica=row.owner, epoch=row.epoch) for row in held}
        self.added: list[Record] = []
        self._rows: list[dict[str, Json]] = []

    def end(self, partner: str | None) -> Head:
        """The end of the chain in which a partner's records are."""
        return self.ends[partner if partner in self.ends else OF_ALL]

    def add(self, records: Iterable[Record]) -> None:
        """Appends records in their order."""
        for record in records:
            self.added.append(record)
            end = self.end(record.partner)
            body = _body(record, end, self._replica)
            now = Head(seq=end.seq + 1, hash=hash_of(body), chain=end.chain)
            self.ends[end.chain] = now
            self._rows.append({**body, **{name: _text(body[name]) for name in JSON_FIELDS}, "hash": now.hash})

    def flush(self) -> None:
        """Writes what was added."""
        if self._rows:
            self._connection.execute(_ADD, self._rows)
            ends = (self.ends[chain] for chain in dict.fromkeys(str(row["chain"]) for row in self._rows))
            rows = [{"partner": end.chain, "seq": end.seq, "hash": end.hash} for end in ends]
            self._connection.execute(_SAVE_END, rows)
            self._rows = []


def ends_of(connection: Connection) -> dict[str, Head]:
    """Every chain's end, as the partners' rows say."""
    rows = connection.execute(_ENDS)
    return {row.partner: Head(seq=row.seq, hash=row.hash, chain=row.partner) for row in rows}


def end_of_chain(connection: Connection, chain: str = OF_ALL) -> Head:
    """The end of one chain; an empty one's too."""
    row = connection.execute(_CHAIN, {"of": chain}).first()
    return Head(chain=chain) if row is None or not row.seq else Head(seq=row.seq, hash=row.hash, chain=chain)


def printed(row: Row[tuple[object, ...]]) -> dict[str, Json]:
    """A stored record as it is printed. Raises `NotSafe` for one that this program cannot have written."""
    try:
        return _read(row)
    except ValueError as error:
        hint = "somebody changed it: `campaign-worker log --verify` says where"
        raise NotSafe(f"the action log cannot be read: {error}", hint=hint) from error


def printed_or_broken(row: Row[tuple[object, ...]]) -> Mapping[str, Json]:
    """The same, to be verified: what cannot be read has no hash that anything could have."""
    try:
        return _read(row)
    except ValueError:
        return {"chain": row.chain, "seq": row.seq, "prev": row.prev}


def _read(row: Row[tuple[object, ...]]) -> dict[str, Json]:
    if bytes in map(type, row):
        raise ValueError("a field is not text, though it was written as text")
    body = dict(zip(FIELDS, cast("tuple[Json, ...]", tuple(row)), strict=False))
    for name in JSON_FIELDS:
        text = body[name]
        if text is None:
            continue
        value = cast(Json, json.loads(str(text)))
        if _text(value) != text:
            raise ValueError(f"{name} is not spelled as it was written")
        body[name] = value
    return body


def _body(record: Record, end: Head, replica: str) -> dict[str, Json]:
    """A record as it is hashed and printed after this end of a chain, but for its hash."""
    said: dict[str, Json] = {name: _clean(getattr(record, name)) for name in _SAID}
    own: dict[str, Json] = {"chain": end.chain, "replica": replica, "seq": end.seq + 1, "prev": end.hash}
    return {**own, "at": millis_text(record.at), **said}


def _text(value: Json) -> str | None:
    return None if value is None else canonical(value)


def _clean(value: object) -> Json:
    """The value as any JSON reader can take it."""
    match value:
        case str():
            return storable(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case None | bool() | int():
            return value
        case Mapping():
            return {str(_clean(str(name))): _clean(item) for name, item in value.items()}
        case list() | tuple():
            return [_clean(item) for item in value]
        case _:
            raise TypeError(f"{type(value).__name__} is no JSON value")


NUMBERS = frozenset({"seq", "episode", "write", "attempt"})
NEVER_NULL = frozenset({"chain", "replica", "at", "kind", "why", "by", "prev", "hash"})
_LIKE_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "'")
CELL_MAX = 64 * 1024 * 1024


def json_lines(records: Iterable[Mapping[str, Json]]) -> str:
    """One object a line."""
    return "".join(json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n" for one in records)


def csv_head() -> str:
    """The line that names the columns."""
    return _line(FIELDS)


def csv_lines(records: Iterable[Mapping[str, Json]]) -> str:
    """One line a record, nested values as JSON."""
    return "".join(_line(_cell(name, record.get(name)) for name in FIELDS) for record in records)


def read_export(lines: Iterable[str]) -> Iterator[dict[str, Json]]:
    """The records of an export, of whichever form its first line shows. Raises `ValueError` where it is of none."""
    source = iter(lines)
    first = next(source, "")
    if not first:
        return
    first = first.lstrip("\ufeff")
    if first.startswith(("chain,", "seq,")):
        csv.field_size_limit(CELL_MAX)
        columns = next(csv.reader([first]))
        if columns not in (list(FIELDS), [name for name in FIELDS if name not in IN_A_FLEET]):
            raise ValueError(f"line 1: the columns of an export are {','.join(FIELDS)}")
        for number, cells in enumerate(csv.reader(source), start=2):
            if len(cells) != len(columns):
                raise ValueError(f"line {number}: {len(cells)} cells instead of {len(columns)}")
            yield {name: _value(name, cell) for name, cell in zip(columns, cells, strict=True)}
    elif first.startswith("["):
        values = _json("".join([first, *source]), "it begins as a JSON array and is none")
        for number, value in enumerate(cast("list[object]", values), start=1):
            yield _known(value, f"element {number}")
    else:
        for number, line in enumerate(chain([first], source), start=1):
            if number == 1 or line.strip():
                yield _known(_json(line, f"line {number} is neither JSON nor CSV with a head line"), f"line {number}")


def _json(text: str, otherwise: str) -> object:
    """A JSON value in which no name stands twice: the chain covers one of the two, and an operator may read the
    other. Raises `ValueError` that says so ``otherwise``."""
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{otherwise}: {error}") from error


def _known(value: object, where: str) -> dict[str, Json]:
    if not isinstance(value, dict) or not {"seq", "hash"} <= set(value):
        raise ValueError(f"{where} is no record")
    return cast("dict[str, Json]", value)


def _line(cells: Iterable[str]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(cells)  # a cell that holds either of the two is in quotes then
    return out.getvalue()[:-2] + "\n"


def _cell(name: str, value: Json) -> str:
    if value is None:
        return ""
    if name in JSON_FIELDS or not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return "'" + value if value.startswith(_LIKE_FORMULAS) else value


def _value(name: str, cell: str) -> Json:
    if name in JSON_FIELDS or name in NUMBERS:
        return cast(Json, _json(cell, f"a cell of {name} is no JSON")) if cell else None
    if not cell and name not in NEVER_NULL:
        return None
    return cell.removeprefix("'")
