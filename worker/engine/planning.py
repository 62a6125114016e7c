"""From the firings of one look to plans: surge, mode, sharing of equal wishes, and what a newer firing replaces."""

from collections.abc import Mapping
from dataclasses import replace

from worker.engine.looks import Candidate, Look, Settings
from worker.engine.overlay import written_values
from worker.model.commits import Move
from worker.model.facts import Json, Known
from worker.model.ids import EventId, RuleId
from worker.model.records import Record
from worker.model.rules import Rule
from worker.model.writes import UNSENT, Mode, Plan, WriteKey
from worker.writes.intents import NotComputable, Planned, plan_steps, wishes_of
from worker.writes.states import move, note

STRICTNESS: Mapping[Mode, int] = {"live": 0, "approve": 1, "shadow": 2}


def strictest(config: Mode, rule: Mode | None) -> Mode:
    """A rule's mode can only be stricter than the config's."""
    return config if rule is None or STRICTNESS[rule] <= STRICTNESS[config] else rule


class Planner:
    """Collects the plans, records and moves of one look. Candidates come in by event, then by precedence."""

    def __init__(self, *, look: Look, settings: Settings) -> None:
        self._look = look
        self._settings = settings
        self._open: dict[tuple[EventId, str, str], RuleId] = {}
        self.plans: list[Plan] = []
        self.records: list[Record] = []
        self.moves: list[Move] = []
        for write in look.writes:
            if write.state != "shadowed":
                self._open.setdefault((write.key.event, write.intent.target, write.intent.wish), write.key.rule)

    def plan(self, winners: list[Candidate]) -> None:
        """Plans every firing. All are counted before any is planned, so that a surge holds its first as well."""
        surging = self._surging(winners)
        for candidate in winners:
            self._fire(candidate, surging)
        self._hold_unsent(surging)

    def _surging(self, winners: list[Candidate]) -> dict[RuleId, str]:
        now = self._look.now
        events: dict[RuleId, set[EventId]] = {}
        rules: dict[RuleId, Rule] = {}
        for candidate in winners:
            events.setdefault(candidate.glimpse.rule.id, set()).add(candidate.event)
            rules[candidate.glimpse.rule.id] = candidate.glimpse.rule
        over: dict[RuleId, str] = {}
        for rule_id, now_events in events.items():
            surge = rules[rule_id].surge or self._settings.surge
            recent = {event for rule, event, at in self._look.firings if rule == rule_id and at > now - surge.within}
            count = len(now_events | recent)
            if count > surge.events:
                over[rule_id] = (
                    f"fires for {count} events within {surge.within}; more than {surge.events} need approval"
                )
        return over

    def _hold_unsent(self, surging: Mapping[RuleId, str]) -> None:
        for write in self._look.writes:
            if write.state == "planned" and not write.sent and not write.approved and write.key.rule in surging:
                why = surging[write.key.rule]
                self.moves.append(move(write, "waiting", at=self._look.now, reason="surge", why=why))

    def _fire(self, candidate: Candidate, surging: Mapping[RuleId, str]) -> None:
        rule = candidate.glimpse.rule
        context: dict[str, Json] = {**candidate.extra, "written": written_values(rule, candidate.glimpse.scope)}
        scope = candidate.glimpse.scope
        try:
            steps = plan_steps(rule, scope, context)
        except NotComputable as error:
            self.records.append(self._record(candidate, str(error), kind="held", reason="fact_unknown"))
            return
        shared = self._shared(candidate, steps)
        why = candidate.why if shared is None else f"{candidate.why}; rule {shared} stands for the same wish"
        self.records.append(self._record(candidate, why, kind="fired", reason="shared" if shared else candidate.reason))
        if shared is not None:
            self._join(candidate)
        else:
            for step in steps:
                self._plan(candidate, step, surging.get(rule.id))
        self._replace_older(candidate)

    def _shared(self, candidate: Candidate, steps: tuple[Planned, ...]) -> RuleId | None:
        """The rule whose open write already stands for every wish of this firing."""
        owners = {
            self._open.get((candidate.event, step.intent.target, step.intent.wish))
            for step in steps
            if step.item != "cr"
        }
        owner = owners.pop() if len(owners) == 1 else None
        return owner if owner != candidate.glimpse.rule.id else None

    def _join(self, candidate: Candidate) -> None:
        """The rule joins the writes that stand for its wishes: they live on while any of their rules wants them."""
        rule = candidate.glimpse.rule.id
        wishes = {(wish.target, wish.text) for wish in wishes_of(candidate.glimpse.rule)}
        for index, plan in enumerate(self.plans):
            if plan.key.event == candidate.event and (plan.intent.target, plan.intent.wish) in wishes:
                self.plans[index] = replace(plan, rules=(*plan.rules, rule))
        for write in self._look.writes:
            wished = write.key.event == candidate.event and (write.intent.target, write.intent.wish) in wishes
            if wished and rule not in write.rules:
                self.moves.append(note(write, rules=(*write.rules, rule)))

    def _plan(self, candidate: Candidate, step: Planned, surge: str | None) -> None:
        glimpse = candidate.glimpse
        mode = strictest(self._settings.mode, glimpse.rule.mode)
        forced = candidate.forced
        if forced == "gap" and self._settings.gap_then == "act":
            forced = None
        plan = Plan(
            key=WriteKey(
                partner=self._look.partner,
                event=candidate.event,
                rule=glimpse.rule.id,
                episode=candidate.episode,
                position=step.position,
                item=step.item,
            ),
            intent=step.intent,
            state="planned",
            reason=candidate.reason,
            why=candidate.why,
            rules=(glimpse.rule.id,),
        )
        self._open.setdefault((candidate.event, step.intent.target, step.intent.wish), glimpse.rule.id)
        self.plans.append(_in_mode(plan, mode, forced, surge))

    def _replace_older(self, candidate: Candidate) -> None:
        """A newer firing of the same rule and event ends the unsent writes of the older one."""
        for write in self._look.writes:
            same = write.key.event == candidate.event and write.key.rule == candidate.glimpse.rule.id
            if same and write.key.episode < candidate.episode and write.state in UNSENT:
                why = f"episode {candidate.episode} of the same rule takes its place"
                self.moves.append(move(write, "skipped", at=self._look.now, reason="superseded", why=why))

    def _record(self, candidate: Candidate, why: str, *, kind: str, reason: str) -> Record:
        glimpse = candidate.glimpse
        return Record(
            at=self._look.now,
            kind=kind,
            reason=reason,
            why=why,
            partner=self._look.partner,
            event=candidate.event,
            rule=glimpse.rule.id,
            episode=candidate.episode,
            facts=_facts_used(candidate),
        )


def _in_mode(plan: Plan, mode: Mode, forced: str | None, surge: str | None) -> Plan:
    if mode == "shadow":
        return replace(plan, state="shadowed", reason="mode", why=f"shadow mode: {plan.why}")
    if forced is not None:
        return replace(plan, state="waiting", reason=forced, why=f"first look after a silence: {plan.why}")
    if surge is not None:
        return replace(plan, state="waiting", reason="surge", why=surge)
    if mode == "approve":
        return replace(plan, state="waiting", reason="mode", why=f"approve mode: {plan.why}")
    return plan


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
        found[name] = {"value": value, "read_at": fact.read_at.isoformat().replace("+00:00", "Z")}
    return found
