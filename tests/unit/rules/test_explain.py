"""A condition taken apart says of each part what the engine says of it, with the values that stood there."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.model.commits import Evaluation, SeenFact
from worker.model.facts import EventId, Fact, FactKey, Json, Known, PartnerId, RuleId, Unknown
from worker.model.rules import Truth
from worker.rules.conditions import condition
from worker.rules.explain import Explained, SeenValue, explained, scope_of

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
READ = NOW - timedelta(seconds=2)


def known(value: Json, **gaps: str) -> Known:
    return Known(value=value, read_at=READ, gaps=gaps)


def an_evaluation(*, extra: dict[str, Json] | None = None, facts: dict[str, Fact] | None = None) -> Evaluation:
    return Evaluation(
        partner=PartnerId("partner-id-acme"),
        event=EventId("e1"),
        rule=RuleId("r"),
        ending="false",
        when_hash="w",
        at=NOW,
        since=NOW,
        facts={name: SeenFact(key=FactKey(name=name), fact=fact) for name, fact in (facts or {}).items()},
        extra=extra or {},
    )


def spelled(part: Explained) -> object:
    """``source truth``, with the parts below it."""
    own = f"{part.source} {part.truth.value}"
    return (own, [spelled(one) for one in part.parts]) if part.parts else own


@pytest.mark.parametrize(
    ("source", "facts", "expected", "reason"),
    [
        (
            "event.status == 'x' || !(event.title == 'A' && setup.state == 'DRAFT')",
            {"event": known({"status": "y", "title": "A"}), "setup": Unknown(code="unreadable", why="500")},
            (
                "event.status == 'x' || !(event.title == 'A' && setup.state == 'DRAFT') unknown",
                [
                    "event.status == 'x' false",
                    (
                        "!(event.title == 'A' && setup.state == 'DRAFT') unknown",
                        [
                            (
                                "event.title == 'A' && setup.state == 'DRAFT' unknown",
                                ["event.title == 'A' true", "setup.state == 'DRAFT' unknown"],
                            )
                        ],
                    ),
                ],
            ),
            "three values, through every junction",
        ),
        (
            "event.status == 'x' && setup.state == 'DRAFT'",
            {"event": known({"status": "y"}), "setup": Unknown(code="unreadable", why="500")},
            (
                "event.status == 'x' && setup.state == 'DRAFT' false",
                ["event.status == 'x' false", "setup.state == 'DRAFT' unknown"],
            ),
            "a definite false beside something unknown",
        ),
        ("true", {}, "true true", "a constant has no parts"),
    ],
)
def test_every_part_has_its_own_truth(source: str, facts: dict[str, Fact], expected: object, reason: str) -> None:
    assert spelled(explained(condition(source), scope_of(an_evaluation(facts=facts)))) == expected, reason


@pytest.mark.parametrize(
    ("source", "evaluation", "expected", "reason"),
    [
        (
            "event.status == event.title",
            an_evaluation(facts={"event": known({"status": "y"}, title="is missing")}),
            (
                SeenValue(path="event.status", value="y", read_at=READ),
                SeenValue(path="event.title", missing="event.title is unknown: is missing", read_at=READ),
            ),
            "a value and a gap",
        ),
        (
            "event['mood'].deep.down == 1.0",
            an_evaluation(facts={"event": known({"mood": {"deep": {"down": 1}}})}),
            (SeenValue(path="event.mood.deep.down", value=1, read_at=READ),),
            "fields of fields",
        ),
        (
            "size(clusters) > 0",
            an_evaluation(facts={"clusters": known([{"tc": "rock"}])}),
            (SeenValue(path="clusters", value=[{"tc": "rock"}], read_at=READ),),
            "a list as a whole",
        ),
        (
            "now > timestamp('2026-01-01T00:00:00Z')",
            an_evaluation(),
            (SeenValue(path="now", value="2026-03-01T12:00:00Z"),),
            "the clock was read by nobody",
        ),
        (
            "size(added) > 0",
            an_evaluation(extra={"added": [1]}),
            (SeenValue(path="added", value=[1]),),
            "what the worker remembers",
        ),
        (
            "size(added) > 0",
            an_evaluation(),
            (SeenValue(path="added", missing="added is unknown: no watched value has changed"),),
            "and does not remember",
        ),
        (
            "expected_value > 1.0",
            an_evaluation(),
            (SeenValue(path="expected_value", missing="expected_value is unknown: its parameters are not known yet"),),
            "a fact that nobody could ask for",
        ),
    ],
)
def test_the_values_of_a_part_are_those_at_its_paths(
    source: str, evaluation: Evaluation, expected: tuple[SeenValue, ...], reason: str
) -> None:
    assert explained(condition(source), scope_of(evaluation)).values == expected, reason


def test_a_part_says_where_it_stands_and_what_the_engine_said() -> None:
    whole = explained(
        condition("true && event.status == 'x'"), scope_of(an_evaluation(facts={"event": known({"status": "x"})}))
    )
    second = whole.parts[1]
    assert (second.offset, second.truth, second.why) == (8, Truth.TRUE, "event.status is 'x'")
    assert (whole.kind, second.kind) == ("and", "leaf")
