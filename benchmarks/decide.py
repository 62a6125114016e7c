"""What one decision pass costs: 10,000 events under 100 rules, if one event in a hundred has changed, and if all have.

The worker's own pass, as its cycle makes it: what the list says of the events is taken into the partner's state, and
`Decider.decide` finds out what follows and stores it, the changes that it saw included. Against three rivals, real
packages in an environment of their own, which judge every condition for every event, because that is all they do: the
value filters of cloud-custodian, rule-engine, and conditions of Jinja2. All four must agree on which conditions are
true, before the passes that are timed and after them.

Every changed event has another share sold, another capacity and another value of a field that no rule names; in the
first two lines no condition turns, because a turn is a firing, which the rivals do not have. The third line is of
events that became others, as many as that fires.

``EVENTS``, ``RULES`` and ``RUNS`` change the size. CPU milliseconds; the rivals run in the same run, one after the
other. The script ends with 1 where a target is missed.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from benchmarks.decide_rivals import SIGNS, digest
from benchmarks.rivals import origin, python, versions
from tests.worlds import PARTNER, QUICK
from worker.engine.daemon import keep
from worker.engine.deciding import Decider
from worker.engine.observe import News
from worker.engine.ports import Listing, Parts, RulesInUse
from worker.engine.state import EVENT, PartnerState, Stored
from worker.engine.views import DecidingSettings as Deciding
from worker.ledger.sql import SqlLedger
from worker.model.commits import PartnerMemory
from worker.model.facts import EventId, Known
from worker.model.rules import RuleSet
from worker.rules.facts import worth_keeping
from worker.rules.load import read_rules

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = int(os.environ.get("RULES", "100"))
RUNS = int(os.environ.get("RUNS", "5"))
STARTS = datetime(2026, 3, 1, 12, tzinfo=UTC)
FRONT = ("DEFAULT", "FLAGGED", "HIDDEN", "CANCELLED")
CITIES = tuple(f"City {number}" for number in range(40))
Record = dict[str, Any]
Test = tuple[str, str, Any]


class Stopped:
    """A clock that stands until it is moved, so that no pass meets a time that comes."""

    def __init__(self) -> None:
        self.passed_s = 0.0

    def now(self) -> datetime:
        return STARTS + timedelta(seconds=self.passed_s)

    def monotonic(self) -> float:
        return self.passed_s

    async def sleep(self, seconds: float) -> None:
        self.passed_s += seconds


def record(chance: Random, number: int) -> Record:
    """An event with the fields of the service's document and forty others."""
    return {
        **{f"other_{index}": chance.random() for index in range(40)},
        "id": f"e{number:05}",
        "title": f"Event {number}",
        "start_date_time": "2026-06-01T19:00:00Z",
        "city": chance.choice(CITIES),
        "status": chance.choices(("active", "cancelled", "archived"), (98, 1, 1))[0],
        "frontend_status": chance.choices(FRONT, (97, 1, 1, 1))[0],
        "client_campaign_status": chance.choices(("RUNNING", "PAUSED"), (9, 1))[0],
        "predicted_sales_share": round(chance.random(), 6),
        "capacity": float(chance.randint(100, 4000)),
        "category": chance.choice(("concert", "party", "sports", "theatre")),
    }


def conditions(chance: Random) -> list[list[Test]]:
    """What each rule asks: half of them one comparison, half of them two, joined by "and". Few of them are true."""
    found: list[list[Test]] = []
    for index in range(RULES):
        city = ("city", "eq", chance.choice(CITIES))
        share = ("predicted_sales_share", "gt", round(0.99 + chance.random() / 100, 4))
        size = ("capacity", "gt", 3900.0 + 2 * (index % 50))
        kinds: list[list[Test]] = [
            [share],
            [("status", "eq", "cancelled"), city],
            [size],
            [("frontend_status", "eq", FRONT[1 + index % 3]), city],
            [("predicted_sales_share", "lt", round(chance.random() / 100, 4))],
            [("client_campaign_status", "eq", "PAUSED"), share],
            [("capacity", "lt", 110.0 + index % 20)],
            [("category", "in", ["party", "sports"]), share],
        ]
        found.append(kinds[index % len(kinds)])
    return found


