"""Messages: an operator hears of what only an operator can end, without having to look.

What happens within a short while is one message: twenty writes of one rule are a few lines and a number. After a group
was told it is quiet for a while, and longer each time it goes on; what came meanwhile is counted and told at its end.
What a rule says is never held so: its condition, `remind` and `cooldown` decide how often it is heard. A message that
could not be sent is kept and tried again, later and later; what comes meanwhile joins it. What is told, and which
command comes next, is pure: time is an argument, in seconds.

The log is read as it grows and alarms are heard, on a thread of its own, so that what other processes write (a halt, a
verdict) is told as well, and that nothing is lost where the process ends: how far the log was read, and what of it is
still to be told to whom, stands in a file beside the ledger, ``FILE.told``. So a restart loses nothing, and repeats at
most the message that was on its way. Without that file (a first start) the past is left alone. Messages go out by
Apprise; nothing of the worker waits for one, and one that cannot be sent harms nothing.
"""

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self, cast

from worker.engine.explaining import wanted_of
from worker.ledger.log import Head
from worker.ledger.reading import LedgerReader
from worker.model.commits import ALARMS, HANDED_OVER, KINDS, MESSAGE, REASONS, TOPICS, WORKER, LogFilter
from worker.model.errors import UsageError, WorkerError, shortened
from worker.model.facts import Json, WriteId
from worker.writes.intents import Wanted

# Each topic that somebody is likely to ask for has words for a title and the command that comes next; for any other
# kind or reason the log itself is the next thing to look at.

WORDS: Mapping[str, str] = {
    "needs_human": "only an operator can tell",
    "waiting": "waits for a yes",
    "surge": "a rule fires for unusually many events",
    "unconfirmed": "accepted, and never seen",
    "halted": "new writes were halted",
    "resumed": "writes go on",
    "rules_refused": "the rule files do not load",
    "ledger_restored": "a restored ledger was accepted",
    MESSAGE: "a rule says",
    **ALARMS,
}
COMMANDS: Mapping[str, str] = {
    "needs_human": "campaign-worker writes --state needs_human",
    "unconfirmed": "campaign-worker writes --state unconfirmed",
    "rejected": "campaign-worker writes --state rejected",
    "refused": "campaign-worker writes --state refused",
    **dict.fromkeys(("waiting", "surge", "gap", "reset", "mode"), "campaign-worker writes --state waiting"),
    **dict.fromkeys(("halted", *ALARMS), "campaign-worker status"),
    "defect": "campaign-worker log --since 1h",
    "rules_refused": "campaign-worker check",
}
LOG = "campaign-worker log --since 1h"
TEXT_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One thing to tell. Notes of one ``topic``, ``partner`` and ``rule`` are told together."""

    topic: str
    partner: str = ""
    rule: str = ""
    text: str


def words_of(topic: str) -> str:
    """What a topic means, in a title."""
    return WORDS.get(topic) or KINDS.get(topic) or REASONS.get(topic, topic)


def note_of(record: Mapping[str, Json], on: frozenset[str], wanted: Wanted | None = None) -> Note | None:
    """What a record has to say to somebody who asked for these topics: what a rule says in its own words, anything else
    by its kind, or by its reason. ``wanted``: what the write does and spends of which an operator is asked."""
    kind, reason = str(record.get("kind")), str(record.get("reason") or "")
    event, why = record.get("event"), str(record.get("why") or "")
    if kind == "confirmed" and record.get("action") == MESSAGE and MESSAGE in on:
        topic, text = MESSAGE, f"{event}: {why.removeprefix(HANDED_OVER)}"
    else:
        topic = kind if kind in on else reason if reason in on else ""
        write = f"write {record['write']}: " if record.get("write") is not None else ""
        action = f"{record['action']} of " if record.get("action") else ""
        asked = "" if wanted is None else "".join(f", {part}" for part in (wanted.spends, wanted.change) if part)
        about = f"{event}{asked}: " if event else asked
        by = f" ({record['by']})" if record.get("by") not in (None, WORKER) else ""
        text = f"{write}{action}{about}{why or words_of(topic)}{by}"
    if not topic:
        return None
    partner, rule = str(record.get("partner") or ""), str(record.get("rule") or "")
    return Note(topic=topic, partner=partner, rule=rule, text=cut(text))


def alarm_note(name: str, keys: Mapping[str, object]) -> Note:
    """What an alarm has to say."""
    error, hint = str(keys.get("error") or ""), str(keys.get("hint") or "")
    text = ": ".join(part for part in (words_of(name), error, hint) if part)
    return Note(topic=name, partner=str(keys.get("partner") or ""), text=cut(text))


def cut(text: str) -> str:
    """One line of bounded length, whatever a service's answer had in it."""
    return shortened(" ".join("".join(each if each.isprintable() else " " for each in text).split()), TEXT_MAX)


