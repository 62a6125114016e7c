"""What `check` says of a condition before any event is looked at: the place, the words and the remedy."""

import pytest

from tests.builders import cases
from tests.unit.rules.reading import problems, the_rule
from worker.model.facts import CustomFact
from worker.rules.load import read_rules
from worker.rules.registry import with_custom

HEAD = "rules:\n  - id: a\n    do: [pause]\n    when: "
COLUMN = 11


def complaints(condition: str) -> list[tuple[int, str, str]]:
    """Column within the condition (from 1), message and hint of every error."""
    return [(one.column - COLUMN + 1, one.message, one.hint) for one in problems(HEAD + condition + "\n")]


@pytest.mark.parametrize(
    ("condition", "column", "message"),
    [
        ("event[1] == 'a'", 7, "event is a record and has no [a whole number]"),
        (
            "'status' in event",
            1,
            "event.status is documented: where it is missing it is unknown, and this would take it for false",
        ),
        (
            "event.capacity - size(clusters) > 2.0",
            18,
            "arithmetic of a number from the service with a whole number: '-' takes two of a kind",
        ),
        ("now + 5 > now", 5, "now (a time) and a whole number cannot be combined by '+'"),
        ("now > now + duration(event.city)", 22, "duration takes a text in quotes"),
        ("event.status && true", 1, "&& takes true or false, and this is a text"),
        ("'x' || event.status == 'a'", 1, "|| takes true or false, and this is a text"),
        ("event.status ? true : false", 1, "'?' takes true or false, and this is a text"),
        ("event.city.exists(x, x == 'a')", 12, "'exists' goes over a list, and event.city is a text"),
        ("clusters.exists(c, c.label)", 20, "'exists' takes a condition, and this is a text"),
        ("clusters.all(c, true, false)", 10, "'all' takes a name and a condition"),
        ("int(event.capacity) % 0 == 1", 23, "what is divided by 0 is unknown"),
        ("event.start_date_time > timestamp('2026-02-01')", 35, "'2026-02-01' is no time"),
        ("event.title.matches('(')", 21, "this pattern is not one that RE2 knows: missing ): ("),
        ("event.title.matches('([^a]{100}){9}')", 21, "this pattern is too large"),
        ("now.getHours('Berlin') > 8", 14, "'Berlin' is no time zone"),
        ("now.getHours('localtime') > 8", 14, "'localtime' is no time zone"),
        ("clusters.contains('a')", 1, "'contains' does not take a list"),
        ("{1: 'a'}[1] == 'a'", 2, "a field of a record has a text for its name, and this is a whole number"),
    ],
)
def test_a_wrong_condition_is_named_at_its_place(condition: str, column: int, message: str) -> None:
    found = complaints(f'"{condition}"')
    shifted = [(place - 1, words) for place, words, _ in found]
    assert any(place == column and words.startswith(message) for place, words in shifted), found
    assert all(hint for _, _, hint in found), "each with what to do about it"


@cases(
    "condition",
    ("event['anything'] == 5", "undocumented fields are reached by index, and can be anything"),
    ("event['one'] * event['other'] > 2.0", "two unknown numbers may well go together"),
    ("event.special_ad_category == null", "the document allows null here"),
    ("event.capacity > 5 && event.capacity == 5", "a whole number compares with a number of the service"),
    ("event.capacity * 2.0 > 5.0", "both are doubles"),
    ("size(clusters) + 1 > 2", "a size is a whole number, as the literal is"),
    ("event.start_date_time - now < duration('1d12h')", "two times make a duration"),
    ("now + duration('-7d') < event.start_date_time", "a duration may be negative"),
    ("has(event['x'].y)", "nothing is documented there"),
    ("suggested_tcs.exists(t, t.tc == 'a' && t.tc_run_id > 1)", "a macro binds its name"),
    ("suggested_tcs.map(t, t.tc).exists(n, n.startsWith('a'))", "what a map gives has the type of its body"),
    ("clusters.filter(c, c.metric_pred > 4.0).size() > 1", "a filter gives the list it was given"),
    ("event.status in ['active', 'sold_out']", "the document says that others are possible"),
    ("clusters[0].label == 'a'", "a list is reached by number"),
    ("(event.status == 'active' ? 1 : 2) == 1", "both branches are whole numbers"),
    ("dyn(event.city) == 5", "dyn gives up the type"),
    ("'x' in permissions || 'y' in features", "their items are not documented"),
    ("{'a': 1}.a == 1 && 'k' in {'k': 1}", "a record written out"),
    ("!(event.city + 'x' == 'y') && -event.capacity < 0", "texts join, numbers negate"),
    ("adplatform.connected && partner.campaign_recommendations", "documented booleans"),
    ("event.start_date_time.getHours() > 20", "a time has hours"),
    ("size([1,]) > 0", "a comma may stand behind the last item"),
    ("now.getHours('Europe/Berlin') > 8 && now.getHours('+02:00') < 20", "hours have zones"),
    ("{'a': 1.0}.filter(name, name != 'b')[0] == 'a'", "of a record names are left, in a list"),
    ("[1, 'a'].exists(x, dyn(x) == 1)", "a mixed list has items of any type"),
    ("1 in [1] && [1] + [2] == [1, 2]", "lists join"),
    ("'vip' in event['tags']", "anything may be in a list of anything"),
)
def test_a_right_condition_is_left_alone(condition: str) -> None:
    assert complaints(f'"{condition}"') == []


