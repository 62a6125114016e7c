"""What a rule says to people: held by no brake, again while it holds, once when it ends, and to whom it is for."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.calling import call, settle_in
from tests.unit.engine.ruletest_bench import SETTINGS, bench_of, passes
from tests.worlds import QUICK, Town, happening, in_town, rule_set, rules_of, several, world
from worker.ledger.reading import open_reading
from worker.messages import Notice, Outbox, Subscriber

TURN = 60.0
TELLING = """
rules:
  - id: tell
    when: event.status == 'cancelled'
    do:
      - notify: {text: "=event.title + ' is cancelled'", remind: 1m, ended: "=event.title + ' takes place'"}
"""


@in_town(
    world(*several(happening, 30, first=0)),
    rules_of("{id: pause-and-tell, when: event.status == 'cancelled', do: [{notify: before}, pause, {notify: after}]}"),
    watched=6,
)
async def test_a_surge_holds_what_writes_and_not_the_message_before_it(here: Town) -> None:
    for number in range(30):
        here.set(f"e{number}", status="cancelled")
    await here.run(30)
    assert here.texts == ["before"] * 30
    assert {one.reason for one in here.writes() if one.intent.action == "pause"} == {"surge"}


@in_town(world(happening("e1")), TELLING, watched=6)
async def test_a_message_is_said_again_each_time_and_once_when_it_ends(here: Town) -> None:
    await here.becomes("e1", 2.5 * TURN, status="cancelled")
    assert here.texts == ["Event e1 is cancelled"] * 3
    assert [one.key.item for one in here.writes()] == ["", "1", "2"]
    await here.becomes("e1", 2 * TURN, status="active")
    assert here.texts[3:] == ["Event e1 takes place"]
    assert set(here.states()) == {"confirmed"}


@in_town(world(happening("e1")), TELLING, watched=6)
async def test_what_was_due_while_the_worker_was_down_is_said_once(here: Town) -> None:
    await here.becomes("e1", 9, status="cancelled")
    await here.restart(5.5 * TURN)
    await here.run(9)
    assert here.texts == ["Event e1 is cancelled"] * 2
    await here.run(TURN)
    assert [one.key.item for one in here.writes()] == ["", "5", "6"]
    here.set("e1", status="active")
    await here.restart(5.5 * TURN)
    await here.run(60)
    assert here.texts[3:] == ["Event e1 takes place"]


@in_town(world(happening("e1")), TELLING)
async def test_the_end_of_a_message_that_was_not_given_is_not_told(here: Town) -> None:
    here.halt(rule="tell")
    await here.run(6)
    await here.becomes("e1", 60, status="cancelled")
    await here.becomes("e1", 60, status="active")
    here.resume()
    await here.run(2 * TURN)
    assert here.texts == []
    assert here.states() == ["skipped"]


@in_town(world(happening("e1")), TELLING, deciding=replace(QUICK.deciding, mode="shadow"), watched=6)
async def test_in_shadow_mode_reminders_and_ends_are_decided_and_not_said(here: Town) -> None:
    await here.becomes("e1", 1.5 * TURN, status="cancelled")
    await here.becomes("e1", 60, status="active")
    assert [(one.state, one.key.item) for one in here.writes()] == [
        ("shadowed", ""),
        ("shadowed", "1"),
        ("shadowed", "ended"),
    ]


@in_town(world(happening("e1")), TELLING, watched=6)
async def test_a_message_asks_nothing_of_the_service_and_waits_for_no_gap(here: Town) -> None:
    """No read is made for it, and no product flag, silence or unreadable event holds it."""
    here.set("e1", status="cancelled")
    await here.restart(5 * 3600)
    here.fault("answer_before", "GET", "/events/e1$", times=50, status=500)
    await here.run(9)
    assert here.texts == ["Event e1 is cancelled"]


TELL = """
rules:
  - id: tell
    when: event.status == 'cancelled'
    do: [{notify: {text: it is cancelled, ended: "=event['note']"}}]
"""


@in_town(world(happening("e1")), TELL, watched=6)
async def test_a_text_that_cannot_be_computed_any_more_is_told_as_refused(here: Town) -> None:
    await here.becomes("e1", 9, status="cancelled")
    await here.becomes("e1", 9, status="active")
    assert [(one.state, one.reason) for one in here.writes()] == [("confirmed", "answer"), ("refused", "bad_value")]


CONFIG = """
api: {base_url: sandbox}
notify: [{name: ops, url: {env: ALERT_URL}, on: [surge]}]
"""


@pytest.mark.parametrize(("name", "code", "said"), [("ops", 0, ""), ("opps", 2, "did you mean 'ops'?")])
def test_check_knows_the_names_under_notify(tmp_path: Path, name: str, code: int, said: str) -> None:
    rule = f"{{id: tell, when: event.status == 'cancelled', do: [{{notify: {{text: x, to: {name}}}}}]}}"
    ran = call("check", config=settle_in(tmp_path, CONFIG, f"rules:\n  - {rule}\n"))
    assert ran.code == code, ran.both
    assert said in ran.both


def test_a_rule_test_sees_what_is_said_again_and_at_the_end() -> None:
    body = """
given: {event: {id: e1, title: Night, status: active}}
steps:
  - {at: 1m, set: {event: {status: cancelled}}, expect: [{rule: tell, action: notify}]}
  - {at: 150s, expect: [{rule: tell, action: notify, params: {text: Night is cancelled}}]}
  - at: 190s
    set: {event: {status: active}}
    expect:
      - {rule: tell, action: notify, params: {text: Night is cancelled}}
      - {rule: tell, action: notify, params: {text: Night takes place}}
  - {at: 10h, expect: []}
"""
    passes(bench_of(rule_set(TELLING), SETTINGS), body)


TO_ONE = """
rules:
  - id: tell-the-hall
    when: event.status == 'cancelled'
    do: [{notify: {text: call the hall, to: hall}}, {notify: to all who ask}]
"""


@in_town(world(happening("e1")), TO_ONE)
async def test_a_message_to_one_goes_to_that_one_alone(here: Town) -> None:
    hall, ops = list[Notice](), list[Notice]()

    def subscriber(name: str, on: str, told: list[Notice]) -> Subscriber:
        def send(one: Notice) -> bool:
            told.append(one)
            return True

        return Subscriber(key=name, name=name, send=send, on=frozenset({on}))

    outbox = Outbox(
        [subscriber("hall", "surge", hall), subscriber("ops", "notify", ops)],
        ledger=open_reading(here.ledger_url),
        place=here.folder / "worker.db",
        seconds=here.clock.monotonic,
        told=lambda *_: None,
    )
    outbox.begin()
    await here.cancelled("confirmed", "confirmed")
    for _ in range(20):
        outbox.tell_news()
        await here.run(3)
    for told, text, other in ((hall, "call the hall", "to all who ask"), (ops, "to all who ask", "call the hall")):
        (message,) = (one.body for one in told)
        assert text in message
        assert other not in message
