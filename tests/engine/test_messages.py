"""What a rule says to people: held by no brake, again while it holds, once when it ends, and to whom it is for."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.calling import call, settle_in
from tests.worlds import QUICK, Town, happening, in_town, rules_of, several, world
from worker.ledger.reading import open_reading
from worker.messages import AppriseChannel, Outbox, Subscriber
from worker.model.writes import FINAL

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


CALL_THE_HALL = """
rules:
  - id: tell-the-hall
    when: event.status == 'cancelled'
    do:
      - pause
      - notify: "= event.title + ' is cancelled: call the hall'"
"""
MANY = 12


class Target:
    """Takes what Apprise posts, and answers with ``status``."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.status = 200


@contextmanager
def listening() -> Iterator[tuple[Target, str]]:
    target = Target()

    class Taking(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            target.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(target.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield target, f"json://127.0.0.1:{server.server_port}/a-secret-path"
        server.shutdown()
        thread.join()


def subscriber(address: str, name: str = "", on: str = "notify") -> Subscriber:
    return Subscriber(key=address, name=name, send=AppriseChannel(address, "url").send, on=frozenset({on}))


class Telling:
    """The daemon's outbox over a town's ledger, in the town's time."""

    def __init__(self, here: Town, *subscribers: Subscriber) -> None:
        self.taken: list[bool] = []
        self._outbox = Outbox(
            subscribers,
            ledger=open_reading(here.ledger_url),
            place=here.folder / "worker.db",
            seconds=here.clock.monotonic,
            told=lambda _key, _things, taken: self.taken.append(taken),
        )
        self._outbox.begin()
        self._town = here

    async def go_on(self, seconds: float) -> None:
        """The worker works, and the outbox looks every 3 seconds."""
        for _ in range(round(seconds / 3)):
            await self._town.run(3)
            self._outbox.tell_news()


@in_town(world(*(happening(f"e{number}", title=f"Night {number}") for number in range(MANY))), CALL_THE_HALL)
async def test_what_many_events_have_to_say_is_one_message_and_is_said_once(here: Town) -> None:
    with listening() as (target, address):
        telling = Telling(here, subscriber(address))
        await telling.go_on(9)
        for number in range(MANY):
            here.set(f"e{number}", status="cancelled")
        await telling.go_on(90)
    assert telling.taken == [True]
    (body,) = target.bodies
    assert body["title"] == f"campaign-worker: {MANY} notify"
    for number in range(MANY):
        assert f"Night {number} is cancelled: call the hall" in body["message"], "none is only counted"
    handed = [one for one in here.log("confirmed") if one["action"] == "notify"]
    assert len({one["event"] for one in handed}) == len(handed) == MANY, "each is in the log, once"


@in_town(world(happening("e1")), CALL_THE_HALL)
async def test_nobody_who_takes_messages_holds_up_a_rule(here: Town) -> None:
    with listening() as (target, address):
        target.status = 503
        telling = Telling(here, subscriber(address))
        await telling.go_on(9)
        here.set("e1", status="cancelled")
        await telling.go_on(60)
        assert here.states() == ["confirmed", "confirmed"]
        assert set(telling.taken) == {False}
        target.status = 200
        await telling.go_on(150)
    assert telling.taken[-1:] == [True]
    assert "a-secret-path" not in json.dumps(here.log())
    assert set(here.states()) <= FINAL


TO_ONE = """
rules:
  - id: tell-the-hall
    when: event.status == 'cancelled'
    do: [{notify: {text: call the hall, to: hall}}, {notify: to all who ask}]
"""


@in_town(world(happening("e1")), TO_ONE)
async def test_a_message_to_one_goes_to_that_one_alone(here: Town) -> None:
    with listening() as (hall, its), listening() as (ops, theirs):
        telling = Telling(here, subscriber(its, "hall", on="surge"), subscriber(theirs, "ops"))
        await telling.go_on(6)
        here.set("e1", status="cancelled")
        await telling.go_on(60)
    for told, text, other in ((hall, "call the hall", "to all who ask"), (ops, "to all who ask", "call the hall")):
        (message,) = [body["message"] for body in told.bodies]
        assert text in message
        assert other not in message
