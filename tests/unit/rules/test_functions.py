"""What the functions and operators do at their edges; the public cases of CEL show the rest."""

from datetime import UTC, datetime
from typing import Any

import pytest

from worker.model.facts import Json
from worker.rules.cel import BadSyntax, parse
from worker.rules.evaluate import compiled, expression
from worker.rules.facts import Run
from worker.rules.functions import CannotEvaluate

NAMES: dict[str, Any] = {
    "now": datetime(9999, 12, 31, 23, tzinfo=UTC),
    "f@1h": {"number": 7},
    "f": {"text": "a", "odd": "\ud800", "number": 2, "none": None, "list": [1, 2]},
}


def value(text: str) -> object:
    return compiled(parse(text))(Run(dict(NAMES)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("duration('-90m').getMinutes()", -90),
        ("duration('-1500ms').getMilliseconds()", 500),
        ("string(duration('-1500ms'))", "-1.5s"),
        ("string(1e20) + string(1e21) + string(1.0) + string(0.00001)", "1000000000000000000001e+2111e-05"),
        ("string(true) + string(dyn('a'))", "truea"),
        ("int(' 1 '.matches('1') ? '7' : '8')", 7),
        ("-9223372036854775808 % -1", 0),
        ("[f.list[1.0], f.list[dyn(0)]]", [2.0, 1.0]),
        ("{'a': 1, 'b': f.number}", {"a": 1, "b": 2.0}),
        ("has(f.number) && !has(f['number2'].x) || true", True),
        ("[sum([]), sum(f.list), sum(1, 2.5), sum([0.1, 0.2, 0.3, -0.6])]", [0.0, 3.0, 3.5, 2.7755575615628914e-17]),
        ("[min(3, 1.5), max([1, 4]), avg([1, 2]), avg(5.0), min(f.list)]", [1.5, 4.0, 1.5, 5.0, 1.0]),
        ("[abs(-2), abs(-2.5), abs(3.0)]", [2.0, 2.5, 3.0]),
        ("[round(2.5), round(-2.5), round(0.49999999999999994), round(1e300), round(7)]", [3.0, -3.0, 0.0, 1e300, 7.0]),
        ("string(round(-0.2))", "0"),
        ("[known(f.number), known(f.nothing), known(f.none), known(g), known(now)]", [True, False, True, False, True]),
        ("f.list.map(x, known(x.y) || known(x))", [True, True]),
        ("known(f.number) ? 1 : 2", 1),
        ("delta(f.number, '1h') + ago(f.number, '1h')", 2.0),
        ("known(ago(f.text, '1h')) || known(ago(f.list, '1h'))", False),
    ],
)
def test_a_value(text: str, expected: Json) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("5 % (size(f.list) - 2)", "it is divided by 0"),
        ("-f.text", "'-' takes a number, and this is a text"),
        ("int(f.text)", "'a' is not a whole number"),
        ("double(f.text)", "'a' is not a number"),
        ("timestamp(f.text)", "'a' is no time"),
        ("timestamp('2026-13-01T00:00:00Z')", "'2026-13-01T00:00:00Z' is no time"),
        ("duration(f.text)", "'a' is not a duration"),
        ("f.text.matches(f.text + '(')", "this pattern is not one that RE2 knows: missing ): a("),
        ("f.text.matches(f.odd)", "this pattern is not one that RE2 knows: it cannot be read"),
        ("f.odd.matches('a')", "a text is not Unicode"),
        ("duration('1h').getHours('UTC')", "'getHours' takes no time zone for a duration"),
        ("now.getHours('+02:00')", "a time lies beyond the years 1 to 9999"),
        ("now + duration('1h')", "a time lies beyond the years 1 to 9999"),
        ("now.getHours(f.text)", "'a' is no time zone"),
        ("min([])", "'min' of an empty list is nothing"),
        ("max(f.list.filter(x, x > 9.0))", "'max' of an empty list is nothing"),
        ("avg([])", "'avg' of an empty list is nothing"),
        ("sum(f.text)", "'sum' does not take a text"),
        ("sum([1, 'a'])", "'sum' takes numbers, and one of these is a text"),
        ("sum(f.list, f.list)", "'sum' takes numbers, and one of these is a list"),
        ("sum([1e308, 1e308])", "'sum' is no finite number"),
        ("round(1e308 * 10.0)", "'round' takes a finite number"),
        ("delta(f.text, '1h')", "there is no field 'text'"),
        ("delta(f.text, '2h')", "f@2h is not known"),
        ("delta(f, '1h')", "'delta' takes a number"),
        ("size(f.number)", "'size' does not take a whole number"),
        ("f.list[0.5]", "a list of 2 has no place 0.5"),
        ("f.list[f.text]", "a list has no [a text]"),
        ("f.text in f.number", "'in' takes a list on its right, and this is a number"),
        ("{f.text: 1, 'a': 2}", "the names of a record's fields are texts, each of its own"),
        ("{f.number: 1}", "the names of a record's fields are texts, each of its own"),
        ("has(f.none.x)", "null has no fields"),
        ("f.text.exists(x, true)", "'exists' goes over a list, and this is a text"),
        ("f.list.filter(x, x)", "'filter' takes true or false, and this is a number"),
        ("f.list.all(x, x)", "'all' takes true or false, and this is a number"),
        ("f.number && true", "'&&' takes true or false, and this is a number"),
        ("unheard", "unheard is not known"),
    ],
)
def test_an_error(text: str, error: str) -> None:
    with pytest.raises(CannotEvaluate) as caught:
        value(text)
    assert str(caught.value).startswith(error)


def test_of_what_nobody_has_asked_for_yet_it_is_not_said_whether_it_is_known() -> None:
    with pytest.raises(CannotEvaluate, match="it was not read yet"):
        compiled(parse("known(g.x)"))(Run({"not read g": True}))
    assert compiled(parse("known(g.x)"))(Run({})) is False


@pytest.mark.parametrize("text", ["delta(f.list[0], '1h')", "ago(f.x)", "known()"])
def test_what_takes_a_field_takes_no_more(text: str) -> None:
    with pytest.raises(BadSyntax, match="takes a field"):
        expression(text)


@pytest.mark.parametrize("text", ["lower(f.text)", "f.x.ago('1h')", "size()", "f.text.startsWith()"])
def test_what_is_no_function_is_not_compiled(text: str) -> None:
    with pytest.raises(BadSyntax, match="is no function, or is not called so"):
        expression(text)


def test_values_that_are_nested_without_end_are_unknown() -> None:
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        compiled(parse("f == f"))(Run({"f": deep}))
