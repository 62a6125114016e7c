"""What becomes of the open writes of a partner while nobody watches it."""

from dataclasses import replace
from datetime import timedelta

from tests.builders import NOW, PARTNER, a_write
from worker.engine.partners import held_while_gone
from worker.model.facts import PartnerId, WriteId
from worker.model.writes import State

OTHER, WITHIN = PartnerId("partner-id-other"), timedelta(minutes=15)


def test_planned_writes_of_a_partner_that_is_gone_say_so_once() -> None:
    write = a_write()
    (held,) = held_while_gone([write], {OTHER}, NOW, WITHIN, {})
    assert (held.after.held_by, [one.reason for one in held.records]) == ("partner_gone", ["partner_gone"])
    assert held_while_gone([held.after], {OTHER}, NOW, WITHIN, {}) == (), "it says so already"
    assert held_while_gone([write], {PARTNER}, NOW, WITHIN, {}) == (), "this one is watched"


def test_what_nobody_has_settled_for_long_is_put_before_a_person() -> None:
    states: tuple[State, ...] = ("waiting", "sending", "applied", "unknown", "needs_human")
    writes = [replace(a_write(state=state), id=WriteId(number)) for number, state in enumerate(states)]
    assert held_while_gone(writes, set(), NOW, WITHIN, {}) == (), "it is held by a person, or by reading"
    moves = held_while_gone(writes, set(), NOW + WITHIN, WITHIN, {})
    assert [(one.before.state, one.after.state, one.after.reason) for one in moves] == [
        ("applied", "needs_human", "partner_gone"),
        ("unknown", "needs_human", "partner_gone"),
    ]
    assert held_while_gone(writes, {PARTNER}, NOW + WITHIN, WITHIN, {}) == (), "it is read"
