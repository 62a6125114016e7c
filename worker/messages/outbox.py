"""Reads the log as it grows, hears alarms, and sends what is due, on a thread of its own.

The log is read and not listened to, so that what other processes write (a halt, a verdict) is told as well, and that
nothing is lost where the process ends: how far the log was told stands in a file beside the ledger, ``FILE.told``. It
is moved on when everything up to there has been sent, so a restart loses nothing and may tell something a second time.
Without that file (a first start) the past is left alone.
"""

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, cast

from worker.engine.explaining import wanted_of
from worker.ledger.reading import LedgerReader
from worker.messages.digest import Digest, Note, Notice, alarm_note, note_of
from worker.model.commits import MESSAGE, TOPICS, LogFilter
from worker.model.errors import UsageError, WorkerError
from worker.model.facts import Json, WriteId
from worker.writes.intents import Wanted

LOOK_EVERY_S = 2.0
ASKING = ("waiting", "needs_human")
"""Kinds of records that ask a person for a decision."""
RECORDS_A_LOOK = 2_000
ALARMS_MAX = 1_000
OTHERS_S = 60.0
"""So long what another worker of a fleet is to tell of is kept: whoever has its partner by then tells of it. It may
have ended before it read of it, or while it gathered what belongs to it."""
STOP_WITHIN_S = 10.0
"""How long a stop waits for a message that is on its way."""


@dataclass(slots=True, kw_only=True)
class Subscriber:
    """What somebody is told of, and what of it is still to be told. ``send`` says whether a message was taken; it may
    take seconds and does not raise. ``key`` names it in log lines, ``name`` in rules."""

    key: str
    name: str | None = None
    send: Callable[[Notice], bool]
    on: frozenset[str]
    digest: Digest = field(default_factory=Digest)


