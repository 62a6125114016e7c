"""Models of what people write, read from YAML with places: each mistake at its place, in our words, with a remedy.

A model has a key for each key of the file, and leaves that are the few kinds of values that people write. Pydantic
judges; what it finds is put back at its place here, with the nearest right name, for config, rules and rule tests.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Final, Self, TypeVar, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from worker.model.errors import Code, Problem
from worker.model.facts import Json
from worker.rules.spelling import EXAMPLES, duration_meant, duration_text, instead, meant, nearest, parse_duration
from worker.rules.yaml import Entries, Items, Scalar, Value

TEXT_LENGTH_MAX = 10_000
MISTAKES_MAX = 1_000
"""More mistakes of a file are not told at once."""
A_MOMENT: Final = timedelta(milliseconds=1)
WHAT: Final = "\0"
"""Stands for the name of a key in a message that is made where the name is not known."""
Loc = tuple[str | int, ...]
Tree = Any
"""A value of a file as pydantic takes it: lists are lists, the rest knows its place; or what stands in code."""


class Slip(ValueError):
    """What is wrong with one value, and what to do. ``at``: at this part of it; ``offset``: at this character."""

    def __init__(
        self, message: str, hint: str = "", *, code: Code = "value", at: Value | None = None, offset: int | None = None
    ) -> None:
        super().__init__(message)
        self.hint, self.code, self.at, self.offset = hint, code, at, offset


def all_of(slips: Iterable[Slip]) -> ValidationError:
    """Several that are found at once."""
    kind = PydanticCustomError
    found: list[InitErrorDetails] = [
        {"type": kind("value_error", "wrong", {"error": one}), "loc": (), "input": None} for one in slips
    ]
    return ValidationError.from_exception_data("several", found)


class Section(BaseModel):
    """A mapping of a file: unknown keys are errors, and nothing changes afterwards. A key without a value is as good as
    none, unless ``keeps_nulls``, or a word or a number stands for it then: who writes ``mode:`` may mean another one.
    ``noun``: how messages name it, where it has another name than its key. ``otherwise``: what is said where it is no
    mapping, and the remedy."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, arbitrary_types_allowed=True, defer_build=True
    )
    noun: ClassVar[str] = ""
    keeps_nulls: ClassVar[bool] = False
    otherwise: ClassVar[tuple[str, str]] = ("", "")

    _entries: Entries = PrivateAttr()

    @model_validator(mode="wrap")
    @classmethod
    def _placed(cls, value: Tree, judge: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, Entries):
            return judge(value)
        known = cls.keys()
        nulls = [name for name in known if (part := value.get(name)) is not None and is_null(part)]
        left_out = {name for name in nulls if not (cls.keeps_nulls or isinstance(known[name].default, _ONE_VALUE))}
        found = judge({name: _listed(part) for name, (_, part) in value.named.items() if name not in left_out})
        found._entries = value  # noqa: SLF001 - its own
        return found

    def __eq__(self, other: object) -> bool:
        """Where it stands is no part of what it says."""
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment]

    @property
    def entries(self) -> Entries:
        """What it was read from, for the places of its keys."""
        return self._entries

    @property
    def line(self) -> int:
        """Where it stands."""
        return self._entries.document.line_of(self._entries.start)

    @classmethod
    def keys(cls) -> Mapping[str, FieldInfo]:
        """The keys as they are written."""
        return {field.alias or name: field for name, field in cls.model_fields.items()}

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """What to add to the message about an unknown key, and the remedy."""
        return meant(name, cls.keys()), instead(name, cls.keys())

    @classmethod
    def about_missing(cls, name: str) -> tuple[str, str]:
        """What is said where a key is missing, and the remedy."""
        return f"{WHAT} lacks '{name}'", f"add {name}: …"

    @classmethod
    def inside(cls, part: str | int) -> Any:  # noqa: ANN401 - annotations have no common type
        """How what stands under a key is annotated; None where there is none."""
        field = cls.keys().get(str(part))
        return None if field is None else field.annotation


class Part(Section):
    """A rule, or a mapping in one: a key without a value is a mistake, and no limit that somebody takes for one."""

    keeps_nulls: ClassVar[bool] = True


_ONE_VALUE = (str, int, timedelta)
"""The kinds of defaults that are said in a word or a number."""
Model = TypeVar("Model", bound=Section)


def is_null(value: Value) -> bool:
    """A key without a value."""
    return isinstance(value, Scalar) and value.is_null


