"""Look after look into `decide`, in memory: rules by their text, facts by name, and a small story that carries on.

A story keeps what a ledger would keep and refuses what a ledger would refuse: a natural key planned twice, a write
moved twice in one commit, an episode number that goes back. It reads no clock and sends nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from worker.engine.decide import Decision, decide
from worker.engine.planning import edits_of, reopened_by
from worker.engine.views import DecidingSettings, PollView, looked_by, products_off, shut
from worker.ledger.rows import rule_memory_of
from worker.model.actions import WAIT
from worker.model.commits import Commit, Move, PartnerMemory, Record, RuleMemory, body_of
from worker.model.facts import EventId, Fact, FactKey, Json, Known, Observation, PartnerId, RuleId, Unknown, WriteId
from worker.model.rules import Computed, Rule, RuleSet, RuleStep, Watch
from worker.model.writes import State, Write
from worker.rules.evaluate import expression
from worker.rules.registry import BUILT_IN
from worker.writes.life import move

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
PARTNER = PartnerId("partner-id-acme")
E1 = EventId("e1")
TCS = FactKey(name="suggested_tcs", params=(("budget", 500.0), ("goal", "ROAS")))
BUDGET_500: Mapping[str, str | float | int] = {"budget": 500, "goal": "ROAS"}
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
INTERVAL = timedelta(seconds=3)
WORDS = ("pause", "run", "boost")


def a_rule(rule_id: str, when: str | None = None, *do: str, on_change: str | Iterable[Watch] = (), **keys: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    """A rule by its texts. ``do``: ``pause``, ``optimisation OFF``, ``create_draft 500``, a computed budget with ``=``;
    ``on_change``: the name of one fact, or watches."""
    steps = tuple(_step(text) for text in (do or ("pause",)))
    watches = (Watch(fact=on_change),) if isinstance(on_change, str) else tuple(on_change)
    watches = tuple(replace(one, costly=BUILT_IN[one.fact].per_event_request) for one in watches)
    rule = Rule(
        id=RuleId(rule_id),
        file="rules.yaml",
        when=expression(when) if when is not None else None,
        on_change=watches,
        do=steps,
        do_hash=f"{do} {keys.get('parameters')}",
    )
    return replace(rule, **keys)


def _step(text: str) -> RuleStep:
    action, _, value = text.partition(" ")
    if action in WORDS:
        return RuleStep(action=action)
    if action != "create_draft":
        return RuleStep(action=action, params={"value": float(value) if action == WAIT else value})
    budget: Json | Computed = expression(value[1:]) if value.startswith("=") else float(value)
    return RuleStep(action=action, params={"goal": "ROAS", "total_budget": budget})


def tcs(*names: str, run: int | str = 1) -> list[Json]:
    """A list of suggested taste clusters, as the service gives it."""
    return [{"tc": name, "tc_run_id": run} for name in names]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRead:
    """What one look did, in words short enough to compare."""

    decision: Decision

    @property
    def fired(self) -> list[str]:
        """``rule`` or ``rule@event`` (of any event but e1), with ``=owner`` where it shares another rule's write."""
        return sorted(_spelled(record) for record in self.commit.records if record.kind == "fired")

    @property
    def held(self) -> list[str]:
        """``rule: reason`` of every new hold."""
        return sorted(f"{record.rule}: {record.reason}" for record in self.commit.records if record.kind == "held")

    @property
    def planned(self) -> list[str]:
        """``rule: action`` with the state and reason of plans that are not simply planned."""
        return [
            f"{plan.key.rule}: {plan.intent.action}"
            + (f" {plan.state} {plan.reason}" if plan.state != "planned" else "")
            for plan in self.commit.plans
        ]

    @property
    def moved(self) -> list[str]:
        """``rule: state reason`` of every write that moved."""
        return sorted(
            f"{one.after.key.rule}: {one.after.state} {one.after.reason}"
            for one in self.commit.moves
            if one.after.state != one.before.state
        )

    @property
    def commit(self) -> Commit:
        """What the look stored."""
        return self.decision.commit

    @property
    def outcome(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """Everything an outsider sees of the look, in an order of its own."""
        return self.fired, self.held, sorted(self.planned), self.moved


def _spelled(record: Record) -> str:
    name = f"{record.rule}" if record.event == E1 else f"{record.rule}@{record.event}"
    _, shared, owner = record.why.partition("; rule ")
    return f"{name}={owner.split()[0]}" if shared and record.reason == "shared" else name


@dataclass(slots=True)
class Story:
    """One partner's looks. ``confirming``: what is planned is sent at once, takes effect and is confirmed.
    ``restarting``: a new process before every look, which knows only what was stored."""

    rules: RuleSet
    settings: DecidingSettings = field(default_factory=DecidingSettings)
    confirming: bool = True
    restarting: bool = False
    now: datetime = START
    memory: PartnerMemory = field(default_factory=lambda: PartnerMemory(partner=PARTNER))
    memories: dict[tuple[EventId, RuleId], RuleMemory] = field(default_factory=dict)
    stored: dict[tuple[EventId, RuleId], RuleMemory] = field(default_factory=dict)
    looked_at: dict[EventId, datetime] = field(default_factory=dict)
    facts: dict[EventId, dict[FactKey, Fact]] = field(default_factory=dict)
    writes: dict[WriteId, Write] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)
    looks: int = 0

    # what the world does; each gives the story again, so that a look may follow in one line

    def event(self, event: EventId = E1, **fields: Json) -> Self:
        """Sets fields of the event's record; at first it is an active one whose campaigns run."""
        ordinary: dict[str, Json] = {"id": event, "status": "active", "client_campaign_status": "RUNNING"}
        self._merge("event", event, ordinary, fields)
        return self

    def setup(self, event: EventId = E1, **fields: Json) -> Self:
        """Sets fields of the event's setup; at first there is none."""
        self._merge("setup", event, {"state": "NONE"}, fields)
        return self

    def put(self, key: FactKey | str, value: Json, event: EventId = E1) -> Self:
        """A fact has this value now."""
        self._facts(event)[_key(key)] = Known(value=value, read_at=self.now)
        return self

    def blind(self, *keys: FactKey | str, event: EventId = E1) -> Self:
        """These facts cannot be read now; without any named, none can."""
        for key in keys or tuple(self._facts(event)):
            self._facts(event)[_key(key)] = Unknown(code="unreadable", why="the service answered 500")
        return self

    def unread(self, key: FactKey | str, event: EventId = E1) -> Self:
        """Nobody asked for the fact."""
        self._facts(event).pop(_key(key), None)
        return self

    def silence(self, length: timedelta) -> Self:
        """Nobody looked for that long, and the observer noticed."""
        self.now += length
        if length > self.settings.gap:
            self.memory = replace(self.memory, after_gap_at=self.now)
        return self

    def restart(self) -> Self:
        """A new process: what was not stored is lost."""
        self.memories = {key: rule_memory_of(body_of(memory)) for key, memory in self.stored.items()}
        return self

    def reload(self, *rules: Rule) -> Self:
        """The rule folder has changed."""
        self.rules = a_set(*rules)
        return self

    # looks

    def look(self, after: timedelta = INTERVAL) -> TargetRead:
        """Time passes, and the worker looks once."""
        self.now += after
        if self.restarting:
            self.restart()
        self._edit()
        self.memory = looked_by(self.memory, self._looking(), self.now)
        look = PollView(
            partner=PARTNER,
            now=self.now,
            memory=self.memory,
            observations={
                event: Observation(partner=PARTNER, event=event, facts=dict(facts))
                for event, facts in self.facts.items()
            },
            memories=dict(self.memories),
            looked_at=dict(self.looked_at),
            writes=tuple(write for write in self.writes.values() if not write.final),
            sendings=self._sendings(),
            firings=lambda _since: [
                (record.rule, record.event, record.at)
                for record in self.records
                if record.kind == "fired" and record.rule is not None and record.event is not None
            ],
            episode_writes=self._of_episode,
            target_writes=self._on_target,
        )
        decision = decide(self.rules, look, self.settings)
        self._apply(decision)
        self.looks += 1
        return TargetRead(decision=decision)

    def fires(self, after: timedelta = INTERVAL) -> list[str]:
        """One look, and only what fired."""
        return self.look(after).fired

    # what becomes of writes

    def write(self, rule: str, index: int = -1) -> Write:
        """The newest write of a rule, or another by its index."""
        return [write for write in self.writes.values() if write.key.rule == rule][index]

    def states(self, rule: str) -> list[State]:
        """The states of a rule's writes, oldest first."""
        return [write.state for write in self.writes.values() if write.key.rule == rule]

    def send(self, write: Write, end: State = "confirmed", *, effect: bool = True) -> Self:
        """An attempt, and what the write is afterwards."""
        sent = replace(write, attempt=write.attempt + 1, first_sent_at=write.first_sent_at or self.now, state=end)
        self.writes[write.id] = replace(sent, last_sent_at=self.now, changed_at=self.now)
        if effect:
            self._take_effect(write)
        return self

    def end(self, write: Write, state: State, reason: str = "person") -> Self:
        """A person, a guard or the service ended a write."""
        self.writes[write.id] = replace(write, state=state, reason=reason, changed_at=self.now)
        return self

    def _take_effect(self, write: Write) -> None:
        if write.intent.action in ("create_draft", "boost"):
            draft: dict[str, Json] = {"state": "DRAFT"} if write.intent.action == "create_draft" else {}
            self.setup(write.key.event, **{**draft, **dict(write.intent.wanted)})
        else:
            self.event(write.key.event, **dict(write.intent.wanted))

    # what a ledger does

    def _apply(self, decision: Decision) -> None:
        commit = decision.commit
        keys = {write.key for write in self.writes.values()}
        for memory in commit.memory:
            key = (memory.event, memory.rule)
            before = self.stored.get(key)
            if before is not None and memory.episode < before.episode:
                raise AssertionError(f"episode {before.episode} of {key} would become {memory.episode}")
            self.stored[key] = memory
        self.memories.update({(one.event, one.rule): one for one in commit.memory})
        self.looked_at.update(dict.fromkeys(decision.looked_at, self.now))
        self._move(commit.moves)
        made = []
        for plan in commit.plans:
            if plan.key in keys:
                raise AssertionError(f"{plan.key} was planned before")
            keys.add(plan.key)
            write = plan.write(len(self.writes) + 1, self.now)
            self.writes[write.id] = write
            made.append(write)
        self.records.extend(commit.records)
        for write in made if self.confirming else ():
            if write.state == "planned":
                self.send(write)

    def _move(self, moves: Iterable[Move]) -> None:
        moved: set[WriteId] = set()
        for one in moves:
            if one.before.id in moved or self.writes[one.before.id] != one.before:
                raise AssertionError(f"write {one.before.id} was moved by something else first")
            moved.add(one.before.id)
            self.writes[one.before.id] = one.after

    def _edit(self) -> None:
        """What a cycle does before it decides: unsent writes of edited rules end, and their pairs may fire again."""
        edits = list(edits_of(self.rules, self._unfinished(), self.memories, self.now))
        self._move([one.change for one in edits])
        for pair, memory in reopened_by(edits, self.memories, self._of_episode).items():
            self.memories[pair] = self.stored[pair] = memory

    def _looking(self) -> list[RuleId]:
        """The rules that look here, by what is on of the partner's products."""
        partner = next(
            (facts[FactKey(name="partner")] for facts in self.facts.values() if FactKey(name="partner") in facts), None
        )
        active = [rule for rule in self.rules.rules if rule.applies_to(PARTNER)]
        off = shut(active, products_off(partner))
        return [rule.id for rule in active if rule.id not in off]

    def _unfinished(self) -> list[Write]:
        return [write for write in self.writes.values() if not write.final]

    def _of_episode(self, event: EventId, rule: RuleId, episode: int) -> tuple[Write, ...]:
        wanted = (event, rule, episode)
        return tuple(
            write for write in self.writes.values() if (write.key.event, write.key.rule, write.key.episode) == wanted
        )

    def _on_target(self, event: EventId, target: str) -> tuple[Write, ...]:
        place = (event, target)
        return tuple(write for write in self.writes.values() if (write.key.event, write.intent.target) == place)

    def _sendings(self) -> dict[tuple[EventId, RuleId], list[datetime]]:
        first: dict[tuple[EventId, RuleId, int], datetime] = {}
        for write in self.writes.values():
            if write.first_sent_at is not None and write.sent:
                place = (write.key.event, write.key.rule, write.key.episode)
                first[place] = min(first.get(place, write.first_sent_at), write.first_sent_at)
        found: dict[tuple[EventId, RuleId], list[datetime]] = {}
        for (event, rule, _), at in first.items():
            found.setdefault((event, rule), []).append(at)
        return found

    def _facts(self, event: EventId) -> dict[FactKey, Fact]:
        return self.facts.setdefault(event, {})

    def _merge(self, name: str, event: EventId, ordinary: Mapping[str, Json], fields: Mapping[str, Json]) -> None:
        old = self._facts(event).get(FactKey(name=name))
        before = old.value if isinstance(old, Known) and isinstance(old.value, dict) else ordinary
        self.put(name, {**before, **fields}, event)


