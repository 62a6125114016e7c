"""The image and the hooks are not built by the tests, so what they take from here is checked here."""

import os
import re
import shlex
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import pytest
import yaml
from pre_commit.clientlib import load_manifest  # type: ignore[import-untyped]

from tests.calling import call
from worker import __version__

ROOT: Final = Path(__file__).resolve().parents[2]
LINES: Final = (ROOT / "Dockerfile").read_text("utf-8").replace("\\\n", " ").splitlines()


def let_in(name: str) -> bool:
    """Whether the image's builder is shown a file at all."""
    kept = [line for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line and line[0] != "#"]
    return "*" in kept and any(line[0] == "!" and fnmatch(name, line[1:]) for line in kept)


def test_what_the_image_copies_is_there_and_not_kept_out() -> None:
    copied = [shlex.split(line)[1:-1] for line in LINES if line.startswith("COPY") and "--from" not in line]
    sources = [source for one in copied for source in one]

    assert {"worker", "rules", "config.yaml", "requirements.lock", "requirements-build.lock"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists() or not let_in(source)] == []


def test_the_image_s_ledger_is_taken_to_its_volume() -> None:
    told = next(line for line in LINES if "sed -i" in line)
    found = re.search(r"s\|\^(.+?)\$\|(.+?)\|", told)

    assert found is not None
    assert re.search(f"^{found[1]}$", (ROOT / "config.yaml").read_text("utf-8"), re.MULTILINE)
    assert found[2].startswith("ledger: sqlite:////data/")
    assert any(line.split() == ["VOLUME", "/data"] for line in LINES)


def test_the_image_runs_as_a_number_that_is_not_root_and_says_which_version_it_is() -> None:
    made = re.search(r"useradd --uid (\d+) --user-group", "\n".join(LINES))
    assert made is not None
    assert [line.split()[1] for line in LINES if line.startswith("USER ")] == [f"{made[1]}:{made[1]}"]
    assert int(made[1]) > 0
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', "\n".join(LINES)))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert (labels["version"], labels["licenses"]) == (project["version"], project["license"])
    assert labels["title"] == project["name"]
    assert project["version"] == __version__
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_a_repository_of_rules_can_check_and_test_before_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert [hook["id"] for hook in hooks] == ["campaign-worker-check", "campaign-worker-test"]
    call("init", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def ran() -> list[int]:
        return [call(*shlex.split(hook["entry"])[1:]).code for hook in hooks]

    assert all(hook["language"] == "python" and not hook["pass_filenames"] for hook in hooks)
    assert all(hook["entry"].startswith("campaign-worker ") for hook in hooks)
    assert ran() == [0, 0]
    rule = tmp_path / "rules" / "pause-cancelled.yaml"
    rule.write_text(rule.read_text("utf-8").replace("event.status", "event.statsu"), "utf-8")
    assert ran() == [2, 2]


def test_every_hook_calls_a_tool_of_the_lock() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [shlex.split(hook["entry"])[0] for repo in hooks for hook in repo["hooks"]]

    assert [repo["repo"] for repo in hooks] == ["local"], "nothing is downloaded"
    assert {Path(entry).name for entry in entries} == {"ruff", "lint-imports", "mypy"}
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    locked = (ROOT / "requirements-dev.lock").read_text("utf-8")
    assert all(f"\n{tool}==" in locked for tool in ("ruff", "import-linter", "mypy", "pre-commit"))


def test_both_stages_are_built_on_one_base_which_a_digest_can_pin() -> None:
    (base,) = [line.removeprefix("ARG BASE=") for line in LINES if line.startswith("ARG BASE=")]

    assert re.fullmatch(r"python:3\.\d+-slim(@sha256:[0-9a-f]{64})?", base), "the base by its digest, or not pinned yet"
    assert {line.split()[1] for line in LINES if line.startswith("FROM")} == {"${BASE}"}


def test_make_pin_writes_the_digest_that_it_was_told_and_the_next_one(tmp_path: Path) -> None:
    for name in ("Makefile", "Dockerfile"):
        shutil.copy(ROOT / name, tmp_path)
    skopeo = tmp_path / "bin" / "skopeo"
    skopeo.parent.mkdir()
    surroundings = {**os.environ, "PATH": f"{skopeo.parent}:{os.environ['PATH']}"}

    def pinned(script: str) -> tuple[int, list[str]]:
        skopeo.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        skopeo.chmod(0o755)
        code = subprocess.run(["make", "pin"], cwd=tmp_path, env=surroundings, check=False).returncode
        lines = (tmp_path / "Dockerfile").read_text("utf-8").splitlines()
        return code, [line for line in lines if line.startswith("ARG BASE")]

    for digest in ("sha256:" + "a" * 64, "sha256:" + "b" * 64):
        told = f'[ "$4" = docker://python:3.11-slim ] && echo {digest}'
        assert pinned(told) == (0, [f"ARG BASE=python:3.11-slim@{digest}"])
    assert pinned("exit 1") == (2, ["ARG BASE=python:3.11-slim@sha256:" + "b" * 64]), "left as it is"


def would_be_made(*targets: str) -> str:
    call = ["make", "--dry-run", "--always-make", *targets]
    return subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_an_install_says_only_what_fails() -> None:
    """Twice quiet: pip's warnings of where an index lies are a hundred lines before the first word of the demo."""
    made = would_be_made("demo", "test", "audit")
    installs = [line for line in made.splitlines() if " install " in line and "-m pip" in line]

    assert len(installs) >= 3, made
    assert [line for line in installs if "--quiet --quiet" not in line] == []


def test_every_lock_is_audited_and_names_each_file_by_its_hash() -> None:
    made = would_be_made("audit")
    for lock in ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "requirements-audit.lock"):
        assert f"-r {lock}" in made
        wanted = re.findall(r"^[a-z].*", (ROOT / lock).read_text("utf-8"), re.MULTILINE)
        assert wanted
        assert [line for line in wanted if not re.fullmatch(r"[a-z0-9._-]+(\[.*\])?==.*\\", line)] == []
