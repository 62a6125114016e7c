"""One story for all tests of the page, and one browser for each process of tests."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.web.scene import ANN, Scene, copied, play, scene

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def found_browser() -> str | None:
    """Where this machine has a Chromium."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the story, to be looked at only; played once, whichever process of tests comes first."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / "story of the page"
    with (shared / "story.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            making = shared / "story in the making"
            play(making)
            making.rename(folder)
    return folder


@pytest.fixture(scope="session")
def shown(story: Path) -> Iterator[Scene]:
    """The page over the story, for tests that decide nothing."""
    with scene(story) as found:
        yield found


@pytest.fixture
def own(story: Path, tmp_path: Path) -> Iterator[Scene]:
    """The page over a copy of the story, for a test in which Ann decides something."""
    with scene(copied(story, tmp_path / "own"), keys=ANN) as found:
        yield found


@pytest.fixture(scope="module")
def browser(story: Path) -> Iterator[Browser]:
    """A headless Chromium that is installed on this machine.

    Of a module, not of the whole run: its driver's event loop counts as running in this thread for as long as it lives,
    and no test that runs a loop of its own could come after it. The story must be there before.
    """
    found = found_browser()
    if found is None:
        words = "NOT TESTED: the page in a real browser, because there is no Chromium; see tests/tools.sh"
        pytest.fail(words) if os.environ.get("CI") else pytest.skip(words)
    with sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=found, headless=True, args=list(OPTIONS))
        yield made
        made.close()