def _key(key: FactKey | str) -> FactKey:
    return FactKey(name=key) if isinstance(key, str) else key


def a_set(*rules: Rule) -> RuleSet:
    """A rule set, sorted as a folder's is."""
    return RuleSet(rules=tuple(sorted(rules, key=lambda rule: rule.id)))


def a_story(*rules: Rule, **keys: Any) -> Story:  # noqa: ANN401 - fields of Story
    """A story with one active event whose campaigns run and which has no setup."""
    story = Story(rules=a_set(*rules), **keys)
    story.event()
    story.setup()
    return story


def approved(story: Story, write: Write) -> None:
    """A person lets a waiting write go, and it is sent."""
    change = move(write, "planned", at=story.now, reason="person", why="fine", approved=True)
    story.writes[write.id] = change.after
    story.send(change.after)


def on_tcs(when: str | None = "event.status == 'active'", *do: str, **keys: Any) -> Rule:  # noqa: ANN401 - fields of Rule
    """A rule on suggested taste clusters, which no action of it writes."""
    return a_rule("r", when, *(do or ("pause",)), on_change="suggested_tcs", parameters=BUDGET_500, **keys)


def seen(story: Story, look: str) -> Story:
    """``a`` and other letters: one value each; ``?``: the value is unknown; ``0``: the list is empty; ``F`` and ``U``:
    the condition is false or unknown, the value what it was; ``T``: the condition is true again."""
    if look == "F":
        story.event(status="archived")
    elif look == "U":
        story.blind("event")
    elif look == "T":
        story.event(status="active")
    elif look == "?":
        story.blind(TCS)
    else:
        story.put(TCS, [] if look == "0" else tcs(*look.split("+")))
    return story


def told(story: Story, looks: str, after: timedelta = INTERVAL) -> str:
    """How many fire at each of these looks, a digit each."""
    fires = ""
    for look in looks.split():
        fires += str(len(seen(story, look).fires(after)))
    return fires


def course(story: Story, looks: str, see: Callable[[Story, str], object] = seen, after: timedelta = INTERVAL) -> str:
    """These looks again, each as it is named (with a slash so many minutes after the one before), and what it does:
    which rules fire, what comes to be held, plans that are not simply planned, and writes that move.
    ``x a, xy/60 b & a: skipped conflict``."""
    told = []
    for name in (look.split()[0] for look in looks.split(", ")):
        value, _, minutes = name.partition("/")
        see(story, value)
        done = story.look(timedelta(minutes=int(minutes)) if minutes else after)
        plans = [plan for plan in done.planned if len(plan.split()) > 2]
        told.append(f"{name} {' & '.join([*done.fired, *done.held, *plans, *done.moved])}".strip())
    return ", ".join(told)
