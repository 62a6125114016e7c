"""Where a setup says whether it is a draft, and in which words, told from setups beside their events' campaigns. Pure.

Campaigns run only once a setup is published, so the words of events with campaigns are the words for published, and
the words that only events without campaigns have are the words for draft. A field is taken for the state's only where
it tells the two apart.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from worker.api.assumptions import Assumptions
from worker.api.findings import UNSEEN, Finding
from worker.api.sights import Setup, content_of, has_campaigns
from worker.model.facts import Json

STATE_NAMES = ("state", "status", "phase", "stage", "lifecycle")
NO_STATE = frozenset({"id", "eid", "goal", "total_budget", "partner_id", "created_at", "updated_at"})
"""Fields that are never the state, whatever they say."""
LONGEST_WORD = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The record of one setup. ``running``: its event has campaigns; None where that is not known."""

    event: str
    record: Mapping[str, Json]
    running: bool | None


def setup_words(setups: Iterable[Setup], assumptions: Assumptions, campaigns: str) -> tuple[Finding, ...]:
    """The findings for ``setup.state_field``, ``setup.draft`` and ``setup.published``."""
    seen = [
        _Seen(event=one.event, record=record, running=has_campaigns(one, campaigns))
        for one in setups
        if isinstance(record := content_of(one.setup), dict)
    ]
    field = _field(seen, assumptions)
    name = str(field.value) if field.known and field.says != UNSEEN else None
    running, resting = _words(seen, name, running=True), _words(seen, name, running=False)
    known_draft, known_published = set(assumptions.words("setup.draft")), set(assumptions.words("setup.published"))
    drafts = {word: event for word, event in resting.items() if word not in running and word not in known_published}
    published = {word: event for word, event in running.items() if word not in known_draft}
    published |= {word: event for word, event in resting.items() if word in known_published}
    return (
        field,
        _of_words("setup.draft", drafts, known_draft, assumptions),
        _of_words("setup.published", published, known_published, assumptions),
    )


def _of_words(key: str, found: Mapping[str, str], known: set[str], assumptions: Assumptions) -> Finding:
    value = assumptions.values[key]
    if not found:
        which = "a draft" if key == "setup.draft" else "a published setup"
        return Finding(key=key, says=UNSEEN, seen=f"{which} was not met", value=value)
    seen = ", ".join(f"{word} on {event}" for word, event in found.items())
    if set(found) <= known:
        return Finding(key=key, says="confirmed", seen=seen, value=value)
    return Finding(key=key, says="refuted", seen=seen, value=list(found))


def _field(seen: list[_Seen], assumptions: Assumptions) -> Finding:
    key, value = "setup.state_field", assumptions.text("setup.state_field")
    if not seen:
        return Finding(key=key, says=UNSEEN, seen="no setup was met that can be read", value=value)
    if all(_is_word(one.record.get(value)) for one in seen):
        shown = ", ".join(f"{one.record[value]} on {one.event}" for one in seen[:3])
        return Finding(key=key, says="confirmed", seen=shown, value=value)
    telling = [name for name in seen[0].record if _tells(name, seen)]
    named = [name for name in telling if any(word in name.lower() for word in STATE_NAMES)]
    for names in (named, telling):
        if len(names) == 1:
            shown = f"{names[0]} is {seen[0].record[names[0]]} on {seen[0].event}"
            return Finding(key=key, says="refuted", seen=f"there is no {value}; {shown}", value=names[0])
    fields = ", ".join(sorted(seen[0].record))
    return Finding(key=key, says="refuted", seen=f"there is no {value} among: {fields}", known=False)


def _tells(name: str, seen: list[_Seen]) -> bool:
    """Whether the field is a word everywhere, and never the same word with campaigns and without."""
    if name in NO_STATE or not all(_is_word(one.record.get(name)) for one in seen):
        return False
    running, resting = _words(seen, name, running=True), _words(seen, name, running=False)
    several = bool(running) and bool(resting)
    return not set(running) & set(resting) and (several or any(word in name.lower() for word in STATE_NAMES))


def _words(seen: Iterable[_Seen], name: str | None, *, running: bool) -> dict[str, str]:
    """The words of that field by events with campaigns, or without, each with one event that has it."""
    found: dict[str, str] = {}
    for one in seen:
        word = one.record.get(name) if name is not None else None
        if one.running is running and isinstance(word, str):
            found.setdefault(word, one.event)
    return found


def _is_word(value: Json) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_WORD
