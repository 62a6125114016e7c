"""Who changed a field of an event: the worker or somebody else, told from the log and the writes of that event. Pure.

A change after which one of our writes wanted that value, and had not yet been seen to land, is ours; any other is
somebody else's. Order goes by the log's numbers, never by a clock. Computed when somebody asks, and stored nowhere.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from worker.engine.ports import ReadableLedger
from worker.model.actions import ACTIONS
from worker.model.commits import Doing
from worker.model.facts import EventId, Json, PartnerId, WriteId
from worker.model.writes import Intent, Write
from worker.rules.registry import SET_FIELDS
from worker.writes.evidence import SERIES, members

# What a write that took effect makes of a fact: for worlds that are not the service, as rule tests and replays are.
#
# One table, by how an action's effect is shown. What the service would change beside it is not known, and not guessed.

NO_SETUP: Mapping[str, Json] = {"state": "NONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A fact, and what becomes of it. ``whole``: the value takes the place of the old one; else its fields do."""

    fact: str
    value: Json
    whole: bool = False


def effect_of(intent: Intent, value_of: Callable[[str], Json]) -> Effect | None:
    """The effect on a fact; None where no fact shows it. ``value_of``: what a fact is now."""
    row = ACTIONS[intent.action]
    match row.shown:
        case "field":
            return Effect(fact="event", value=dict(intent.wanted))
        case "setup" if row.creates:
            return Effect(fact="setup", value={"state": "DRAFT", **intent.params}, whole=True)
        case "setup":
            return Effect(fact="setup", value=dict(intent.wanted))
        case "campaign":
            campaigns = _with_campaign(value_of("campaigns"), intent.params)
            return Effect(fact="campaigns", value=campaigns, whole=True)
        case "series":
            return Effect(fact="event", value={SERIES: _with_members(value_of("event"), intent.params, row.value)})
        case "answer" if row.target == "setup":
            return Effect(fact="setup", value=dict(NO_SETUP), whole=True)
        case _:
            return None


def _with_campaign(campaigns: Json, params: Mapping[str, Json]) -> Json:
    """The campaigns with one of this name that has these values."""
    known = [one for one in campaigns if isinstance(one, dict)] if isinstance(campaigns, list) else []
    name = (params["tc"], params["tc_run_id"])
    same = [one for one in known if (one.get("tc"), one.get("tc_run_id")) == name]
    others = [one for one in known if one not in same]
    changed: dict[str, Json] = {**(same[0] if same else {}), **params}
    return [*others, changed]


def _with_members(event: Json, params: Mapping[str, Json], way: str | None) -> Json:
    """The series with these events in it, or out of it."""
    now = event.get(SERIES) if isinstance(event, dict) else None
    others = [one for one in now if one not in members(params)] if isinstance(now, list) else []
    return [*others, *members(params)] if way == "in" else others


# Whose doing a change was.


WITHOUT_EFFECT = frozenset({"planned", "waiting", "rejected", "refused", "skipped", "cancelled"})
"""What a write that was sent becomes only where nothing came of it, or nothing more is expected."""
OURS, OTHERS = "by the worker's own write", "not by the worker"
NOBODY_KNOWS = WriteId(0)
"""Stands for a write of ours that the ledger does not name."""


class FieldChange(NamedTuple):
    """A field of a fact, what it was, and what it has become."""

    fact: str
    field: str
    was: Json
    now_is: Json

    @property
    def name(self) -> str:
        """As rules and records name it."""
        return f"{self.fact}.{self.field}"


def field_change(facts: Mapping[str, Json] | None) -> FieldChange | None:
    """The change that the facts of an ``observed`` record tell; None where they tell of no field that changed."""
    if facts is None or "before" not in facts:
        return None
    name = next((name for name in facts if name not in ("before", "ours")), "")
    fact, _, changed = name.partition(".")
    return FieldChange(fact, changed, facts["before"], facts[name]) if changed else None


def attributed(doings: Iterable[Doing], writes: Iterable[Write]) -> dict[int, WriteId | None]:
    """By the number of each record of a change, the write of ours that made it; None where somebody else did.

    ``doings``: oldest first; ``writes``: all of the event. A first-build record says itself whose doing it was, by what
    its process knew beside the log: that word counts.
    """
    course = _Course(makers={write.id: write for write in writes})
    found: dict[int, WriteId | None] = {}
    for one in doings:
        change = field_change(one.facts) if one.kind == "observed" else None
        if change is not None:
            found[one.seq] = course.changed(one, change)
        elif one.write is not None:
            course.written(one, WriteId(one.write))
    return found


