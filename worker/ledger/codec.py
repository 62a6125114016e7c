"""Times and frozen dataclasses to text and back, exactly.

The shape is read off the dataclass itself, so a field that the model gains needs no second list here: it is stored with
the next change, and an older row, which lacks it, gets the field's default. A field that the model lost is passed over.
Integers and floats stay apart (``500`` is not ``500.0``), because a baseline is compared with what is read later. The
codec never repairs: what cannot be decoded raises `LedgerDamaged`.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TypeVar, Union, cast, get_args, get_origin, get_type_hints

from worker.ledger.damage import damaged, readable
from worker.model.facts import Json

T = TypeVar("T")
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
