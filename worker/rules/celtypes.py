"""What a condition's parts can be, as far as the API document says: the types that static checks compare.

A type is a claim about values that reach a condition: ill-typed documented fields are taken out before, so a documented
field has its documented type or is unknown. What the document does not describe is ``any`` and is never complained of.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from worker.model.facts import Field

Kind = Literal["any", "bool", "int", "double", "string", "timestamp", "duration", "null", "list", "object"]

WORDS: Mapping[Kind, str] = {
    "any": "anything",
    "bool": "true or false",
    "int": "a whole number",
    "double": "a number",
    "string": "a text",
    "timestamp": "a time",
    "duration": "a duration",
    "null": "null",
    "list": "a list",
    "object": "a record",
}
NUMERIC: frozenset[Kind] = frozenset({"int", "double"})
ORDERED: frozenset[Kind] = frozenset({"int", "double", "string", "timestamp", "duration", "bool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """One type. ``values``: the documented values of a text, all of them unless ``open_set``.

    ``fields``: the documented fields of a record, None where none is documented. ``items``: the type of a list's items.
    """

    kind: Kind
    nullable: bool = False
    values: tuple[str, ...] = ()
    open_set: bool = False
    fields: "Mapping[str, Type] | None" = None
    items: "Type | None" = None

    @property
    def words(self) -> str:
        """The type in words, for a message."""
        return WORDS[self.kind]


ANY = Type(kind="any")
BOOL = Type(kind="bool")
INT = Type(kind="int")
DOUBLE = Type(kind="double")
STRING = Type(kind="string")
TIMESTAMP = Type(kind="timestamp")
DURATION = Type(kind="duration")
NULL = Type(kind="null")
LIST = Type(kind="list", items=ANY)
OBJECT = Type(kind="object")

_OF_FIELD: Mapping[str, Kind] = {
    "string": "string",
    "integer": "double",
    "number": "double",
    "boolean": "bool",
    "timestamp": "timestamp",
    "list": "list",
    "object": "object",
}


def of_field(field: Field) -> Type:
    """The type of a documented field. Every number from the service is a double in conditions."""
    return Type(
        kind=_OF_FIELD[field.type],
        nullable=field.nullable,
        values=field.values,
        open_set=field.open_set,
        items=ANY if field.type == "list" else None,
    )


def of_record(fields: Mapping[str, Field]) -> Type:
    """The type of a record with these documented fields; others may be there, reached with ``['name']``."""
    return Type(kind="object", fields={name: of_field(field) for name, field in fields.items()})


def comparable(left: Type, right: Type) -> bool:
    """Whether ``==`` between the two can ever be true."""
    if "any" in (left.kind, right.kind):
        return True
    if "null" in (left.kind, right.kind):
        other = right if left.kind == "null" else left
        return other.nullable or other.kind == "null"
    return left.kind == right.kind or {left.kind, right.kind} <= NUMERIC


def ordered(left: Type, right: Type) -> bool:
    """Whether ``<`` between the two can mean anything."""
    if "any" in (left.kind, right.kind):
        return {left.kind, right.kind} <= ORDERED | {"any"}
    return comparable(left, right) and left.kind in ORDERED
