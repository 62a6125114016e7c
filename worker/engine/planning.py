"""From the firings of one look to plans: surge, mode, sharing of equal wishes, and what a newer firing replaces."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from worker.engine.changes import written_values
from worker.engine.looks import Candidate, Look, Settings, mode_of
from worker.model.actions import ACTIONS
from worker.model.commits import Brake, Move, RuleMemory
from worker.model.facts import EventId, Json, Known, RuleId, WriteId, spelled
from worker.model.records import Record
from worker.model.rules import Rule, RuleSet
from worker.model.writes import UNSENT, Mode, Plan, Write, WriteKey
from worker.rules.durations import duration_text
from worker.writes.evidence import Wish
from worker.writes.intents import Planned, asks_always, plan_steps, wishes_of
from worker.writes.life import move, note

# Two rules on one target: standing wishes, priority, ties that stop spending.
#
# A rule keeps its wish while its episode is open, also while something holds its firing; with ``on_change`` or ``at``
# until its writes are final. No rule acts against a standing opposite wish of higher priority, in this look or a later
# one. On a tie the wish that stops spending wins, otherwise neither acts. What a rule in shadow mode wishes moves no
# live one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One wish in force, and the rule whose it is."""

    rule: Rule
    wish: Wish
    shadow: bool


def wishes_in_force(rule: Rule, settings: Settings) -> list[Standing]:
    """The wishes of a rule, as others meet them."""
    shadow = mode_of(rule, settings) == "shadow"
    return [Standing(rule=rule, wish=wish, shadow=shadow) for wish in wishes_of(rule)]


def standing_wishes(
    rules: Iterable[Rule], memories: Mapping[RuleId, RuleMemory], writes: Sequence[Write], settings: Settings
) -> list[Standing]:
    """The wishes in force for one event, whose open ``writes`` these are, before this look's firings."""
    wanted = {rule for write in writes for rule in write.rules}
    found: list[Standing] = []
    for rule in rules:
        memory = memories.get(rule.id)
        brief = rule.on_change or rule.at is not None
        if rule.id in wanted if brief else memory is not None and memory.open:
            found.extend(wishes_in_force(rule, settings))
    return found


def in_force(candidates: Iterable[Candidate]) -> list[Standing]:
    """The wishes of these candidates."""
    return [one for each in candidates for one in wishes_in_force(each.glimpse.rule, each.glimpse.settings)]


def judge_conflicts(
    candidates: Sequence[Candidate], standing: Sequence[Standing]
) -> tuple[list[Candidate], list[tuple[Candidate, Brake]]]:
    """Which candidates of one event may fire, and what holds the others."""
    fresh = in_force(candidates)
    winners: list[Candidate] = []
    losers: list[tuple[Candidate, Brake]] = []
    for candidate in sorted(candidates, key=order_of):
        mine = in_force([candidate])
        against = next((other for other in (*standing, *fresh) if any(loses(one, other) for one in mine)), None)
        if against is None:
            winners.append(candidate)
        else:
            losers.append((candidate, Brake(reason="conflict", why=_spelled(against))))
    return winners, losers


def overruled(mine: Sequence[Standing], standing: Sequence[Standing]) -> str | None:
    """Why a firing that already has unsent writes must not be sent after all: a stronger opposite wish has come.

    A tie that neither wins stops no write that was there first.
    """
    for other in standing:
        for one in mine:
            if loses(one, other) and not loses(other, one):
                return _spelled(other)
    return None


def order_of(candidate: Candidate) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return precedence(candidate.glimpse.rule)


def precedence(rule: Rule) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return (-rule.priority, rule.id)


def loses(mine: Standing, other: Standing) -> bool:
    """Whether a wish may not be acted on while the other stands."""
    if other.rule.id == mine.rule.id or not other.wish.opposes(mine.wish) or (other.shadow and not mine.shadow):
        return False
    if other.rule.priority != mine.rule.priority:
        return other.rule.priority > mine.rule.priority
    return not (mine.wish.stops and not other.wish.stops)


def _spelled(against: Standing) -> str:
    rule, wish = against.rule, against.wish
    return f"rule {rule.id} (priority {rule.priority}) wishes {wish.target} to be {wish.value}"


def computed(candidate: Candidate) -> Candidate:
    """The candidate with what it would write. Raises `NotComputable`.

    ``remembered`` are the baselines before a change, by their keys, for the person who asks for it `again`.
    """
    rule, scope = candidate.glimpse.rule, candidate.glimpse.scope
    context: dict[str, Json] = {**candidate.extra, "written": written_values(rule, scope)}
    before = {key: base.value for key, base in candidate.fired.before_firing.items()}
    if before:
        context["remembered"] = before
    return replace(candidate, steps=plan_steps(rule, scope, context))


