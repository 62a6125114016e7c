"""How soon a page answers over a ledger of months: 100,000 records, every kind of page, one after the other.

Over a real socket, through the door, from the ledger's file, without the rest that the page takes after each answer so
that a busy page slows no look: somebody who reads what was answered gives it more rest than that.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

import httpx

from tests.crowded import crowded, last_moment
from tests.web.scene import scene

RECORDS = int(os.environ.get("RECORDS", "100000"))
TIMES = int(os.environ.get("TIMES", "15"))
LIMIT_MS = 200.0
PAGES = (
    "/",
    "/log",
    "/log?event=event-4",
    "/log?rule=rare-rule",
    "/log?kind=needs_human",
    "/log?reason=halt",
    "/writes",
    "/writes?rule=rare-rule",
    "/write?id=7000",
    "/event?event=event-4",
    "/search?event=199",
    "/rules",
    "/rule?rule=pause-cancelled",
    "/charts",
    "/metrics",
)


def measured(client: httpx.Client, path: str) -> list[float]:
    """Milliseconds of each answer; the first one too, in which what is kept for a while is made."""
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        answer = client.get(path)
        times.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, f"{path}: {answer.status_code}"
    return times


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text("{}\n", "utf-8")
        (folder / "rules").mkdir()
        with crowded(folder, records=RECORDS) as ledger:
            print(f"{ledger.last_seq()} records, {(folder / 'worker.db').stat().st_size / 1e6:.0f} MB")
        slow = []
        print(f"{'page':32} {'half within':>12} {'slowest':>10} {'first':>8}   ms of {TIMES}")
        with (
            scene(folder, now=last_moment(RECORDS)) as shown,
            httpx.Client(base_url=shown.address, trust_env=False) as client,
        ):
            for path in PAGES:
                times = measured(client, path)
                middle = statistics.median(times)
                slow += [path] if middle > LIMIT_MS else []
                print(f"{path:32} {middle:12.1f} {max(times):10.1f} {times[0]:8.1f}")
    if slow:
        sys.exit(f"slower than {LIMIT_MS:.0f} ms: {', '.join(slow)}")


if __name__ == "__main__":
    main()
