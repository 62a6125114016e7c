"""The layout is the architecture: the contracts in pyproject.toml hold, and they speak of modules that exist.

import-linter does the judging, so that `make lint`, an editor and this test can never disagree.
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


def contracts() -> list[dict[str, object]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    found = settings["tool"]["importlinter"]["contracts"]
    return list(found)


def named_modules(contract: dict[str, object]) -> set[str]:
    """Every module of ours that a contract names, as a dotted name below `worker`."""
    names: set[str] = set()
    for key in ("source_modules", "forbidden_modules", "protected_modules", "allowed_importers"):
        listed = contract.get(key, [])
        if isinstance(listed, list):
            names |= {name.removeprefix("*.") for name in listed if name.startswith("*.")}
    layers = contract.get("layers", [])
    if isinstance(layers, list):
        names |= {name for layer in layers for name in re.findall(r"\w+", layer)}
    ignored = contract.get("ignore_imports", [])
    if isinstance(ignored, list):
        importers = {line.split(" -> ")[0] for line in ignored}
        names |= {name.removeprefix("worker.").removesuffix(".**") for name in importers}
    return names


def exists(name: str) -> bool:
    path = ROOT.joinpath("worker", *name.split("."))
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


def test_every_import_keeps_to_the_layers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT))

    code = lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True, no_logo=True)

    assert code == os.EX_OK, capsys.readouterr().out + REMEDY


def test_every_module_that_a_contract_names_exists() -> None:
    unknown = [
        f"{contract['id']}: worker.{name}"
        for contract in contracts()
        for name in sorted(named_modules(contract))
        if not exists(name)
    ]

    assert not unknown, (
        "contracts in pyproject.toml name modules that do not exist, so they guard nothing there:\n  "
        + "\n  ".join(unknown)
        + "\nWhere a module was renamed, rename it in the contract too; where it is gone, take it out."
    )
