"""A ledger as a killed process leaves it, one place of its files spoilt, and what must be true of it then.

The expectation is reckoned from the bytes alone and shares no code with the worker: a write-ahead log is whole up to
the last commit that ends before the damage, and what lies behind it is not there. `Left` remembers what every table
held after each commit, so that "a whole prefix of the commits" is compared row by row.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, get_args
from unittest.mock import patch

from tests.simulation.disk import shared_engine
from tests.unit.ledger.examples import (
    ACME,
    E1,
    NOW,
    after,
    fired,
    intent,
    key,
    memory,
    no_brake,
    open_ledger,
    plan,
)
from worker.ledger import database
from worker.ledger.sql import SqlLedger
from worker.model.commits import Commit, LogFilter, Move, PartnerMemory, Sending, of_write
from worker.model.errors import NotSafe, WorkerError
from worker.model.facts import Json
from worker.model.writes import State, Write

Part = Literal["", "-wal", "-shm", ".mark"]
"""How the names of a ledger's files end."""
PARTS: tuple[Part, ...] = get_args(Part)
Tables = dict[str, list[tuple[object, ...]]]
WAL_HEAD, FRAME_HEAD = 32, 24
SHM = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
PAGE = MARK_SLOT = 4096
REQUEST: dict[str, Json] = {
    "method": "PUT",
    "url": "https://api.example.com/events/e1/client_campaign_status",
    "body": None,
}
RESPONSE: dict[str, Json] = {"status": 429, "x_request_id": "b1f7a4", "retry_after": "5", "took_ms": 41}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What stood in every table after a commit, and how far the action log had come."""

    tables: Tables
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """The files of a ledger whose process was killed.

    ``moments``: what the file alone holds, and what it holds with each commit of the write-ahead log. ``ends``: where
    these commits end in the log, by byte. ``frames``: where the frames of these commits begin. ``sent``: the seq of
    the last ``sending`` that was marked: its byte may have left.
    """

    files: dict[Part, bytes]
    moments: tuple[Moment, ...]
    ends: tuple[int, ...]
    frames: tuple[int, ...]
    sent: int

    @property
    def without_the_last(self) -> dict[Part, bytes]:
        """The files without the last ``sending``, and without what came after it."""
        whole = sum(moment.seq < self.sent for moment in self.moments) - 1
        return {**self.files, "-wal": self.files["-wal"][: self.ends[whole - 1]]}

    def prefix(self, at: int, *, cut: bool) -> int:
        """How many commits of the log are whole where it is cut at this byte, or changed there."""
        if at < WAL_HEAD:
            return 0
        spoilt = at if cut else max((frame for frame in self.frames if frame <= at), default=at)
        return sum(end <= spoilt for end in self.ends) if at < self.ends[-1] else len(self.ends)


def put(folder: Path, files: dict[Part, bytes]) -> None:
    """These files are the ledger now, and new ones: what an error still holds open of earlier ones is no matter."""
    for part in PARTS:
        file = folder / f"worker.db{part}"
        file.unlink(missing_ok=True)
        if part in files:
            file.write_bytes(files[part])


def taken(folder: Path) -> dict[Part, bytes]:
    """The files as they are at this moment, as a process leaves them that ends without a word."""
    files = {part: folder / f"worker.db{part}" for part in PARTS}
    return {part: file.read_bytes() for part, file in files.items() if file.exists()}


def flipped(content: bytes, at: int) -> bytes:
    """One bit is another one; which of the eight follows from the place."""
    spoilt = bytearray(content)
    spoilt[at] ^= 1 << (at * 5 + at // 8) % 8
    return bytes(spoilt)


def tables_of(file: Path) -> Tables:
    """Every row of every table, read without the worker. Raises `sqlite3.Error` where SQLite cannot read one."""
    with closing(sqlite3.connect(file)) as connection:
        connection.text_factory = bytes
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
        return {
            str(name, "utf-8"): connection.execute(f'SELECT * FROM "{str(name, "utf-8")}"').fetchall()  # noqa: S608
            for (name,) in names
        }


@contextmanager
def in_memory() -> Iterator[Path]:
    """A folder that no disk slows down, where the machine has one. Meanwhile ledgers share SQLAlchemy's compiled
    statements: compiling them anew for each opening would take longer than the opening."""
    with (
        TemporaryDirectory(dir=SHM if SHM.is_dir() else None) as folder,
        patch.object(database, "engine_of", shared_engine),
    ):
        yield Path(folder)


class Story:
    """A ledger that is written to commit by commit, with a look at its tables after each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moments: list[Moment] = []
        self.sent = 0
        self._ledger = open_ledger(folder)
        self._clock = 0.0

    def committed(self) -> None:
        seq = self._ledger.last_seq()
        self.moments.append(Moment(tables=tables_of(self.folder / "worker.db"), seq=seq))

    def tick(self) -> float:
        self._clock += 1.7
        return self._clock

    def plans(self, event: str, action: str, budget: float | None = None) -> Write:
        """A rule fires: memory, record and write are one commit."""
        at = after(self.tick())
        facts: dict[str, Json] = {"event.status": {"value": "cancelled", "read_at": "2026-01-31T12:00:00.000Z"}}
        wanted = replace(intent(action, budget=budget), wanted={"client_campaign_status": "PAUSED"})
        (write,) = self._ledger.apply(
            Commit(
                at=at,
                records=(fired(at, event=event, why="event.status is 'cancelled'", facts=facts),),
                memory=(replace(memory(event=event), open=True, fired=True, fired_at=at),),
                partner=PartnerMemory(partner=ACME, listed_at=at),
                plans=(plan(key(event=event), wanted),),
            )
        )
        self.committed()
        return write

    def sends(self, write: Write) -> Write:
        """The next attempt is on the disk and marked: from here on its byte may leave."""
        at = after(self.tick())
        new = replace(write, state="sending", changed_at=at, attempt=write.attempt + 1, last_sent_at=at)
        new = replace(new, first_sent_at=write.first_sent_at or at, before="RUNNING", before_known=True)
        record = of_write(new, at=at, kind="sending", reason="condition", why=f"attempt {new.attempt}")
        record = replace(record, request=REQUEST, before="RUNNING")
        amount = 120.5 if write.intent.spends else None
        sending = Sending(move=Move(before=write, after=new, records=(record,)), check=no_brake, amount=amount)
        assert self._ledger.record_sending(sending) is None
        self.committed()
        self.sent = self._ledger.last_seq()
        return new

    def becomes(self, write: Write, state: State, **more: object) -> Write:
        at = after(self.tick())
        new = replace(write, state=state, changed_at=at, **more)  # type: ignore[arg-type] # fields of a write
        record = of_write(new, at=at, kind=state, reason="condition", why="the answer was 429, and hides what became")
        record = replace(record, response=RESPONSE)
        self._ledger.apply(Commit(at=at, moves=(Move(before=write, after=new, records=(record,)),)))
        self.committed()
        return new

    def looks(self, write: Write, says: str) -> None:
        at = after(self.tick())
        seen: dict[str, Json] = {
            "get": "/events/e1",
            "read_at": "2026-01-31T12:00:09.000Z",
            "status": 200,
            "value": "RUNNING",
        }
        record = of_write(write, at=at, kind="evidence", reason="condition", why=f"the read says {says}")
        self._ledger.apply(Commit(at=at, records=(replace(record, evidence={**seen, "says": says}),)))
        self.committed()

    def earlier_writes(self) -> None:
        """The whole life of a write (sent, unknown, absent, sent again, seen), and one that is unknown."""
        self.becomes(self.sends(self.plans("e8", "boost", 90.0)), "unknown", unknown_since=NOW)
        write = self.plans("e9", "pause")
        write = self.becomes(self.sends(write), "unknown", unknown_since=NOW)
        self.looks(write, "not_there")
        self.looks(write, "not_there")
        write = self.sends(write)
        self.becomes(write, "confirmed", confirmed_by="read")

    def later_writes(self) -> None:
        """Another one beside it that nobody knows of, and a third that was just sent."""
        pause = self.plans("e1", "pause")
        pause = self.becomes(self.sends(pause), "unknown", unknown_since=NOW)
        self.looks(pause, "not_there")
        boost = self.plans("e2", "boost", 300.0)
        self.becomes(self.sends(boost), "unknown", unknown_since=NOW)
        self.looks(pause, "there")

    def restarts_the_log(self) -> None:
        """What was committed moves into the file, and the next commit begins the write-ahead log anew: frames of the
        earlier one stay behind it, as in every ledger that has run for a while."""
        with closing(sqlite3.connect(self.folder / "worker.db")) as other:
            assert other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0

    def close(self) -> None:
        self._ledger.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a ledger says that was opened again: whether its chain is whole, its log, its writes, and every table."""

    whole: bool
    log: list[dict[str, Json]]
    writes: list[Write]
    tables: Tables


def opened(folder: Path) -> Found | NotSafe:
    """The ledger opened as a start does, and looked at; or why it was refused. Any other error is a defect."""
    try:
        with open_ledger(folder, after(100)) as ledger:
            whole = ledger.verify() is None
            log, writes = list(ledger.log(LogFilter())), ledger.writes()
    except NotSafe as error:
        return error
    return Found(whole=whole, log=log, writes=writes, tables=tables_of(folder / "worker.db"))


def replayed(log: list[dict[str, Json]]) -> dict[Json, tuple[Json, int]]:
    """State and attempt of each write, told by nothing but the log."""
    states = set(get_args(State))
    found: dict[Json, tuple[Json, int]] = {}
    for row in log:
        if row["write"] is not None and row["kind"] in states:
            attempt = found.get(row["write"], ("", 0))[1] + (row["kind"] == "sending")
            found[row["write"]] = row["kind"], attempt
    return found


def complaint(left: Left, found: Found | NotSafe, whole: int) -> str:
    """What is wrong with it where so many commits of the write-ahead log are whole; empty where nothing is."""
    moment = left.moments[whole]
    if isinstance(found, NotSafe):
        if moment.seq >= left.sent:
            return f"refused, though no sending is missing: {found}"
        return refused_in_words(found, f"it is not what had reached seq {left.sent}")
    if moment.seq < left.sent:
        return f"gone on with at seq {moment.seq}, though a byte may have left at seq {left.sent}"
    if found.tables != moment.tables:
        return f"not what was there after commit {whole}"
    if not found.whole or len(found.log) != moment.seq:
        return "its log is not whole"
    told = {write.id: (write.state, write.attempt) for write in found.writes}
    return "" if replayed(found.log) == told else "its writes are not what its log tells"


def refused_in_words(refused: NotSafe, words: str) -> str:
    """A refusal says what is the matter, and what to do now."""
    wrong = refused.exit_code != 3 or words not in str(refused) or "accept-restore" not in refused.hint
    return f"refused in other words: {refused}" if wrong else ""


def goes_on(folder: Path, left: Left, files: dict[Part, bytes], whole: int) -> str:
    """What is wrong once a worker has gone on with these files and was killed again: its commit follows what was whole,
    and nothing of what lay behind the damage has come back."""
    put(folder, files)
    with open_ledger(folder, after(100)) as ledger:
        ledger.apply(Commit(at=after(100), records=(fired(after(100), event="e1"),)))
        then = taken(folder)
    put(folder, then)
    found = opened(folder)
    moment = left.moments[whole]
    if isinstance(found, NotSafe):
        return f"refused after going on: {found}"
    if not found.whole or len(found.log) != moment.seq + 1 or found.log[-1]["at"] != "2026-01-31T12:01:40.000Z":
        return "the commit after the damage does not follow what was whole"
    same = beside_the_log(found.tables) == beside_the_log(moment.tables)
    return "" if same else "going on has changed more than it wrote"


def beside_the_log(tables: Tables) -> Tables:
    """All but the log, and the row that says where its chain ends."""
    found = {name: rows for name, rows in tables.items() if name != "action_log"}
    return {**found, "partners": [row for row in found["partners"] if row[0]]}


def of_wal(folder: Path, left: Left, at: int, *, cut: bool, on: bool) -> tuple[str, str]:
    """What became of the ledger with its write-ahead log cut or changed at this byte, and what is wrong with it.

    The file that the processes shared the log by is there at even places only, as after a kill; a machine that went
    down leaves none. ``on``: what stands is gone on with too, and what is refused is opened once more.
    """
    wal = left.files["-wal"]
    files = {**left.files, "-wal": wal[:at] if cut else flipped(wal, at)}
    if at % 2:
        del files["-shm"]
    whole = left.prefix(at, cut=cut)
    put(folder, files)
    found = opened(folder)
    wrong = complaint(left, found, whole)
    refused = isinstance(found, NotSafe)
    if refused and not wrong and any(taken(folder).get(part) != files[part] for part in ("", "-wal", ".mark")):
        wrong = "refused, and not left as it was"
    if on and not wrong:
        wrong = complaint(left, opened(folder), whole) if refused else goes_on(folder, left, files, whole)
    return "refused" if refused else "stands", wrong


def of_mark(folder: Path, left: Left, at: int, *, cut: bool, lost: bool) -> tuple[str, str]:
    """The same for the mark. ``lost``: the ledger lacks its last ``sending``.

    One of the two slots is spoilt, or both. A ledger that lacks nothing goes on where the newer mark is whole and shown
    to be the newer, or where the older one is and the ledger shows what came after it; all else is refused.
    """
    mark = left.files[".mark"]
    put(folder, {**(left.without_the_last if lost else left.files), ".mark": mark[:at] if cut else flipped(mark, at)})
    found = opened(folder)
    texts = [mark[start : start + MARK_SLOT] for start in (0, MARK_SLOT)]
    if cut:
        slots = [number for number, text in enumerate(texts) if number * MARK_SLOT + len(text.rstrip()) <= at]
    else:
        slots = [1 - at // MARK_SLOT]
    newer = next(number for number, text in enumerate(texts) if f'"seq": {left.sent},'.encode() in text)
    if isinstance(found, NotSafe):
        wrong = refused_in_words(found, "")
        if not lost and (len(slots) == 2 or slots == [1 - newer]):
            wrong = f"refused, though the ledger shows all that was sent: {found}"
        return "refused", wrong
    if lost:
        return "stands", "gone on with, though a byte may have left that it does not know of"
    return "stands", "" if slots and found.tables == left.moments[-1].tables else "not what was there"


@lru_cache(maxsize=2)
def killed(more: int = 0) -> Left:
    """A ledger whose process was killed in the midst of the lives of several writes, two of them in the write-ahead
    log. ``more``: so many sendings before that, which decide in which slot the newest mark stands."""
    with in_memory() as folder:
        story = Story(folder)
        for number in range(more):
            story.sends(story.plans(f"e{number + 10}", "pause"))
        story.earlier_writes()
        story.restarts_the_log()
        del story.moments[:-1]
        story.later_writes()
        files = taken(folder)
        story.close()
    frames, ends = _commits(files["-wal"])
    assert len(ends) == len(story.moments) - 1
    return Left(files=files, moments=tuple(story.moments), ends=ends, frames=frames, sent=story.sent)


@lru_cache(maxsize=1)
def settled() -> dict[Part, bytes]:
    """The same ledger stopped in good order: all of it stands in the file, and there is no log beside it."""
    with in_memory() as folder:
        put(folder, killed().files)
        open_ledger(folder).close()
        return taken(folder)


THE_SECOND = replace(plan(key()).write(2, NOW), attempt=1)
QUESTIONS: dict[str, Callable[[SqlLedger], object]] = {
    "log": lambda ledger: list(ledger.log(LogFilter())),
    "every write": lambda ledger: ledger.writes(),
    "open writes": lambda ledger: ledger.open_writes(),
    "states": lambda ledger: ledger.state_counts(),
    "of a target": lambda ledger: ledger.target_writes(ACME, E1, "client_campaign_status"),
    "memory": lambda ledger: ledger.rule_memories(ACME),
    "partner": lambda ledger: ledger.partner_memory(ACME),
    "firings": lambda ledger: ledger.firings(ACME, NOW),
    "sendings": lambda ledger: ledger.first_sendings(ACME, NOW),
    "known": lambda ledger: ledger.known("event"),
    "halts": lambda ledger: ledger.halts(NOW),
    "status": lambda ledger: ledger.status(),
    "brakes": lambda ledger: ledger.sending_view(THE_SECOND, after(100)),
}
"""What a worker, or a person, asks of a ledger."""


REFUSALS = re.compile("is damaged: |is not a ledger: |was restored|has revision|cannot be used: (?!disk|database)")
"""How a ledger is refused for what its file says; that the disk fails or another process has it is not among it."""


def looked_at(folder: Path, files: dict[Part, bytes]) -> dict[str, object]:
    """The answer to every question, the error where that is the answer. Raises `WorkerError` where it is refused."""
    put(folder, files)
    with open_ledger(folder, after(100)) as ledger:
        found: dict[str, object] = {"verify": _answer(ledger, lambda one: one.verify())}
        found.update({name: _answer(ledger, asked) for name, asked in QUESTIONS.items()})
    try:
        return {**found, **tables_of(folder / "worker.db")}
    except (sqlite3.Error, UnicodeDecodeError) as error:
        return {**found, "a page": str(error)}


def _answer(ledger: SqlLedger, asked: Callable[[SqlLedger], object]) -> object:
    try:
        return asked(ledger)
    except WorkerError as error:
        return error


def of_file(folder: Path, files: dict[Part, bytes], right: dict[str, object], at: int) -> tuple[str, str]:
    """Who finds one changed bit of the file, and what is wrong with that: an error that is none of ours is raised."""
    try:
        found = looked_at(folder, {**files, "": flipped(files[""], at)})
    except WorkerError as error:
        told = error.exit_code == 3 and error.hint and REFUSALS.search(str(error))
        return "refused", "" if told else f"refused in words that do not fit: {error}"
    if found["verify"] is not None:
        return "found by log --verify", ""
    if found["log"] != right["log"] or found.get("action_log", right["action_log"]) != right["action_log"]:
        return "", "the log is another one, and its chain says nothing"
    if any(isinstance(answer, WorkerError) for answer in found.values()):
        return "said by whoever looks", ""
    other = [name for name in found if name not in QUESTIONS and found[name] != right.get(name)]
    if other:
        return f"found by nobody: {', '.join(other)}", ""
    return "found by nobody: an index" if found != right else "no difference", ""


def _commits(wal: bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Where the frames of the log's newest generation begin, and where its commits end."""
    size = FRAME_HEAD + int.from_bytes(wal[8:12], "big")
    frames = tuple(at for at in range(WAL_HEAD, len(wal), size) if wal[at + 8 : at + 16] == wal[16:24])
    return frames, tuple(at + size for at in frames if int.from_bytes(wal[at + 4 : at + 8], "big"))
