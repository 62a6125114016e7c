"""Messages are grouped, not repeated, say what to type, survive a restart, and harm nothing where they fail."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.builders import cases
from tests.unit.ledger.examples import ACME, NOW, become, fired, key, open_ledger, plan, planned
from worker.cli.run import Beside
from worker.config import read_config
from worker.engine.operators import after_restore
from worker.ledger.reading import open_reading
from worker.ledger.sql import SqlLedger
from worker.ledger.upkeep import accept_restore
from worker.messages import (
    COMMANDS,
    GATHER_S,
    GROUPS_MAX,
    LINES_AT_ONCE,
    LINES_MAX,
    LOG,
    OTHERS_S,
    QUIET_S,
    TEXT_MAX,
    AppriseChannel,
    Digest,
    Note,
    Notice,
    Outbox,
    Subscriber,
    alarm_note,
    note_of,
    words_of,
)
from worker.model.commits import ALARMS, HANDED_OVER, MESSAGE, TOPICS, Commit, Record
from worker.model.errors import LedgerUnwritable, UsageError
from worker.model.facts import PartnerId, RuleId
from worker.writes.intents import Wanted

ASKED = frozenset(
    {
        *("needs_human", "surge", "halted", "cycle_failed", "partner_failing", "partner_well", "ledger_restored"),
        *("ledger_unwritable", "notify"),
    }
)


def item(text: str = "write 7: lost", topic: str = "needs_human", rule: str = "r", partner: str = "p") -> Note:
    return Note(topic=topic, partner=partner, rule=rule, text=text)


# what is told


@cases(
    "record, topic",
    ({"kind": "needs_human", "reason": "ask"}, "needs_human", "a kind that was asked for"),
    ({"kind": "waiting", "reason": "surge"}, "surge", "a reason that was asked for"),
    ({"kind": "waiting", "reason": "mode"}, "", "neither was asked for"),
    ({"kind": "started", "reason": None}, "", "neither was asked for"),
)
def test_a_record_is_told_by_its_kind_or_its_reason(record: dict[str, Any], topic: str) -> None:
    found = note_of(record, ASKED)
    assert ("" if found is None else found.topic) == topic


def test_a_message_names_the_write_the_event_the_reason_and_the_person() -> None:
    said: dict[str, Any] = {"kind": "halted", "write": 7, "action": "boost", "event": "e1", "why": "wrong", "by": "ann"}
    assert note_of(said, ASKED) == item("write 7: boost of e1: wrong (ann)", topic="halted", rule="", partner="")


def test_a_message_that_asks_for_approval_says_what_is_approved_and_what_it_spends() -> None:
    record: dict[str, Any] = {"kind": "waiting", "reason": "surge", "write": 7, "action": "boost", "event": "e1"}
    record["why"] = "26 events"
    boost = Wanted(does="PUBLISHED, draft: total_budget 500", before="DRAFT", amount=500.0, currency="EUR")
    unread = Wanted(does="PUBLISHED", unknown="nobody has read it")
    told, vague = note_of(record, ASKED, boost), note_of(record, ASKED, unread)
    assert told is not None
    assert told.text == "write 7: boost of e1, spends 500 EUR, DRAFT -> PUBLISHED, draft: total_budget 500: 26 events"
    assert vague is not None
    assert "amount unknown: nobody has read it" in vague.text


def test_what_a_service_says_is_one_line_of_bounded_length() -> None:
    found = alarm_note("cycle_failed", {"partner": "p", "error": "a\nb\x1b[31m" + "x" * 900, "hint": "look"})
    assert "\n" not in found.text
    assert "\x1b" not in found.text
    assert len(found.text) == TEXT_MAX


def test_every_topic_has_words_and_a_command() -> None:
    for topic in TOPICS:
        assert words_of(topic) != topic, topic
        assert COMMANDS.get(topic, LOG).startswith("campaign-worker "), topic


# grouping


def test_what_happens_together_is_one_message_with_the_command() -> None:
    digest = Digest()
    for number in range(20):
        digest.add(item(f"write {number}: lost"), 0.5 * number)
    digest.add(item("new writes were halted", topic="halted", rule="", partner=""), 5.0)
    assert digest.due(GATHER_S - 0.1) is None, "what belongs to it may still come"
    message = digest.due(GATHER_S)
    assert message is not None
    assert message.title == "campaign-worker: 20 needs_human, 1 halted"
    assert "needs_human (r, p): only an operator can tell" in message.body
    assert f"and {20 - LINES_MAX} more" in message.body
    assert message.body.endswith("Next:\n  campaign-worker writes --state needs_human\n  campaign-worker status")


def leave(digest: Digest, now: float) -> Notice | None:
    message = digest.due(now)
    if message is not None:
        digest.sent(now)
    return message


def test_a_group_is_not_repeated_and_grows_quieter_while_it_goes_on() -> None:
    digest = Digest()
    told: list[tuple[float, int]] = []
    for second in range(0, 6 * 3600, 3):
        digest.add(item(topic="cycle_failed"), float(second))
        message = leave(digest, float(second))
        if message is not None:
            told.append((second, message.count))
    assert [at for at, _ in told] == [15, 615, 1815, 4215, 9015, 18615]
    assert sum(count for _, count in told) <= 6 * 1200
    assert told[1][1] == 200, "what came meanwhile is counted"


def test_after_a_long_quiet_a_group_is_new() -> None:
    digest = Digest()
    for at in (0.0, 10_000.0):
        digest.add(item(), at)
        assert leave(digest, at + GATHER_S) is not None
    digest.add(item(), 10_000.0 + GATHER_S + QUIET_S - 1)
    assert leave(digest, 10_000.0 + GATHER_S + QUIET_S - 1) is None


def test_what_a_rule_says_is_not_held_back_by_what_it_said_before() -> None:
    digest = Digest()
    for at, text in ((0.0, "down"), (60.0, "down, still"), (90.0, "over")):
        digest.add(item(text, topic=MESSAGE), at)
        message = leave(digest, at + GATHER_S)
        assert message is not None
        assert f"\n  {text}\n" in message.body


def test_another_rule_is_told_although_the_first_is_quiet() -> None:
    digest = Digest()
    digest.add(item(rule="a"), 0.0)
    assert leave(digest, 20.0) is not None
    digest.add(item(rule="a"), 30.0)
    digest.add(item(rule="b"), 30.0)
    message = leave(digest, 50.0)
    assert message is not None
    assert message.count == 1


def test_what_could_not_be_sent_is_kept_and_tried_later_and_later() -> None:
    digest = Digest()
    digest.add(item("first"), 0.0)
    tried: list[float] = []
    for second in range(3600):
        if digest.due(float(second)) is not None:
            digest.failed(float(second))
            tried.append(float(second))
    assert tried == [15, 75, 195, 435, 915, 1875]
    digest.add(item("second"), 3600.0)
    message = leave(digest, 10_000.0)
    assert message is not None
    assert (message.count, "first" in message.body, "second" in message.body) == (2, True, True)


def test_a_flood_of_groups_is_told_in_several_messages() -> None:
    digest = Digest()
    for number in range(GROUPS_MAX + 30):
        digest.add(item(rule=f"r{number}"), 0.0)
    told = [leave(digest, GATHER_S) for _ in range(3)]
    assert [one and one.count for one in told] == [GROUPS_MAX, 30, None]


def test_each_text_of_a_rule_is_told_however_many_there_are_at_once() -> None:
    digest = Digest()
    texts = [f"e{number}: call the hall" for number in range(LINES_AT_ONCE + 7)]
    for text in texts:
        digest.add(item(text, topic=MESSAGE), 0.0)
    both = [one for one in (leave(digest, GATHER_S), leave(digest, GATHER_S)) if one is not None]
    assert [one.title for one in both] == [f"campaign-worker: {LINES_AT_ONCE} notify", "campaign-worker: 7 notify"]
    told = [line.strip() for one in both for line in one.body.splitlines()]
    assert [line for line in told if line in texts] == texts
    assert not any(line.startswith("and ") for line in told)
    assert leave(digest, 2 * GATHER_S) is None


# the outbox


@dataclass
class Wire:
    """A channel that keeps what it was given, or refuses it."""

    taking: bool = True
    messages: list[Notice] = field(default_factory=list)

    def send(self, message: Notice) -> bool:
        self.messages.append(message)
        return self.taking


@dataclass
class Place:
    """A ledger, an outbox over it, and time."""

    folder: Path
    ledger: SqlLedger
    wire: Wire = field(default_factory=Wire)
    now: float = 0.0
    taken: list[bool] = field(default_factory=list)
    mine: bool = True

    def outbox(self, *others: Wire) -> Outbox:
        wires = (self.wire, *others)
        reader = open_reading(f"sqlite:///{self.folder}/worker.db")
        made = Outbox(
            [Subscriber(key=f"notify[{at}].url", send=one.send, on=ASKED) for at, one in enumerate(wires)],
            ledger=reader,
            place=self.folder / "worker.db",
            seconds=lambda: self.now,
            told=lambda _key, _things, taken: self.taken.append(taken),
            tells=lambda _: self.mine,
        )
        made.begin()
        return made

    def say(self, text: str) -> None:
        """A rule's message is handed over, as the worker records it."""
        said = replace(fired(why=HANDED_OVER + text), kind="confirmed", reason="answer", action=MESSAGE)
        said = replace(said, partner=PartnerId("p"), rule=RuleId("r"))
        self.ledger.apply(Commit(at=NOW, records=(said,)))

    def look(self, outbox: Outbox, after_s: float) -> list[Notice]:
        self.now += after_s
        outbox.tell_news()
        found, self.wire.messages[:] = list(self.wire.messages), []
        return found

    def gathered(self, outbox: Outbox) -> list[Notice]:
        """What is told of the news once they have been gathered."""
        return self.look(outbox, 1) + self.look(outbox, GATHER_S)

    def lose(self, episode: int) -> None:
        write = planned(self.ledger, plan(key(episode)))[0]
        become(self.ledger, write, "needs_human", NOW)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with open_ledger(tmp_path) as ledger:
        yield Place(folder=tmp_path, ledger=ledger)


