"""DBOS on SQLite: a workflow of one step, durably recorded as DBOS does by default. Runs in the rivals' environment."""

import sys
import time

from dbos import DBOS
from rounds import serve


@DBOS.step()
def send(number: int) -> int:
    """The effect; nothing, because what is measured is the recording."""
    return number


@DBOS.workflow()
def write(number: int) -> int:
    """One write."""
    return send(number)


def some(count: int) -> list[float]:
    """Milliseconds of each of some workflows, one after the other."""
    times = []
    for number in range(count):
        began = time.perf_counter()
        write(number)
        times.append((time.perf_counter() - began) * 1000)
    return times


DBOS(
    config={
        "name": "rival",
        "system_database_url": f"sqlite:///{sys.argv[1]}/dbos.sqlite",
        "run_admin_server": False,
        "log_level": "ERROR",
    }
)
DBOS.launch()
some(10)
serve(some)
DBOS.destroy()
