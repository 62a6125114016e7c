"""Claims about the brakes: caps, halts, money, surges, limits a day, what must last, what changed in a silence."""

import re
from collections.abc import Iterator
from itertools import pairwise
from math import inf, isfinite

from tests.simulation.case import (
    HOUR_S,
    INTERVAL_S,
    TICK_S,
    Attempt,
    Case,
    Deed,
    asked_again,
    became_of_firing,
    too_late,
)
from tests.simulation.history import Effect, Read, Row, Wish

CENT = 0.01
FIRST_LOOKS_S = 30.0
"""So long after a silence a rule has had its first look, with all that it asks for."""


def caps_are_kept(case: Case) -> Iterator[str]:
    """No more attempts than ``max_attempts`` for one write, but for those that persons and overtaken writes granted and
    those that were not sent; and no more than ``writes_per_hour`` in any hour, writes that only stop spending left out.
    The hour is not asked for where the wall clock jumped or a ledger forgot an attempt."""
    history = case.history
    sent: list[float] = []
    for deed in case.deeds.values():
        counted = [one for one in deed.attempts if not one.taken_back]
        granted = history.max_attempts + deed.granted
        if len(counted) > granted:
            yield f"write {deed.rows[0]['write']} made {len(counted)} attempts, granted {granted}"
        if not _stops(deed):
            sent += [one.at_s for one in counted if one.wire and one.after is not None]
    if case.forgot or history.clock_moved:
        return
    sent.sort()
    for index, at_s in enumerate(sent):
        within = sum(at_s - HOUR_S < other <= at_s for other in sent[: index + 1])
        if within > history.writes_per_hour:
            yield f"{within} writes within an hour at {at_s - 1000:.3f}, allowed {history.writes_per_hour}"


def _stops(deed: Deed) -> bool:
    """Whether the write only stops spending."""
    asks = str(next((one.row["request"]["url"] for one in deed.attempts), ""))
    return "PAUSED" in asks or "=OFF" in asks


def nothing_sent_during_a_halt(case: Case) -> Iterator[str]:
    """Once a halt has returned, no ``sending`` is committed until it is over; of one rule's halt, none of a write that
    only this rule wants, or others that are halted too. Forgiven, and counted: a halt that was lost with the ledger
    that held it; where nothing was sent since, the mark does not tell."""
    logs = case.history.logs
    halts = {row["hash"] for rows in logs for row in rows if row["kind"] == "halted"}
    if halts - {row["hash"] for row in case.last}:
        case.forgiven["a halt that a restored ledger forgot"] += 1
        return
    for began_s, ended_s in case.history.halts:
        for deed in case.deeds.values():
            for one in deed.attempts:
                if began_s + TICK_S < one.at_s < ended_s - TICK_S:
                    yield f"write {one.row['write']} was recorded as sending at {one.at_s - 1000:.3f}, during a halt"
    for rule, began_s, ended_s in case.history.rule_halts:
        for deed in case.deeds.values():
            for one in deed.attempts if deed.rows[0]["rule"] == rule else ():
                halted = began_s + TICK_S < one.at_s < ended_s - TICK_S
                if halted and not _another_wants_it(case, deed, one):
                    when = f"{one.at_s - 1000:.3f}, during a halt of {rule}"
                    yield f"write {one.row['write']} was recorded as sending at {when}"


def _another_wants_it(case: Case, deed: Deed, attempt: Attempt) -> bool:
    """Whether a rule that is not halted then had fired with the same desired value, for which this write stands."""
    owner, at_s = str(deed.rows[0]["rule"]), attempt.at_s
    halted = {rule for rule, began_s, ended_s in case.history.rule_halts if began_s < at_s < ended_s}
    return any(
        row["kind"] == "fired"
        and row["event"] == deed.event
        and row["seq"] < attempt.row["seq"]
        and row["rule"] not in halted
        and f"rule {owner} stands for the same desired value" in str(row["why"])
        and any(wish.rule == row["rule"] and _holds(case, wish, deed.event, at_s) for wish in case.history.wishes)
        for row in case.history.logs[attempt.life]
    )


