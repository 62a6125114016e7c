"""Whose a partner is, on a real server: whatever the order of statements, one owner, and nothing stored by another."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import count

import pytest
from sqlalchemy import update

from tests.contract.interleaving import Side, in_every_order
from tests.contract.postgres import Server
from tests.unit.ledger.examples import ACME, NOW, after, fired, key, kinds, moved, no_brake, plan, planned, to_sending
from worker.ledger.log import verified
from worker.ledger.ownership import Membership
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.ledger.tables import partners, replicas
from worker.model.commits import Commit, Hold, LogFilter, PartnerMemory, Sending, SendingView
from worker.model.errors import OwnershipLost, StateConflict
from worker.model.exchange import LEASE, Owner, Taken
from worker.model.facts import PartnerId, RuleId
from worker.model.writes import Write

_numbers = count(1)
HALTED = Hold(reason="halt", why="a look first")


_open: list[SqlLedger] = []


@pytest.fixture(autouse=True)
def all_are_closed() -> Iterator[None]:
    yield
    while _open:
        _open.pop().close()


def joined(url: str) -> tuple[SqlLedger, Membership]:
    """A replica that runs."""
    ledger = SqlLedger.open(url, clock_now=lambda: NOW)
    _open.append(ledger)
    membership = ledger.join()
    membership.beat("running")
    return ledger, membership


def owning(url: str, partner: PartnerId = ACME) -> tuple[SqlLedger, Membership]:
    ledger, membership = joined(url)
    assert membership.take(partner, Owner()) is not None
    return ledger, membership


def one_more() -> PartnerId:
    """A partner that nobody has; of one ledger, because to make one takes longer than what is tried on it."""
    return PartnerId(f"partner-id-{next(_numbers)}")


def silent(url: str, membership: Membership) -> None:
    """The replica is not heard of for as long as a lease lasts."""
    with SqlLedger.open(url, clock_now=lambda: NOW) as ledger, ledger._store.writing() as connection:
        here = replicas.c.id == membership.replica
        (beat,) = connection.execute(replicas.select().with_only_columns(replicas.c.beat).where(here)).one()
        connection.execute(update(replicas).where(here).values(beat=beat - LEASE - timedelta(seconds=1)))


def send(ledger: SqlLedger, write: Write) -> object:
    return ledger.record_sending(Sending(move=to_sending(write, after(1)), check=no_brake, amount=None))


def take(membership: Membership, partner: PartnerId) -> Callable[[SqlLedger], object]:
    seen = membership.beat("running").owners[partner]
    return lambda _: membership.take(partner, seen)


def test_a_partner_has_one_owner_until_it_is_given_back(url: str) -> None:
    (one, first), (other, second) = owning(url), joined(url)
    assert second.take(ACME, Owner()) is None, "it was free when it was seen"
    held = first.beat("running").owners[ACME]
    assert held == Owner(replica=first.replica, epoch=1)
    assert second.take(ACME, held) is None, "its owner lives"
    unheard = first.take(ACME, held)
    assert unheard is not None, "no answer came when it took it"
    assert not unheard.goodbye
    planned(one)
    with pytest.raises(OwnershipLost):
        planned(other, plan(key(2)))
    first.release(ACME, {"blocked_s": 5.0})
    with pytest.raises(OwnershipLost):
        planned(one, plan(key(2)))
    taken = second.take(ACME, Owner(epoch=2))
    assert taken is not None
    assert (taken.goodbye, taken.pace["blocked_s"], taken.ago >= timedelta(0)) == (True, 5.0, True)
    planned(other, plan(key(2)))
    assert "takeover" not in kinds(list(other.log(LogFilter())))
    assert [(record["kind"], record["replica"]) for record in other.log(LogFilter(kind="planned"))] == [
        ("planned", first.replica),
        ("planned", second.replica),
    ]


def test_a_pace_that_was_stored_by_a_clock_that_was_ahead_counts_from_now(url: str) -> None:
    """The server's clock was set back by an hour: for so long the next owner did not ask for the list."""
    ledger, membership = owning(url)
    membership.release(ACME, {"blocked_s": 5.0})
    with ledger._store.writing() as connection:
        connection.execute(update(partners).values(pace={"blocked_s": 5.0, "at": "2999-01-01T00:00:00.000000Z"}))
    taken = membership.take(ACME, membership.beat("running").owners[ACME])
    assert taken is not None
    assert taken.ago == timedelta(0)


