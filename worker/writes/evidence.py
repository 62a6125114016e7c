"""What one read says of a write: there, not there, or cannot tell.

Presence is proof, absence is not. *Not there* means that the target reads exactly as it did before the first attempt;
a third value is for a person at once. A fact that is unknown, or lacks the field, cannot tell; nothing is guessed.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from worker.model.facts import Fact, Json, Known
from worker.model.records import Says
from worker.model.writes import Intent, Write
from worker.writes.intents import SETUP_FIELDS_COMPARED, TOGGLES


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The verdict of one read. ``third`` is the reason code where the target shows something else altogether."""

    says: Says
    value: Json = None
    why: str = ""
    third: str | None = None


NULL_GAP = "null"
"""How the reason of a gap begins where a documented field was null (`worker.api.wire` writes it so)."""


def fact_name(intent: Intent) -> str:
    """The fact that shows this write's target."""
    return "event" if intent.action in TOGGLES else "setup"


def target_value(intent: Intent, fact: Fact) -> tuple[bool, Json]:
    """Whether the target could be read, and its value: the field of the event, or the compared fields of the setup.

    A null where the document allows none reads as None: for a status field it says that there is nothing to set.
    """
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        return False, None
    if intent.action in TOGGLES:
        field = TOGGLES[intent.action][0]
        if field in fact.value:
            return True, fact.value[field]
        return (True, None) if fact.gaps.get(field, "").startswith(NULL_GAP) else (False, None)
    if "state" not in fact.value:
        return False, None
    return True, {name: fact.value[name] for name in SETUP_FIELDS_COMPARED if name in fact.value}


def already_so(intent: Intent, fact: Fact) -> bool | None:
    """Whether the target has the wanted value; None where that cannot be told."""
    readable, value = target_value(intent, fact)
    if not readable:
        return None
    if not isinstance(value, Mapping):
        return value == intent.wanted.get(intent.target)
    if intent.action == "create_draft":
        return value.get("state") != "NONE"
    return value.get("state") == "PUBLISHED"


def judge(write: Write, fact: Fact) -> Evidence:
    """What one read, begun after the attempt, says of the write."""
    readable, value = target_value(write.intent, fact)
    if not readable:
        why = fact.why if not isinstance(fact, Known) else "the answer lacks the target's field"
        return Evidence(says="cannot_tell", why=why)
    if _present(write.intent, value):
        return Evidence(says="there", value=value, why=f"the target reads {_spelled(value)}, as wanted")
    if write.before_known and value == write.before:
        return Evidence(says="not_there", value=value, why=f"the target reads {_spelled(value)}, as before")
    if _read_in_part(write, value):
        return Evidence(says="cannot_tell", value=value, why="the answer lacks a field that would tell")
    third = "other_value" if write.intent.action == "create_draft" else "third_value"
    why = f"the target reads {_spelled(value)}: neither {_spelled(write.before)} as before nor what was wanted"
    return Evidence(says="cannot_tell", value=value, why=why, third=third)


def _present(intent: Intent, value: Json) -> bool:
    if not isinstance(value, Mapping):
        return value == intent.wanted.get(intent.target)
    if value.get("state") == "NONE":
        return False
    return all(name in value and value[name] == wanted for name, wanted in intent.wanted.items())


def _read_in_part(write: Write, value: Json) -> bool:
    """Whether what was read of the setup agrees, as far as it goes, with what was wanted or with what was before: then
    a field that is missing on one side could make it either, and nothing else may be concluded."""
    if not isinstance(value, Mapping) or value.get("state") == "NONE":
        return False
    others = [write.intent.wanted]
    if isinstance(write.before, Mapping):
        others.append(write.before)
    return any(_agree(other, value) for other in others)


def _agree(one: Mapping[str, Json], other: Mapping[str, Json]) -> bool:
    return all(one[name] == other[name] for name in one if name in other)


def _spelled(value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return repr(value)
