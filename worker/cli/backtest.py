"""``backtest``: a rule folder over the recorded observations, beside the writes that were really made."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, get_args

import typer

from worker.cli.common import config_of, moment, reader_of
from worker.cli.explain import in_force
from worker.cli.output import Format, going_on, print_json, print_table, say
from worker.cli.plan import after_of
from worker.cli.test import bench_of
from worker.config import Config
from worker.engine.explaining import last_poll
from worker.engine.operators import Word
from worker.engine.playing import Bench
from worker.engine.replay import Difference, Kind, Recording, Replay, Replayed, Said, differences
from worker.engine.views import sendings_reach
from worker.ledger.reading import LedgerReader
from worker.model.commits import LogFilter
from worker.model.errors import NotFound
from worker.model.facts import Json, PartnerId, WriteId, spelled
from worker.model.rules import Rule
from worker.model.writes import UNSENT, Plan, State, Write
from worker.rules.facts import windows_of
from worker.rules.load import load_rules
from worker.rules.spelling import counted
from worker.system import utc_now
from worker.web.views import writes_json
from worker.writes.intents import wanted

app = typer.Typer()

TABLE = ("kind", "partner", "event", "action", "after", "made", "would", "why")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One partner. ``shown_from``: what lies before it only prepares; ``before``: writes that would be made by then."""

    partner: PartnerId
    until: datetime
    begins: datetime | None = None
    shown_from: datetime | None = None
    replayed: Replayed = field(default_factory=lambda: Replayed(writes=(), unseen={}, polls=0))
    before: int = 0
    found: tuple[Difference, ...] = ()


@app.command("backtest")
def backtest(
    context: typer.Context,
    rules: Annotated[
        Path | None, typer.Option("--rules", help="A rule folder or file; by default the rules in force.")
    ] = None,
    since: Annotated[str | None, typer.Option(help="How long ago (2h, 7d) or a time (2026-03-01T12:00:00Z).")] = None,
    output: Format = "table",
) -> None:
    """Run a rule folder over what was observed: which writes would be new, gone, earlier or later.

    The daemon's own cycle runs, on every change that the ledger has recorded (see observations.keep). Offline, and
    nothing is written. The folder is taken to have been in force since a day before --since, or for as long as its
    rules look back. What was written before that counts as it was made.

    Example: campaign-worker backtest --rules rules-new --since 7d
    """
    config, now = config_of(context), utc_now()
    start = moment(config, since)
    with reader_of(config) as ledger:
        bench = bench_of(config, in_force(config, ledger) if rules is None else load_rules(rules, config.registry))
        tested = [_tested(ledger, config, bench, partner, start) for partner in _partners(ledger, config)]
    if all(one.begins is None for one in tested):
        hint = "`run` records them; see observations.keep in the config"
        when = "yet" if start is None else f"since {start:%Y-%m-%d %H:%M:%S} UTC"
        raise NotFound(f"no observations are recorded {when}", hint=hint)
    for one in tested:
        _say(one)
    if output == "json":
        print_json({"partners": {one.partner: _summary(one) for one in tested}, "writes": list(_rows(tested))})
        return
    rows = [_for_operator(one.partner, found) for one in tested for found in _worth_showing(one.found)]
    if rows:
        print_table("backtest", TABLE, ([row[name] for name in TABLE] for row in rows))
    else:
        say(f"the same writes would be made (as of {now:%Y-%m-%d %H:%M} UTC)")


def _partners(ledger: LedgerReader, config: Config) -> Iterator[PartnerId]:
    only = config.partners
    return (PartnerId(name) for name in ledger.known("partner") if only is None or name in only)


def _tested(ledger: LedgerReader, config: Config, bench: Bench, partner: PartnerId, since: datetime | None) -> Tested:
    reach, recorded = _reach(bench.rules.rules), ledger.facts_begin(partner)
    whole = since is None or recorded is None or since - recorded < reach
    history = ledger.history(partner, since - reach if since is not None and not whole else None)
    made, begins = ledger.writes(partner=partner), history.begins
    shown_from = begins if since is None or recorded is None else max(since, recorded)
    if begins is None or shown_from is None:
        return Tested(partner=partner, until=utc_now())
    known = [last_poll(ledger, partner), begins, *(one.planned_at for one in made)]
    until = max(at for at in known if at is not None)
    if shown_from > until:
        return Tested(partner=partner, until=until)
    tolerance = max(2 * config.poll.interval, timedelta(seconds=10))
    recording = Recording(
        partner=partner,
        history=history,
        begins=begins,
        until=until,
        made=made,
        before=[_as_of(ledger, one, begins) for one in made if one.planned_at < begins],
        sent=ledger.attempts(partner, begins),
        said=list(_said(ledger, partner, begins, {one.id: one for one in made})),
        tolerance=tolerance,
    )
    replay = Replay(recording, bench)
    with going_on(f"{partner}: what was recorded is read") as progress:
        for at in replay.run():
            progress(f"{partner}: played up to {at:%Y-%m-%d %H:%M} of {until:%Y-%m-%d %H:%M} UTC")
    replayed = replay.found
    found = differences([one for one in made if one.planned_at >= begins], replayed.writes, tolerance)
    return Tested(
        partner=partner,
        begins=begins,
        shown_from=shown_from,
        until=until,
        replayed=replayed,
        before=sum(1 for one in replayed.writes if one.planned_at < shown_from),
        found=tuple(one for one in found if _latest(one) >= shown_from),
    )


