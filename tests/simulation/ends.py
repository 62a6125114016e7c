"""Claims about ends and beginnings: that all is done that is asked for, once, in good manners, by one process."""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import inf

from tests.simulation.case import (
    ASKED_MOST_S,
    FINAL,
    HOUR_S,
    INTERVAL_S,
    STATES,
    TICK_S,
    TIMEOUT_S,
    UNDER_WAY_S,
    WAITED_MOST_S,
    Case,
    Deed,
    agains,
    same_target,
    target_of,
)
from tests.simulation.history import Life, Row, Version, Wish
from tests.simulation.lost import as_wanted, mates
from tests.simulation.sharing import (
    asked_unheard,
    begun_by_one_that_is_gone,
    left_after_its_sender_was_given_up,
    nobody_could_store,
)

LOOKS_APART_S = 10.0
"""With more between two looks nobody looks, but waits for something."""
SAVED_WITHIN_S = 4 * INTERVAL_S
"""So soon a process that lives has saved what it was asked for, also while a look of it takes long."""


def manners_are_kept(case: Case) -> Iterator[str]:
    """The service saw no bad manners: the floor of reads, Retry-After, tasks. Forgiven: what a killed process took
    along, the memory of answers still on their way, and of a Retry-After that it had no time or no room to save; how
    often a task was read, where a ledger was lost that had counted it; and tasks after an attempt of which nobody can
    know that it never left: the next process counts from it."""
    ended = [life.to_s for life in _readers(case) if life.how != "left running"]
    unheard = any(one.heard_s is None for one in case.history.wire)
    for kind, at_s, what in case.history.violations:
        killed = any(at_s - 120.0 < to_s <= at_s for to_s in ended)
        fleet = case.history.sharing is not None
        under_way = kind == "task_too_soon" and (  # an answer is on its way still
            unheard or ": -" in what or left_after_its_sender_was_given_up(case, at_s)
        )
        if ((killed or fleet) and under_way) or (killed and kind == "read_floor" and not fleet):
            case.forgiven["a wait that a killed process took along"] += 1
        elif kind in ("read_floor", "retry_after") and any(_unheld(case, life, at_s) for life in case.history.lives):
            case.forgiven["a floor or a Retry-After of two that could not know of each other"] += 1
        elif kind == "read_floor" and begun_by_one_that_is_gone(case, at_s, what):
            case.forgiven["a floor that a replica took along that is gone, or a ledger that was put back"] += 1
        elif kind == "retry_after" and any(
            one <= at_s and _left_s(case, at_s, what) <= one + UNDER_WAY_S for one in case.history.throttled
        ):
            case.forgiven["left before the 429 was heard"] += 1
        elif kind == "retry_after" and _stalled_meanwhile(case, at_s):
            case.forgiven["left by a process that was stalled when the 429 came"] += 1
        elif kind == "retry_after" and _died_with_it(case, at_s):
            case.forgiven["a Retry-After that a process could not save before it died"] += 1
        elif kind == "retry_after" and asked_unheard(case, at_s, what):
            case.forgiven["asked by a replica who its partners are, while another one had to wait"] += 1
        elif kind == "retry_after" and _waited_long_enough(what):
            case.forgiven["a Retry-After of years, cut to a quarter of an hour"] += 1
        elif kind in ("task_too_soon", "task_too_often") and len(case.history.logs) > 1:
            case.forgiven["reads of a task that a lost ledger had counted"] += 1
        elif kind.startswith("task_") and any(_lost(case, deed) for deed in case.deeds.values()):
            case.forgiven["a task read after an attempt that never left"] += 1
        else:
            yield f"{kind} at {at_s - 1000:.3f}: {what}"


def _left_s(case: Case, at_s: float, what: str) -> float:
    """When the request left that came then: of a write that was long on its way, its sender knows."""
    method, path = what.split(": ", maxsplit=1)[0].split()
    left = [one.at_s for one in case.history.wire if one.at_s <= at_s and one.method == method and path in one.url]
    return min(at_s, max(left, default=at_s))


