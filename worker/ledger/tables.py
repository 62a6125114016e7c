"""The ledger's tables, and the revisions that this program knows.

SQLAlchemy Core without objects that track themselves: a row is read, judged elsewhere, and written by one statement.
Times are RFC 3339 UTC texts of one width, so that comparing texts compares times; JSON is text, so that what was hashed
is what is stored. The tables never change by themselves: see ``migrations``.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache, wraps
from typing import Final, ParamSpec, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from worker.model.errors import LedgerDamaged
from worker.model.facts import Json

# What is said where the ledger holds something that this program cannot have written.
#
# SQLite keeps no checksums of its file, so a disk that changes a bit is noticed only where the changed value makes no
# sense: JSON that is none, a time that is none, a state that no write can be in. Such a value is never repaired and
# never passed on; whoever asked is told that the ledger is damaged. What still makes sense is taken as it stands: in
# the action log the chain shows it (``log --verify``), in the other tables nothing does.

P = ParamSpec("P")
T = TypeVar("T")
DAMAGED_HINT: Final = (
    "nothing is sent. Keep the file, with its -wal and -shm, in another place, put the newest backup where it was, and "
    "go on with `campaign-worker ledger accept-restore`; never with an empty ledger, it would do again what was done"
)


def damaged(why: object, name: str = "the ledger") -> LedgerDamaged:
    """The error that says so."""
    return LedgerDamaged(f"{name} is damaged: {why}", hint=DAMAGED_HINT)


def readable(read: Callable[P, T]) -> Callable[P, T]:
    """For what makes values of a stored row: whatever such a row cannot be made into is damage, and no defect."""

    @wraps(read)
    def reading(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(*args, **kwargs)
        except LedgerDamaged:
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise damaged(f"a stored value cannot be read: {error}") from error

    return reading


# Times and frozen dataclasses to text and back, exactly.
#
# The shape is read off the dataclass itself, so a field that the model gains needs no second list here: it is stored
# with the next change, and an older row, which lacks it, gets the field's default. A field that the model lost is
# passed over. Integers and floats stay apart (``500`` is not ``500.0``), because a baseline is compared with what is
# read later. The codec never repairs: what cannot be decoded raises `LedgerDamaged`.

Decoder = Callable[[object], object]


@lru_cache(maxsize=512)  # what is stored together shares its moments
def time_text(moment: datetime) -> str:
    """``2026-01-31T12:00:00.000000Z``: always the same width, so that texts sort as times do."""
    if moment.tzinfo is UTC:  # nearly every one, and thousands of them in a look
        return moment.isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
    if moment.tzinfo is None:
        raise ValueError(f"{moment!r} has no time zone")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def time_of(text: str) -> datetime:
    """The aware moment that `time_text` wrote."""
    try:
        return datetime.fromisoformat(text)
    except (ValueError, TypeError) as error:
        raise damaged(f"a stored time cannot be read: {error}") from error


def millis_text(moment: datetime) -> str:
    """As `time_text`, cut to milliseconds: the form that people read."""
    return time_text(moment)[:-4] + "Z"


def maybe_text(moment: datetime | None) -> str | None:
    """`time_text`, or nothing for nothing."""
    return None if moment is None else time_text(moment)


def maybe_time(text: str | None) -> datetime | None:
    """`time_of`, or nothing for nothing."""
    return None if text is None else time_of(text)


_COMPACT = json.JSONEncoder(separators=(",", ":")).encode  # once: `json.dumps` would make one for every value


def json_text(value: object) -> str:
    """Compact JSON in ASCII: whatever text a service sends, lone surrogates included, can be stored and comes back."""
    return _COMPACT(value)


def json_of(text: str) -> Json:
    """What `json_text` wrote."""
    try:
        return cast(Json, json.loads(text))
    except (ValueError, TypeError) as error:
        raise damaged(f"a stored value cannot be read: {error}") from error


def encode(thing: object) -> str:
    """A dataclass as JSON text."""
    return json_text(_plain(thing))


@readable
def decode(cls: type[T], text: str) -> T:
    """The dataclass that `encode` wrote, perhaps by an older program."""
    return cast(T, _built(cls, json.loads(text)))


def _plain(value: object) -> object:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, datetime):
        return time_text(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _built(cls: type, body: object) -> object:
    if not isinstance(body, dict):
        raise TypeError(f"the stored {cls.__name__} is not an object")
    return cls(**{name: decoder(body[name]) for name, decoder in _decoders(cls) if name in body})


@cache
def _decoders(cls: type) -> tuple[tuple[str, Decoder], ...]:
    hints = get_type_hints(cls)
    return tuple((field.name, _decoder(hints[field.name])) for field in fields(cls))


def _decoder(hint: object) -> Decoder:
    """How a value of that type comes back from JSON. What JSON knows by itself is left alone."""
    if hint is datetime:
        return lambda value: time_of(cast(str, value))
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value: _built(hint, value)
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        inner = [part for part in parts if part is not types.NoneType]
        return _optional(_decoder(inner[0])) if len(inner) == 1 else _same
    if origin is Mapping:
        return _each_value(_decoder(parts[1]))
    if origin is tuple:
        each = _decoder(parts[0])
        return lambda value: tuple(each(item) for item in cast("list[object]", value))
    return _same


def _same(value: object) -> object:
    return value


def _optional(inner: Decoder) -> Decoder:
    return lambda value: None if value is None else inner(value)


def _each_value(inner: Decoder) -> Decoder:
    if inner is _same:
        return _same
    return lambda value: {name: inner(item) for name, item in cast("dict[str, object]", value).items()}


REVISIONS: tuple[str, ...] = ("0001", "0002", "0003", "0004", "0005")
"""Every revision, oldest first; the last is the one that this program reads and writes."""
REVISION = REVISIONS[-1]

metadata = MetaData()

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("ledger_id", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("restored_at", Text),
)

action_log = Table(
    "action_log",
    metadata,
    Column("seq", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("partner", Text),
    Column("event", Text),
    Column("rule", Text),
    Column("episode", Integer),
    Column("write", Integer),
    Column("attempt", Integer),
    Column("action", Text),
    Column("kind", Text, nullable=False),
    Column("reason", Text),
    Column("why", Text, nullable=False),
    Column("request", Text),
    Column("before", Text),
    Column("response", Text),
    Column("evidence", Text),
    Column("facts", Text),
    Column("by", Text, nullable=False),
    Column("prev", Text, nullable=False),
    Column("hash", Text, nullable=False),
    Index("ix_action_log_event", "partner", "event"),
    Index("ix_action_log_write", "write"),
    Index("ix_action_log_fired", "partner", "at", sqlite_where=text("kind = 'fired'")),
)

writes = Table(
    "writes",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("position", Integer, nullable=False),
    Column("item", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("wish", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("params", Text, nullable=False),
    Column("order", Integer, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("do_hash", Text, nullable=False),
    Column("context", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("rules", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("uncounted", Integer, nullable=False),
    Column("planned_at", Text, nullable=False),
    Column("changed_at", Text, nullable=False),
    Column("due_since", Text, nullable=False, server_default=""),
    Column("first_sent_at", Text),
    Column("last_sent_at", Text),
    Column("unknown_since", Text),
    Column("held_by", Text),
    Column("held_until", Text),
    Column("confirmed_by", Text),
    Column("before", Text),
    Column("before_known", Boolean, nullable=False),
    Column("approved", Boolean, nullable=False),
    Column("extra_attempts", Integer, nullable=False),
    Column("denied", Integer, nullable=False),
    Column("absent_proved", Boolean, nullable=False),
    Column("changed_seq", Integer, nullable=False, server_default="0"),
    Column("sent_seq", Integer, nullable=False, server_default="0"),
    UniqueConstraint("partner", "event", "rule", "episode", "position", "item", name="natural_key"),
    Index("ix_writes_state", "state"),
    Index("ix_writes_target", "partner", "event", "target"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("write", Integer, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("at", Text, nullable=False),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("stops", Boolean, nullable=False),
    Column("spends", Boolean, nullable=False),
    Column("amount", Float),
    Column("outcome", Text, nullable=False),
    Column("task_reads", Integer, nullable=False, server_default="0"),
    Index("ix_attempts_partner", "partner", "stops", "at"),
    Index("ix_attempts_money", "partner", "at", sqlite_where=text("amount IS NOT NULL")),
    Index("ix_attempts_money_event", "partner", "event", "at", sqlite_where=text("amount IS NOT NULL")),
    sqlite_with_rowid=False,
)

rule_memory = Table(
    "rule_memory",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("episode", Integer, nullable=False),
    Column("body", Text, nullable=False),
)

partner_memory = Table(
    "partner_memory",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("body", Text, nullable=False),
)

halts = Table(
    "halts",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text),
    Column("rule", Text),
    Column("until", Text),
    Column("because", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("resumed_at", Text),
)

daemon_status = Table(
    "daemon_status",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True),
    Column("pid", Integer, nullable=False),
    Column("since", Text, nullable=False),
    Column("seen_at", Text, nullable=False),
    Column("body", Text, nullable=False),
)

conditions = Table(
    "conditions",
    metadata,
    Column("when_hash", Text, primary_key=True),
    Column("source", Text, nullable=False),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("rule", Text, primary_key=True),
    Column("ending", Text, primary_key=True),
    Column("at", Text, nullable=False),
    Column("since", Text, nullable=False),
    Column("episode", Integer, nullable=False),
    Column("reason", Text),
    Column("why", Text, nullable=False),
    Column("until", Text),
    Column("when_hash", Text, nullable=False),
    Column("facts", Text, nullable=False),
    Column("read", Text, nullable=False),
    sqlite_with_rowid=False,
)

observed = Table(
    "observed",
    metadata,
    Column("partner", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("fact", Text, primary_key=True),
    Column("params", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
)

observations = Table(
    "observations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("partner", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("fact", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("before", Text),
    Index("ix_observations_at", "partner", "at"),
)
