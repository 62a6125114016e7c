"""What the ledger holds of a partner's facts, and what was seen since: it is stored with the next commit, whatever for.

A change is one row, and one record for each field of it that some rule looks at, in the very transaction that decides
on it. `Stored` is a copy of what is there, taken over only after a commit succeeded, so a quiet cycle writes nothing,
and there is nothing that would have to be brought into line after a crash.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from worker.engine.ports import Ledger
from worker.model.actions import ACTIONS
from worker.model.commits import MEMORY, OF_PARTNER, SILENCE, Change, Changes, Commit, Observed, PartnerMemory, Record
from worker.model.errors import StateConflict
from worker.model.facts import (
    EVENT_FIELDS,
    PARTNER_FIELDS,
    SETUP_FIELDS,
    EventId,
    Fact,
    FactKey,
    Json,
    Known,
    PartnerId,
    Place,
    spelled,
)
from worker.model.rules import Rule, RuleSet
from worker.model.writes import Write
from worker.rules.facts import Fields, looked_at, narrowed, worth_keeping

WATCHED: Mapping[str, Iterable[str]] = {"event": EVENT_FIELDS, "setup": SETUP_FIELDS}
"""Facts whose changes are worth a record, field by field, with their documented fields."""
LISTS = frozenset({"permissions", "features"})
"""Lists of the whole partner whose changes are worth a record."""
UNSTORED_MOST = 16
"""So many values of a fact are kept until they can be stored; of more, the newest takes the place of the one before."""
SILENCE_LONGER_THAN = timedelta(minutes=1)
"""A time without a complete list that is kept as a silence."""
FORGET_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one commit is to store. ``counts``: how many of the values seen of each fact are in it; ``looked_at``: the
    events of which a look is noted, and when; ``reached``: the partner's last change in the ledger before it."""

    changes: tuple[Change, ...]
    counts: Mapping[Place, int]
    looked_at: Mapping[EventId, datetime] = field(default_factory=dict)
    reached: int = 0