def _readers(case: Case) -> Iterator[Life]:
    """The processes that had asked anything of the service."""
    return (life for life in case.history.lives if _asked_by(case, life, life.to_s))


def _died_with_it(case: Case, at_s: float) -> bool:
    """Whether a process that was asked to wait had ended by then without having been able to save that: because it was
    killed soon after, or stopped while the answer was on its way, nothing could be stored, the ledger was lost or out
    of its reach, or the wall clock jumped, by which it is saved."""
    history = case.history
    lost = history.unstored or history.clock_moved or len(history.logs) > 1
    for heard_s in (one for one in history.throttled if one <= at_s):
        if nobody_could_store(case, heard_s):
            return True
        for life in _readers(case):
            within_s = SAVED_WITHIN_S if life.how == "killed" else UNDER_WAY_S
            at_once = (
                history.sharing is not None and not history.unstored and len(history.logs) == 1
            )  # when it is heard
            if at_once and history.awake_s(life.owner, heard_s, life.to_s) > UNDER_WAY_S:
                continue
            if life.from_s <= heard_s <= life.to_s <= at_s and (
                lost or history.awake_s(life.owner, heard_s, life.to_s) <= within_s
            ):
                return True
    return False


def _waited_long_enough(what: str) -> bool:
    """A Retry-After beyond 15 minutes is waited for no longer than that."""
    found = re.search(r"asked to wait for ([0-9.e+]+) s more", what)
    return found is not None and float(found[1]) > HOUR_S and ASKED_MOST_S - float(found[1]) >= WAITED_MOST_S - 1.0


def _stalled_meanwhile(case: Case, at_s: float) -> bool:
    """Whether a process was stalled from when it was asked to wait until then, but for the moment that an answer takes:
    it could hear nothing, and what it had asked before left all the same."""
    waited = [one for one in case.history.throttled if one <= at_s]
    return any(
        case.history.awake_s(life.owner, one, at_s) <= UNDER_WAY_S < at_s - one
        for life in case.history.lives
        if life.from_s <= at_s <= life.to_s
        for one in waited
        if life.from_s <= one
    )


def _lost(case: Case, deed: Deed) -> bool:
    """Whether an attempt never left, and the ledger cannot know: its process died, the end of it was lost, or the
    kernel threw it away."""
    if any(wire.entered_s is None for one in deed.attempts for wire in one.wire):
        return True
    unheard = [one for one in deed.attempts if one.after is not None and not any(wire.reached for wire in one.wire)]
    return any(len(case.history.logs) > 1 or (one.after or {})["reason"] in ("crash", "takeover") for one in unheard)


def episodes_are_few(case: Case) -> Iterator[str]:
    """A rule fires no more often than its condition became true in the service, and once more for each write that a
    stronger wish has set aside, that ended while its rule was away, or that fresher facts kept from being sent: each
    fact has an age of its own; and once more for each time that a person accepted the ledger as restored, or asked for
    it again. Not asked for where reads answered as of the past, and where the rule was edited."""
    history = case.history
    if history.stale:
        return
    fired: Counter[tuple[str, str]] = Counter()
    for row in case.last:
        if row["kind"] == "fired":
            fired[row["rule"], row["event"]] += 1
    for wish in history.wishes:
        if wish.wants is None or not wish.once or wish.rule in history.edited:
            continue
        for event in {one.event for one in history.versions}:
            held = [wish.holds(one) for one in history.of(event)]
            rises = sum(now and not before for before, now in pairwise([False, *held]))
            set_aside = sum(
                row["kind"] in ("skipped", "cancelled")
                and row["reason"] in ("conflict", "no_longer_holds", "rule_gone")
                and (row["rule"], row["event"]) == (wish.rule, event)
                for row in case.last
            )
            asked = case.accepted + agains(case.last, wish.rule, event)
            if fired[wish.rule, event] > rises + history.lies(event) + set_aside + asked:
                yield f"{wish.rule} fired {fired[wish.rule, event]} times for {event}, and was true {rises} times"


