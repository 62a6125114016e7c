"""What the daemon takes while nothing happens: 10,000 events, 20 rules, a look every 3 seconds, over real sockets.

The daemon and the twin are processes of their own; the daemon's processor time and resident memory are read from /proc
once every event was met and is at rest. Beside it, in the same run and against the same twin, a loop that does nothing
but read the same pages every 3 seconds with httpx and decode them with `json.loads`.

``EVENTS`` and ``SECONDS`` change the size (10,000 and 60), ``REST`` for how many seconds the daemon is left alone
before (240). Linux only.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
COMMAND = Path(sys.executable).with_name("campaign-worker")
EVENTS = int(os.environ.get("EVENTS", "10000"))
SECONDS = float(os.environ.get("SECONDS", "60"))
REST_S = float(os.environ.get("REST", "240"))
PAGE, EVERY_S, PATIENCE_S = 1000, 3.0, 180.0
TICKS = os.sysconf("SC_CLK_TCK")
CONDITIONS = (
    "event.status == 'cancelled'",
    "event.frontend_status == 'FLAGGED' && event.predicted_sales_share > 0.9",
    "event.status == 'active' && event.capacity > 100000",
    "event.category == 'none of these' && event.predicted_sales_share < 0.1",
    "event.city.startsWith('Nowhere') || event.venue_name == 'Nowhere'",
)

READER = """
import json, sys, time, httpx
client = httpx.Client(base_url=sys.argv[1], timeout=60)
token = client.post("/auth", json={"username": "sandbox", "password": "sandbox"}).json()["AccessToken"]
limit, partners = int(sys.argv[2]), sys.argv[3:]
once = partners[0] == "once"
while True:
    began = time.monotonic()
    for partner in partners[once:]:
        page, total = 0, 1
        while page * limit < total:
            page += 1
            head = {"Authorization": "Bearer " + token, "X-Preferred-Partner-Id": partner}
            answer = client.get("/events/", params={"limit": limit, "page": page}, headers=head)
            total = json.loads(answer.content)["total"]
    if once:
        break
    time.sleep(max(0.0, 3.0 - (time.monotonic() - began)))
"""


def cpu_s(pid: int) -> float:
    """Processor seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_mb(pid: int) -> float:
    """Resident memory of a process, in megabytes of a million bytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def measured(pid: int) -> tuple[float, float]:
    """Percent of one core over the window, and the memory at its end."""
    before, began = cpu_s(pid), time.monotonic()
    time.sleep(SECONDS)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - began), resident_mb(pid)


def twin(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """The twin and its address."""
    command = [str(COMMAND), "sandbox", "--port", "0", "--events", str(EVENTS)]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        found = re.search(r"base_url: (http://\S+)", line)
        if found is not None:
            return process, found[1]
    raise RuntimeError("the twin did not start")


def daemon(folder: Path, base_url: str) -> subprocess.Popen[bytes]:
    """The daemon under 20 rules none of which ever fires."""
    rules = folder / "rules"
    rules.mkdir(exist_ok=True)
    lines = [
        f"  - id: rule-{number}\n    when: {CONDITIONS[number % len(CONDITIONS)]}\n    do: [{{notify: 'rule'}}]\n"
        for number in range(20)
    ]
    (rules / "twenty.yaml").write_text("rules:\n" + "".join(lines), encoding="utf-8")
    config = {
        "api": {"base_url": base_url},
        "poll": {"interval": "3s", "page_size": PAGE},
        "requests": {"per_minute": 600},
        "rules": "rules",
        "ledger": "sqlite:///worker.db",
        "mode": "shadow",
    }
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    environment = {**os.environ, "CAMPAIGN_WORKER_USERNAME": "sandbox", "CAMPAIGN_WORKER_PASSWORD": "sandbox"}
    with (folder / "log.txt").open("wb") as log:
        return subprocess.Popen([str(COMMAND), "run"], cwd=folder, stdout=log, stderr=log, env=environment)


def met(folder: Path, process: "subprocess.Popen[bytes]", every_s: float = 1.0) -> list[str]:
    """Waits until every event was met. The partners."""
    deadline, log = time.monotonic() + PATIENCE_S, folder / "log.txt"
    events_of: dict[str, int] = {}
    while sum(events_of.values()) < EVENTS:
        text = log.read_text(encoding="utf-8", errors="replace")
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the daemon did not meet every event:\n{text[-2000:]}")
        found = re.findall(r'"partner": "([^"]+)", "events": (\d+), "complete": true', text)
        events_of = {partner: int(events) for partner, events in found}
        time.sleep(every_s)
    return sorted(events_of)


def ended(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """Ends a process, and waits for it."""
    process.terminate()
    process.wait(60)


def main() -> None:
    """Measures and prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        running: list[subprocess.Popen[str] | subprocess.Popen[bytes]] = []
        try:
            service, base_url = twin(folder)
            running.append(service)
            worker = daemon(folder, base_url)
            running.append(worker)
            partners = met(folder, worker)
            time.sleep(REST_S)  # what a start leaves to do afterwards
            own = measured(worker.pid)
            ended(running.pop())
            reader = subprocess.Popen([sys.executable, "-c", READER, base_url, str(PAGE), *partners])
            running.append(reader)
            time.sleep(2 * EVERY_S)
            assert reader.poll() is None, "the bare reader ended"
            bare = measured(reader.pid)
        finally:
            for process in reversed(running):
                ended(process)
    print(f"{EVENTS} events, 20 rules, a look every 3 s, nothing happens; {SECONDS:.0f} s")
    print("| what | percent of one core | ratio | resident MB |\n|---|---|---|---|")
    print(f"| httpx and json.loads alone | {bare[0]:.1f} | 1.0 | {bare[1]:.0f} |")
    print(f"| the daemon | {own[0]:.1f} | {own[0] / bare[0]:.1f} | {own[1]:.0f} |")


if __name__ == "__main__":
    main()
