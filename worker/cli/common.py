"""What several commands need: the config's ledger, times, durations and reasons as people type them, who is asking."""

import json
import os
import pwd
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

import typer

from worker.api.assumptions import ASSUMPTIONS, Assumptions, assumptions_from
from worker.cli.output import say
from worker.config import Config, load_config, read_config
from worker.engine.views import DecidingSettings, EngineSettings, unconfirmed_for
from worker.guards import Limits
from worker.ledger.places import (
    FOLDER_HINT,
    exchanged,
    exposed,
    files_of,
    named,
    network_disk,
    no_folder,
    on_a_server,
    unread,
)
from worker.model.actions import ACTIONS
from worker.model.commits import WORKER
from worker.model.errors import NotFound, NotSafe, Problem, UsageError, WorkerError
from worker.model.exchange import Clock
from worker.model.facts import Json
from worker.model.rules import Rule, SpendLimits, Surge
from worker.rules.registry import BUILT_IN
from worker.rules.spelling import counted, duration_meant, duration_text, meant, parse_duration, parse_moment
from worker.system import SystemClock

if TYPE_CHECKING:
    from worker.engine.operators import Word
    from worker.ledger.reading import LedgerReader

SHOWN_MAX = 5
"""Names that stand for more of them."""
LEDGER_HINT = "`campaign-worker run` makes it, --config names another config"


# What a config means, to the engine and to an operator: read here, so that no two commands can read it differently.


def ledger_warnings(config: Config) -> Iterator[Problem]:
    """Where others may read the ledger: what it holds of events and money, and who decided; and where its disk is
    another machine's."""
    place = files_of(config.ledger, config.folder)
    if files := exposed(place):
        message = f"others on this machine may read {', '.join(path.name for path in files)}"
        hint = shlex.join(["chmod", "600", *map(str, files)])
        yield Problem(file=str(min(files)), message=message, hint=hint, severity="warning", code="exposed")
    if place is not None and (kind := network_disk(place)):
        message = f"the ledger is on a network file system ({kind}): its locks may be lost, and then two workers write"
        hint = "put it on a local disk, or into PostgreSQL"
        yield Problem(file=str(place.file), message=message, hint=hint, severity="warning", code="network_disk")


def config_file(context: typer.Context) -> Path:
    """The config that somebody named, in the call or in the environment, or the one that lies here."""
    return named_config(context) or Path("config.yaml")


def named_config(context: typer.Context) -> Path | None:
    """The config that somebody named."""
    named: Path | None = context.find_root().params.get("_config")
    return named and Path(named)  # a completion has the text


def config_of(context: typer.Context) -> Config:
    """The config, checked; every mistake at once as `InputErrors`."""
    return load_config(config_file(context))


def config_for(context: typer.Context, paths: Collection[Path] | None) -> Config:
    """The config; where nobody named one and the files to look at are named, there need not be any."""
    path = config_file(context)
    if paths and named_config(context) is None and not path.exists():
        return read_config(path, "")
    return load_config(path)


def assumptions_of(config: Config) -> Assumptions:
    """The register with the operator's values; `load_config` has checked them."""
    return assumptions_from(config.assumptions)[0]


LAST_BYTE = timedelta(seconds=5)
"""No byte of an attempt leaves later than this and twice `api.timeout` after it was recorded."""


