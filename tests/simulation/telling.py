"""Puts what a world left behind into the judge's plain values."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

from tests.simulation import history
from tests.simulation.loop import START_S
from tests.simulation.points import BEYOND, STALE, WRITE
from tests.simulation.scenes import FACTOR, FELL, FOR_S, OWN_MIND, TIRED, WAIT_S, WINDOW_S, Turn
from tests.simulation.town import Town
from worker.engine.derived import told
from worker.ledger.reading import open_reading
from worker.model.errors import NotSafe

JSON_FIELDS = ("request", "before", "response", "evidence", "facts")


def told_history(town: Town, ended_s: float) -> history.History:
    """The history of a town whose time is over."""
    books = town.twin.books
    own_mind = bool(OWN_MIND & town.scene.twin.keys())
    logs: list[list[history.Row]] = [[_parsed(row) for row in rows] for rows in (*town.logs, town.disk.rows())]
    return history.History(
        what=str(town.scene),
        settle_s=town.settings.settle.total_seconds(),
        evidence_reads=town.settings.evidence_reads,
        evidence_within_s=town.settings.evidence_within.total_seconds(),
        max_attempts=town.settings.max_attempts,
        writes_per_hour=town.settings.limits.writes_per_hour,
        spend_per_week=town.settings.limits.spend.per_week,
        spend_per_day=town.settings.limits.spend.per_day,
        spend_per_event=town.settings.limits.spend.per_event,
        surge=(town.settings.deciding.surge.events, town.settings.deciding.surge.within.total_seconds()),
        gap_s=town.settings.deciding.gap.total_seconds(),
        logs=logs,
        ours=_ours(town, logs[-1]),
        stamps=[*town.stamps, town.disk.stamps],
        lost=town.lost,
        writes=town.disk.writes(),
        effects=[
            history.Effect(
                at_s=one.at_s,
                event=one.eid,
                target=one.target,
                operation=one.operation,
                request_id=one.request_id,
                changed=one.changed,
                repeated=one.repeated,
            )
            for one in books.effects
        ],
        others=[history.Other(at_s=one.at_s, event=one.eid, target=one.target) for one in books.outside],
        wire=[replace(one) for one in town.tapped],  # as they are now: what is let go of later is heard of no more
        reads=town.reads,
        throttled=town.throttled,
        versions=_versions(town),
        wishes=tuple(
            history.Wish(
                rule=law.id,
                once=law.once,
                wants=law.wants,
                done=law.done,
                on_suggested="on_change: suggested_tcs" in law.text and law not in town.renamed,
                cooldown_s=60.0 if "cooldown: 1m" in law.text else 0.0,
                for_s=FOR_S if f"for: {FOR_S:g}s" in law.text else 0.0,
                leans_on=law.leans_on,
                factor=FACTOR if "=setup.total_budget *" in law.text else 0.0,
                after=TIRED.id if f"after: {TIRED.id}" in law.text else "",
                fell=FELL if "since(event.capacity)" in law.text else 0.0,
                wait_s=WAIT_S if f"wait: {WAIT_S:g}s" in law.text else 0.0,
                window_s=WINDOW_S if f", '{WINDOW_S:g}s')" in law.text else 0.0,
                limit=1 if "per_event_per_day: 1" in law.text else 0,
            )
            for law in (*town.scene.laws, *town.renamed)
        ),
        lives=list(town.lives.values()),
        halts=town.halts,
        rule_halts=town.rule_halts,
        violations=[(one.kind, one.at_s, f"{one.method} {one.path}: {one.detail}") for one in town.twin.violations()],
        healed_s=town.healed_s,
        ended_s=ended_s,
        own_mind=own_mind,
        paged="page_size" in town.scene.settings,
        stale=any(name.split(": ", 1)[1] in STALE for name in town.points.done),
        approves=town.scene.settings.get("mode") == "approve",
        harmed=bool(town.points.done)
        or own_mind
        or any(not _ordinary(turn, town) for turn in town.scene.turns)
        or any(life.how == "killed" for life in town.lives.values()),
        edited=frozenset(town.edited),
        blank=frozenset(town.blank),
        clock_back=any(name.endswith("clock an hour back") for name in town.points.done)
        or any(turn.does == "clock" and turn.details["seconds"] < 0 for turn in town.scene.turns),
        clock_moved=any("clock" in name for name in town.points.done)
        or any(turn.does == "clock" for turn in town.scene.turns),
        slowed=any(not _of_one_write(name) for name in town.points.done) or bool(town.scene.rates),
        unstored=any(
            name.split(": ")[0] in ("look", "begin", "commit", "mark", "server", "server commit", "server sending")
            or "disk full" in name
            for name in town.points.done
        )
        or any(turn.does in ("disk full", "hold ledger") for turn in town.scene.turns),
        cramped=town.cramped,
        unheld=town.unheld,
        unlocked_s=town.unlocked_s,
        stalls=town.loop.stalls,
        told_to_stop=town.told_to_stop,
        defects=town.defects,
    )


def _ours(town: Town, log: list[history.Row]) -> dict[int, bool]:
    """What a person is told of each change: whether it was the worker's own."""
    chained = [{**row, "seq": row.get("number", row["seq"])} for row in log]  # in a fleet a partner's chain has its own
    with suppress(NotSafe), open_reading(town.disk.url) as ledger:
        said = zip(log, told(ledger, chained), strict=True)
        return {row["seq"]: one["maker"] is not None for row, one in said if "maker" in one}
    return {}


def _of_one_write(done: str) -> bool:
    """Whether what went wrong concerned one request that writes, and nothing beside it."""
    kind, _, name = done.partition(": ")
    return kind == "write" and next(one for one in (*WRITE, *BEYOND) if one.name == name).does == "twin"


def _ordinary(turn: Turn, town: Town) -> bool:
    """What happens in a world where nothing goes wrong: the world moves on by itself, and a person approves. That the
    service sets anew what the worker has just set is not of these."""
    if turn.does != "set":
        return turn.does in ("suggest", "approve", "second", "halt", "halt rule", "undo", "again")
    names = [f"{prefix}{name}" for name in turn.details["set"] for prefix in ("", "setup_")]
    places = [f"/events/{turn.details['event']}/{name}" for name in names]
    written = [one.url.split("?")[0] for one in town.tapped if one.at_s <= START_S + turn.at]
    return turn.details["by"] == "world" and not any(url.endswith(place) for url in written for place in places)


def _parsed(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: json.loads(value) if name in JSON_FIELDS and value is not None else value for name, value in row.items()
    }


def _versions(town: Town) -> list[history.Version]:
    found = []
    for at_s, event, at in town.versions:
        setup = "NONE" if at is None or at.setup is None else "PUBLISHED" if at.published else "DRAFT"
        runs = [] if at is None or not at.suggested_tcs else sorted(str(one["tc_run_id"]) for one in at.suggested_tcs)
        record = None if at is None else dict(at.record)
        suggested = ", ".join(runs)
        budget = 0.0 if at is None or at.setup is None else float(str(at.setup["total_budget"]))
        campaigns = () if at is None else tuple((str(one["tc"]), str(one["tc_run_id"])) for one in at.campaigns)
        found.append(
            history.Version(
                at_s=at_s,
                event=event,
                record=record,
                setup=setup,
                suggested=suggested,
                budget=budget,
                campaigns=campaigns,
            )
        )
    return found