def test_all_that_run_are_seen_and_who_of_them_says_the_same(url: str) -> None:
    ledgers, members = zip(*(joined(url) for _ in range(3)), strict=True)
    for member, state in zip(members, ("running a", "running a", "running b"), strict=True):
        member.beat(state)
    ids = [member.replica for member in members]
    found = members[0].beat("running a")
    assert (found.alive, found.alike) == (set(ids), set(ids[:2]))
    assert members[2].beat("stopping b").alike == set()
    assert sorted(one.state for one in ledgers[0].replicas()) == ["running", "running", "stopping"]


def test_who_was_not_heard_of_goes_on_as_another_that_owns_nothing(url: str) -> None:
    ledger, membership = owning(url)
    before = membership.replica
    assert membership.beat("running").alive == {before}
    silent(url, membership)
    standing = membership.beat("running")
    assert standing.alive == {membership.replica}
    assert membership.replica != before
    assert membership.epochs == {}
    with pytest.raises(OwnershipLost):
        planned(ledger)
    taken = membership.take(ACME, standing.owners[ACME])
    assert taken is not None
    assert not taken.goodbye, "nobody knows what it asked"
    planned(ledger)


def test_nobody_new_has_a_record_before_it_is_known_who_was_watched_already(url: str) -> None:
    """The only partner is watched whoever it is; the second name that it is given must not do all of it again."""
    one, _ = owning(url)
    one.apply(Commit(at=NOW, partner=PartnerMemory(partner=ACME)))
    other, second = joined(url)
    second_name = one_more()
    both = (ACME, second_name)
    assert second.take(second_name, Owner()) is not None
    with pytest.raises(StateConflict, match=f"may be the same as another partner: the record of {ACME}"):
        other.identify(second_name, "1", both, NOW)
    assert one.identify(ACME, "1", both, NOW) == ACME
    assert other.identify(second_name, "1", both, NOW) == ACME
    assert other.identify(second_name, "2", both, NOW) == second_name


def test_a_partner_that_the_service_renamed_is_gone_on_with_and_what_is_true_then_waits(url: str) -> None:
    """Under its new name it was held for ever; let in as a stranger, it would have everything done again."""
    one, first = owning(url)
    one.apply(Commit(at=NOW, partner=PartnerMemory(partner=ACME)))
    assert one.identify(ACME, "1", [ACME], NOW) == ACME
    other, second = joined(url)
    renamed = one_more()
    assert second.take(renamed, Owner()) is not None
    assert other.identify(renamed, "1", [renamed], NOW) == ACME, "its owner has not heard of it yet"
    first.release(ACME, {})
    assert other.identify(renamed, "1", [ACME, renamed], NOW) == ACME, "it has two names"
    assert other.identify(renamed, "1", [renamed], NOW) == renamed
    memory = other.partner_memory(renamed)
    assert memory is not None
    assert memory.restored_at is not None
    (record,) = other.log(LogFilter(partner=renamed))
    assert (record["kind"], record["reason"]) == ("held", "restored")
    taken = first.take(ACME, first.beat("running").owners[ACME])
    assert taken is not None
    assert one.identified() == {renamed}
    assert {name: owner.known for name, owner in first.beat("running").owners.items()} == {ACME: False, renamed: True}
    assert one.identify(ACME, "1", [ACME], NOW) == renamed, "should it come back, it is the one that is held"


def test_of_two_that_take_a_partner_over_one_has_it(url: str, postgres: Server) -> None:
    def sides() -> tuple[Side, ...]:
        partner = one_more()
        gone, membership = owning(url, partner)
        silent(url, membership)
        gone.close()
        (one, first), (other, second) = joined(url), joined(url)
        return (one, take(first, partner)), (other, take(second, partner))

    found = in_every_order(postgres, sides)
    for _, said in found:
        assert sorted(isinstance(one, Taken) for one in said) == [False, True]
    assert {isinstance(said[0], Taken) for _, said in found} == {True, False}, len(found)


