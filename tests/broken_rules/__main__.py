"""Broken rule files, and what `check` says of each: ``python -m tests.broken_rules`` writes the messages anew.

Each case is a rule file, or a folder where the mistake takes several. What is said of it stands beside it in a text of
the same name, to be read by whoever reviews a change: somebody who has never seen the code must understand it.
"""

from pathlib import Path
from typing import Final

from worker.cli.check import Checked, blocks, checked, summary
from worker.cli.common import engine_settings
from worker.config import Config
from worker.rules.registry import BUILT_IN_REGISTRY

FOLDER: Final = Path(__file__).parent
ENDING: Final = ".txt"
SETTINGS: Final = engine_settings(Config.model_validate({}))
"""The defaults of the config, as the engine takes them."""


def cases() -> tuple[Path, ...]:
    """The broken files and folders."""
    found = [one for one in FOLDER.iterdir() if one.is_dir() or one.suffix in (".yaml", ".yml")]
    return tuple(sorted(one for one in found if not one.name.startswith("__")))


def golden(case: Path) -> Path:
    """The text with what is said of a case."""
    return case.with_suffix(ENDING)


def found_in(case: Path) -> Checked:
    """What is found in a case."""
    return checked(case, BUILT_IN_REGISTRY, SETTINGS)


def said(case: Path) -> str:
    """What `check` prints for a case, with places as they are from this folder."""
    found = found_in(case)
    whole = "\n\n".join([*blocks(found.problems), summary(len(found.rules), found.problems)])
    return whole.replace(f"{FOLDER}/", "") + "\n"


if __name__ == "__main__":
    for one in cases():
        golden(one).write_text(said(one), encoding="utf-8")
    for stale in FOLDER.glob(f"*{ENDING}"):
        if stale not in {golden(one) for one in cases()}:
            stale.unlink()