def _listed(value: Tree) -> Tree:
    return [_listed(item) for item in value.items] if isinstance(value, Items) else value


# the kinds of values


def _spelled(value: Tree) -> str:
    """A text, a number or a word as it is written: ``OFF`` is a word here, and 007 somebody's id."""
    if not isinstance(value, Scalar) or value.is_null:
        raise Slip(f"{WHAT} must be a text", "write one text in its place")
    if len(value.text) > TEXT_LENGTH_MAX:
        raise Slip(f"{WHAT} is longer than {TEXT_LENGTH_MAX} characters", "shorten it")
    return value.text if value.text.strip() else ""


def _worded(value: Tree) -> Tree:
    return value.text if isinstance(value, Scalar) else value


def _whole(value: Tree) -> int:
    found = value.integer if isinstance(value, Scalar) else None
    if found is None:
        raise _no_number(value, "a whole number", "such as 10")
    return found


def _number(value: Tree) -> float:
    found = value.number if isinstance(value, Scalar) else None
    if found is None or not abs(found) < float("inf"):
        raise _no_number(value, "a number above 0", "such as 500 or 12.5")
    return float(found)


def _no_number(value: Tree, wanted: str, such_as: str) -> Slip:
    if isinstance(value, Scalar) and not value.plain and replace(value, plain=True).number is not None:
        return Slip(f"{WHAT} must be {wanted}, and this is a text", f"write {value.text} without quotes")
    if isinstance(value, Scalar) and value.plain and value.text.lstrip("-").isdigit() and value.text[0] != "0":
        return Slip(f"{WHAT} is too large a number", "write a smaller one")
    return Slip(f"{WHAT} must be {wanted}", f"write it in digits, {such_as}")


def _flag(value: Tree) -> bool:
    found = value.boolean if isinstance(value, Scalar) else None
    if found is None:
        raise Slip(f"{WHAT} must be true or false", "write true or false")
    return found


def _condition(value: Tree) -> Scalar:
    if not isinstance(value, Scalar) or value.is_null:
        hint = f"join its parts by && or ||; quote it, or begin it on a new line after `{WHAT}: |`"
        raise Slip(f"{WHAT} must be a condition in one text", hint)
    return value


def json_of(value: Tree) -> Json:
    """What is written, as JSON."""
    if isinstance(value, list):
        return [json_of(item) for item in value]
    found: Json = value.json
    return found


def lasting(least: timedelta = A_MOMENT, why: str = "", most: timedelta = timedelta.max) -> BeforeValidator:
    """A duration of this length or more, and not of more than that."""

    def read(value: Tree) -> timedelta:
        if not isinstance(value, Scalar):
            raise Slip(f"{WHAT} must be a duration", f"write {WHAT}: 10m")
        try:
            found = parse_duration(value.text)
        except ValueError as error:
            raise Slip(f"{WHAT}: {error}", f"write {duration_meant(value.text)}") from None
        if found < least:
            raise Slip(f"{WHAT}: '{value.text}' is too short{why}", f"write {duration_text(least)} or more")
        if found > most:
            raise Slip(f"{WHAT}: '{value.text}' is too long", f"write {duration_text(most)} or less")
        return found

    return BeforeValidator(read)


def _by_name(value: Tree) -> Tree:
    """A mapping of names that the file chooses."""
    return {name: _listed(part) for name, (_, part) in value.named.items()} if isinstance(value, Entries) else value


_PARTNER_ID: Final = re.compile(r"(?!(\.+|all|any|discover)$)([!-~](?<![/\\?#%*]))+")
"""What can stand in a path as it is, and no word for all of them, which would be taken for the one of that name."""


def partner_id(text: str) -> str:
    """An id that a partner can have."""
    if not _PARTNER_ID.fullmatch(text):
        hint = "as in partner-id-the-hall: no space, nothing that ends a path; where all are meant, leave it out"
        raise Slip(f"{WHAT}: {text!r} is no partner id", hint)
    return text


