"""Warnings: rules that are correct and probably not meant so."""

from pathlib import Path

import pytest

from worker.rules.lint import lint
from worker.rules.load import examine, read_rules

STARTER = Path(__file__).parents[3] / "rules"


MANY = " && ".join(f"(event['a{number}'] == 1 || event['b{number}'] == 1)" for number in range(6))
FEBRUARY = "timestamp('2026-02-01T00:00:00Z')"
SIXTEEN = " || ".join(f"event.city == '{n}'" for n in range(16))


def warnings(*rules: str) -> list[str]:
    found = lint(read_rules({"r.yaml": "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)}))
    assert all(one.severity == "warning" for one in found)
    return [one.message for one in found]


def when(condition: str) -> str:
    return f'{{id: a, do: [pause], when: "{condition}"}}'


@pytest.mark.parametrize(
    ("condition", "word"),
    [
        ("!(1 == 1)", "never"),
        ("false && event.status == 'a'", "never"),
        ("event.frontend_status in ['GONE']", "never"),
        ("event.frontend_status != 'GONE'", "always"),
        ("event.status in ['a', 'b'] && 'c' == event.status", "never"),
        ("event.status != 'a' || event.status != 'b'", "always"),
        ("event.campaign_optimisation_status == 'ON' || event.campaign_optimisation_status == 'OFF'", "always"),
        ("!(event.status == 'a') || event.status == 'a'", "always"),
        ("event.capacity > 5 || event.capacity <= 5", "always"),
        ("event.capacity > 5 && 5 >= event.capacity", "never"),
        ("event.capacity >= 5 && event.capacity <= 5 && event.capacity != 5", "never"),
        ("event['x'] == 'x' && event['x'] > 5", "never"),
        ("size(suggested_tcs) >= 0 || event.city == 'x'", "always"),
        ("size(suggested_tcs) < 0", "never"),
        ("1 < 2 && 2 <= 2 && 3 > 2", "always"),
        ("event.start_date_time - now > duration('2d') && event.start_date_time - now < duration('24h')", "never"),
        (f"event.start_date_time > {FEBRUARY} && event.start_date_time < timestamp('2026-01-01T00:00:00Z')", "never"),
        ("event['status'] == 'a' && event.status == 'b'", "never"),
        ("partner.demand_prediction && !partner.demand_prediction", "never"),
        ("event.city.startsWith('x') && !event.city.startsWith('x')", "never"),
        ("event.city == event.title && event.city != event.title", "never"),
        ("event.special_ad_category == null || event.special_ad_category != null", "always"),
        ("partner.demand_prediction ? event.city == 'x' && event.city == 'y' : false", "never"),
        (" && ".join(f"(event.city == '{n}' || event.title == '{n}')" for n in range(3)), "never"),
        ("event.status == 'a' && (event.city == 'x' || event.city == 'y') && event.city == 'z'", "never"),
    ],
)
def test_a_condition_that_cannot_change_is_told(condition: str, word: str) -> None:
    assert f"rule 'a': this condition is {word} true" in warnings(when(condition))


@pytest.mark.parametrize(
    ("where", "word"),
    [
        ("true", "is always true"),
        ("each.budget > 5.0 && each.budget < 2.0", "is never true"),
        ("event.frontend_status != 'GONE'", "is always true"),
        ("each.budget < 100.0", None),
        ("each.tc != 'rock' && event.city == 'Berlin'", None),
    ],
)
def test_so_is_a_where_that_takes_every_item_or_none(where: str, word: str | None) -> None:
    edit = f'edit_cluster: {{each: {{of: campaigns, where: "{where}"}}, budget: 5}}'
    said = [one for one in warnings(f"{{id: a, when: event.status == 'x', do: [{{{edit}}}]}}") if "`where`" in one]
    assert said == ([] if word is None else [f"rule 'a': `where` {word}"])


@pytest.mark.parametrize(
    ("shows", "word"),
    [
        ("true", "always"),
        ("response.city == 'Ulm' && response.city == 'Bonn'", "never"),
        ("response.city == 'Ulm'", None),
    ],
)
def test_so_is_a_confirm_that_says_the_same_of_every_answer(shows: str, word: str | None) -> None:
    """One that is always true confirms a write of unknown outcome that never happened."""
    confirm = f'confirm: {{get: /partners/, when: "{shows}"}}'
    write = f"write: {{host: cr, method: PUT, path: '/events/{{eid}}', query: {{city: Ulm}}, {confirm}}}"
    said = [one for one in warnings(f"{{id: a, when: event.status == 'x', do: [{{{write}}}]}}") if "`confirm`" in one]
    assert said == ([] if word is None else [f"rule 'a': the condition of `confirm` is {word} true"])
    extra = "edit_cluster: {tc: a, tc_run_id: 1, extra: {confirm: {a: 1}}}"
    assert not [one for one in warnings(f"{{id: a, when: event.status == 'x', do: [{{{extra}}}]}}") if "true" in one]


@pytest.mark.parametrize(
    "condition",
    [
        "event.status == 'a' && event.city == 'b'",
        "event.status in ['a', event.city] && event.status == 'b'",
        "event.status in permissions && event.status == 'b'",
        "event.frontend_status == event.city",
        "event.capacity > 5 || event.capacity <= 7 && event.city == 'x'",
        "event.capacity >= 5 && event.capacity <= 5",
        "event.capacity > -5.0 || event.capacity < -7.0",
        "event.start_date_time == timestamp('2026-01-01T00:00:00Z') && event.start_date_time < now",
        "event.start_date_time > event.start_date_time + duration('1d') && event.city == 'x'",
        "string(event.city) > string('x')",
        "event.city > 'a' && event.city < 'A'",
        "event.city in [event.title, 'a'] && event.city == 'b'",
        "partner.demand_prediction ? event.city == 'x' : event.city == 'y'",
        "size(suggested_tcs) > 0",
        "event.city.startsWith('x') && event.title.startsWith('x')",
        f"{MANY} && event.city == 'x' && event.city == 'y'",
        f"({SIXTEEN}) && ({SIXTEEN.replace('city', 'title')}) || event.city == 'x'",
        f"event.city == 'x' && (({SIXTEEN}) && ({SIXTEEN.replace('city', 'title')}) || event.city == 'x')",
        f"({SIXTEEN} || event.city == 'x') && ({SIXTEEN.replace('city', 'title')}) || event.city == 'x'",
        "'a' < 'b' || event.city == 'x'",
        "suggested_tcs[0].tc == 'a' && event.city == 'x'",
        "event.x1 == 'a'".replace(".x1", "['x1']['y']"),
    ],
)
def test_a_condition_that_depends_on_facts_is_left_alone(condition: str) -> None:
    assert not [one for one in warnings(when(condition)) if "condition is" in one]


def test_a_condition_without_a_fact_is_told() -> None:
    assert warnings(when("size([1, 2]) > 1")) == ["rule 'a': this condition names no fact"]


@pytest.mark.parametrize(
    ("at", "between", "missed"),
    [
        ("0 8 * * *", 'hours: "09:00-18:00"', True),
        ("0 8 * * *", 'hours: "08:00-18:00"', False),
        ("55 8 * * *", 'hours: "09:00-18:00"', False),
        ("54 8 * * *", 'hours: "09:00-18:00"', True),
        ("*/30 0-8 * * *", 'hours: "22:00-06:00"', False),
        ("0 12 * * *", 'hours: "09:00-18:00", days: sun', False),
    ],
)
def test_times_that_never_fall_into_the_hours_are_told(at: str, between: str, missed: bool) -> None:
    """Such a rule never acted, and nothing said so. What is held for five minutes at the most acts later."""
    condition = "event.capacity > 5.0"
    found = warnings(f"{{id: a, do: [pause], when: {condition}, at: '{at}', between: {{{between}, timezone: UTC}}}}")
    assert any("each of them is missed" in one for one in found) == missed, found


def test_looking_at_what_the_rule_itself_writes_is_told() -> None:
    own = "rule 'a' looks at event.client_campaign_status, which its own 'pause' writes"
    assert own in warnings(when("event.client_campaign_status == 'RUNNING'"))
    assert not warnings("{id: a, on_change: setup, when: event.status == 'a' && setup.state == 'DRAFT', do: [boost]}")


def test_a_request_for_every_event_is_told_where_nothing_narrows_it() -> None:
    costly = "rule 'a' reads setup of every event, at a request each"
    assert costly in warnings(when("setup.goal == 'ROAS'"))
    assert costly in warnings("{id: a, on_change: setup, do: [boost]}")
    assert costly not in warnings(when("event.status == 'x' && setup.goal == 'ROAS'"))


RULES = (
    "rules:\n  - {id: a, when: event.status == 'x', do: [pause]}\n  - {id: b, when: event.status == 'y', do: [pause]}\n"
)


@pytest.mark.parametrize(
    ("tests", "untested"),
    [
        ("tests: [{name: t, rules: [a]}]", ["no rule test reaches rule 'b'"]),
        ("tests: [{name: t, rules: [a, b]}]", []),
        ("tests: [{name: t}]", []),
        ("tests: [", ["no rule test reaches 2 rules: a, b"]),
        ("tests: x", ["no rule test reaches 2 rules: a, b"]),
    ],
)
def test_rules_that_no_test_reaches_are_told(tmp_path: Path, tests: str, untested: list[str]) -> None:
    (tmp_path / "a.yaml").write_text(RULES)
    [none] = lint(examine(tmp_path), tmp_path)
    assert none.message == "no rule has a test: there is no folder tests here"
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "t.yaml").write_text(tests)
    assert [one.message for one in lint(examine(tmp_path), tmp_path)] == untested


@pytest.mark.parametrize("name", ["A.YAML", "team/a.YML", "tests/deep/a.yml"])
def test_a_file_with_another_ending_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(RULES)
    assert [str(one) for one in lint(examine(tmp_path), tmp_path)] == [f"{tmp_path / name}: warning: is not read"]


def test_a_link_with_another_ending_that_leads_nowhere_is_no_file_that_somebody_meant(tmp_path: Path) -> None:
    (tmp_path / "a.yml").symlink_to("nowhere")
    assert lint(examine(tmp_path), tmp_path) == ()


def test_the_starter_rules_have_no_warnings() -> None:
    assert lint(examine(STARTER), STARTER) == ()