class Planner:
    """Collects the plans, records and moves of one look. Candidates come in by event, then by precedence.

    ``writes`` are those that are still wanted: a firing may share them. What several firings change about one write
    becomes one move, because a ledger takes no second one.
    """

    def __init__(self, *, look: Look, rules: RuleSet, settings: Settings, writes: Sequence[Write]) -> None:
        self._look = look
        self._rules = rules
        self._settings = settings
        self._writes = {write.id: write for write in writes}
        self._moves: dict[WriteId, Move] = {}
        self._of_event: dict[EventId, list[WriteId]] = {}
        for write in writes:
            self._of_event.setdefault(write.key.event, []).append(write.id)
        self.plans: list[Plan] = []
        self.records: list[Record] = []

    @property
    def moves(self) -> tuple[Move, ...]:
        """What changes about writes that were there before."""
        return tuple(self._moves.values())

    def plan(self, winners: Sequence[Candidate]) -> None:
        """Plans every firing. All are counted before any is planned, so that a surge holds its first as well."""
        surging = self._surging(winners)
        plans: dict[EventId, list[Plan]] = {}
        for candidate in winners:
            self._fire(candidate, plans.setdefault(candidate.event, []), surging.get(candidate.glimpse.rule.id))
        self.plans.extend(plan for of_event in plans.values() for plan in of_event)
        self._hold_unsent(surging)

    def _surging(self, winners: Sequence[Candidate]) -> dict[RuleId, str]:
        events: dict[RuleId, set[EventId]] = {}
        rules: dict[RuleId, Rule] = {}
        for candidate in winners:
            events.setdefault(candidate.glimpse.rule.id, set()).add(candidate.event)
            rules[candidate.glimpse.rule.id] = candidate.glimpse.rule
        over: dict[RuleId, str] = {}
        for rule_id, now_events in events.items():
            surge = rules[rule_id].surge or self._settings.surge
            since = self._look.now - surge.within
            recent = {event for rule, event, at in self._look.firings if rule == rule_id and at > since}
            count = len(now_events | recent)
            if count > surge.events:
                within = duration_text(surge.within)
                over[rule_id] = f"fires for {count} events within {within}; more than {surge.events} need approval"
        return over

    def _hold_unsent(self, surging: Mapping[RuleId, str]) -> None:
        for write in self._writes.values():
            if write.state == "planned" and not write.sent and not write.approved and write.key.rule in surging:
                why = surging[write.key.rule]
                self._change(move(write, "waiting", at=self._look.now, reason="surge", why=why))

    def _change(self, change: Move) -> None:
        """Keeps a change of a write, together with what this look has changed about it already."""
        earlier = self._moves.get(change.before.id)
        if earlier is not None:
            change = Move(before=earlier.before, after=change.after, records=(*earlier.records, *change.records))
        self._moves[change.before.id] = change
        self._writes[change.before.id] = change.after

    def _fire(self, candidate: Candidate, plans: list[Plan], surge: str | None) -> None:
        mode = mode_of(candidate.glimpse.rule, self._settings)
        owner = self._owner(candidate, plans, mode)
        why = candidate.why if owner is None else f"{candidate.why}; rule {owner} stands for the same wish"
        self.records.append(self._record(candidate, why, "shared" if owner else candidate.reason))
        if owner is not None:
            self._join(candidate, plans, mode)
        else:
            plans.extend(
                _in_mode(self._plan(candidate, step), mode, candidate.forced, surge) for step in candidate.steps
            )
        self._replace_older(candidate, plans)

    def _owner(self, candidate: Candidate, plans: Sequence[Plan], mode: Mode) -> RuleId | None:
        """The rule whose open write already stands for every wish of this firing. A shadow has none but shadows.

        Of an action of several calls the last one has to be open: where it is not, because its rule was removed
        in between, the call that is under way stands for half of the wish only. And a step that another one of its
        rule comes before, which this rule does not wish for, stands for nothing: it falls with that one.
        """
        wishes = _wishes(candidate)
        if any(step.fault for step in candidate.steps):
            return None
        standing: dict[tuple[str, str], RuleId] = {}
        if mode != "shadow":
            writes = self._open(candidate.event)
            for write in writes:
                whole = write.key.item not in ACTIONS[write.intent.action].items[:-1]
                joinable = whole and not _comes_after(write, writes, wishes)
                if write.intent.target and joinable and not self._outranks(candidate.glimpse.rule, write):
                    standing.setdefault(_wish(write), write.key.rule)
        for plan in plans:
            if plan.intent.target and _alike(plan, mode) and not _comes_after(plan, plans, wishes):
                standing.setdefault(_wish(plan), plan.key.rule)
        owners = {standing.get(wish) for wish in wishes}
        owner = owners.pop() if len(owners) == 1 else None
        return owner if owner != candidate.glimpse.rule.id else None

    def _open(self, event: EventId) -> list[Write]:
        """The event's writes that a rule may stand behind; an undo is a person's, and no rule shares it."""
        writes = (self._writes[write_id] for write_id in self._of_event.get(event, ()))
        return [write for write in writes if not write.final and not write.undo]

    def _outranks(self, rule: Rule, write: Write) -> bool:
        """A write that waits for a person on behalf of a weaker rule holds no stronger one back."""
        owner = self._rules.get(write.key.rule)
        return write.state == "waiting" and (owner is None or precedence(rule) < precedence(owner))

    def _join(self, candidate: Candidate, plans: list[Plan], mode: Mode) -> None:
        """The rule joins the writes that stand for its wishes: they live on while any of their rules wants them."""
        rule, wishes = candidate.glimpse.rule.id, _wishes(candidate)
        for index, plan in enumerate(plans):
            if _wish(plan) in wishes and _alike(plan, mode) and not _comes_after(plan, plans, wishes):
                plans[index] = replace(plan, rules=(*plan.rules, rule))
        writes = self._open(candidate.event) if mode != "shadow" else []
        for write in writes:
            if _wish(write) in wishes and rule not in write.rules and not _comes_after(write, writes, wishes):
                self._change(note(write, rules=(*write.rules, rule)))

    def _plan(self, candidate: Candidate, step: Planned) -> Plan:
        rule = candidate.glimpse.rule.id
        return Plan(
            key=WriteKey(
                partner=self._look.partner,
                event=candidate.event,
                rule=rule,
                episode=candidate.episode,
                position=step.position,
                item=step.item,
            ),
            intent=step.intent,
            state="refused" if step.fault else "planned",
            reason="bad_value" if step.fault else candidate.reason,
            why=step.fault or candidate.why,
            rules=(rule,),
        )

    def _replace_older(self, candidate: Candidate, plans: list[Plan]) -> None:
        """A newer firing of the same rule and event ends the unsent writes of the older one. Where other rules want
        such a write as well, the new one stands for them, or else it stays for them."""
        rule = candidate.glimpse.rule.id
        for write in self._open(candidate.event):
            if write.key.rule != rule or rule not in write.rules or write.state not in UNSENT:
                continue
            others = tuple(other for other in write.rules if other != rule)
            if others and not _taken_over(write, others, plans):
                self._change(note(write, rules=others))
                continue
            why = f"episode {candidate.episode} of the same rule takes its place"
            self._change(move(write, "skipped", at=self._look.now, reason="superseded", why=why))

    def _record(self, candidate: Candidate, why: str, reason: str) -> Record:
        return Record(
            at=self._look.now,
            kind="fired",
            reason=reason,
            why=why,
            partner=self._look.partner,
            event=candidate.event,
            rule=candidate.glimpse.rule.id,
            episode=candidate.episode,
            facts=_facts_used(candidate),
        )


