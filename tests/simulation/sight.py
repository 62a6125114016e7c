"""Claims about what is in sight: what rules lean on is read again and again, and what was away is met with care."""

from collections.abc import Iterator
from itertools import pairwise

from tests.simulation.brakes import is_new
from tests.simulation.case import (
    FIELDS,
    INTERVAL_S,
    TICK_S,
    UNDER_WAY_S,
    WAITED_MOST_S,
    Attempt,
    Case,
    Deed,
    asked_again,
    became_of_firing,
)
from tests.simulation.history import Read, Version, Wish
from tests.simulation.lost import SETUPS, as_wanted, rival

AGE_S = 1.0
"""So much older than it is an answer may say that it is: an ``Age`` has whole seconds."""
LOOKS_BETWEEN = 5
"""So many whole looks in a row may pass between two reads of a fact that a rule leans on."""


def what_rules_lean_on_is_read_again(case: Case) -> Iterator[str]:
    """A fact that a rule in force leans on, of an event in sight, is read at least once in `LOOKS_BETWEEN` whole looks
    of one process in a row. A look that did not come, a read that went wrong, or a full disk begins the row anew:
    whoever is stalled, kept waiting or cannot store what it has seen so far looks at nothing more. Not asked for within
    the longest wait after a 429."""
    for owner in dict.fromkeys(one.owner for one in case.history.reads):
        reads = [one for one in case.history.reads if one.owner == owner]
        for wish in case.history.wishes:
            if wish.rule in case.history.edited:
                continue
            for event in dict.fromkeys(one.event for one in case.history.versions):
                at_s = _left_alone(case, reads, wish, event)
                if at_s is not None:
                    yield f"{owner} had not read what {wish.rule} leans on of {event} for long at {at_s - 1000:.3f}"


def _left_alone(case: Case, reads: list[Read], wish: Wish, event: str) -> float | None:
    """When there had been too many looks of a process without a read of the fact; None: never."""
    looks: list[float] = []
    for one in reads:
        path = _leans_on(case, wish, event, one.shows_s)
        if not path or not one.whole or one.path == path or _told_to_wait(case, one.at_s) or _cramped(case, one.at_s):
            looks = []
        elif one.path == "/events/" and (not looks or one.at_s - looks[-1] >= INTERVAL_S - TICK_S):
            looks.append(one.at_s)
            if len(looks) > LOOKS_BETWEEN:
                return one.at_s
    return None


def _leans_on(case: Case, wish: Wish, event: str, at_s: float) -> str:
    known = case.history.at(event, at_s)
    return "" if known is None or known.record is None else wish.leans_on(known.record).format(event)


def _told_to_wait(case: Case, at_s: float) -> bool:
    return any(one <= at_s <= one + WAITED_MOST_S for one in case.history.throttled)


def _cramped(case: Case, at_s: float) -> bool:
    return any(from_s <= at_s <= to_s for from_s, to_s in case.history.cramped)


def what_became_true_out_of_sight_waits(case: Case) -> Iterator[str]:
    """What no read had shown as true before an event was away, and is true when it is back, fires at the first look
    after it and waits for a person, unless one has just asked for it again. Asked for where one process met that it was
    away and had two more looks before it was back, and nothing kept that process from storing so."""
    history = case.history
    if history.stale or history.clock_moved or history.unstored or len(history.logs) > 1:
        return
    for event in dict.fromkeys(one.event for one in history.versions):
        for away, back in pairwise(history.of(event)):
            if away.record is not None or back.record is None or not _met_away(case, event, away, back):
                continue
            for wish in history.wishes:
                if wish.once and wish.wants is not None and wish.rule not in history.edited and wish.holds(back):
                    yield from _waited(case, wish, event, (away.at_s, back.at_s))


def _met_away(case: Case, event: str, away: Version, back: Version) -> bool:
    """Whether the process that is there when the event is back had been told that it was away, and had looked again,
    twice, before."""
    between = [one for one in case.history.reads if away.at_s + TICK_S < one.shows_s < back.at_s and one.whole]
    lives = [one.owner for one in case.history.lives if one.from_s < away.at_s and one.to_s > back.at_s]
    for owner in lives:
        told = [one.at_s for one in between if one.owner == owner and one.path == f"/events/{event}"]
        looks = [one.at_s for one in between if one.owner == owner and one.path == "/events/"]
        if told and (after := [one for one in looks if one > told[0]]) and after[-1] - after[0] >= INTERVAL_S - TICK_S:
            return True
    return False


