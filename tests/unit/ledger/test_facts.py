"""Facts are kept as they are, with their changes, and the past can be had back from them."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.ledger.examples import ACME, E1, NOW, after, in_memory_ledger, open_ledger, run_sql
from worker.ledger.rows import FORGET_AT_ONCE
from worker.ledger.sql import SqlLedger
from worker.model.commits import OF_PARTNER, Change, Changes, Commit, Observed
from worker.model.errors import LedgerDamaged
from worker.model.facts import EventId, Fact, FactKey, Json, Known, PartnerId, Unknown

EVENT = FactKey(name="event")
SETUP = FactKey(name="setup")
TCS = FactKey(name="suggested_tcs", params=(("budget", 500.0), ("goal", "ROAS")))
E2 = EventId("e2")
NUMBERS = count()


@pytest.fixture(scope="module")
def shared() -> Iterator[SqlLedger]:
    """One ledger for many examples, each with a partner of its own."""
    with in_memory_ledger(NOW) as ledger:
        yield ledger


def known(value: Json, **gaps: str) -> Known:
    return Known(value=value, read_at=NOW, gaps=gaps)


def keep(ledger: SqlLedger, *changes: Change, partner: PartnerId = ACME, forget: datetime | None = None) -> None:
    ledger.apply(Commit(at=NOW, changes=Changes(partner=partner, changes=changes, forget=forget)))


def observed(fact: Fact, seconds: float = 0, event: EventId = E1, key: FactKey = EVENT) -> Observed:
    return Observed(event=event, key=key, fact=fact, at=after(seconds))


def seen(ledger: SqlLedger, *looks: tuple[float, EventId, FactKey, Fact]) -> None:
    """Facts as they were seen, each with the seconds since the beginning."""
    state = {(one.event, one.key): one for one in ledger.observed(ACME)}
    for seconds, event, key, fact in looks:
        now = observed(fact, seconds, event, key)
        keep(ledger, Change(now=now, before=state.get((event, key))))
        state[(event, key)] = now


def told(found: Sequence[Observed]) -> list[tuple[str, str, object]]:
    return [(one.event, one.key.text, value_of(one.fact)) for one in found]


def value_of(fact: Fact) -> object:
    return fact.value if isinstance(fact, Known) else fact.code


def test_of_the_facts_the_newest_state_is_whole() -> None:
    ledger = in_memory_ledger(NOW)
    seen(
        ledger,
        (0, E1, EVENT, known({"status": "active", "title": "A"})),
        (1, E1, EVENT, known({"status": "cancelled", "title": "A"})),
        (2, E2, TCS, known([{"tc": "rock"}])),
        (3, OF_PARTNER, FactKey(name="features"), known(["x"])),
    )

    assert told(ledger.observed(ACME, E1)) == [
        ("", "features", ["x"]),
        ("e1", "event", {"status": "cancelled", "title": "A"}),
    ]
    (tcs,) = [one for one in ledger.observed(ACME) if one.event == E2]
    assert (tcs.key, tcs.fact, tcs.at) == (TCS, known([{"tc": "rock"}]), after(2))


def test_a_look_that_is_noted_stays_noted_when_the_fact_changes() -> None:
    ledger = in_memory_ledger(NOW)
    seen(ledger, (0, E1, EVENT, known(1)), (0, E1, SETUP, known(2)))
    ledger.apply(Commit(at=after(1), changes=Changes(partner=ACME, looked_at=(E1, E2))))
    seen(ledger, (2, E1, EVENT, known(3)))
    assert [(one.key, one.looked_at) for one in ledger.observed(ACME)] == [(EVENT, after(1)), (SETUP, None)]


def test_a_change_of_one_field_stores_one_field() -> None:
    ledger = in_memory_ledger(NOW)
    seen(
        ledger,
        (0, E1, EVENT, known({"status": "active", "title": "A" * 1000})),
        (1, E1, EVENT, known({"status": "cancelled", "title": "A" * 1000})),
    )
    with ledger._store.reading() as connection:
        stored = connection.exec_driver_sql("SELECT before FROM observations ORDER BY id").fetchall()

    assert stored == [(None,), ('{"set":{"status":"active"},"unset":[]}',)]


def test_a_change_of_a_fact_that_nobody_stored_is_damage(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path)
    seen(ledger, (0, E1, EVENT, known({"status": "active"})), (1, E1, EVENT, known({"status": "cancelled"})))
    run_sql(tmp_path, "UPDATE observations SET fact = 'evenu'")
    with pytest.raises(LedgerDamaged, match="evenu"):
        ledger.history(ACME)
    ledger.close()


def test_what_is_dropped_leaves_the_rest_readable() -> None:
    ledger = in_memory_ledger(NOW)
    seen(ledger, *((seconds, E1, EVENT, known({"n": seconds, "same": True})) for seconds in range(6)))

    keep(ledger, forget=after(3))

    found = ledger.history(ACME)
    assert told(found.start) == [("e1", "event", {"n": 2, "same": True})]
    assert [value_of(one.fact) for one in found.changes] == [{"n": n, "same": True} for n in (3, 4, 5)]


def test_a_change_that_was_stamped_ahead_is_as_old_as_what_came_next() -> None:
    """Else what came between is left out where only the later ones are asked for, and a sound ledger seems damaged."""
    one, two, gone = known({"a": 1}), known({"a": 2}), Unknown(code="unreadable", why="500")
    looks: list[tuple[int, Fact, Fact]] = [(0, one, one), (3600, one, two), (60, two, gone), (120, gone, two)]
    with in_memory_ledger(NOW) as ledger:
        for seconds, was, fact in looks:
            change = Change(now=observed(fact, seconds), before=None if seconds == 0 else observed(was))
            seen = Changes(partner=ACME, changes=(change,), set_back=seconds == 60)
            ledger.apply(Commit(at=after(seconds), changes=seen))
        then = {seconds: told(ledger.history(ACME, after(seconds), [E1]).start) for seconds in (30, 90, 600)}
        assert [one.at for one in ledger.history(ACME).changes] == [after(at) for at in (0, 60, 60, 120)]
    assert [value for ((_, _, value),) in then.values()] == [{"a": 1}, "unreadable", {"a": 2}]


def test_no_transaction_drops_much_at_once(tmp_path: Path) -> None:
    ledger = in_memory_ledger(NOW)
    state = [observed(known(n)) for n in range(FORGET_AT_ONCE + 10)]
    changes = [Change(now=now, before=before) for before, now in pairwise(state)]
    keep(ledger, Change(now=state[0], before=None), *changes)

    keep(ledger, forget=after(1))
    assert len(list(ledger.history(ACME).changes)) == 10
    keep(ledger, forget=after(1))
    assert told(ledger.history(ACME).start) == [("e1", "event", FORGET_AT_ONCE + 9)]


values: st.SearchStrategy[Json] = st.one_of(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.booleans() | st.integers(0, 2), max_size=3),
    st.lists(st.integers(0, 2), max_size=2),
    st.integers(0, 2),
)
facts: st.SearchStrategy[Fact] = st.one_of(
    st.builds(Known, value=values, read_at=st.just(NOW), gaps=st.dictionaries(st.sampled_from("ab"), st.just("x"))),
    st.just(Unknown(code="unreadable", why="500", read_at=NOW)),
)


@settings(max_examples=60, deadline=timedelta(seconds=2))
@pytest.mark.timeout(20)
@given(
    looks=st.lists(st.tuples(st.sampled_from([E1, E2]), facts), min_size=1, max_size=8),
    since=st.none() | st.integers(0, 8),
)
def test_whatever_was_seen_comes_back_in_its_order(
    shared: SqlLedger, looks: list[tuple[EventId, Fact]], since: int | None
) -> None:
    ledger, partner = shared, PartnerId(f"partner-id-{next(NUMBERS)}")
    state: dict[EventId, Observed] = {}
    changes = []
    for index, (event, fact) in enumerate(looks):
        now = observed(fact, index, event)
        changes.append(Change(now=now, before=state.get(event)))
        state[event] = now
    keep(ledger, *changes, partner=partner)

    found = ledger.history(partner, None if since is None else after(since))

    def body(fact: Fact) -> tuple[object, object]:
        return (fact.value, dict(fact.gaps)) if isinstance(fact, Known) else (fact.code, None)

    start = {event: body(fact) for event, fact in looks[: since or 0]}
    assert {one.event: body(one.fact) for one in found.start} == start
    assert {one.at for one in found.start} <= {after(since or 0)}
    replayed = [(one.at, one.event, body(one.fact)) for one in found.changes]
    seen_then = [(after(index), event, body(fact)) for index, (event, fact) in enumerate(looks)]
    assert replayed == seen_then[since or 0 :]


def test_what_a_record_lacks_now_is_kept_as_it_was_read_last(tmp_path: Path) -> None:
    now = replace(observed(known({"title": "A"}, status="is missing")), last={"status": "active"})
    with open_ledger(tmp_path) as ledger:
        keep(ledger, Change(now=now, before=None))
        assert ledger.observed(ACME) == (now,)


def test_the_facts_of_one_event_are_had_back_as_of_a_time() -> None:
    ledger = in_memory_ledger(NOW)
    assert ledger.facts_begin(ACME) is None
    seen(
        ledger,
        (0, E1, EVENT, known({"status": "active"})),
        (1, OF_PARTNER, FactKey(name="features"), known(["x"])),
        (2, E2, EVENT, known({"status": "idle"})),
        (3, E1, EVENT, known({"status": "cancelled"})),
    )
    assert ledger.facts_begin(ACME) == NOW
    assert told(ledger.history(ACME, after(2.5), [E1]).start) == [
        ("", "features", ["x"]),
        ("e1", "event", {"status": "active"}),
    ]
    assert told(ledger.history(ACME, after(4), [E1]).start)[-1] == ("e1", "event", {"status": "cancelled"})