def _wishes(candidate: Candidate) -> set[tuple[str, str]]:
    return {(step.intent.target, step.intent.wish) for step in candidate.steps}


def _wish(one: Plan | Write) -> tuple[str, str]:
    return one.intent.target, one.intent.wish


def _comes_after(one: Plan | Write, others: Iterable[Plan | Write], wishes: AbstractSet[tuple[str, str]]) -> bool:
    """Whether an earlier step of its rule, which these wishes do not ask for, has not ended yet."""
    episode = one.key.rule, one.key.episode
    return any(
        (other.key.rule, other.key.episode) == episode
        and other.intent.order < one.intent.order
        and _wish(other) not in wishes
        for other in others
    )


def _alike(plan: Plan, mode: Mode) -> bool:
    """A shadow stands for nothing but shadows, and the other way round; what is refused stands for nothing."""
    return plan.state != "refused" and (plan.state == "shadowed") == (mode == "shadow")


def _taken_over(write: Write, others: tuple[RuleId, ...], plans: list[Plan]) -> bool:
    """Whether a new plan of the same rule wants the same, and so stands for these others from now on."""
    for index, plan in enumerate(plans):
        if plan.key.rule == write.key.rule and _wish(plan) == _wish(write) and _alike(plan, "live"):
            plans[index] = replace(plan, rules=(*plan.rules, *others))
            return True
    return False


def _in_mode(plan: Plan, mode: Mode, forced: Brake | None, surge: str | None) -> Plan:
    if plan.state == "refused":
        return plan
    if mode == "shadow":
        return replace(plan, state="shadowed", reason="mode", why=f"shadow mode: {plan.why}")
    if forced is not None:
        return replace(plan, state="waiting", reason=forced.reason, why=f"{forced.why}: {plan.why}")
    if surge is not None:
        return replace(plan, state="waiting", reason="surge", why=surge)
    if mode == "approve":
        return replace(plan, state="waiting", reason="mode", why=f"approve mode: {plan.why}")
    asks = asks_always(plan.intent)
    return plan if asks is None else replace(plan, state="waiting", reason=asks[0], why=f"{asks[1]}: {plan.why}")


def _facts_used(candidate: Candidate) -> dict[str, Json]:
    """The facts that the rule names, with the moment each was read; of records only the fields its text mentions."""
    scope = candidate.glimpse.scope
    source = candidate.glimpse.rule.when.source if candidate.glimpse.rule.when is not None else ""
    found: dict[str, Json] = {}
    for name in sorted(candidate.glimpse.rule.names):
        fact = scope.fact(name)
        if not isinstance(fact, Known):
            continue
        value = fact.value
        if isinstance(value, Mapping) and name in ("event", "partner", "setup", "defaults"):
            value = {field: part for field, part in value.items() if field in source or field == "state"}
        found[name] = {"value": value, "read_at": spelled(fact.read_at)}
    return found
