"""Ten thousand steps of rule tests, from the files on disk to the verdict, as `campaign-worker test` runs them.

    .venv/bin/python benchmarks/ruletests.py [--steps 10000] [--files 10]

Half of the steps change a fact and claim a firing, half claim that nothing fired; a test has ten of them, as people
write them. The claim to meet is five seconds for the whole command, start of the process and reading included.

The floor is what no way of doing it can leave out: the files read by libyaml's own loader, and for each step one
condition evaluated by the CEL engine on the facts of that step. On a busy machine the ratio tells more than seconds.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cel
import yaml

RULES = """
rules:
  - id: pause-cancelled
    when: event.status == 'cancelled' || event.frontend_status == 'CANCELLED'
    do: [pause]
  - id: boost-on-new-clusters
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT'
    cooldown: 1h
    do: [boost]
  - id: run-again-in-ulm
    when: event.status == 'active' && event.city == 'Ulm' && event.capacity > 100.0
    for: 30s
    do: [run]
"""
TEST = """
  - name: a cancelled event is paused each time, {number}
    rules: [pause-cancelled]
    given:
      event: {{id: e1, status: active, frontend_status: DEFAULT, client_campaign_status: RUNNING, city: Ulm}}
    steps:
"""
QUIET = """
      - at: {at}s
        expect: []
"""
CANCELLED = """
      - at: {at}s
        set: {{event: {{status: cancelled, client_campaign_status: RUNNING}}}}
        expect: [{{rule: pause-cancelled, action: pause}}]
"""
ACTIVE = """
      - at: {at}s
        set: {{event: {{status: active}}}}
        expect: []
"""
STEPS_OF_A_TEST = 10


def write(folder: Path, steps: int, files: int = 10) -> None:
    """A rule folder with so many steps in its tests."""
    (folder / "rules" / "tests").mkdir(parents=True)
    (folder / "rules" / "rules.yaml").write_text(RULES, encoding="utf-8")
    (folder / "config.yaml").write_text("rules: rules\n", encoding="utf-8")
    tests = steps // STEPS_OF_A_TEST
    for file in range(files):
        parts = ["tests:"]
        for number in range(file, tests, files):
            parts.append(TEST.format(number=number).strip("\n"))
            for step in range(STEPS_OF_A_TEST):
                kind = (QUIET, CANCELLED, QUIET, ACTIVE)[step % 4]
                parts.append(kind.format(at=6 * step).strip("\n"))
        (folder / "rules" / "tests" / f"{file}.yaml").write_text("\n".join(parts) + "\n", encoding="utf-8")


def floor(folder: Path) -> float:
    """CPU seconds of the bare work."""
    condition = cel.compile("event.status == 'cancelled' || event.frontend_status == 'CANCELLED'")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    began = time.process_time()
    for file in sorted((folder / "rules" / "tests").iterdir()):
        for test in yaml.load(file.read_text(encoding="utf-8"), loader)["tests"]:  # noqa: S506 - safe
            event = dict(test["given"]["event"])
            for step in test["steps"]:
                event.update(step.get("set", {}).get("event", {}))
                condition.execute(cel.Context(variables={"event": event}))
    return time.process_time() - began


def main() -> None:
    """Prints one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--files", type=int, default=10)
    steps, files = parser.parse_args().steps, parser.parse_args().files
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        write(folder, steps, files)
        began = time.perf_counter()
        command = [sys.executable, "-m", "worker", "--config", str(folder / "config.yaml"), "test"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        took = time.perf_counter() - began
        assert done.returncode == 0, done.stderr
        assert f"{steps // STEPS_OF_A_TEST} tests, 0 failed" in done.stderr, done.stderr
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        bare = floor(folder)
    busy = used.ru_utime + used.ru_stime
    print(f"{'steps':>8} {'tests':>8} {'seconds':>8} {'CPU':>8} {'floor':>8} {'ratio':>8} {'steps/s':>8}")
    print(
        f"{steps:>8} {steps // STEPS_OF_A_TEST:>8} {took:>8.2f} {busy:>8.2f} {bare:>8.2f} {busy / bare:>8.1f} "
        f"{steps / took:>8.0f}"
    )


if __name__ == "__main__":
    main()
