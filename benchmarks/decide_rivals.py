"""The rivals of `decide.py`, each judging every condition for every event; run with an interpreter that has them.

Reads ``{"rules": [[[field, operator, value], ...], ...], "events": [...], "runs": N}`` from the file named as argument
and prints, as JSON, for each rival its CPU seconds and a digest of which conditions were true for which event.
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Test = tuple[str, str, Any]
Judge = Callable[[dict[str, Any]], bool]
SIGNS = {"eq": "==", "gt": ">", "lt": "<", "in": "in"}


def spelled(tests: list[Test], prefix: str = "") -> str:
    """The rule as an expression; Python's spelling of texts and lists is that of these engines too."""
    return " and ".join(f"{prefix}{field} {SIGNS[operator]} {value!r}" for field, operator, value in tests)


def cloud_custodian(tests: list[Test]) -> Judge:
    """Value filters; where there are several, all of them in turn, as its policies do."""
    from c7n.filters.core import ValueFilter  # noqa: PLC0415 - only its own environment has it

    filters = [ValueFilter({"type": "value", "key": key, "op": op, "value": value}) for key, op, value in tests]
    for one in filters:
        one.annotate = False
    if len(filters) == 1:
        judge: Judge = filters[0]
        return judge
    return lambda event: all(one(event) for one in filters)


def rule_engine(tests: list[Test]) -> Judge:
    """One compiled rule."""
    import rule_engine as library  # noqa: PLC0415 - as above

    judge: Judge = library.Rule(spelled(tests)).matches
    return judge


def jinja(tests: list[Test]) -> Judge:
    """A condition compiled once, as templates of configuration tools have them."""
    import jinja2  # noqa: PLC0415 - as above

    compiled = jinja2.Environment(autoescape=True).compile_expression(spelled(tests, "event."))
    return lambda event: bool(compiled(event=event))


RIVALS: dict[str, Callable[[list[Test]], Judge]] = {
    "cloud-custodian, value filters": cloud_custodian,
    "rule-engine": rule_engine,
    "Jinja2 conditions": jinja,
}


def digest(true: Iterator[tuple[str, int]]) -> str:
    """A short name for a set of (event, rule) pairs."""
    return hashlib.sha256(repr(sorted(true)).encode()).hexdigest()[:16]


def main() -> None:
    """Measures and prints."""
    task = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = {}
    for name, make in RIVALS.items():
        judges = [make([(field, operator, value) for field, operator, value in tests]) for tests in task["rules"]]
        times, true = [], []
        for _ in range(task["runs"]):
            began = time.process_time()
            true = [
                (event["id"], index) for event in task["events"] for index, judge in enumerate(judges) if judge(event)
            ]
            times.append(time.process_time() - began)
        found[name] = {"times": times, "true": digest(iter(true))}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