@dataclass(slots=True, kw_only=True)
class Stored:
    """``facts``: as they stand in the ledger, and ``looked_at``: the last noted looks; ``lacked``: of records, what the
    fields that cannot be read now were when they were read last. ``seen``: what each fact was since, oldest first; what
    came and went is two changes, perhaps of two hands. ``anew``: events that are others than those that the ledger
    knows by their ids. ``rules``: the rules by which fields are ``kept``, and ``watched``. ``trial``: a commit of which
    nobody knows whether it is stored. ``keep``: how long changes stay."""

    partner: PartnerId
    keep: timedelta = timedelta(days=7)
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    looked_at: dict[EventId, datetime] = field(default_factory=dict)
    lacked: dict[Place, Mapping[str, Json]] = field(default_factory=dict)
    seen: dict[EventId, dict[FactKey, list[Fact]]] = field(default_factory=dict)
    anew: set[EventId] = field(default_factory=set)
    rules: RuleSet | None = None
    kept: Mapping[str, Fields] = field(default_factory=dict)
    watched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    listed_at: datetime | None = None
    forgot_at: datetime | None = None
    trial: Trial | None = None

    def load(self, observed: Iterable[Observed]) -> None:
        """Takes what the ledger holds."""
        for one in observed:
            self.facts.setdefault(one.event, {})[one.key] = one.fact
            if one.last:
                self.lacked[one.event, one.key] = one.last
            if one.looked_at is not None:
                self.looked_at[one.event] = one.looked_at

    def saw(self, place: Place, fact: Fact) -> None:
        """A fact says something else than before, as whoever calls knows it; the ledger may know that already."""
        event, key = place
        values = self.seen.get(event, {}).get(key)
        if values is None:
            facts = self.facts.setdefault(event, {})
            if same(facts.get(key), fact):
                facts[key] = fact
            else:
                self.seen.setdefault(event, {})[key] = [fact]
            return
        tried = self.trial.counts.get(place, 0) if self.trial is not None else 0
        if len(values) - tried < UNSTORED_MOST:
            values.append(fact)
        else:
            values[-1] = fact

    def forget(self, event: EventId) -> None:
        """What comes back under its id may be another event: nothing from before counts any more."""
        self.anew.add(event)
        self.seen.pop(event, None)

    def under(self, rules: RuleSet, known: Iterable[tuple[Place, Fact]]) -> None:
        """Under other rules other fields are worth keeping, of everything that is ``known``."""
        if self.rules is rules:
            return
        if self.kept:
            for facts in self.facts.values():
                facts.update({key: narrowed(fact, self.kept.get(key.name)) for key, fact in facts.items()})
        self.rules, self.kept, self.watched = rules, worth_keeping(rules.rules), watched_fields(rules.rules)
        for (event, key), fact in known:
            self.seen.setdefault(event, {}).setdefault(key, [fact])

    def looked(self, memory: PartnerMemory, now: datetime, *, complete: bool) -> None:
        """What a poll says of the partner as a whole. ``complete``: the list was had as a whole."""
        self.saw((OF_PARTNER, MEMORY), Known(value=_spelled(memory), read_at=now))
        if complete:
            if self.listed_at is not None and now - self.listed_at > SILENCE_LONGER_THAN:
                self.saw((OF_PARTNER, SILENCE), Known(value={"since": spelled(self.listed_at)}, read_at=now))
            self.listed_at = now

    def commit(
        self,
        ledger: Ledger,
        commit: Commit,
        events: Iterable[EventId] | None,
        looked_at: tuple[EventId, ...] = (),
    ) -> tuple[Write, ...]:
        """Stores the commit, and with it what was seen of these events, or of all. Raises as the ledger does.
        ``looked_at``: events of which it is noted.

        A commit that is reported as failed may be stored all the same. Whether it is, the ledger says before the next.
        """
        if self.trial is not None and ledger.last_change(self.partner) > self.trial.reached:
            self.took(self.trial)
        self.trial = None
        trial = self.attempt(commit.at, events)
        if trial.changes or looked_at:
            noted = dict.fromkeys(looked_at, commit.at)
            trial = replace(trial, reached=ledger.last_change(self.partner), looked_at=noted)
            before = commit.at - self.keep
            old = self.forgot_at is None or before - self.forgot_at >= FORGET_EVERY
            forget = before if old and trial.changes else None
            changes = Changes(partner=self.partner, changes=trial.changes, looked_at=looked_at, forget=forget)
            commit = replace(commit, records=(*self.records(trial.changes), *commit.records), changes=changes)
            self.forgot_at = forget or self.forgot_at
        self.trial = trial
        try:
            made = ledger.apply(commit)
        except StateConflict:
            self.trial = None
            raise
        self.took(trial)
        return made

    def attempt(self, now: datetime, events: Iterable[EventId] | None) -> Trial:
        """What was seen of these events, or of all, as it is to be stored at ``now``."""
        if self.rules is None:
            return Trial(changes=(), counts={})
        chosen = self.seen if events is None else [event for event in events if event in self.seen]
        places = [(event, key) for event in chosen for key in self.seen[event]]
        changes = tuple(change for place in places for change in self._changes(place, now))
        return Trial(changes=changes, counts={(event, key): len(self.seen[event][key]) for event, key in places})

    def took(self, trial: Trial) -> None:
        """It is in the ledger."""
        self.trial = None
        self.looked_at.update(trial.looked_at)
        for change in trial.changes:
            place = (change.now.event, change.now.key)
            self.lacked.pop(place, None)
            if change.now.last:
                self.lacked[place] = change.now.last
        for (event, key), count in trial.counts.items():
            values = self.seen.get(event, {}).pop(key, [])
            if values[:count]:
                self.facts.setdefault(event, {})[key] = values[:count][-1]
            if values[count:]:
                self.seen[event][key] = values[count:]
            elif not self.seen.get(event):
                self.seen.pop(event, None)
            self.anew.discard(event)

    def _changes(self, place: Place, now: datetime) -> Iterator[Change]:
        """The changes of one fact, in what is worth keeping of it."""
        event, key = place
        known, fields = self.facts.get(event, {}).get(key), self.kept.get(key.name)
        before = None
        if known is not None:
            last = {} if event in self.anew else self.lacked.get(place, {})
            before = Observed(event=event, key=key, fact=narrowed(known, fields), at=now, last=last)
        for fact in self.seen[event][key]:
            new = narrowed(replace(fact, trace=None) if fact.trace is not None else fact, fields)
            if before is not None and same(before.fact, new):
                continue
            missed = _missed(before, new) if key.name in WATCHED and event not in self.anew else {}
            after = Observed(event=event, key=key, fact=new, at=now, last=missed)
            yield Change(now=after, before=before)
            before = after

    def records(self, changes: Iterable[Change]) -> Iterator[Record]:
        """A record for each change of a field that a rule in force looks at or writes. What cannot be read has not
        changed yet; what another event was, under the same id, is nobody's change."""
        for change in changes:
            now, before = change.now, change.before
            if before is None or now.event in self.anew:
                continue
            if now.event == OF_PARTNER:
                yield from _of_partner(self.partner, change)
                continue
            was, now_is = _last_known(before), _fields(now.fact)
            for name in self.watched.get(now.key.name, ()):
                if name in was and name in now_is and was[name] != now_is[name]:
                    said = (f"{now.key.name}.{name}", was[name], now_is[name])
                    yield _changed(self.partner, now.event, said, now.at)


