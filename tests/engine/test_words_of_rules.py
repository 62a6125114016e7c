"""A rule that says something is heard by whoever asked for it: from the rule file to the address that Apprise knows."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

from tests.worlds import Town, happening, town, world
from worker.ledger.reading import open_reading
from worker.messages import AppriseChannel, Outbox, Subscriber
from worker.model.writes import FINAL

TELLING = """
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


class Telling:
    """The daemon's outbox over a town's ledger, in the town's time."""

    def __init__(self, acted: Town, address: str) -> None:
        self.taken: list[bool] = []
        channel = AppriseChannel(address, "notify[0].url")
        self._outbox = Outbox(
            [Subscriber(key="notify[0].url", send=channel.send, on=frozenset({"notify"}))],
            ledger=open_reading(acted.ledger_url),
            place=acted.folder / "worker.db",
            seconds=acted.clock.monotonic,
            told=lambda _key, _things, taken: self.taken.append(taken),
        )
        self._outbox.begin()
        self._town = acted

    async def go_on(self, seconds: float) -> None:
        """The worker works, and the outbox looks every 3 seconds."""
        for _ in range(round(seconds / 3)):
            await self._town.run(3)
            self._outbox.tell_news()


def test_what_many_events_have_to_say_is_one_message_and_is_said_once(tmp_path: Path) -> None:
    async def story(acted: Town) -> None:
        telling = Telling(acted, address)
        await telling.go_on(9)
        for number in range(MANY):
            acted.set(f"e{number}", status="cancelled")
        await telling.go_on(90)
        assert telling.taken == [True]
        (body,) = target.bodies
        assert body["title"] == f"campaign-worker: {MANY} notify"
        for number in range(MANY):
            assert f"Night {number} is cancelled: call the hall" in body["message"], "none is only counted"
        handed = [one for one in acted.log("confirmed") if one["action"] == "notify"]
        assert len({one["event"] for one in handed}) == len(handed) == MANY, "each is in the log, once"

    place = world(*(happening(f"e{number}", title=f"Night {number}") for number in range(MANY)))
    with listening() as (target, address), town(tmp_path, place, TELLING) as (_, go):
        go(story)


def test_nobody_who_takes_messages_holds_up_a_rule(tmp_path: Path) -> None:
    async def story(acted: Town) -> None:
        target.status = 503
        telling = Telling(acted, address)
        await telling.go_on(9)
        acted.set("e1", status="cancelled")
        await telling.go_on(60)
        assert acted.states() == ["confirmed", "confirmed"]
        assert telling.taken
        assert not any(telling.taken)
        target.status = 200
        await telling.go_on(150)
        assert telling.taken[-1:] == [True]
        assert "a-secret-path" not in json.dumps(acted.log())
        assert set(acted.states()) <= FINAL

    with listening() as (target, address), town(tmp_path, world(happening("e1")), TELLING) as (_, go):
        go(story)
