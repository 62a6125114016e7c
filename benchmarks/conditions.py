"""What one decision's conditions cost: 10,000 events under 20 rules.

Two ways over the same events and the same rules, which must agree: the worker's own, with the words that say why, and a
CEL library in Rust, which makes values of its own of each event once, for all rules; it is slower, and therefore runs
over a slice and is counted up. Deterministic; ``EVENTS`` changes the size.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import cel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # run as a script, from anywhere

from worker.engine.factreads import scope_of
from worker.model.facts import EventId, FactKey, Known, Observation, PartnerId
from worker.model.rules import Rule, Truth
from worker.rules.load import read_rules

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = 20
RUNS = 3
SLICE = 10
"""The other way gets every so many events, and is counted up."""
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATUSES = ("active", "cancelled", "archived")
FRONT = ("DEFAULT", "FLAGGED", "HIDDEN", "CANCELLED")
CITIES = ("Leipzig", "Berlin", "Oslo", "Lund")
Record = dict[str, Any]


def records() -> list[Record]:
    """Events with the documented fields and forty others, as the service's document says there are."""
    chance = Random(20261121)
    found: list[Record] = []
    for number in range(EVENTS):
        record: Record = {f"other_{index}": chance.random() for index in range(40)}
        record |= {
            "id": f"e{number}",
            "title": f"Event {number}",
            "city": chance.choice(CITIES),
            "status": chance.choice(STATUSES),
            "frontend_status": chance.choice(FRONT),
            "client_campaign_status": chance.choice(("RUNNING", "PAUSED")),
            "predicted_sales_share": chance.random(),
            "capacity": float(chance.randint(100, 4000)),
            "category": chance.choice(("concert", "party")),
        }
        found.append(record)
    return found


def sources() -> list[str]:
    """Twenty conditions of the kinds that people write."""
    found = []
    for index in range(RULES // 4):
        found += [
            f"event.status == '{STATUSES[index % 3]}' || event.frontend_status == '{FRONT[index % 4]}'",
            f"event.status == 'active' && event.predicted_sales_share > 0.{index + 1}",
            f"event.capacity > {500 * (index + 1)}.0 && event.city in ['{CITIES[index % 4]}', 'Lund']",
            f"event.title.endsWith('{index}') && event.client_campaign_status == 'RUNNING'",
        ]
    return found


def rules_of(texts: list[str]) -> tuple[Rule, ...]:
    """The conditions as rules of the worker, read as any rule file is."""
    body = "".join(f'  - id: r{index}\n    when: "{text}"\n    do: [pause]\n' for index, text in enumerate(texts))
    return read_rules({"rules.yaml": f"rules:\n{body}"}).rules.rules


def ours(rules: tuple[Rule, ...], events: list[Record]) -> int:
    """The worker's own way: how many are true."""
    true = 0
    for record in events:
        facts = {FactKey(name="event"): Known(value=record, read_at=NOW)}
        seen = Observation(partner=PartnerId("p"), event=EventId(record["id"]), facts=facts)
        for rule in rules:
            if rule.when is not None and rule.when.judge(scope_of(rule, seen, NOW)).truth is Truth.TRUE:
                true += 1
    return true


def other_library(programs: list[Any], events: list[Record]) -> int:
    """The library in Rust, with its values converted once per event."""
    true = 0
    for record in events:
        values = cel.Context(variables={"event": record})
        true += sum(program.execute(values) is True for program in programs)
    return true


def measured(work: Callable[[], int]) -> tuple[list[float], int]:
    """CPU seconds of some runs, and what they counted."""
    times: list[float] = []
    count = 0
    for _ in range(RUNS):
        began = time.process_time()
        count = work()
        times.append(time.process_time() - began)
    return times, count


def main() -> None:
    """Measures and prints."""
    events, texts = records(), sources()
    rules, some = rules_of(texts), events[::SLICE]
    programs = [cel.compile(text) for text in texts]
    assert other_library(programs, some) == ours(rules, some), "they disagree"
    own, count = measured(lambda: ours(rules, events))
    other = [one * SLICE for one in measured(lambda: other_library(programs, some))[0]]
    base = statistics.median(own)
    print(f"{len(events)} events x {len(rules)} rules, {count} true; CPU seconds of one pass")
    print(f"{'way':<44}{'min':>9}{'median':>9}{'max':>9}{'ratio':>8}{'µs each':>9}")
    for name, times in (
        ("the worker", own),
        (f"a library in Rust, values converted once (1/{SLICE})", other),
    ):
        middle = statistics.median(times)
        each = middle / len(events) / len(rules) * 1e6
        print(f"{name:<44}{min(times):>9.2f}{middle:>9.2f}{max(times):>9.2f}{middle / base:>8.1f}{each:>9.1f}")


main()
