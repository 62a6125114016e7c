"""Claims about what people take back and ask for anew: an undo puts back what was, over nobody's hand, and once; and
what a person asks for again is asked for once more."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

from tests.simulation.case import (
    INTERVAL_S,
    STATES,
    TICK_S,
    Attempt,
    Case,
    Deed,
    left_by,
    same_target,
    too_late,
    undone_by,
    wanted_of,
)
from tests.simulation.history import Row, Version, Wish
from tests.simulation.lost import as_wanted, shown

WITHOUT_EFFECT = frozenset({"rejected", "refused", "skipped", "shadowed", "cancelled"})
UNSENT = frozenset({"planned", "waiting"})


def an_undo_was_asked_for(case: Case) -> Iterator[str]:
    """A write without a rule was planned by a person, in one transaction with a word on each write that it undoes,
    which had been sent, and while no other undo of its target was still to be sent; and each such word has its undo."""
    for deed, rows, life in case.lines:
        first = rows[0]
        if not deed.undo:
            continue
        number, at_s = first["write"], case.committed_s(life, first["seq"])
        if first["by"] == "worker" or first["reason"] != "undo" or not deed.undoes:
            yield f"write {number} has no rule, and no person asked for it"
        before = [row for row in case.history.logs[life] if row["seq"] < first["seq"]]
        for one in deed.undoes:
            of_it = [row for row in before if row["write"] == one]
            words = [row for row in of_it if row["kind"] == "undone" and row["by"] != "worker"]
            if not words or case.committed_s(life, words[-1]["seq"]) != at_s:
                yield f"write {number} is to undo write {one}, and nobody said so"
            if not any(row["kind"] == "sending" for row in of_it):
                yield f"write {number} is to undo write {one}, which was never sent"
        for other, told, of_life in case.lines:
            beside = of_life == life and same_target(other, deed) and _episode(other) != _episode(deed) and other.undo
            if beside and _unsent_at(told, first["seq"]):
                yield f"write {number} is an undo beside write {told[0]['write']}, which was still to be sent"
    yield from _words_without_an_undo(case)


def _unsent_at(told: Iterable[Row], seq: int) -> bool:
    """Whether a write was still to be sent at that record, by its own."""
    states = [row["kind"] for row in told if row["kind"] in STATES and row["seq"] < seq]
    return bool(states) and states[-1] in UNSENT


def _words_without_an_undo(case: Case) -> Iterator[str]:
    for life, rows in enumerate(case.history.logs):
        planned = [
            (case.committed_s(life, told[0]["seq"]), deed.undoes)
            for deed, told, of_life in case.lines
            if of_life == life and deed.undoes
        ]
        for row in rows:
            if row["kind"] != "undone":
                continue
            at_s = case.committed_s(life, row["seq"])
            if not any(row["write"] in undoes and planned_s == at_s for planned_s, undoes in planned):
                yield f"write {row['write']} was to be undone, and nothing was planned for it"


def an_undo_puts_back_what_was(case: Case) -> Iterator[str]:
    """What an undo sends is the value that was in the service when the oldest of the writes that it undoes was
    sent, as one of the last reads before it showed. Where reads answered as of the past, as its record has it."""
    for deed in case.deeds.values():
        undone = undone_by(case, deed)
        for one in deed.attempts if undone and not deed.unseen else ():
            value = wanted_of(case, deed)[1]
            sent = str(one.row["request"]["url"]).rpartition("=")[2]
            if sent != value:
                yield f"write {one.row['write']} puts back {sent}, and {value!r} was there before"
        first = undone[-1].based() if undone else None
        if first is None or case.history.stale:
            continue
        if not shown(case, deed.event, first.at_s, partial(as_wanted, case, deed)):
            yield f"write {deed.rows[0]['write']} is to put back {wanted_of(case, deed)[1]!r}, which was not there"


def an_undo_overwrites_nobody(case: Case) -> Iterator[str]:
    """When an undo is recorded as sending, the last whole read of its event by the process that sends, or one after it
    with which something was wrong, met what the newest of the writes that it undoes had left. Not asked for where reads
    answered as of the past."""
    if case.history.stale:
        return
    for deed in case.deeds.values():
        left = left_by(case, deed)
        for one in deed.attempts if left is not None and not deed.unseen else ():
            if one.wire and left is not None and not _last_read_met(case, deed, one, left):
                yield f"write {one.row['write']} was sent, and its target was not as it was left: {left[1]!r}"


def _last_read_met(case: Case, deed: Deed, attempt: Attempt, left: tuple[str, object]) -> bool:
    reads = [
        one
        for one in case.history.reads
        if one.path == f"/events/{deed.event}"
        and (one.whole or one.partly)
        and one.owner == attempt.wire[0].owner
        and one.at_s <= attempt.at_s
    ]
    whole_s = max((one.at_s for one in reads if one.whole), default=0.0)
    last = [one.shows_s + beside for one in reads if one.at_s >= whole_s for beside in (-TICK_S, TICK_S)]
    either = (case.history.at(deed.event, at_s) for at_s in last)
    return any(known is not None and _reads(known, *left) for known in either)


def _reads(known: Version, name: str, value: object) -> bool:
    return known.record is not None and bool(known.record[name] == value)


def an_undo_leaves_other_hands_alone(case: Case) -> Iterator[str]:
    """No undo is planned, and none is sent, of a write whose target another hand has changed since it was confirmed,
    once two whole looks have shown so, also where the target reads by now as it was left. Asked for where one process
    lived through it and nothing kept it from storing, and no other write of ours is about the target meanwhile; nor
    where the rule was edited: changes are logged of fields that a rule in force looks at."""
    history = case.history
    if history.stale or history.unstored or len(history.logs) > 1:
        return
    for deed in case.deeds.values():
        undone, left = undone_by(case, deed), left_by(case, deed)
        if not undone or left is None or deed.unseen or undone[0].rows[0]["rule"] in history.edited:
            continue
        done = next((row for row in undone[0].rows if row["kind"] == "confirmed" and row["reason"] == "read"), None)
        if done is None:
            continue
        sent_s = min((one.at_s for one in deed.attempts if one.wire), default=0.0)
        between = case.committed_s(0, done["seq"]), max(sent_s, case.committed_s(0, deed.rows[0]["seq"]))
        ours = [one for one in case.deeds.values() if one is not undone[0] and same_target(one, deed)]
        if any(attempt.at_s < between[1] and one.state != "confirmed" for one in ours for attempt in one.attempts):
            continue
        if any(between[0] <= attempt.at_s <= between[1] for one in ours for attempt in one.attempts):
            continue
        at_s = _changed_and_seen(case, deed, left, between)
        if at_s is not None:
            did = "sent" if sent_s else "planned"
            yield f"write {deed.rows[0]['write']} was {did}, and another hand had been there at {at_s - 1000:.3f}"


def _changed_and_seen(case: Case, deed: Deed, left: tuple[str, object], between: tuple[float, float]) -> float | None:
    """When another hand set the target to something else, and two whole looks of one process showed that."""
    history = case.history
    mine = history.of(deed.event)
    for before, after in pairwise([*mine, Version(at_s=between[1], event="", record=None, setup="", suggested="")]):
        until_s = min(after.at_s, between[1])
        if before.at_s <= between[0] or before.record is None or _reads(before, *left):
            continue
        if not any(one.at_s == before.at_s and one.target in (left[0], "*") for one in history.others):
            continue
        paths = {f"/events/{deed.event}"} if history.paged else {f"/events/{deed.event}", "/events/"}
        looks = [one for one in history.reads if before.at_s + TICK_S < one.shows_s < until_s and one.whole]
        for life in history.lives:
            told = [one.at_s for one in looks if one.owner == life.owner and one.path in paths]
            if told and told[-1] - told[0] >= INTERVAL_S and life.from_s < between[0] and life.to_s > between[1]:
                return before.at_s
    return None


def what_was_undone_is_put_back_once(case: Case) -> Iterator[str]:
    """Of the undos of one write no more than one had an effect, but for those that a person granted. Forgiven, and
    counted: an effect later than ``settle``, and a person's word that it was not there, or was not to be."""
    for deed in case.deeds.values():
        undos = [
            one
            for one in case.deeds.values()
            if one.effects and not one.unseen and any(deed is undone for undone in undone_by(case, one))
        ]
        if len(undos) < 2:
            continue
        if any(too_late(case, one, effect) for one in undos for effect in one.effects):
            case.forgiven["an effect later than settle"] += 1
        elif any(one.count("resolved") for one in undos) or len(case.history.logs) > 1:
            case.forgiven["undone once more, after a person's word or a loss"] += 1
        else:
            numbers = ", ".join(str(one.rows[0]["write"]) for one in undos)
            yield f"write {deed.rows[0]['write']} was put back by each of {numbers}"