def everything_ends(case: Case) -> Iterator[str]:
    """With faults off, every write comes to an end; what is held has an event that is gone, or says which person's
    decision or other write it waits for. Forgiven where the wall clock was set back by an hour: what waits for an hour
    of it, or for a person whose word must be newer than the worker's."""
    present = _present(case)
    for deed in case.deeds.values():
        if case.last and deed.rows[-1]["hash"] not in {row["hash"] for row in case.last}:
            continue  # of a ledger that was lost
        if deed.state in ("planned", "needs_human") and case.history.clock_back:
            case.forgiven["waits until a clock that was set back has come up again"] += 1
        elif deed.state not in FINAL and deed.event in present and not held_by_the_hour(case, deed):
            why = deed.rows[-1]["why"]
            yield f"write {deed.rows[0]['write']} of {deed.event} is still {deed.state} at the end: {why}"


def held_by_the_hour(case: Case, deed: Deed) -> bool:
    if deed.state != "planned":
        return False
    if any(row["kind"] == "held" and row["reason"] == "sequence" for row in deed.rows):
        before = (one for one in mates(case, deed) if one.rows[0]["write"] < deed.rows[0]["write"])
        if any(held_by_the_hour(case, one) for one in before):
            return True  # also where an operator let it go in the last moment, and it was not said again
    held = [row["reason"] for row in deed.rows[-2:] if row["kind"] == "held"]
    if not held:
        return False
    if held[-1] == "target_unreadable" and case.history.own_mind:
        return True
    if held[-1] == "no_longer_holds":  # the half that no read shows, beside another value
        last = case.history.of(deed.event)[-1]
        return deed.rows[0]["action"] == "frontend_status" and not as_wanted(case, deed, last)
    if held[-1] == "target_busy":  # what was asked of an operator first, and let go, may wait for the hour itself
        others = (one for one in case.deeds.values() if one is not deed and same_target(one, deed))
        return any(row["reason"] == "writes_per_hour" for one in others for row in one.rows[-1:])
    return held[-1] in ("writes_per_hour", "spend", "conflict") or (
        held[-1] == "sequence" and any(mate.state not in FINAL for mate in mates(case, deed))
    )


def nobody_waits_for_ever(case: Case) -> Iterator[str]:
    """An unknown write is settled, or before a person, within ``evidence_within`` and the time that reads need, also
    where no process lives so long: the time in which there were looks counts, whoever had them. Not asked for where
    nothing could be stored, somebody was told to wait, a ledger was lost, or the wall clock jumped."""
    history = case.history
    if history.unstored or history.clock_moved or history.throttled or len(history.logs) > 1 or history.defects:
        return
    most_s = history.evidence_within_s + 3 * history.settle_s + 2 * TIMEOUT_S
    for deed, rows, life in case.lines:
        states = [row for row in rows if row["kind"] in STATES]
        for row, after in zip(states, [*states[1:], None], strict=True):
            if row["kind"] != "unknown" or (after is not None and after["kind"] == "unknown"):
                continue
            from_s = case.committed_s(life, row["seq"])
            to_s = history.ended_s if after is None else case.committed_s(life, after["seq"])
            looks = [one.at_s for one in history.reads if one.path == "/events/" and from_s <= one.at_s <= to_s]
            looked_s = sum(min(later - one, LOOKS_APART_S) for one, later in pairwise(looks))
            if looked_s > most_s:
                yield f"write {row['write']} of {deed.event} was unknown for {looked_s:.0f} s, and nobody was told"


def _present(case: Case) -> set[str]:
    latest = {one.event: one.record is not None for one in case.history.versions}
    return {event for event, there in latest.items() if there}


