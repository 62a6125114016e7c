"""Nothing in the repository says on which machine, or through which package index, it was made.

Such an address would make an install work in one place only, and tells strangers what is none of their business. The
needles are put together from pieces, or this file would be the first to be found.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.builders import cases

ROOT: Final = Path(__file__).resolve().parents[2]

REGISTRY: Final = "py" + "pi"
PYTHON_FILES: Final = "python" + "hosted"
INDEX_OPTION: Final = "index" + "-url"
HOMES: Final = "|".join(["wo" + "rk", "ro" + "ot", "ho" + "me/[a-z]", "Us" + "ers"])
SIBLING: Final = ".." + "/sha" + "red"

NEEDLES: Final = (
    (re.compile(rf"https?://[^\s\"'<>]*(?:{REGISTRY}|{PYTHON_FILES})", re.IGNORECASE), "a package index's address"),
    (re.compile(re.escape(INDEX_OPTION), re.IGNORECASE), "an option that names a package index"),
    (re.compile(r"^\s*--(?:find-links|trusted-host)", re.MULTILINE), "an option that names a package index"),
    (re.compile(rf"(?<![\w.~*$}}/-])/(?:{HOMES})/"), "an absolute path of one machine"),
    (re.compile(re.escape(SIBLING)), "a folder outside the repository"),
)
LINK: Final = "120000 "
"""How git's listing of what it tracks begins where that is a symbolic link."""


def tracked(*options: str) -> list[str]:
    """What git says of each file that it tracks; outside a checkout (an unpacked source archive) there is nothing to
    say."""
    listing = subprocess.run(["git", "ls-files", "-z", *options], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [entry for entry in listing.stdout.split("\0") if entry]


def committed_files() -> list[Path]:
    """Those that are here."""
    return [ROOT / name for name in tracked() if (ROOT / name).is_file()]


def committed_links() -> list[str]:
    """Those that git has as symbolic links."""
    return [entry.partition("\t")[2] for entry in tracked("--stage") if entry.startswith(LINK)]


def findings(file: Path) -> Iterator[str]:
    text = file.read_bytes().decode("utf-8", errors="replace")
    for needle, what in NEEDLES:
        for match in needle.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{file.relative_to(ROOT)}:{line}: {what}: {match.group().strip()}"


def test_no_committed_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = [finding for file in committed_files() for finding in findings(file)]

    assert not found, (
        "committed files tell of the place they were made in:\n  "
        + "\n  ".join(found)
        + "\nName packages, not hosts; write paths from the repository's top; let `make lock` write the locks."
    )


def test_nothing_committed_is_a_link() -> None:
    found = committed_links()

    assert not found, f"a link leads where this machine has something: {', '.join(found)}; `git rm --cached` it"


@cases(
    "text, is_one",
    (f"see https://{REGISTRY}.example/simple/x", True, "an index in prose"),
    (f"--extra-{INDEX_OPTION} x", True, "an option of a lock"),
    (f"open('/{HOMES.split('|')[0]}/main/a')", True, "a path in code"),
    (f"[contract]({SIBLING}/contract.md)", True, "a link out of the repository"),
    ("GET /api/v3/partners/", False, "a path of the service"),
    ("docs/decisions/0001.md", False, "a path from the top"),
    ("sqlite:////data/worker.db", False, "a volume of the image"),
    ("https://keepachangelog.com/en/1.1.0/", False, "an address that is no index"),
)
def test_each_kind_of_trace_is_found_and_nothing_else(text: str, is_one: bool) -> None:
    assert any(needle.search(text) for needle, _ in NEEDLES) is is_one
