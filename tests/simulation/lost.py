"""Claims that nothing is lost: an end without an effect has a reason that was true when it was given, and what nobody
troubled was done in time."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.simulation.case import (
    FIELDS,
    FINAL,
    INTERVAL_S,
    NEW_BUDGET,
    STATES,
    TICK_S,
    UNDER_WAY_S,
    Attempt,
    Case,
    Deed,
    left_by,
    refused_after_its_effect,
    same_target,
    too_late,
    touched,
    undone_by,
    wanted_of,
)
from tests.simulation.history import Read, Row, Version, Wish

LAST_READS = 3
"""What a decision rests on was shown by one of so many reads before it."""
SETUPS = {"create_draft": ("DRAFT", "PUBLISHED"), "boost": ("PUBLISHED",)}
OTHERS = ("create_campaign", "update_draft")
"""Actions of which only the event as a whole tells whether it is as wanted."""
BY_PEOPLE = frozenset({"person", "rule_edited", "rule_gone", "superseded", "event_gone", "partner_gone"})
"""Reasons that other claims look at, or that a person gave."""
UNTOUCHED_RULE = "calm-ads"
REFUSED = ("401 refused", "403 refused", "expired token")
IN_TIME_S = 2 * INTERVAL_S + 4 * UNDER_WAY_S
"""From a change to the first byte of the write it calls for: a look, its requests, and the floor of its last read."""


def an_end_without_effect_says_what_was_so(case: Case) -> Iterator[str]:
    """A write is skipped only for what one of the last reads could show: its target had the wanted value, its condition
    was false, or an earlier step had ended otherwise. Not asked for where reads answered as of the past, and where the
    rule was edited."""
    history = case.history
    if history.stale:
        return
    wishes = {wish.rule: wish for wish in history.wishes}
    for deed, row, life in _ended_as(case, "skipped"):
        wish = wishes.get(str(row["rule"]))
        if str(row["rule"]) in history.edited or history.lies(deed.event) or row["reason"] in BY_PEOPLE:
            continue
        if not history.of(deed.event):
            continue  # the service never had it: an answer that was another object showed it
        if not _true_then(case, deed, row, life, wish):
            yield f"write {row['write']} of {deed.event} was skipped as {row['reason']}, which no read could show"


def _ended_as(case: Case, kind: str) -> Iterator[tuple[Deed, Row, int]]:
    met: set[str] = set()
    for deed, rows, life in case.lines:
        for row in rows:
            if row["kind"] == kind and row["hash"] not in met:
                met.add(row["hash"])
                yield deed, row, life


def _true_then(case: Case, deed: Deed, row: Row, life: int, wish: Wish | None) -> bool:
    action, at_s = str(row["action"]), case.committed_s(life, row["seq"])
    match row["reason"]:
        case "already_so" if action in (*FIELDS, *SETUPS, *OTHERS):
            return shown(case, deed.event, at_s, lambda one: as_wanted(case, deed, one))
        case "nothing_to_pause":
            return shown(
                case, deed.event, at_s, lambda one: one.record is not None and not one.record["client_campaign_status"]
            )
        case "moved" if wish is not None and wish.factor:
            return len({one.budget for one in case.history.of(deed.event, at_s)}) > 1
        case "changed_since":  # what comes later than ``settle`` looks like somebody's hand
            late = any(too_late(case, one, effect) for one in undone_by(case, deed) for effect in one.effects)
            return late or _set_since(case, deed, at_s) or _set_before(case, deed, at_s)
        case "no_longer_holds" if not deed.undo:
            return wish is None or wish.wants is None or shown(case, deed.event, at_s, lambda one: not wish.holds(one))
        case "no_longer_holds" if action == "frontend_status":  # the half that no read shows, beside another value
            return shown(case, deed.event, at_s, lambda one: not as_wanted(case, deed, one))
        case "sequence":
            found = mates(case, deed)
            told = [rows for one, rows, of in case.lines if of == life and any(one is mate for mate in found)]
            return any(_ended_otherwise(rows) for rows in told)
        case "undo":
            planned = (one for one, told, of in case.lines if of == life and told[0]["seq"] < row["seq"])
            before = {one.rows[0]["write"] for one in mates(case, deed) if same_target(one, deed)}
            return any({row["write"], *before} & {*one.undoes} for one in planned)  # what undoes a step ends later ones
        case "conflict":
            return any(rival(one, deed) for one in case.deeds.values())
        case _:
            return False


def shown(case: Case, event: str, at_s: float, so: Callable[[Version], bool]) -> bool:
    """Whether it was so in the service when one of the last reads of the event, or of its setup, came to it; one in the
    very moment of a change may see either."""
    for paths in (("/events/", f"/events/{event}"), (f"/setup_processes/{event}",), (f"/events/{event}/campaigns",)):
        reads = [one.shows_s for one in case.history.reads if one.path in paths and one.at_s <= at_s + TICK_S]
        for read_s in reads[-LAST_READS:]:
            either = (case.history.at(event, at_s) for at_s in (read_s - TICK_S, read_s + TICK_S))
            if any(known is not None and so(known) for known in either):
                return True
    return False


def _set_before(case: Case, deed: Deed, at_s: float) -> bool:
    """Whether of what an undo undoes nothing had left, and a read showed the target otherwise than the undo would."""
    left = any(not one.taken_back for undone in undone_by(case, deed) for one in undone.attempts)
    return not left and shown(case, deed.event, at_s, lambda one: not as_wanted(case, deed, one))


def _set_since(case: Case, deed: Deed, at_s: float) -> bool:
    """Whether a read showed the target of an undo with another value than it was left with, since what it undoes took
    effect; or with one that another hand had given it since that was sent. One in the very moment of a change may see
    either."""
    if str(deed.rows[0]["action"]) == "update_draft":
        return _drafted_since(case, deed, at_s)
    left = left_by(case, deed)
    if left is None:
        return False
    (name, value), newest, before_s = left, undone_by(case, deed)[0], at_s - TICK_S
    sent_s = max((one.at_s for one in newest.attempts if one.at_s < before_s), default=0.0)
    done_s = max((one.at_s for one in newest.effects if one.at_s < before_s), default=sent_s)
    mine = case.history.of(deed.event, at_s)
    reads = [one.shows_s for one in case.history.shown(deed.event) if sent_s <= one.at_s <= at_s]
    by_others = {one.at_s for one in case.history.others if one.event == deed.event and one.target == name}
    return any(
        one.record is not None
        and ((one.record[name] != value and until_s > done_s) or one.at_s in by_others)
        and any(one.at_s - TICK_S <= read_s <= until_s + TICK_S for read_s in reads)
        for one, until_s in zip(mine, [*(one.at_s for one in mine[1:]), at_s], strict=bool(mine))
    )


def _drafted_since(case: Case, deed: Deed, at_s: float) -> bool:
    """The same of the budget of a draft."""
    undone = [one for one in case.deeds.values() if same_target(one, deed) and one is not deed and one.attempts]
    sent = [one for other in undone for one in other.attempts if one.at_s < at_s and "total_budget" in _body(one)]
    if not sent:
        return False
    newest = max(sent, key=lambda one: one.at_s)
    left, others = _body(newest)["total_budget"], {one.at_s for one in case.history.others}
    mine = case.history.of(deed.event, at_s)
    reads = [one.shows_s for one in case.history.reads if one.path == f"/setup_processes/{deed.event}"]
    return any(
        (one.budget != left or one.at_s in others)
        and any(max(one.at_s, newest.at_s) - TICK_S <= read_s <= until_s + TICK_S for read_s in reads)
        for one, until_s in zip(mine, [*(one.at_s for one in mine[1:]), at_s], strict=bool(mine))
    )


def _body(attempt: Attempt) -> Mapping[str, Any]:
    return attempt.row["request"].get("body") or {}


def as_wanted(case: Case, deed: Deed, known: Version) -> bool:
    """Whether the event was as a write, whose action is one of `FIELDS`, `SETUPS` or `OTHERS`, wants it: a campaign is
    there under whatever name or run the service has booked it."""
    action = str(deed.rows[0]["action"])
    if action == "create_campaign":
        return len(known.campaigns) > len(case.history.of(deed.event)[0].campaigns)
    if action == "update_draft":
        if not deed.attempts:
            return (known.budget == NEW_BUDGET) != deed.undo or case.history.own_mind
        return bool(known.budget == deed.attempts[0].row["request"]["body"]["total_budget"])
    if action in SETUPS:
        return known.setup in SETUPS[action]
    name, wanted = wanted_of(case, deed)
    return known.record is not None and bool(known.record[name] == wanted)


def mates(case: Case, deed: Deed) -> list[Deed]:
    """The other writes of its episode."""

    def episode(one: Deed) -> tuple[object, ...]:
        return one.rows[0]["rule"], one.rows[0]["event"], one.rows[0]["episode"]

    return [one for one in case.deeds.values() if one is not deed and episode(one) == episode(deed)]


def rival(one: Deed, deed: Deed) -> bool:
    """Whether it is another rule's, for the same target."""
    return same_target(one, deed) and one.rows[0]["rule"] != deed.rows[0]["rule"]