def wishes_are_fulfilled(case: Case) -> Iterator[str]:
    """What a lasting condition asks for is so at the end, unless a person or another rule reversed it, the service
    refused it, or a record says who decided otherwise; where the wall clock was set back, it may wait for that. Not
    asked for of a partner that is held because answers of another object made it look like another one."""
    history = case.history
    if any(row["reason"] == "same_partner" for row in case.last):
        return
    latest = {one.event: one for one in history.versions}
    for wish in history.wishes:
        if wish.wants is None or wish.done is None or wish.rule in history.edited:
            continue
        for event, now in latest.items():
            if now.record is None or not wish.holds(now) or wish.done(now.record, now.setup):
                continue
            said = [row for row in case.last if row["rule"] == wish.rule and row["event"] == event]
            if not said and not any(row["kind"] == "held" and row["event"] == event for row in case.last):
                yield f"{wish.rule} wants something of {event} at the end, and the log does not know it"
            elif said and said[-1]["kind"] in ("observed", "fired") and said[-1]["reason"] != "shared":
                yield f"{wish.rule} wants something of {event} at the end: {said[-1]['kind']} {said[-1]['why']}"
            elif history.clock_back and any(
                one.state == "planned" for one in case.deeds.values() if one.event == event
            ):
                case.forgiven["waits until a clock that was set back has come up again"] += 1
            elif not any(_explained(case, rule, event) for rule in (wish.rule, *_stood_for(said))):
                yield f"{wish.rule} wants something of {event} at the end, and nothing says why it is not so"


def _stood_for(said: list[Row]) -> Iterator[str]:
    """The rules whose writes stood for the wishes of this one."""
    for row in said:
        found = re.search(r"rule (\S+) stands for the same desired value", str(row["why"]))
        if found is not None:
            yield found[1]


def _explained(case: Case, rule: str, event: str) -> bool:
    """Whether the effect was there and was taken back, or an end without effect is on record."""
    kept = {row["hash"] for row in case.last}  # the ledger in the place of one that was lost knows of no other write
    ours = (one for one in case.deeds.values() if one.event == event and one.rows[0]["hash"] in kept)
    deeds = [one for one in ours if any(row["rule"] == rule for row in one.rows)]
    if not deeds:
        return any(row["kind"] == "held" and row["event"] == event for row in case.last) or case.history.stale
    episode = deeds[-1].rows[0]["episode"]
    for deed in deeds:
        if deed.rows[0]["episode"] != episode:
            continue
        ended = deed.state in ("rejected", "refused", "unconfirmed", "cancelled", "skipped") or deed.count("resolved")
        since_s = max((one.at_s for one in deed.effects), default=0.0)
        if ended or held_by_the_hour(case, deed) or _by_others(case, event, target_of(deed), since_s):
            return True
        if _undone(case, deed, since_s):
            return True
        if _taken_for_another_hands(case, event, target_of(deed), since_s):
            case.forgiven["a late effect, for which another hand's was taken"] += 1
            return True
    return case.history.stale


def _undone(case: Case, deed: Deed, since_s: float) -> bool:
    """Whether a person, or a rule, had it put back, or has asked for it where a limit of the hour holds that still."""
    undos = [one for one in case.deeds.values() if one.undoes and same_target(one, deed)]
    waits = any(held_by_the_hour(case, one) for one in undos)
    waits = waits or any(one.rows[-1]["reason"] == "already_so" for one in undos)  # another rule was there before it
    return waits or any(effect.at_s >= since_s for one in undos for effect in one.effects)


def _taken_for_another_hands(case: Case, event: str, target: str, since_s: float) -> bool:
    """Whether a write of our own landed late and last, after another hand had set the target meanwhile: presence was
    its proof, and nobody waited for it any more. No read can tell the two apart."""
    for deed in case.deeds.values():
        if deed.event != event or target_of(deed) != target:
            continue
        for effect in deed.effects:
            sent_s = max((one.at_s for one in deed.attempts if one.at_s <= effect.at_s), default=effect.at_s)
            others = (one for one in case.history.others if one.event == event and one.target == target)
            if effect.at_s > since_s and any(sent_s <= one.at_s <= effect.at_s for one in others):
                return True
    return False


def _by_others(case: Case, event: str, target: str, since_s: float) -> bool:
    """Whether somebody outside took it back; our own writes are no excuse, but a boost, which starts campaigns."""
    return any(
        one.at_s >= since_s and (one.target == "*" or (one.event == event and one.target == target))
        for one in case.history.others
    ) or any(one.at_s >= since_s and one.event == event and one.operation == "boost" for one in case.history.effects)


