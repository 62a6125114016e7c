"""A condition taken apart says of each part what the engine says of it, with the values that stood there."""

from dataclasses import replace
from datetime import datetime

from tests.builders import NOW, a_fact, a_scope, cases, unreadable
from worker.engine.explaining import Explained, SeenValue, explained
from worker.model.facts import Fact, Json
from worker.model.rules import Truth
from worker.rules.evaluate import expression

EVENT = a_fact({"status": "y", "title": "A", "mood": {"deep": {"down": 1}}}, gaps={"city": "is missing"})
FACTS: dict[str, Fact] = {"event": EVENT, "setup": unreadable(), "clusters": a_fact([{"tc": "rock"}])}
SCOPE = replace(a_scope(FACTS), extra={"added": [1]})


def spelled(part: Explained) -> object:
    """``source truth``, with the parts below it."""
    own = f"{part.source} {part.truth.value}"
    return (own, [spelled(one) for one in part.parts]) if part.parts else own


def saw(path: str, value: Json, read_at: datetime | None = NOW) -> SeenValue:
    return SeenValue(path=path, value=value, read_at=read_at)


def lacked(path: str, why: str, read_at: datetime | None = None) -> SeenValue:
    return SeenValue(path=path, missing=f"{path} is unknown: {why}", read_at=read_at)


def test_every_part_has_its_own_truth() -> None:
    both = "event.title == 'A' && setup.state == 'DRAFT'"
    whole = f"event.status == 'x' || !({both})"
    below = [(f"{both} unknown", ["event.title == 'A' true", "setup.state == 'DRAFT' unknown"])]
    expected = (f"{whole} unknown", ["event.status == 'x' false", (f"!({both}) unknown", below)])
    assert spelled(explained(expression(whole), SCOPE)) == expected
    assert spelled(explained(expression("true"), SCOPE)) == "true true", "a constant has no parts"


@cases(
    "source, expected",
    ("event.status == 'y'", [saw("event.status", "y")], "a value"),
    ("event.city == 'y'", [lacked("event.city", "is missing", NOW)], "a gap"),
    ("event['mood'].deep.down == 1.0", [saw("event.mood.deep.down", 1)], "fields of fields"),
    ("size(clusters) > 0", [saw("clusters", [{"tc": "rock"}])], "a list as a whole"),
    (
        "now > timestamp('2026-01-01T00:00:00Z')",
        [saw("now", "2026-03-01T12:00:00Z", None)],
        "the clock, read by nobody",
    ),
    ("size(added) > 0", [saw("added", [1], None)], "what changed is remembered"),
    ("size(removed) > 0", [lacked("removed", "no watched value has changed")], "what is not remembered"),
    (
        "expected_value > 1.0",
        [lacked("expected_value", "its parameters are not known yet")],
        "what nobody could ask for",
    ),
    ("event.status == event.title", [saw("event.status", "y"), saw("event.title", "A")], "two values"),
)
def test_the_values_of_a_part_are_those_at_its_paths(source: str, expected: list[SeenValue]) -> None:
    assert [*explained(expression(source), SCOPE).values] == expected


def test_a_part_says_where_it_stands_and_what_the_engine_said() -> None:
    whole = explained(expression("true && event.status == 'y'"), SCOPE)
    second = whole.parts[1]
    assert (second.offset, second.truth, second.why) == (8, Truth.TRUE, "event.status is 'y'")
    assert (whole.kind, second.kind) == ("and", "leaf")