def _ended_otherwise(rows: list[Row]) -> bool:
    last = [row for row in rows if row["kind"] in STATES][-1]
    return last["kind"] in ("rejected", "refused", "unconfirmed", "cancelled") or (
        last["kind"] == "skipped" and last["reason"] not in ("already_so", "nothing_to_pause")
    )


def evidence_is_what_the_read_met(case: Case) -> Iterator[str]:
    """What a piece of evidence says is what its read met in the service: *there*, the wanted value; *not there*, what
    was there before its attempt; and it was the object that was asked for. Not asked for where reads answered as
    of the past."""
    if case.history.stale:
        return
    reads = {one.request_id: one for one in case.history.reads}
    for deed, _, life in case.lines:
        for row in deed.rows:
            base = deed.based(row["seq"])
            before = None if base is None else base.row["before"]
            says = row["evidence"]["says"] if row["kind"] == "evidence" else ""
            if says not in ("there", "not_there"):
                continue
            read = reads.get(row["evidence"]["x_request_id"])
            if read is None:
                yield f"evidence of write {row['write']} says {says}, and rests on no read"
            elif read.foreign and read.path != "/events/":
                yield f"evidence of write {row['write']} says {says}, and rests on another object"
            elif not read.lie and not any(
                _met(case, deed, row, at_s + beside, before)
                for at_s in _shown_by_pages(case, read, case.committed_s(life, row["seq"]))
                for beside in (-TICK_S, TICK_S)
            ):
                yield f"evidence of write {row['write']} says {says} at {read.at_s - 1000:.3f}, which was not so"