def a_perfect_service_needs_nobody(case: Case) -> Iterator[str]:
    """Where nothing went wrong, nothing is unknown and no person is asked."""
    if case.history.harmed:
        return
    for row in case.last:
        if row["kind"] in ("unknown", "needs_human", "unconfirmed"):
            yield f"nothing went wrong, and write {row['write']} became {row['kind']}: {row['why']}"


def nothing_broke(case: Case) -> Iterator[str]:
    """No defect was reported, no task died with an error nobody heard, no worker ended without saying why."""
    yield from case.history.defects


def changes_are_acted_on(case: Case) -> Iterator[str]:
    """A rule on changes fires no more often than the watched value changed, and once more where a person asked for it
    again; and a change that stays is acted on. Not asked for where reads answered as of the past, the rule was edited,
    or a ledger was lost: what is compared with is read anew then."""
    history = case.history
    if history.stale or len(history.logs) > 1 or case.accepted:
        return
    for wish in history.wishes:
        if not wish.on_suggested or wish.rule in history.edited:
            continue
        for event in _present(case):
            mine = history.of(event)
            values = [one.suggested for one in mine if one.suggested]
            changes = sum(one != other for one, other in pairwise(values))
            rows = [row for row in case.last if row["rule"] == wish.rule and row["event"] == event]
            fired = sum(row["kind"] == "fired" for row in rows)
            if fired > changes + agains(case.last, wish.rule, event):
                yield f"{wish.rule} fired {fired} times for {event}, and its value changed {changes} times"
            steady = all(one.setup == "DRAFT" and one.record and one.record["status"] == "active" for one in mine)
            steady = steady and not history.lies(event)  # a draft that is said not to be there consumes the change
            if changes == 1 and steady and not rows and _seen_before_the_change(case, mine):
                yield f"{wish.rule}: the change of {event} was lost"


def _seen_before_the_change(case: Case, mine: list[Version]) -> bool:
    """Whether the value before the change was read, so that there was something to compare with."""
    at_s = next(later.at_s for one, later in pairwise(mine) if one.suggested != later.suggested)
    owners = Counter(
        one.owner
        for one in case.history.reads
        if one.whole and one.path.endswith(f"/{mine[0].event}/suggested_tcs") and one.at_s < at_s - 0.5
    )
    return any(count > 1 for count in owners.values())  # a process that reads it again has stored what it saw first


def one_sender_at_a_time(case: Case) -> Iterator[str]:
    """While one process has the ledger, no other one runs beside it: it says who holds it, and ends; but for one that
    was killed in its first moment, and one that ended before it asked anything where the first had not got further,
    which may have been stalled before it had the ledger. Nor where both the lock and the ledger's own file had been
    taken from beneath the one: no file shows the other that there is one. Of a fleet there are other claims
    (`sharing`)."""
    for one in case.history.lives if case.history.sharing is None else ():
        for other in case.history.lives:
            if other.how == "killed" and other.to_s == other.from_s:
                continue
            if not _asked_by(case, other, other.to_s) and not _asked_by(case, one, other.from_s):
                continue
            if _unheld(case, one, other.from_s):
                continue
            if one.from_s < other.from_s < one.to_s and "is held by" not in other.how and "is held by" not in one.how:
                yield f"{other.owner} ran beside {one.owner} and ended: {other.how}"


def _unheld(case: Case, life: Life, at_s: float) -> bool:
    """Whether nothing that a process holds was where another one looks any more."""
    return any(life.from_s <= first_s <= both_s <= at_s <= life.to_s for first_s, both_s in case.history.unheld)


def _asked_by(case: Case, life: Life, before_s: float) -> bool:
    """Whether a process had asked anything of the service by then, its sign-in apart."""
    asked = [(one.owner, one.at_s) for one in case.history.reads] + [(one.owner, one.at_s) for one in case.history.wire]
    return any(owner == life.owner and at_s <= before_s for owner, at_s in asked)


