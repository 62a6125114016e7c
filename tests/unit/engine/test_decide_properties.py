"""What holds of `decide` for any story: unknown makes nothing fire, restarts and order change nothing, and how eagerly
facts are read changes nothing."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.polls import BUDGET_500, E1, HOUR, INTERVAL, MINUTE, PARTNER, TCS, Story, TargetRead, a_rule, a_set, tcs
from worker.engine.observe import unread_keys
from worker.model.facts import EventId, Fact, FactKey, Observation
from worker.model.rules import Rule, RuleSet, Surge, Watch
from worker.model.writes import State

pytestmark = pytest.mark.timeout(60)
EXAMPLES = 40
EVENTS = (E1, EventId("e2"), EventId("e3"))
WHEN = ("event.status == 'active'", "event.status == 'active' && setup.state == 'DRAFT'", "setup.state != 'NONE'")
DO = (("pause",), ("run",), ("optimisation OFF",), ("create_draft 500", "boost"), ("frontend_status HIDDEN",))
ENDS: tuple[State, ...] = ("confirmed", "unknown", "rejected", "cancelled", "needs_human")

Sort = Literal["status", "setup", "tcs", "campaigns", "send", "blind", "silence"]
Turn = tuple[Sort, int, int, int]
"""What happens before a look: its sort, the event, the value, and the seconds that pass."""

TURNS = st.lists(
    st.tuples(
        st.sampled_from(("status", "setup", "tcs", "campaigns", "send", "blind", "silence")),
        st.integers(0, len(EVENTS) - 1),
        st.integers(0, 4),
        st.sampled_from((3, 3, 3, 60, 700)),
    ),
    min_size=3,
    max_size=14,
)


@st.composite
def rules(draw: st.DrawFn) -> RuleSet:
    """A few rules that may meet on one target."""
    made: list[Rule] = []
    for name in "abc"[: draw(st.integers(1, 3))]:
        rule = a_rule(
            name,
            draw(st.sampled_from(WHEN)),
            *draw(st.sampled_from(DO)),
            on_change=draw(
                st.sampled_from(((), (Watch(fact="suggested_tcs"),), (Watch(fact="setup", by=("state",)),)))
            ),
            parameters=BUDGET_500,
            hold_for=draw(st.sampled_from((None, None, MINUTE))),
            cooldown=draw(st.sampled_from((None, None, 10 * MINUTE))),
            priority=draw(st.integers(0, 1)),
            mode=draw(st.sampled_from((None, None, None, "approve", "shadow"))),
            surge=draw(st.sampled_from((None, None, Surge(events=1, within=HOUR)))),
        )
        if not rule.on_change:
            rule = replace(rule, repeat=draw(st.sampled_from(("once", "enforce"))))
        made.append(rule)
    return a_set(*made)


def begun(of: RuleSet, *, restarting: bool = False, events: Sequence[EventId] = EVENTS) -> Story:
    story = Story(rules=of, confirming=False, restarting=restarting)
    for event in events:
        story.event(event)
        story.setup(event)
        story.put(TCS, tcs("a"), event)
    return story


def played(story: Story, turn: Turn) -> TargetRead:
    """One turn of the world, and the look after it."""
    happens(story, turn)
    return story.look(timedelta(seconds=turn[3]))


def happens(story: Story, turn: Turn) -> None:
    """One turn of the world."""
    sort, number, value, _ = turn
    event = EVENTS[number]
    if sort == "status":
        story.put("event", {"status": ("active", "archived")[value % 2], "client_campaign_status": "RUNNING"}, event)
    elif sort == "setup":
        story.put("setup", {"state": ("NONE", "DRAFT", "PUBLISHED")[value % 3]}, event)
    elif sort == "tcs":
        story.put(TCS, tcs(*"abcd"[: value % 4]), event)
    elif sort == "campaigns":
        story.put("event", {"status": "active", "client_campaign_status": ("RUNNING", "PAUSED")[value % 2]}, event)
    elif sort == "blind":
        story.blind(("event", "setup", TCS)[value % 3], event=event)
    elif sort == "silence":
        story.silence(timedelta(minutes=30 + 30 * value))
    else:
        sent(story, event, value)


def sent(story: Story, event: EventId, value: int) -> None:
    """The event's first open write by its place is sent, or a sent one is settled."""
    writes = [write for write in story.writes.values() if write.key.event == event and not write.final]
    ready = [write for write in writes if write.state != "waiting"]
    if ready:
        first = min(ready, key=lambda write: (write.key.rule, write.key.episode, write.intent.order))
        story.send(first, ENDS[value], effect=value < 2)


@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS)
def test_a_restart_between_any_two_looks_changes_nothing(of: RuleSet, turns: list[Turn]) -> None:
    """Nor is a decision made twice, or stored against the ledger: each look of a story sees to that."""
    running, restarting = begun(of), begun(of, restarting=True)
    for turn in turns:
        assert played(running, turn).outcome == played(restarting, turn).outcome


@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS, data=st.data())
def test_the_order_of_rules_and_events_does_not_matter(of: RuleSet, turns: list[Turn], data: st.DataObject) -> None:
    shuffled = RuleSet(rules=tuple(data.draw(st.permutations(of.rules))))
    story = begun(of)
    other = begun(shuffled, events=data.draw(st.permutations(EVENTS)))
    for turn in turns:
        assert played(story, turn).outcome == played(other, turn).outcome


@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS, data=st.data())
def test_looks_that_can_see_nothing_make_nothing_fire(of: RuleSet, turns: list[Turn], data: st.DataObject) -> None:
    story, dim = begun(of), begun(of)
    for turn in turns:
        sort, number, value, seconds = turn
        if seconds > INTERVAL.total_seconds() and sort != "silence" and data.draw(st.booleans()):
            facts = {event: dict(known) for event, known in dim.facts.items()}
            for event in EVENTS:
                dim.blind(event=event)
            blind = dim.look(INTERVAL)
            assert (blind.fired, blind.moved) == ([], [])
            dim.facts = facts
            assert story.now + INTERVAL == dim.now
            rest = (sort, number, value, int(seconds - INTERVAL.total_seconds()))
            assert played(story, turn).fired == played(dim, rest).fired
        else:
            assert played(story, turn).fired == played(dim, turn).fired


@settings(deadline=None, max_examples=EXAMPLES)
@given(of=rules(), turns=TURNS)
def test_reading_lazily_and_reading_eagerly_decide_alike(of: RuleSet, turns: list[Turn]) -> None:
    eager, lazy = begun(of), begun(of)
    for turn in turns:
        happens(eager, turn)
        lazy.memory, lazy.now, lazy.writes = eager.memory, eager.now, dict(eager.writes)
        for event in EVENTS:
            lazy.facts[event] = needed(of, eager, event)
        after = timedelta(seconds=turn[3])
        assert eager.look(after).outcome == lazy.look(after).outcome


def needed(of: RuleSet, story: Story, event: EventId) -> dict[FactKey, Fact]:
    """Only those of the facts that a reader would have asked for, one round after the other."""
    every = story.facts[event]
    found = {FactKey(name="event"): every[FactKey(name="event")]}
    while True:
        seen = Observation(partner=PARTNER, event=event, facts=found)
        keys = {key for rule in of.rules for key in unread_keys(rule, seen, story.now)} & every.keys()
        if not keys:
            return found
        found |= {key: every[key] for key in keys}