def _shown_by_pages(case: Case, read: Read, to_s: float) -> Iterator[float]:
    """The moments that an answer shows: of a list in pages, each page has its own."""
    yield read.shows_s
    if read.path.endswith("/campaigns"):
        pages = (one for one in case.history.reads if (one.owner, one.path) == (read.owner, read.path))
        yield from (one.shows_s for one in pages if read.at_s < one.at_s <= to_s)


def _met(case: Case, deed: Deed, row: Row, at_s: float, before: Any) -> bool:  # noqa: ANN401 - what stood in the log
    known = case.history.at(deed.event, at_s)
    action, there = str(row["action"]), row["evidence"]["says"] == "there"
    if known is None or action not in (*FIELDS, *SETUPS, *OTHERS):
        return known is not None
    if there or action in OTHERS:
        return as_wanted(case, deed, known) is bool(there)
    if action in SETUPS:
        return bool(known.setup == before["state"])
    return known.record is not None and bool(known.record[FIELDS[action][0]] == before)


def an_absence_has_no_other_reason(case: Case) -> Iterator[str]:
    """No evidence says *not there* by a 404 after which the event itself was not read; nor where an opposite write of
    the worker's own had been sent after this one: what is read then is that one's doing."""
    reads = {one.request_id: one for one in case.history.reads}
    for deed, rows, life in case.lines:
        rivals = [one for one in case.deeds.values() if same_target(one, deed) and not one.unseen and not deed.unseen]
        for row in rows:
            read = reads.get(row["evidence"]["x_request_id"]) if row["kind"] == "evidence" else None
            if read is None or row["evidence"]["says"] != "not_there":
                continue
            at_s, of_event = case.committed_s(life, row["seq"]), f"/events/{deed.event}"
            alone = (one for one in case.history.reads if (one.owner, one.path) == (read.owner, of_event))
            answers = [one for one in alone if one.whole or one.partly]
            if row["evidence"]["status"] == 404 and not any(read.at_s <= one.at_s <= at_s for one in answers):
                yield f"evidence of write {row['write']} says not_there by a 404, and the event did not answer after it"
            last = max((one.row["seq"] for one in deed.attempts if one.row["seq"] < row["seq"]), default=0)
            for one in (attempt for other in rivals for attempt in other.attempts if attempt.life == life):
                refused = one.taken_back or (one.after is not None and one.after["kind"] == "rejected")
                if last < one.row["seq"] < row["seq"] and not refused and one.row["request"] != _asked(deed):
                    yield f"evidence of write {row['write']} says not_there behind write {one.row['write']}"


