"""A service manager is told when the daemon is ready, alive and stopping; what is shipped for one is sound."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from tests.acceptance.processes import free_port, home, sandbox, supervised, until
from worker.cli.run import SOCKET_ENV, tell_supervisor

DEPLOY: Final = Path(__file__).resolve().parents[2] / "deploy"
UNIT: Final = DEPLOY / "systemd" / "campaign-worker.service"


def test_without_a_manager_or_with_one_that_is_gone_nothing_happens(tmp_path: Path) -> None:
    tell_supervisor("READY=1", {})
    tell_supervisor("READY=1", {SOCKET_ENV: str(tmp_path / "nobody")})
    tell_supervisor("READY=1", {SOCKET_ENV: "@campaign-worker-nobody"})


def test_a_real_daemon_tells_its_manager_and_serves_its_page(tmp_path: Path) -> None:
    with sandbox(tmp_path) as box, supervised(tmp_path, place := home(tmp_path, box)) as heard:
        port = free_port()
        place.told(f"web: {{listen: 127.0.0.1:{port}}}")
        with place.worker() as worker:
            until(lambda: "READY=1" in dict(heard), "the manager is told that it is ready")
            until(lambda: "WATCHDOG=1" in dict(heard), "the loop beats")
            address = f"http://127.0.0.1:{port}"
            until(lambda: httpx.get(f"{address}/readyz", trust_env=False).is_success, "a complete look")
            assert httpx.get(f"{address}/healthz", trust_env=False).text == "alive\n"
            figures = httpx.get(f"{address}/metrics", trust_env=False).text
            assert re.search(r'cycles_total\{partner="[^"]+",result="complete"\} [1-9]', figures)
            assert re.search(r'requests_total\{kind="read",partner="[^"]+",status="200"\} [1-9]', figures)
            assert re.search(r"ledger_commit_seconds_count [1-9]", figures)
            assert worker.stop() == 0
        until(lambda: "STOPPING=1" in dict(heard), "and that it ends")


def settings() -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE))


def test_the_unit_is_told_by_the_daemon_and_gives_up_where_trying_cannot_help() -> None:
    found = settings()
    assert (found["Type"], found["RestartPreventExitStatus"]) == ("notify", "2 3")
    assert int(found["TimeoutStopSec"].removesuffix("s")) > 20, "longer than stop_within"
    assert found["User"] not in ("", "root")


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("NOT TESTED: the unit file, because there is no systemd-analyze")
    unit = tmp_path / UNIT.name
    unit.write_text(re.sub(r"ExecStart=\S+", f"ExecStart={shutil.which('true')}", UNIT.read_text("utf-8")), "utf-8")
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_container_has_nothing_to_write_but_its_ledger() -> None:
    service: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]["worker"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["user"].split(":")[0] not in ("0", "root")
    assert [one for one in service["volumes"] if not one.endswith(":ro")] == ["ledger:/data"]
    assert all(one.startswith("127.0.0.1:") for one in service["ports"])
    image = (DEPLOY.parent / "Dockerfile").read_text("utf-8")
    assert f"--uid {service['user'].split(':')[0]}" in image
    assert "VOLUME /data" in image
