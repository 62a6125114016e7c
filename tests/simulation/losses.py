"""Claims about a ledger that was restored or lost: it is noticed, and then a person decides what is sent."""

from collections.abc import Iterator
from typing import Any

from tests.simulation.case import FINAL, INTERVAL_S, STATES, TICK_S, Case, became_of_firing
from tests.simulation.history import Row, Wish


def a_lost_ledger_is_noticed(case: Case) -> Iterator[str]:
    """A ledger that has forgotten a ``sending`` of an earlier life, or what a person had said before its last two
    looks, is not gone on with, unless a person has accepted it; but for a sending that never left, because its mark
    could not be written, and where ledger and mark were lost both: nothing is left then to notice it by."""
    left = {one.row["hash"] for deed in case.deeds.values() for one in deed.attempts if one.wire}
    left |= {row["hash"] for row in _words_heard(case)}
    known: dict[str, Row] = {}
    for life, rows in enumerate(case.history.logs):
        kept = {row["hash"] for row in rows}
        if life in case.history.blank:
            known = {}
        lost = [row for hashed, row in known.items() if hashed in left and hashed not in kept]
        gone_on_with = not kept <= known.keys()
        if lost and gone_on_with and not any(row["kind"] == "ledger_restored" for row in rows):
            what = "" if lost[0]["write"] is None else f" of write {lost[0]['write']}"
            yield f"{lost[0]['kind']}{what} was forgotten, and nobody was asked"
        known.update((row["hash"], row) for row in rows)


def a_ledger_is_of_one_service(case: Case) -> Iterator[str]:
    """A process whose config names another service than the one that its ledger was made with asks nobody anything, and
    ends; unless the ledger has not met a partner yet: a process that has seen a whole list a second time has stored
    whom it met, where nothing kept it from that."""
    if case.history.unstored:
        return
    looks: dict[str, list[float]] = {}
    there = {life.owner for life in case.history.lives if life.elsewhere}  # a blank ledger may become that one's
    for one in case.history.reads:
        if one.path == "/events/" and one.whole and one.owner not in there:
            looks.setdefault(one.owner, []).append(one.at_s)
    again = (at_s for mine in looks.values() for at_s in mine if at_s - mine[0] >= INTERVAL_S - TICK_S)
    met_s = min(again, default=float("inf"))
    for life in case.history.lives:
        asked = [one.at_s for one in case.history.reads if one.owner == life.owner]
        blank = len(case.history.logs) > 1 or met_s > life.from_s
        if life.elsewhere and asked and not blank:
            yield f"{life.owner} asked another service at {asked[0] - 1000:.3f}, by the ledger of the first"


def _words_heard(case: Case) -> Iterator[Row]:
    """What a person had said two whole looks before the ledger was lost, and nothing kept those from storing it: who
    has lost the lock from beneath it cries out, and moves no mark."""
    history = case.history
    for life, lost_s in enumerate(() if history.unstored else history.lost):
        for row in history.logs[life]:
            if row["by"] == "worker":
                continue
            said_s = case.committed_s(life, row["seq"])
            heard: dict[str, list[float]] = {}
            for one in history.reads:
                if (
                    one.path == "/events/"
                    and one.whole
                    and said_s + INTERVAL_S < one.at_s < min(lost_s, history.unlocked_s)
                ):
                    heard.setdefault(one.owner, []).append(one.at_s)
            if any(looks[-1] - looks[0] >= INTERVAL_S for looks in heard.values()):
                yield row


def after_a_loss_a_person_decides(case: Case) -> Iterator[str]:
    """Once a ledger has been accepted as restored, every write in it that is not final is put before a person; and what
    was wanted all the time from then on until its rule fired waits for one."""
    for life, rows in enumerate(case.history.logs):
        for at, row in enumerate(rows):
            if row["kind"] == "ledger_restored":
                yield from _open_ones_wait(rows, at)
                yield from _firings_wait(case, life, rows, at)


def _open_ones_wait(rows: list[Row], at: int) -> Iterator[str]:
    states = {row["write"]: row["kind"] for row in rows[:at] if row["write"] is not None and row["kind"] in STATES}
    for write, state in states.items():
        if state in FINAL:
            continue
        then = next((row for row in rows[at:] if row["write"] == write and row["kind"] in STATES), None)
        if then is None or (then["kind"], then["reason"]) != ("needs_human", "restored"):
            became = "nothing" if then is None else then["kind"]
            yield f"write {write} was {state} in a ledger that was restored, and became {became}"


def _firings_wait(case: Case, life: int, rows: list[Row], at: int) -> Iterator[str]:
    wishes = {wish.rule: wish for wish in case.history.wishes if wish.wants is not None}
    since_s = case.committed_s(life, rows[at]["seq"])
    met: set[tuple[Any, Any]] = set()
    for row in rows[at:]:
        pair = row["rule"], row["event"]
        if row["kind"] == "ledger_restored":
            met = set()
        if row["kind"] != "fired" or pair in met or row["rule"] not in wishes or row["rule"] in case.history.edited:
            continue
        met.add(pair)
        fired_s = case.committed_s(life, row["seq"])
        if not _wanted_all_the_time(case, wishes[row["rule"]], str(row["event"]), since_s, fired_s):
            continue
        then = became_of_firing(rows, row)
        if then not in (None, "waiting"):
            yield f"{pair[0]} fired for {pair[1]} after a loss, and its write became {then}"


def _wanted_all_the_time(case: Case, wish: Wish, event: str, from_s: float, to_s: float) -> bool:
    history = case.history
    before = len(history.of(event, from_s)) - 1
    between = history.of(event, to_s)[max(before, 0) :]
    aged = any(one.told and one.shows_s < from_s <= one.at_s <= to_s for one in history.reads)  # it looked at before
    if not between or history.lies(event, from_s, to_s) or history.stale or aged:
        return False
    return all(wish.holds(one) for one in between)
