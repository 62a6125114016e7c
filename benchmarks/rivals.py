"""The rivals of the benchmarks: real packages, each set in an environment of its own beside this file.

Nothing of them is a dependency of the worker, not even for its tests. A set is ``requirements/NAME.in``, solved by
``make lock`` into ``NAME.txt`` with the hash of every file; `python` installs it into ``.rivals/`` the first time that
a benchmark asks for it, and again whenever its text or the interpreter changes. By itself this script installs every
set and prints what is in it.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCKS = HERE / "requirements"
ENVIRONMENTS = HERE / ".rivals"
READY = "ready"
"""The file that an environment has once it is whole."""


def python(name: str) -> Path:
    """The interpreter of the rivals named in ``requirements/NAME.txt``, installed if they are not.

    Raises `SystemExit`, with what to do, where they cannot be had: a comparison that silently lacks its rival is none.
    """
    lock = LOCKS / f"{name}.txt"
    if not lock.exists():
        known = ", ".join(sorted(path.stem for path in LOCKS.glob("*.txt")))
        raise SystemExit(f"There are no rivals called {name}; there are: {known}.")
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:12]
    home = ENVIRONMENTS / f"{name}-{digest}"
    interpreter = home / "bin" / "python"
    ENVIRONMENTS.mkdir(exist_ok=True)
    with (ENVIRONMENTS / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # two benchmarks may want the same rivals at once
        if not (home / READY).exists():
            _install(lock, home)
            _forget_others(name, home)
    return interpreter


def versions(interpreter: Path, names: Sequence[str]) -> Mapping[str, str]:
    """The versions of some distributions as that interpreter has them."""
    asked = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    found = subprocess.run([interpreter, "-c", asked, *names], check=True, capture_output=True, text=True).stdout
    return dict(zip(names, found.split(), strict=True))


def origin(names: Sequence[str] = ()) -> str:
    """Where and on what a benchmark ran, in one line: commit, machine, load, Python, and distributions of our own."""
    told = subprocess.run(
        ["git", "-C", HERE, "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"],
        check=False,
        capture_output=True,
        text=True,
    ).stdout.strip()
    machine = f"{platform.system()} {platform.machine()}, {_processor()}, {os.cpu_count()} cores"
    ours = [f"{name} {version(name)}" for name in names]
    load = f"load {os.getloadavg()[0]:.1f}"
    return "; ".join([f"commit {told or 'unknown'}", machine, load, f"Python {platform.python_version()}", *ours])


def _install(lock: Path, home: Path) -> None:
    print(f"installing the rivals of {lock.relative_to(HERE.parent)}, each file checked by its hash", file=sys.stderr)
    shutil.rmtree(home, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", home], check=True)
    pip = (home / "bin" / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install")
    done = subprocess.run([*pip, "--require-hashes", "-r", lock], check=False, stdout=sys.stderr)
    if done.returncode != 0:
        raise SystemExit(f"The rivals of {lock.name} could not be installed; pip says above why. Nothing was measured.")
    (home / READY).touch()


def _forget_others(name: str, home: Path) -> None:
    for other in ENVIRONMENTS.glob(f"{name}-*"):
        if other != home:
            shutil.rmtree(other, ignore_errors=True)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "unknown processor")


def main() -> None:
    """Every set, installed, with the versions of what it names itself."""
    print(origin())
    for wanted in sorted(LOCKS.glob("*.in")):
        lines = wanted.read_text(encoding="utf-8").splitlines()
        names = [line.partition("#")[0].partition("[")[0].strip() for line in lines]
        found = versions(python(wanted.stem), [name for name in names if name])
        print(f"{wanted.stem:<12}", ", ".join(f"{name} {number}" for name, number in found.items()))


if __name__ == "__main__":
    main()
