"""Claims about a fleet: who decides, who asks when somebody is gone, how evenly, how often, and under which rules."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from math import inf

from tests.simulation.case import INTERVAL_S, LAST_BYTE_S, TICK_S, TIMEOUT_S, UNDER_WAY_S, Case
from tests.simulation.history import Owned, Row, Sharing, Trouble

UNSTORED = ("cut from the ledger", "silent ledger", "server down")
GONE = ("killed", "stall", "cut from the ledger", "silent ledger")
ASKED_WITHIN_S = 10.0
EVEN_WITHIN_S = 60.0
LEASE_S = 5.0
READY_S = 9.0
"""So long after its start a process can take what another one has left."""
HELD_S = 20.0
"""So long the server lets a transaction be idle."""
WAITED_S = 70.0
"""So long after a 429 without a date its partner may be left alone, and after any answer that was none."""
DECIDED = ("fired", "planned", "waiting", "sending")


def only_its_owner_writes(case: Case) -> Iterator[str]:
    """What a replica records of a partner is stored while the partner is its own; but for what one has to say of an
    attempt that was its own, which moves nothing."""
    sharing = case.history.sharing
    for row in case.last if sharing is not None and len(case.history.logs) == 1 else ():
        testimony = row["kind"] == "evidence" and row["evidence"] is None
        if sharing is None or row["chain"] != sharing.partner or not row["replica"] or testimony:
            continue
        at_s, name = case.committed_s(0, row["seq"]), sharing.names.get(row["replica"])
        if row["kind"] in ("held", "stopped") and row["write"] is None:
            continue  # that its record is another partner's, or cannot be read
        if name not in owners_at(sharing, at_s):
            yield f"{row['kind']} of write {row['write']} at {at_s - 1000:.3f} by {name}, whose the partner was not"


def owners_at(sharing: Sharing, at_s: float) -> set[str]:
    """Whose the partner was in that moment; of several where it changed then."""
    mine = [one for one in sharing.owned if one.partner == sharing.partner]
    before = [one.owner for one in mine if one.at_s < at_s]
    return {*before[-1:], *(one.owner for one in mine if one.at_s == at_s)}


def takeovers(sharing: Sharing | None, partner: str = "") -> list[Owned]:
    """When somebody took the partner of one who had not given it back."""
    if sharing is None:
        return []
    mine = [one for one in sharing.owned if one.partner == (partner or sharing.partner)]
    return [after for before, after in pairwise(mine) if before.owner and after.owner]


def settled_from_s(case: Case, at_s: float, *, taken_over: bool) -> float:
    """From when on absence can count at a moment: since its owner has the partner, and of an attempt that was under way
    at a takeover since the last one, and the last byte."""
    sharing = case.history.sharing
    if sharing is None:
        return 0.0
    began_s = max(
        (one.at_s for one in sharing.owned if one.partner == sharing.partner and one.at_s <= at_s), default=0.0
    )
    lost_s = max((one.at_s for one in takeovers(sharing) if one.at_s <= at_s), default=-inf)
    return max(began_s, lost_s + LAST_BYTE_S) if taken_over else began_s


def what_is_left_is_asked_for_soon(case: Case) -> Iterator[str]:
    """A partner whose owner is killed, stopped, or cut off from the ledger is asked for again within 10 s, while
    another replica runs undisturbed. Not asked for where requests or transactions went wrong meanwhile, or the service
    had asked for patience."""
    sharing = case.history.sharing
    for trouble in () if sharing is None else sharing.troubles:
        if sharing is None or trouble.kind not in GONE:
            continue
        to_s = _last_end(sharing, trouble) + ASKED_WITHIN_S + UNDER_WAY_S
        if trouble.owner not in owners_at(sharing, trouble.at_s):
            continue
        if not 0.0 < trouble.until_s - trouble.at_s < LEASE_S and _calm(case, sharing, trouble, to_s):
            lists = [one.at_s for one in case.history.reads if one.path == "/events/"]
            if not any(trouble.at_s < at_s <= to_s for at_s in lists):
                yield f"{trouble.owner} was {trouble.kind} at {trouble.at_s - 1000:.3f}, and nobody asked for 10 s"


def _last_end(sharing: Sharing, trouble: Trouble) -> float:
    """When the last of those was gone that may have been about to take the partner."""
    at_s = trouble.at_s
    for one in sorted(sharing.troubles, key=lambda one: one.at_s):
        if one.kind in GONE and at_s < one.at_s <= at_s + ASKED_WITHIN_S:
            at_s = one.at_s
    return at_s


def _calm(case: Case, sharing: Sharing, trouble: Trouble, to_s: float) -> bool:
    """Whether nothing else was wrong from then on, and somebody else could take the partner."""
    if to_s > case.history.ended_s - 30.0 or any(trouble.at_s - HELD_S <= at_s <= to_s for at_s in sharing.harmed_s):
        return False  # a transaction that is stopped holds its rows until the server ends it
    if any(trouble.at_s - WAITED_S <= one.at_s <= to_s and not one.whole for one in case.history.reads):
        return False
    if any(one <= to_s for one in case.history.throttled):
        return False
    if any(
        trouble.at_s - WAITED_S <= at_s <= to_s for at_s in (*sharing.unsigned, *(one[0] for one in sharing.denied))
    ):
        return False  # whoever is not signed in, or is told of no partner, takes none
    others = [one for one in sharing.troubles if one is not trouble and one.until_s + READY_S >= trouble.at_s]
    others = [one for one in others if one.at_s <= to_s]
    if any(not one.owner or one.kind == "cut from the service" for one in others):
        return False  # whoever is cut from the service has its share all the same
    return any(
        life.from_s + READY_S <= trouble.at_s and life.to_s >= to_s
        for life in case.history.lives
        if life.owner not in {trouble.owner, *(one.owner for one in others), *_stood(case, trouble.at_s, to_s)}
    )


def _stood(case: Case, from_s: float, to_s: float) -> set[str]:
    """Who did nothing for some time then, or had lost its partners just before."""
    return {owner for owner, began_s, ended_s in case.history.stalls if began_s <= to_s and ended_s + READY_S >= from_s}


def partners_are_shared_out_evenly(case: Case) -> Iterator[str]:
    """A minute after the last change no replica that runs has more than one partner more than another."""
    sharing, at_s = case.history.sharing, 0.0 if case.history.sharing is None else case.history.sharing.over_s
    if sharing is None or sharing.partner != sharing.partners[0]:
        return
    running = [life for life in case.history.lives if life.from_s < at_s <= life.to_s]
    changes = [life.from_s for life in case.history.lives] + [life.to_s for life in case.history.lives]
    changes += [one.until_s for one in sharing.troubles] + list(sharing.harmed_s)
    if any(from_s <= at_s < to_s + EVEN_WITHIN_S for from_s, to_s in sharing.denied):
        return  # who is told of no partner has none
    if not running or at_s - max((one for one in changes if one < at_s), default=0.0) < EVEN_WITHIN_S + INTERVAL_S:
        return
    last = {one.partner: one.owner for one in sharing.owned if one.at_s < at_s}
    counts = [list(last.values()).count(life.owner) for life in running]
    if max(counts) > min(counts) + 1 or sum(counts) < len(sharing.partners):
        yield f"the partners are shared out as {sorted(counts)} of {len(sharing.partners)}"


def a_goodbye_leaves_no_gap(case: Case) -> Iterator[str]:
    """When a replica is told to end, the lists of its partners stay at most an interval and a second apart, but for an
    attempt that it awaits."""
    sharing = case.history.sharing
    for trouble in () if sharing is None else sharing.troubles:
        if sharing is None or trouble.kind != "stop" or trouble.owner not in owners_at(sharing, trouble.at_s):
            continue
        to_s = trouble.at_s + ASKED_WITHIN_S
        sent = [
            one for one in case.history.wire if one.at_s < to_s and (one.heard_s or inf) >= trouble.at_s - INTERVAL_S
        ]
        others = [
            one for one in sharing.troubles if one is not trouble and abs(one.at_s - trouble.at_s) < ASKED_WITHIN_S
        ]
        if sent or others or not _calm(case, sharing, trouble, to_s):
            continue
        lists = [one.at_s for one in case.history.reads if one.path == "/events/"]
        for before, after in pairwise(lists):
            if before <= trouble.at_s < after and after - before > INTERVAL_S + 1.0 + 2 * UNDER_WAY_S:
                yield f"{trouble.owner} was told to end, and its partner's lists were {after - before:.3f} s apart"


def rules_that_are_gone_decide_nothing(case: Case) -> Iterator[str]:
    """Once a publish has returned, nothing is decided or sent under a rule that is not in it any more."""
    sharing = case.history.sharing
    for rule, at_s in () if sharing is None else sharing.dropped:
        for row in case.last:
            decided = row["kind"] in DECIDED and row["reason"] != "not_sent"  # of an attempt from before, that is told
            later = row["rule"] == rule and decided and row["replica"] and not stood_for(case, row)
            if later and len(case.history.logs) == 1 and case.committed_s(0, row["seq"]) > at_s + TICK_S:
                yield f"{row['kind']} for {rule} at {row['at']}, which was in force no more since {at_s - 1000:.3f}"


def stood_for(case: Case, row: Row) -> bool:
    """Whether another rule had fired by then that wants the same, and goes on with the write."""
    said = f"rule {row['rule']} stands for the same desired value"
    return any(
        one["reason"] == "shared" and one["event"] == row["event"] and one["seq"] < row["seq"] and said in one["why"]
        for one in case.last
    )


def the_quota_is_kept(case: Case) -> Iterator[str]:
    """No more requests of a partner leave in a minute than the config allows, whoever sends them; but for those that a
    replica that was gone had begun."""
    sharing = case.history.sharing
    asked = [] if sharing is None else sorted(sharing.asked)
    most = 0 if sharing is None else sharing.per_minute
    for first, last in zip(asked, asked[most + SPARE :], strict=False):
        if last - first < 60.0 - 1.0:
            yield f"{most + SPARE} requests in {last - first:.1f} s at {first - 1000:.3f}, and {most} are allowed"
            return


def who_was_given_up_is_another(case: Case) -> Iterator[str]:
    """A process that did nothing for longer than its lease goes on under another id."""
    sharing = case.history.sharing
    for trouble in () if sharing is None else sharing.troubles:
        if sharing is None or trouble.kind != "stall" or trouble.until_s - trouble.at_s < LEASE_S + 1.5:
            continue
        if (trouble.owner, trouble.at_s, trouble.until_s) not in case.history.stalls:
            continue  # it stood already
        woke_s, soon_s = trouble.until_s, trouble.until_s + INTERVAL_S
        theirs = [one for one in sharing.troubles if one.owner in ("", trouble.owner)]
        for_all = any(not one.owner and one.at_s <= woke_s and one.until_s > trouble.at_s for one in theirs)
        if (
            for_all
            or any(one.at_s <= soon_s and one.until_s > woke_s for one in theirs)
            or any(woke_s < at_s <= soon_s for at_s in sharing.harmed_s)
        ):
            continue  # it could not say soon that it lives, or nobody could take what it had
        mine = [one for one in sharing.owned if one.partner == sharing.partner]
        before = [one for one in mine if one.at_s <= trouble.at_s][-1:]
        after = [one for one in mine if one.at_s <= trouble.until_s + INTERVAL_S][-1:]
        lived = any(
            one.owner == trouble.owner and one.to_s > trouble.until_s + INTERVAL_S for one in case.history.lives
        )
        other = sum(name == trouble.owner for name in sharing.names.values()) > 1  # it has another id since
        if lived and before == after and before and before[0].owner == trouble.owner and not other:
            yield f"{trouble.owner} stood at {trouble.at_s - 1000:.3f}, and goes on as the one that it was"


def one_is_handed_over_at_a_time(case: Case) -> Iterator[str]:
    """Of a replica that goes on, one partner is given back at once."""
    sharing = case.history.sharing
    left: Counter[tuple[str, float]] = Counter()
    for partner in () if sharing is None or sharing.partner != sharing.partners[0] else sharing.partners:
        mine = [one for one in sharing.owned if one.partner == partner] if sharing is not None else []
        left.update((before.owner, after.at_s) for before, after in pairwise(mine) if before.owner and not after.owner)
    over_s = 0.0 if sharing is None else sharing.over_s
    ended_s = {life.owner: life.to_s for life in case.history.lives}
    for (owner, at_s), count in left.items():
        told = sharing is not None and any(
            one.owner == owner and one.kind == "stop" and one.at_s <= at_s for one in sharing.troubles
        )
        denied = sharing is not None and any(from_s <= at_s <= to_s for from_s, to_s in sharing.denied)
        if count > 1 and at_s < min(over_s, ended_s[owner]) and not told and not denied:
            yield f"{owner} gave back {count} partners at {at_s - 1000:.3f}"


def nothing_is_under_way_at_a_handover(case: Case) -> Iterator[str]:
    """A partner is given back once its attempts have ended."""
    sharing = case.history.sharing
    mine = [] if sharing is None else [one for one in sharing.owned if one.partner == sharing.partner]
    for before, after in pairwise(mine):
        for wire in case.history.wire if not after.owner else ():
            if wire.owner == before.owner and before.at_s <= wire.at_s < after.at_s < (wire.heard_s or inf) - TICK_S:
                yield f"{before.owner} gave the partner back while {wire.method} {wire.url} was under way"


def what_nobody_answered_is_not_sent(case: Case) -> Iterator[str]:
    """A sending whose commit was not answered, or with a warning, sends nothing."""
    unheard = () if case.history.sharing is None or len(case.history.logs) > 1 else case.history.sharing.unheard
    for deed in case.deeds.values():
        for one in deed.attempts:
            if one.wire and one.row["seq"] in unheard:
                yield f"write {one.row['write']} left by a commit that nobody had answered"


def begun_by_one_that_is_gone(case: Case, at_s: float, what: str) -> bool:
    """Whether the read of a resource before this one was of a replica that was in trouble, and is another's now; or
    this one is of one that has just woken; or that was of one that broke it off when it gave the partner back, a
    floor ago; or the ledger was put back just now, with what was known of floors."""
    sharing = case.history.sharing
    path = what.split(": ", maxsplit=1)[0].split(" ", 1)[1]
    reads = [one for one in case.history.reads if one.path == path and one.at_s <= at_s]
    if sharing is not None and any(one <= at_s <= one + 2 * TIMEOUT_S for one in case.history.lost):
        return True
    answered_s = at_s - float(what.rsplit(": ", maxsplit=1)[1].split(" ", 1)[0])
    if at_s - answered_s >= INTERVAL_S - TICK_S:
        return True  # but for a nanosecond
    others = answered_s > at_s and {one.owner for one in reads} - {reads[-1].owner}  # who answers still has asked it
    earlier = [  # and no other page of the same list
        one for one in reads[:-1] if one.at_s <= answered_s + TICK_S and (not others or one.owner in others)
    ]
    if sharing is None or not earlier:
        return False
    before = earlier[-1]
    mine = [one for one in sharing.owned if one.partner == sharing.partner]
    newest = [one for one in mine if one.at_s <= at_s][-1:]
    if newest and newest[0].owner != reads[-1].owner and newest[0].at_s < at_s:  # in that very moment it left before
        since = [one for one in reads if one.owner == reads[-1].owner and one.at_s > newest[0].at_s]
        return len(since) == 1  # the one read of one that is gone
    left = [one for one in mine if before.at_s <= one.at_s <= min(at_s, answered_s) and one.owner != before.owner]
    given_s = [one.at_s for one in left[:1] if not one.owner]  # what another one took first, it did not give back
    if given_s:  # it may have stood in the very commit that gave it back, or have tried before
        stood_s = (
            one for owner, one, to_s in case.history.stalls if owner == before.owner and one <= given_s[0] <= to_s
        )
        tried_s = (
            one.at_s
            for one in sharing.troubles
            if one.owner == before.owner
            and one.kind.startswith("connection lost")
            and before.at_s <= one.at_s <= given_s[0]
        )
        return at_s >= min([given_s[0], *stood_s, *tried_s]) + INTERVAL_S - TICK_S
    if reads[-1].owner == before.owner:  # it broke the read off when it had been given up, and has it anew
        anew = any(one.owner == before.owner and before.at_s < one.at_s <= at_s for one in mine)
        return anew and at_s >= before.at_s + INTERVAL_S - TICK_S
    stalls = case.history.stalls
    stood = any(owner == before.owner and from_s <= at_s for owner, from_s, _ in stalls)
    woke = any(owner == reads[-1].owner and 0.0 <= at_s - to_s <= UNDER_WAY_S for owner, _, to_s in stalls)
    gone = (one for one in sharing.troubles if one.kind in (*GONE, *UNSTORED) and one.at_s <= at_s)
    if not any(not one.owner and before.at_s <= one.at_s <= at_s for one in mine):  # it ended, and no goodbye was heard
        stood = stood or any(life.owner == before.owner and life.to_s <= at_s for life in case.history.lives)
    return stood or woke or any(one.owner in ("", before.owner) for one in gone)


def left_after_its_sender_was_given_up(case: Case, at_s: float) -> bool:
    """Whether an attempt's byte left while its partner was another's already, which cannot know when."""
    sharing = case.history.sharing
    mine = [] if sharing is None else [one for one in sharing.owned if one.partner == sharing.partner]
    for wire in (one for one in case.history.wire if one.at_s <= at_s):
        newest = [one.owner for one in mine if one.at_s <= at_s][-1:]
        if newest and newest[0] != wire.owner and at_s - wire.at_s <= UNDER_WAY_S + INTERVAL_S:
            return True
    return False


def asked_unheard(case: Case, at_s: float, what: str) -> bool:
    """Whether a replica asked who its partners are that nobody had asked to wait: what another one was told about its
    own partner it cannot know."""
    reads = [one for one in case.history.reads if one.at_s <= at_s]
    asker = next((one.owner for one in reversed(reads) if one.path == "/partners/"), "")
    waits = [heard_s for heard_s in case.history.throttled if heard_s <= at_s]
    told = {one.owner for one in reads if any(one.at_s <= heard_s <= one.at_s + TIMEOUT_S for heard_s in waits)}
    return case.history.sharing is not None and what.startswith("GET /partners/") and asker not in told


def nobody_could_store(case: Case, at_s: float) -> bool:
    """Whether the ledger was out of reach for whoever was asked to wait then, or failed when that was to be stored."""
    sharing = case.history.sharing
    if sharing is None:
        return False
    asked = {one.owner for one in case.history.reads if one.at_s <= at_s <= one.at_s + TIMEOUT_S}
    heard_s = at_s + UNDER_WAY_S
    away = (one for one in sharing.troubles if one.kind in UNSTORED and one.at_s <= heard_s and at_s <= one.until_s)
    return any(one.owner in ("", *asked) for one in away) or any(at_s <= one <= heard_s for one in sharing.harmed_s)


SPARE = 3


CLAIMS = (
    only_its_owner_writes,
    what_is_left_is_asked_for_soon,
    partners_are_shared_out_evenly,
    a_goodbye_leaves_no_gap,
    rules_that_are_gone_decide_nothing,
    the_quota_is_kept,
    who_was_given_up_is_another,
    one_is_handed_over_at_a_time,
    nothing_is_under_way_at_a_handover,
    what_nobody_answered_is_not_sent,
)
