"""What is told of a record or an alarm: which topic it is, and which command comes next. Pure.

Each topic that somebody is likely to ask for has words for a title and the command that comes next; for any other kind
or reason the log itself is the next thing to look at.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.model.facts import Json
from worker.model.records import KINDS, REASONS, WORKER
from worker.model.topics import ALARMS, HANDED_OVER, MESSAGE
from worker.writes.wording import Wanted

WORDS: Mapping[str, str] = {
    "needs_human": "only a person can tell",
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
    "waiting": "campaign-worker writes --state waiting",
    "surge": "campaign-worker writes --state waiting",
    "gap": "campaign-worker writes --state waiting",
    "reset": "campaign-worker writes --state waiting",
    "mode": "campaign-worker writes --state waiting",
    "unconfirmed": "campaign-worker writes --state unconfirmed",
    "rejected": "campaign-worker writes --state rejected",
    "refused": "campaign-worker writes --state refused",
    "halted": "campaign-worker status",
    "rules_refused": "campaign-worker check",
    **dict.fromkeys(ALARMS, "campaign-worker status"),
    "defect": "campaign-worker log --since 1h",
}
LOG = "campaign-worker log --since 1h"
TEXT_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing to tell. Items of one ``topic``, ``partner`` and ``rule`` are told together."""

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


def item_of(record: Mapping[str, Json], on: frozenset[str], wanted: Wanted | None = None) -> Item | None:
    """What a record has to say to somebody who asked for these topics: what a rule says in its own words, anything else
    by its kind, or by its reason. ``wanted``: what the write does and spends of which a person is asked."""
    kind, reason = str(record.get("kind")), str(record.get("reason") or "")
    if kind == "confirmed" and record.get("action") == MESSAGE and MESSAGE in on:
        said = str(record.get("why") or "").removeprefix(HANDED_OVER)
        return Item(
            topic=MESSAGE,
            partner=str(record.get("partner") or ""),
            rule=str(record.get("rule") or ""),
            text=cut(f"{record.get('event')}: {said}"),
        )
    topic = kind if kind in on else reason if reason in on else ""
    if not topic:
        return None
    about = "".join(
        (
            f"write {record['write']}: " if record.get("write") is not None else "",
            f"{record['action']} of " if record.get("action") else "",
            str(record["event"]) if record.get("event") else "",
            f", {wanted.spends}" if wanted is not None and wanted.spends else "",
            f", {wanted.change}" if wanted is not None and wanted.change else "",
            ": " if record.get("event") else "",
        )
    )
    by = f" ({record['by']})" if record.get("by") not in (None, WORKER) else ""
    text = f"{about}{record.get('why') or words_of(topic)}{by}"
    return Item(
        topic=topic, partner=str(record.get("partner") or ""), rule=str(record.get("rule") or ""), text=cut(text)
    )


def alarm_item(name: str, keys: Mapping[str, object]) -> Item:
    """What an alarm has to say."""
    error, hint = str(keys.get("error") or ""), str(keys.get("hint") or "")
    text = ": ".join(part for part in (words_of(name), error, hint) if part)
    return Item(topic=name, partner=str(keys.get("partner") or ""), text=cut(text))


def cut(text: str) -> str:
    """One line of bounded length, whatever a service's answer had in it."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text).split())
    return line if len(line) <= TEXT_MAX else line[: TEXT_MAX - 1] + "…"
