"""The docs as a site: it builds without a warning, loads nothing from elsewhere, and its pictures are of what is there.

A warning is a link that leads nowhere, a page that no table of contents names, an example in an unknown language.
"""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.reference.pages import ROOT
from worker.writes.life import MOVES

LIFE: Final = (ROOT / "docs" / "life.svg").read_text("utf-8")
ENDED: Final = frozenset({"rejected", "refused", "skipped", "cancelled"})
"""Ends that the picture draws as one."""
LOADED: Final = re.compile(r'<(?:script|img|iframe)[^>]* src="([^"]+)"|<link rel="stylesheet"[^>]* href="([^"]+)"')
BUILD: Final = ["-W", "ignore", "-m", "sphinx", "-q", "-W", "--keep-going", "-n", "-c"]


def built(source: Path, conf: Path, target: Path) -> "subprocess.CompletedProcess[str]":
    call = [sys.executable, *BUILD, str(conf), str(source), str(target)]
    return subprocess.run(call, cwd=source, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` does."""
    target = tmp_path_factory.mktemp("site")
    done = built(ROOT, ROOT / "docs" / "site", target)
    assert done.returncode == 0, done.stderr
    return target


def test_it_builds_strictly_and_begins_at_its_front_page(site: Path) -> None:
    assert "docs/index.html" in (site / "index.html").read_text("utf-8")
    assert (site / "docs" / "decisions" / "0001-four-outcomes.html").is_file()
    assert (site / "searchindex.js").is_file()


def test_it_loads_nothing_from_elsewhere(site: Path) -> None:
    found = [pair for page in site.rglob("*.html") for pair in LOADED.findall(page.read_text("utf-8"))]
    loaded = {script or style for script, style in found}

    assert len(loaded) > 5, "nothing was found that a page loads"
    assert [one for one in loaded if re.match(r"(?:[a-z]+:)?//", one)] == []


def test_a_link_that_leads_nowhere_fails_it(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Front\n\nSee [this](rules.md).\n", "utf-8")

    done = built(tmp_path, ROOT / "docs" / "site", tmp_path / "out")

    assert done.returncode != 0
    assert "rules.md" in done.stderr


def test_the_picture_of_a_write_has_every_move_of_the_table_and_no_other() -> None:
    drawn = re.findall(r'data-move="(\w+) (\w+)"', LIFE)
    moves = {(state, "ended" if after in ENDED else after) for state, follows in MOVES.items() for after in follows}

    assert len(drawn) == len(set(drawn))
    assert set(drawn) == moves


def test_pictures_have_a_ground_of_their_own_in_light_and_in_dark() -> None:
    """A picture cannot know the page's colours, so it brings its ground along."""
    for picture in (ROOT / "docs").glob("*.svg"):
        text = picture.read_text("utf-8")
        assert "prefers-color-scheme:dark" in text, picture.name
        assert "<title" in text, picture.name