def _waited(case: Case, wish: Wish, event: str, between: tuple[float, float]) -> Iterator[str]:
    history, (away_s, back_s) = case.history, between
    shown = [one for one in history.shown(event) if one.shows_s < away_s]
    if not shown or not all(one.whole for one in shown) or history.lies(event):
        return  # the page that it stands on may not have shown it, and what no rule could judge before is new
    seen_s = max(one.shows_s for one in shown)
    if is_new(case, case.last, wish, seen_s) or any(wish.holds(one) for one in history.of(event, seen_s + TICK_S)):
        return
    for row in case.last:
        fired_s = case.committed_s(0, row["seq"])
        if (row["kind"], row["rule"], row["event"]) != ("fired", wish.rule, event) or fired_s < back_s:
            continue
        then = became_of_firing(case.last, row)
        let_go = then in (None, "waiting") or asked_again(case.last, row)
        if not let_go and not [one for one in history.of(event, fired_s) if one.at_s > back_s]:
            yield f"{wish.rule} fired for {event}, which had been away, and its write became {then}"
        return


def what_was_seen_is_not_sent_again(case: Case) -> Iterator[str]:
    """Before another attempt at what is unknown, no whole read by the process that sends met the wanted value in the
    service, once the attempt before was on record as unknown, also by its ``Age``: presence is a proof, whatever a
    later read shows. Not asked for where reads answered as of the past, and of a poll during which other rules came
    into force, which ends there; forgiven, and counted: a person's word in between, and a write for the same target by
    another rule, which may have been overtaken and land still: presence is no proof then."""
    if case.history.stale:
        return
    for deed in case.deeds.values():
        for before, after in pairwise(deed.attempts):
            if not after.wire or before.after is None or before.after["kind"] != "unknown":
                continue
            seen = _seen_between(case, deed, before, after)
            if not seen:
                continue
            if any(
                row["kind"] == "resolved" and before.row["seq"] < row["seq"] < after.row["seq"] for row in deed.rows
            ):
                case.forgiven["seen, and sent again by a person's word"] += 1
            elif _another_rule_sent(case, deed, after.at_s):
                case.forgiven["seen, and sent again after an opposite write"] += 1
            else:
                shown = f"{seen[0].path} showed its effect at {seen[0].at_s - 1000:.3f}"
                yield f"write {after.row['write']} was sent again, though {shown}"


def _seen_between(case: Case, deed: Deed, before: Attempt, after: Attempt) -> list[Read]:
    """The whole reads of the target, by the process that sends again, that met the wanted value; of one that did not
    send before, those since it first read the event itself: before that it settles nothing."""
    action = str(before.row["action"])
    if action not in (*FIELDS, *SETUPS) or deed.unseen:
        return []  # of all others a single read may show a part
    paths = {f"/setup_processes/{deed.event}"} if action in SETUPS else {f"/events/{deed.event}"}
    if action in FIELDS and not case.history.paged:
        paths.add("/events/")
    known_s = max(before.ended_s, case.committed_s(before.life, before.after["seq"] if before.after else 0))
    sender = after.wire[0].owner
    if all(one.owner != sender for one in before.wire):
        own = [one.at_s for one in case.history.reads if one.owner == sender and one.path in paths - {"/events/"}]
        known_s = max(known_s, min(own, default=known_s) - 2 * TICK_S)
    return [
        one
        for one in case.history.reads
        if one.whole
        and one.owner == sender
        and one.path in paths
        and known_s + TICK_S < one.shows_s - (AGE_S if one.told else 0.0)
        and one.at_s < after.at_s - UNDER_WAY_S
        and all(_is_so(case, deed, at_s) for at_s in (one.shows_s - TICK_S, one.shows_s + TICK_S))
        and not _left_unfinished(case, before.life, one)
    ]


def _left_unfinished(case: Case, life: int, read: Read) -> bool:
    """Whether other rules came into force since the poll of this read may have begun, after the one before it."""
    of_lists = (one.at_s for one in case.history.reads if one.owner == read.owner and one.path == "/events/")
    since_s = max((at_s for at_s in of_lists if at_s < read.at_s), default=0.0)
    loaded = (case.committed_s(life, row["seq"]) for row in case.history.logs[life] if row["kind"] == "rules_loaded")
    return read.path == "/events/" and any(since_s < at_s <= read.at_s + UNDER_WAY_S for at_s in loaded)


def _is_so(case: Case, deed: Deed, at_s: float) -> bool:
    known = case.history.at(deed.event, at_s)
    return known is not None and as_wanted(case, deed, known)


def _another_rule_sent(case: Case, deed: Deed, before_s: float) -> bool:
    return any(
        rival(other, deed) and any(one.at_s < before_s for one in other.attempts) for other in case.deeds.values()
    )