def a_started_process_is_quiet(case: Case) -> Iterator[str]:
    """A started process reads nothing but its sign-in for its first interval."""
    for life in case.history.lives:
        for one in case.history.reads:
            if one.owner == life.owner and one.at_s < life.from_s + INTERVAL_S - TICK_S:
                yield f"{one.owner} read {one.path} {one.at_s - life.from_s:.3f} s after its start"


def who_is_told_to_stop_begins_nothing(case: Case) -> Iterator[str]:
    """Once a process has been told to stop it records no ``sending`` any more."""
    for deed in case.deeds.values():
        for one in deed.attempts:
            for wire in one.wire:
                if one.at_s > case.history.told_to_stop.get(wire.owner, inf) + TICK_S:
                    yield f"write {one.row['write']} was recorded as sending after {wire.owner} was told to stop"


def enforcing_stops_after_a_bad_end(case: Case) -> Iterator[str]:
    """What enforces its wish sends nothing more once a write was rejected, or never confirmed, until its target was as
    wanted or its condition false, also while it was being sent. Not asked for where an answer was another object, a
    ledger was lost, a person asked for it again, or the rule was edited."""
    history = case.history
    if len(history.logs) > 1 or history.stale or any(one.foreign for one in history.reads):
        return
    for wish in history.wishes:
        if wish.wants is None or wish.once or wish.rule in history.edited:
            continue
        own = [deed for deed in case.deeds.values() if deed.rows[0]["rule"] == wish.rule]
        for bad, after in ((bad, after) for bad in own for after in own if bad.event == after.event):
            ended, fired = bad.rows[-1], after.rows[0]
            if bad.state not in ("rejected", "refused", "unconfirmed") or fired["seq"] < ended["seq"]:
                continue
            from_s, to_s = case.committed_s(0, ended["seq"]), case.committed_s(0, fired["seq"])
            between = history.of(bad.event, to_s)[max(len(history.of(bad.event, from_s)) - 1, 0) :]
            left = all(wish.holds(one) and not as_wanted(case, bad, one) for one in between)
            if left and not _read_as_wanted(case, bad) and not agains(case.last, wish.rule, bad.event):
                yield f"write {fired['write']} enforces what write {ended['write']} did not bring about"


def _read_as_wanted(case: Case, deed: Deed) -> bool:
    """Whether a read between its sending and its end showed what it wanted, though the answer came too late to say so:
    it was brought about, and has drifted since."""
    from_s, to_s = deed.attempts[0].at_s, deed.attempts[-1].ended_s
    reads = [one.shows_s for one in case.history.shown(deed.event) if one.whole and from_s <= one.shows_s]
    shown = (case.history.at(deed.event, at_s) for at_s in reads if at_s <= max(to_s, from_s) + INTERVAL_S)
    return any(one is not None and as_wanted(case, deed, one) for one in shown)


def wanted_when_sent(case: Case) -> Iterator[str]:
    """When the first byte of a write leaves, its rule's condition was true in the service within the age that a fact
    may have; but for reads of the past, and for an action later in a ``do`` that changes what its rule looks at."""
    if case.history.stale:
        return
    wishes = {wish.rule: wish for wish in case.history.wishes if wish.wants is not None and wish.once}
    for deed in case.deeds.values():
        wish = wishes.get(str(deed.rows[0]["rule"]))
        if wish is None or wish.rule in case.history.edited:
            continue
        for one in deed.attempts:
            for wire in one.wire:
                age_s = INTERVAL_S + 2.0 + (wire.at_s - one.at_s)
                if not _true_within(case, wish, deed.event, wire.at_s - age_s, wire.at_s):
                    yield f"write {one.row['write']} of {wish.rule} left at {wire.at_s - 1000:.3f}, wanted no more"


def _true_within(case: Case, wish: Wish, event: str, from_s: float, to_s: float) -> bool:
    mine = case.history.of(event, to_s)
    if not mine:
        return False
    untils_s = [*(one.at_s for one in mine[1:]), to_s]
    return any(until_s >= from_s and wish.holds(one) for one, until_s in zip(mine, untils_s, strict=True))
