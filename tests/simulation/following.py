"""Claims about rules that come after another one, that wait between two steps, and that ask what was: told by the log,
the wire and the service's own versions."""

from collections.abc import Iterator

from tests.simulation.case import INTERVAL_S, TICK_S, Case, Deed
from tests.simulation.history import Row, Wish
from tests.simulation.scenes import FELL

SEEN_S = 5 * INTERVAL_S
"""So soon after a confirmation a world may end before it is looked at again, also by a process that has just begun."""
LATE_S = 1.0
"""How much a clock's second and an answer under way may make of a time."""


def a_follower_acts_once_for_each_firing_that_stands(case: Case) -> Iterator[str]:
    """A rule that comes after another one fires only where that one has a confirmed write which no confirmed write has
    put back, and once for each firing of it at the most. A person's `again` asks for one more. How often is not asked
    for where reads answered as of the past: to whoever is shown that, the condition was false, and true anew."""
    for wish in (one for one in case.history.wishes if one.after):
        for life, rows in enumerate(case.history.logs):
            told = _told(case, life)
            fired = [row for row in rows if (row["kind"], row["rule"]) == ("fired", wish.rule)]
            for row in fired:
                if not _standing(told, wish, str(row["event"]), row["seq"]):
                    yield f"{wish.rule} fired for {row['event']} after no write that stands (record {row['seq']})"
            for event in {str(row["event"]) for row in fired}:
                firings = {(one[0]["rule"], one[0]["episode"]) for one in _confirmed(told, wish.after, event)}
                again = sum(row["kind"] == "again" and row["event"] == event for row in rows)
                times = sum(row["event"] == event for row in fired)
                if times > len(firings) + again + case.accepted and not case.history.stale:
                    yield f"{wish.rule} fired {times} times for {event}, after {len(firings)} firings"


def a_follower_is_not_forgotten(case: Case) -> Iterator[str]:
    """Where at the end a write stands, and what the follower asks for has become of the event since that was sent, it
    has fired. Not asked for where rules were edited or a ledger lost, which may have taken what was kept with it, and
    where the wall clock was set back: what became of the event since is unknown until that time has come."""
    history = case.history
    if len(history.logs) > 1 or history.edited or history.stale or history.clock_back or case.accepted:
        return
    for wish in (one for one in history.wishes if one.after):
        told = _told(case, 0)
        for event in {str(rows[0]["event"]) for rows in told}:
            standing = _standing(told, wish, event, history.logs[0][-1]["seq"])
            if not standing:
                continue
            last = next(deed for deed, rows, _ in case.lines if rows is standing[-1])
            confirmed = [row for row in standing[-1] if row["kind"] == "confirmed"]
            if case.committed_s(0, history.logs[0][-1]["seq"]) - case.committed_s(0, confirmed[-1]["seq"]) < SEEN_S:
                continue
            sent_s = next(one.at_s for one in last.attempts if not one.taken_back)
            now, then = history.at(event, history.ended_s), history.at(event, sent_s)
            if now is None or then is None or now.record is None or then.record is None:
                continue
            fell = float(then.record["capacity"]) - float(now.record["capacity"])
            said = [row for row in history.logs[0] if (row["rule"], row["event"]) == (wish.rule, event)]
            acted = any(row["kind"] in ("fired", "held") and row["seq"] > standing[-1][0]["seq"] for row in said)
            if (not wish.fell or fell > wish.fell) and not acted:
                yield f"{wish.rule} has never acted on {event}, which has lost {fell:g} since {sent_s - 1000:.3f}"


def a_wait_is_waited_for(case: Case) -> Iterator[str]:
    """What comes after a wait is sent no sooner than so long after the step before was confirmed, whoever restarted in
    between; where clocks were set, nothing is claimed."""
    if case.history.clock_moved:
        return
    for wish in (one for one in case.history.wishes if one.wait_s):
        for deed, rows, life in case.lines:
            if rows[0]["rule"] != wish.rule or not deed.attempts:
                continue
            firing = (rows[0]["event"], rows[0]["episode"])
            before = [
                row
                for row in case.history.logs[life]
                if (row["event"], row["episode"]) == firing and row["rule"] == wish.rule and row["seq"] < rows[0]["seq"]
            ]
            steps = [row for row in before if row["kind"] == "confirmed" and row["action"] != "wait"]
            if steps:
                since_s = deed.attempts[0].at_s - case.committed_s(life, steps[-1]["seq"])
                if since_s < wish.wait_s - LATE_S:
                    number = rows[0]["write"]
                    yield f"write {number} was sent {since_s:.1f} s after the step before, not {wish.wait_s:g}"


def a_window_is_known_when_it_was_watched(case: Case) -> Iterator[str]:
    """A rule that asks how something has changed over a time fires no sooner than so long after the worker first saw
    it; and the service showed such a change in that time."""
    if case.history.clock_moved or case.history.stale:
        return
    for wish in (one for one in case.history.wishes if one.window_s):
        for life, rows in enumerate(case.history.logs):
            for row in rows:
                if (row["kind"], row["rule"]) != ("fired", wish.rule):
                    continue
                event, fired_s = str(row["event"]), case.committed_s(life, row["seq"])
                first_s = min(one.from_s for one in case.history.lives)
                if fired_s - first_s < wish.window_s:
                    yield f"{wish.rule} fired for {event} when {wish.window_s:g} s had not been watched yet"
                seen = [one for one in case.history.versions if one.event == event and one.at_s <= fired_s + TICK_S]
                values = [float(one.record["capacity"]) for one in seen if one.record is not None]
                if not any(high - low > FELL for at, high in enumerate(values) for low in values[at:]):
                    yield f"{wish.rule} fired for {event}, which had lost nothing"


def _told(case: Case, life: int) -> list[list[Row]]:
    return [rows for _, rows, of_life in case.lines if of_life == life]


def _confirmed(told: list[list[Row]], rule: str, event: str, before: float = float("inf")) -> list[list[Row]]:
    """The writes of the rule for the event that were confirmed by then."""
    return [rows for rows in _done(told, event, before) if rows[0]["rule"] == rule]


def _done(told: list[list[Row]], event: str, before: float) -> list[list[Row]]:
    of_event = (rows for rows in told if rows[0]["event"] == event)
    return [rows for rows in of_event if any(row["kind"] == "confirmed" and row["seq"] < before for row in rows)]


def _standing(told: list[list[Row]], wish: Wish, event: str, before: float) -> list[list[Row]]:
    put_back = {number for rows in _done(told, event, before) for number in Deed(rows=rows).undoes}
    return [rows for rows in _confirmed(told, wish.after, event, before) if rows[0]["write"] not in put_back]
