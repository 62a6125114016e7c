"""What a config means, to the engine and to a person: read here, so that no two commands can read it differently.

It knows the rules, the register of assumptions and the engine's settings, and none of the parts that are built from
them: commands that only look at files load neither the database nor the client nor the web server.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from worker.api.assumptions import Assumptions, assumptions_from
from worker.cli.app import Invocation
from worker.config import Assumed, Config, load_config, read_config
from worker.engine.looks import Settings
from worker.engine.settings import EngineSettings
from worker.guards.situation import Limits
from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.rules import Surge


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
    unvouched: Mapping[str, tuple[str, ...]] = {}
    if not config.local:
        leaning = {name: tuple(key for key in row.assumptions if key not in vouched) for name, row in ACTIONS.items()}
        unvouched = {name: keys for name, keys in leaning.items() if keys}
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
        toggles=frozenset(name for name, row in ACTIONS.items() if row.semantics and assumptions.flips(row.semantics)),
        unvouched=unvouched,
        requests_per_minute=config.requests.per_minute,
        page_size=config.poll.page_size,
        only_partners=frozenset(config.partners) if config.partners is not None else None,
        shared=config.registry.shared,
        observations_kept=config.observations.keep,
    )


def vouched_lines(config: Config) -> tuple[str, ...]:
    """The assumptions that the operator vouches for, for `check` to print."""
    return tuple(f"vouched for: {key}" for key in sorted(config.vouched))


def unvouched_lines(config: Config) -> tuple[str, ...]:
    """What must be confirmed before writes go off; nothing against the sandbox and loopback."""
    settings = engine_settings(config)
    keys = sorted({key for missing in settings.unvouched.values() for key in missing})
    lines = [f"not vouched for, so writes that lean on it are held: {key}" for key in keys]
    if settings.ask_spending:
        lines.append("not vouched for, so unknown writes that spend go to a person at once: safety.settle")
    return tuple(lines)
