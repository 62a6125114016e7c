"""What a rule says to people: held by no brake, again while it holds, once when it ends, and to whom it is for."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.calling import call, settle_in
from tests.engine.test_words_of_rules import listening
from tests.worlds import QUICK, Town, happening, in_town, plays, town, world
from worker.ledger.reading import open_reading
from worker.messages import AppriseChannel, Outbox, Subscriber

TURN = 60.0
TELLING = """
rules:
  - id: tell
    when: event.status == 'cancelled'
    do:
      - notify: {text: "=event.title + ' is cancelled'", remind: 1m, ended: "=event.title + ' takes place'"}
"""
SEVERAL = """
rules:
  - id: pause-and-tell
    when: event.status == 'cancelled'
    do: [{notify: before}, pause, {notify: after}]
"""


def texts(here: Town) -> list[str]:
    return [one.text for one in here.notebook.messages]


@in_town(world(*(happening(f"e{number}") for number in range(30))), TELLING)
async def test_more_messages_than_a_surge_allows_go_out_unasked(here: Town) -> None:
    await here.run(6)
    for number in range(30):
        here.set(f"e{number}", status="cancelled")
    await here.run(9)
    assert here.states() == ["confirmed"] * 30


@in_town(world(*(happening(f"e{number}") for number in range(30))), SEVERAL)
async def test_a_surge_holds_what_writes_and_not_the_message_before_it(here: Town) -> None:
    await here.run(6)
    for number in range(30):
        here.set(f"e{number}", status="cancelled")
    await here.run(30)
    assert texts(here) == ["before"] * 30
    assert {one.reason for one in here.writes() if one.intent.action == "pause"} == {"surge"}


@in_town(world(happening("e1")), TELLING)
async def test_a_message_is_said_again_each_time_and_once_when_it_ends(here: Town) -> None:
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.run(2.5 * TURN)
    assert texts(here) == ["Event e1 is cancelled"] * 3
    assert [one.key.item for one in here.writes()] == ["", "1", "2"]
    here.set("e1", status="active")
    await here.run(2 * TURN)
    assert texts(here)[3:] == ["Event e1 takes place"]
    assert set(here.states()) == {"confirmed"}


@in_town(world(happening("e1")), TELLING)
async def test_what_was_due_while_the_worker_was_down_is_said_once(here: Town) -> None:
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.run(9)
    await here.kill()
    await here.clock.sleep(5.5 * TURN)
    here.start()
    await here.run(9)
    assert texts(here) == ["Event e1 is cancelled"] * 2
    await here.run(TURN)
    assert [one.key.item for one in here.writes()] == ["", "5", "6"]
    await here.kill()
    here.set("e1", status="active")
    await here.clock.sleep(5.5 * TURN)
    here.start()
    await here.run(60)
    assert texts(here)[3:] == ["Event e1 takes place"]


@in_town(world(happening("e1")), TELLING)
async def test_the_end_of_a_message_that_was_not_given_is_not_told(here: Town) -> None:
    here.notebook.fails = 1000
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.run(60)
    here.set("e1", status="active")
    await here.run(60)
    here.notebook.fails = 0
    await here.run(2 * TURN)
    assert texts(here) == []
    assert here.states() == ["skipped"]


@in_town(world(happening("e1")), TELLING, deciding=replace(QUICK.deciding, mode="shadow"))
async def test_in_shadow_mode_reminders_and_ends_are_decided_and_not_said(here: Town) -> None:
    await here.run(6)
    here.set("e1", status="cancelled")
    await here.run(1.5 * TURN)
    here.set("e1", status="active")
    await here.run(60)
    assert [(one.state, one.key.item) for one in here.writes()] == [
        ("shadowed", ""),
        ("shadowed", "1"),
        ("shadowed", "ended"),
    ]


@in_town(world(happening("e1")), TELLING)
async def test_a_message_asks_nothing_of_the_service_and_waits_for_no_gap(here: Town) -> None:
    """No read is made for it, and no product flag, silence or unreadable event holds it."""
    await here.run(6)
    await here.kill()
    here.set("e1", status="cancelled")
    await here.clock.sleep(5 * 3600)
    here.start()
    here.fault("answer_before", "GET", "/events/e1$", times=50, status=500)
    await here.run(9)
    assert texts(here) == ["Event e1 is cancelled"]


def test_a_text_that_cannot_be_computed_any_more_is_told_as_refused(tmp_path: Path) -> None:
    rules = """
rules:
  - id: tell
    when: event.status == 'cancelled'
    do: [{notify: {text: it is cancelled, ended: "=event['note']"}}]
"""

    async def story(here: Town) -> None:
        await here.run(6)
        here.set("e1", status="cancelled")
        await here.run(9)
        here.set("e1", status="active")
        await here.run(9)
        assert [(one.state, one.reason) for one in here.writes()] == [("confirmed", "answer"), ("refused", "bad_value")]

    plays(story, tmp_path, world(happening("e1")), rules)


def test_a_message_to_one_goes_to_that_one_alone(tmp_path: Path) -> None:
    rules = """
rules:
  - id: tell-the-hall
    when: event.status == 'cancelled'
    do: [{notify: {text: call the hall, to: hall}}, {notify: to all who ask}]
"""

    async def story(here: Town) -> None:
        box = Outbox(
            [
                Subscriber(key="0", name="hall", send=AppriseChannel(hall_url, "0").send, on=frozenset({"surge"})),
                Subscriber(key="1", name="ops", send=AppriseChannel(ops_url, "1").send, on=frozenset({"notify"})),
            ],
            ledger=open_reading(here.ledger_url),
            place=here.folder / "worker.db",
            seconds=here.clock.monotonic,
            told=lambda *_: None,
        )
        box.begin()
        await here.run(6)
        here.set("e1", status="cancelled")
        for _ in range(20):
            await here.run(3)
            box.tell_news()
        (told,) = [body["message"] for body in hall.bodies]
        assert "call the hall" in told
        assert "to all who ask" not in told
        (told,) = [body["message"] for body in ops.bodies]
        assert "to all who ask" in told
        assert "call the hall" not in told

    with (
        listening() as (hall, hall_url),
        listening() as (ops, ops_url),
        town(tmp_path, world(happening("e1")), rules) as (_, go),
    ):
        go(story)


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


def test_a_rule_test_sees_what_is_said_again_and_at_the_end(tmp_path: Path) -> None:
    config = settle_in(tmp_path, "api: {base_url: sandbox}\n", TELLING)
    (tmp_path / "rules" / "tests").mkdir()
    (tmp_path / "rules" / "tests" / "a.yaml").write_text("""
tests:
  - name: it is told, again, and its end
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
""")
    ran = call("test", config=config)
    assert ran.code == 0, ran.both
