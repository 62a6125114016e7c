"""Judges a played story by the twin's books and the action log alone; it asks the worker nothing.

Each claim is a function that gives its complaints. What the worker promises is in the README; what it cannot promise is
in docs/proof.md, and only that is forgiven here, each with its reason.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.prove.play import Complaint, Played
from tests.prove.proofs import AT_ONCE, PROOFS
from tests.twin import BASE_URLS
from tests.virtual import EPOCH
from tests.worlds import PARTNER
from worker.model.facts import EventId, RuleId
from worker.model.writes import FINAL, Write
from worker.sandbox.world import BookedEffect, SeenRequest, Violation

START_S = 1000.0
"""Where the clock of a virtual loop begins."""
STATES = frozenset(
    {"planned", "waiting", "sending", "applied", "unknown", "needs_human", "confirmed", "unconfirmed"}
    | {"rejected", "refused", "skipped", "cancelled", "shadowed"}
)
TICK_S = 0.002
"""Records keep milliseconds."""
Log = list[dict[str, Any]]


@dataclass(slots=True)
class Attempt:
    """One ``sending`` record, what it led to, and the request on the wire that belongs to it."""

    write: int
    record: dict[str, Any]
    at_s: float
    target: tuple[str, str, tuple[tuple[str, str], ...]]
    after: dict[str, Any] | None = None
    wire: list[SeenRequest] = field(default_factory=list)

    @property
    def unsent(self) -> bool:
        """Whether the ledger says that it was not sent."""
        return self.after is not None and self.after["kind"] == "planned"


@dataclass(slots=True)
class Case:
    """A played story with its log and books put side by side."""

    played: Played
    log: Log
    writes: dict[int, Write]
    attempts: list[Attempt]
    strays: list[SeenRequest]

    @property
    def effects(self) -> list[BookedEffect]:
        return self.played.here.twin.books.effects

    def attempt_of(self, effect: BookedEffect) -> Attempt | None:
        """The attempt whose request had this effect."""
        for one in self.attempts:
            if any(seen.request_id == effect.request_id for seen in one.wire):
                return one
        return None

    def life(self, write: int) -> Log:
        """The records of one write, in order."""
        return [one for one in self.log if one["write"] == write]

    def touched(self, write: Write, since_s: float) -> bool:
        """Whether somebody else, or another effect, changed the write's target since."""
        books = self.played.here.twin.books
        names = {write.intent.target, "*"} | ({"last_updated_on_fe"} if write.key.item == "cr" else set())
        outside = any(
            one.at_s >= since_s and (one.target == "*" or (one.eid == write.key.event and one.target in names))
            for one in books.outside
        )
        return outside or any(
            one.at_s >= since_s and one.eid == write.key.event and (one.target in names or one.operation == "boost")
            for one in books.effects
        )


def seconds(at: str) -> float:
    """A moment of the log on the loop's clock."""
    return START_S + (datetime.fromisoformat(at) - EPOCH).total_seconds()


def case_of(played: Played) -> Case:
    """Puts log and books side by side."""
    log = played.here.log()
    attempts = [
        Attempt(write=one["write"], record=one, at_s=seconds(one["at"]), target=_target(one["request"]))
        for one in log
        if one["kind"] == "sending"
    ]
    for attempt in attempts:
        later = (
            one
            for one in log
            if one["write"] == attempt.write and one["seq"] > attempt.record["seq"] and one["kind"] in STATES
        )
        attempt.after = next(later, None)
    strays: list[SeenRequest] = []
    for seen in played.here.twin.books.requests:
        if seen.method == "GET" or seen.path == "/auth":
            continue
        where = (seen.method, BASE_URLS[seen.host] + seen.path, tuple(sorted(seen.query)))
        before = [one for one in attempts if one.target == where and one.at_s <= seen.at_s + TICK_S]
        (max(before, key=lambda one: one.record["seq"]).wire if before else strays).append(seen)
    writes = {int(one.id): one for one in played.here.writes()}
    return Case(played=played, log=log, writes=writes, attempts=attempts, strays=strays)


