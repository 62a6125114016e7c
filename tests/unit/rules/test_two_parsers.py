"""Files say the same whether PyYAML was built with libyaml or not, and their mistakes are told in the same words."""

import re
from pathlib import Path

import pytest
import yaml

from worker.model.errors import InputErrors
from worker.rules import yaml as places
from worker.rules.yaml import Document, Items, Scalar, Value, compose

ROOT = Path(__file__).parents[3]
FILES = [*(ROOT / "rules").rglob("*.yaml"), *(ROOT / "tests/broken_rules").glob("*.yaml"), ROOT / "config.yaml"]
ODD = {
    "a tab between values": "a: {b:\t1}",
    "a tab behind a value": "a: b\t# c\nd: 1",
    "a mark of byte order": "\ufeffa: b",
    "a mark of byte order later": "a: b\n\ufeff",
    "a break of another kind": "a: b\x85c: d",
    "a break within a text": "a: 'b\u2028c'",
    "letters beyond ASCII": "größe: [é, '😀', \"\\U0001F600\"]",
    "breaks of another system": "a: b\r\nc:\r\n  - d\r\n",
    "an alias": "a: &x {b: 1}\nc: {<<: *x, d: 2}",
    "an alias inside of itself": "a: &x [*x]",
    "nested too deeply": "[" * 100_000,
    "nested as deeply as may be": "[" * 40 + "]" * 40,
    "a name that names nothing": "a: *b",
    "two documents": "a: b\n---\nc: d",
    "an odd character": "a: \x01",
    "a block": "a: |\n  b\n\n   c\nd: >-\n  e\n  f\n",
    "an empty text": "",
}


def spelled(value: Value | None) -> object:
    """The value with its places; but for those of what is empty, which differ by a blank."""
    if value is None or isinstance(value, Scalar):
        return value and (value.text, value.plain, value.text and (value.start, value.end))
    if isinstance(value, Items):
        return [spelled(one) for one in value.items], value.start
    return {name: (spelled(key), spelled(one)) for name, (key, one) in value.named.items()}, value.start


def read(text: str) -> object:
    try:
        return spelled(compose(Document(file="rules.yaml", text=text)))
    except InputErrors as errors:
        return errors.problems


@pytest.mark.parametrize("text", [*ODD.values(), *(path.read_bytes().decode(errors="replace") for path in FILES)])
def test_both_parsers_read_alike(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = read(text)
    monkeypatch.setattr(places, "QUICK", yaml.BaseLoader)
    assert quick == read(text)


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")
def test_what_is_in_order_is_read_by_the_quick_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """By Python's own, ten thousand steps of rule tests are read in 3 s and not in 1."""
    monkeypatch.setattr(yaml, "BaseLoader", None)
    for path in (ROOT / "rules").rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert not re.search("[\t\ufeff]", text)
        assert compose(Document(file=path.name, text=text)) is not None
