"""Claims about what the log tells of changes: each was one, is told once, and whose doing it was is told as it was."""

from collections import Counter
from collections.abc import Iterator

from tests.simulation.case import (
    FIELDS,
    FINAL,
    INTERVAL_S,
    TICK_S,
    Case,
    Deed,
    refused_after_its_effect,
    too_late,
    wanted_of,
)
from tests.simulation.history import Row
from tests.simulation.sight import AGE_S

TOGGLES = frozenset(field for field, _ in FIELDS.values())
"""The fields that the worker's writes set."""
LOOKS_ENOUGH = 2
SEEN_LATE_S = 60.0
"""So much later than it is so a change may be told, where the disk is full or a process was killed in between."""


def changes_follow_each_other(case: Case) -> Iterator[str]:
    """What a record says that a field was, the record before it said that it had become, and no change is told more
    often than the service has seen it: none is told twice, made up, or passed over. Not asked for where rules were
    edited, because only fields that a rule in force looks at are logged; the second not where reads answered as of the
    past, of another object, or that something was not there which was."""
    if case.history.edited:
        return
    stale = case.history.stale or _seems_older(case)
    for life, rows in enumerate(case.history.logs):
        last: dict[tuple[str, str], Row] = {}
        often: Counter[tuple[str, str, str]] = Counter()
        for row, name in _told(rows):
            was, now_is, event = row["facts"]["before"], row["facts"][name], str(row["event"])
            before = last.get((event, name))
            if before is not None and before["facts"][name] != was:
                yield f"record {row['seq']} has {name} change from {was!r}, and record {before['seq']} to another value"
            if was == now_is:
                yield f"record {row['seq']} tells of no change"
            last[event, name] = row
            often[event, name, repr(now_is)] += 1
            if name.startswith("setup.") and name not in ("setup.state", "setup.total_budget"):
                continue
            became = len(_became(case, event, name, now_is, case.committed_s(life, row["seq"])))
            lied = stale or case.history.lies(event) or not case.history.of(event)
            if often[event, name, repr(now_is)] > became and not lied:
                yield f"record {row['seq']} has {name} become {now_is!r} once more than it did"


def whose_doing_it_was(case: Case) -> Iterator[str]:
    """A change told as another hand's was made by one. Of one told as the worker's there was an effect of its own since
    the record before, or a write of its own that asks for it was not settled when somebody made it so. Not asked for
    where reads answered as of the past, of an event that is another object, and after a ledger was lost: it does not
    know of all that it had sent."""
    history = case.history
    if history.stale or _seems_older(case) or len(history.logs) > 1:
        return
    last_s: dict[tuple[str, str], list[float]] = {}
    for row, name in _told(case.last):
        event, field = str(row["event"]), name.partition(".")[2]
        if field not in TOGGLES or not history.of(event):
            continue
        at_s, value = case.committed_s(0, row["seq"]), row["facts"][name]
        earlier = last_s.setdefault((event, name), [])
        since_s = max((one for one in earlier if one < at_s), default=0.0)
        earlier.append(at_s)
        makers = _makers(case, event, field, value)
        if row["seq"] not in history.ours:
            continue
        if history.ours[row["seq"]]:
            became = [one for one in _became(case, event, name, value, at_s) if one > since_s - SEEN_LATE_S]
            effects = [one.at_s for deed in makers for one in deed.effects if one.at_s > since_s - SEEN_LATE_S]
            unsettled = any(_unsettled(case, deed, one) for deed in makers for one in became)
            if not unsettled and not any(one <= at_s for one in effects):
                yield f"record {row['seq']} calls {name} = {value!r} the worker's, which had not made it so"
        elif not _another_hand(case, event, field, value, at_s):
            if any(too_late(case, deed, one) for deed in makers for one in deed.effects):
                case.forgiven["an effect later than settle"] += 1
            elif any(refused_after_its_effect(deed, one) for deed in makers for one in deed.attempts):
                case.forgiven["refused after its effect, which a read shows"] += 1
            else:
                yield f"record {row['seq']} calls {name} = {value!r} another hand's, and there was none"