def who_set(doings: Iterable[Doing], writes: Iterable[Write], now_is: Mapping[str, Json]) -> dict[str, Json]:
    """Who set the values that an event's fields have, and by which rules: what conditions know as ``set_by``."""
    doings, writes = list(doings), list(writes)
    made, makers = attributed(doings, writes), {write.id: write for write in writes}
    last: dict[str, tuple[Json, WriteId | None]] = {}
    for one in doings:
        change = field_change(one.facts) if one.seq in made else None
        if change is not None and change.fact == "event":
            last[change.field] = change.now_is, made[one.seq]
    found: dict[str, Json] = {}
    for name in (one for one in SET_FIELDS if one in now_is):
        value, maker = last.get(name, (None, None))
        seen = name in last and value == now_is[name]
        write = makers.get(maker) if seen and maker is not None else None
        found[name] = "unseen" if not seen else "external" if maker is None else "worker"
        found[f"{name}_rules"] = [*(write.rules or (write.key.rule,))] if write is not None else []
    return found


def told(ledger: ReadableLedger, records: Iterable[Mapping[str, Json]]) -> Iterator[dict[str, Json]]:
    """Records for a person: of each change of an event's field with the ``maker``, the number of the write of ours that
    made it or None, and in words. The records themselves, which are chained, do not say it."""
    events: dict[tuple[str, str], dict[int, WriteId | None]] = {}
    for record in records:
        facts, partner, event = record.get("facts"), record.get("partner"), record.get("event")
        if record.get("kind") != "observed" or event is None or not isinstance(facts, Mapping):
            yield dict(record)
            continue
        place = str(partner), str(event)
        if place not in events:
            owner, eid = PartnerId(place[0]), EventId(place[1])
            events[place] = attributed(ledger.doings(owner, eid), ledger.writes(event=eid, partner=owner))
        seq = record.get("seq")
        if not isinstance(seq, int) or seq not in events[place]:
            yield dict(record)
            continue
        maker = events[place][seq]
        whose = "" if "ours" in facts else f", {OTHERS if maker is None else OURS}"
        yield {**record, "maker": maker, "why": f"{record.get('why')}{whose}"}


@dataclass(slots=True, kw_only=True)
class _Course:
    """The events' records so far. ``sent``: writes that may land, in the order of their sending; ``landed``: when a
    read showed the effect of one; ``credited``: the fields that one has changed; ``last``: when each field changed."""

    makers: Mapping[WriteId, Write]
    sent: dict[WriteId, None] = field(default_factory=dict)
    landed: dict[WriteId, int] = field(default_factory=dict)
    credited: dict[WriteId, set[str]] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)

    def written(self, one: Doing, write: WriteId) -> None:
        """A write is sent, perhaps again; or a read has shown its effect; or it is known then to have had none."""
        if one.kind == "sending":
            self.sent.pop(write, None)
            self.sent[write] = None  # sent again, it comes after those that were sent meanwhile
            self.credited.pop(write, None)
            self.landed.pop(write, None)
        elif one.kind == "confirmed" and one.reason == "read":
            self.landed[write] = one.seq
        elif one.kind in WITHOUT_EFFECT:
            self.sent.pop(write, None)

    def changed(self, one: Doing, change: FieldChange) -> WriteId | None:
        """Whose doing a change was. Each write has made a field so once, the oldest first; and not any more where its
        effect was seen before the field was seen to be something else."""
        since = self.last.get(change.name, 0)
        self.last[change.name] = one.seq
        said = (one.facts or {}).get("ours")
        if said is False:
            return None
        maker = next(self._may_have_made(change, since), None)
        if maker is not None:
            self.credited.setdefault(maker, set()).add(change.name)
        return maker if maker is not None or said is None else NOBODY_KNOWS

    def _may_have_made(self, change: FieldChange, since: int) -> Iterator[WriteId]:
        for write in self.sent:
            known = self.makers.get(write)
            taken_back = write in self.landed and self.landed[write] < since
            if known is None or taken_back or change.name in self.credited.get(write, ()):
                continue
            if makes(known, change):
                yield write


def makes(write: Write, change: FieldChange) -> bool:
    """Whether the write's effect makes the field what it has become."""
    brought = dict(ACTIONS[write.intent.action].brings)
    if change.fact == "event" and change.field in brought:
        return brought[change.field] == change.now_is
    effect = effect_of(write.intent, lambda fact: {change.field: change.was} if fact == change.fact else None)
    made = effect.value if effect is not None and effect.fact == change.fact else None
    return isinstance(made, Mapping) and change.field in made and made[change.field] == change.now_is
