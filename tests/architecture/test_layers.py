"""The layout is the architecture: the contracts in pyproject.toml hold.

import-linter does the judging, so that `make lint`, an editor and this test can never disagree. It also stops at a
module that a contract names and that does not exist.
"""

import os
import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest
from importlinter.cli import lint_imports

ROOT: Final = Path(__file__).resolve().parents[2]
DATA: Final = frozenset({"tzdata"})
"""What is read, and never imported."""
REMEDY: Final = (
    "\nMove what both sides need down a layer (often into worker/model), hand it in as an argument, or put a protocol "
    "into worker/engine/ports.py. The contract itself, in pyproject.toml, changes only with a decision record."
)


def test_every_library_that_is_installed_with_the_worker_is_used_by_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["messages"]]
    source = "\n".join(file.read_text("utf-8") for file in (ROOT / "worker").rglob("*.py"))
    imported = set(re.findall(r"^\s*(?:from|import) (\w+)", source, re.MULTILINE))
    names: dict[str, set[str]] = {}
    for module, distributions in packages_distributions().items():
        for one in distributions:
            names.setdefault(one.lower().replace("_", "-"), set()).add(module)

    libraries = {re.match(r"[\w-]+", line)[0].lower() for line in wanted} - DATA  # type: ignore[index]

    assert [one for one in sorted(libraries) if not names.get(one, set()) & imported] == []


def test_every_import_keeps_to_the_layers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))

    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)

    assert code == os.EX_OK, capsys.readouterr().out + REMEDY