def what_is_to_be_put_back_is_not_sent(case: Case) -> Iterator[str]:
    """While an undo of a write is still to be sent, that write is not sent, but where a person grants an attempt."""
    for undo, told, life in case.lines:
        for deed, rows, of_life in case.lines:
            if of_life != life or deed.rows[0]["write"] not in undo.undoes:
                continue
            for row in rows:
                granted = row["reason"] == "person"
                if row["kind"] == "sending" and not granted and _unsent_at(told, row["seq"]):
                    yield f"write {row['write']} was sent, and write {told[0]['write']} was to put it back"


def again_is_for_what_came_to_nothing(case: Case) -> Iterator[str]:
    """Only a rule's write that had ended without effect is asked for again, and its episode once."""
    for rows in case.history.logs:
        state: dict[int, Row] = {}
        met: dict[tuple[object, ...], int] = {}
        for row in rows:
            if row["kind"] in STATES and row["write"] is not None:
                state[row["write"]] = row
            if row["kind"] != "again":
                continue
            episode = row["rule"], row["event"], row["episode"]
            if row["rule"] is None or state[row["write"]]["kind"] not in WITHOUT_EFFECT:
                yield f"write {row['write']} was {state[row['write']]['kind']}, and asked for again"
            if row["seq"] - met.get(episode, row["seq"]) > 1:
                yield f"write {row['write']} was asked for again, and its episode had been already"
            met[episode] = row["seq"]


