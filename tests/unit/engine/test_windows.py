"""What facts were some time ago, told by the recorded changes: never by what the record does not reach."""

from collections.abc import Collection, Mapping
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import cases
from tests.polls import E1, HOUR, MINUTE, PARTNER, START, a_rule
from tests.unit.engine.ruletest_bench import a_bench, passes
from worker.engine.derived import NAMED_MOST, PastAsked, derived
from worker.engine.ports import ReadableLedger
from worker.model.commits import KEPT, OF_PARTNER, SILENCE, History, Observed, PartnerMemory
from worker.model.facts import UNREAD, EventId, Fact, FactKey, Json, Known, Observation, PartnerId, Unknown, spelled
from worker.rules.evaluate import expression
from worker.rules.facts import scope_of

EVENT = FactKey(name="event")
THEN = FactKey(name="event@2h")
DAY = 24 * HOUR
NEW = PartnerMemory(partner=PARTNER)


AS_LONG_AS_ASKED = (-99999, KEPT, Known(value={"seconds": 9e7, "config": 9e7}, read_at=START))


class Past:
    """A ledger of so many minutes, each with what a fact was from then on."""

    def __init__(self, *states: tuple[int, FactKey, Fact | Json], event: EventId = E1) -> None:
        self.asked: list[list[EventId] | None] = []
        self._states = [
            Observed(
                event=OF_PARTNER if key.name.startswith("#") else event,
                key=key,
                fact=fact if isinstance(fact, Fact) else Known(value=fact, read_at=START),
                at=START + minute * MINUTE,
            )
            for minute, key, fact in (AS_LONG_AS_ASKED, *states)
        ]

    def history(self, partner: PartnerId, _since: object = None, events: Collection[EventId] | None = None) -> History:
        assert partner == PARTNER
        self.asked.append(None if events is None else list(events))

        return History(begins=None, start=(), changes=tuple(self._states))


def was(seen: Mapping[EventId, Observation], past: Past, asked: PastAsked) -> Mapping[EventId, Observation]:
    """The observations with what was, of a ledger that knows nothing else."""
    return derived(seen, cast("ReadableLedger", past), asked)


def then(past: Past, minute: int, *texts: str, changing: tuple[EventId, ...] = ()) -> Observation:
    """What the event was two hours before that minute, and what else is asked for."""
    rules = [a_rule(str(number), text) for number, text in enumerate(texts or ("ago(event.x, '2h') == 1.0",))]
    seen = {E1: Observation(partner=PARTNER, event=E1, facts={EVENT: Known(value={"x": 9}, read_at=START)})}
    asked = PastAsked(memory=NEW, rules=rules, now=START + minute * MINUTE, gap=HOUR, changing=changing)
    return was(seen, past, asked)[E1]


def why(fact: Fact) -> str:
    return "" if isinstance(fact, Known) else fact.why


STATES = Past((0, EVENT, {"x": 1}), (30, EVENT, {"x": 2}), (45, EVENT, UNREAD), (50, EVENT, {"x": 3}))


def test_while_nobody_read_a_fact_it_is_not_known_what_it_was() -> None:
    assert why(then(STATES, 119).get(THEN)) == (
        "its record begins at 2026-03-01 12:00 UTC; it can be known from 2026-03-01 14:00 UTC on"
    )
    assert why(then(STATES, 165).get(THEN)) == "nobody read it then; it can be known from 2026-03-01 14:50 UTC on"


def test_of_what_could_not_be_read_then_it_is_told_when_it_can_be_known() -> None:
    failed = Unknown(code="unreadable", why="the service answered 500")
    ill = Known(value={}, read_at=START, gaps={"x": "null"})
    states = Past((0, EVENT, failed), (10, EVENT, ill), (30, EVENT, {"x": 1}))
    assert why(then(states, 125).get(THEN)) == "the service answered 500; it can be known from 2026-03-01 14:10 UTC on"
    rule = a_rule("r", "ago(event.x, '2h') == 1.0")
    assert rule.when is not None
    assert rule.when.judge(scope_of(rule, then(states, 135), START)).why == (
        "ago(event.x, '2h') is unknown: null; it can be known from 2026-03-01 14:30 UTC on"
    )


def test_it_is_told_when_it_will_be_another() -> None:
    assert then(STATES, 119).until == START + 120 * MINUTE
    assert then(STATES, 150).until == START + 165 * MINUTE
    assert then(STATES, 170).until is None
    assert then(STATES, 170, changing=(E1,)).until == START + 290 * MINUTE, "what is learnt now is not recorded yet"


def test_a_silence_is_no_time_of_which_anything_is_known_unless_it_is_short() -> None:
    silent = Known(value={"since": spelled(START + 10 * MINUTE)}, read_at=START)
    long = Past((0, EVENT, {"x": 1}), (100, SILENCE, silent), (100, EVENT, {"x": 1}))
    assert why(then(long, 180).get(THEN)) == "nobody looked then; it can be known from 2026-03-01 15:40 UTC on"
    assert then(long, 180).until == START + 220 * MINUTE
    assert isinstance(then(long, 130).get(THEN), Known)
    assert then(long, 130).until is not None
    assert isinstance(then(long, 220).get(THEN), Known)
    short = Past((0, EVENT, {"x": 1}), (60, SILENCE, silent))
    assert isinstance(then(short, 150).get(THEN), Known)
    odd = Past((0, EVENT, {"x": 1}), (60, SILENCE, Known(value={"since": None}, read_at=START)))
    assert isinstance(then(odd, 150).get(THEN), Known)


