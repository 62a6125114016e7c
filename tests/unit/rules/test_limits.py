"""The edges: named limits, odd spellings, and files that cannot be read."""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.builders import NOW, a_fact, a_scope
from tests.unit.rules.reading import the_rule
from worker.model.errors import InputErrors
from worker.model.facts import CustomFact
from worker.model.rules import Truth
from worker.rules import load
from worker.rules.binding import Form
from worker.rules.cel import SOURCE_LENGTH_MAX, BadSyntax, parse
from worker.rules.check import check_condition
from worker.rules.evaluate import expression
from worker.rules.models import RULES_MAX
from worker.rules.registry import BUILT_IN, with_custom
from worker.rules.spelling import duration_text, parse_duration, parse_moment
from worker.rules.yaml import NODES_MAX, TEXT_MAX_BYTES, Document, Scalar, compose, offsets_of

NAMES = {name: fact.type for name, fact in BUILT_IN.items()}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "the condition is empty"),
        ("a" * (SOURCE_LENGTH_MAX + 1), f"the condition is longer than {SOURCE_LENGTH_MAX} characters"),
        ("!" * 2000 + "a", "the condition is nested too deeply"),
        ("(" * 200 + "a" + ")" * 200, "nested too deeply"),
        (r"'\d'", r"\d is no escape that CEL knows"),
        ("!-event.capacity", "'-' is not expected here"),
        ("1u", "numbers without a sign are not known here"),
        ("b'a'", "bytes are not known here"),
        ("has(a)", "has() takes a field"),
        ("a.all(x)", "'all' takes a name and a condition"),
    ],
)
def test_a_text_that_is_no_condition_says_so(source: str, message: str) -> None:
    with pytest.raises(BadSyntax, match=re.escape(message)):
        parse(source)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("event.start_date_time - now < '3d'", "write duration('3d')"),
        ("event.start_date_time - now < 'soon'", "write duration('7d')"),
        ("event.start_date_time - now < 3", "write duration('7d')"),
        ("event.start_date_time - 'x' < duration('7d')", "write timestamp('2026-01-31T00:00:00Z')"),
        ("event.city in {'x': 1}", ""),
        ("event.status == 5", "write the text in quotes: event.status == '5'"),
        ("5 != event.status", "write the text in quotes: '5' != event.status"),
        ("event.city < 1.5", "write the text in quotes: event.city < '1.5'"),
        ("event.capacity > '100'", "write the number without quotes"),
    ],
)
def test_remedies(source: str, hint: str) -> None:
    found = check_condition(parse(source), NAMES)
    assert [one.hint for one in found] == ([hint] if hint else [])


def test_a_list_where_a_record_was_expected_is_named() -> None:
    scope = a_scope({"event": a_fact({"benchmark": [1]})})
    judgement = expression("event.benchmark.prediction == 1.0").judge(scope)
    assert judgement.truth is Truth.UNKNOWN
    assert judgement.why == "event.benchmark is a list of 1 and has no field 'prediction'"


def test_durations_are_spelled_as_they_are_read() -> None:
    assert [duration_text(parse_duration(text)) for text in ("90s", "1.5h", "0s", "7d")] == [
        "1m30s",
        "1h30m",
        "0s",
        "7d",
    ]
    assert duration_text(-timedelta(minutes=1)) == "-1m"


def test_a_time_is_how_long_ago_or_when() -> None:
    for text in ("2h", "2026-03-01T10:00:00Z", "2026-03-01 11:00+01:00", "2026-03-01T10:00"):
        assert parse_moment(text, NOW) == NOW - timedelta(hours=2)
    for text in ("noon", "", "0001-01-01T00:00:00+14:00"):
        with pytest.raises(ValueError, match="is no time"):
            parse_moment(text, NOW)


def test_a_place_is_never_invented() -> None:
    assert offsets_of("abc", "xyz") is None
    assert offsets_of('"a"', "abc") is None
    scalar = Scalar(document=Document(file="f", text="abc"), text="xyz", plain=True, start=0, end=3)
    assert scalar.index_of(2) == 0
    assert offsets_of('"a\\\n  b"', "ab") == [1, 6, 7], "an escaped line break is nothing"


def test_long_texts_and_many_rules_are_refused() -> None:
    with pytest.raises(InputErrors, match="longer than"):
        compose(Document(file="f", text=" " * (TEXT_MAX_BYTES + 1)))
    with pytest.raises(InputErrors, match=f"rules has more than {RULES_MAX} items"):
        load.read_rules({"f": "rules: [" + "a," * (RULES_MAX + 1) + "]"})


def test_a_rule_may_have_times_in_a_zone() -> None:
    text = "rules: [{id: a, when: event.city == 'x', do: [pause], at: '* * * * *', timezone: Europe/Berlin}]"
    at = the_rule(text).at
    assert at is not None
    assert (at.source, at.timezone) == ("* * * * *", "Europe/Berlin")


def test_folders_beyond_reach_or_limit_are_told(tmp_path: Path) -> None:
    for number in range(load.FILES_MAX + 1):
        (tmp_path / f"{number}.yaml").touch()
    with pytest.raises(InputErrors, match=f"more than {load.FILES_MAX} rule files"):
        load.load_rules(tmp_path)
    with pytest.raises(InputErrors, match="cannot be read: File name too long"):
        load.load_rules(Path("x" * 5000))


def test_the_hash_of_nested_files_is_of_their_names_below_the_folder() -> None:
    one = load.read_rules({"a/x/1.yaml": "", "a/y/1.yaml": ""}).rules.hash
    assert one == load.read_rules({"b/x/1.yaml": "", "b/y/1.yaml": ""}).rules.hash
    assert one != load.read_rules({"a/x/1.yaml": "", "a/z/1.yaml": ""}).rules.hash


def test_any_field_of_a_fact_of_the_config_can_be_compared() -> None:
    custom = with_custom({"spend": CustomFact(name="spend", get="/x")})
    text = "rules: [{id: a, on_change: {fact: spend, by: [anything]}, do: [pause]}]"
    assert the_rule(text, custom).on_change[0].by == ("anything",)


def test_a_form_notes_a_place_inside_a_text() -> None:
    value = compose(Document(file="f", text="'a''b c'"))
    assert value is not None
    form = Form()
    form.note(value, "here", offset=3)
    assert str(form.errors[0]) == "f:1:6: here"


def test_an_alias_counts_as_what_it_stands_for() -> None:
    """Nine lines that would be a billion values end at the limit, before anybody writes them out."""
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 9)]
    with pytest.raises(InputErrors, match=f"more than {NODES_MAX} values"):
        compose(Document(file="f", text="\n".join(lines)))
    few = compose(Document(file="f", text="[&a {x: 1}, *a]"))
    assert few is not None
    assert few.json == [{"x": 1}, {"x": 1}]


def test_an_anchor_given_twice_is_told() -> None:
    with pytest.raises(InputErrors, match="f:1:8: this anchor is given twice"):
        compose(Document(file="f", text="[&a 1, &a 2, *a]"))
