"""``status``: what the daemon does now, from the ledger alone."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, cast

import typer

from worker.cli.common import amiss_with, clock_of, config_of, in_force, ledger_url, say_no_ledger
from worker.cli.output import Format, print_json, print_table, say, when
from worker.config import Config
from worker.config.addresses import service_of
from worker.engine.ports import RELOAD_EVERY, unhealthy
from worker.ledger.places import LedgerPlace, files_of, held_since, holder, said_by_holder, unread, unseen
from worker.ledger.reading import LedgerReader, open_reading, part_of
from worker.model.commits import SeenReplica
from worker.model.errors import NotSafe
from worker.model.facts import Json, spelled
from worker.rules.load import UNREADABLE, files_hash, hash_of
from worker.rules.spelling import counted
from worker.web.views import day_and_time, plain

app = typer.Typer()

NO_RULES: Mapping[str, Json] = {**dict.fromkeys(("hash", "files_hash", "loaded_at", "error", "refused_at")), "ids": []}
GONE = "gone"
"""The state of a replica that was not heard of for longer than a lease."""
MS = timedelta(milliseconds=1)
PARTNER_COLUMNS = ("partner", "last complete poll", "changes seen after", "requests a minute", "quota", "last error")
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
    output: Format = "table",
) -> None:
    """Print what the daemon does: partners, rules in force, writes by state, halts. Needs no credentials.

    For a monitor: campaign-worker status --healthy exits 0 where all is well, and else 1 with the reason on stderr.
    """
    config = config_of(context)
    try:
        now = clock_of(config).now()
        found = _found(config, now)
    except NotSafe as error:
        if not healthy:
            raise
        say(f"not healthy: {error}")
        raise typer.Exit(1) from None
    if healthy:
        why = _unhealthy(found, now, config.poll.interval)
        say("healthy" if why is None else f"not healthy: {why}")
        raise typer.Exit(0 if why is None else 1)
    if output == "json":
        print_json(found)
    else:
        _print(found, now)


def _found(config: Config, now: datetime) -> dict[str, Json]:
    """The object of the contract. Raises `NotSafe` where the ledger is gone, also from under a running daemon."""
    url = ledger_url(config)
    place = files_of(url)
    other, pid = unread(place), None if place is None else holder(place)
    pid = unseen(place) if pid is None and place is not None else pid
    try:
        with open_reading(url) as ledger:
            say_no_ledger(ledger, url)
            refused = amiss_with(ledger, url, other)
            elsewhere = ledger.refused_for(service_of(config.api.base_url)) if refused is None else None
            if elsewhere is not None:
                refused = f"{elsewhere}; `campaign-worker run` will refuse it: {elsewhere.hint}"
            said = said_of_all(ledger) if place is None else _said(ledger, place, pid)
            found = {**said, "writes": plain(ledger.state_counts()), "halts": plain(ledger.halts(now))}
    except NotSafe as error:
        if pid is None or place is None or place.file.exists():
            raise
        still = f"; process {pid} still runs on it: it goes on looking, and sends nothing"
        raise NotSafe(f"{error}{still}", hint=f"stop it (kill {pid}); then {error.hint}") from error
    found["rules"] = {**NO_RULES, **part_of(found, "rules"), "files_hash": files_hash(config.rules)}
    return {**found, "ledger_refused": refused, "config": _in_force(config, place, running=pid is not None)}


def replica_said(one: SeenReplica) -> dict[str, Json]:
    """What is printed of a replica."""
    since, lag_ms = spelled(one.since), one.lag // MS
    told: dict[str, Json] = {"id": one.id, "host": one.host, "pid": one.pid, "version": one.version}
    return {**told, "state": state_of(one), "since": since, "lag_ms": lag_ms}


def said_of_all(ledger: LedgerReader) -> dict[str, Json]:
    """What stands in `status` of a fleet for what one process says of itself."""
    replicas, published, status = ledger.replicas(), ledger.published(), ledger.status()
    said: dict[str, Json] = {} if status is None else {**status.body}
    rules = {"generation": 0, **part_of(said, "rules")}
    if published is not None:
        found, loaded_at, generation = hash_of(published.files), spelled(published.at), published.generation
        ids = rules.get("ids") if rules.get("hash") in (None, found) else None
        rules |= {"hash": found, "loaded_at": loaded_at, "generation": generation, "ids": ids}
    return {
        **{name: said.get(name) for name in ("cycle_ms", "unreachable")},
        **{name: {**part_of(said, name)} for name in ("partners", "partners_held")},
        "running": any(one.alive for one in replicas),
        "replicas": [replica_said(one) for one in replicas],
        "rules": rules,
    }


def state_of(one: SeenReplica) -> str:
    """What a replica says of itself, while it is heard of."""
    return one.state if one.alive else GONE


def _said(ledger: LedgerReader, place: LedgerPlace, pid: int | None) -> dict[str, Json]:
    """Whether one runs is told by the lock; what it does, by what the process that holds the lock said of itself. What
    an earlier one said is shown only while none runs, and nothing of it that could pass for the present."""
    said, since = ledger.status(), held_since(place)
    # in a container every daemon has the same pid, so the start counts too; its last word may be from a clock set back
    current = said is not None and pid == said.pid and (since is None or said.since >= since)
    body = dict(said.body) if said is not None and (current or pid is None) else {}
    partners = part_of(body, "partners")
    if not current:
        gone: dict[str, Json] = {"requests_per_minute": None, "budget": None}
        partners = {partner: {**part_of(partners, partner), **gone} for partner in partners}
    return {
        "running": pid is not None,
        "pid": pid,
        "since": spelled(said.since) if current and said is not None else None,
        "cycle_ms": body.get("cycle_ms") if current else None,
        "unreachable": body.get("unreachable") if current else None,
        "ended": {"at": spelled(said.seen_at), "why": body.get("ended")} if said is not None and pid is None else None,
        "rules": body.get("rules"),
        "partners": dict(partners),
        "partners_held": body.get("partners_held", {}) if current else {},
    }


def _in_force(config: Config, place: LedgerPlace | None, *, running: bool) -> Json:
    """What is in force, which a running daemon took from the file at its start, and whether the file says otherwise by
    now; null for what is not known."""
    now = in_force(config)
    said = said_by_holder(place) if running and place is not None else now
    hash_then = said.get("config")
    changed = hash_then != now["config"] if running and hash_then else None
    return {"mode": said.get("mode"), "service": said.get("service"), "changed": changed}


def _unhealthy(found: dict[str, Json], now: datetime, interval: timedelta) -> str | None:
    """Why the worker is not healthy, or None."""
    refused = found["ledger_refused"]
    if "replicas" in found and not found["running"]:
        return "no replica runs"
    if not found["running"]:
        return f"no daemon holds the ledger{f', and {refused}' if refused else ''}"
    error = part_of(found, "rules").get("error") if "replicas" in found else None
    if error:
        return f"a replica decides nothing, because the published rules do not load: {error}"
    return str(refused) if refused else unhealthy(found, now, interval)


# for an operator


def _print(found: Mapping[str, Json], now: datetime) -> None:
    running, config = bool(found["running"]), part_of(found, "config")
    rows = [["daemon", _daemon(found, now)]]
    if config["mode"] is not None:  # what an operator who wonders about silence needs first
        more = "" if running else ", from the next start"
        if config["changed"]:
            more = "; the file says otherwise by now, which counts from the next start"
        rows.append(["config", f"mode {config['mode']}, service {config['service']}{more}"])
    if found["ledger_refused"]:
        rows.append(["ledger", str(found["ledger_refused"])])
    rows.append(["rules" if running else "rules, then", _rules(part_of(found, "rules"), now)])
    rows.append(["rule files", _files(part_of(found, "rules"), now, running=running)])
    if found["unreachable"]:
        rows.append(["service", f"not signed in: {found['unreachable']}"])
    if found["cycle_ms"] is not None:
        rows.append(["last poll", f"took {found['cycle_ms']} ms"])
    writes, halts = part_of(found, "writes"), cast("list[dict[str, Json]]", found["halts"])
    rows.append(["writes", ", ".join(f"{count} {state}" for state, count in writes.items()) or "none"])
    rows += [["not watched", f"{partner}: {why}"] for partner, why in part_of(found, "partners_held").items()]
    if not halts:
        rows.append(["halts", "none"])
    print_table("status", ("what", "is"), rows)
    partners = part_of(found, "partners")
    if partners:
        shown = ([name, *_partner(part_of(partners, name), now)] for name in partners)
        print_table("partners", PARTNER_COLUMNS, shown)
    if halts:
        print_table("halts", HALT_COLUMNS, map(_halt, halts))


def _daemon(found: Mapping[str, Json], now: datetime) -> str:
    if "replicas" in found:
        alive = sum(one["state"] != GONE for one in cast("list[dict[str, Json]]", found["replicas"]))
        return f"{counted(alive, 'replica')} of a fleet; `campaign-worker fleet` names them"
    if found["running"]:
        since = _ago(found["since"], now, "since") if found["since"] else "and is only starting"
        return f"runs as process {found['pid']} {since}"
    ended = part_of(found, "ended")
    if not ended:
        return "does not run, and never did on this ledger"
    when = _ago(ended["at"], now, "last heard of")
    return f"does not run; {when}: {ended['why'] or 'it ended without a word'}"


def _rules(rules: Mapping[str, Json], now: datetime) -> str:
    if not rules.get("loaded_at"):
        return "none loaded yet"
    ids, when = rules.get("ids"), _ago(rules["loaded_at"], now, "loaded")
    names = [str(one) for one in ids] if isinstance(ids, list) else []
    if ids is None and rules.get("generation"):
        refused = f"; a replica decides nothing under them: {rules['error']}" if rules.get("error") else ""
        return f"generation {rules['generation']} in force, {when}, hash {str(rules.get('hash'))[:12]}{refused}"
    return f"{len(names)} in force, {when}, hash {str(rules.get('hash'))[:12]}: {', '.join(names) or 'none'}"


def _files(rules: Mapping[str, Json], now: datetime, *, running: bool) -> str:
    """How the files as they are now stand to the rules in force."""
    if rules["files_hash"] == rules["hash"]:
        return "the same"
    if rules["error"] and "generation" not in rules:
        when = _ago(rules["refused_at"], now, "since") if rules["refused_at"] else ""
        return f"do not load {when}, so the last good rules stay in force: {rules['error']}"
    found = str(rules["files_hash"])
    if found.startswith(UNREADABLE):
        return "cannot be read; `campaign-worker check` says why"
    if "generation" in rules:
        return f"hash {found[:12]}, which is not in force: `campaign-worker rules publish` puts them into force"
    soon = f"within {RELOAD_EVERY.total_seconds():.0f} s" if running else "at the next start"
    differ = "differ, " if rules["loaded_at"] else ""
    return f"{differ}hash {found[:12]}: to be taken up {soon}; `campaign-worker check` says whether they can be"


def _partner(said: Mapping[str, Json], now: datetime) -> list[Json]:
    last, after = said.get("last_ok_at"), part_of(said, "seen_after_s")
    seen_after = None
    if after:  # how soon a change is seen, on average, at the pace of now
        facts = f", {after['facts']:.0f} s for facts of single events" if after.get("facts") else ""
        seen_after = f"{after['list']:.1f} s{facts}{'; the request quota is short' if said.get('short') else ''}"
    return [
        _ago(last, now, "") if last else _none_yet(said),
        seen_after,
        *(said.get(name) for name in ("requests_per_minute", "budget", "last_error")),
    ]


def _none_yet(said: Mapping[str, Json]) -> str:
    """How far the first list is."""
    first = said.get("first_list")
    pages = f": {first[0]} of {first[1]} pages of the first list are read" if isinstance(first, list) else ""
    return f"none yet{pages}"


def _halt(halt: Mapping[str, Json]) -> list[Json]:
    until = f"{day_and_time(str(halt['until']))} UTC" if halt["until"] else "somebody resumes it"
    return [halt["partner"] or "every partner", halt["rule"] or "every rule", until, halt["because"], halt["by"]]


def _ago(at: Json, now: datetime, word: str) -> str:
    """``since 2026-03-01 12:00:00 UTC (2h ago)``."""
    return f"{word} {when(datetime.fromisoformat(str(at)), now)}".strip()
