"""A folder of rules is loaded whole, or every mistake in it is told at its place."""

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.engine.ruletest_bench import a_bench, passes
from tests.unit.rules.reading import mistakes, the_rule
from worker.model.errors import InputErrors
from worker.model.facts import PartnerId
from worker.model.rules import Rule, RuleSet, SpendLimits, Surge, Watch
from worker.rules import load as files
from worker.rules.load import examine, files_hash, load_rules, read_rules

HEAD = "rules:\n  - id: a\n    when: event.status == 'x'\n    do: [pause]\n"


def one(extra: str = "", do: str = "[pause]") -> Rule:
    return the_rule(HEAD.replace("[pause]", do) + extra)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: x", "r.yaml:1:8: rules must be a list"),
        ("rules: [{[a]: b}]", "r.yaml:1:10: a key must be a word"),
        ("rules: [{<<: x}]", "r.yaml:1:14: '<<' merges a mapping, or a list of mappings"),
        ("rules: [", "r.yaml:1:9: not valid YAML: the file ends inside of a bracket"),
        ("rules: \x07", "r.yaml:1:8: not valid YAML: the character U+0007 is not allowed"),
        ("a: *b", "r.yaml:1:4: this alias names no anchor"),
        ("&a [*a]", "r.yaml:1:5: this alias stands inside of what it names"),
        ("[" * 3000, "r.yaml:1:52: not valid YAML: nested too deeply"),
        (
            HEAD + "    repeat: enforce\n    on_change: clusters",
            "r.yaml:5:13: enforce goes with a condition, not with on_change",
        ),
        (HEAD + '    enabled: "true"', "r.yaml:5:14: enabled must be true or false"),
        (HEAD + "    partners: [all]", "r.yaml:5:16: an item of partners: 'all' is no partner id"),
        (HEAD + f"    description: {'x' * 10_001}", "r.yaml:5:18: description is longer than 10000 characters"),
        (HEAD.replace("[pause]", "[optimisation: false]"), "r.yaml:4:24: optimisation is one of ON, OFF, not 'false'"),
        (HEAD.replace("[pause]", "[create_draft: x]"), "r.yaml:4:24: 'create_draft' takes a mapping"),
        ("poll: {interval: 3s}", "r.yaml:1:1: unknown key 'poll' in a rule file; this is a config"),
        (HEAD.replace("- id", "- &a\n    id") + "  - *a\n", "r.yaml:3:9: the id 'a' is used already, in r.yaml:3"),
    ],
)
def test_each_mistake_is_told_with_file_line_and_column(text: str, message: str) -> None:
    found = mistakes(text)
    assert any(complaint.startswith(message) for complaint in found), found


def test_one_mistake_is_told_once_and_hides_no_other() -> None:
    text = HEAD.replace("[pause]", "[{update_draft: {zz: 1, total_budget: '=setup.total_budget * 1.2'}}]")
    assert [one.split(": ", 1)[1].split(",")[0] for one in mistakes(text)] == [
        "unknown key 'zz' in update_draft",
        "update_draft: this value is computed from setup.total_budget",
    ]
    lost = HEAD.replace("[pause]", "[{create_draft: {goal: x, total_budget: '=event.nothing'}}, [pause], {boost: 1}]")
    assert [one.split(": ", 1)[1].split(",")[0].split(";")[0] for one in mistakes(lost)] == [
        "create_draft.goal is one of UTILIZATION",
        "event has no documented field 'nothing'",
        "an action is a word",
        "'boost' takes nothing",
    ]
    remembered = HEAD.replace("event.status == 'x'", "previous.event.status == 'x'")
    assert len(mistakes(remembered + "    on_change: {fact: event, by: [status], zz: 1}")) == 1


def test_a_rule_has_all_it_was_given() -> None:
    rule = one(
        "    description: why\n    on_change: [{fact: clusters, by: [tc, label]}, suggested_tcs]\n    for: 10m\n"
        "    cooldown: 1h30m\n    limit: {per_event_per_day: 3, per_rule_per_day: 9}\n"
        "    spend: {per_event: 300, per_week: 2000}\n    priority: -2\n    partners: [p1, 2, 007]\n"
        "    enabled: no\n    mode: shadow\n    surge: {events: 5, within: 2h}\n    on_unknown: ask\n    repeat: once\n"
        "    with: {budget: 500, goal: ROAS, runtime_in_days: 3}\n",
        "[boost, {optimisation: OFF}, {ad_optimisation: 'ON'}, {frontend_status: HIDDEN}]",
    )
    assert rule.description == "why"
    assert rule.on_change == (
        Watch(fact="clusters", by=("tc", "label"), costly=True),
        Watch(fact="suggested_tcs", costly=True),
    )
    assert (rule.hold_for, rule.cooldown) == (timedelta(minutes=10), timedelta(minutes=90))
    assert (rule.per_event_per_day, rule.per_rule_per_day, rule.priority, rule.enabled) == (3, 9, -2, False)
    assert rule.spend == SpendLimits(per_event=300.0, per_week=2000.0)
    assert rule.partners == frozenset(map(PartnerId, ("p1", "2", "007")))
    assert (rule.mode, rule.on_unknown, rule.repeat) == ("shadow", "ask", "once")
    assert rule.surge == Surge(events=5, within=timedelta(hours=2))
    assert rule.parameters == {"budget": 500.0, "goal": "ROAS", "runtime_in_days": 3}
    assert [(step.action, dict(step.params)) for step in rule.do] == [
        ("boost", {}),
        ("optimisation", {"value": "OFF"}),
        ("ad_optimisation", {"value": "ON"}),
        ("frontend_status", {"value": "HIDDEN"}),
    ]


