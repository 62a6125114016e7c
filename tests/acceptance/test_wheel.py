"""What an install from the wheel can do, with no file of the checkout in reach.

The wheel is built as a release is. By default it is put into an environment of its own that borrows the libraries of
this one; `make prove` installs it as a stranger would, from the package registry, on each Python that it is said to run
on.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
MEGABYTES_MAX = 80
"""What an install without extras may weigh, the interpreter aside."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the wheel in it, and an empty folder to work in."""

    home: Path
    folder: Path

    def call(self, *arguments: str, below: str = "") -> "subprocess.CompletedProcess[str]":
        """The installed command, which knows nothing of this checkout."""
        return subprocess.run(
            [str(self.home / "bin" / "campaign-worker"), *arguments],
            cwd=self.folder / below,
            env={"PATH": os.defpath, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


def ran(*words: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def wheel_of(source: Path, folder: Path) -> Path:
    """The wheel of a checkout or of an unpacked sdist."""
    ran("pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("*.whl")
    return wheel


CLASSIFIERS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
PYTHONS = [one.rpartition(" ")[2] for one in CLASSIFIERS if re.fullmatch(r".* 3\.\d+", one)]


@pytest.fixture(scope="module", params=["borrowing", *(pytest.param(one, marks=pytest.mark.prove) for one in PYTHONS)])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, built and installed. A Python that this machine does not have is skipped, and said to be."""
    folder = tmp_path_factory.mktemp("wheel")
    wheel, home = wheel_of(ROOT, folder), folder / "venv"
    asked = sys.executable if request.param == "borrowing" else f"python{request.param}"
    try:
        subprocess.run([asked, "-m", "venv", "--without-pip", home], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"there is no {asked} here")
    python = home / "bin" / "python"
    if request.param != "borrowing":
        ran("pip", "--python", python, "install", "--quiet", wheel)
    else:
        ran("uv", "pip", "install", "--quiet", "--offline", "--no-deps", "--python", python, wheel)
        libraries = sysconfig.get_path("purelib")
        (site,) = home.glob("lib/python*/site-packages")
        (site / "borrowed.pth").write_text(f"{libraries}\n", "utf-8")
    empty = folder / "empty"
    empty.mkdir()
    return Installed(home, empty)


def test_from_the_wheel_one_starts_checks_tests_and_runs(installed: Installed) -> None:
    lost, began = installed.call("status"), installed.call("init", "here")
    assert (lost.returncode, began.returncode) == (2, 0), lost.stderr + began.stderr
    assert "`campaign-worker init` writes one" in lost.stderr

    checked, tested = installed.call("check", below="here"), installed.call("test", below="here")
    watched = installed.call("run", "--for", "8s", below="here")
    told = installed.call("log", below="here")

    assert [one.returncode for one in (checked, tested, watched, told)] == [0, 0, 0, 0], watched.stderr
    assert "2 rules, 0 errors, 0 warnings" in checked.stderr
    assert "0 failed" in tested.stderr
    assert "pause-cancelled" in told.stdout
    assert "Traceback" not in checked.stderr + tested.stderr + watched.stderr


def test_the_checkout_is_not_in_reach(installed: Installed) -> None:
    asked = [str(installed.home / "bin" / "python"), "-c", "import sys, worker; print(worker.__file__, sys.path)"]

    found = subprocess.run(asked, cwd=installed.folder, env={}, capture_output=True, text=True, check=True).stdout

    assert found.startswith(str(installed.home))
    assert str(ROOT / "worker") not in found
    assert f"'{ROOT}'" not in found


def test_the_sdist_is_the_whole_house_and_gives_the_same_wheel(tmp_path: Path) -> None:
    ran("hatchling", "build", "--target", "sdist", "--directory", tmp_path)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    unpacked = tmp_path / sdist.name.removesuffix(".tar.gz")
    for name in ("LICENSE", "README.md", "Makefile", "Dockerfile", "deploy", "requirements.lock", "tests", "docs"):
        assert (unpacked / name).exists(), name
    assert not (unpacked / ".venv").exists()

    with ZipFile(wheel_of(ROOT, tmp_path / "a")) as ours, ZipFile(wheel_of(unpacked, tmp_path / "b")) as theirs:
        (record,) = (name for name in ours.namelist() if name.endswith("/RECORD"))
        assert sorted(ours.read(record).splitlines()) == sorted(theirs.read(record).splitlines())
        assert {name.partition("/")[0] for name in ours.namelist()} == {"worker", record.partition("/")[0]}
        assert any(name.endswith("licenses/LICENSE") for name in ours.namelist())


def test_it_is_said_to_run_on_the_python_of_its_image() -> None:
    (base,) = re.findall(r"^ARG BASE=python:(3\.\d+)", (ROOT / "Dockerfile").read_text("utf-8"), re.MULTILINE)

    assert base in PYTHONS


def needed(name: str, *, found: set[str]) -> set[str]:
    """A distribution and all that it needs here, extras aside."""
    wanted = re.sub(r"[-_.]+", "-", name).lower()
    if wanted not in found:
        found.add(wanted)
        for text in distribution(wanted).requires or ():
            one = Requirement(text)
            if one.marker is None or one.marker.evaluate({"extra": ""}):
                needed(one.name, found=found)
    return found


def test_an_install_without_extras_is_light() -> None:
    """Its libraries, as they are installed here by the same lock."""
    names = needed("campaign-worker", found=set()) - {"campaign-worker"}
    files = [Path(str(file.locate())) for name in names for file in distribution(name).files or ()]
    own = [file for file in (ROOT / "worker").rglob("*") if file.is_file()]

    weight = sum(file.stat().st_size for file in (*files, *own) if file.is_file() and "__pycache__" not in file.parts)

    assert {"httpx", "sqlalchemy"} <= names
    assert not names & {"apprise", "psycopg", "sphinx", "msgspec"}
    assert 20 < weight / 1_000_000 < MEGABYTES_MAX, f"{weight / 1_000_000:.0f} MB"