def _holds(case: Case, wish: Wish, event: str, at_s: float) -> bool:
    """Whether its condition was true within the age that a fact may have."""
    mine = case.history.of(event, at_s)
    since_s = at_s - INTERVAL_S - 2.0
    untils_s = [*(one.at_s for one in mine[1:]), at_s]
    return any(until_s >= since_s and wish.may_hold(one) for one, until_s in zip(mine, untils_s, strict=bool(mine)))


def money_is_kept(case: Case) -> Iterator[str]:
    """The budgets of the drafts that were published for rules do not exceed ``spend.per_day`` and ``spend.per_week``,
    nor those of one event ``spend.per_event``; a write that was granted another attempt, after the service undid the
    first, counts once. Forgiven, and counted: an effect later than ``settle``, and one of which a person said that it
    was not there. Not asked for where a ledger forgot an attempt, or the wall clock jumped."""
    if case.forgot or case.history.clock_moved:
        return
    boosts = [(deed, [one for one in deed.effects if one.operation == "boost"]) for deed in case.deeds.values()]
    yield from _no_more_than(case, boosts, case.history.spend_per_day, "in a day")
    yield from _no_more_than(case, boosts, case.history.spend_per_week, "in a week")
    for event in dict.fromkeys(deed.event for deed, _ in boosts):
        of_event = [(deed, those) for deed, those in boosts if deed.event == event]
        yield from _no_more_than(case, of_event, case.history.spend_per_event, f"for {event}")


def _no_more_than(case: Case, boosts: list[tuple[Deed, list[Effect]]], most: float | None, what: str) -> Iterator[str]:
    if most is None:
        return
    spent = sum(max((_budget(case, deed.event, one.at_s) for one in those), default=0.0) for deed, those in boosts)
    if spent <= most:
        return
    if any(too_late(case, deed, one) for deed, those in boosts for one in those):
        case.forgiven["an effect later than settle"] += 1
    elif any(those and deed.granted for deed, those in boosts):
        case.forgiven["spent, and a person says that it was not"] += 1
    else:
        yield f"{spent:g} were spent {what}, allowed {most:g}"


def _budget(case: Case, event: str, at_s: float) -> float:
    known = case.history.at(event, at_s)
    return 0.0 if known is None else known.budget


def no_request_spends_too_much(case: Case) -> Iterator[str]:
    """No single request adds more money than an event, or a day, may have, however it is written. Of a draft's budget
    that counts which is more than the one it had within the age that a fact may have when the request is recorded: a
    draft may go while its sender stands still."""
    most = min((one for one in (case.history.spend_per_event, case.history.spend_per_day) if one), default=inf)
    for deed in case.deeds.values():
        for one in deed.attempts if most < inf else ():
            body = one.row["request"].get("body") or {}
            money = sum(float(value) for name, value in body.items() if name.endswith("budget"))
            there = 0.0
            if one.wire and "total_budget" in body:
                there = max(_budgets_lately(case, deed.event, one.at_s, one.wire[0].at_s), default=0.0)
            if one.wire and money - there > most:
                yield f"write {one.row['write']} adds {money - there:g}, and {most:g} may be spent"


def _budgets_lately(case: Case, event: str, recorded_s: float, left_s: float) -> list[float]:
    """The budgets that there were from the age that a fact may have at the record until the first byte."""
    mine, from_s = case.history.of(event, left_s - TICK_S), recorded_s - INTERVAL_S - 2.0
    untils_s = [*(each.at_s for each in mine[1:]), left_s]
    return [each.budget for each, until_s in zip(mine, untils_s, strict=bool(mine)) if until_s >= from_s]


