"""When an event is due, and everything that makes it due at once."""

from datetime import UTC, datetime, timedelta

import pytest

from worker.engine.deciding import horizon
from worker.engine.state import EVENT, PARTNER, PartnerState, Stored
from worker.model.commits import OF_PARTNER, PartnerMemory
from worker.model.facts import EventId, Known, PartnerId, Trace

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ONE, TWO = EventId("e1"), EventId("e2")
LATER = NOW + timedelta(minutes=5)
P = PartnerId("p")
AGAIN = timedelta(minutes=30)


@pytest.fixture
def state() -> PartnerState:
    found = PartnerState(partner=P, memory=PartnerMemory(partner=P), memories={}, stored=Stored(partner=P))
    found.under("these rules")
    return found


def fact(value: str, began: float = 0.0) -> Known:
    return Known(value={"status": value}, read_at=NOW, trace=Trace(get="", began=began))


def test_an_event_is_due_at_its_time_and_no_sooner(state: PartnerState) -> None:
    state.due[ONE] = LATER

    assert state.stirred({ONE, TWO}, NOW) == [TWO]
    assert state.stirred({ONE}, LATER) == [ONE]


def test_what_is_learnt_of_one_event_or_of_the_partner_makes_it_due(state: PartnerState) -> None:
    state.observe(ONE, EVENT, fact("active"))
    state.due |= {ONE: LATER, TWO: LATER}
    assert not state.observe(ONE, EVENT, fact("active", 2.0)), "it says the same"
    assert not state.observe(ONE, EVENT, fact("cancelled", 1.0)), "it was read before"
    assert state.stirred({ONE, TWO}, NOW) == []
    assert state.observe(ONE, EVENT, fact("cancelled", 3.0))
    assert state.stirred({ONE, TWO}, NOW) == [ONE]
    state.observe(OF_PARTNER, PARTNER, fact("its record"))
    assert state.stirred({ONE, TWO}, NOW) == [ONE, TWO]


def test_other_circumstances_make_all_of_them_due(state: PartnerState) -> None:
    state.due[ONE] = LATER
    state.under("these rules")
    assert state.stirred({ONE}, NOW) == []
    state.under("others")
    assert state.stirred({ONE}, NOW) == [ONE]


def test_nothing_rests_for_ever_and_not_all_are_due_at_once() -> None:
    ends = {horizon(EventId(f"e{number}"), NOW, AGAIN) for number in range(100)}

    assert len(ends) > 50
    assert all(NOW + AGAIN <= at <= NOW + 2 * AGAIN for at in ends)
