"""Calls a command as the shell would, in this process: arguments in; exit code, stdout and stderr out."""

import io
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker.cli.app import COMMANDS, loaded, main

for name in COMMANDS:
    loaded(name)  # here and not within the first test that calls a command, whose time is measured
PAUSE = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled'
    do: [pause]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """What came of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The object that was printed."""
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def both(self) -> str:
        """Everything that was said."""
        return self.out + self.err

    def says(self, code: int, *words: str) -> None:
        """It ended with this code, and each of these words is in its answer (stdout)."""
        assert self.code == code, self.both
        assert [one for one in words if one not in self.out] == [], self.both

    def tells(self, code: int, *words: str) -> None:
        """It ended with this code, and each of these words is in what it tells a person beside its answer (stderr)."""
        assert self.code == code, self.both
        assert [one for one in words if one not in self.err] == [], self.both

    def fails(self, code: int, *words: str) -> None:
        """As ``tells``, and it printed nothing that could be taken for an answer."""
        self.tells(code, *words)
        assert self.out == ""


def call(*arguments: str, config: Path | None = None) -> Called:
    """One command to its end. ``config``: the file named with --config."""
    out, err = io.StringIO(), io.StringIO()
    named = () if config is None else ("--config", str(config))
    with redirect_stdout(out), redirect_stderr(err):
        try:
            main([*named, *arguments])
        except SystemExit as stop:
            code = stop.code
    return Called(code=code if isinstance(code, int) else 1, out=out.getvalue(), err=err.getvalue())


def call_beside(*arguments: str, config: Path) -> Called:
    """The same from within a loop that runs: a command may begin one of its own."""
    with ThreadPoolExecutor(max_workers=1) as alone:
        return alone.submit(call, *arguments, config=config).result()


def settle_in(folder: Path, config: str = "", rules: str = PAUSE) -> Path:
    """A folder as an operator has one: a config, whose path is returned, and one rule file."""
    (folder / "rules").mkdir()
    (folder / "rules" / "rules.yaml").write_text(rules, encoding="utf-8")
    file = folder / "config.yaml"
    file.write_text(config, encoding="utf-8")
    return file