def test_in_no_order_does_a_replica_send_what_another_has_taken_over(url: str, postgres: Server) -> None:
    tried: list[PartnerId] = []

    def sides() -> tuple[Side, ...]:
        tried.append(partner := one_more())
        sender, membership = owning(url, partner)
        (write,) = planned(sender, plan(key(partner=partner)))
        silent(url, membership)
        other, second = joined(url)
        return (sender, lambda ledger: send(ledger, write)), (other, take(second, partner))

    found = in_every_order(postgres, sides)
    with open_reading(url) as ledger:
        assert ledger.verify() is None
        for partner, (_, (sent, taken)) in zip(tried, found, strict=True):
            assert isinstance(taken, Taken)
            order = [one["kind"] for one in ledger.log(LogFilter(partner=partner))][1:]
            (stored,) = ledger.open_writes(partner)
            if sent is None:
                assert (order, stored.state) == (["sending", "takeover"], "sending"), "the new owner finds it"
            else:
                assert isinstance(sent, OwnershipLost)
                assert (order, stored.state) == (["takeover"], "planned")
    assert {sent is None for _, (sent, _) in found} == {True, False}, len(found)


def test_an_outcome_moves_nothing_once_another_has_taken_over(url: str, postgres: Server) -> None:
    tried: list[PartnerId] = []

    def sides() -> tuple[Side, ...]:
        tried.append(partner := one_more())
        sender, membership = owning(url, partner)
        (write,) = planned(sender, plan(key(partner=partner)))
        send(sender, write)
        (sending,) = sender.open_writes(partner)
        silent(url, membership)
        other, second = joined(url)
        outcome = Commit(at=NOW, moves=(moved(sending, "applied", after(2)),))
        return (sender, lambda ledger: ledger.apply(outcome)), (other, take(second, partner))

    found = in_every_order(postgres, sides)
    with open_reading(url) as ledger:
        assert ledger.verify() is None
        for partner, (_, (told, _)) in zip(tried, found, strict=True):
            (stored,) = ledger.open_writes(partner)
            assert stored.state == ("sending" if isinstance(told, OwnershipLost) else "applied")
    assert {isinstance(told, OwnershipLost) for _, (told, _) in found} == {True, False}, len(found)


def test_what_the_replica_of_before_has_to_say_is_evidence(url: str) -> None:
    one, first = owning(url)
    (write,) = planned(one)
    send(one, write)
    silent(url, first)
    other, second = joined(url)
    second.take(ACME, second.beat("running").owners[ACME])
    one.testify([replace(fired(after(5)), kind="evidence", reason="takeover", why="it answered 200")])
    assert other.state_counts() == {"sending": 1}
    *_, last = other.log(LogFilter())
    assert (last["kind"], last["replica"]) == ("evidence", first.replica)
    assert verified(other.log(LogFilter()))[1] is None


def test_in_no_order_is_anything_sent_against_a_halt_that_has_returned(url: str, postgres: Server) -> None:
    def sides() -> tuple[Side, ...]:
        partner = one_more()
        sender, _ = owning(url, partner)
        operator = SqlLedger.open(url, clock_now=lambda: NOW)
        (write,) = planned(sender, plan(key(partner=partner)))
        rule = RuleId(partner)  # of this order alone: the halts of the others stay

        def as_no(view: SendingView) -> Hold | None:
            return HALTED if any(halt.rule == rule for halt in view.halts) else None

        sending = Sending(move=to_sending(write, after(1)), check=as_no, amount=None)
        return (
            (sender, lambda ledger: ledger.record_sending(sending)),
            (operator, lambda ledger: ledger.append_halt(rule=rule, because="a look first", by="ann", at=NOW)),
        )

    found = in_every_order(postgres, sides)
    for ended, (sent, _) in found:
        assert ended == [0, 1] or sent == HALTED, "the halt had returned"
    assert {sent is None for _, (sent, _) in found} == {True, False}, len(found)


@pytest.mark.parametrize("stops", [False, True])
def test_one_target_has_one_attempt_whatever_the_guards_saw(url: str, stops: bool) -> None:
    ledger, _ = owning(url)
    wanted = [plan(key(number)) for number in (1, 2)]
    one, other = planned(ledger, *(replace(two, intent=replace(two.intent, stops=stops)) for two in wanted))
    send(ledger, one)
    with pytest.raises(StateConflict, match="another attempt"):
        send(ledger, other)