GATHER_S = 15.0
"""How long a message waits for what belongs to it."""
QUIET_S = 600.0
QUIET_MAX_S = 6 * 3600.0
AGAIN_S = 60.0
AGAIN_MAX_S = 1800.0
LINES_MAX = 8
"""Lines of a group; what is beyond is only counted. Of what a rule says every line is told."""
LINES_AT_ONCE = 50
"""Lines of what a rule says in one message; the next one tells the others."""
LINES_KEPT = 10_000
"""So many are kept of what a rule says where it cannot be told."""
GROUPS_MAX = 200
"""Groups that one message tells of; the next one tells of the others."""

Key = tuple[str, str, str]


@dataclass(slots=True)
class Group:
    """What is told together. ``quiet_s``: how long it is quiet after it was told."""

    lines: list[str] = field(default_factory=list)
    count: int = 0
    since: float = 0.0
    quiet_until: float = float("-inf")
    quiet_s: float = QUIET_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What leaves: a title, and a body in plain text that ends with the commands to type. ``partners``: whose things it
    tells of."""

    title: str
    body: str
    count: int
    partners: frozenset[str] = frozenset()


class Digest:
    """What one channel has still to be told."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}
        self._failures = 0
        self._again_at = float("-inf")

    def owed(self) -> list[list[Json]]:
        """What came and was not told yet, be it that its group is quiet for now."""
        return [[*key, group.count, *group.lines] for key, group in self._groups.items() if group.count]

    def owe(self, owed: Iterable[list[Any]], now: float) -> None:
        """What another process did not come to tell."""
        for topic, partner, rule, count, *lines in owed:
            self._groups[topic, partner, rule] = Group(lines=lines, count=int(count), since=now)

    def add(self, note: Note, now: float) -> None:
        """Something to tell."""
        group = self._groups.setdefault((note.topic, note.partner, note.rule), Group())
        if group.count == 0:
            group.since = now
        group.count += 1
        if len(group.lines) < (LINES_KEPT if note.topic == MESSAGE else LINES_MAX):
            group.lines.append(note.text)

    def due(self, now: float, gather_s: float = GATHER_S) -> Notice | None:
        """The message that should leave now, with everything that is ready; None where there is nothing."""
        ready = self._ready(now)
        if now < self._again_at or not any(now - group.since >= gather_s for group in ready.values()):
            return None
        counts: Counter[str] = Counter()
        for (topic, _, _), group in ready.items():
            counts[topic] += group.count - len(group.lines[LINES_AT_ONCE:])
        parts = [_told(key, group) for key, group in ready.items()]
        commands = dict.fromkeys(COMMANDS.get(topic, LOG) for topic in counts)
        parts.append("Next:\n" + "\n".join(f"  {one}" for one in commands))
        title = "campaign-worker: " + ", ".join(f"{count} {topic}" for topic, count in counts.items())
        partners = frozenset(partner for _, partner, _ in ready)
        return Notice(title=title, body="\n\n".join(parts), count=counts.total(), partners=partners)

    def sent(self, now: float) -> None:
        """The message that was due has left."""
        for (topic, _, _), group in self._ready(now).items():
            went_on = now - group.quiet_until < group.quiet_s
            group.quiet_s = min(QUIET_MAX_S, group.quiet_s * 2) if went_on else QUIET_S
            group.quiet_until = now if topic == MESSAGE else now + group.quiet_s
            del group.lines[:LINES_AT_ONCE]
            group.count = len(group.lines)
        self._failures, self._again_at = 0, float("-inf")

    def failed(self, now: float) -> None:
        """The message that was due could not be sent: it is kept."""
        self._again_at = now + min(AGAIN_MAX_S, AGAIN_S * (1 << min(self._failures, 10)))
        self._failures += 1

    def _ready(self, now: float) -> dict[Key, Group]:
        ready = {key: group for key, group in self._groups.items() if group.count > 0 and now >= group.quiet_until}
        return dict(islice(ready.items(), GROUPS_MAX))


