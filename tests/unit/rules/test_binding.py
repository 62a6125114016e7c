"""Models bound to YAML: each mistake at its place, with a remedy; what is right is read beside what is wrong."""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from worker.rules.binding import (
    MISTAKES_MAX,
    NAMED,
    SPELLED,
    WHOLE,
    Count,
    Duration,
    Flag,
    Money,
    Section,
    Text,
    Texts,
    bind,
    lasting,
)
from worker.rules.yaml import Document, Value, compose


class Inner(Section):
    few: Annotated[int, Field(ge=1, le=3), WHOLE] | None = None
    most: Money | None = None


class Whole(Section):
    noun: ClassVar[str] = "the whole"
    word: Annotated[Literal["one", "two"], SPELLED] = "one"
    text: Text | None = None
    texts: Texts | None = None
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    named: Annotated[dict[str, Inner], NAMED] = Field(default_factory=dict)
    count: Count | None = None
    flag: Flag = False
    lasts: Duration | None = None
    short: Annotated[timedelta, lasting(most=timedelta(minutes=1))] = timedelta()


class Pair(Section):
    noun: ClassVar[str] = "a pair"
    left: Text
    right: Text


def value(text: str) -> Value:
    found = compose(Document(file="f", text=text))
    if found is None:
        raise ValueError("nothing is written")
    return found


def told(text: str) -> list[tuple[str, str]]:
    return [(str(one.problem).removeprefix("f:1:"), one.hint) for one in bind(Whole, value(text))[1]]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("{word: tow}", "8: word is one of one, two, not 'tow'; did you mean 'two'?", "write two"),
        ("{word: []}", "8: word is one of one, two, not a list or mapping", "write one or two"),
        ("{text: ''}", "8: text must not be empty", "write text: and a text behind it"),
        ("{text: [a]}", "8: text must be a text", "write one text in its place"),
        ("{texts: a}", "9: texts must be a list", "write texts: [a]"),
        ("{texts: []}", "9: texts must not be empty", "write texts: […]"),
        ("{texts: [[]]}", "10: an item of texts must be a text", "write one text in its place"),
        ("{inner: {few: 9}}", "15: inner.few must be 3 or less, not 9", "write 3 or less"),
        ("{inner: {few: 0}}", "15: inner.few must be 1 or more, not 0", "write 1 or more"),
        ("{inner: {most: 0}}", "16: inner.most must be a number above 0, not 0", "write a larger one"),
        (
            "{inner: {most: '5'}}",
            "16: inner.most must be a number above 0, and this is a text",
            "write 5 without quotes",
        ),
        ("{inner: 5}", "9: inner must be a mapping with few, most", "write inner: {few: …, most: …}"),
        ("{inner: {fewer: 5}}", "10: unknown key 'fewer' in inner; did you mean 'few'?", "write few"),
        ("{many: {}}", "8: many must be a list", "write many: [{few: …, most: …}]"),
        ("{many: [{few: x}]}", "15: many.few must be a whole number", "write it in digits, such as 10"),
        ("{many: [x]}", "9: an item of many must be a mapping with few, most", "write {few: …, most: …}"),
        ("{named: x}", "9: named must be a mapping", "write named: {name: …}"),
        ("{named: {a: {few: 5}}}", "19: named.a.few must be 3 or less, not 5", "write 3 or less"),
        ("{count: 99999999999999999999}", "9: count is too large a number", "write a smaller one"),
        ("{flag: maybe}", "8: flag must be true or false", "write true or false"),
        ("{lasts: 3}", "9: lasts: '3' is not a duration", "write 3s, 3m or 3h: a number needs a unit"),
        ("{lasts: 0s}", "9: lasts: '0s' is too short", "write 1ms or more"),
        ("{short: 2m}", "9: short: '2m' is too long", "write 1m or less"),
        ("[]", "1: the whole must be a mapping with word, text,", "write {word: …, text: …"),
    ],
)
def test_a_mistake_is_told_at_its_place_with_a_remedy(text: str, message: str, hint: str) -> None:
    [(said, remedy)] = told(text)
    assert said.startswith(message)
    assert remedy.startswith(hint)


def test_what_is_missing_is_told_where_it_should_stand() -> None:
    _, mistakes = bind(Pair, value("{left: a}"))
    assert [(one.message, one.hint, one.problem.column) for one in mistakes] == [
        ("a pair lacks 'right'", "add right: …", 1)
    ]


def test_what_is_right_is_read_beside_what_is_wrong() -> None:
    found, mistakes = bind(Whole, value("{word: tow, text: a, inner: {few: 9, most: 2}, many: [x, {few: 1}], zz: 1}"))
    assert found is not None
    assert (found.word, found.text, found.inner) == ("one", "a", Inner.model_construct(most=2.0))
    assert found.many == (Inner.model_construct(few=1),)
    assert len(mistakes) == 4, "and nothing is told twice"


def test_a_key_without_a_value_is_as_good_as_none_but_where_a_word_stands_for_it_then() -> None:
    found, mistakes = bind(Whole, value("{text: , inner: {few: null}, many: , count: ~}"))
    assert (found, mistakes) == (Whole(inner=Inner.model_construct()), [])
    _, (mistake,) = bind(Whole, value("{word: }"))
    assert mistake.message == "word says nothing"


def test_a_flood_of_mistakes_ends() -> None:
    text = "{" + ", ".join(f"k{number}: 1" for number in range(MISTAKES_MAX + 5)) + "}"
    assert len(bind(Whole, value(text))[1]) == MISTAKES_MAX