def what_is_computed_is_of_what_is_there(case: Case) -> Iterator[str]:
    """A budget that is computed from the one that is there leaves only while that is there, within the age that a fact
    may have; and a budget is a number, whatever it was computed from."""
    factors = {wish.rule: wish.factor for wish in case.history.wishes if wish.factor}
    for deed in case.deeds.values():
        for one in deed.attempts:
            sent = (one.row["request"].get("body") or {}).get("total_budget", 0)
            if isinstance(sent, bool) or not isinstance(sent, int | float) or not isfinite(sent):
                yield f"write {one.row['write']} has the budget {sent!r}, which is no number"
            factor = factors.get(str(deed.rows[0]["rule"]), 0.0)
            for wire in one.wire if factor and not deed.undo else ():
                there = _budgets_lately(case, deed.event, wire.at_s, wire.at_s)
                if not any(abs(budget * factor - sent) < CENT for budget in there):
                    yield f"write {one.row['write']} raised to {sent} what was {there[-1]} by then"


def surges_wait(case: Case) -> Iterator[str]:
    """A write is not sent for the first time while its rule has fired for more events than ``surge`` allows, unless a
    person has let it go. Not asked for where the wall clock jumped, by which it is counted."""
    most, within_s = case.history.surge
    if case.history.clock_moved:
        return
    for life, rows in enumerate(case.history.logs):
        approved: set[int] = set()
        fired: list[tuple[float, str, str]] = []
        for row in rows:
            if row["kind"] == "fired":
                fired.append((case.committed_s(life, row["seq"]), str(row["rule"]), str(row["event"])))
            elif row["kind"] in ("approved", "resolved"):
                approved.add(row["write"])
            elif row["kind"] == "sending" and row["attempt"] == 1 and row["write"] not in approved:
                at_s = case.committed_s(life, row["seq"])
                events = {event for when_s, rule, event in fired if rule == row["rule"] and when_s > at_s - within_s}
                if len(events) > most:
                    yield f"write {row['write']} was sent when its rule had fired for {len(events)} events"


def limits_are_kept(case: Case) -> Iterator[str]:
    """A rule with ``limit`` acts on an event no more often in 24 hours, by the wall clock. What a person has let go is
    that person's act."""
    if case.forgot or case.history.clock_moved:
        return
    for wish in case.history.wishes:
        for event in {one.event for one in case.history.versions} if wish.limit else ():
            sent = [deed for deed in _sent(case, wish, event) if not _let_go(deed)]
            episodes = {deed.rows[0]["episode"] for deed in sent}
            if len(episodes) > wish.limit:
                yield f"{wish.rule} acted on {event} {len(episodes)} times a day, allowed {wish.limit}"


def _sent(case: Case, wish: Wish, event: str) -> list[Deed]:
    return [
        deed
        for deed in case.deeds.values()
        if (deed.rows[0]["rule"], deed.event) == (wish.rule, event)
        and any(one.wire for one in deed.attempts)
        and not all(one.taken_back for one in deed.attempts)
    ]


def _let_go(deed: Deed) -> bool:
    return all(row["reason"] == "person" for row in deed.rows if row["kind"] == "sending")


def what_has_to_last_lasted(case: Case) -> Iterator[str]:
    """A rule with ``for`` fires no sooner than that after its condition became true in the service, nor that soon after
    a whole read, by the same process, which showed that it was not. Not asked for where nothing could be stored: what
    a poll had shown then is recorded with the next one, and decided on as the next one shows it."""
    if case.history.stale or case.history.clock_moved or case.history.unstored:
        return
    for wish in case.history.wishes:
        if not wish.for_s or wish.wants is None or wish.rule in case.history.edited:
            continue
        for life, rows in enumerate(case.history.logs):
            for row in rows:
                if row["kind"] != "fired" or row["rule"] != wish.rule:
                    continue
                fired_s, event = case.committed_s(life, row["seq"]), str(row["event"])
                if not case.history.of(event):
                    continue  # the service never had it: an answer that was another object showed it
                before_s = fired_s - wish.for_s + TICK_S
                was_true = any(wish.holds(one) for one in case.history.of(event, before_s))
                if not was_true or _shown_otherwise(case, wish, event, (before_s, fired_s)):
                    yield f"{wish.rule} fired for {event} before its condition had lasted {wish.for_s:g} s"


