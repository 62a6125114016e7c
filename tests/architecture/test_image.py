"""The image and the hooks are not built by the tests, so what they take from here is checked here."""

import re
import shlex
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import yaml

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
    assert any(line.startswith("USER ") and "root" not in line for line in LINES)


def test_every_hook_calls_a_tool_of_the_lock() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]
    entries = [shlex.split(hook["entry"])[0] for repo in hooks for hook in repo["hooks"]]

    assert [repo["repo"] for repo in hooks] == ["local"], "nothing is downloaded"
    assert {Path(entry).name for entry in entries} == {"ruff", "lint-imports", "mypy"}
    assert all(entry.startswith(".venv/bin/") for entry in entries)
    locked = (ROOT / "requirements-dev.lock").read_text("utf-8")
    assert all(f"\n{tool}==" in locked for tool in ("ruff", "import-linter", "mypy", "pre-commit"))
