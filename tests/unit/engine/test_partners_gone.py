"""What the unsent writes of a partner say while nobody watches it."""

from dataclasses import replace

from tests.builders import NOW, PARTNER, a_write
from worker.engine.partners import held_while_gone
from worker.model.facts import PartnerId, WriteId
from worker.model.writes import State

OTHER = PartnerId("partner-id-other")


def test_planned_writes_of_a_partner_that_is_gone_say_so_once() -> None:
    write = a_write()
    (held,) = held_while_gone([write], {OTHER}, NOW)
    assert (held.after.held_by, [one.reason for one in held.records]) == ("partner_gone", ["partner_gone"])
    assert held_while_gone([held.after], {OTHER}, NOW) == (), "it says so already"


def test_those_of_a_partner_that_is_watched_say_nothing() -> None:
    assert held_while_gone([a_write()], {PARTNER}, NOW) == ()


def test_what_waits_for_a_person_or_is_settled_by_reading_is_held_by_that() -> None:
    states: tuple[State, ...] = ("waiting", "sending", "applied", "unknown", "needs_human")
    writes = [replace(a_write(state=state), id=WriteId(number)) for number, state in enumerate(states)]
    assert held_while_gone(writes, set(), NOW) == ()