def _asked(deed: Deed) -> Any:  # noqa: ANN401 - what stood in the log
    return deed.attempts[-1].row["request"] if deed.attempts else None


def what_ended_unwanted_had_no_effect(case: Case) -> Iterator[str]:
    """A write that was sent, and then ended as skipped, cancelled or refused, had no effect. Forgiven: effects later
    than ``settle``, effects that another hand reversed before a read could show them, reads of the past, a person's
    word, and a value that was found there after all."""
    for deed in case.deeds.values():
        if deed.state not in ("skipped", "cancelled", "refused") or not deed.effects or case.history.stale:
            continue
        if deed.count("resolved") or deed.rows[-1]["reason"] in ("person", "already_so"):
            case.forgiven["unwanted in the end, by a person's word or because it was there"] += 1
        elif any(too_late(case, deed, one) for one in deed.effects):
            case.forgiven["an effect later than settle"] += 1
        elif any(refused_after_its_effect(deed, one) for one in deed.attempts):
            case.forgiven["refused after its effect, which a read shows"] += 1
        elif touched(
            case, deed.event, deed.effects[-1].target, deed.effects[-1].at_s, case.history.ended_s, not_by=deed
        ):
            case.forgiven["unwanted in the end, and reversed by others"] += 1
        else:
            yield f"write {deed.rows[0]['write']} ended as {deed.state}, and had an effect"


def an_end_unconfirmed_was_not_to_be_seen(case: Case) -> Iterator[str]:
    """A write that ended as unconfirmed has no effect in the books. Forgiven, and counted: effects later than
    ``settle``, effects that another hand reversed before the end, reads that went wrong since, so that nothing could
    show it, a service that shows otherwise what it was sent, and an undo whose target read so before. Not asked for
    where reads answered as of the past."""
    for deed, row, life in _ended_as(case, "unconfirmed"):
        if not deed.effects or case.history.stale:
            continue
        last, ended_s = deed.effects[-1], case.committed_s(life, row["seq"])
        if any(too_late(case, deed, one) for one in deed.effects):
            case.forgiven["an effect later than settle"] += 1
        elif touched(case, deed.event, last.target, last.at_s, ended_s, not_by=deed):
            case.forgiven["unconfirmed, and reversed by others"] += 1
        elif any(not one.whole and last.at_s <= one.at_s <= ended_s for one in case.history.reads):
            case.forgiven["unconfirmed, while reads went wrong"] += 1
        elif case.history.own_mind:
            case.forgiven["unconfirmed, by a service that shows otherwise what it was sent"] += 1
        elif deed.undo and _read_so_before(deed):
            case.forgiven["unconfirmed, because it read so before"] += 1
        else:
            yield f"write {row['write']} ended as unconfirmed, and had an effect"


def _read_so_before(deed: Deed) -> bool:
    """Whether an undo was sent though its target read as wanted: what it undoes may have been shown rounded."""
    first = deed.attempts[0]
    before, wanted = first.row["before"], _body(first).get("total_budget")
    return isinstance(before, Mapping) and wanted is not None and before.get("total_budget") == wanted


