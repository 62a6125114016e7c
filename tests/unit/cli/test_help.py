"""The help of each command: it shows a call to begin with, and reads well on any terminal."""

import inspect

import pytest

from tests.calling import call
from worker.cli.app import COMMANDS, flowing

LEDGER = ("backup", "upgrade", "accept-restore", "moved")
CALLS = [
    *((name,) for name in COMMANDS if name not in ("demo", "ledger", "rules")),
    *(("ledger", name) for name in LEDGER),
    ("rules", "publish"),
]
"""All but `demo`, which takes nothing, and the groups that only lead on."""


@pytest.mark.parametrize("command", CALLS, ids=" ".join)
def test_each_help_shows_a_whole_call(command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    about = call(*command, "--help").out.partition("─")[0].partition("Usage: ")[2].partition("\n")[2]

    assert f"campaign-worker {' '.join(command)}" in about or f" {' '.join(command)} --" in about


def test_no_paragraph_of_a_help_is_broken_where_the_code_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    lines = [line.strip() for line in call("explain", "--help").out.splitlines()]

    begin = next(place for place, line in enumerate(lines) if line.startswith("The daemon's own code decides"))
    paragraph = lines[begin : lines.index("", begin)]
    assert all(len(line) > 60 for line in paragraph[:-1]), paragraph


def test_what_stands_apart_stays_apart() -> None:
    text = """One.

    Two, which goes
    on.

    Example: this
    """
    assert flowing(inspect.cleandoc(text)) == "One.\n\nTwo, which goes on.\n\nExample: this"