def engine_settings(config: Config) -> EngineSettings:
    """What the config means for the engine."""
    safety = config.safety
    assumptions = assumptions_of(config)
    confirmed = assumptions.confirmed | config.confirmed
    by_action = {name: row.assumptions for name, row in ACTIONS.items()}
    return EngineSettings(
        deciding=DecidingSettings(
            mode=config.mode,
            gap=safety.gap.longer_than,
            gap_then=safety.gap.then,
            surge=Surge(**safety.surge.model_dump()),
        ),
        limits=Limits(
            writes_per_hour=safety.writes_per_hour,
            spend=SpendLimits(**safety.spend.model_dump()),
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
        ask_spending=not config.local and "safety.settle" not in confirmed,
        toggles=frozenset(name for name, row in ACTIONS.items() if row.semantics and assumptions.flips(row.semantics)),
        unconfirmed={} if config.local else _left(by_action, confirmed),
        unconfirmed_facts={} if config.local else _left(_by_fact(assumptions), confirmed),
        requests_per_minute=config.requests.per_minute,
        page_size=config.poll.page_size,
        only_partners=frozenset(config.partners) if config.partners is not None else None,
        shared=config.registry.shared,
        every=config.registry.every,
        late_s=(2 * config.api.timeout + LAST_BYTE).total_seconds() if on_a_server(config.ledger) else 0.0,
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


def _left(leaning: Mapping[str, tuple[str, ...]], confirmed: frozenset[str]) -> Mapping[str, tuple[str, ...]]:
    """What of it nobody confirms, without those that depend on nothing such."""
    left = {name: tuple(key for key in keys if key not in confirmed) for name, keys in leaning.items()}
    return {name: keys for name, keys in left.items() if keys}


def unconfirmed_lines(config: Config, rules: Iterable[Rule]) -> tuple[str, ...]:
    """What these rules need confirmed before their writes go off, each with the line that would confirm it as it is
    taken now; nothing against the sandbox and loopback."""
    settings, values = engine_settings(config), assumptions_of(config).values
    needed_by: dict[str, list[str]] = {}
    for rule in rules:
        steps = [unconfirmed_for(step.action, rule, settings) for step in rule.do if rule.enabled]
        for key in dict.fromkeys(key for keys in steps for key in keys):
            needed_by.setdefault(key, []).append(rule.id)
    lines = [
        f"not confirmed, so writes that depend on it are held: {key}: {json.dumps(values[key])}   "
        f"(rule{'s' if len(names) > 1 else ''} {', '.join(names[:SHOWN_MAX])}"
        f"{f' and {len(names) - SHOWN_MAX} more' if len(names) > SHOWN_MAX else ''})"
        for key, names in sorted(needed_by.items())
    ]
    if settings.ask_spending:
        line = f"safety: {{settle: {duration_text(config.safety.settle)}}}"
        lines.append(f"not confirmed, so unknown writes that spend are put before an operator at once: {line}")
    return tuple(lines)


def ledger_url(config: Config) -> str:
    """The config's ledger as a URL; of a file with its absolute path."""
    place = files_of(config.ledger, config.folder)
    return config.ledger if place is None else f"sqlite:///{place.file}"


def reader_of(config: Config) -> "LedgerReader":
    """The ledger for reading, beside a running daemon or without one, with a word on what is amiss with it. Needs no
    credentials."""
    from worker.ledger.reading import open_reading  # noqa: PLC0415 - a database, for those who look at one

    url = ledger_url(config)
    other = unread(files_of(url))
    ledger = open_reading(url)
    say_no_ledger(ledger, url)
    if (amiss := amiss_with(ledger, url, other)) is not None:
        say(amiss)
    return ledger


def amiss_with(ledger: "LedgerReader", url: str, other: NotSafe | None = None) -> str | None:
    """What is said of a ledger that can be read, and is not the one that the daemon runs on or could be started on.
    ``other``: what was `unread` before it was opened."""
    other = other or exchanged(files_of(url))
    if other is not None:
        return f"{other}: {other.hint}"
    refused = ledger.refused()
    if refused is None:
        return None
    return f"{refused}; `campaign-worker run` will refuse it: {refused.hint}"


def clock_of(config: Config) -> Clock:
    """The clock that the ledger's records go by: this machine's, or in a fleet that of the ledger's server."""
    own, url = SystemClock(), ledger_url(config)
    if not on_a_server(url):
        return own
    from worker.engine.ports import ServersClock  # noqa: PLC0415 - most commands have their ledger in a file
    from worker.ledger.ownership import server_time_of  # noqa: PLC0415 - as above

    clock, asked = ServersClock(own), own.monotonic()
    clock.heard(server_time_of(url), asked, own.monotonic())
    return clock


def say_no_ledger(ledger: "LedgerReader", url: str) -> None:
    """A wrong folder looks like a worker that never did anything, so it is said that there is no ledger."""
    if not ledger.made:
        missing = no_ledger(url)
        say(f"{missing}: {missing.hint}")


def no_ledger(url: str) -> NotFound:
    """The error where what is asked for needs a ledger, and there is none, or no folder for one."""
    place = files_of(url)
    missing = None if place is None else no_folder(place)
    if missing is not None:
        return NotFound(missing, hint=FOLDER_HINT)
    return NotFound(f"there is no ledger {named(url).removeprefix('the ledger ')} yet", hint=LEDGER_HINT)


def moment(config: Config, text: str | None, option: str = "--since") -> datetime | None:
    """A time as people type it: ``2h`` ago, or an ISO time. Raises `UsageError`."""
    if text is None:
        return None
    hint, now = "write how long ago (30m, 2h, 7d) or a time (2026-03-01T12:00:00Z)", clock_of(config).now()
    try:
        found = parse_moment(text, now)
    except ValueError as error:
        raise UsageError(f"{option}: {text!r} is no time", hint=hint) from error
    if found > now:
        raise UsageError(f"{option}: {text!r} is still to come", hint=hint)
    return found


def duration(text: str | None, option: str) -> timedelta | None:
    """A duration as in the config. Raises `UsageError`."""
    if text is None:
        return None
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}", hint=f"write {duration_meant(text)}") from error
    if not found:
        raise UsageError(f"{option}: must be longer than 0s")
    return found


def word_of(config: Config, because: str) -> "Word":
    """The operator's word: why, who, and now. Raises `UsageError` where the reason says nothing."""
    if not because.strip():
        raise UsageError("--because is empty", hint="write why; whoever reads the log will ask")
    from worker.engine.operators import Word  # noqa: PLC0415 - as above

    return Word(because=because, by=operator(), at=clock_of(config).now())


def operator() -> str:
    """Who is asking, for the log: the user of the system, whom the kernel knows; and beside it, as a claim, who sudo
    says it was. Never the worker itself, though its user in a container is called that."""
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = f"uid {os.getuid()}"
    claimed = os.environ.get("SUDO_USER")
    named = f"user {user}" if user == WORKER else user
    return f"{named} (claims to be {claimed})" if claimed and claimed != user else named


Field = Literal["partner", "event", "rule"]
FIELDS: Final[tuple[Field, ...]] = ("partner", "event", "rule")


def completing(field: Field) -> Callable[[typer.Context, str], list[str]]:
    """What a shell offers for a name: all that are known, none where they cannot be read."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from worker.ledger.reading import open_reading  # noqa: PLC0415 - as above

        with suppress(WorkerError):
            config = config_of(context)
            with open_reading(ledger_url(config)) as ledger:
                return [name for name in known_names(field, ledger, config) if name.startswith(incomplete)]
        return []

    return complete


def beginning(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell offers for a word of a closed list."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


OnlyPartner = Annotated[
    str | None, typer.Option("--partner", help="Only this partner.", autocompletion=completing("partner"))
]
OnlyEvent = Annotated[str | None, typer.Option("--event", help="Only this event.", autocompletion=completing("event"))]
OnlyRule = Annotated[str | None, typer.Option("--rule", help="Only this rule.", autocompletion=completing("rule"))]


def say_nothing_found(ledger: "LedgerReader", config: Config, asked: Mapping[str, object], what: str) -> bool:
    """Says on stderr that no record, or no write, is as asked for, and which of the names there never were: an empty
    table looks like an answer, and mostly it is a misspelt name. Whether all of them are known.

    ``asked``: what was typed for each of `FIELDS` and other filters, None where nothing was. ``what``: ``record`` or
    ``write``.
    """
    nothing = f"no {what} is as asked for" if any(asked.values()) else f"there is no {what} yet"
    strange = strangers(ledger, config, asked)
    for line in strange or (nothing,):
        say(line)
    return not strange


def strangers(ledger: "LedgerReader", config: Config, asked: Mapping[str, object]) -> tuple[str, ...]:
    """A sentence for each name, of those typed for `FIELDS`, that neither the ledger nor config and rules know."""
    found: list[str] = []
    for field in FIELDS:
        name = asked.get(field)
        known = known_names(field, ledger, config) if name is not None else ()
        if isinstance(name, str) and name not in known:
            some = f"is no {field} in the ledger yet"
            if known:
                some = f"{'is' if len(known) == 1 else 'are'} {counted(len(known), field)}, such as "
                some += ", ".join(known[:SHOWN_MAX])
            found.append(f"nothing is known of {field} '{name}'{meant(name, known) or f'; there {some}'}")
    return tuple(found)


def known_names(field: Field, ledger: "LedgerReader", config: Config) -> tuple[str, ...]:
    """Every partner, event or rule that there is or was: in the ledger, by the daemon's last word, in config and rules.
    Files that do not load are no reason not to know the others."""
    found, status = set(ledger.known(field)), ledger.status()
    said = status.body if status is not None else {}
    if field == "partner":
        found.update(config.partners or (), cast("Mapping[str, Json]", said.get("partners") or {}))
    if field == "rule":
        from worker.rules.load import examine, examined  # noqa: PLC0415 - conditions, for those who ask for a rule

        published, registry = ledger.published(), config.registry
        found.update(cast("Mapping[str, list[str]]", said.get("rules") or {}).get("ids") or ())
        for read in (examine(config.rules, registry), examined(published.files if published else {}, (), registry)):
            found.update(rule.id for rule in read.rules.rules)
    return tuple(sorted(found))
