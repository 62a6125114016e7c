"""Many conditions judged together are what each is by itself."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NOW, a_fact, an_observation
from worker.model.facts import Json, Observation, Unknown
from worker.model.rules import Rule, Scope, Truth
from worker.rules.evaluate import Expression, Verdict, Verdicts, covers, expression
from worker.rules.facts import keys_for

QUESTIONS = (
    "event.status == 'active'",
    "'active' == event.status",
    "event.status in ['active', 'gone']",
    "event.status in ['active', 7.0, -1.0]",
    "'a' in event.tags",
    "event.status",
    "event.title.startsWith('A')",
    "event.share > 0.5",
    "event.share >= 0.5",
    "0.5 > event.share",
    "event.share == 0.5",
    "event.share < -1.5",
    "event.share != 1",
    "event.share > 9007199254740993",
    "event.share == null",
    "event.share in [event.other, 1.0]",
    "event.share * 2.0 > 1.0",
    "event.share > event.other",
    "has(event.share)",
    "has(event.deep.value)",
    "event.deep.value > 0.5",
    "event.deep == {'value': 1.0}",
    "event.start_date_time > timestamp('2026-06-01T00:00:00Z')",
    "event.tags.exists(t, t == 'a')",
    "setup.state == 'DRAFT'",
    "setup.state == event.status",
    "event.flag == true",
    "string(event.share) == '0.5'",
    "true",
)
VALUES = st.one_of(
    st.sampled_from(
        ("active", "gone", "A show", "", None, True, False, 0.5, 0.49, 0.51, 1, 1.0, 0, -2, 2**53, 10**400)
    ),
    st.floats(-3, 3),
    st.sampled_from(({"value": 1.0}, {"value": None}, {}, ["a"], [], "2026-07-01T00:00:00Z", "2026-05-01T00:00:00Z")),
)
FIELDS = ("status", "title", "share", "other", "deep", "tags", "start_date_time", "flag")
RECORDS = st.dictionaries(st.sampled_from(FIELDS), VALUES)
TEXTS = st.recursive(
    st.sampled_from(QUESTIONS),
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda all_: " && ".join(f"({one})" for one in all_)),
        st.lists(inner, min_size=2, max_size=3).map(lambda all_: " || ".join(f"({one})" for one in all_)),
        inner.map(lambda one: f"!({one})"),
    ),
    max_leaves=5,
)


def rules_of(*texts: str) -> list[Rule]:
    return [Rule(id=f"r{index}", file="r.yaml", when=expression(text)) for index, text in enumerate(texts)]  # type: ignore[arg-type]


def seen(event: Json | Unknown, **others: Json | Unknown) -> Observation:
    facts = {"event": event, **others}
    return an_observation(
        {name: value if isinstance(value, Unknown) else a_fact(value) for name, value in facts.items()}
    )


def one_by_one(rules: list[Rule], observation: Observation) -> Verdict:
    true = unknown = 0
    for index, rule in enumerate(rules):
        assert isinstance(rule.when, Expression)
        scope = Scope(observation=observation, keys=keys_for(rule, observation, NOW), now=NOW)
        truth = rule.when.truth(scope)
        true |= (truth is Truth.TRUE) << index
        unknown |= (truth is Truth.UNKNOWN) << index
    return true, unknown


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5), records=st.lists(RECORDS, min_size=1, max_size=6), more=VALUES)
def test_together_they_are_what_they_are_one_by_one(
    texts: list[str], records: list[dict[str, Json]], more: Json
) -> None:
    rules = rules_of(*texts)
    together = Verdicts(rules)
    for record in [*records, *records]:
        looked = seen(record, setup={"state": more})
        assert together.of(looked) == one_by_one(rules, looked), record


@pytest.mark.parametrize("text", QUESTIONS)
def test_every_question_is_answered_for_every_value_that_is_like_one_met_before(text: str) -> None:
    rules = rules_of(text, f"!({text})", f"{text} || event.status == 'gone'", f"{text} && event.share > 0.0")
    together = Verdicts(rules)
    words: tuple[Json, ...] = ("active", "gone", None, True, False, ["a"])
    numbers = (0.4, 0.5, 0.6, 1, 2, 1.5, -2.0, 2**53 + 1, 10**400, -(10**400))
    for value in (*words, *numbers, *words, *numbers):
        record: dict[str, Json] = dict.fromkeys(FIELDS, value)
        for looked in (
            seen(record, setup={"state": value}),
            seen({**record, "deep": {"value": value}}, setup=Unknown(code="unread", why="not read yet")),
            seen(Unknown(code="gone", why="the service answered 404")),
            seen({}, setup={}),
            seen("no record"),
        ):
            assert together.of(looked) == one_by_one(rules, looked), (text, value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("event.status == 'active'", True),
        ("setup.state == 'DRAFT'", True),
        ("event.start_date_time > now", False),
        ("added.size() > 0", False),
        ("suggested_tcs.size() > 0", False),
    ],
)
def test_what_follows_from_facts_alone_is_covered(text: str, expected: bool) -> None:
    assert covers(rules_of(text)[0]) is expected


def test_a_rule_without_a_condition_is_not_covered() -> None:
    assert not covers(Rule(id="r", file="r.yaml"))  # type: ignore[arg-type]