def test_the_past_is_left_alone_and_what_is_new_is_told_once(place: Place) -> None:
    place.lose(1)
    outbox = place.outbox()
    assert place.look(outbox, 60) == []
    place.lose(2)
    assert place.look(outbox, 1) == []
    (message,) = place.look(outbox, GATHER_S)
    assert "write 2: pause of e1" in message.body
    assert message.body.endswith(f"\n\nThe log ends with {place.ledger.head()}."), "it stands where the ledger is not"
    assert place.look(outbox, GATHER_S) == []
    assert place.taken == [True]


def test_in_a_fleet_a_message_says_how_the_chains_end_that_it_tells_of(place: Place) -> None:
    outbox = place.outbox()
    place.say("look at it")
    with closing(sqlite3.connect(place.folder / "worker.db")) as ledger, ledger:
        ends = [("p", "ab" * 32), ("of no interest", "cd" * 32)]
        ledger.executemany("INSERT INTO partners (partner, seq, hash) VALUES (?, 5, ?)", ends)
    (message,) = place.gathered(outbox)
    assert message.body.endswith(f"\n\nThe log ends with {place.ledger.head()}, p:5:{'ab' * 32}.")


def test_what_was_told_while_another_group_was_quiet_is_not_told_again_after_a_restart(place: Place) -> None:
    outbox = place.outbox()
    place.lose(1)
    place.gathered(outbox)
    place.lose(2)
    place.say("call the hall")
    (message,) = place.gathered(outbox)
    assert message.title == "campaign-worker: 1 notify", "the group of the writes is quiet"
    again = place.outbox()
    (message,) = place.gathered(again)
    assert message.title == "campaign-worker: 1 needs_human"
    assert "write 2" in message.body