def _target(request: dict[str, Any]) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    parts = urlsplit(request["url"])
    query = tuple(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    return request["method"], f"{parts.scheme}://{parts.netloc}{parts.path}", query


def nothing_repeated(case: Case) -> Iterator[str]:
    """No write takes effect twice on a target that nobody changed meanwhile."""
    for one in case.played.here.twin.books.repeated:
        if not case.played.story.lags:
            yield f"repeated effect: {one.operation} of {one.eid} at {case.played.clock(one.at_s)}"


def recorded_before_sent(case: Case) -> Iterator[str]:
    """Every request that writes has a record of its own before it; one attempt is one request."""
    for seen in case.strays:
        yield f"{seen.method} {seen.path} at {case.played.clock(seen.at_s)} has no sending record before it"
    for one in case.attempts:
        if len(one.wire) > 1:
            yield f"attempt {one.record['attempt']} of write {one.write} was {len(one.wire)} requests on the wire"
        crashed = one.after is not None and one.after["reason"] == "crash"
        if not one.wire and not one.unsent and not crashed:
            yield f"attempt {one.record['attempt']} of write {one.write} never reached the wire, and nobody says so"


def unsent_is_harmless(case: Case) -> Iterator[str]:
    """What the ledger calls not sent, or refused by the service, had no effect."""
    for effect in case.effects:
        attempt = case.attempt_of(effect)
        if attempt is None:
            yield f"effect {effect.operation} of {effect.eid} belongs to no attempt"
        elif attempt.after is not None and attempt.after["kind"] in ("planned", "rejected"):
            yield f"write {attempt.write} is {attempt.after['kind']} after an attempt that took effect"


def unknown_is_left_by_proof(case: Case) -> Iterator[str]:
    """Out of ``unknown`` lead a read or a person, and to another attempt only reads over at least ``settle``."""
    for number in case.writes:
        state, since_s, proof = "", 0.0, ""
        for one in case.life(number):
            if one["kind"] == "evidence":
                proof = one["evidence"]["says"]
            if one["kind"] == "resolved":
                proof = "person"
            if one["kind"] not in STATES:
                continue
            if state == "unknown":
                yield from _left(case, one, proof, since_s)
            if one["kind"] == "unknown":
                since_s, proof = seconds(one["at"]), ""
            state = one["kind"]


def _left(case: Case, record: dict[str, Any], proof: str, since_s: float) -> Iterator[str]:
    kind, number = record["kind"], record["write"]
    asked_at_once = kind == "needs_human" and record["reason"] in AT_ONCE
    if proof not in PROOFS.get(kind, set()) and not asked_at_once:
        yield f"write {number} went from unknown to {kind}, and the last evidence says {proof or 'nothing'}"
    at_s = seconds(record["at"])
    began_s = max([since_s, *(start for start in case.played.starts if start <= at_s)])
    if kind == "sending" and at_s - began_s < case.played.here.settings.settle.total_seconds() - TICK_S:
        yield f"write {number} was sent again {at_s - began_s:.1f} s after its attempt, before settle was over"


def confirmed_is_true(case: Case) -> Iterator[str]:
    """What a read confirmed has an effect in the books, or somebody else brought about the same value."""
    for number, write in case.writes.items():
        if write.state != "confirmed" or write.confirmed_by != "read" or case.played.story.lags:
            continue
        own = any(attempt.write == number for effect in case.effects if (attempt := case.attempt_of(effect)))
        first = min(one.at_s for one in case.attempts if one.write == number)
        if not own and not case.touched(write, first):
            yield f"write {number} is confirmed, and the books have no effect of it"


def ended_without_effect_is_true(case: Case) -> Iterator[str]:
    """A write that ended as not wanted took no effect, unless somebody reversed it before a read could see it."""
    for effect in case.effects:
        attempt = case.attempt_of(effect)
        write = case.writes.get(attempt.write) if attempt is not None else None
        if write is None or write.state not in ("skipped", "cancelled") or write.reason in ("already_so", "person"):
            continue
        overtaken = any(one["reason"] == "overtaken" for one in case.life(int(write.id)))
        if not overtaken and not case.touched(write, effect.at_s + TICK_S) and not case.played.story.lags:
            yield f"write {write.id} ended as {write.state} ({write.reason}), and its effect is in the books"


def nothing_sent_during_a_halt(case: Case) -> Iterator[str]:
    """Once a halt has returned, nothing is recorded as sending until it is over."""
    for began_s, ended_s in case.played.halts:
        for one in case.attempts:
            if began_s + TICK_S < one.at_s < ended_s - TICK_S:
                yield f"write {one.write} was sent at {case.played.clock(one.at_s)}, during a halt"


def everything_ends(case: Case) -> Iterator[str]:
    """In a healed world every write comes to an end, or is held by something that a person can see."""
    for number, write in case.writes.items():
        if write.state in FINAL or (write.state == "planned" and _honestly_held(case, write)):
            continue
        yield f"write {number} is still {write.state} (held by {write.held_by}): {write.why}"


def _honestly_held(case: Case, write: Write) -> bool:
    if case.played.here.twin.world.at(PARTNER, write.key.event) is None:
        return True  # the event is gone, and what was meant for it is kept until it comes back
    others = (one for one in case.writes.values() if one.id != write.id and one.key.event == write.key.event)
    return write.held_by == "target_busy" and any(one.state == "needs_human" for one in others)


def true_conditions_are_acted_on(case: Case) -> Iterator[str]:
    """A condition that is true at the end has fired, and its writes came to a good end or a person knows why not."""
    here = case.played.here
    memories = {(one.event, one.rule): one for one in here.ledger.rule_memories(PARTNER)}
    for template in case.played.story.templates:
        for found in here.twin.world.listing(PARTNER):
            setup = "NONE" if found.setup is None else "PUBLISHED" if found.published else "DRAFT"
            if template.wants is None or not template.wants(dict(found.record), setup):
                continue
            name = f"{template.name} of {found.eid}"
            memory = memories.get((EventId(found.eid), RuleId(template.name)))
            if memory is None or not memory.open:
                yield f"{name}: its condition is true at the end, and no episode is open"
            elif not memory.fired and memory.held not in ("conflict", "for", "cooldown"):
                yield f"{name}: its condition is true at the end, it has not fired, held by {memory.held}"


def nothing_impolite(case: Case) -> Iterator[str]:
    """The twin's watch saw no bad manners, but for what a killed process took along: the memory of a Retry-After, and
    of a slow answer that was still on its way."""
    for one in case.played.here.twin.violations():
        if not (one.kind in _FORGOTTEN and _forgotten(case, one)):
            yield f"{one.kind} at {case.played.clock(one.at_s)}: {one.method} {one.path}: {one.detail}"


_FORGOTTEN = frozenset({"retry_after", "read_floor", "task_too_soon", "task_too_often"})
FORGOTTEN_S = 120.0


def _forgotten(case: Case, violation: Violation) -> bool:
    kills = [at_s for at_s in case.played.kills if violation.at_s - FORGOTTEN_S < at_s <= violation.at_s]
    if violation.kind != "read_floor":
        return bool(kills)
    slow = (
        one
        for one in case.played.here.twin.books.requests
        if one.path == violation.path and one.fault in ("slow", "storm") and one.at_s < violation.at_s
    )
    return any(one.at_s <= at_s for one in slow for at_s in kills)


def chain_holds(case: Case) -> Iterator[str]:
    """The log's chain verifies, and its numbers have no holes."""
    broken = case.played.here.ledger.verify()
    if broken is not None:
        yield f"the chain is broken: {broken}"
    if [one["seq"] for one in case.log] != list(range(1, len(case.log) + 1)):
        yield "the numbers of the log have holes"


def the_stop_has_the_last_word(case: Case) -> Iterator[str]:
    """A run that was sent before a pause does not outlive it: where it lands later, the pause is made again."""
    by_event: dict[str, list[tuple[BookedEffect, Attempt]]] = {}
    for effect in case.effects:
        attempt = case.attempt_of(effect)
        if effect.target == "client_campaign_status" and attempt is not None:
            by_event.setdefault(effect.eid, []).append((effect, attempt))
    for eid, pairs in by_event.items():
        effect, attempt = max(pairs, key=lambda pair: pair[0].seq)
        write = case.writes[attempt.write]
        if write.intent.stops or case.touched(write, effect.at_s + TICK_S):
            continue
        pauses = [
            one
            for one in case.writes.values()
            if one.key.event == eid and one.intent.action == "pause" and one.state == "confirmed" and one.sent
        ]
        sent = max((one.at_s for one in case.attempts if one.write in {int(pause.id) for pause in pauses}), default=0.0)
        if sent > attempt.at_s:
            yield f"the run of {eid} (write {write.id}) landed after the pause, which is called confirmed"


CLAIMS: tuple[Callable[[Case], Iterator[str]], ...] = (
    nothing_repeated,
    recorded_before_sent,
    unsent_is_harmless,
    unknown_is_left_by_proof,
    confirmed_is_true,
    ended_without_effect_is_true,
    nothing_sent_during_a_halt,
    everything_ends,
    true_conditions_are_acted_on,
    nothing_impolite,
    chain_holds,
    the_stop_has_the_last_word,
)


def check(played: Played) -> Counter[str]:
    """Fails with every complaint of every claim; else says what was seen, so that nobody proves nothing."""
    case = case_of(played)
    complaints = [f"{claim.__name__}: {one}" for claim in CLAIMS for one in claim(case)]
    if complaints:
        raise Complaint(played.explained("\n".join(complaints)))
    seen = Counter(one["kind"] for one in case.log if one["kind"] in STATES)
    seen["resent"] = sum(one["reason"] == "resend" for one in case.log)
    seen["crashed"] = sum(one["reason"] == "crash" for one in case.log)
    seen["effects"] = len(case.effects)
    seen["kills"] = len(played.kills)
    seen["worlds"] = 1
    return seen
