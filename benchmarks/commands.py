"""What commands cost from a shell: the help, `check` of 500 rules, and `explain` over a ledger of 100,000 records.

Each beside a rival that does the like, turn by turn, whole processes with the start of the interpreter. The rival of
help and `check` is cloud-custodian with as many policies of two value filters. That of `explain` is a bare script,
which asks SQLite for what the log has of the event and decodes it. It says nothing of why; it is the floor.

``RULES``, ``RECORDS`` and ``RUNS`` change the sizes. CPU seconds. Ends with 1 where an aim is missed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.rivals import origin, python, versions
from tests.crowded import crowded

RULES = int(os.environ.get("RULES", "500"))
RECORDS = int(os.environ.get("RECORDS", "100000"))
RUNS = int(os.environ.get("RUNS", "7"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}
AIMS = {"help": 0.2, "check": 2.0}
BARE = """
import json, sqlite3, sys
asked = "SELECT kind, why, facts, request FROM action_log WHERE event = ? ORDER BY id"
rows = sqlite3.connect(sys.argv[1]).execute(asked, sys.argv[2:]).fetchall()
assert [json.loads(row[2] or row[3] or "null") for row in rows]
"""


def rules() -> str:
    """Rules of two comparisons each."""
    lines = (
        f"  - id: pause-{number}\n    when: event.status == 'cancelled' && event.capacity > {number}\n    do: [pause]\n"
        for number in range(RULES)
    )
    return "rules:\n" + "".join(lines)


def policies() -> str:
    """The same of cloud-custodian."""
    found = [
        {
            "name": f"stop-{number}",
            "resource": "aws.ec2",
            "filters": [
                {"type": "value", "key": "State", "op": "eq", "value": "cancelled"},
                {"type": "value", "key": "Capacity", "op": "gt", "value": number},
            ],
            "actions": ["stop"],
        }
        for number in range(RULES)
    ]
    return json.dumps({"policies": found})


def cpu_s(command: list[str], folder: Path) -> float:
    """Processor seconds of one process from its start to its end."""
    with (folder / "said").open("w+b") as said:
        process = subprocess.Popen(command, cwd=folder, stdout=said, stderr=said, env=ENVIRONMENT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        assert process.returncode == 0, said.read().decode()
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measures and prints."""
    rival = python("deciding")
    custodian, worker = str(rival.with_name("custodian")), [sys.executable, "-m", "worker"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text("{rules: rules.yaml, ledger: 'sqlite:///worker.db'}\n", "utf-8")
        (folder / "rules.yaml").write_text(rules(), "utf-8")
        (folder / "policies.json").write_text(policies(), "utf-8")
        crowded(folder, records=RECORDS).close()
        commands = {
            "help": ([*worker, "--help"], [custodian, "--help"]),
            "check": ([*worker, "check"], [custodian, "validate", "policies.json"]),
            "explain": (
                [*worker, "explain", "--event", "event-4", "--rule", "pause-4"],
                [sys.executable, "-c", BARE, "worker.db", "event-4"],
            ),
        }
        times: dict[str, tuple[list[float], list[float]]] = {what: ([], []) for what in commands}
        for _ in range(RUNS):
            for what, both in commands.items():
                for command, taken in zip(both, times[what], strict=True):
                    taken.append(cpu_s(command, folder))
    print(origin(), dict(versions(rival, ["c7n"])), sep="; ")
    print(f"check: {RULES} rules; explain: {RECORDS} records; CPU seconds of {RUNS} processes each")
    print("| command | the worker: min | median | max | the rival: min | median | max | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for what, (own, rivals) in times.items():
        columns = " | ".join(f"{min(one):.2f} | {statistics.median(one):.2f} | {max(one):.2f}" for one in (own, rivals))
        print(f"| {what} | {columns} | {statistics.median(own) / statistics.median(rivals):.1f} |")
    sys.exit(1 if any(statistics.median(times[what][0]) > most for what, most in AIMS.items()) else 0)


if __name__ == "__main__":
    main()