def watched_fields(rules: Iterable[Rule]) -> Mapping[str, tuple[str, ...]]:
    """The fields of the watched facts that some rule names or writes, by fact."""
    rules = list(rules)
    named = looked_at(rules)
    found: dict[str, tuple[str, ...]] = {}
    for name, documented in WATCHED.items():
        fields = named.get(name, frozenset())
        steps = (ACTIONS[step.action] for rule in rules for step in rule.do)
        written = {field for row in steps for fact, field in row.writes if fact == name}
        found[name] = tuple(sorted((set(documented) if fields is None else fields) | (written - {""})))
    return found


def same(old: Fact | None, new: Fact) -> bool:
    """Whether two facts say the same, whenever they were read, and in whatever words nothing is known."""
    if isinstance(new, Known):
        return isinstance(old, Known) and old.value == new.value and old.gaps == new.gaps
    return old is not None and not isinstance(old, Known) and old.code == new.code


def _fields(fact: Fact) -> Mapping[str, Json]:
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, Mapping) else {}


def _last_known(before: Observed) -> dict[str, Json]:
    """Every field as it was read last."""
    return {**before.last, **_fields(before.fact)}


def _missed(before: Observed | None, new: Fact) -> dict[str, Json]:
    """What the fields that ``new`` lacks, or all of one that cannot be read, were when they were read last."""
    known = {} if before is None else _last_known(before)
    gaps = new.gaps if isinstance(new, Known) else known
    return {name: known[name] for name in gaps if name in known}


def _changed(partner: PartnerId, event: EventId | None, said: tuple[str, Json, Json], at: datetime) -> Record:
    name, was, now_is = said
    why = f"{name} changed from {was!r} to {now_is!r}"
    return Record(at=at, kind="observed", why=why, partner=partner, event=event, facts={name: now_is, "before": was})


def _of_partner(partner: PartnerId, change: Change) -> Iterator[Record]:
    """Records of what a fact of the whole partner says otherwise now: fields of its record, permissions and flags."""
    if change.before is None or not (isinstance(change.before.fact, Known) and isinstance(change.now.fact, Known)):
        return
    name, was, now_is = change.now.key.name, change.before.fact.value, change.now.fact.value
    if name == "partner" and isinstance(was, Mapping) and isinstance(now_is, Mapping):
        for one in PARTNER_FIELDS:
            if one in was and one in now_is and was[one] != now_is[one]:
                yield _changed(partner, None, (f"{name}.{one}", was[one], now_is[one]), change.now.at)
    elif name in LISTS and isinstance(was, list) and isinstance(now_is, list):
        gained, lost = [one for one in now_is if one not in was], [one for one in was if one not in now_is]
        if gained or lost:
            why = f"{name} changed: gained {gained or 'nothing'}, lost {lost or 'nothing'}"
            facts: dict[str, Json] = {name: now_is, "before": was}
            yield Record(at=change.now.at, kind="observed", why=why, partner=partner, facts=facts)


def memory_of(partner: PartnerId, fact: Fact) -> PartnerMemory:
    """The partner's memory as it was recorded, without when its events were listed last."""
    found = fact.value if isinstance(fact, Known) and isinstance(fact.value, dict) else {}
    return PartnerMemory(
        partner=partner,
        after_gap_at=_moment(found.get("after_gap_at")),
        reset_at=_moment(found.get("reset_at")),
        restored_at=_moment(found.get("restored_at")),
        gone=_moments(found.get("gone")),
        returned=_moments(found.get("returned")),
    )


def _spelled(memory: PartnerMemory) -> dict[str, Json]:
    """The partner's memory, but for when its events were listed last."""
    return {
        "after_gap_at": spelled(memory.after_gap_at),
        "reset_at": spelled(memory.reset_at),
        "restored_at": spelled(memory.restored_at),
        "gone": {event: spelled(at) for event, at in sorted(memory.gone.items())},
        "returned": {event: spelled(at) for event, at in sorted(memory.returned.items())},
    }


def _moment(text: Json) -> datetime | None:
    return datetime.fromisoformat(text) if isinstance(text, str) else None


def _moments(texts: Json) -> dict[EventId, datetime]:
    found = texts if isinstance(texts, dict) else {}
    return {EventId(event): at for event, text in found.items() if (at := _moment(text)) is not None}