def test_a_field_of_another_record_is_named_there() -> None:
    """The event has no currency: that is its partner's (API section 2.3)."""
    [(_, _, hint)] = complaints("event.currency == 'EUR'")
    assert hint.startswith("write partner.currency; ")


@pytest.mark.parametrize(
    ("condition", "hint"),
    [
        ("clusters[0].price > 5.0", "is written clusters[0]['price']"),
        ("clusters[0].label.x == 'x'", "write clusters[0].label alone"),
        ("clusters.filter(c, c.tc == 'x')[0].zzz > 5.0", "is written …[0]['zzz']"),
        ("clusters[0].tc.size()", "compare it with something, as in clusters[0].tc.size() > …"),
        ("size('a ' + event.title)", "compare it with something, as in size(…) > …"),
        ("size('a')", "compare it with something, as in size('a') > …"),
    ],
)
def test_a_remedy_names_what_it_is_about(condition: str, hint: str) -> None:
    assert [hint in one for _, _, one in complaints(condition)] == [True], complaints(condition)


def test_a_fact_of_the_config_can_be_named_and_is_of_any_type() -> None:
    custom = with_custom({"ad_spend": CustomFact(name="ad_spend", get="/x/{eid}", value="spend")})
    assert the_rule(HEAD + "ad_spend > 5.0 && ad_spend.x == 'y'", custom).names == {"ad_spend"}


@cases(
    "style, line, column",
    ("event.statsu == 'x'", 4, 17, "plain"),
    ("'event.city == ''a'' && event.statsu == 1'", 4, 41, "single"),
    ('"event.city == \\"\\x41\\" && event.statsu == \'1\'"', 4, 44, "double"),
    ("|\n      event.city == 'a'\n        && event.statsu == 'x'", 6, 18, "literal"),
    (">-\n      event.city == 'a'\n      && event.statsu == 'x'", 6, 16, "folded"),
    ("event.city == 'a'\n      && event.statsu == 'x'", 5, 16, "plain over lines"),
    ("\"event.city == 'a'\n      && event.statsu == 'x'\"", 5, 16, "double over lines"),
    ("\"event.city == 'a'\\n\\t&& event.statsu == 'x'\"", 4, 42, "a break as it is spelled"),
    ("&a event.statsu == 'x'", 4, 20, "anchor"),
    ("&a !!str \"event.statsu == 'x'\"", 4, 27, "anchor and tag"),
    ("&a >- # note\n      event.city == 'a'\n      && event.statsu == 'x'", 6, 16, "anchor of a block"),
    ("&a # note\n      event.statsu == 'x'", 5, 13, "anchor with a comment"),
)
def test_the_place_is_right_in_every_way_to_write_a_text(style: str, line: int, column: int) -> None:
    [problem] = [one for one in problems(HEAD + style + "\n") if "statsu" in one.message]
    assert (problem.line, problem.column) == (line, column)


def test_a_value_outside_a_documented_set_is_a_warning_with_the_nearest() -> None:
    (warning,) = read_rules({"r.yaml": HEAD + "\"'ROSA' == setup.goal\""}).warnings
    assert warning.severity == "warning"
    assert warning.message.startswith("setup.goal is never 'ROSA'; did you mean 'ROAS'? ")