class Outbox:
    """Runs from `__enter__` to `__exit__`. ``place``: the ledger's file. ``seconds`` is a monotonic clock; ``told``
    hears of each message that was sent, or was not: then the digest of its subscriber is failing."""

    def __init__(
        self,
        subscribers: Sequence[Subscriber],
        *,
        ledger: LedgerReader,
        place: Path,
        seconds: Callable[[], float],
        told: Callable[[Subscriber, Notice], None],
        tells: Callable[[Mapping[str, Json]], bool] = lambda record: True,  # noqa: ARG005 - where one process tells all
    ) -> None:
        self._subscribers = subscribers
        self._ledger = ledger
        self._file = place.with_name(place.name + ".told")
        self._seconds = seconds
        self._told = told
        self._tells = tells
        self._heard: deque[Note] = deque(maxlen=ALARMS_MAX)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="messages", daemon=True)
        self._read_up_to: dict[str, int] = {}
        self._saved: dict[str, int] | None = None
        self._others: list[tuple[float, Mapping[str, Json]]] = []

    def alarm(self, name: str, keys: Mapping[str, object]) -> None:
        """The daemon cries out. From any thread; never waits."""
        if name in TOPICS:
            self._heard.append(alarm_note(name, keys))

    def __enter__(self) -> Self:
        self.begin()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(STOP_WITHIN_S)

    def begin(self) -> None:
        """Finds out where the log was told up to."""
        self._read_up_to = self._stored({chain: head.seq for chain, head in self._ledger.heads().items()})
        self._save(self._read_up_to)

    def look(self) -> None:
        """Reads what is new, and sends what is due. Never raises: the next look tries again."""
        now = self._seconds()
        try:
            self._read(now)
            due = [(one, notice) for one in self._subscribers if (notice := one.digest.due(now)) is not None]
            head = self._ledger.head() if due else None
        except WorkerError:
            return
        for one, notice in due:
            if one.send(replace(notice, body=f"{notice.body}\n\nThe log ends with {head}.")):
                one.digest.sent(now)
            else:
                one.digest.failed(now)
            self._told(one, notice)
        if not any(one.digest.owing for one in self._subscribers):
            kept = {str(record["chain"]): cast(int, record["seq"]) - 1 for _, record in reversed(self._others)}
            self._save({**self._read_up_to, **kept})

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            self.look()

    def _read(self, now: float) -> None:
        while self._heard:
            note = self._heard.popleft()
            for one in self._subscribers:
                if note.topic in one.on:
                    one.digest.add(note, now)
        self._others = [(since, record) for since, record in self._others if not self._settled(record, since, now)]
        for record in self._ledger.log_after(self._read_up_to, LogFilter(limit=RECORDS_A_LOOK)):
            if not self._settled(record, now, now):
                self._others.append((now, record))
            self._read_up_to[str(record["chain"])] = cast(int, record["seq"])

    def _settled(self, record: Mapping[str, Json], since: float, now: float) -> bool:
        """Tells of a record those who asked for it, or leaves it to whose it is; whether that is all."""
        if not self._tells(record):
            return now - since >= OTHERS_S
        wanted, to = self._wanted(record), self._to(record)
        for one in self._subscribers:
            on = one.on if to is None else frozenset({MESSAGE} if to == one.name else ())
            found = note_of(record, on, wanted)
            if found is not None:
                one.digest.add(found, now)
        return True

    def _wanted(self, record: Mapping[str, Json]) -> Wanted | None:
        """What the write does and spends about which a record asks a person."""
        number = record.get("write") if record.get("kind") in ASKING else None
        write = self._ledger.write(WriteId(number)) if isinstance(number, int) else None
        return None if write is None else wanted_of(self._ledger, write)

    def _to(self, record: Mapping[str, Json]) -> str | None:
        """The one whom alone a message of a rule is for, by name."""
        number = record.get("write") if record.get("action") == MESSAGE and record.get("kind") == "confirmed" else None
        write = self._ledger.write(WriteId(number)) if isinstance(number, int) else None
        to = None if write is None else write.intent.params.get("to")
        return None if to is None else str(to)

    def _stored(self, newest: dict[str, int]) -> dict[str, int]:
        """Up to where each chain was told; what there was before nobody asked to be told of is not told."""
        try:
            said = json.loads(self._file.read_text("utf-8"))
            told = said["chains"] if "chains" in said else {"": said["seq"]}
            found = {chain: told.get(chain, 0) for chain in newest}
            known = all(isinstance(seq, int) and 0 <= seq <= newest[chain] for chain, seq in found.items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return newest
        return found if known else newest

    def _save(self, told: dict[str, int]) -> None:
        """Where this cannot be written, a restart tells some things twice or not at all; nothing else depends on it."""
        if told == self._saved:
            return
        fresh = self._file.with_name(self._file.name + ".new")
        try:
            fresh.write_text(json.dumps({"chains": told}) + "\n", "utf-8")
            fresh.replace(self._file)
        except OSError:
            return
        self._saved = dict(told)


NOT_INSTALLED = "notify: messages are not installed here"
INSTALL = "install campaign-worker[messages], which brings Apprise, or leave `notify` out"


class AppriseChannel:
    """One address of Apprise, which knows a hundred services. Raises `UsageError` for one it does not know; ``key``
    names it there, because an address is a secret: it is in no error, and Apprise's own log lines go nowhere."""

    def __init__(self, url: str, key: str) -> None:
        try:
            from apprise import Apprise  # noqa: PLC0415 - heavy, and most installations send no messages
        except ImportError:
            raise UsageError(NOT_INSTALLED, hint=INSTALL) from None
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        self._apprise = Apprise()
        if not self._apprise.add(url):
            raise UsageError(
                f"{key} is no address that Apprise knows", hint="see Apprise's list of notification services"
            )

    def send(self, notice: Notice) -> bool:
        """Whether the service took it; whatever goes wrong is a no."""
        from apprise import NotifyFormat  # noqa: PLC0415 - as above

        try:
            return bool(self._apprise.notify(body=notice.body, title=notice.title, body_format=NotifyFormat.TEXT))
        except Exception:  # noqa: BLE001 - a message that cannot be sent harms nothing
            return False