def test_a_channel_that_fails_makes_no_other_repeat_itself_after_a_restart(place: Place) -> None:
    deaf = Wire(taking=False)
    outbox = place.outbox(deaf)
    place.lose(1)
    assert len(place.gathered(outbox)) == 1
    deaf.messages.clear()
    again = place.outbox(deaf)
    assert place.gathered(again) == []
    assert len(deaf.messages) == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_what_the_owner_of_a_partner_did_not_live_to_tell_is_told_by_the_next(place: Place, restarted: bool) -> None:
    """Before it has the partner it has read the record already; and a worker that starts has no partner at first."""
    place.mine = False
    outbox = place.outbox()
    place.say("look at it")
    place.look(outbox, 1)
    if restarted:
        outbox = place.outbox()
        place.look(outbox, 1)
    place.mine = True
    place.look(outbox, 10)
    (message,) = place.look(outbox, GATHER_S)
    assert "look at it" in message.body
    assert place.look(outbox, GATHER_S) == []


def test_what_another_worker_has_had_the_time_to_tell_is_left_to_it(place: Place) -> None:
    place.mine = False
    outbox = place.outbox()
    place.say("look at it")
    place.look(outbox, 1)
    place.look(outbox, OTHERS_S)
    place.mine = True
    assert place.gathered(outbox) == []


