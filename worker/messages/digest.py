"""What is told of a record or an alarm, in groups that do not repeat themselves. Pure: time is an argument, in seconds.

What happens within a short while is one message: twenty writes of one rule are a few lines and a number. After a group
was told it is quiet for a while, and longer each time it goes on; what came meanwhile is counted and told at its end. A
message that could not be sent is kept and tried again, later and later; what comes meanwhile joins it.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from worker.model.commits import ALARMS, HANDED_OVER, KINDS, MESSAGE, REASONS, WORKER
from worker.model.facts import Json
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
STATUS = "campaign-worker status"
WAITING = "campaign-worker writes --state waiting"
COMMANDS: Mapping[str, str] = {
    "needs_human": "campaign-worker writes --state needs_human",
    "unconfirmed": "campaign-worker writes --state unconfirmed",
    "rejected": "campaign-worker writes --state rejected",
    "refused": "campaign-worker writes --state refused",
    **dict.fromkeys(("waiting", "surge", "gap", "reset", "mode"), WAITING),
    **dict.fromkeys(("halted", *ALARMS), STATUS),
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


def command_of(topic: str) -> str:
    """What to type next."""
    return COMMANDS.get(topic, LOG)


def note_of(record: Mapping[str, Json], on: frozenset[str], wanted: Wanted | None = None) -> Note | None:
    """What a record has to say to somebody who asked for these topics: what a rule says in its own words, anything else
    by its kind, or by its reason. ``wanted``: what the write does and spends of which a person is asked."""
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
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= TEXT_MAX else line[: TEXT_MAX - 1] + "…"


GATHER_S = 15.0
"""How long a message waits for what belongs to it."""
QUIET_S = 600.0
QUIET_MAX_S = 6 * 3600.0
AGAIN_S = 60.0
AGAIN_MAX_S = 1800.0
LINES_MAX = 8
GROUPS_MAX = 200
"""Groups that one message tells of; what is beyond is only counted."""

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
    """What leaves: a title, and a body in plain text that ends with the commands to type."""

    title: str
    body: str
    count: int


class Digest:
    """What one channel has still to be told."""

    def __init__(self) -> None:
        self._groups: dict[Key, Group] = {}
        self._failures = 0
        self._again_at = float("-inf")

    @property
    def failing(self) -> bool:
        """The last message could not be sent."""
        return self._failures > 0

    @property
    def owing(self) -> bool:
        """Something came and was not told yet, be it that its group is quiet for now."""
        return any(group.count for group in self._groups.values())

    def add(self, note: Note, now: float) -> None:
        """Something to tell."""
        group = self._groups.setdefault((note.topic, note.partner, note.rule), Group())
        if group.count == 0:
            group.since = now
        group.count += 1
        if len(group.lines) < LINES_MAX:
            group.lines.append(note.text)

    def due(self, now: float) -> Notice | None:
        """The message that should leave now, with everything that is ready; None where there is nothing."""
        ready = self._ready(now)
        if now < self._again_at or not any(now - group.since >= GATHER_S for group in ready.values()):
            return None
        counts: Counter[str] = Counter()
        for (topic, _, _), group in ready.items():
            counts[topic] += group.count
        parts = [_told(key, group) for key, group in islice(ready.items(), GROUPS_MAX)]
        beyond = sum(group.count for group in islice(ready.values(), GROUPS_MAX, None))
        if beyond:
            parts.append(f"And {beyond} more, of other kinds.")
        commands = dict.fromkeys(command_of(topic) for topic in counts)
        parts.append("Next:\n" + "\n".join(f"  {one}" for one in commands))
        title = "campaign-worker: " + ", ".join(f"{count} {topic}" for topic, count in counts.items())
        return Notice(title=title, body="\n\n".join(parts), count=counts.total())

    def sent(self, now: float) -> None:
        """The message that was due has left."""
        for group in self._ready(now).values():
            went_on = now - group.quiet_until < group.quiet_s
            group.quiet_s = min(QUIET_MAX_S, group.quiet_s * 2) if went_on else QUIET_S
            group.quiet_until = now + group.quiet_s
            group.lines, group.count = [], 0
        self._failures, self._again_at = 0, float("-inf")

    def failed(self, now: float) -> None:
        """The message that was due could not be sent: it is kept."""
        self._again_at = now + min(AGAIN_MAX_S, AGAIN_S * (1 << min(self._failures, 10)))
        self._failures += 1

    def _ready(self, now: float) -> dict[Key, Group]:
        return {key: group for key, group in self._groups.items() if group.count > 0 and now >= group.quiet_until}


def _told(key: Key, group: Group) -> str:
    topic, partner, rule = key
    where = ", ".join(part for part in (rule, partner) if part)
    head = f"{topic}{f' ({where})' if where else ''}: {words_of(topic)}"
    lines = [f"  {line}" for line in group.lines]
    if group.count > len(group.lines):
        lines.append(f"  and {group.count - len(group.lines)} more")
    return "\n".join((head, *lines))
