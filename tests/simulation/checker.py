"""The judge: decides from a `History` alone whether the promise was kept. It shares no code with the worker.

Each claim is a function that gives its complaints, and says in its docstring what it forgives and why; what is forgiven
there is counted, so that it is said and not hidden. What the worker cannot promise is in docs/proof.md.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import inf

from tests.prove.proofs import AT_ONCE, PROOFS
from tests.simulation import brakes, doing, ends, following, losses, lost, overtaking, sharing, sight, undone
from tests.simulation.case import (
    AT_THE_BYTE,
    HOUR_S,
    INTERVAL_S,
    LAST_BYTE_S,
    STATES,
    TICK_S,
    TIMEOUT_S,
    UNDER_WAY_S,
    UNSEEN,
    Attempt,
    Case,
    Deed,
    case_of,
    refused_after_its_effect,
    same_target,
    target_of,
    too_late,
    touched,
)
from tests.simulation.history import Effect, History, Row


def one_attempt_is_one_request(case: Case) -> Iterator[str]:
    """Every request that writes has a ``sending`` record of its own, on disk and marked before its first byte; and an
    attempt that never reached the wire says so, or its process died."""
    for wire, why in case.strays:
        yield f"{wire.method} {wire.url} at {wire.at_s - 1000:.3f}: {why}"
    for deed in case.deeds.values():
        for one in deed.attempts:
            if one.wire or one.after is None or one.taken_back:
                continue
            if one.after["reason"] not in ("crash", "restored", "takeover"):
                number = f"{one.row['attempt']} of write {one.row['write']}"
                yield f"attempt {number} never reached the wire: {one.after['kind']}"


def effects_are_granted(case: Case) -> Iterator[str]:
    """No write has more effects than it was granted: one, one more for each verdict of a person that it was not there,
    and one for each time an opposite write that it had overtaken landed after it. Forgiven, and counted: an effect that
    landed later than ``settle`` after its attempt; one that somebody else had reversed before the next; one whose
    answer refused the credentials and that landed after the next attempt's own read; and where reads answered as of the
    past."""
    for effect in case.orphans:
        yield f"effect {effect.operation} of {effect.event} at {effect.at_s - 1000:.3f} belongs to no attempt"
    for deed in case.deeds.values():
        granted = 1 + deed.granted
        effects = sorted(deed.effects, key=lambda one: one.at_s)
        if len(effects) <= granted:
            continue
        why = _excused(case, deed, effects)
        if why is None:
            times = ", ".join(f"{one.at_s - 1000:.3f}" for one in effects)
            number = f"{deed.rows[0]['write']} of {deed.event}"
            yield f"write {number} has {len(effects)} effects, granted {granted}: {times}"
        else:
            case.forgiven[why] += 1


def _excused(case: Case, deed: Deed, effects: list[Effect]) -> str | None:
    if any(too_late(case, deed, one) for one in effects):
        return "an effect later than settle"
    if any(_refused_and_late(case, deed, later) for later in effects):
        return "refused, and its effect later than the next attempt's read"
    for earlier, later in pairwise(effects):
        if not touched(case, deed.event, earlier.target, earlier.at_s, later.at_s, not_by=deed):
            return "reads of the past" if case.history.stale else None
    return "reversed by others between two effects"


def nothing_repeated(case: Case) -> Iterator[str]:
    """The service's own books call no effect a repetition: the same write again, while nobody changed its target.
    Forgiven: an effect on the same target that was later than ``settle``, or than the read before this attempt where
    the one before was answered that the credentials are refused; and for the call that follows a change of frontend
    status, which no read shows, a person's word, also that a lost ledger is to be gone on with, and another episode
    that asks for it anew; and such an episode too where what came before it ended unconfirmed, or where its reads
    answered as of the past."""
    for deed in case.deeds.values():
        for effect in deed.effects:
            if not effect.repeated:
                continue
            before = _before(case, deed)
            if any(_late_on(case, other, effect) for other in case.deeds.values()):
                case.forgiven["an effect later than settle"] += 1
            elif _refused_and_late(case, deed, effect):
                case.forgiven["refused, and its effect later than the next attempt's read"] += 1
            elif (effect.operation == UNSEEN or case.history.own_mind) and (
                deed.granted or case.history.blank or _word_after_a_loss(case, deed)
            ):
                case.forgiven["what no read shows, after a person's word"] += 1
            elif effect.operation == UNSEEN and _asked_for_anew(case, deed, effect):
                case.forgiven["what no read shows, asked for by another episode"] += 1
            elif before and all(map(_unread, before)):
                case.forgiven["what no read could tell, asked for anew by another episode"] += 1
            elif before and case.history.stale:
                case.forgiven["reads of the past, by another episode"] += 1
            else:
                what = f"{effect.operation} of {effect.event} at {effect.at_s - 1000:.3f}"
                yield f"write {deed.rows[0]['write']} repeated {what}"


def _refused_and_late(case: Case, deed: Deed, effect: Effect) -> bool:
    """Whether the attempt before this effect's was refused after all had been done for its own effect, which the
    service's task brought about once the read before this attempt was answered. It is a write that costs nothing, and
    that writes the same value."""
    for before, own in pairwise(deed.attempts):
        if any(wire.request_id == effect.request_id for wire in own.wire) and refused_after_its_effect(deed, before):
            ids = {wire.request_id for wire in before.wire}
            return any(own.at_s - UNDER_WAY_S < one.at_s for one in deed.effects if one.request_id in ids)
    return False


def _late_on(case: Case, deed: Deed, effect: Effect) -> bool:
    """Whether an effect of this write on the same target landed later than ``settle``."""
    return any(
        too_late(case, deed, one) for one in deed.effects if (one.event, one.target) == (effect.event, effect.target)
    )


def _word_after_a_loss(case: Case, deed: Deed) -> bool:
    """Whether a person has let it go, of a ledger that one had accepted."""
    return bool(case.accepted) and deed.count("approved") + deed.count("resolved") > 0


def _before(case: Case, deed: Deed) -> list[Deed]:
    """Every write of the same target sent before it, where each was of another episode. A person's word says what had
    become of that one, and nothing of what is there by the next episode."""
    first = deed.rows[0]
    earlier = (one for one in case.deeds.values() if one.rows[0]["seq"] < first["seq"] and same_target(one, deed))
    before = [one for one in earlier if one.attempts]
    episode = (first["rule"], first["episode"])
    return [] if any((one.rows[0]["rule"], one.rows[0]["episode"]) == episode for one in before) else before


def _unread(deed: Deed) -> bool:
    """Whether the write ended as done, and no read has ever shown it."""
    if any(row["kind"] == "evidence" and row["evidence"]["says"] == "there" for row in deed.rows):
        return False
    return deed.state == "unconfirmed" or (deed.state, deed.rows[-1]["reason"]) == ("confirmed", "person")


def _asked_for_anew(case: Case, deed: Deed, effect: Effect) -> bool:
    """Whether the rule's condition was false since the last effect of this kind, so that it asks for it once more; or
    that one was another rule's, or a person has asked for the rule's firing again since that write was first sent."""
    rule = deed.rows[0]["rule"]
    wants = next((one.wants for one in case.history.wishes if one.rule == rule), None)
    before_s, since_s, whose = max(
        (one.at_s, other.attempts[0].at_s, str(other.rows[0]["rule"]))
        for other in case.deeds.values()
        for one in other.effects
        if one.operation == UNSEEN and one.event == effect.event and one.at_s < effect.at_s
    )
    again = (row for row in case.last if (row["kind"], row["rule"], row["event"]) == ("again", rule, effect.event))
    if whose != rule or any(since_s < case.committed_s(len(case.history.logs) - 1, row["seq"]) for row in again):
        return True
    between = [one for one in case.history.versions if one.event == effect.event and before_s < one.at_s < effect.at_s]
    return wants is not None and any(one.record is None or not wants(one.record, one.setup) for one in between)


def unsent_had_no_effect(case: Case) -> Iterator[str]:
    """What the ledger calls not sent, or refused by the service, had no effect, also at the end of time. Forgiven, and
    counted: an effect whose answer refused the credentials, of a write that a read shows and that costs nothing: the
    read before the next attempt shows it."""
    for deed in case.deeds.values():
        for attempt in deed.attempts:
            if attempt.after is None or attempt.after["kind"] not in ("planned", "rejected"):
                continue
            ids = {one.request_id for one in attempt.wire}
            if not any(one.request_id in ids for one in deed.effects):
                continue
            if refused_after_its_effect(deed, attempt):
                case.forgiven["refused after its effect, which a read shows"] += 1
            else:
                yield f"write {attempt.row['write']} is {attempt.after['kind']} after an attempt that took effect"


def confirmed_is_true(case: Case) -> Iterator[str]:
    """What a read or an answer confirmed has its effect in the books, or another hand brought about the same value.
    Forgiven where reads answered as of the past; and, counted, of a write that a restored ledger put before a person,
    for which it is enough that it is there, and where the service had said that it was not there, though it was."""
    for deed in case.deeds.values():
        done = next((row for row in deed.rows if row["kind"] == "confirmed"), None)
        timed = done is not None and done["action"] == "wait"  # it is only a time
        if done is None or timed or done["reason"] == "person" or deed.effects or case.history.stale:
            continue
        if deed.count("needs_human", reason="restored"):
            case.forgiven["there, after a loss, whoever did it"] += 1
            continue
        if deed.attempts and case.history.lies(deed.event, to_s=deed.attempts[0].at_s):
            case.forgiven["there all the time, and denied"] += 1
            continue
        first_s = deed.attempts[0].at_s - INTERVAL_S - UNDER_WAY_S if deed.attempts else 0.0  # its last look before
        target = target_of(deed)
        if not deed.attempts or not touched(case, deed.event, target, first_s, case.history.ended_s + HOUR_S):
            yield f"write {done['write']} is confirmed ({done['reason']}), and the books have no effect of it"


def unknown_is_left_by_proof(case: Case) -> Iterator[str]:
    """Out of ``unknown`` leads only evidence, or a person: *there* to confirmed, *not there* to another attempt, and
    that not before ``settle`` is over in the process that sends."""
    for deed, rows, life in case.lines:
        state, proof, since_s, taken_over = "", "", 0.0, False
        for row in rows:
            if row["kind"] == "evidence":
                proof = str(row["evidence"]["says"])
            elif row["kind"] in ("resolved", "approved"):
                proof = "person"
            if row["kind"] not in STATES:
                continue
            if state == "unknown" and (row["reason"], row["kind"]) != ("restored", "needs_human"):
                at_s = case.committed_s(life, row["seq"])
                lost = taken_over and case.history.sharing is not None  # its sender may know it much later
                from_s = max(0.0 if lost else since_s, sharing.settled_from_s(case, at_s, taken_over=taken_over))
                yield from _left(case, row, proof, from_s, at_s)
            if row["kind"] == "unknown":
                proof, taken_over = "", row["reason"] in ("takeover", "crash")
                since_s = deed.attempts[-1].ended_s if len(deed.attempts) == 1 else _attempt_before(deed, row)
            state = row["kind"]


def _attempt_before(deed: Deed, row: Row) -> float:
    return max((one.ended_s for one in deed.attempts if one.row["seq"] < row["seq"]), default=0.0)


def _left(case: Case, row: Row, proof: str, since_s: float, at_s: float) -> Iterator[str]:
    kind, number = str(row["kind"]), row["write"]
    if proof not in PROOFS.get(kind, set()) and not (kind == "needs_human" and row["reason"] in AT_ONCE):
        yield f"write {number} went from unknown to {kind}, and the last evidence says {proof or 'nothing'}"
    if kind not in ("sending", "skipped", "cancelled") or proof == "person":
        return
    senders = [one for one in case.history.lives if "is held by" not in one.how]  # one that was refused sends nothing
    if case.history.sharing is not None:
        senders = []  # whoever has the partner goes on with it, whoever else begins to live
    began_s = max([since_s, *(life.from_s for life in senders if life.from_s <= at_s)])
    if at_s - began_s < case.history.settle_s - TICK_S:
        yield f"write {number} was {kind} {at_s - began_s:.3f} s after its attempt, before settle was over"


def a_row_of_reads_before_another_attempt(case: Case) -> Iterator[str]:
    """Between the end of an unknown attempt, or the last read since then that could not tell, and the next attempt lie
    at least ``evidence_reads`` reads of the target, by the process that sends: whole ones, and those that showed it
    in spite of what was wrong with them, by the log."""
    for deed in case.deeds.values():
        for before, after in pairwise(deed.attempts):
            if after.row["reason"] != "resend" or not after.wire:
                continue
            ended_s = before.ended_s
            if before.taken_over:
                ended_s = sharing.settled_from_s(case, after.at_s, taken_over=True)
            since_s = max(ended_s, _last_that_could_not_tell(case, deed, before, after))
            partly = _reads_that_said(deed, "not_there", before.row["seq"], after.row["seq"])
            reads = [
                one
                for one in case.history.reads
                if since_s <= one.shows_s <= one.at_s < after.at_s
                and one.owner == after.wire[0].owner
                and (one.whole or (one.partly and one.request_id in partly))
                and _shows(deed, one.path)
            ]
            if len(reads) < case.history.evidence_reads:
                yield f"write {after.row['write']} was sent again after {len(reads)} reads in a row of its target"


def _last_that_could_not_tell(case: Case, deed: Deed, before: Attempt, after: Attempt) -> float:
    unclear = _reads_that_said(deed, "cannot_tell", before.row["seq"], after.row["seq"])
    return max((one.at_s + TICK_S for one in case.history.reads if one.request_id in unclear), default=0.0)


def _reads_that_said(deed: Deed, says: str, after_seq: int, before_seq: int) -> set[str]:
    """The reads that the log has as evidence that said so, between two records."""
    return {
        row["evidence"]["x_request_id"]
        for row in deed.rows
        if row["kind"] == "evidence" and row["evidence"]["says"] == says and after_seq < row["seq"] < before_seq
    }


def _shows(deed: Deed, path: str) -> bool:
    if target_of(deed).startswith("campaign:"):
        return path == f"/events/{deed.event}/campaigns"
    if target_of(deed) == "setup":
        return path == f"/setup_processes/{deed.event}"
    return path in ("/events/", f"/events/{deed.event}")


def an_answer_that_broke_off_is_none(case: Case) -> Iterator[str]:
    """A 2xx whose body broke off is no answer: the write is unknown, whether or not a read could show it."""
    for deed in case.deeds.values():
        for one in deed.attempts:
            accepted = one.after is not None and one.after["kind"] == "applied"
            if accepted and any(wire.harm == "cut in the answer" for wire in one.wire):
                yield f"write {one.row['write']} is applied by an answer that broke off"


def the_first_byte_leaves_in_time(case: Case) -> Iterator[str]:
    """A process that was stopped for longer than the time-out between the record and the last check does not send. A
    stop that comes after that check may last a little longer, as the next claim says."""
    for deed in case.deeds.values():
        for one in deed.attempts:
            for wire in one.wire:
                if wire.at_s - one.at_s > TIMEOUT_S + TICK_S and wire.harm not in AT_THE_BYTE:
                    yield f"write {one.row['write']} left {wire.at_s - one.at_s:.3f} s after its record"


def the_last_byte_is_in_time(case: Case) -> Iterator[str]:
    """No byte of an attempt enters the network once the attempt has ended, or its process has died, nor later than
    twice the time-out and 5 s after its record, whatever stopped the process and whatever its kernel still had."""
    died_s = {life.owner: life.to_s for life in case.history.lives if life.how != "left running"}
    for deed in case.deeds.values():
        for one in deed.attempts:
            for wire in one.wire:
                if wire.entered_s is None:
                    continue
                number = f"attempt {one.row['attempt']} of write {one.row['write']}"
                ended_s = min(died_s.get(wire.owner, inf), inf if wire.heard_s is None else wire.heard_s)
                if wire.entered_s > ended_s + TICK_S:
                    yield f"{number} entered the network {wire.entered_s - ended_s:.3f} s after its end"
                if wire.entered_s - one.at_s > LAST_BYTE_S + TICK_S:
                    yield f"{number} entered the network {wire.entered_s - one.at_s:.3f} s after its record"


def evidence_is_younger_than_its_attempt(case: Case) -> Iterator[str]:
    """What a read says of an attempt it says of a moment after that: *not there* of one after its end, *there* of one
    after its record. Not asked for where reads answered as of the past, and nothing told so: kept connections that lead
    to an old place are such for ordinary looks, which may show that it is *there*."""
    reads = {one.request_id: one for one in case.history.reads}
    for deed in case.deeds.values() if not case.history.stale else ():
        for row in deed.rows:
            read = reads.get(row["evidence"]["x_request_id"]) if row["kind"] == "evidence" else None
            if read is None or read.as_of_s is None:
                continue
            before = [one for one in deed.attempts if one.row["seq"] < row["seq"]]
            says, last = row["evidence"]["says"], before[-1] if before else None
            if last is None or (says == "there" and not read.told):
                continue
            ended_s = last.ended_s
            if last.taken_over and last.after is not None:
                ended_s = min(ended_s, case.committed_s(last.life, last.after["seq"]))
            if (says == "not_there" and read.as_of_s < ended_s) or (says == "there" and read.as_of_s < last.at_s):
                yield f"evidence of write {row['write']} says {says} by a read of {read.as_of_s - 1000:.3f}"


def nothing_leaves_without_its_approval(case: Case) -> Iterator[str]:
    """What waited for a person, or must wait by the config, is not sent before the person has let it go; an undo has a
    person's word from the beginning."""
    for deed, rows, _ in case.lines:
        let_go = deed.undo or not case.history.approves
        for row in rows:
            if row["kind"] == "waiting":
                let_go = False
            elif row["kind"] in ("approved", "resolved"):
                let_go = True
            elif row["kind"] == "sending" and not let_go:
                yield f"write {row['write']} was sent, and nobody had approved it"


