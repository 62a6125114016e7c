"""What one decision's conditions cost: 10,000 events under 20 rules.

Three ways over the same events and the same rules, which must agree: the worker's own with the words that say why, its
own for all rules at once, which only asks what is true, and a CEL library in Rust, which makes values of its own of
each event once, for all rules. Deterministic; ``EVENTS`` changes the size.
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

from worker.model.facts import EventId, FactKey, Known, Observation, PartnerId
from worker.model.rules import Rule, Truth
from worker.rules.evaluate import Verdicts
from worker.rules.facts import scope_of
from worker.rules.load import read_rules

EVENTS = int(os.environ.get("EVENTS", "10000"))
RULES = 20
RUNS = 3
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
        seen = observed(record)
        for rule in rules:
            if rule.when is not None and rule.when.judge(scope_of(rule, seen, NOW)).truth is Truth.TRUE:
                true += 1
    return true


def all_at_once(rules: tuple[Rule, ...], events: list[Record]) -> int:
    """The worker's own way where only the truths are asked for: how many are true."""
    together = Verdicts(rules)
    return sum(together.of(observed(record))[0].bit_count() for record in events)


def observed(record: Record) -> Observation:
    """What is known of one event."""
    facts = {FactKey(name="event"): Known(value=record, read_at=NOW)}
    return Observation(partner=PartnerId("p"), event=EventId(record["id"]), facts=facts)


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
    rules = rules_of(texts)
    programs = [cel.compile(text) for text in texts]
    own, count = measured(lambda: ours(rules, events))
    at_once, same = measured(lambda: all_at_once(rules, events))
    other, as_many = measured(lambda: other_library(programs, events))
    assert count == same == as_many, "they disagree"
    base = statistics.median(own)
    print(f"{len(events)} events x {len(rules)} rules, {count} true; CPU seconds of one pass")
    print(f"{'way':<44}{'min':>9}{'median':>9}{'max':>9}{'ratio':>8}{'µs each':>9}")
    for name, times in (
        ("the worker, each rule with its why", own),
        ("the worker, all rules at once", at_once),
        ("a library in Rust, values converted once", other),
    ):
        middle = statistics.median(times)
        each = middle / len(events) / len(rules) * 1e6
        print(f"{name:<44}{min(times):>9.2f}{middle:>9.2f}{max(times):>9.2f}{middle / base:>8.1f}{each:>9.1f}")


main()
