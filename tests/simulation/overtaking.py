"""Claims on two opposite writes of one target. Which of them went ahead of the other is asked of the wire, never of a
clock that can be set back."""

from collections.abc import Iterator

from tests.simulation.case import FINAL, STATES, UNDER_WAY_S, Attempt, Case, Deed, same_target
from tests.simulation.history import Row

AT_REST = FINAL | {"planned", "waiting", "needs_human"}


def a_stop_waits_for_what_it_overtook(case: Case) -> Iterator[str]:
    """A pause is not confirmed by a read while an opposite write is unsettled that left before it, and may still land
    after it: not before that one's ``settle`` is over. A person may say otherwise."""
    for stop, rows, life in case.lines:
        for row in rows:
            if row["kind"] != "confirmed" or row["reason"] == "person" or not _pauses(stop):
                continue
            for other in case.deeds.values():
                opposite = same_target(other, stop) and not _pauses(other)
                if opposite and _may_still_land(case, other, (stop, row, life)):
                    number = other.rows[0]["write"]
                    yield f"write {row['write']} of {stop.event} was confirmed before write {number}, which it overtook"


def _pauses(deed: Deed) -> bool:
    return str(deed.rows[0]["action"]) == "pause"


def _may_still_land(case: Case, other: Deed, confirmed: tuple[Deed, Row, int]) -> bool:
    """Whether nothing had settled the other one yet, and an attempt of it had left before the pause's last one."""
    stop, row, life = confirmed
    at_s = case.committed_s(life, row["seq"])
    sent_s = max((one.at_s for one in stop.attempts if one.wire and one.at_s <= at_s), default=0.0)
    told = [one for of, rows, where in case.lines if of is other and where == life for one in rows]
    states = [one["kind"] for one in told if one["seq"] < row["seq"] and one["kind"] in STATES]
    if not states or states[-1] in AT_REST:
        return False
    ahead = [one for one in other.attempts if one.life == life and one.at_s < sent_s and _left(one)]
    return any(at_s - one.ended_s < case.history.settle_s - UNDER_WAY_S for one in ahead)


def _left(attempt: Attempt) -> bool:
    return bool(attempt.wire) and not attempt.taken_back
