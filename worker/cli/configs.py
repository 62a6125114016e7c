"""What a config means, to the engine and to a person: read here, so that no two commands can read it differently.

It knows the rules, the register of assumptions and the engine's settings, and none of the parts that are built from
them: commands that only look at files load neither the database nor the client nor the web server.
"""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from worker.api.assumptions import ASSUMPTIONS, Assumptions, assumptions_from
from worker.cli.app import Invocation
from worker.config import Assumed, Config, load_config, read_config
from worker.engine.looks import Settings
from worker.engine.settings import EngineSettings, unvouched_for
from worker.guards.situation import Limits
from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.rules import Rule, Surge
from worker.rules.durations import duration_text
from worker.rules.registry import BUILT_IN

SHOWN_MAX = 5
"""Rules named beside what they lean on."""


def config_from(path: Path) -> Config:
    """The config of a file, its assumptions checked against the register. Raises `InputErrors` with every mistake."""

    def check(given: Mapping[str, Json]) -> tuple[Assumed, ...]:
        return tuple(Assumed(key=one.key, message=one.message, hint=one.hint) for one in assumptions_from(given)[1])

    return load_config(path, check)


def config_for(invocation: Invocation, paths: Collection[Path] | None) -> Config:
    """The config; where nobody named one and the files to look at are named, there need not be any."""
    if paths and not invocation.named and not invocation.config_path.exists():
        return read_config(invocation.config_path, "")
    return config_from(invocation.config_path)


def assumptions_of(config: Config) -> Assumptions:
    """The register with the operator's values; `load_config` has checked them."""
    return assumptions_from(config.assumptions)[0]


def engine_settings(config: Config) -> EngineSettings:
    """What the config means for the engine."""
    safety = config.safety
    assumptions = assumptions_of(config)
    vouched = assumptions.vouched | config.vouched
    by_action = {name: row.assumptions for name, row in ACTIONS.items()}
    unvouched = {} if config.local else _left(by_action, vouched)
    unvouched_facts = {} if config.local else _left(_by_fact(assumptions), vouched)
    return EngineSettings(
        deciding=Settings(
            mode=config.mode,
            gap=safety.gap.longer_than,
            gap_then=safety.gap.then,
            surge=Surge(events=safety.surge.events, within=safety.surge.within),
        ),
        limits=Limits(
            writes_per_hour=safety.writes_per_hour,
            spend_per_event=safety.spend.per_event,
            spend_per_day=safety.spend.per_day,
            held_longer_than=safety.gap.longer_than,
        ),
        interval=config.poll.interval,
        timeout=config.api.timeout,
        stop_within=config.stop_within,
        settle=safety.settle,
        evidence_reads=safety.evidence_reads,
        evidence_within=safety.evidence_within,
        confirm_within=safety.confirm_within,
        max_attempts=safety.max_attempts,
        ask=safety.on_unknown == "ask",
        ask_spending=not config.local and "safety.settle" not in vouched,
        by_change=assumptions.template("events.changed_since") is not None,
        toggles=frozenset(name for name, row in ACTIONS.items() if row.semantics and assumptions.flips(row.semantics)),
        unvouched=unvouched,
        unvouched_facts=unvouched_facts,
        requests_per_minute=config.requests.per_minute,
        page_size=config.poll.page_size,
        only_partners=frozenset(config.partners) if config.partners is not None else None,
        shared=config.registry.shared,
        observations_kept=config.observations.keep,
    )


def in_force(config: Config) -> Mapping[str, Json]:
    """What a daemon says of the config that it runs with, for `status` to compare with the file as it is then."""
    return {"config": config.hash, "mode": config.mode, "service": config.api.base_url}


def _by_fact(assumptions: Assumptions) -> Mapping[str, tuple[str, ...]]:
    """The keys that decide what a fact says. How a page is asked for is none: a wrong name is an error by itself. Where
    campaigns stand matters to a setup only where they tell whether it is published."""
    found = {
        fact: tuple(key for key, row in ASSUMPTIONS.items() if fact in row.needed_by and key != "events.page_parameter")
        for fact in BUILT_IN
    }
    if assumptions.text("setup.after_publish") == "readable":
        found["setup"] = tuple(key for key in found["setup"] if key != "campaigns.items")
    return found


def _left(leaning: Mapping[str, tuple[str, ...]], vouched: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
    """What of it nobody vouches for, without those that lean on nothing such."""
    left = {name: tuple(key for key in keys if key not in vouched) for name, keys in leaning.items()}
    return {name: keys for name, keys in left.items() if keys}


def vouched_lines(config: Config) -> tuple[str, ...]:
    """The assumptions that the operator vouches for, for `check` to print."""
    return tuple(f"vouched for: {key}" for key in sorted(config.vouched))


def unvouched_lines(config: Config, rules: Iterable[Rule]) -> tuple[str, ...]:
    """What these rules need confirmed before their writes go off, each with the line that would vouch for it as it is
    taken now; nothing against the sandbox and loopback."""
    settings, values = engine_settings(config), assumptions_of(config).values
    needed_by: dict[str, list[str]] = {}
    for rule in rules:
        steps = [unvouched_for(step.action, rule, settings) for step in rule.do if rule.enabled]
        for key in dict.fromkeys(key for keys in steps for key in keys):
            needed_by.setdefault(key, []).append(rule.id)
    lines = [
        f"not vouched for, so writes that lean on it are held: {key}: {json.dumps(values[key])}   ({_some(names)})"
        for key, names in sorted(needed_by.items())
    ]
    if settings.ask_spending:
        line = f"safety: {{settle: {duration_text(config.safety.settle)}}}"
        lines.append(f"not vouched for, so unknown writes that spend go to a person at once: {line}")
    return tuple(lines)


def _some(names: list[str]) -> str:
    rest = len(names) - SHOWN_MAX
    return (
        f"rule{'s' if len(names) > 1 else ''} {', '.join(names[:SHOWN_MAX])}{f' and {rest} more' if rest > 0 else ''}"
    )
