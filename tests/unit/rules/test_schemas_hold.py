"""What editors are told is what the loader takes: every shipped file against its schema, judged by a validator."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest
import yaml

from worker.config.models import SchemaOf, schema

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"# yaml-language-server: \$schema=(\S+)")
SHIPPED = (ROOT / "config.yaml", ROOT / "worker" / "cli" / "demo_rules.yaml", *sorted((ROOT / "rules").rglob("*.yaml")))


class Words(yaml.SafeLoader):
    """YAML as an editor's server reads it: 1.2, where OFF is a word and a day is a text."""


Words.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("timestamp", "bool"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Words.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


@cache
def validator(of: SchemaOf) -> Any:  # noqa: ANN401 - jsonschema's own
    jsonschema.Draft202012Validator.check_schema(schema(of))
    return jsonschema.Draft202012Validator(schema(of))


def complaints(of: SchemaOf, text: str) -> list[str]:
    return [error.json_path + ": " + error.message[:200] for error in validator(of).iter_errors(yaml.load(text, Words))]  # noqa: S506 - safe


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_shipped_file_names_its_schema_and_holds_to_it(file: Path) -> None:
    text = file.read_text("utf-8")
    named = NAMED.match(text)
    assert named is not None, "the first line names the schema, for the editor"
    target = (file.parent / named[1]).resolve()
    assert target.is_file(), named[1]
    of: SchemaOf | None = next((one for one in get_args(SchemaOf) if one == target.stem), None)
    assert of is not None
    assert not complaints(of, text)


@pytest.mark.parametrize("of", get_args(SchemaOf))
def test_every_key_has_words_and_an_example_and_the_example_is_right(of: SchemaOf) -> None:
    whole = schema(of)
    missing = [path for path, key in keys(whole, of) if not key.get("description") or "examples" not in key]
    assert not missing, "an editor shows what a key means, and an example"
    for path, key in keys(whole, of):
        one = {**key, "$defs": whole.get("$defs", {})}
        for example in key["examples"]:
            assert not list(jsonschema.Draft202012Validator(one).iter_errors(example)), f"{path}: {json.dumps(example)}"


@pytest.mark.parametrize(
    ("of", "text"),
    [
        ("rules", "rules: [{id: a, wen: x, do: [pause]}]"),
        ("rules", "rules: [{id: a, when: x, do: [puase]}]"),
        ("rules", "rules: [{id: a, when: x, do: [{frontend_status: GONE}]}]"),
        ("rules", "rules: [{id: a, when: x, cooldown: 10, do: [pause]}]"),
        ("rules", "rules: [{id: a, do: [pause]}]"),
        ("tests", "tests: [{name: a, steps: [{at: 0s, expcet: []}]}]"),
        ("tests", "tests: [{name: a, steps: [{at: 0s, states: [{action: pause, state: done}]}]}]"),
        ("tests", "tests: [{name: a, given: {evnt: {}}, steps: [{at: 0s}]}]"),
        ("config", "mode: lives"),
        ("config", "pol: {interval: 3s}"),
    ],
)
def test_an_editor_sees_a_slip_while_it_is_typed(of: SchemaOf, text: str) -> None:
    assert complaints(of, text)


def keys(part: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:  # noqa: ANN401 - JSON
    """Every key of every mapping in a schema."""
    if isinstance(part, list):
        for number, one in enumerate(part):
            yield from keys(one, f"{path}[{number}]")
    elif isinstance(part, dict):
        for name, one in part.get("properties", {}).items():
            if isinstance(one, dict):
                yield f"{path}.{name}", one
        for name, one in part.items():
            if name not in ("examples", "default", "enum", "const"):
                yield from keys(one, f"{path}.{name}" if name not in ("properties", "$defs") else path)