def rule_set(tests: list[list[Test]]) -> RuleSet:
    """The rules of the worker, read as any rule file is."""
    body = ""
    for index, one in enumerate(tests):
        text = " && ".join(f"event.{key} {SIGNS[operator]} {value!r}" for key, operator, value in one)
        body += f'  - {{id: r{index:03}, when: "{text}", do: [pause], surge: {{events: 100000, within: 1m}}}}\n'
    return read_rules({"rules.yaml": f"rules:\n{body}"}).rules


class Worker:
    """The parts of a worker that decide: its state of one partner, its rules and a ledger on the disk."""

    def __init__(self, rules: RuleSet, folder: Path) -> None:
        self.clock = Stopped()
        self.ledger = SqlLedger.open(f"sqlite:///{folder / 'worker.db'}", clock_now=self.clock.now)
        self.in_use = RulesInUse(rules)
        parts = Parts(
            clock=self.clock,
            service=None,  # type: ignore[arg-type] # nothing is asked of the service here
            ledger=self.ledger,
            settings=replace(QUICK, deciding=Deciding(mode="shadow")),
            rules=self.in_use,
        )
        self.decider = Decider(parts)
        self.state = PartnerState(
            partner=PARTNER, memory=PartnerMemory(partner=PARTNER), memories={}, stored=Stored(partner=PARTNER)
        )
        self.rules, self.needed = rules, worth_keeping(rules.rules).get("event")
        self.listed: dict[EventId, Known] = {}

    def decide(self, changed: list[Record]) -> tuple[float, int]:
        """Takes in what the list says of some events and decides: CPU seconds, and how many firings there were."""
        self.clock.passed_s += 3.0
        facts = {EventId(one["id"]): Known(value=self.listed_of(one), read_at=self.clock.now()) for one in changed}
        began = time.process_time()
        self.state.listed(self.needed, facts)
        for event, fact in facts.items():
            self.state.observe(event, EVENT, fact)
        self.listed.update(facts)
        now = self.clock.now()
        listing = Listing(events=facts, complete=True)
        events = self.state.stirred(self.listed, now)
        decision, _ = self.decider.decide(
            self.state, News(at=now, listing=listing, memory=self.state.memory, events=events)
        )
        took = time.process_time() - began
        return took, sum(one.kind == "fired" for one in decision.commit.records)

    def listed_of(self, one: Record) -> Record:
        """An event as the client hands it over: with the fields that are needed (`worker.api.listing`)."""
        needed = self.needed
        return one if needed is None else {name: value for name, value in one.items() if name in needed}

    def true(self) -> str:
        """Which conditions are true by what the worker remembers."""
        places = {rule.id: index for index, rule in enumerate(self.rules.rules)}
        pairs = self.state.memories.items()
        return digest((event, places[rule]) for (event, rule), memory in pairs if memory.open)