def _seems_older(case: Case) -> bool:
    """Whether an answer that tells its age, which has whole seconds, could be taken for older than one before it."""
    events = [one for one in case.history.reads if one.path.startswith("/events/")]
    told = [one for one in events if one.told]
    return any(one.shows_s - AGE_S <= other.at_s < one.at_s for one in told for other in events)


def _became(case: Case, event: str, name: str, value: object, until_s: float) -> list[float]:
    """When a field of the event became that value in the service; or its setup's state or budget."""
    fact, _, field = name.partition(".")
    found, had = [], False
    for one in case.history.of(event, until_s + TICK_S):
        if fact == "suggested_tcs":
            has = isinstance(value, list) and one.suggested == ", ".join(sorted(str(run["tc_run_id"]) for run in value))
        else:
            setup = one.setup if field == "state" else one.budget
            has = value == (setup if fact == "setup" else None if one.record is None else one.record.get(field))
        if has and not had:
            found.append(one.at_s)
        had = has
    return found


def _unsettled(case: Case, deed: Deed, at_s: float) -> bool:
    """Whether a write was about to be sent, under way or unknown then: nobody can tell who made its field so."""
    life = next(life for one, _, life in case.lines if one is deed)
    done = [row["seq"] for row in deed.rows if row["kind"] in FINAL]
    settled_s = case.committed_s(life, done[-1]) if done else float("inf")
    return any(one.at_s - INTERVAL_S <= at_s <= settled_s for one in deed.attempts)


def what_was_done_is_told(case: Case) -> Iterator[str]:
    """A write that changed its target, and was confirmed by a read, is in the log as a change by the worker, once one
    process has had so many whole looks after that, with room to store them, that it cannot have missed it. A process
    that finds what another one could not store has nothing to compare it with; and a value where there was none is no
    change, nor is one where the process before had seen none."""
    history = case.history
    if history.stale or history.edited or len(history.logs) > 1:
        return
    for deed in case.deeds.values():
        done = next((row for row in deed.rows if (row["kind"], row["reason"]) == ("confirmed", "read")), None)
        made = _makes(case, deed) if str(deed.rows[0]["action"]) in FIELDS and not deed.unseen else None
        if done is None or made is None or not any(one.changed for one in deed.effects):
            continue
        before = history.of(deed.event, min(one.at_s for one in deed.effects) - TICK_S)
        if any(one.record is None or one.record[made[0]] is None for one in before):
            continue
        since_s = max([case.committed_s(0, done["seq"]), *(to_s for _, to_s in history.cramped)])
        sender = next((wire.owner for one in deed.attempts for wire in one.wire), "")
        lists = [one for one in history.reads if one.path == "/events/" and one.whole and one.shows_s > since_s]
        looks = Counter(one.owner for one in lists if one.owner == sender or not history.unstored)
        name, value = f"event.{made[0]}", made[1]
        told = (row for row, of in _told(case.last) if (row["event"], of) == (deed.event, name))
        if max(looks.values(), default=0) >= LOOKS_ENOUGH and not any(row["facts"][name] == value for row in told):
            yield f"write {done['write']} made {name} {value!r}, and no record tells of that"


def _told(rows: list[Row]) -> Iterator[tuple[Row, str]]:
    for row in rows:
        if row["kind"] == "observed" and row["event"] is not None and "before" in (row["facts"] or {}):
            yield row, next(name for name in row["facts"] if name != "before")


def _makers(case: Case, event: str, field: str, value: object) -> list[Deed]:
    """The writes that were to make the field so."""
    found = [deed for deed in case.deeds.values() if deed.event == event and deed.attempts]
    return [deed for deed in found if _makes(case, deed) == (field, value)]


def _makes(case: Case, deed: Deed) -> tuple[str, object] | None:
    match str(deed.rows[0]["action"]):
        case "boost":
            return "client_campaign_status", "RUNNING"
        case "create_draft" | "create_campaign" | "update_draft":
            return None
        case _:
            return wanted_of(case, deed)


def _another_hand(case: Case, event: str, field: str, value: object, at_s: float) -> bool:
    """Whether somebody else had made the field so by then."""
    for other in case.history.others:
        if other.at_s > at_s or (other.target != "*" and (other.event, other.target) != (event, field)):
            continue
        known = case.history.at(event, other.at_s + TICK_S)
        if known is not None and known.record is not None and known.record[field] == value:
            return True
    return False
