"""A condition taken apart says of each part what the engine says of it, with the values that stood there."""

from datetime import UTC, datetime, timedelta

from tests.builders import cases
from worker.engine.explaining import Explained, SeenValue, explained
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, PartnerId, Unknown
from worker.model.rules import Scope, Truth
from worker.rules.evaluate import expression

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
READ = NOW - timedelta(seconds=2)


def known(value: Json, **gaps: str) -> Known:
    return Known(value=value, read_at=READ, gaps=gaps)


def a_scope(*, extra: dict[str, Json] | None = None, facts: dict[str, Fact] | None = None) -> Scope:
    keys = {name: FactKey(name=name) for name in facts or {}}
    seen = {keys[name]: fact for name, fact in (facts or {}).items()}
    observation = Observation(partner=PartnerId("partner-id-acme"), event=EventId("e1"), facts=seen)
    return Scope(observation=observation, keys=keys, now=NOW, extra=extra or {})


def spelled(part: Explained) -> object:
    """``source truth``, with the parts below it."""
    own = f"{part.source} {part.truth.value}"
    return (own, [spelled(one) for one in part.parts]) if part.parts else own


Y_AND_BLIND: dict[str, Fact] = {
    "event": known({"status": "y", "title": "A"}),
    "setup": Unknown(code="unreadable", why="500"),
}
BOTH = "event.title == 'A' && setup.state == 'DRAFT'"


@cases(
    "source, expected",
    (
        f"event.status == 'x' || !({BOTH})",
        (
            f"event.status == 'x' || !({BOTH}) unknown",
            [
                "event.status == 'x' false",
                (
                    f"!({BOTH}) unknown",
                    [(f"{BOTH} unknown", ["event.title == 'A' true", "setup.state == 'DRAFT' unknown"])],
                ),
            ],
        ),
        "three values, through every junction",
    ),
    ("true", "true true", "a constant has no parts"),
)
def test_every_part_has_its_own_truth(source: str, expected: object) -> None:
    assert spelled(explained(expression(source), a_scope(facts=Y_AND_BLIND))) == expected


@cases(
    "source, scope, expected",
    (
        "event.status == event.title",
        a_scope(facts={"event": known({"status": "y"}, title="is missing")}),
        [
            SeenValue(path="event.status", value="y", read_at=READ),
            SeenValue(path="event.title", missing="event.title is unknown: is missing", read_at=READ),
        ],
        "a value and a gap",
    ),
    (
        "event['mood'].deep.down == 1.0",
        a_scope(facts={"event": known({"mood": {"deep": {"down": 1}}})}),
        [SeenValue(path="event.mood.deep.down", value=1, read_at=READ)],
        "fields of fields",
    ),
    (
        "size(clusters) > 0",
        a_scope(facts={"clusters": known([{"tc": "rock"}])}),
        [SeenValue(path="clusters", value=[{"tc": "rock"}], read_at=READ)],
        "a list as a whole",
    ),
    (
        "now > timestamp('2026-01-01T00:00:00Z') && size(added) > 0",
        a_scope(extra={"added": [1]}),
        [SeenValue(path="now", value="2026-03-01T12:00:00Z"), SeenValue(path="added", value=[1])],
        "the clock was read by nobody, and what changed is remembered",
    ),
    (
        "size(added) > 0 || expected_value > 1.0",
        a_scope(),
        [
            SeenValue(path="added", missing="added is unknown: no watched value has changed"),
            SeenValue(path="expected_value", missing="expected_value is unknown: its parameters are not known yet"),
        ],
        "what is not remembered, and a fact that nobody could ask for",
    ),
)
def test_the_values_of_a_part_are_those_at_its_paths(source: str, scope: Scope, expected: list[SeenValue]) -> None:
    whole = explained(expression(source), scope)
    assert [value for part in whole.parts or (whole,) for value in part.values] == expected


def test_a_part_says_where_it_stands_and_what_the_engine_said() -> None:
    whole = explained(expression("true && event.status == 'x'"), a_scope(facts={"event": known({"status": "x"})}))
    second = whole.parts[1]
    assert (second.offset, second.truth, second.why) == (8, Truth.TRUE, "event.status is 'x'")
    assert (whole.kind, second.kind) == ("and", "leaf")