DURATION: Final = WithJsonSchema(
    {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$", "examples": EXAMPLES.split(", ")}
)
SPELLED: Final = BeforeValidator(_worded)
"""One of a few words, taken as it is spelled."""
TEXT: Final = BeforeValidator(_spelled)
Text = Annotated[str, Field(min_length=1), TEXT]
Id = Annotated[Text, WithJsonSchema({"type": ["string", "integer"]})]
"""A text that a bare number spells as well."""
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
WHOLE: Final = BeforeValidator(_whole)
Count = Annotated[int, Field(ge=1), WHOLE]
Money = Annotated[float, Field(gt=0), BeforeValidator(_number)]
Flag = Annotated[bool, BeforeValidator(_flag)]
Duration = Annotated[timedelta, lasting(), DURATION]
Span = Annotated[timedelta, lasting(timedelta()), DURATION]
"""A duration that may be none at all."""
Cel = Annotated[Any, BeforeValidator(_condition), WithJsonSchema({"type": ["string", "boolean"]})]
"""A condition: a scalar with its place, which is compiled by who knows its names."""
AnyJson = Annotated[Any, BeforeValidator(json_of)]
NAMED: Final = BeforeValidator(_by_name)


def list_of(begin: str) -> BeforeValidator:
    """A list whose items begin so."""

    def read(value: Tree) -> Tree:
        if not isinstance(value, list):
            raise Slip(f"{WHAT} must be a list", f"begin each of them with `- {begin}: …`")
        return value

    return BeforeValidator(read)


class SchemaOfFile(GenerateJsonSchema):
    """JSON Schema as editors show it: defaults are spelled as people do, and keys have no second name."""

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401 - pydantic's own signature
        return duration_text(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Any]:  # noqa: ANN401 - as above
        """Each key without an example has its default for one."""
        found = super().generate(schema, mode)
        for part in (found, *found.get("$defs", {}).values()):
            for key in part.get("properties", {}).values():
                if "examples" not in key and key.get("default") is not None:
                    key["examples"] = [key["default"]]
        return found

    def sort(self, value: Any, parent_key: str | None = None) -> Any:  # noqa: ANN401 - as above
        """Keys stand in the order of the models."""
        del parent_key
        return value

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401 - pydantic's own signature
        del schema
        return False


_LATER: Final = "$ref later"


def later(name: str) -> dict[str, Any]:
    """A schema that refers to a definition which follows from a registry: pydantic knows its own only."""
    return {_LATER: f"#/$defs/{name}"}


def with_later(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema with those definitions in it."""
    found: dict[str, Any] = json.loads(json.dumps(schema).replace(_LATER, "$ref"))
    return found


# binding


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One thing that is wrong, at a value or at a key. ``loc``: the way to it."""

    loc: Loc
    place: Value
    message: str
    hint: str = ""
    code: Code = "value"
    offset: int | None = None
    severity: str = "error"

    @property
    def problem(self) -> Problem:
        """The same for people."""
        index = self.place.start
        if self.offset is not None and isinstance(self.place, Scalar):
            index = self.place.index_of(self.offset)
        return self.place.document.problem(index, self.message, hint=self.hint, code=self.code, severity=self.severity)


class Form:
    """What is wrong with a rule, gathered while it is read, so that one run shows every mistake at its place."""

    def __init__(self, mistakes: Iterable[Mistake] = ()) -> None:
        self.errors = [one.problem for one in mistakes]
        self.warnings: list[Problem] = []

    def note(
        self,
        value: Value,
        message: str,
        *,
        hint: str = "",
        code: Code = "value",
        offset: int | None = None,
        severity: str = "error",
    ) -> None:
        """Notes a finding at a value, or at a character inside its text."""
        found = Mistake(loc=(), place=value, message=message, hint=hint, code=code, offset=offset, severity=severity)
        (self.errors if severity == "error" else self.warnings).append(found.problem)

    def warn(self, value: Value, message: str, *, hint: str, code: Code, offset: int | None = None) -> None:
        """Notes what is probably not meant so."""
        self.note(value, message, hint=hint, code=code, offset=offset, severity="warning")


def bind(model: type[Model], root: Value, context: object = None) -> tuple[Model | None, list[Mistake]]:
    """What a file says, as far as it is right, and everything that is wrong with it: what is wrong is as if it were not
    written, so that whoever looks further does not tell of it twice. None where nothing is left."""
    tree: Value | None = root
    mistakes: list[Mistake] = []
    while tree is not None:
        try:
            return model.model_validate(_listed(tree), context=context), mistakes
        except ValidationError as error:
            found = error.errors(include_url=False, include_input=False)
        found = [{**one, "loc": _as_written(tree, one["loc"])} for one in found]
        found = [one for one in found if not _is_echo(tree, one)]
        mistakes = mistakes or [_mistake(model, root, one) for one in found[:MISTAKES_MAX]]
        tree = _without(tree, [one["loc"] for one in found])
    return None, mistakes


def mistake_at(model: type[Section], root: Value, loc: Loc, slip: Slip, *, key: bool = False) -> Mistake:
    """A mistake that only the whole shows. ``key``: it is the key that is wrong."""
    last = next((part for part in reversed(loc) if isinstance(part, str)), "")
    message = str(slip).replace(WHAT, _name(model, loc))
    hint = slip.hint.replace(f"{WHAT}: ", f"{last}: " if last else "")
    place = slip.at or place_of(root, loc, key=key)
    return Mistake(loc=loc, place=place, message=message, hint=hint, code=slip.code, offset=slip.offset)


def place_of(root: Value, loc: Sequence[str | int], *, key: bool = False) -> Value:
    """The value at the end of a way, or the nearest one around it; the key itself, if that is asked for."""
    found = root
    for number, part in enumerate(loc, start=1):
        inner: Value | None = None
        if isinstance(found, Entries) and isinstance(part, str):
            inner = found.key(part) if key and number == len(loc) else found.get(part)
        elif isinstance(found, Items) and isinstance(part, int) and part < len(found.items):
            inner = found.items[part]
        if inner is None:
            break
        found = inner
    return found


def _without(value: Value, locs: Iterable[Sequence[str | int]]) -> Value | None:
    """The value without those at the ends of these ways; what lacks something goes itself."""
    if isinstance(value, Scalar):
        return None
    parts = dict(enumerate(value.items)) if isinstance(value, Items) else {k: v for k, (_, v) in value.named.items()}
    wrong: dict[str | int, list[Sequence[str | int]]] = {}
    for loc in locs:
        if not loc or loc[0] not in parts:
            return None
        wrong.setdefault(loc[0], []).append(loc[1:])
    left = {name: _without(part, wrong[name]) if name in wrong else part for name, part in parts.items()}
    if isinstance(value, Items):
        return replace(value, items=tuple(part for part in left.values() if part is not None))
    named = value.named.items()
    return replace(value, named={name: (key, part) for name, (key, _) in named if (part := left[name]) is not None})


def _mistake(model: type[Section], root: Value, error: ErrorDetails) -> Mistake:
    loc, context = error["loc"], error.get("ctx", {})
    slip, key = context.get("error"), loc[-1:] == ("[key]",)
    loc = loc[:-1] if key else loc
    place = place_of(root, loc)
    of_keys = key or error["type"] in ("extra_forbidden", "missing")
    if is_null(place) and not of_keys and getattr(slip, "at", None) is None:
        slip = Slip(f"{WHAT} says nothing", "give it a value, or take the key away", code="missing")
    if not isinstance(slip, Slip):
        ways = (loc[:-1], (*loc[:-1], 0))  # a value may stand for a list of one
        around = next((one for way in ways if (one := section_in(_annotation(model, way)))), Section)
        match error["type"]:
            case "extra_forbidden":
                tail, hint = around.about_unknown(str(loc[-1]))
                message = f"unknown key '{loc[-1]}' in {_name(model, loc[:-1])}{tail}"
                slip, key = Slip(message, hint, code="key"), True
            case "missing":
                message, hint = around.about_missing(str(loc[-1]))
                slip, loc = Slip(message, hint, code="missing"), loc[:-1]
            case "literal_error":
                slip = _of_words(place, str(context["expected"]))
            case "model_type":
                slip = _no_mapping(model, loc, place)
            case "tuple_type":
                item = _item(model, loc, place)
                hint = "begin each of its items with `- `" if item == "…" else f"write {WHAT}: [{item}]"
                slip = Slip(f"{WHAT} must be a list", hint)
            case "too_short":
                slip = Slip(f"{WHAT} must not be empty", f"write {WHAT}: [{_item(model, loc, place)}]")
            case kind:
                message, hint = _worded_as(kind, context, place)
                slip = Slip(f"{WHAT} {message or error['msg'].lower()}", hint)
    return mistake_at(model, root, loc, slip, key=key)


def _as_written(tree: Value, loc: Loc) -> Loc:
    """The way to a place without the steps into a value that stands for a list of one."""
    found: list[str | int] = []
    for part in loc:
        if part != 0 or isinstance(place_of(tree, found), Items):
            found.append(part)
    return tuple(found)


def _is_echo(tree: Value, error: ErrorDetails) -> bool:
    """A list of which every item is wrong is not empty as well."""
    place = place_of(tree, error["loc"])
    return error["type"] == "too_short" and not (isinstance(place, Items) and not place.items)


def _worded_as(kind: str, context: Mapping[str, Any], place: Value) -> tuple[str, str]:
    """What is wrong, behind the name of the key, and the remedy."""
    given = f", not {place.text}" if isinstance(place, Scalar) else ""
    least, most = context.get("ge"), context.get("le")
    return {
        "dict_type": ("must be a mapping", f"write {WHAT}: {{name: …}}"),
        "string_too_short": ("must not be empty", f"write {WHAT}: and a text behind it"),
        "too_long": (f"has more than {context.get('max_length')} items", "split it"),
        "greater_than": (f"must be a number above {context.get('gt', 0):g}{given}", "write a larger one"),
        "greater_than_equal": (f"must be {least} or more{given}", f"write {least} or more"),
        "less_than_equal": (f"must be {most} or less{given}", f"write {most} or less"),
    }.get(kind, ("", ""))


def _of_words(place: Value, expected: str) -> Slip:
    allowed = [word.strip("' ") for word in expected.replace(" or ", ",").split(",")]
    spelled = place.text if isinstance(place, Scalar) else ""
    near = nearest(spelled, allowed)
    said = f"'{spelled}'" if isinstance(place, Scalar) else "a list or mapping"
    tail = meant(spelled, allowed) if near else ""
    return Slip(f"{WHAT} is one of {', '.join(allowed)}, not {said}{tail}", f"write {near or ' or '.join(allowed)}")


def _no_mapping(model: type[Section], loc: Loc, place: Value) -> Slip:
    section = section_in(_annotation(model, loc)) or Section
    if section.otherwise[0]:
        return Slip(*section.otherwise)
    keys, name = ", ".join(section.keys()), "" if loc and isinstance(loc[-1], int) else f"{WHAT}: "
    return Slip(f"{WHAT} must be a mapping with {keys}", f"write {name}{{{_keys(section, place)}}}")


def _keys(section: type[Section], place: Value) -> str:
    """What must stand in a section; of one with a single key, the value that stands in the mapping's place."""
    names = [name for name, field in section.keys().items() if field.is_required()] or list(section.keys())
    text = place.text if isinstance(place, Scalar) and len(names) == 1 else "…"
    return ", ".join(f"{name}: {text}" for name in names)


def _item(model: type[Section], loc: Loc, place: Value) -> str:
    section = section_in(_annotation(model, (*loc, 0)))
    if section is not None and section.keys():
        return f"{{{_keys(section, Items(document=place.document, items=(), start=0))}}}"
    return (place.text if isinstance(place, Scalar) else "") or "…"


# what the models say of a place


def _annotation(model: type[Section], loc: Loc) -> Any:  # noqa: ANN401 - annotations have no common type
    found: Any = model
    for part in loc:
        found = _inside(found, part)
    return found


def _inside(annotation: Any, part: str | int) -> Any:  # noqa: ANN401 - as above
    """What stands at a key, a name or a number of what is annotated so; None where nothing does."""
    if isinstance(annotation, type) and hasattr(annotation, "inside"):
        return annotation.inside(part)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is tuple and isinstance(part, str):
        return _inside(arguments[0], part)
    if origin in (tuple, dict):
        return arguments[0 if origin is tuple else 1]
    return next((found for one in arguments if (found := _inside(one, part)) is not None), None)


def section_in(annotation: Any) -> type[Section] | None:  # noqa: ANN401 - as above
    """The section that is annotated so, or may be; None for lists and mappings of some."""
    if isinstance(annotation, type) and hasattr(annotation, "inside"):
        return annotation
    if get_origin(annotation) in (tuple, dict):
        return None
    return next((found for one in get_args(annotation) if (found := section_in(one)) is not None), None)


def _name(model: type[Section], loc: Loc) -> str:
    """How a message names a place: by its keys, from the nearest thing that has a name of its own."""
    found, noun, names = model, model.noun, list[str | int]()
    for part in loc:
        found = _inside(found, part)
        section = section_in(found)
        names = [*names, part]
        if section is not None and section.noun:
            noun, names = section.noun, []
    if not names:
        return noun
    dotted = ".".join(str(part) for part in names if isinstance(part, str))
    return f"an item of {dotted}" if isinstance(names[-1], int) else dotted