def _shown_otherwise(case: Case, wish: Wish, event: str, between: tuple[float, float]) -> bool:
    reads = [one for one in case.history.shown(event) if between[0] <= one.shows_s < between[1] and one.whole]
    mine = [one.shows_s for one in reads if one.owner == reads[-1].owner]
    around = [[case.history.of(event, at_s + beside)[-1] for beside in (-TICK_S, TICK_S)] for at_s in mine]
    return any(not any(map(wish.holds, either)) for either in around)


def what_changed_in_a_silence_waits(case: Case) -> Iterator[str]:
    """What became true while nobody looked for longer than ``gap`` fires at the first look after it, and waits for a
    person. Not asked for where a ledger was lost, which may have held the look before, nor where its process died
    before it had stored that: at once, while the disk was full, or, where commits failed, after that look alone."""
    history = case.history
    if history.stale or history.clock_moved or len(history.logs) > 1 or any(one.lie for one in history.reads):
        return
    died = [life for life in history.lives if life.how == "killed"]
    lists = [one for one in history.reads if one.path == "/events/"]
    broken = [(one.owner, one.at_s) for one in lists if not one.whole]
    looks = [one.at_s for one in lists if one.whole and not _beside(one, broken)]
    for before_s, after_s in pairwise(looks):
        unstored = any(
            history.awake_s(one.owner, before_s, one.to_s) < 1.0
            or any(from_s <= before_s and one.to_s <= to_s for from_s, to_s in history.cramped)
            or (history.unstored and not any(one.owner == look.owner and _earlier(look, before_s) for look in lists))
            for one in died
            if one.from_s <= before_s <= one.to_s
        )
        if unstored or after_s - before_s <= history.gap_s + INTERVAL_S:
            continue
        for life, rows in enumerate(history.logs):
            for row in rows:
                fired_s = case.committed_s(life, row["seq"])
                if row["kind"] == "fired" and after_s <= fired_s < after_s + FIRST_LOOKS_S:
                    yield from _it_waits(case, rows, row, after_s, fired_s)


def _of_one_list(one_s: float, other_s: float) -> bool:
    """Whether two pages that were read then are of the same list."""
    return abs(one_s - other_s) < INTERVAL_S - 1.0


def _earlier(page: Read, before_s: float) -> bool:
    """Whether a page is of an earlier list than the one that was read then."""
    return page.at_s < before_s and not _of_one_list(page.at_s, before_s)


def _beside(page: Read, broken: list[tuple[str, float]]) -> bool:
    """Whether another page of the same list was not whole."""
    return any(owner == page.owner and _of_one_list(at_s, page.at_s) for owner, at_s in broken)


def is_new(case: Case, rows: list[Row], wish: Wish, seen_s: float) -> bool:
    """Whether the rule was loaded for the first time after that look."""
    loaded = (row for row in rows if row["kind"] == "rules_loaded" and wish.rule in re.findall(r"[\w-]+", row["why"]))
    first = next(loaded, None)
    return first is None or case.committed_s(0, first["seq"]) > seen_s


def _it_waits(case: Case, rows: list[Row], fired: Row, after_s: float, fired_s: float) -> Iterator[str]:
    wish = next((one for one in case.history.wishes if one.rule == fired["rule"] and one.once), None)
    if wish is None or wish.wants is None or wish.rule in case.history.edited:
        return
    event = str(fired["event"])
    mine = case.history.of(event, after_s)
    if not mine or not wish.holds(mine[-1]) or case.history.of(event, fired_s)[len(mine) :]:
        return
    reads = case.history.shown(event)
    seen_s = max(one.shows_s for one in reads if one.at_s < after_s and (one.whole or one.partly))
    before = case.history.of(event, seen_s)
    if not before or is_new(case, rows, wish, seen_s) or any(wish.holds(one) for one in before):
        return  # what is new has missed nothing
    then = became_of_firing(rows, fired)
    if then not in (None, "waiting") and not asked_again(rows, fired):
        yield f"{wish.rule} fired for {event} after a silence, and its write became {then}"