def the_log_gives_the_state(case: Case) -> Iterator[str]:
    """Replaying the log gives the ledger's state: each write is in the state, and at the attempt, of its last one."""
    last: dict[int, tuple[str, int]] = {}
    for row in case.last:
        if row["write"] is not None and row["kind"] in STATES:
            last[row["write"]] = str(row["kind"]), max(int(row["attempt"] or 0), last.get(row["write"], ("", 0))[1])
    for number, state, attempt in case.history.writes:
        if last.pop(number, None) != (state, attempt):
            yield f"write {number} is {state} at attempt {attempt}, and the log says otherwise"
    for number in last:
        yield f"the log knows of write {number}, and the ledger does not"


def chain_holds(case: Case) -> Iterator[str]:
    """Every record's hash covers it and the hash before it in its chain, and the numbers have no holes."""
    for life, rows in enumerate(case.history.logs):
        ends: dict[str, tuple[int, str]] = {}
        for row in rows:
            number, prev = ends.get(row["chain"], (0, "0" * 64))
            empty = {name for name in ("chain", "replica") if not row[name]}
            body = {key: value for key, value in row.items() if key not in ("hash", "number", *empty)}
            body["seq"] = row.get("number", row["seq"])
            text = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            known = hashlib.sha256(text.encode()).hexdigest()
            if (body["seq"], row["prev"], row["hash"]) != (number + 1, prev, known):
                yield f"the log of life {life} breaks at {row['seq']}"
                break
            ends[row["chain"]] = number + 1, known


