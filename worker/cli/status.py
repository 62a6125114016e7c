"""``status``: what the daemon does now, from the ledger alone."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated

import typer

from worker.cli.common import amiss_with, config_of, in_force, ledger_url, say_no_ledger
from worker.cli.output import Format, print_json, print_table, say
from worker.config import Config
from worker.config.addresses import service_of
from worker.engine.ports import RELOAD_EVERY, unhealthy
from worker.ledger.places import LedgerPlace, held_since, holder, place_of, said_by_holder, unread, unseen
from worker.ledger.reading import LedgerReader, open_reading
from worker.model.commits import DaemonStatus
from worker.model.errors import NotSafe
from worker.model.facts import Json, spelled
from worker.rules.durations import duration_text
from worker.rules.files import UNREADABLE, files_hash
from worker.system import utc_now

app = typer.Typer()

NO_RULES: Mapping[str, Json] = {
    "hash": None,
    "files_hash": None,
    "loaded_at": None,
    "error": None,
    "refused_at": None,
    "ids": [],
}

PARTNER_COLUMNS = ("partner", "last complete look", "changes seen after", "requests a minute", "budget", "last error")
HALT_COLUMNS = ("partner", "rule", "until", "because", "by")


@app.command("status")
def status(
    context: typer.Context,
    healthy: Annotated[
        bool,
        typer.Option(
            "--healthy",
            help="Exit 1 unless a complete cycle is younger than three intervals and `run` would take the ledger.",
        ),
    ] = False,
    output: Annotated[Format, typer.Option("--format", help="table or json.")] = Format.table,
) -> None:
    """Print what the daemon does: partners, rules in force, writes by state, halts. Needs no credentials.

    For a monitor: campaign-worker status --healthy exits 0 where all is well, and else 1 with the reason on stderr.
    """
    config = config_of(context)
    now = utc_now()
    url = ledger_url(config)
    try:
        found = _found(url, now, service_of(config.api.base_url))
    except NotSafe as error:
        if not healthy:
            raise
        say(f"not healthy: {error}")
        raise typer.Exit(1) from None
    found["rules"] = {**NO_RULES, **_mapping(found["rules"]), "files_hash": files_hash(config.rules)}
    found["config"] = _config(config, place_of(url), running=found["running"] is True)
    if healthy:
        why = _unhealthy(found, now, config.poll.interval)
        if why is not None:
            say(f"not healthy: {why}")
            raise typer.Exit(1)
        say("healthy")
        return
    say_no_ledger(url)
    if output is Format.json:
        print_json(found)
    else:
        _print(found, now)


def _found(url: str, now: datetime, service: str) -> dict[str, Json]:
    """The object of the contract. Raises `NotSafe` where the ledger is gone, also from under a running daemon."""
    place = place_of(url)
    other, pid = unread(place), holder(place)
    pid = unseen(place) if pid is None else pid
    try:
        with open_reading(url) as ledger:
            refused = amiss_with(ledger, place, other)
            elsewhere = ledger.refused_for(service) if refused is None else None
            if elsewhere is not None:
                refused = f"{elsewhere}; `campaign-worker run` will refuse it: {elsewhere.hint}"
            return {**_status(ledger, place, pid, now), "ledger_refused": refused}
    except NotSafe as error:
        if pid is None or place.file.exists():
            raise
        still = f"; process {pid} still runs on it: it goes on looking, and sends nothing"
        raise NotSafe(f"{error}{still}", hint=f"stop it (kill {pid}); then {error.hint}") from error


def _status(ledger: LedgerReader, place: LedgerPlace, pid: int | None, now: datetime) -> dict[str, Json]:
    """Whether one runs is told by the lock; what it does, by what the process that holds the lock said of itself. What
    an earlier one said is shown only while none runs, and nothing of it that could pass for the present."""
    said: DaemonStatus | None = ledger.status()
    current = said is not None and pid is not None and _by_holder(said, place, pid)
    body = dict(said.body) if said is not None and (current or pid is None) else {}
    writes: dict[str, Json] = {str(state): count for state, count in ledger.state_counts().items()}
    halts: list[Json] = [
        {
            "partner": halt.partner,
            "rule": halt.rule,
            "until": halt.until.isoformat() if halt.until else None,
            "because": halt.because,
            "by": halt.by,
        }
        for halt in ledger.halts(now)
    ]
    return {
        "running": pid is not None,
        "pid": pid,
        "since": spelled(said.since) if current and said is not None else None,
        "cycle_ms": body.get("cycle_ms") if current else None,
        "unreachable": body.get("unreachable") if current else None,
        "ended": {"at": spelled(said.seen_at), "why": body.get("ended")} if said is not None and pid is None else None,
        "rules": body.get("rules", dict(NO_RULES)),
        "partners": _partners(body.get("partners"), current=current),
        "partners_held": body.get("partners_held", {}) if current else {},
        "writes": writes,
        "halts": halts,
    }


def _config(config: Config, place: LedgerPlace, *, running: bool) -> Json:
    """What is in force, which a running daemon took from the file at its start, and whether the file says otherwise by
    now; null for what is not known."""
    now = in_force(config)
    said = said_by_holder(place) if running else now
    hash_then = said.get("config")
    changed = hash_then != now["config"] if running and hash_then else None
    return {"mode": said.get("mode"), "service": said.get("service"), "changed": changed}


def _by_holder(said: DaemonStatus, place: LedgerPlace, pid: int) -> bool:
    """Whether the holder of the lock said it. In a container every daemon has the same pid, so its time counts too."""
    since = held_since(place)
    return said.pid == pid and (since is None or said.seen_at >= since)


def _partners(said: Json, *, current: bool) -> Json:
    """What was said of each partner; of one that nobody watches now, no pace."""
    if not isinstance(said, dict) or current:
        return said if isinstance(said, dict) else {}
    gone: dict[str, Json] = {"requests_per_minute": None, "budget": None}
    return {partner: {**one, **gone} for partner, one in said.items() if isinstance(one, dict)}


def _unhealthy(found: dict[str, Json], now: datetime, interval: timedelta) -> str | None:
    """Why the worker is not healthy, or None."""
    refused = found["ledger_refused"]
    if not found["running"]:
        return f"no daemon holds the ledger{f', and {refused}' if refused else ''}"
    return str(refused) if refused else unhealthy(found, now, interval)


# for a person


def _print(found: Mapping[str, Json], now: datetime) -> None:
    rows = [["daemon", _daemon(found, now)], *_in_force(_mapping(found["config"]), running=bool(found["running"]))]
    if found["ledger_refused"]:
        rows.append(["ledger", str(found["ledger_refused"])])
    rows.append(["rules" if found["running"] else "rules, then", _rules(_mapping(found["rules"]), now)])
    rows.append(["rule files", _files(found, now)])
    if found["unreachable"]:
        rows.append(["service", f"not signed in: {found['unreachable']}"])
    if found["cycle_ms"] is not None:
        rows.append(["last look", f"took {found['cycle_ms']} ms"])
    writes = _mapping(found["writes"])
    rows.append(["writes", ", ".join(f"{count} {state}" for state, count in writes.items()) or "none"])
    rows += [["not watched", f"{partner}: {why}"] for partner, why in _mapping(found["partners_held"]).items()]
    halts = found["halts"] if isinstance(found["halts"], list) else []
    if not halts:
        rows.append(["halts", "none"])
    print_table("status", ("what", "is"), rows)
    partners = _mapping(found["partners"])
    if partners:
        shown = ([name, *_partner(_mapping(one), now)] for name, one in partners.items())
        print_table("partners", PARTNER_COLUMNS, shown)
    if halts:
        print_table("halts", HALT_COLUMNS, (_halt(_mapping(one)) for one in halts))


def _daemon(found: Mapping[str, Json], now: datetime) -> str:
    if found["running"]:
        since = _ago(found["since"], now, "since") if found["since"] else "and is only starting"
        return f"runs as process {found['pid']} {since}"
    ended = _mapping(found["ended"])
    if not ended:
        return "does not run, and never did on this ledger"
    when = _ago(ended["at"], now, "last heard of")
    return f"does not run; {when}: {ended['why'] or 'it ended without a word'}"


def _in_force(config: Mapping[str, Json], *, running: bool) -> list[list[str]]:
    """Which service, and whether anything is sent to it: what a person who wonders about silence needs first."""
    if config["mode"] is None:
        return []
    said = f"mode {config['mode']}, service {config['service']}"
    if not running:
        return [["config", f"{said}, from the next start"]]
    more = "; the file says otherwise by now, which counts from the next start" if config["changed"] else ""
    return [["config", said + more]]


def _rules(rules: Mapping[str, Json], now: datetime) -> str:
    ids = rules.get("ids")
    if not rules.get("loaded_at"):
        return "none loaded yet"
    names = [str(one) for one in ids] if isinstance(ids, list) else []
    when = _ago(rules["loaded_at"], now, "loaded")
    return f"{len(names)} in force, {when}, hash {str(rules.get('hash'))[:12]}: {', '.join(names) or 'none'}"


def _files(found: Mapping[str, Json], now: datetime) -> str:
    """How the files as they are now stand to the rules in force."""
    rules = _mapping(found["rules"])
    if rules["files_hash"] == rules["hash"]:
        return "the same"
    if rules["error"]:
        when = _ago(rules["refused_at"], now, "since") if rules["refused_at"] else ""
        return f"do not load {when}, so the last good rules stay in force: {rules['error']}"
    if str(rules["files_hash"]).startswith(UNREADABLE):
        return "cannot be read; `campaign-worker check` says why"
    soon = f"within {RELOAD_EVERY.total_seconds():.0f} s" if found["running"] else "at the next start"
    short = str(rules["files_hash"])[:12]
    if not rules["loaded_at"]:
        return f"hash {short}: to be taken up {soon}; `campaign-worker check` says whether they can be"
    return f"differ, hash {short}: to be taken up {soon}; `campaign-worker check` says whether they can be"


def _partner(said: Mapping[str, Json], now: datetime) -> list[Json]:
    last = said.get("last_ok_at")
    return [
        _ago(last, now, "") if last else "none yet",
        _seen_after(said),
        said.get("requests_per_minute"),
        said.get("budget"),
        said.get("last_error"),
    ]


def _seen_after(said: Mapping[str, Json]) -> str | None:
    """How soon a change is seen, on average, at the pace of now."""
    after = _mapping(said.get("seen_after_s"))
    if not after:
        return None
    facts = f", {after['facts']:.0f} s for facts of single events" if after.get("facts") else ""
    short = "; the budget is short" if said.get("short") else ""
    return f"{after['list']:.1f} s{facts}{short}"


def _halt(halt: Mapping[str, Json]) -> list[Json]:
    return [
        halt["partner"] or "every partner",
        halt["rule"] or "every rule",
        str(halt["until"])[:19].replace("T", " ") + " UTC" if halt["until"] else "somebody resumes it",
        halt["because"],
        halt["by"],
    ]


def _ago(at: Json, now: datetime, word: str) -> str:
    """``since 2026-03-01 12:00:00 UTC (2h ago)``."""
    moment = datetime.fromisoformat(str(at))
    age = timedelta(seconds=max(0, round((now - moment).total_seconds())))
    return f"{word} {moment:%Y-%m-%d %H:%M:%S} UTC ({duration_text(age)} ago)".strip()


def _mapping(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}