def test_alarms_and_words_of_rules_are_told(place: Place) -> None:
    outbox = place.outbox()
    outbox.alarm("cycle_failed", {"partner": "p", "error": "no answer"})
    outbox.alarm("partner_found", {"partner": "p"})
    outbox.alarm("partner_lost", {"partner": "p"})
    place.say("call the hall")
    (message,) = place.gathered(outbox)
    assert message.title == "campaign-worker: 1 cycle_failed, 1 notify"
    assert "e1: call the hall" in message.body
    assert "handed over" not in message.body


def test_the_end_of_an_alarm_is_told_as_well(place: Place) -> None:
    beside, outbox = Beside(read_config(place.folder / "config.yaml", "")), place.outbox()
    beside._outbox = outbox
    beside.alarm("partner_failing", partner="p", error="503")
    beside.note("first_list", partner="p", pages=1, of_pages=2)
    beside.note("partner_well", partner="p")
    (message,) = place.gathered(outbox)
    assert message.title == "campaign-worker: 1 partner_failing, 1 partner_well"


@pytest.mark.parametrize("taking", [True, False])
def test_what_was_heard_last_is_told_before_the_end_or_after_the_next_start(place: Place, taking: bool) -> None:
    place.wire.taking = taking
    with place.outbox() as outbox:
        outbox.alarm("cycle_failed", {"partner": "p", "error": "no answer"})
    (message,) = place.wire.messages
    assert "no answer" in message.body
    place.wire.messages.clear()
    again = place.outbox()
    assert len(place.gathered(again)) == (0 if taking else 1)


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "{}", '{"seq": "x"}', '{"seq": 999}', "[]", '{"seq": 0, "owed": {"notify[0].url": [["halted"]]}}'],
)
def test_a_place_that_cannot_be_read_begins_at_the_end(place: Place, text: str) -> None:
    place.lose(1)
    (place.folder / "worker.db.told").write_text(text, "utf-8")
    outbox = place.outbox()
    assert place.look(outbox, 60) == []
    assert json.loads((place.folder / "worker.db.told").read_text("utf-8"))["chains"] == {"": 2}


def gone_on_with(folder: Path, at: datetime) -> None:
    """An operator accepts the ledger that was put back there."""
    accept_restore(
        f"sqlite:///{folder}/worker.db",
        by="ann",
        now=at,
        restored=lambda write: after_restore(write, by="ann", now=at),
        in_step=True,
    )


