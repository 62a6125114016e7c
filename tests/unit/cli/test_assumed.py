"""What nobody vouched for: which writes it holds, and what `check`, `run` and `plan` say of it."""

from pathlib import Path

import pytest

from tests.builders import cases
from tests.calling import call, settle_in
from worker.cli.common import engine_settings
from worker.config import load_config
from worker.engine.views import EngineSettings, unconfirmed_for
from worker.rules.load import load_rules

REAL = 'api: {base_url: "https://api.example/api/v3"}\n'
RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
  - id: draft-what-has-none
    when: setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 300}}]
  - id: on-connected
    when: adplatform.connected && lookout_prediction_benchmark.value < 0.2
    do: [{optimisation: "ON"}]
  - id: off
    enabled: false
    when: event.status == 'archived'
    do: [boost]
"""
PAUSE = [
    *("auth.denied", "client_campaign_status.query", "client_campaign_status.semantics"),
    *("task.failed", "task.succeeded"),
]
DRAFT = ["auth.denied", "setup.after_publish", "setup.draft", "setup.published", "setup.state_field"]
OPTIMISE = [
    *("adplatform.connected", "auth.denied", "campaign_optimisation_status.query"),
    *("campaign_optimisation_status.semantics", "lookout_benchmark.at", "lookout_benchmark.unit"),
]
NONE: dict[str, list[str]] = {"pause-cancelled": [], "draft-what-has-none": [], "on-connected": []}


def settings(folder: Path, config: str) -> EngineSettings:
    return engine_settings(load_config(settle_in(folder, config, RULES)))


def held_by(folder: Path, config: str) -> dict[str, list[str]]:
    """By rule: the keys that hold its writes."""
    found = settings(folder, config)
    rules = load_rules(folder / "rules").rules
    held = {rule.id: sorted(unconfirmed_for(rule.do[0].action, rule, found)) for rule in rules if rule.enabled}
    return {str(rule): keys for rule, keys in held.items()}


@cases(
    "config, expected",
    (
        REAL,
        {"pause-cancelled": PAUSE, "draft-what-has-none": DRAFT, "on-connected": OPTIMISE},
        "how a write is sent and read back, and what its rule decides by",
    ),
    (
        REAL + "assumptions: {setup.after_publish: absent, lookout_benchmark.unit: percent, adplatform.connected: ok}",
        {
            "pause-cancelled": PAUSE,
            "draft-what-has-none": ["auth.denied", "campaigns.items", *DRAFT[2:]],
            "on-connected": [key for key in OPTIMISE if key not in ("lookout_benchmark.unit", OPTIMISE[0])],
        },
        "what is written is vouched for; where a published setup is absent its campaigns tell",
    ),
    ("", NONE, "the sandbox is ours"),
    ('api: {base_url: "http://127.0.0.1:8700/api/v3"}', NONE, "so is what runs on this machine"),
)
def test_a_write_leans_on_its_action_and_on_the_facts_of_its_rule(
    tmp_path: Path, config: str, expected: dict[str, list[str]]
) -> None:
    assert held_by(tmp_path, config) == expected


@pytest.mark.parametrize(("more", "listed"), [("", False), (", pause", True)])
def test_a_message_is_held_by_nothing_and_not_listed(tmp_path: Path, more: str, listed: bool) -> None:
    rules = f"rules: [{{id: r, when: adplatform.connected, do: [{{notify: hi}}{more}]}}]"
    said = call("check", config=settle_in(tmp_path, REAL, rules)).err
    assert ("held: adplatform.connected" in said) is listed


def test_an_undo_has_no_rule_and_leans_on_its_action_alone(tmp_path: Path) -> None:
    """A draft also on whether a published setup would be seen: where one answers 404, it looks as if there were none,
    and a second setup would be made beside it."""
    found = settings(tmp_path, REAL)
    assert sorted(unconfirmed_for("pause", None, found)) == PAUSE
    in_draft = ["auth.denied", "setup.after_publish", "setup.draft", "setup.state_field"]
    assert sorted(unconfirmed_for("create_draft", None, found)) == in_draft


def test_check_and_run_say_what_to_confirm_before_anything_else_happens(tmp_path: Path) -> None:
    config = settle_in(tmp_path, REAL, RULES)

    checked, run = call("check", config=config), call("run", config=config)

    for said in (checked.err, run.err):
        lines = [line for line in said.splitlines() if "not confirmed" in line or "safety: {settle" in line]
        held = "not confirmed, so writes that depend on it are held: "
        assert f'{held}adplatform.connected: "connected"   (rule on-connected)' in lines
        assert f'{held}setup.draft: ["DRAFT"]   (rule draft-what-has-none)' in lines
        assert f'{held}task.succeeded: ["SUCCESS"]   (rule pause-cancelled)' in lines
        assert "boost.body" not in said, "only a disabled rule boosts"
        denied = next(line for line in lines if "auth.denied" in line)
        assert denied.endswith("(rules draft-what-has-none, on-connected, pause-cancelled)")
        assert lines[-1].endswith("put before an operator at once: safety: {settle: 2m}")
    assert run.code == 2, "and here it ends, because there are no credentials"


def test_many_rules_are_named_in_part(tmp_path: Path) -> None:
    one = "  - {id: pN, when: event.status == 'cancelled', do: [pause]}\n"
    rules = "rules:\n" + "".join(one.replace("N", str(number)) for number in range(7))
    said = call("check", config=settle_in(tmp_path, REAL, rules)).err
    assert "(rules p0, p1, p2, p3, p4 and 2 more)\n" in said


def test_check_says_what_is_vouched_for(tmp_path: Path) -> None:
    config = settle_in(tmp_path, REAL + "assumptions: {task.succeeded: [DONE]}", RULES)
    checked = call("check", config=config)
    assert "confirmed by you: task.succeeded" in checked.err
    assert "held: task.succeeded" not in checked.err