def test_what_was_dropped_before_a_rule_asked_for_it_is_not_known() -> None:
    def kept(hours: int) -> Known:
        return Known(value={"seconds": 3600.0 * hours, "config": 3600.0}, read_at=START)

    past = Past((0, EVENT, {"x": 1}), (0, KEPT, kept(1)), (200, KEPT, kept(3)))
    assert why(then(past, 199).get(THEN)).startswith("changes were not kept for so long then"), "by the rules before"
    assert why(then(past, 259).get(THEN)).startswith("changes were not kept for so long then")
    assert isinstance(then(past, 261).get(THEN), Known)


def test_facts_under_parameters_are_facts_of_their_own() -> None:
    budget, other = (FactKey(name="expected_value", params=(("budget", one),)) for one in (500.0, 600.0))
    past = Past((0, budget, 7.0), (60, other, 8.0))
    seen = then(past, 130, "ago(expected_value, '2h') == 7.0 && delta(venues.x, '1h') == 0.0")
    assert seen.get(FactKey(name="expected_value@2h", params=budget.params)) == Known(
        value=7.0, read_at=START + 10 * MINUTE
    )
    assert why(seen.get(FactKey(name="expected_value@2h", params=other.params))).startswith("its record begins")
    assert why(seen.get(FactKey(name="venues@1h"))) == (
        "its record begins at 2026-03-01 14:10 UTC; it can be known from 2026-03-01 15:10 UTC on"
    )


def test_many_events_are_looked_up_at_once_and_none_where_no_rule_asks() -> None:
    seen = {
        EventId(f"e{one}"): Observation(partner=PARTNER, event=EventId(f"e{one}"), facts={})
        for one in range(NAMED_MOST + 1)
    }
    past = Past((0, EVENT, {"x": 1}))
    asks = PastAsked(memory=NEW, rules=[a_rule("r", "ago(event.x, '2h') == 1.0")], now=START, gap=HOUR)
    asks_not = PastAsked(memory=NEW, rules=[a_rule("r", "event.x == 1.0")], now=START, gap=HOUR)
    assert len(was(seen, past, asks)) == len(seen)
    assert past.asked == [None]
    was(dict([*seen.items()][:2]), past, asks)
    assert past.asked == [None, ["e0", "e1"]]
    assert was(seen, past, asks_not) is seen


@given(
    st.lists(st.tuples(st.integers(0, 400), st.one_of(st.none(), st.integers(0, 5))), max_size=8),
    st.integers(0, 500),
)
def test_a_window_never_reads_past_its_record(changes: list[tuple[int, int | None]], minute: int) -> None:
    """Against a search of the list by hand."""
    states = sorted(dict(changes).items())
    read: list[Fact | Json] = [UNREAD if value is None else {"x": value} for _, value in states]
    past = Past(*((at, EVENT, fact) for (at, _), fact in zip(states, read, strict=True)))
    found = then(past, minute).get(THEN)
    expected = [value for at, value in states if at <= minute - 120][-1:]
    assert (found.value if isinstance(found, Known) else None) == (
        {"x": expected[0]} if expected != [None] and expected else None
    )
    until = then(past, minute).until
    turns = [at + 120 for at, _ in states if at > minute - 120]
    assert until == (START + min(turns) * MINUTE if turns else None)


# Rules that ask for it, on the daemon's own cycle.


def test_while_a_fact_is_not_read_nothing_is_known_of_it() -> None:
    when = "event.city == 'Ulm' && delta(statistics.tickets, '1h') == 0.0"
    body = """given: {event: {id: e1, city: Ulm}, statistics: {tickets: 5}}
steps:
  - {at: 0s, expect: []}
  - {at: 10m, set: {event: {city: Oslo}}, expect: []}
  - {at: 30m, set: {statistics: {tickets: 9}}}
  - {at: 50m, set: {event: {city: Ulm}}, expect: []}
  - {at: 1h5m}
  - {at: 1h20m, expect: []}
  - {at: 1h50m, expect: [{rule: r, action: pause}]}
"""
    passes(a_bench(f'{{id: r, when: "{when}", do: [pause]}}'), body)


def test_a_condition_knows_its_windows() -> None:
    asked = expression("delta(event.a, '3d') > 1.0 && clusters.exists(c, c.x == ago(setup.b.c, '1h'))")
    assert asked.names == {"event", "clusters", "setup"}
    assert asked.past == {"event@3d", "setup@1h"}
    assert [path.text for path in asked.paths] == [
        "event.a",
        "ago(event.a, '3d')",
        "clusters",
        "setup.b.c",
        "ago(setup.b.c, '1h')",
    ]


@cases(
    "window, now, steps",
    ("3d", "2026-10-15T20:00:00Z", {"9d": 6, "12d": 3}, "the clock is set back on the tenth day"),
    ("36h", "2026-03-10T20:00:00Z", {"2d": 1, "5d": 3}, "what was so in the evening is asked in the morning"),
)
def test_a_fact_is_read_when_a_time_will_ask_what_it_was(window: str, now: str, steps: Mapping[str, int]) -> None:
    when = f"delta(statistics.tickets, '{window}') == 0.0"
    rule = f'{{id: r, at: "0 8 * * *", timezone: Europe/Berlin, when: "{when}", do: [{{notify: none sold}}]}}'
    told = (
        f"{{at: {at}, expect: [{', '.join(['{rule: r, action: notify}'] * count)}]}}" for at, count in steps.items()
    )
    given = f"given: {{now: {now}, event: {{id: e1}}, statistics: {{tickets: 5}}}}"
    assert passes(a_bench(rule), f"{given}\nsteps: [{', '.join(told)}]").polls < 100