def _reach(rules: Sequence[Rule]) -> timedelta:
    """How long before ``--since`` the replay begins, to know what had fired by then: as long as a rule looks back."""
    holds = (rule.hold_for for rule in rules if rule.hold_for is not None)
    return max([sendings_reach(rules), *holds, *windows_of(rules).values()])


def _as_of(ledger: LedgerReader, write: Write, at: datetime) -> Write:
    """The write as it stood then, if nothing of it was sent. Else it is taken to have come to its end already, and so
    is what an operator asked for."""
    if write.by_operator or write.changed_at < at or (write.first_sent_at is not None and write.first_sent_at < at):
        return write
    kinds = [str(one["kind"]) for one in ledger.log(LogFilter(write=write.id, until=at))]
    state: State = "waiting" if [one for one in kinds if one in UNSENT][-1:] == ["waiting"] else "planned"
    plan = Plan(key=write.key, intent=write.intent, state=state, reason=write.reason, why=write.why, rules=write.rules)
    return replace(plan.write(write.id, write.planned_at), approved="approved" in kinds)


def _said(ledger: LedgerReader, partner: PartnerId, since: datetime, made: Mapping[WriteId, Write]) -> Iterator[Said]:
    """What people have said of the writes that were made."""
    for record in ledger.log(LogFilter(partner=partner, since=since)):
        kind, write = record["kind"], record["write"]
        if kind not in ("approved", "resolved", "again") or not isinstance(write, int):
            continue
        word = Word(because=str(record["why"]), by=str(record["by"]), at=datetime.fromisoformat(str(record["at"])))
        known = made.get(WriteId(write))
        if kind != "resolved":
            yield Said(kind="again" if kind == "again" else "approved", write=WriteId(write), word=word)
        elif known is not None and known.state == "cancelled":
            yield Said(kind="rejected", write=WriteId(write), word=word)


def _latest(one: Difference) -> datetime:
    return max(write.planned_at for write in (one.made, one.would) if write is not None)


def _worth_showing(found: Sequence[Difference]) -> Iterator[Difference]:
    """Every write of the events of which anything would be otherwise."""
    events = {one.write.key.event for one in found if one.kind != "same"}
    return (one for one in found if one.write.key.event in events)


def _rows(tested: Sequence[Tested]) -> Iterator[Json]:
    for one in tested:
        for found in one.found:
            key, intent = found.write.key, found.write.intent
            yield {
                "kind": found.kind,
                "partner": one.partner,
                "event": key.event,
                "action": intent.action,
                "item": key.item,
                "after": after_of(intent),
                "made": None if found.made is None else writes_json(found.made),
                "would": None if found.would is None else {**writes_json(found.would), "id": None},
            }


def _for_operator(partner: PartnerId, found: Difference) -> dict[str, Json]:
    key, intent = found.write.key, found.write.intent
    return {
        "kind": found.kind,
        "partner": partner,
        "event": key.event,
        "action": intent.action + (f" ({key.item})" if key.item else ""),
        "after": wanted(intent, key.item, None).does,
        "made": "" if found.made is None else f"{_place(found.made)}, write {found.made.id}",
        "would": "" if found.would is None else _place(found.would),
        "why": (found.would or found.write).why,
    }


def _place(write: Write) -> str:
    return f"{write.planned_at:%Y-%m-%d %H:%M:%S} by {write.key.rule}: {write.state}"


def _counts(one: Tested) -> dict[str, int]:
    """How many writes there are of each kind of difference, in the order in which the kinds are told."""
    found = Counter(difference.kind for difference in one.found)
    return {kind: found[kind] for kind in get_args(Kind)}


def _summary(one: Tested) -> dict[str, Json]:
    return {
        "begins": spelled(one.begins),
        "shown_from": spelled(one.shown_from),
        "until": spelled(one.until),
        "looks": one.replayed.polls,
        "before": one.before,
        **_counts(one),
        "not_recorded": [
            {"rule": rule, "fact": fact, "events": count} for (rule, fact), count in sorted(one.replayed.unseen.items())
        ],
    }


def _say(one: Tested) -> None:
    """What an operator must know beside the rows."""
    if one.begins is None or one.shown_from is None:
        say(f"{one.partner}: no observations are recorded")
        return
    counts = ", ".join(f"{count} {kind}" for kind, count in _counts(one).items())
    say(f"{one.partner}: {one.shown_from:%Y-%m-%d %H:%M} to {one.until:%Y-%m-%d %H:%M} UTC: {counts}")
    if one.before:
        say(f"{one.partner}: {counted(one.before, 'write')} would have been made before that")
    for (rule, fact), count in sorted(one.replayed.unseen.items()):
        say(f"{one.partner}: rule {rule} wants {fact}, which was not recorded for {counted(count, 'event')}")