def _told(key: Key, group: Group) -> str:
    topic, partner, rule = key
    where = ", ".join(part for part in (rule, partner) if part)
    head = f"{topic}{f' ({where})' if where else ''}: {words_of(topic)}"
    lines = [f"  {line}" for line in group.lines[:LINES_AT_ONCE]]
    if group.count > len(group.lines):
        lines.append(f"  and {group.count - len(group.lines)} more")
    return "\n".join((head, *lines))


ASK_EVERY_S = 2.0
ASKING = ("waiting", "needs_human")
"""Kinds of records that ask an operator for a decision."""
RECORDS_AT_ONCE = 2_000
ALARMS_MAX = 1_000
OTHERS_S = 60.0
"""So long what another worker of a fleet is to tell of is kept: whoever has its partner by then tells of it. It may
have ended before it read of it, or while it gathered what belongs to it."""
STOP_WITHIN_S = 10.0
"""How long a stop waits for the last message. One that does not leave by then is kept for the next start."""


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
    hears of each message: to whom by its key, of how many things, and whether it was taken."""

    def __init__(
        self,
        subscribers: Sequence[Subscriber],
        *,
        ledger: LedgerReader,
        place: Path,
        seconds: Callable[[], float],
        told: Callable[[str, int, bool], None],
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
        self._saved = ""
        self._restored_at = ""
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
        self._read_up_to = self._stored()
        self._save()

    def tell_news(self, gather_s: float = GATHER_S) -> None:
        """Reads what is new, and sends what is due, also of a ledger that cannot be read: nobody else may tell of that.
        Never raises: the next poll tries again."""
        now, heads = self._seconds(), dict[str, Head]()
        with suppress(WorkerError):
            self._read(now)
        due = [(one, notice) for one in self._subscribers if (notice := one.digest.due(now, gather_s)) is not None]
        with suppress(WorkerError):
            heads = {"": Head(), **self._ledger.heads()} if due else heads
        self._save()  # what was heard stands in no log
        for one, notice in due:
            ends = ", ".join(str(head) for chain, head in sorted(heads.items()) if chain in ("", *notice.partners))
            taken = one.send(replace(notice, body=f"{notice.body}\n\nThe log ends with {ends or '(not known)'}."))
            (one.digest.sent if taken else one.digest.failed)(now)
            self._told(one.key, notice.count, taken)
        self._save()

    def _run(self) -> None:
        while not self._stop.wait(ASK_EVERY_S):
            self.tell_news()
        self.tell_news(gather_s=0.0)

    def _read(self, now: float) -> None:
        while self._heard:
            note = self._heard.popleft()
            for one in self._subscribers:
                if note.topic in one.on:
                    one.digest.add(note, now)
        self._others = [(since, record) for since, record in self._others if not self._settled(record, since, now)]
        self._begin_anew()
        for record in self._ledger.log_after(self._read_up_to, LogFilter(limit=RECORDS_AT_ONCE)):
            if not self._settled(record, now, now):
                self._others.append((now, record))
            self._read_up_to[str(record["chain"])] = cast(int, record["seq"])

    def _settled(self, record: Mapping[str, Json], since: float, now: float) -> bool:
        """Tells of a record those who asked for it, or leaves it to whose it is; whether that is all."""
        if not self._tells(record):
            return now - since >= OTHERS_S
        asks = record.get("kind") in ASKING
        says = record.get("action") == MESSAGE and record.get("kind") == "confirmed"
        number = record.get("write") if asks or says else None
        write = self._ledger.write(WriteId(number)) if isinstance(number, int) else None
        wanted = wanted_of(self._ledger, write) if asks and write is not None else None
        to = write.intent.params.get("to") if says and write is not None else None  # whom alone it is for
        for one in self._subscribers:
            on = one.on if to is None else frozenset({MESSAGE} if to == one.name else ())
            found = note_of(record, on, wanted)
            if found is not None:
                one.digest.add(found, now)
        return True

    def _begin_anew(self) -> None:
        """What came with the restoring of a ledger, and since, is told, however much was told of the one that was lost,
        which may have been put back beneath a fleet that runs."""
        since = self._ledger.restored_at()
        if since is None or since.isoformat() <= self._restored_at:
            return
        for chain, head in self._ledger.heads().items():
            firsts = self._ledger.log(LogFilter(chain=chain, since=since, limit=1))
            before = next((cast(int, first["seq"]) - 1 for first in firsts), head.seq)
            self._read_up_to[chain] = min(self._read_up_to.get(chain, 0), before)
        self._restored_at = since.isoformat()

    def _stored(self) -> dict[str, int]:
        """Up to where each chain was told. What there was before nobody asked to be told of is not told."""
        newest = {chain: head.seq for chain, head in self._ledger.heads().items()}
        since = self._ledger.restored_at()
        self._restored_at = "" if since is None else since.isoformat()
        try:
            said = json.loads(self._file.read_text("utf-8"))
            told = said["chains"] if "chains" in said else {"": said["seq"]}
            found = {chain: min(int(told.get(chain, 0)), seq) for chain, seq in newest.items()}
            for one in self._subscribers:
                one.digest.owe(said.get("owed", {}).get(one.name or one.key, ()), self._seconds())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return newest
        self._restored_at = str(said.get("restored_at", self._restored_at) or "")
        return found

    def _save(self) -> None:
        """Where this cannot be written, a restart tells some things twice or not at all; nothing else depends on it."""
        kept = {str(record["chain"]): cast(int, record["seq"]) - 1 for _, record in reversed(self._others)}
        owed = {one.name or one.key: one.digest.owed() for one in self._subscribers}
        said = {"chains": {**self._read_up_to, **kept}, "restored_at": self._restored_at, "owed": owed}
        text, fresh = json.dumps(said) + "\n", self._file.with_name(self._file.name + ".new")
        if text == self._saved:
            return
        with suppress(OSError):
            fresh.write_text(text, "utf-8")
            fresh.replace(self._file)
            self._saved = text


NOT_INSTALLED = "notify: messages are not installed here"
INSTALL = "install campaign-worker[messages], which brings Apprise, or leave `notify` out"


class AppriseChannel:
    """One address of Apprise, which knows a hundred services. Raises `UsageError` for one it does not know; ``key``
    names it there, because an address is a secret: it is in no error, and Apprise's own log lines go nowhere."""

    def __init__(self, url: str, key: str) -> None:
        try:
            from apprise import Apprise, OverflowMode  # noqa: PLC0415 - heavy, and most installations send no messages
        except ImportError:
            raise UsageError(NOT_INSTALLED, hint=INSTALL) from None
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        self._apprise = Apprise()
        if not self._apprise.add(url):
            hint = "see Apprise's list of notification services"
            raise UsageError(f"{key} is no address that Apprise knows", hint=hint)
        for service in self._apprise:  # or one that takes no text so long would refuse it, now and at each later try
            vars(service).setdefault("overflow_mode", OverflowMode.SPLIT)

    def send(self, notice: Notice) -> bool:
        """Whether the service took it; whatever goes wrong is a no."""
        from apprise import NotifyFormat  # noqa: PLC0415 - as above

        try:
            return bool(self._apprise.notify(body=notice.body, title=notice.title, body_format=NotifyFormat.TEXT))
        except Exception:  # noqa: BLE001 - a message that cannot be sent harms nothing
            return False
