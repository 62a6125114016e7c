"""What stands in deploy/ is true: alert rules fire when they should, and every figure and command they name exists."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.acceptance.processes import free_port, until
from tests.architecture.test_docs import wrong_in
from tests.web.scene import Scene, scene
from worker.web.door import Key, Keys, digest
from worker.web.metrics import METRICS, PREFIX

ROOT: Final = Path(__file__).resolve().parents[2]
PROMETHEUS: Final = ROOT / "deploy" / "prometheus"
ALERTS: Final[list[dict[str, Any]]] = yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text("utf-8"))["groups"][0][
    "rules"
]
DASHBOARD: Final[dict[str, Any]] = json.loads((ROOT / "deploy" / "grafana" / "dashboard.json").read_text("utf-8"))
SERIES_ENDS: Final = ("_bucket", "_sum", "_count")
TOKEN: Final = "a token of some length"


def found(program: str) -> str:
    """Where a program of Prometheus' package is; without it the test is skipped, except in CI."""
    path = shutil.which(program)
    if path is not None:
        return path
    words = f"NOT TESTED: deploy/ with a real {program}, because it is not installed; see tests/tools.sh"
    if os.environ.get("CI"):
        pytest.fail(words)
    pytest.skip(words)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "rules", "alerts.yaml"),
        ("test", "rules", "alerts_test.yaml"),
        ("check", "config", "--syntax-only", "prometheus.yaml"),
    ],
    ids=" ".join,
)
def test_promtool_finds_nothing_wrong(arguments: tuple[str, ...]) -> None:
    done = subprocess.run(
        [found("promtool"), *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tested_to_fire_and_to_be_quiet() -> None:
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yaml").read_text("utf-8"))["tests"]
    cases = [case for one in tests for case in one["alert_rule_test"]]
    names = {alert["alert"] for alert in ALERTS}
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == names
    assert {case["alertname"] for case in cases if not case["exp_alerts"]} == names


def expressions() -> Iterator[tuple[str, str]]:
    for alert in ALERTS:
        yield alert["alert"], alert["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_every_figure_that_is_asked_for_is_measured() -> None:
    asked = {(where, name) for where, text in expressions() for name in re.findall(rf"\b{PREFIX}(\w+)", text)}
    known = set(METRICS) | {name + end for name in METRICS for end in SERIES_ENDS if name.endswith("_seconds")}
    assert sorted((where, name) for where, name in asked if name not in known) == []


def test_the_dashboard_shows_every_figure_and_no_panel_lies_over_another() -> None:
    shown = " ".join(text for _, text in expressions())
    assert [name for name in METRICS if PREFIX + name not in shown] == [
        "oldest_needs_human_seconds",
        "log_records",
        "log_head",
    ]
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
    assert max(x for x, _ in taken) < 24


def test_every_command_that_an_alert_names_exists() -> None:
    for alert in ALERTS:
        words = alert["annotations"]["description"]
        calls = re.findall(r"`campaign-worker ([^`]+)`", words)
        assert calls or "`" not in words or "requests.per_minute" in words, alert["alert"]
        for call in calls:
            assert wrong_in(tuple(call.replace("{{ $labels.rule }}", "RULE").split())) is None, (alert["alert"], call)


@pytest.mark.prove
def test_a_real_prometheus_scrapes_the_page_with_its_token(story: Path, tmp_path: Path) -> None:
    with (
        scene(story, keys=Keys(tokens={"prometheus": Key(secret=digest(TOKEN))})) as page,
        prometheus(page, tmp_path) as address,
    ):

        def value(query: str) -> list[str]:
            answer = httpx.get(f"{address}/api/v1/query", params={"query": query}, trust_env=False, timeout=5).json()
            return [one["value"][1] for one in answer["data"]["result"]]

        until(lambda: value('up{job="campaign-worker"}') == ["1"], "a scrape that succeeded")
        assert value('campaign_worker_writes{state="needs_human"}') == ["1"]
        assert value("campaign_worker_log_records") == [str(page.ledger.last_seq())]
        until(lambda: value('ALERTS{alertname="CampaignWorkerNeedsHuman"}'), "an alert that is pending")


@contextmanager
def prometheus(page: Scene, folder: Path) -> Iterator[str]:
    """A Prometheus with the shipped config, made quicker and pointed at a page."""
    shutil.copy(PROMETHEUS / "alerts.yaml", folder)
    (folder / "token").write_text(TOKEN, "utf-8")
    text = (PROMETHEUS / "prometheus.yaml").read_text("utf-8")
    for old, new in (
        ("scrape_interval: 15s", "scrape_interval: 1s"),
        ("evaluation_interval: 30s", "evaluation_interval: 1s"),
        ("127.0.0.1:8080", page.address.removeprefix("http://")),
    ):
        assert old in text
        text = text.replace(old, new)
    (folder / "prometheus.yaml").write_text(text, "utf-8")
    listen = f"127.0.0.1:{free_port()}"
    options = (
        "--config.file=prometheus.yaml",
        f"--web.listen-address={listen}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
    )
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen([found("prometheus"), *options], cwd=folder, stdout=log, stderr=log)
        try:
            address = f"http://{listen}"
            until(lambda: _ready(address), "Prometheus is ready")
            yield address
        finally:
            process.terminate()
            process.wait(timeout=30)


def _ready(address: str) -> bool:
    try:
        return httpx.get(f"{address}/-/ready", trust_env=False, timeout=2).is_success
    except httpx.HTTPError:
        return False


def test_the_check_of_the_image_runs_it_as_the_compose_file_does() -> None:
    script = ROOT / "deploy" / "check-image.sh"
    done = subprocess.run(["sh", "-n", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    text = script.read_text("utf-8")
    service = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))["services"]["worker"]
    user = service["user"].split(":")[0]
    assert f"--reuid {user} --regid {user}" in text
    (scratch,) = service["tmpfs"]
    assert f"-o {scratch.partition(':')[2]} tmpfs" in text
    image = (ROOT / "Dockerfile").read_text("utf-8")
    config = re.search(r"CAMPAIGN_WORKER_CONFIG=(\S+)", image)
    assert config is not None
    assert config[0] in text
