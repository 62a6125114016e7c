"""How workers that share a ledger share out its partners: alike for all who see the same, and evenly after a while."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from tests.unit.reading.virtual import BEGIN, VirtualClock
from worker.engine.ports import READS_FOR_S, Fleet, ServersClock, given, shares, surplus
from worker.model.errors import LedgerUnwritable
from worker.model.exchange import LEASE, Owner, Shares, Taken
from worker.model.facts import Json, PartnerId

HALL, CLUB = PartnerId("partner-id-hall"), PartnerId("partner-id-club")


def named(count: int) -> list[PartnerId]:
    return [PartnerId(f"p{number:03}") for number in range(count)]


def standing(
    alive: Iterable[str], owners: Mapping[PartnerId, str | None] | None = None, alike: Iterable[str] | None = None
) -> Shares:
    found = {partner: Owner(replica=replica, epoch=1) for partner, replica in (owners or {}).items()}
    running = frozenset(alive)
    return Shares(at=BEGIN, alive=running, alike=running if alike is None else frozenset(alike), owners=found)


@settings(deadline=None)  # a busy machine takes longer now and then
@for_all(st.integers(0, 60), st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=4))
def test_whoever_comes_and_goes_nobody_has_more_than_one_partner_more_than_another(
    count: int, lives: list[set[str]]
) -> None:
    partners, owners = named(count), dict[PartnerId, str | None]()
    for alive in lives:
        for _ in range(60):  # a beat a second, for a minute, or until none changes anything
            now = standing(alive, owners)
            taken = given(partners, now)
            assert set(taken) == {one for one in partners if owners.get(one) not in alive}, "nothing waits for an owner"
            back = [one for replica in alive for one in surplus(partners, now, replica)]
            if not taken and not back:
                break
            owners |= taken
            owners |= dict.fromkeys(back)
        sizes = [len(own) for own in shares(partners, standing(alive, owners)).values()]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == count


def test_a_thousand_partners_are_even_within_a_minute_of_a_new_replica() -> None:
    partners, owners = named(1000), dict[PartnerId, str | None]()
    owners |= {one: "ab"[number % 2] for number, one in enumerate(partners)}
    for _ in range(55):
        now = standing("abc", owners)
        back = [one for replica in "abc" for one in surplus(partners, now, replica)]
        owners |= given(partners, now)
        owners |= dict.fromkeys(back)
    sizes = [len(own) for own in shares(partners, standing("abc", owners)).values()]
    assert max(sizes) - min(sizes) <= 1


def test_where_nobody_lives_nothing_is_given() -> None:
    assert given([HALL], standing([])) == {}
    assert surplus([HALL], standing([]), "a") == []


def test_who_is_told_of_other_partners_is_not_counted_on_and_loses_nothing() -> None:
    """Beside a replica whose `partners` was shorter, one that this lacked was given to it, and polled by nobody."""
    assert given([HALL, CLUB], standing("ab", {HALL: "b"}, alike="a")) == {CLUB: "a"}
    assert surplus([HALL, CLUB], standing("ab", {HALL: "a", CLUB: "a"}, alike="a"), "a") == []
    fleet, rows, _, _ = a_fleet()
    for named in ([HALL, CLUB], [CLUB, HALL], [HALL]):
        fleet.beat(named)
    assert [rows.states[0] == state for state in rows.states] == [True, True, False]


class Rows:
    """The rows of a fleet, in which only this replica writes."""

    def __init__(self) -> None:
        self.replica = ""
        self.epochs: Mapping[PartnerId, int] = {}
        self.ids = iter("abcdef")
        self.given_up = True
        self.taken_away = False
        self.unheard = False
        self.unwritable = False
        self.others: list[str] = []
        self.known: list[PartnerId] = []
        self.said: list[Any] = []
        self.states: list[str] = []
        self.takes: Callable[[], None] = lambda: None
        self.gives: Callable[[], None] = lambda: None

    def beat(self, state: str) -> Shares:
        if self.given_up:
            self.replica, self.epochs, self.given_up = next(self.ids), {}, False
        if self.taken_away:
            self.epochs, self.taken_away = {}, False
        self.states.append(state)
        self.said.append(state.partition(" ")[0])
        running = [self.replica, *self.others] if state.startswith("running") else []
        found = standing(running, dict.fromkeys(self.epochs, self.replica))
        return replace(found, owners={of: replace(one, known=of in self.known) for of, one in found.owners.items()})

    def take(self, partner: PartnerId, seen: Owner) -> Taken | None:
        self.takes()
        self.epochs = {**self.epochs, partner: seen.epoch + 1}
        if self.unheard:
            self.unheard = False
            raise LedgerUnwritable("no answer to a commit", hint="")
        return Taken(goodbye=False)

    def release(self, partner: PartnerId, pace: Mapping[str, Json]) -> None:
        self.gives()
        self.epochs = {one: epoch for one, epoch in self.epochs.items() if one != partner}
        self.said.append((partner, pace))

    def save_pace(self, partner: PartnerId, pace: Mapping[str, Json]) -> None:
        if self.unwritable:
            raise LedgerUnwritable("no answer")
        self.said.append((partner, pace))

    def leave(self) -> None:
        self.said.append("left")


class Paces:
    """What is done with the paces."""

    def __init__(self) -> None:
        self.until = 0.0
        self.taken: list[PartnerId] = []
        self.ended: list[PartnerId] = []

    def lease(self, until: float) -> None:
        self.until = until

    def said(self, partner: PartnerId) -> Mapping[str, Json]:
        return {"of": partner}

    def handed_over(self, partner: PartnerId) -> Mapping[str, Json]:
        self.ended.append(partner)
        return {"of": partner, "over": True}

    def take_over(self, partner: PartnerId, said: Mapping[str, Json], *, ago_s: float, goodbye: bool) -> None:
        assert (said, ago_s, goodbye) == ({}, 0.0, False)
        self.taken.append(partner)


def a_fleet() -> tuple[Fleet, Rows, Paces, VirtualClock]:
    rows, paces, clock = Rows(), Paces(), VirtualClock()
    return Fleet(rows, paces, ServersClock(clock)), rows, paces, clock


def test_nothing_is_taken_before_there_are_rules_and_partners() -> None:
    fleet, rows, _, _ = a_fleet()
    fleet.beat([])
    assert (rows.said, set(fleet.mine)) == (["starting"], set())
    fleet.beat([HALL])
    assert (rows.said[-1], set(fleet.mine)) == ("running", {HALL})


def test_what_takes_long_to_take_is_taken_in_several_beats() -> None:
    """A thousand at once took longer than a lease where the server was 2 ms away: all were lost again, for ever."""
    fleet, rows, _, clock = a_fleet()

    def slowly() -> None:
        clock.seconds += 0.4

    rows.takes = slowly
    counts = []
    for _ in range(4):
        fleet.beat(named(8))
        counts.append(len(fleet.owned))
    assert counts == [3, 6, 8, 8]


def test_what_takes_long_to_give_back_is_given_back_between_beats() -> None:
    """Five hundred at once took longer than a lease: the rest was taken over without a goodbye, with no quota left."""
    fleet, rows, _, clock = a_fleet()
    fleet.beat(named(8))

    def slowly() -> None:
        clock.seconds += 0.4

    rows.gives = slowly
    fleet.stop()
    left = []
    while fleet.give_back(lambda one: one == "p000"):
        left.append(len(fleet.owned))
        fleet.beat(named(8))
    assert (left, set(fleet.owned)) == ([5, 2], {"p000"})


def test_a_beat_lets_read_for_less_than_the_lease_lasts() -> None:
    fleet, _, paces, clock = a_fleet()
    clock.seconds = 100.0
    fleet.beat([])
    assert paces.until == 100.0 + READS_FOR_S
    assert LEASE.total_seconds() >= READS_FOR_S + 3.0, "whoever takes over then need not wait for the floor"


def test_who_was_given_up_watches_nothing_until_the_next_beat() -> None:
    fleet, rows, paces, _ = a_fleet()
    fleet.beat([HALL])
    rows.given_up = True
    fleet.beat([HALL])
    assert (fleet.replica, set(fleet.mine)) == ("b", set())
    assert paces.ended == [HALL], "what still waits to leave is asked by another"
    fleet.beat([HALL])
    assert fleet.mine == {HALL}


def test_who_is_told_of_no_partner_is_not_counted_on() -> None:
    """Its share was left for it by all others, and nobody polled that: for 50 s, until it signed in anew."""
    fleet, rows, _, _ = a_fleet()
    fleet.beat([HALL])
    fleet.beat([])
    fleet.beat([HALL])
    assert [one for one in rows.said if isinstance(one, str)] == ["running", "starting", "running"]
    fleet.stop()
    fleet.beat([HALL])
    assert rows.said[-1] == "stopping"


def test_what_was_taken_without_an_answer_is_not_watched_before_its_pace_is_known() -> None:
    """The commit of the taking was there, and nobody heard it: what a 429 forbade was asked at once."""
    fleet, rows, paces, _ = a_fleet()
    rows.unheard = True
    with pytest.raises(LedgerUnwritable):
        fleet.beat([HALL])
    assert (set(rows.epochs), set(fleet.mine), paces.taken) == ({HALL}, set(), [])
    fleet.beat([HALL])
    assert (set(fleet.mine), paces.taken) == ({HALL}, [HALL])


def test_what_was_taken_away_is_watched_anew_and_not_gone_on_with() -> None:
    """`accept-restore` takes every partner from its owner, with all that the owner remembers of it."""
    fleet, rows, paces, _ = a_fleet()
    fleet.beat([HALL])
    rows.taken_away = True
    fleet.beat([HALL])
    assert (set(fleet.mine), paces.ended) == (set(), [HALL]), "its state would outlive what it was made of"
    fleet.beat([HALL])
    assert (set(fleet.mine), paces.taken) == ({HALL}, [HALL, HALL])


def test_one_of_all_speaks_for_the_operators() -> None:
    """A halt of everything is no replica's own: whoever asked to be told of halts was told of none."""
    fleet, rows, _, _ = a_fleet()
    spoke: list[bool] = []
    for named, others in (([], []), ([HALL], []), ([HALL], ["0"])):
        rows.others = others
        fleet.beat(named)
        spoke.append(fleet.speaks)
    assert spoke == [False, True, False]


