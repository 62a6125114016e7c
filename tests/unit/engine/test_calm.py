"""Calm: what need not be looked at, and everything that ends it."""

from datetime import UTC, datetime, timedelta

from worker.engine.due import Calm, horizon
from worker.model.facts import EventId

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
ONE, TWO = EventId("e1"), EventId("e2")
LATER = NOW + timedelta(minutes=5)
AGAIN = timedelta(minutes=30)


def test_what_was_never_looked_at_is_stirred() -> None:
    assert Calm().stirred({TWO, ONE}, NOW) == [ONE, TWO]


def test_calm_lasts_until_its_time_and_no_longer() -> None:
    calm = Calm()
    calm.keep(ONE, LATER)

    assert calm.stirred({ONE, TWO}, NOW) == [TWO]
    assert calm.stirred({ONE}, LATER) == [ONE]


def test_what_is_learnt_of_one_event_or_of_the_partner_ends_it() -> None:
    calm = Calm()
    calm.keep(ONE, LATER)
    calm.keep(TWO, LATER)
    calm.stir(ONE)
    calm.stir(EventId("never met"))

    assert calm.stirred({ONE, TWO}, NOW) == [ONE]
    calm.stir_all()
    assert calm.stirred({ONE, TWO}, NOW) == [ONE, TWO]


def test_calm_holds_only_under_the_rules_it_was_found_under() -> None:
    calm = Calm()
    calm.only_under("these rules")
    calm.keep(ONE, LATER)
    calm.only_under("these rules")
    assert calm.stirred({ONE}, NOW) == []
    calm.only_under("others")
    assert calm.stirred({ONE}, NOW) == [ONE]


def test_no_calm_lasts_for_ever_and_not_all_end_at_once() -> None:
    ends = {horizon(EventId(f"e{number}"), NOW, AGAIN) for number in range(100)}

    assert len(ends) > 50
    assert all(NOW + AGAIN <= at <= NOW + 2 * AGAIN for at in ends)
