"""The keys of config.yaml as a table, from the models that the config is read with."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel

from tests.reference.spelling import flow
from worker.config.models import Config, schema
from worker.model.facts import Json
from worker.rules.spelling import duration_text

Section = Mapping[str, Any]


class ConfigKey(BaseModel):
    """One key of the config, as the table shows it."""

    name: str
    type: str
    default: str
    about: str


def config_keys() -> tuple[ConfigKey, ...]:
    """Every key, dotted, in the file's order. ``NAME`` stands for a name of one's own, ``[]`` for an item of a list."""
    whole = schema("config")
    return tuple(_keys_in(whole, whole["$defs"], "", Config.model_validate({})))


def _keys_in(whole: Section, sections: Section, above: str, values: BaseModel | None) -> Iterator[ConfigKey]:
    """``values``: the defaults; None below a name of one's own, where nothing stands unless it is written."""
    for name, spelled in whole["properties"].items():
        dotted, value = f"{above}{name}", _of(values, name)
        about = str(spelled.get("description", ""))
        suffix, inner = _inner(spelled)
        nested = value if isinstance(value, BaseModel) and not suffix else None
        section = inner is not None and nested is not None
        yield ConfigKey(
            name=dotted,
            type="section" if section else _type(spelled),
            default="" if section else _default(spelled, value if values is not None else _left_out(whole, name)),
            about=about,
        )
        if inner is not None:
            yield from _keys_in(sections[inner], sections, f"{dotted}{suffix}.", nested)


def _of(values: BaseModel | None, key: str) -> object:
    names = {field.alias or name: name for name, field in type(values).model_fields.items()} if values else {}
    return getattr(values, names[key]) if key in names else None


def _left_out(section: Section, name: str) -> object:
    """What stands for a key that is not written."""
    spelled = section["properties"][name]
    empty: object = {} if spelled.get("type") == "object" and name not in section.get("required", ()) else None
    return spelled.get("default", empty)


def _inner(spelled: Mapping[str, Json]) -> tuple[str, str | None]:
    """The section that a key holds, and how its name goes on: for a mapping of names, or a list."""
    for suffix, part in (("", spelled), (".NAME", spelled.get("additionalProperties")), ("[]", spelled.get("items"))):
        if isinstance(part, dict) and "$ref" in part:
            return suffix, str(part["$ref"]).rpartition("/")[2]
    branches = spelled.get("anyOf")
    for branch in branches if isinstance(branches, list) else []:
        if isinstance(branch, dict) and "$ref" in branch:
            return "", str(branch["$ref"]).rpartition("/")[2]
    return "", None


def _type(spelled: Mapping[str, Json]) -> str:
    branches = spelled.get("anyOf")
    if isinstance(branches, list):
        return " or ".join(_type(branch) for branch in branches if isinstance(branch, dict))
    if "oneOf" in spelled:
        return "{env: NAME} or {file: PATH}"
    choices = spelled.get("enum") or ([spelled["const"]] if "const" in spelled else None)
    if isinstance(choices, list):
        return ", ".join(f"`{choice}`" for choice in choices)
    if "pattern" in spelled and "examples" in spelled and "ms" in str(spelled["pattern"]):
        return "duration"
    items = spelled.get("items")
    if spelled.get("type") == "array" and isinstance(items, dict):
        return f"list of {_type(items)}"
    bounds = [f"{word} {spelled[key]}" for key, word in _BOUNDS.items() if key in spelled]
    return ", ".join((_TYPES.get(str(spelled.get("type")), "section"), *bounds))


_TYPES: Final = {"string": "text", "integer": "whole number", "number": "number", "null": "null", "object": "mapping"}
_BOUNDS: Final = {"minimum": "at least", "maximum": "at most", "exclusiveMinimum": "above"}


def _default(spelled: Mapping[str, Json], value: object) -> str:
    if value is None and "default" not in spelled:
        return "required"
    value = spelled["default"] if value is None else value
    if isinstance(value, timedelta):
        return f"`{duration_text(value)}`"
    return f"`{flow(value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value)}`"