def test_what_leaves_is_given_back_once_nothing_of_it_is_under_way() -> None:
    fleet, rows, _, _ = a_fleet()
    fleet.beat([HALL])
    fleet.save_pace(HALL)
    fleet.save_pace(CLUB)
    assert rows.said[-1] == (HALL, {"of": HALL}), "and of another's nothing"
    rows.unwritable = True
    fleet.save_pace(HALL)  # ends no attempt, whose answer asked for it
    fleet.stop()
    assert fleet.mine == frozenset()
    fleet.give_back(lambda _: True)
    assert HALL in rows.epochs
    fleet.beat([HALL])
    assert fleet.mine == frozenset(), "nothing is taken again"
    fleet.give_back(lambda _: False)
    assert (rows.epochs, rows.said[-1]) == ({}, (HALL, {"of": HALL, "over": True}))
    fleet.leave()
    assert rows.said[-1] == "left"


def test_time_is_the_servers_as_exactly_as_its_fastest_answer() -> None:
    own = VirtualClock()
    clock, ahead = ServersClock(own), timedelta(hours=2)
    own.seconds = 10.0
    assert clock.now() == own.now(), "nothing was heard yet"
    clock.heard(BEGIN + ahead + timedelta(seconds=8), 8.0, 8.5)
    off = clock.now() - own.now()
    assert timedelta(0) <= ahead - off <= timedelta(seconds=0.5), "by no more than the answer took"
    for said_s in (5, 9):
        clock.heard(BEGIN + ahead + timedelta(seconds=said_s), 5.0, 9.5)
        assert clock.now() - own.now() == off, "an answer that took long makes nothing less exact"
    clock.heard(BEGIN + ahead + timedelta(seconds=9.5), 9.5, 9.5)
    assert clock.now() - own.now() == ahead
    clock.heard(BEGIN - ahead + timedelta(seconds=10), 10.0, 10.0)
    assert clock.now() == own.now() - ahead, "the server's clock was set back, and it is the server's that counts"


def test_time_goes_on_with_the_monotonic_clock_whatever_becomes_of_the_wall_clock() -> None:
    own = VirtualClock()
    clock = ServersClock(own)
    fleet = Fleet(Rows(), Paces(), clock)
    own.now = lambda: BEGIN - timedelta(days=1)  # type: ignore[method-assign]  # somebody has set it back
    fleet.beat([])
    own.seconds = 3.0
    assert clock.now() == BEGIN + timedelta(seconds=3)
