"""What was observed, as it stands at one moment of a replay: without what our own writes changed, with what the
replayed ones would have changed.

Both are laid over what was observed, field by field, until the observation itself changes that field by another hand:
then somebody did something there, and what they did counts.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from worker.engine.effects import effect_of
from worker.model.facts import Fact, FactKey, Json, Known, Observation
from worker.model.ids import EventId, PartnerId
from worker.model.trail import OF_PARTNER, Observed
from worker.model.writes import Write


@dataclass(slots=True)
class Past:
    """``facts`` and ``shared``: what the replay sees. ``observed``: what was recorded. ``laid_over``: fields in which
    the two differ on purpose. ``made``: what writes that were really made were to change, and from when on."""

    shared: dict[FactKey, Fact] = field(default_factory=dict)
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    observed: dict[tuple[EventId, FactKey], Fact] = field(default_factory=dict)
    laid_over: dict[tuple[EventId, FactKey], set[str]] = field(default_factory=dict)
    made: dict[tuple[EventId, FactKey], list[tuple[datetime, dict[str, Json]]]] = field(default_factory=dict)

    def without(self, writes: Iterable[Write]) -> None:
        """The effects of these writes are not to be seen: a replay makes its own."""
        for write in writes:
            effect = effect_of(write.intent, lambda _name: None) if write.sent else None
            if effect is not None and isinstance(effect.value, dict) and write.first_sent_at is not None:
                place = (write.key.event, FactKey(name=effect.fact))
                self.made.setdefault(place, []).append((write.first_sent_at, dict(effect.value)))

    def take(self, one: Observed) -> None:
        """A fact as it was observed. What it changes is not laid over any more, unless a write of ours changed it."""
        place = (one.event, one.key)
        old, self.observed[place] = self.observed.get(place), one.fact
        if one.event == OF_PARTNER:
            self.shared[one.key] = one.fact
            return
        facts = self.facts.setdefault(one.event, {})
        mine = facts.get(one.key)
        changed = _differing(old, one.fact)
        ours = self._ours(place, one, changed) if changed else set[str]()
        fields = (self.laid_over.get(place, set()) - changed) | ours
        if fields and isinstance(mine, Known) and isinstance(mine.value, dict):
            kept = {name: mine.value.get(name) for name in fields}
            facts[one.key] = _with(one.fact, kept)
            self.laid_over[place] = fields
        else:
            facts[one.key] = one.fact
            self.laid_over.pop(place, None)

    def _ours(self, place: tuple[EventId, FactKey], one: Observed, changed: set[str]) -> set[str]:
        """The fields that now are as a write of ours, sent before, was to make them; each write counts once."""
        value = one.fact.value if isinstance(one.fact, Known) and isinstance(one.fact.value, dict) else {}
        found: set[str] = set()
        for sent_at, wanted in self.made.get(place, ()):
            for name in [name for name in wanted if name in changed and sent_at <= one.at]:
                if value.get(name) == wanted[name]:
                    del wanted[name]
                    found.add(name)
        return found

    def lay_over(self, write: Write, now: datetime) -> None:
        """The effect of a write that was not really made."""
        facts = self.facts.setdefault(write.key.event, {})

        def value_of(name: str) -> Json:
            fact = facts.get(FactKey(name=name))
            return fact.value if isinstance(fact, Known) else None

        effect = effect_of(write.intent, value_of)
        if effect is None or not isinstance(effect.value, dict):
            return
        key = FactKey(name=effect.fact)
        self.laid_over.setdefault((write.key.event, key), set()).update(effect.value)
        old = facts.get(key)
        base = old if isinstance(old, Known) and not effect.whole else Known(value={}, read_at=now)
        facts[key] = _with(base, effect.value)

    def observation(self, partner: PartnerId, event: EventId) -> Observation:
        """All that is known of the event now."""
        return Observation(partner=partner, event=event, facts={**self.shared, **self.facts.get(event, {})})


def _differing(old: Fact | None, new: Fact) -> set[str]:
    before = old.value if isinstance(old, Known) and isinstance(old.value, dict) else {}
    after = new.value if isinstance(new, Known) and isinstance(new.value, dict) else {}
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def _with(fact: Fact, fields: Mapping[str, Json]) -> Fact:
    if not isinstance(fact, Known) or not isinstance(fact.value, dict):
        return fact
    gaps = {name: why for name, why in fact.gaps.items() if name not in fields}
    return replace(fact, value={**fact.value, **fields}, gaps=gaps)
