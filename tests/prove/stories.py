"""Draws a story from a seed: rules, a small world, and what happens to it. Plain values, so that a failure can be read.

A story never draws what the worker is documented to be unable to see: an effect that comes later than ``settle``, reads
included (`LATE_MAX_S` and `LAG_MAX_S` stay below it together). Everything else may go wrong at any time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from worker.sandbox.faults import KINDS, Kind

STORY_S = 90.0
LATE_MAX_S = 11.0
LAG_MAX_S = 6.0
SILENCE_S = 4000.0
"""A silence longer than the gap, after which what fires waits for a person."""


RULES = {
    "pause-cancelled": """
    when: event.status == 'cancelled' || event.frontend_status == 'CANCELLED'
    priority: 10
    do: [pause]""",
    "keep-paused": """
    when: event.status == 'cancelled'
    repeat: enforce
    cooldown: 1m
    do: [pause]""",
    "run-flagged": """
    when: event.frontend_status == 'FLAGGED' && event.status == 'active'
    do: [run]""",
    "rest-when-sold": """
    when: event.predicted_sales_share > 0.8
    do: [{optimisation: 'OFF'}]""",
    "push-when-slow": """
    when: event.predicted_sales_share < 0.2
    do: [{optimisation: 'ON'}, {ad_optimisation: 'ON'}]""",
    "launch": """
    when: event.status == 'active' && event.category == 'launch' && setup.state == 'NONE'
    do: [{create_draft: {goal: ROAS, total_budget: 500}}, boost]""",
    "boost-drafts": """
    when: event.status == 'active' && setup.state == 'DRAFT' && event.category == 'party'
    do: [boost]""",
    "boost-on-new-clusters": """
    on_change: suggested_tcs
    with: {budget: 500, goal: ROAS}
    when: event.status == 'active' && setup.state == 'DRAFT'
    do: [boost]""",
    "hide-archived": """
    when: event.status == 'archived'
    for: 8s
    do: [{frontend_status: HIDDEN}]""",
}
"""Of which a story has a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that happens at a virtual second: a word and its details."""

    at: float
    does: str
    details: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.at:7.2f}s {self.does} {self.details}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Everything that follows from a seed."""

    seed: int
    of: tuple[str, ...]
    events: tuple[dict[str, Any], ...]
    steps: tuple[Step, ...]

    @property
    def rules(self) -> str:
        return "rules:\n" + "".join(f"  - id: {name}{RULES[name]}\n" for name in self.of)

    def __str__(self) -> str:
        events = "; ".join(", ".join(f"{key} {value}" for key, value in one.items()) for one in self.events)
        return "\n".join(
            [f"seed {self.seed}: {', '.join(self.of)}", f"  events: {events}", *(f"  {step}" for step in self.steps)]
        )


def drawn(seed: int) -> Story:
    """The story of a seed; the same on every machine."""
    chance = Random(seed)
    of = tuple(sorted(chance.sample(list(RULES), chance.randint(2, 6))))
    events = tuple(_event(chance, number) for number in range(1, chance.randint(2, 5)))
    ids = [one["id"] for one in events]
    count = chance.randint(8, 24)
    times = sorted(round(chance.uniform(4.0, STORY_S), 2) for _ in range(count))
    steps = [_step(chance, at, ids) for at in times]
    spoiled = [one.at for one in steps if one.does in ("world", "suggest") and chance.random() < 0.5]
    steps += [Step(at=at, does="fault", details=_fault(chance, ids, on_writes=True)) for at in spoiled]
    steps += [
        Step(at=round(at + chance.uniform(0.5, 9.0), 2), does="kill", details={"down_s": 1.0})
        for at in spoiled
        if chance.random() < 0.3
    ]
    steps.sort(key=lambda one: (one.at, one.does))
    return Story(seed=seed, of=of, events=events, steps=tuple(steps))


def changes(seed: int, story: Story, count: int) -> list[Step]:
    """Changes of the story's events that all come at once, after it."""
    chance = Random(seed)
    ids = [one["id"] for one in story.events]
    kinds = chance.choices(["world", "world", "world", "person", "suggest", "setup"], k=count)
    return [Step(at=STORY_S, does=does, details=_STEPS[does][1](chance, ids)) for does in kinds]


def _event(chance: Random, number: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": f"e{number}",
        "category": chance.choice(["concert", "launch", "party"]),
        "client_campaign_status": chance.choice(["RUNNING", "RUNNING", "PAUSED", "PAUSED", None]),
        "campaign_optimisation_status": chance.choice(["ON", "OFF"]),
        "ad_campaign_optimisation_status": chance.choice(["ON", "OFF"]),
    }
    if chance.random() < 0.5:
        found["setup"] = {"goal": "ROAS", "total_budget": chance.choice([300, 500, 5000])}
    return found


def _step(chance: Random, at: float, ids: list[str]) -> Step:
    does = chance.choices(list(_STEPS), weights=[weight for weight, _ in _STEPS.values()])[0]
    return Step(at=at, does=does, details=_STEPS[does][1](chance, ids))


Values = tuple[str, list[str | float]]