CLAIMS: tuple[Callable[[Case], Iterator[str]], ...] = (
    one_attempt_is_one_request,
    effects_are_granted,
    nothing_repeated,
    unsent_had_no_effect,
    confirmed_is_true,
    unknown_is_left_by_proof,
    a_row_of_reads_before_another_attempt,
    an_answer_that_broke_off_is_none,
    the_first_byte_leaves_in_time,
    the_last_byte_is_in_time,
    evidence_is_younger_than_its_attempt,
    ends.wanted_when_sent,
    ends.who_is_told_to_stop_begins_nothing,
    ends.enforcing_stops_after_a_bad_end,
    ends.one_sender_at_a_time,
    ends.a_started_process_is_quiet,
    ends.changes_are_acted_on,
    nothing_leaves_without_its_approval,
    losses.a_lost_ledger_is_noticed,
    losses.after_a_loss_a_person_decides,
    losses.a_ledger_is_of_one_service,
    brakes.caps_are_kept,
    brakes.nothing_sent_during_a_halt,
    chain_holds,
    the_log_gives_the_state,
    ends.manners_are_kept,
    ends.episodes_are_few,
    ends.everything_ends,
    ends.nobody_waits_for_ever,
    ends.wishes_are_fulfilled,
    lost.an_end_without_effect_says_what_was_so,
    lost.what_ended_unwanted_had_no_effect,
    lost.an_end_unconfirmed_was_not_to_be_seen,
    lost.cooldowns_are_kept,
    lost.evidence_is_what_the_read_met,
    lost.an_absence_has_no_other_reason,
    lost.the_untouched_went_on,
    lost.what_was_held_goes_on,
    brakes.money_is_kept,
    brakes.no_request_spends_too_much,
    brakes.what_is_computed_is_of_what_is_there,
    brakes.surges_wait,
    brakes.limits_are_kept,
    brakes.what_has_to_last_lasted,
    brakes.what_changed_in_a_silence_waits,
    sight.what_became_true_out_of_sight_waits,
    sight.what_rules_lean_on_is_read_again,
    sight.what_was_seen_is_not_sent_again,
    overtaking.a_stop_waits_for_what_it_overtook,
    doing.changes_follow_each_other,
    doing.whose_doing_it_was,
    doing.what_was_done_is_told,
    following.a_follower_acts_once_for_each_firing_that_stands,
    following.a_follower_is_not_forgotten,
    following.a_wait_is_waited_for,
    following.a_window_is_known_when_it_was_watched,
    undone.an_undo_was_asked_for,
    undone.an_undo_puts_back_what_was,
    undone.an_undo_overwrites_nobody,
    undone.an_undo_leaves_other_hands_alone,
    undone.what_is_to_be_put_back_is_not_sent,
    undone.what_was_undone_is_put_back_once,
    undone.again_is_for_what_came_to_nothing,
    undone.an_again_is_acted_on,
    ends.a_perfect_service_needs_nobody,
    ends.nothing_broke,
    *sharing.CLAIMS,
)


def complaints(history: History) -> tuple[list[str], Counter[str]]:
    """Every complaint of every claim, and what was seen and forgiven on the way."""
    case = case_of(history)
    found = [f"{claim.__name__}: {one}" for claim in CLAIMS for one in claim(case)]
    seen: Counter[str] = Counter({"worlds": 1, "effects": len(history.effects), "requests": len(history.wire)})
    for deed in case.deeds.values():
        seen["writes"] += 1
        for row in deed.rows:
            if row["kind"] in ("unknown", "confirmed", "needs_human", "sending", "waiting", "undone", "again"):
                seen[str(row["kind"])] += 1
        if deed.count("unknown"):
            seen["were unknown"] += 1
            seen["of them settled without a person"] += not deed.count("needs_human")
        seen["sent again"] += sum(row["reason"] == "resend" for row in deed.rows)
        seen["found in sending"] += deed.count("unknown", reason="crash")
    seen["processes"] = len(history.lives)
    seen["repeated"] = sum(one.repeated for one in history.effects)
    for what, count in case.forgiven.items():
        seen[f"forgiven: {what}"] = count
    return found, seen
