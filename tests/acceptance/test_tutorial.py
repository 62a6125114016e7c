"""docs/tutorial.md, typed in: every file is saved, every command run in its order, every line that is shown is printed.

The first commands of it install the wheel, with the libraries of this environment in reach; `make prove` installs
those too, as a stranger would.
"""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.acceptance.processes import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "tutorial.md"
BLOCK: Final = re.compile(r"^(?P<before>[^\n]*)\n\n```(?P<language>\w+)\n(?P<body>.*?)^```", re.MULTILINE | re.DOTALL)
SAYS: Final = "@@@"
"""Before what the script of these tests prints itself."""


@dataclass(slots=True)
class Typed:
    """A command of the page, what it shows below, and the exit code that it names."""

    command: str
    shown: list[str] = field(default_factory=list)

    @property
    def code(self) -> int:
        named = re.search(r"# exit code (\d)", self.command)
        return int(named[1]) if named else 0


def typed(body: str) -> Iterator[Typed]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *shown = part.strip("\n").split("\n")
        yield Typed(command, shown)


def script() -> tuple[str, list[Typed]]:
    """The whole page as one session of a shell, and its commands."""
    lines, commands = [], []
    page = PAGE.read_text("utf-8").replace("8700", str(free_port()))
    for block in BLOCK.finditer(page):
        if block["language"] == "console":
            for one in typed(block["body"]):
                commands.append(one)
                lines += [f"echo {SAYS}", one.command, f"echo {SAYS} $?"]
        else:
            file = re.findall(r"`([^`]+)`[:.]$", block["before"])[-1]
            lines.append(f"printf %s {shlex.quote(block['body'])} > {shlex.quote(file)}")
    return "\n".join(lines), commands


def is_shown(line: str, printed: str) -> bool:
    """Whether a line of the page stands in what was printed; `…` is anything, and blanks are as many as there are."""
    wanted = ".*".join(re.escape(" ".join(part.split())) for part in line.split("…"))
    return any(re.search(wanted, " ".join(one.split())) for one in printed.splitlines())


@pytest.mark.timeout(600)  # 44 s of waiting and thirty commands, beside other tests
@pytest.mark.parametrize("alone", [False, pytest.param(True, marks=pytest.mark.prove)])
def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path: Path, *, alone: bool) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, cwd=ROOT)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    borrowed = {"PYTHONPATH": sysconfig.get_path("purelib"), "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1"}
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    own = {"PATH": f"{tmp_path / 'bin'}:{os.defpath}", "HOME": str(tmp_path), "COLUMNS": "120"}
    text, commands = script()

    done = subprocess.run(
        ["bash", "-m", "-c", f"exec 2>&1\n{text}"],
        cwd=tmp_path,
        env={**kept, **own, **({} if alone else borrowed)},
        capture_output=True,
        text=True,
        check=False,
    )

    answers = re.split(rf"^{SAYS}\n", done.stdout, flags=re.MULTILINE)[1:]
    assert len(answers) == len(commands) > 20, done.stdout
    for one, answer in zip(commands, answers, strict=True):
        printed, _, code = answer.rpartition(f"{SAYS} ")
        assert int(code) == one.code, f"{one.command}\n{printed}"
        missing = [line for line in one.shown if not is_shown(line, printed)]
        assert missing == [], f"{one.command}\n{printed}"