def an_again_is_acted_on(case: Case) -> Iterator[str]:
    """Where its condition stays true from a person's ``again`` to the end, a rule has fired anew, or says what holds
    it; of a rule on changes, where the value has changed but once, its condition was true all the time, and no ledger
    was accepted as restored since, with which all baselines begin anew. Not asked for where reads answered as of the
    past, a ledger was lost, or the rule was edited."""
    history = case.history
    if history.stale or len(history.logs) > 1:
        return
    for row in case.last:
        wish = next((one for one in history.wishes if one.rule == row["rule"]), None)
        if row["kind"] != "again" or wish is None or wish.rule in history.edited:
            continue
        event, said_s = str(row["event"]), case.committed_s(0, row["seq"])
        if history.lies(event) or not _asks_still(case, wish, event, said_s):
            continue
        accepted = [one for one in case.last if one["kind"] == "ledger_restored" and one["seq"] > row["seq"]]
        if accepted and wish.wants is None:
            continue
        then = (one for one in case.last if (one["rule"], one["event"]) == (wish.rule, event))
        if not any(one["kind"] in ("fired", "held") and one["seq"] > row["seq"] for one in then):
            yield f"{wish.rule} was asked for {event} again at {said_s - 1000:.3f}, and did nothing"


def _asks_still(case: Case, wish: Wish, event: str, said_s: float) -> bool:
    """Whether what the rule looks at asks for it from then on to the end."""
    mine = case.history.of(event)
    if not mine:
        return False
    if wish.wants is not None:
        return all(wish.holds(one) for one in mine[max(len(case.history.of(event, said_s)) - 1, 0) :])
    values = [one.suggested for one in mine if one.at_s <= said_s]
    steady = all(map(wish.may_hold, mine))
    changed = sum(one != other for one, other in pairwise([one.suggested for one in mine]))
    return wish.on_suggested and steady and changed == 1 and values[0] != values[-1]


def _episode(deed: Deed) -> tuple[object, ...]:
    return deed.rows[0]["rule"], deed.rows[0]["episode"]
