"""What `decide` is given and what one decision at one (rule, event) gives back: the small shapes of deciding.

Kept apart from the judgement itself so that episodes, changes and conflicts can each be read and tested alone.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from worker.guards import DAY, Limits
from worker.model.actions import ACTIONS
from worker.model.commits import REASONS, Hold, PartnerMemory, Record, RuleMemory
from worker.model.facts import EventId, Fact, Observation, PartnerId, RuleId, Unknown, record_of
from worker.model.rules import Judgement, Rule, RuleSet, Scope, Surge
from worker.model.writes import Mode, Write
from worker.rules.registry import BUILT_IN, BUILT_IN_REGISTRY, LOCAL, MADE
from worker.rules.spelling import counted, duration_text
from worker.writes.intents import Planned, reads_back
from worker.writes.life import Policy
from worker.writes.undo import Undo

ASKED = frozenset({"gap", "reset", "restored"})
"""Why a firing, or a write that was held for too long, waits for an operator; an edit of its rule does not lift
that."""
ENFORCE_COOLDOWN = timedelta(minutes=10)
"""How soon ``repeat: enforce`` may act again where the rule gives no ``cooldown``."""
PARTNER_FACTS_EVERY = timedelta(seconds=60)
"""How often facts of the whole partner are read where no rule names them; its product flags guard every write."""
STRICTNESS: Mapping[Mode, int] = {"live": 0, "approve": 1, "shadow": 2}
BECOMES: Mapping[Mode, str] = {"live": "are sent", "approve": "wait for an operator", "shadow": "are only logged"}
"""What a rule's writes do in each mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidingSettings:
    """The parts of the config that deciding needs."""

    mode: Mode = "live"
    gap: timedelta = timedelta(hours=1)
    gap_then: Literal["ask", "act", "reobserve"] = "ask"
    surge: Surge = field(default_factory=lambda: Surge(events=25, within=timedelta(minutes=10)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PollView:
    """One poll of one partner: everything `decide` may know. Nothing in it changes while it decides.

    ``looked_at``: the last noted look at each event. ``writes``: every write of the partner that is not final.
    ``sendings``: first attempts of episodes, as far back as `sendings_reach` says; none where no rule asks for them.
    ``firings``: those since a time. ``episode_writes``: those of one episode, final ones too;
    ``target_writes``: those of one target; ``rule_writes``: those of one rule; ``undo``: what a rule puts
    back of another one's. ``only``: the rules that look at an event, where
    the others have nothing to do. ``more``: other events of this moment are still to be decided on, and what is said of
    all together is said with the last; ``missed``: times that went by for those before.
    """

    partner: PartnerId
    now: datetime
    memory: PartnerMemory
    observations: Mapping[EventId, Observation]
    memories: Mapping[tuple[EventId, RuleId], RuleMemory]
    looked_at: Mapping[EventId, datetime] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    sendings: Mapping[tuple[EventId, RuleId], Sequence[datetime]] = field(default_factory=dict)
    firings: Callable[[datetime], Sequence[tuple[RuleId, EventId, datetime]]] = lambda _since: ()
    only: Mapping[EventId, Sequence[Rule]] = field(default_factory=dict)
    more: bool = False
    missed: Mapping[tuple[RuleId, datetime], Sequence[EventId]] = field(default_factory=dict)
    episode_writes: Callable[[EventId, RuleId, int], tuple[Write, ...]] = lambda _event, _rule, _episode: ()
    target_writes: Callable[[EventId, str], tuple[Write, ...]] = lambda _event, _target: ()
    rule_writes: Callable[[EventId, RuleId], Sequence[Write]] = lambda _event, _rule: ()
    undo: Callable[[EventId, Rule, str], Undo] = lambda _event, _rule, _undone: Undo()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleView:
    """One rule meets one event: what a decision is made from. ``silence``: why this poll is the first after a
    silence, as a reason code, or None. ``writes``: its own that are not final. ``joined``: those of other rules that
    stand for its wish too. ``rule_sendings``: when it acted for any event; now, for each firing not sent yet."""

    rule: Rule
    memory: RuleMemory
    scope: Scope
    judgement: Judgement
    now: datetime
    settings: DecidingSettings
    writes: tuple[Write, ...] = ()
    joined: tuple[Write, ...] = ()
    sendings: Sequence[datetime] = ()
    rule_sendings: Callable[[], Sequence[datetime]] = lambda: ()
    silence: str | None = None
    episode_writes: Callable[[int], tuple[Write, ...]] = lambda _episode: ()
    target_writes: Callable[[str], tuple[Write, ...]] = lambda _target: ()
    undo: Callable[[str], Undo] = lambda _undone: Undo()

    def since(self, began: datetime | None) -> datetime:
        """Since when what is so now has been so: not over a silence, and by no clock that was ahead."""
        return self.now if self.silence is not None else min(began or self.now, self.now)

    @property
    def sequence(self) -> tuple[Write, ...]:
        """The writes of this rule's current episode that are not final."""
        return tuple(write for write in self.writes if write.key.episode == self.memory.episode)

    @property
    def last_firing(self) -> tuple[Write, ...]:
        """What came of the current episode's firing: its own writes, final ones too, and those that it shares."""
        return (*self.episode_writes(self.memory.episode), *self.joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A firing, before conflicts and surge have had their say.

    ``fired``: the memory if it fires; ``dropped``: the memory if it loses to a standing opposite wish.
    ``forced``: why its writes must wait for approval, or None. ``steps``: what it would write, once computed;
    ``undone``: what is said of the writes that it puts back. ``wait``: the step that is over, where these come after.
    """

    view: RuleView
    episode: int
    reason: Literal["condition", "change", "drift", "wait"]
    why: str
    fired: RuleMemory
    dropped: RuleMemory
    forced: Hold | None = None
    steps: tuple[Planned, ...] = ()
    undone: tuple[Record, ...] = ()
    wait: Write | None = None

    @property
    def event(self) -> EventId:
        """The event it fires for."""
        return self.view.memory.event


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An unsent write that is not wanted any more."""

    write: Write
    reason: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """What one decision gives: the new memory, and either a candidate, a hold, or nothing; and writes that end.
    With a candidate, ``memory`` is the one to keep where nothing comes of it because a value cannot be computed.
    ``missed``: a time of ``at`` that went by, and is left."""

    memory: RuleMemory
    candidate: Candidate | None = None
    held: Hold | None = None
    ends: tuple[End, ...] = ()
    missed: datetime | None = None


REOBSERVED = Hold(reason="gap", why="first poll after a silence: remembered, not acted on")


def mode_of(rule: Rule, settings: DecidingSettings) -> Mode:
    """A rule's mode can only be stricter than the config's."""
    return max(settings.mode, rule.mode or "live", key=lambda mode: STRICTNESS[mode])


def modes_said(rules: Iterable[Rule], settings: DecidingSettings) -> str:
    """What becomes of the writes of these rules: who starts a worker sees whether it acts."""
    counts = Counter(mode_of(rule, settings) for rule in rules if rule.enabled)
    parts = [f"writes of {counted(counts[mode], 'rule')} {does}" for mode, does in BECOMES.items() if counts[mode]]
    return f"mode {settings.mode}: {'; '.join(parts) or 'no rule is in force'}"


def approval(forced: str | None, settings: DecidingSettings) -> Hold | None:
    """Why what rests on a first poll after a silence waits for an operator; with ``gap: {then: act}`` a gap does
    not."""
    if forced is None or (forced == "gap" and settings.gap_then == "act"):
        return None
    return Hold(reason=forced, why=REASONS[forced])


def reobserves(memory: RuleMemory, settings: DecidingSettings) -> bool:
    """Whether what would fire is only remembered: it was first seen after a gap, and the config says so."""
    return memory.forced == "gap" and settings.gap_then == "reobserve"


def waits(write: Write) -> str | None:
    """Why a write waits for an operator whom no other firing goes round; None where it does not."""
    return write.reason if write.state == "waiting" and write.reason in ASKED else None


def waits_again(rule: Rule, memory: RuleMemory) -> Hold | None:
    """A firing that was made to wait for an operator, or had begun what must not be done twice, and was cancelled or
    replaced: the one in its place waits."""
    if memory.asked is None or (memory.asked == "begun" and rule.at is not None and not rule.on_change):
        return None  # each time of `at` is a firing of its own
    before = "" if memory.asked == "begun" else "the firing in whose place this one comes waited for approval: "
    return Hold(reason=memory.asked, why=f"{before}{REASONS[memory.asked]}")


def as_fired(view: RuleView, memory: RuleMemory, forced: Hold | None) -> RuleMemory:
    """The memory of a firing of now. ``forced``: why its writes wait for an operator."""
    return replace(
        memory,
        fired=True,
        fired_at=view.now,
        held=None,
        do_hash=view.rule.do_hash,
        waited=forced.reason if forced is not None else None,
        asked=None,
    )


def asks_sendings(rules: Iterable[Rule]) -> bool:
    """Whether any of them goes by when it was sent before: by ``cooldown``, ``limit`` or ``repeat: enforce``."""
    return any(
        rule.repeat == "enforce" or rule.cooldown is not None or rule.per_event_per_day or rule.per_rule_per_day
        for rule in rules
    )


def sendings_reach(rules: Iterable[Rule]) -> timedelta:
    """How far back first attempts matter: a day for ``limit``, and the longest ``cooldown``."""
    return max([DAY, *(rule.cooldown for rule in rules if rule.cooldown is not None)])


def names_read(rule: Rule) -> Iterable[str]:
    """The facts that the rule names, and with ``repeat: enforce`` those that show its targets."""
    names = set(rule.names) - LOCAL - MADE
    if rule.repeat == "enforce":
        names |= {fact for step in rule.do for fact in ACTIONS[step.action].reads}
    return sorted(names)


def held_by_hours(rule: Rule, now: datetime) -> Hold | None:
    """Holds what the rule does outside of its hours; None within them."""
    if rule.between is None or (opens := rule.between.opens(now)) is None:
        return None
    return Hold(reason="between", why=f"it is not {rule.between.source}", until=opens)


def held_by_pace(view: RuleView, since: datetime | None) -> Hold | None:
    """What holds a firing now: ``for``, ``between``, ``cooldown`` or ``limit``; None where all let it go."""
    rule, now = view.rule, view.now
    if rule.hold_for is not None and since is not None and now < since + rule.hold_for:
        until = since + rule.hold_for
        why = f"true since {since:%H:%M:%S}, must hold for {duration_text(rule.hold_for)}"
        return Hold(reason="for", why=why, until=until)
    if (closed := held_by_hours(rule, now)) is not None:
        return closed
    cooldown = rule.cooldown
    if cooldown is not None and (acted := within(view.sendings, now, cooldown)):
        until = acted[-1] + cooldown
        why = f"acted at {acted[-1]:%H:%M:%S}, cooldown {duration_text(cooldown)}"
        return Hold(reason="cooldown", why=why, until=until)
    recent = within(view.sendings, now, DAY)
    limit = rule.per_event_per_day
    if limit is not None and len(recent) >= limit:
        until = recent[len(recent) - limit] + DAY
        return Hold(reason="limit", why=f"acted {len(recent)} times in 24 hours, the limit is {limit}", until=until)
    most = rule.per_rule_per_day
    if most is not None:
        recent = within(view.rule_sendings(), now, DAY)
        if len(recent) >= most:
            why = f"the rule acted {len(recent)} times in 24 hours, or is about to; the limit is {most}"
            return Hold(reason="limit", why=why, until=recent[len(recent) - most] + DAY)
    return None


def within(moments: Iterable[datetime], now: datetime, window: timedelta) -> list[datetime]:
    """The moments that count for a window of the past, oldest first.

    One that lies further ahead than the window is long was stamped by a clock that was wrong, and holds nothing.
    """
    return sorted(at for at in moments if now - window < at <= now + window)


# Most pairs of a rule and an event are quiet: the condition was false at every poll, and nothing is stored of them.
# That they were looked at, and when, follows from when the event was looked at and since when the rule looks. So a
# look at an event is noted, once for all rules, after whatever makes it a first poll.


def looked_by(memory: PartnerMemory, rules: Collection[RuleId], now: datetime) -> PartnerMemory:
    """The partner's memory with these rules looking from now on: which are new, which went, and which are back."""
    new = [rule for rule in rules if rule not in memory.rules]
    back = [rule for rule in rules if rule in memory.away]
    gone = [rule for rule in memory.rules if rule not in rules and rule not in memory.away]
    if not (new or back or gone):
        return memory
    away = {rule: at for rule, at in memory.away.items() if rule not in back}
    return replace(
        memory,
        rules={**memory.rules, **dict.fromkeys(new, now)},
        away={**away, **dict.fromkeys(gone, now)},
        back={**memory.back, **dict.fromkeys(back, now)},
    )


def stamped_by(memory: PartnerMemory, now: datetime) -> PartnerMemory:
    """The memory with nothing in it that is still to come, as a clock that was ahead has stamped it: every poll until
    then would be a first one."""
    found: dict[str, Any] = {}
    for name in ("after_gap_at", "reset_at", "restored_at", "returned", "rules", "away", "back"):
        at = getattr(memory, name)
        found[name] = {one: min(at[one], now) for one in at} if isinstance(at, Mapping) else at and min(at, now)
    return replace(memory, **found)


def as_after_gap(memory: PartnerMemory, known: RuleMemory) -> RuleMemory:
    """The memory of a rule that was gone, disabled or not for this partner, and is back: all is kept, but this poll is
    as after a gap, because nobody has looked meanwhile."""
    back = memory.back.get(known.rule)
    if back is None or known.looked_at is None or known.looked_at >= back:
        return known
    return replace(known, looked_at=None, forced=known.forced or "gap")


def quiet(poll: PollView, event: EventId, rule: Rule, episode: int) -> RuleMemory | None:
    """The memory of a pair of which nothing is stored: that it was looked at; None where it was not, so that it is new.
    A rule with ``at`` remembers its times, so of it something is always stored. Who comes with this poll was not looked
    at before, however late a clock that was ahead has stamped the event."""
    at, since = poll.looked_at.get(event), poll.memory.rules.get(rule.id)
    if at is None or since is None or at < since or at > poll.now == since or rule.at is not None:
        return None
    return RuleMemory(partner=poll.partner, event=event, rule=rule.id, episode=episode, looked_at=at)


def to_note(poll: PollView, rules: Iterable[RuleId], gap: timedelta) -> tuple[EventId, ...]:
    """The events of this poll for which it is the first, for any of these rules: nothing else tells of it later."""
    memory = poll.memory
    marks = [memory.restored_at, memory.after_gap_at]
    marks += [at for rule in rules for at in (memory.rules.get(rule), memory.back.get(rule))]
    newest = max((at for at in marks if at is not None), default=None)

    def first(event: EventId) -> bool:
        at, returned = poll.looked_at.get(event), memory.returned.get(event)
        if at is None or at > poll.now + gap:
            return True
        return (newest is not None and at < newest) or (returned is not None and at < returned)

    return tuple(event for event in poll.observations if first(event))


def silence_before(
    memory: PartnerMemory, known: RuleMemory | None, event: EventId, latest: datetime | None = None
) -> str | None:
    """Why a poll is the first after a silence, as a reason code: restored, reset, gap; None for an ordinary poll.

    A rule or an event without memory is new, not silent: it has nothing that could have been missed. Only after a
    restored ledger do those without memory count as well. A poll that is stamped after ``latest`` says nothing of when
    it was: the clock was ahead then.
    """
    looked = known.looked_at if known is not None else None
    if known is not None and looked is None and known.forced is not None:
        return known.forced
    if memory.restored_at is not None and (looked is None or looked < memory.restored_at):
        return "restored"
    if looked is None:
        return None
    if latest is not None and looked > latest:
        return "gap"
    returned = memory.returned.get(event)
    if returned is not None and looked < returned:
        return "gap" if reset_before(memory, event) is None else "reset"
    if memory.after_gap_at is not None and looked < memory.after_gap_at:
        return "gap"
    return None


def reset_before(memory: PartnerMemory, event: EventId) -> datetime | None:
    """When the event came back, where that was with or after a reset of the service; another one may have its id."""
    returned = memory.returned.get(event)
    return returned if returned is not None and memory.reset_at is not None and returned >= memory.reset_at else None


def of_another(memory: PartnerMemory, write: Write) -> bool:
    """Whether the write went to the event that had the id before a reset, or may have."""
    returned = reset_before(memory, write.key.event)
    return returned is not None and (write.last_sent_at or write.planned_at) < returned


# What a partner's product flags keep from happening (API sections 1 and 2.2). Pure.
#
# Two flags on the partner's record say which area of the service is enabled. A rule that needs an area which is off
# does not look: its facts are unknown, its memory is frozen, and its return is as after a gap. A flag that is missing
# or was never read says nothing; then the facts themselves say what can be known.

WRITES = "campaign_recommendations"
"""The flag that every write to the service needs."""
FLAGS: tuple[str, ...] = (WRITES, "demand_prediction")
_NO_WRITE = frozenset({"notify", "wait"})


def products_off(partner: Fact | None) -> frozenset[str]:
    """The flags that the partner's record says are off."""
    return frozenset(flag for flag in FLAGS if record_of(partner).get(flag) is False)


def shut(rules: Iterable[Rule], off: frozenset[str]) -> dict[RuleId, str]:
    """The rules that need an area which is off, and what they need it for, in words."""
    found: dict[RuleId, str] = {}
    for rule in rules if off else ():
        for flag in FLAGS:
            needing = _needing(rule, flag) if flag in off else []
            if needing:
                found.setdefault(rule.id, f"the partner's {flag} is off, and the rule needs it: {', '.join(needing)}")
    return found


def active_rules(rules: RuleSet, partner: PartnerId, off: frozenset[str]) -> tuple[list[Rule], dict[RuleId, str]]:
    """The rules that look at a partner, and why a product that is ``off`` keeps each of the others from it."""
    active = [rule for rule in rules.rules if rule.applies_to(partner)]
    closed = shut(active, off)
    return [rule for rule in active if rule.id not in closed], closed


def off_fact(name: str, off: frozenset[str]) -> Unknown | None:
    """The fact, unknown because its area is off; None where it can be read."""
    flag = BUILT_IN[name].product if name in BUILT_IN else ""
    return Unknown(code="product_off", why=f"the partner's {flag} is off") if flag in off else None


def _needing(rule: Rule, flag: str) -> list[str]:
    """The actions and facts of a rule that need the area."""
    facts = sorted(name for name in rule.names if name in BUILT_IN and BUILT_IN[name].product == flag)
    actions = dict.fromkeys(step.action for step in rule.do if step.action not in _NO_WRITE) if flag == WRITES else ()
    return [*actions, *facts]


# What the engine is told once at start: the config's numbers in the shapes that the core understands.


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Numbers and switches of one daemon.

    ``unconfirmed``: by action, the assumptions it depends on that nobody confirmed; ``unconfirmed_facts``: those by
    fact, which a rule depends on that decides with it. Both are empty against sandbox and loopback.
    ``toggles``: actions whose write flips the field instead of setting it. ``ask_spending``: unknown outcomes of writes
    that spend go to an operator at once, because ``safety.settle`` is not confirmed. ``requests_per_minute``: the
    budget per partner, from which it is estimated how often facts can be read. ``page_size``: events on one page of the
    list. ``shared``: the facts that are the whole partner's, the config's own among them; one read serves all events.
    ``every``: facts that are asked no more often.
    ``late_s``: in a fleet, so long after an attempt was recorded a byte of it may leave, whoever is gone.
    ``observations_kept``: how long changes of facts are kept for `backtest`. ``decided_again``: every event is
    decided on again after this time, and at the latest after twice as long, not all at once.
    """

    deciding: DecidingSettings
    limits: Limits
    interval: timedelta
    timeout: timedelta
    stop_within: timedelta
    settle: timedelta
    evidence_reads: int
    evidence_within: timedelta
    confirm_within: timedelta
    max_attempts: int
    ask: bool = False
    ask_spending: bool = False
    toggles: frozenset[str] = frozenset()
    unconfirmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unconfirmed_facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    requests_per_minute: int = 300
    page_size: int = 100
    only_partners: frozenset[PartnerId] | None = None
    shared: frozenset[str] = BUILT_IN_REGISTRY.shared
    every: Mapping[str, timedelta] = field(default_factory=dict)
    late_s: float = 0.0
    observations_kept: timedelta = timedelta(days=8)
    decided_again: timedelta = timedelta(minutes=30)

    def pages(self, events: int) -> int:
        """How many pages a list of so many events has."""
        return max(1, -(-events // self.page_size))


def unconfirmed_for(action: str, rule: Rule | None, settings: EngineSettings) -> tuple[str, ...]:
    """What a write depends on that nobody confirmed: by how it is sent and read back, and by the facts that its rule
    decides with. An undo has no rule; a message and a wait are no writes, and depend on nothing."""
    found = dict.fromkeys(settings.unconfirmed.get(action, ()))
    for name in sorted(rule.names) if rule is not None and action not in _NO_WRITE else ():
        found |= dict.fromkeys(settings.unconfirmed_facts.get(name, ()))
    return tuple(found)


def policy_for(write: Write, rules: RuleSet, settings: EngineSettings) -> Policy:
    """How this write is settled: the config's numbers, stricter where a rule of its or its kind asks for it."""
    asked = any(rule.on_unknown == "ask" for rule in rules.rules if rule.id in (write.key.rule, *write.rules))
    return Policy(
        settle=settings.settle,
        evidence_reads=settings.evidence_reads,
        evidence_within=settings.evidence_within,
        confirm_within=settings.confirm_within,
        max_attempts=settings.max_attempts,
        interval=settings.interval,
        ask=settings.ask or asked or (settings.ask_spending and write.intent.spends),
        toggle=write.intent.action in settings.toggles,
        reads_back=reads_back(write.intent, write.key.item),
        spends=write.intent.spends,
    )