def _world(chance: Random, ids: list[str]) -> dict[str, Any]:
    choices: list[Values] = [
        ("status", ["active", "cancelled", "cancelled", "archived"]),
        ("status", ["active", "active", "cancelled", "archived"]),
        ("frontend_status", ["DEFAULT", "FLAGGED", "FLAGGED", "CANCELLED"]),
        ("predicted_sales_share", [0.1, 0.5, 0.9]),
        ("category", ["concert", "launch", "party"]),
    ]
    field_name, values = chance.choice(choices)
    return {"event": chance.choice(ids), "set": {field_name: chance.choice(values)}}


def _person(chance: Random, ids: list[str]) -> dict[str, Any]:
    field_name, values = chance.choice(
        [
            ("client_campaign_status", ["RUNNING", "PAUSED"]),
            ("campaign_optimisation_status", ["ON", "OFF"]),
            ("ad_campaign_optimisation_status", ["ON", "OFF"]),
            ("frontend_status", ["DEFAULT", "FLAGGED"]),
        ]
    )
    return {"event": chance.choice(ids), "set": {field_name: chance.choice(values)}}


def _setup(chance: Random, ids: list[str]) -> dict[str, Any]:
    setup: dict[str, Any] | None = {"goal": "ROAS", "total_budget": chance.choice([300, 500])}
    if chance.random() < 0.3:
        setup = None
    elif setup is not None and chance.random() < 0.2:
        setup["state"] = "PUBLISHED"
    return {"event": chance.choice(ids), "setup": setup}


def _fault(chance: Random, ids: list[str], *, on_writes: bool = False) -> dict[str, Any]:
    kind: Kind = chance.choice([one for one in KINDS if one not in _READS_ONLY] if on_writes else KINDS)
    on_reads = not on_writes and (kind in _READS_ONLY or chance.random() < 0.5)
    found: dict[str, Any] = {
        "kind": kind,
        "method": "GET" if on_reads else "WRITE",
        "times": chance.choice([1, 1, 2, 3, 8]) if on_reads else chance.choice([1, 1, 2, 3]),
        **(_PARAMS[kind](chance, ids) if kind in _PARAMS else {}),
    }
    if on_reads:
        found["path"] = chance.choice([None, "^/events/$", "/setup_processes", "/suggested_tcs", "/events/e1$"])
    return found


def _status(chance: Random, _ids: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"status": chance.choice([429, 429, 429, 500, 502, 503, 504, 408, 409, 302, 425])}
    if found["status"] == 429 and chance.random() < 0.4:
        found["retry_after"] = chance.choice([1, 4, 12])
    return found


_READS_ONLY = frozenset({"stale_reads", "half_page", "reordered_pages", "vanish"})
_PARAMS: dict[str, Callable[[Random, list[str]], dict[str, Any]]] = {
    "answer_before": _status,
    "answer_after": _status,
    "late_effect": lambda chance, ids: {**_status(chance, ids), "after_s": round(chance.uniform(0.5, LATE_MAX_S), 2)},
    "cut_before": lambda chance, _: {"reset": chance.random() < 0.5},
    "cut_after": lambda chance, _: {"reset": chance.random() < 0.5},
    "slow": lambda chance, _: {"delay_s": chance.choice([2, 5, 9])},
    "stale_reads": lambda chance, _: {"by_s": round(chance.uniform(0.5, LAG_MAX_S), 2)},
    "missing_fields": lambda chance, _: {"fields": [chance.choice(["status", "items.status", "state", "items.tc"])]},
    "wrong_types": lambda chance, _: {"fields": [chance.choice(["status", "items.status", "state", "total_budget"])]},
    "vanish": lambda chance, ids: {"eid": chance.choice(ids)},
    "storm": lambda chance, _: {"for_s": chance.choice([4, 10, 25]), "hidden": chance.random() < 0.5},
    "expired_token": lambda chance, _: {"revoke": chance.random() < 0.7},
}
_STEPS: dict[str, tuple[float, Callable[[Random, list[str]], dict[str, Any]]]] = {
    "world": (30.0, _world),
    "person": (12.0, _person),
    "fault": (34.0, _fault),
    "kill": (7.0, lambda chance, _: {"down_s": round(chance.choice([0.1, 1.0, 6.0, 20.0]), 2)}),
    "freeze": (3.0, lambda chance, _: {"for_s": chance.choice([2.0, 7.0, 15.0, 40.0])}),
    "silence": (0.7, lambda _chance, _ids: {"down_s": SILENCE_S}),
    "suggest": (6.0, lambda chance, ids: {"event": chance.choice(ids), "run": chance.randint(2, 5)}),
    "setup": (5.0, _setup),
    "remove": (1.0, lambda chance, ids: {"event": chance.choice(ids), "for_s": chance.choice([5.0, 30.0])}),
    "product_off": (1.5, lambda chance, _: {"for_s": chance.choice([6.0, 25.0])}),
    "task_fails": (2.0, lambda chance, ids: {"event": chance.choice(ids)}),
    "halt": (1.5, lambda chance, _: {"for_s": chance.choice([5.0, 20.0])}),
    "reset": (0.6, lambda chance, _: {"result": chance.choice(["initial", "new_ids"])}),
    "sign_out": (1.0, lambda _chance, _ids: {}),
    "people_decide": (2.0, lambda chance, _: {"approve": chance.random() < 0.7}),
}