def rivals(interpreter: Path, tests: list[list[Test]], events: list[Record], runs: int) -> dict[str, Any]:
    """What the rivals took, and what they found."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump({"rules": tests, "events": events, "runs": runs}, file)
        file.flush()
        script = Path(__file__).with_name("decide_rivals.py")
        done = subprocess.run([interpreter, script, file.name], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def nudged(chance: Random, one: Record) -> Record:
    """The event with other numbers, on the same side of every number that a rule names."""
    other = {**one, "other_3": chance.random()}
    if 0.02 < one["predicted_sales_share"] < 0.98:
        other["predicted_sales_share"] = round(chance.uniform(0.02, 0.98), 6)
    if 150 < one["capacity"] < 3850:
        other["capacity"] = float(chance.randint(151, 3849))
    return other


@dataclass(slots=True)
class Town:
    """The events as they are now, and what changes of them."""

    chance: Random
    events: list[Record]

    def change(self, share: float, new: Callable[[Random, Record], Record]) -> list[Record]:
        """Some events become others."""
        chosen = self.chance.sample(range(len(self.events)), int(len(self.events) * share))
        for index in chosen:
            self.events[index] = new(self.chance, self.events[index])
        return [self.events[index] for index in chosen]


def redrawn(chance: Random, one: Record) -> Record:
    """Another event under the same id, title and start, whose conditions may turn."""
    return record(chance, int(one["id"][1:]))


def passes(
    worker: Worker, town: Town, share: float, new: Callable[[Random, Record], Record]
) -> tuple[list[float], int]:
    """CPU seconds of some passes, and the firings of all."""
    times, firings = [], 0
    for _ in range(RUNS):
        took, fired = worker.decide(town.change(share, new))
        times.append(took)
        firings += fired
    return times, firings


Line = tuple[str, list[float]]


def own(folder: Path, tests: list[list[Test]], town: Town, interpreter: Path) -> tuple[list[Line], dict[str, Line]]:
    """The worker's lines, and the rivals'; they agree, or it ends here."""
    worker = Worker(rule_set(tests), folder)
    first, _ = worker.decide(town.events)
    while len(worker.state.due) < len(town.events):
        worker.decide([])
    keep()  # as the daemon does after a first look
    quiet, none = passes(worker, town, 0.01, nudged)
    everything, none_either = passes(worker, town, 1.0, nudged)
    assert none == none_either == 0, "something fired that was not to"
    found = rivals(interpreter, tests, town.events, RUNS)
    assert {one["true"] for one in found.values()} == {worker.true()}, "they disagree on what is true"
    firing, firings = passes(worker, town, 0.01, redrawn)
    after = rivals(interpreter, tests, town.events, 1)
    assert {one["true"] for one in after.values()} == {worker.true()}, "they disagree on what is true after the changes"
    lines = [
        ("the worker: one event in a hundred has changed", quiet),
        ("the worker: every event has changed", everything),
        (f"the worker: one in a hundred became another, {firings / RUNS:.0f} firings", firing),
        ("the worker: the first look ever, every pair stored", [first]),
    ]
    return lines, {name: (f"{name}: everything judged", one["times"]) for name, one in found.items()}


TARGETS = (
    (0, "cloud-custodian, value filters", 100.0),
    (1, "cloud-custodian, value filters", 5.0),
    (1, "rule-engine", 9.0),
    (1, "Jinja2 conditions", 12.0),
)
"""Which line of ours has to be how many times as fast as which rival."""


def main() -> None:
    """Measures and prints."""
    interpreter = python("deciding")
    chance = Random(20261121)
    tests = conditions(chance)
    town = Town(chance, [record(chance, number) for number in range(EVENTS)])
    with tempfile.TemporaryDirectory() as folder:
        lines, others = own(Path(folder), tests, town, interpreter)
    print(origin(), dict(versions(interpreter, ["c7n", "rule-engine", "Jinja2"])), sep="; ")
    print(f"{EVENTS} events x {RULES} rules, {RUNS} runs; CPU milliseconds of one pass")
    print("| what | min | median | max |\n|---|---|---|---|")
    for name, times in (*lines, *others.values()):
        print(f"| {name} | {min(times) * 1e3:,.1f} | {statistics.median(times) * 1e3:,.1f} | {max(times) * 1e3:,.1f} |")
    missed = False
    for index, rival, wanted in TARGETS:
        ratio = statistics.median(others[rival][1]) / statistics.median(lines[index][1])
        missed |= ratio < wanted
        print(f"{lines[index][0]}: {ratio:.1f} x {rival}, wanted {wanted:g} x{'' if ratio >= wanted else ': missed'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