@pytest.mark.parametrize("lost", [1, 20], ids=["few", "many"])
def test_of_a_restored_ledger_that_was_accepted_is_told_however_much_was_told_of_the_lost_one(
    tmp_path: Path, lost: int
) -> None:
    accepted_at = NOW + timedelta(hours=1)
    with open_ledger(tmp_path) as ledger:
        place = Place(folder=tmp_path, ledger=ledger)
        outbox = place.outbox()
        place.say("in the backup")
        planned(ledger, plan(key(1)))
        ledger.backup(tmp_path / "backup.db")
        for number in range(lost):
            place.say(f"in no backup: {number}")
        place.gathered(outbox)
        place.look(outbox, 1)
    for name in ("worker.db-wal", "worker.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "backup.db").replace(tmp_path / "worker.db")
    gone_on_with(tmp_path, accepted_at)
    with open_ledger(tmp_path) as ledger:
        place = Place(folder=tmp_path, ledger=ledger)
        outbox = place.outbox()
        (message,) = place.gathered(outbox)
        assert message.title == "campaign-worker: 1 ledger_restored, 1 needs_human"
        assert place.look(place.outbox(), 60) == [], "once"


def test_of_a_ledger_put_back_beneath_a_worker_that_runs_is_told_as_of_any_that_was_accepted(place: Place) -> None:
    """As a fleet does: its workers stay, and go on once somebody has accepted it."""
    accepted_at = NOW + timedelta(hours=1)
    planned(place.ledger, plan(key(1)))
    outbox, (kept,) = place.outbox(), place.ledger.heads().values()
    for number in range(5):
        place.say(f"lost: {number}")
    assert "lost: 4" in place.gathered(outbox)[0].body
    with place.ledger._store.writing() as connection:
        connection.exec_driver_sql("DELETE FROM action_log WHERE seq > ?", (kept.seq,))
        connection.exec_driver_sql("UPDATE partners SET seq = ?, hash = ?", (kept.seq, kept.hash))
    place.ledger.close()
    assert place.gathered(outbox) == []
    gone_on_with(place.folder, accepted_at)
    (message,) = place.gathered(outbox)
    assert message.title == "campaign-worker: 1 ledger_restored, 1 needs_human"
    assert place.look(outbox, 60) == place.look(place.outbox(), 60) == [], "once"


def test_a_ledger_that_cannot_be_read_ends_no_look(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    outbox = place.outbox()

    def broken(*_: object) -> Iterator[dict[str, Any]]:
        raise LedgerUnwritable("no disk")

    place.say("call the hall")
    for name in ("log", "heads"):
        monkeypatch.setattr(outbox._ledger, name, broken)  # what a disk or a server does
    assert place.look(outbox, 60) == []
    outbox.alarm("ledger_unwritable", {"error": "no disk"})
    (message,) = place.gathered(outbox)
    assert message.title == "campaign-worker: 1 ledger_unwritable"
    assert message.body.endswith("The log ends with (not known).")
    monkeypatch.undo()
    (message,) = place.gathered(outbox)
    assert "call the hall" in message.body


def test_a_folder_that_cannot_be_written_ends_no_look(place: Place) -> None:
    outbox = place.outbox()
    (place.folder / "worker.db.told.new").mkdir()
    place.ledger.apply(Commit(at=NOW, records=(fired(), Record(at=NOW, kind="halted", why="x", partner=ACME))))
    assert len(place.gathered(outbox)) == 1


# Apprise itself


class Listener(BaseHTTPRequestHandler):
    """Takes what Apprise posts."""

    bodies: ClassVar[list[dict[str, Any]]] = []
    status = 200

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def listener() -> Iterator[str]:
    Listener.bodies, Listener.status = [], 200
    with HTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"json://127.0.0.1:{server.server_port}/secret-path"
        server.shutdown()
        thread.join()


def test_a_real_message_arrives_as_text(listener: str) -> None:
    channel = AppriseChannel(listener, "notify[0].url")
    text = "<b>e1</b>\n  campaign-worker status"
    assert channel.send(Notice(title="campaign-worker: 1 waiting", body=text, count=1))
    (body,) = Listener.bodies
    assert (body["title"], body["message"]) == ("campaign-worker: 1 waiting", text)


@pytest.mark.parametrize(("asked", "parts"), [("", 2), ("?overflow=truncate", 1)])
def test_what_is_too_long_for_a_service_comes_in_parts_unless_the_address_says_otherwise(
    listener: str, asked: str, parts: int
) -> None:
    text = "\n".join(f"write {number}: lost" for number in range(2_500))
    assert AppriseChannel(listener + asked, "notify[0].url").send(Notice(title="t", body=text, count=1))
    assert [len(one["message"]) <= 32_768 for one in Listener.bodies] == [True] * parts


def test_a_service_that_says_no_or_nothing_is_a_no(listener: str, caplog: pytest.LogCaptureFixture) -> None:
    Listener.status = 500
    message = Notice(title="t", body="b", count=1)
    assert not AppriseChannel(listener, "notify[0].url").send(message)
    assert not AppriseChannel("json://127.0.0.1:1/secret-path", "notify[0].url").send(message)
    assert "secret-path" not in caplog.text


def test_an_address_that_is_none_is_refused_without_being_repeated(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UsageError, match=r"notify\[3\]\.url") as caught:
        AppriseChannel("nonsense-secret", "notify[3].url")
    assert "secret" not in str(caught.value) + caught.value.hint + caplog.text


def test_alarms_are_what_the_daemon_cries_out() -> None:
    source = Path(__file__).resolve().parents[3] / "worker"
    text = "".join(
        file.read_text("utf-8") for folder in ("engine", "cli") for file in sorted((source / folder).glob("*.py"))
    )
    assert [name for name in ALARMS if f'"{name}"' not in text] == []