def cooldowns_are_kept(case: Case) -> Iterator[str]:
    """A rule acts on an event again no sooner than its cooldown allows, which is measured by the wall clock; where a
    ledger forgot an attempt nobody can. An attempt that is proven unsent was no act, nor is one that a person has
    granted: a cooldown holds firings."""
    if case.forgot or case.history.clock_moved:
        return
    for wish in case.history.wishes:
        for event in {one.event for one in case.history.versions} if wish.cooldown_s else ():
            firsts = sorted(
                next(one.at_s for one in deed.attempts if not one.taken_back)
                for deed in case.deeds.values()
                if deed.event == event and deed.rows[0]["rule"] == wish.rule
                if any(not one.taken_back for one in deed.attempts) and not _granted_at_first(deed)
            )
            for before_s, after_s in pairwise(firsts):
                if after_s - before_s < wish.cooldown_s - TICK_S:
                    yield f"{wish.rule} acted on {event} twice within {after_s - before_s:.3f} s"


def _granted_at_first(deed: Deed) -> bool:
    """Whether a person had said of it that it did not take effect before it was sent at all."""
    told = [row["kind"] for row in deed.rows]
    return "resolved" in told and told.index("resolved") < told.index("sending")


SPREAD_S = 0.2
"""So far apart are the reads of a pre-flight at the most that are spread here."""


def what_was_held_goes_on(case: Case) -> Iterator[str]:
    """A write that another one on its target held leaves once that is final: a floor of reads and a pre-flight later,
    whose reads are spread. Asked for where one process lived all the time, every read was answered and nothing was
    slowed down."""
    history = case.history
    calm = len(history.lives) == 1 and all(one.whole for one in history.reads) and not history.throttled
    if not calm or history.slowed or history.halts or history.rule_halts or history.edited or history.unstored:
        return
    for deed, rows, life in case.lines:
        told = [row for row in rows if row["kind"] in (*STATES, "held")]
        for held, row in pairwise(told):
            if (held["kind"], held["reason"], row["kind"]) != ("held", "target_busy", "sending"):
                continue
            since = [
                one["seq"]
                for other, those, of_life in case.lines
                for one in those
                if same_target(other, deed) and of_life == life and held["seq"] < one["seq"] < row["seq"]
                if one["kind"] in FINAL
            ]
            if not since:
                continue
            over_s, left_s = case.committed_s(life, since[-1]), case.committed_s(life, row["seq"])
            took_s, event = left_s - over_s, str(row["event"])
            reads = sum(event in one.path.split("/") for one in history.reads if over_s < one.at_s <= left_s)
            if took_s > INTERVAL_S + UNDER_WAY_S + SPREAD_S * reads:
                yield f"write {row['write']} left {took_s:.3f} s after what had held it was over"


def the_untouched_went_on(case: Case) -> Iterator[str]:
    """A target that nothing troubled got its write in time, whatever happened to the writes of others, also while
    another rule was halted. Asked for where one process lived all the time, every read was answered, and nobody was
    told to slow down; nor was the account refused, and the one write that asks whether it still is troubled as well:
    all others wait for that answer."""
    history = case.history
    wish = next((one for one in history.wishes if one.rule == UNTOUCHED_RULE), None)
    undisturbed = len(history.lives) == 1 and all(one.whole for one in history.reads) and not history.throttled
    harms = [one.harm for one in history.wire if one.harm]
    refused = len(harms) > 1 and harms[0] in REFUSED
    halted = history.halts or any(rule == UNTOUCHED_RULE for rule, _, _ in history.rule_halts)
    if wish is None or refused or not undisturbed or history.slowed or history.edited or halted:
        return
    for event in {one.event for one in history.versions}:
        since_s = next((one.at_s for one in history.of(event) if wish.holds(one)), None)
        if since_s is None or since_s > history.healed_s:
            continue
        left_s = min((one.at_s for one in history.wire if f"/{event}/" in one.url), default=float("inf"))
        if left_s - since_s > IN_TIME_S:
            yield f"{event} was asked for at {since_s - 1000:.3f}, and its write left at {left_s - 1000:.3f}"