def test_an_id_of_many_digits_keeps_each_of_them() -> None:
    """As a double 1234567890123456789 is sent as 1234567890123456768."""
    params = (
        one("", "[{update_draft: {conversion_id: 1234567890123456789, extra: {x: -12345678901234567890123}}}]")
        .do[0]
        .params
    )
    assert params == {"conversion_id": 1234567890123456789, "x": -12345678901234567890123}
    assert "priority is too large a number" in mistakes(HEAD + "    priority: 1000000000000000000")[0]


def test_a_change_alone_is_a_rule_and_its_condition_sees_the_change() -> None:
    def found(watched: str, when: str = "") -> list[str]:
        return mistakes(f"rules: [{{id: a, on_change: {watched}, do: [boost]{when}}}]")

    assert found("suggested_tcs", ", when: 'added.exists(x, x.tc == \"a\")'") == []
    assert found("{fact: event, by: [status]}") == []
    assert found("[event, clusters, suggested_tcs, expected_value]", ", when: size(added) > 0") == []
    (wrong,) = found("suggested_tcs", ", when: size(previous.clusters) > 1")
    assert "previous has no documented field 'clusters'" in wrong


def test_a_change_to_null_is_one_to_null_and_not_to_anything() -> None:
    passes(
        a_bench("{id: r, on_change: {fact: event, by: special_ad_category, to: null}, do: [{notify: none any more}]}"),
        """given: {event: {id: e1, special_ad_category: housing}}
steps:
  - {at: 1m, set: {event: {special_ad_category: credit}}, expect: []}
  - {at: 2m, set: {event: {special_ad_category: null}}, expect: [{rule: r, action: notify}]}
""",
    )


def test_anchors_and_merged_keys_are_understood() -> None:
    text = (
        "rules:\n  - &base {id: a, when: event.status == 'x', do: [pause], cooldown: 1h}\n"
        "  - {<<: *base, id: b}\n  - {<<: [*base, {priority: 3}], id: c, cooldown: 2h}\n"
    )
    found = {str(rule.id): rule for rule in read_rules({"r.yaml": text}).rules.rules}
    assert found["b"].cooldown == timedelta(hours=1)
    assert (found["c"].cooldown, found["c"].priority) == (timedelta(hours=2), 3)


def test_hashes_follow_what_they_are_of() -> None:
    plain, other = one(), one(do="[run]")
    assert plain.when == other.when
    assert plain.do_hash != other.do_hash
    assert plain.do_hash != one("    with: {budget: 5}").do_hash, "parameters are part of what is done"
    assert plain.do_hash == one("    description: x\n", "[ pause ]").do_hash, "spacing is not"


def test_a_folder_is_read_with_all_below_it(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("b.yaml", "sub/a.yaml"):
        (tmp_path / name).write_text(HEAD.replace("id: a", f"id: {name.replace('/', '-')}"))
    loaded = examine(tmp_path)
    assert [rule.id for rule in loaded.rules.rules] == ["b.yaml", "sub-a.yaml"]
    assert loaded.rules.rules[1].file == str(tmp_path / "sub" / "a.yaml")
    assert loaded.rules.hash == files_hash(tmp_path)
    (tmp_path / "b.yaml").write_text("\ufeffrules:\n")
    assert load_rules(tmp_path).hash != loaded.rules.hash
    assert [rule.id for rule in load_rules(tmp_path / "sub" / "a.yaml").rules] == ["sub-a.yaml"]


def test_an_empty_folder_is_an_empty_set(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# nothing\n")
    assert load_rules(tmp_path).rules == ()
    assert load_rules(tmp_path / "a.yaml") == RuleSet(hash=files_hash(tmp_path / "a.yaml"))


def test_files_that_are_no_text_or_too_large_are_told(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"rules: \xff")
    (tmp_path / "b.yaml").write_bytes(b"#" * (files.FILE_BYTES_MAX + 1))
    with pytest.raises(InputErrors) as caught:
        load_rules(tmp_path)
    assert [one.message for one in caught.value.problems] == [
        "is not UTF-8: a byte cannot be read",
        f"larger than {files.FILE_BYTES_MAX} bytes",
    ]


def test_many_files_are_bounded_as_one_is(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / f"{name}.yaml").write_bytes(b"#" * (files.FILE_BYTES_MAX - 1))
    assert [str(one) for one in files.texts_of(tmp_path)[1]] == [
        f"{tmp_path}: the files together are larger than {files.FOLDER_BYTES_MAX} bytes"
    ]


def refused(errors: InputErrors) -> None:
    """A refusal says where and what, or it is no better than a crash."""
    assert errors.problems
    assert all(problem.line and problem.message for problem in errors.problems)


YAMLISH = st.text(alphabet=st.sampled_from(list("rules:-idwhenodo [pause]{}'\"\n  &*|>#=<.,é\t!")), max_size=200)


@pytest.mark.timeout(60)
@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(max_size=200), YAMLISH, YAMLISH.map(lambda text: HEAD + text)))
def test_no_text_crashes_the_loader(text: str) -> None:
    try:
        assert isinstance(read_rules({"r.yaml": text}).rules, RuleSet)
    except InputErrors as errors:
        refused(errors)


CELISH = st.text(alphabet=st.sampled_from(list("event.status=='x'&|!()[]{}<>+-*/%?:,0123 nowcldta\n")), max_size=80)


@pytest.mark.timeout(60)
@settings(max_examples=300, deadline=None)
@given(st.one_of(CELISH, CELISH.map(lambda text: "event.status == " + text), st.text(max_size=60)))
def test_no_condition_crashes_the_loader(text: str) -> None:
    spelled = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    try:
        read_rules({"r.yaml": f'rules: [{{id: a, do: [pause], when: "{spelled}"}}]'})
    except InputErrors as errors:
        refused(errors)
