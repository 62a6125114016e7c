"""From the firings of one poll to plans: surge, mode, sharing of equal wishes, and what a newer firing replaces."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime

from worker.engine.changes import WritesOf, values_at, written_values
from worker.engine.views import Candidate, DecidingSettings, PollView, RuleView, approval, mode_of, reset_before, waits
from worker.guards import No, earlier_in_do, waits_from
from worker.model.actions import ACTIONS, AFTER, UNDO, WAIT
from worker.model.commits import REASONS, Baseline, Hold, Move, PartnerMemory, Record, RuleMemory
from worker.model.facts import EventId, Json, Known, RuleId, WriteId, spelled
from worker.model.rules import Rule, RuleSet, RuleStep, Truth
from worker.model.writes import ENDED, UNDOES, UNSENT, Intent, Mode, Plan, Write, WriteKey
from worker.rules.cel import WRITE
from worker.rules.spelling import duration_text
from worker.writes.evidence import Wish, wish_of
from worker.writes.intents import EACH, NotComputable, Planned, asks_always, plan_steps, waited, wishes_of
from worker.writes.life import and_then, move, note
from worker.writes.undo import once_only, undo_steps

# What an edit of the rules does to writes that were not sent yet, and to the memory behind them. Pure.
#
# A rule that was removed, or whose ``do`` or ``with`` was edited, leaves the writes that it stands behind: one that
# nobody stands behind any more is cancelled, the others stay with those who remain. A rule that leaves has not acted,
# so its episode is closed, and it may fire anew: an edited one at the next true poll, a removed one once it is back,
# which is as after a gap. Had its firing been made to wait for an operator, so is the next one: an edit goes round no
# approval. Writes in flight or unsettled are left alone: they are settled by reading.

AFTER_WAIT = "after_wait"
"""In an intent's context: it was planned when a wait of its rule was over."""
_OF_EVENT = frozenset({EACH, AFTER_WAIT, UNDOES})
"""In the context of what a rule's text does not tell: its wish stands while the write is open."""
Pairs = Mapping[tuple[EventId, RuleId], RuleMemory]
ByRule = Mapping[RuleId, RuleMemory]
Reopened = dict[tuple[EventId, RuleId], RuleMemory]
Ended = Callable[["Standing"], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """One write that an edit has changed, and the rules that have left it."""

    write: Write
    change: Move
    left: tuple[RuleId, ...]


def edits_of(rules: RuleSet, writes: Iterable[Write], memories: Pairs, now: datetime) -> Iterator[Edited]:
    """What the rules as they are now change about unsent writes. An undo has no rule that could be gone."""
    for write in writes:
        if write.state not in UNSENT or write.by_operator:
            continue
        left = {rule: no for rule in write.rules if (no := _leaves(rules, rule, write, memories)) is not None}
        if not left:
            continue
        reason, why = left.get(write.key.rule) or next(iter(left.values()))
        stay = tuple(rule for rule in write.rules if rule not in left)
        if stay:
            change = note(write, rules=stay, reason=reason, why=why)
        else:
            change = move(write, "cancelled", at=now, reason=reason, why=why)
        yield Edited(write=write, change=change, left=tuple(left))


def _leaves(rules: RuleSet, rule_id: RuleId, write: Write, memories: Pairs) -> tuple[str, str] | None:
    """Why a rule does not stand behind the write any more: the reason code and the words; None where it does."""
    rule, owner = rules.get(rule_id), rule_id == write.key.rule
    if rule is None:
        return "rule_gone", f"rule {rule_id} was removed before this was sent"
    if not rule.enabled:
        return None if owner else ("rule_edited", f"rule {rule_id} was disabled before this was sent")
    if rule.do_hash == wanted_by(rule_id, write, memories):
        return None
    return "rule_edited", f"rule {rule_id} was edited before this was sent; planned anew if it holds"


def wanted_by(rule: RuleId, write: Write, memories: Pairs) -> str:
    """The text by which a rule asked for the write, as its ``do_hash``: its own write says it; for one that it joined,
    the text of its last firing does."""
    if rule == write.key.rule:
        return write.intent.do_hash
    memory = memories.get((write.key.event, rule))
    return memory.do_hash if memory is not None else ""


def begun(writes: Iterable[Write]) -> str | None:
    """What makes a firing wait that takes the place of the one whose writes these are; None where nothing does."""
    return "begun" if any(map(once_only, writes)) else None


def reopened_by(edits: Iterable[Edited], memories: Pairs, writes_of: WritesOf) -> Reopened:
    """The new memories of rules that left a write: they may fire anew. A newer episode has nothing to do with it."""
    result: Reopened = {}
    for one in edits:
        for memory in behind(one.write, one.left, memories):
            asked = memory.waited or waits(one.write) or begun(writes_of(memory.event, memory.rule, memory.episode))
            result.setdefault((memory.event, memory.rule), replace(reopened(memory), asked=asked))
    return result


def behind(write: Write, rules: Iterable[RuleId], memories: Pairs) -> Iterator[RuleMemory]:
    """The memories of those of these rules whose firing stands behind the write."""
    for memory in (memories.get((write.key.event, rule)) for rule in rules):
        own = memory is not None and memory.rule == write.key.rule
        if memory is not None and memory.fired and (not own or memory.episode == write.key.episode):
            yield memory


def reopened(memory: RuleMemory) -> RuleMemory:
    """The memory of a pair whose unsent writes were cancelled: the next true poll is a new episode, and a change is
    pending again. Since when the condition or the new value has held stays known."""
    changed = {key: memory.baselines[key] for key, old in memory.before_firing.items() if memory.baselines[key] != old}
    return replace(
        memory,
        open=False,
        fired=False,
        baselines={**memory.baselines, **memory.before_firing},
        before_firing={},
        pending={**{key: new.value for key, new in changed.items()}, **memory.pending},
        pending_since=memory.pending_since or max((new.seen_at for new in changed.values()), default=None),
    )


def reopened_after(write: Write, reason: str, memories: Pairs, writes_of: WritesOf) -> Reopened:
    """The new memories of those who stood behind an unknown write that was proved absent and is asked for no more.

    Nothing came of the firing, so it is not lost: an edited rule fires by its new text, one that lost to a stronger
    wish may act once that ends, and one that is gone fires when it is back. A change that lost is consumed; so is what
    an operator has put back.
    """
    result: Reopened = {}
    for memory in behind(write, write.rules or (write.key.rule,), memories) if reason != "undo" else ():
        asked = begun(one for one in writes_of(memory.event, memory.rule, memory.episode) if one.id != write.id)
        lost = replace(memory, open=False, fired=False, before_firing={})
        anew = lost if reason == "conflict" else reopened(with_remembered(memory, write))
        result[memory.event, memory.rule] = replace(anew, asked=asked)
    return result


def with_remembered(memory: RuleMemory, write: Write) -> RuleMemory:
    """The memory as it was at the firing of a write that has been sent since: with the baselines before it."""
    remembered = write.intent.context.get("remembered") if write.key.rule == memory.rule else None
    known = memory.baselines
    before = {
        key: Baseline(value=value, seen_at=known[key].seen_at if key in known else write.planned_at)
        for key, value in (remembered.items() if isinstance(remembered, Mapping) else ())
    }
    return replace(memory, baselines={**before, **known}, before_firing=before)


def in_one(edits: Iterable[Edited], moves: Iterable[Move]) -> tuple[Move, ...]:
    """One move for each write, also where an edit and the decision both changed it."""
    found = {one.write.id: one.change for one in edits}
    for change in moves:
        earlier = found.get(change.before.id)
        found[change.before.id] = change if earlier is None else earlier.then(change)
    return tuple(found.values())


# After the service was reset, another event may stand under an id: what was decided before is asked about anew.
#
# A write that is planned goes out to no event that came back with a reset, unless an operator has let it go since: an
# approval of before was for another event. What is in flight or unsettled is settled by reading as ever, and sent again
# only by an operator's word.


def decided_before(memory: PartnerMemory, write: Write, now: datetime) -> bool:
    """Whether the event came back with a reset after the write was decided on, or after an operator's last word on it.

    A return that is still to come was stamped by a clock that was wrong. A write that is to be sent anew because it had
    been overtaken was decided on when it was sent.
    """
    returned = reset_before(memory, write.key.event)
    overtaken = write.last_sent_at if write.reason == "overtaken" else None
    return returned is not None and (overtaken or write.due_since) < returned <= now


def asked_anew(memory: PartnerMemory, edits: Iterable[Edited], writes: Iterable[Write], now: datetime) -> list[Edited]:
    """The edits, and what a reset makes of writes that are planned still: they wait for an operator."""
    changed = {one.write.id: one for one in edits}
    for write in writes:
        edit = changed.get(write.id) or Edited(write=write, change=Move(before=write, after=write), left=())
        current = edit.change.after
        if current.state == "planned" and not current.message and decided_before(memory, current, now):
            why = f"decided before {REASONS['reset']}: another event may have its id now"
            change = and_then(edit.change, "waiting", at=now, reason="reset", why=why, approved=False)
            changed[write.id] = replace(edit, change=change)
    return list(changed.values())


def reset_objection(memory: PartnerMemory, write: Write, now: datetime) -> No | None:
    """Why a write whose outcome is unknown is not sent again, whatever reads show."""
    if write.state != "unknown" or not decided_before(memory, write, now):
        return None
    why = f"sent before {REASONS['reset']}: another event may have its id now, and nothing is sent to that unasked"
    return No(way="hold", reason="reset", why=why)


# Two rules on one target: standing wishes, priority, ties that stop spending.
#
# A rule keeps its wish while its episode is open, also while something holds its firing; with ``on_change`` or ``at``
# until its writes are final. No rule acts against a standing opposite wish of higher priority, in this poll or a later
# one. On a tie the wish that stops spending wins, otherwise neither acts. What a rule in shadow mode wishes moves no
# live one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One wish in force, and the rule whose it is, of which episode. ``undoes``: the rules whose wishes it ends."""

    rule: Rule
    wish: Wish
    shadow: bool
    episode: int = 0
    undoes: frozenset[str] = frozenset()


def wishes_in_force(rule: Rule, settings: DecidingSettings, wishes: Iterable[Wish], episode: int = 0) -> list[Standing]:
    """These wishes of a rule, as others meet them."""
    shadow = mode_of(rule, settings) == "shadow"
    return [Standing(rule=rule, wish=wish, shadow=shadow, episode=episode) for wish in wishes]


def standing_wishes(
    rules: Iterable[Rule], memories: ByRule, writes: Sequence[Write], settings: DecidingSettings, writes_of: WritesOf
) -> list[Standing]:
    """The wishes in force for one event, whose open ``writes`` these are, before this poll's firings."""
    wanted = {rule for write in writes for rule in write.rules}
    found: list[Standing] = []
    for rule in rules:
        memory, brief = memories.get(rule.id), rule.on_change or rule.at is not None
        if memory is not None and (rule.id in wanted if brief else memory.open):
            waits = any(step.action == WAIT for step in rule.do)
            done = writes_of(memory.event, rule.id, memory.episode) if waits else ()
            found.extend(wishes_in_force(rule, settings, wishes_of(rule, waited(done)), memory.episode))
        found.extend(wishes_of_event(rule, (one.intent for one in writes if rule.id in one.rules), settings))
    return found


def wishes_of_event(rule: Rule, intents: Iterable[Intent], settings: DecidingSettings) -> Iterator[Standing]:
    """Of what a rule is to write, the wishes that its text does not tell."""
    for one in intents:
        if one.target and one.context.keys() & _OF_EVENT:
            undoes = frozenset(undone_by(rule) if UNDOES in one.context else ())
            wish = wish_of(one.action, one.params)
            yield from (replace(found, undoes=undoes) for found in wishes_in_force(rule, settings, [wish]))


def in_force(candidates: Iterable[Candidate]) -> list[Standing]:
    """The wishes of these candidates, of ``each`` those of its items."""
    found: list[Standing] = []
    for candidate in candidates:
        rule, settings = candidate.view.rule, candidate.view.settings
        found.extend(wishes_in_force(rule, settings, wishes_of(rule)) if candidate.wait is None else ())
        found.extend(wishes_of_event(rule, (step.intent for step in candidate.steps if not step.fault), settings))
    return found


def undone_by(rule: Rule) -> Iterator[str]:
    """The rules whose writes its steps put back."""
    named = (step.params["value"] for step in rule.do if step.action == UNDO)
    yield from (str(rule.after if one == AFTER else one) for one in named)


def judge_conflicts(
    candidates: Sequence[Candidate], standing: Sequence[Standing], ended: Ended
) -> tuple[list[Candidate], list[tuple[Candidate, Hold]]]:
    """Which candidates of one event may fire, and what holds the others. ``ended``: whether an undo ended a wish."""
    fresh = in_force(candidates)
    winners: list[Candidate] = []
    losers: list[tuple[Candidate, Hold]] = []
    for candidate in sorted(candidates, key=lambda one: precedence(one.view.rule)):
        mine = in_force([candidate])
        stronger = (other for other in (*standing, *fresh) if any(loses(one, other) for one in mine))
        against = next((other for other in stronger if not ended(other)), None)
        if against is None:
            winners.append(candidate)
        else:
            losers.append((candidate, Hold(reason="conflict", why=_spelled(against))))
    return winners, losers


def overruled(mine: Sequence[Standing], standing: Sequence[Standing], ended: Ended) -> str | None:
    """Why a firing that already has unsent writes must not be sent after all: a stronger opposite wish has come.

    A tie that neither wins stops no write that was there first. What is undone ends as put back, and is not fired anew.
    """
    for other in standing:
        for one in mine:
            if one.rule.id not in other.undoes and loses(one, other) and not loses(other, one) and not ended(other):
                return _spelled(other)
    return None


def precedence(rule: Rule) -> tuple[int, str]:
    """Who comes first: higher priority, then the smaller id."""
    return (-rule.priority, rule.id)


def loses(mine: Standing, other: Standing) -> bool:
    """Whether a wish may not be acted on while the other stands."""
    if other.rule.id == mine.rule.id or other.rule.id in mine.undoes:
        return False
    if mine.undoes & other.undoes and other.wish == mine.wish:
        return precedence(other.rule) < precedence(mine.rule)
    if not other.wish.opposes(mine.wish) or (other.shadow and not mine.shadow):
        return False
    if other.rule.priority != mine.rule.priority:
        return other.rule.priority > mine.rule.priority
    return not (mine.wish.stops and not other.wish.stops)


def _spelled(against: Standing) -> str:
    rule, wish = against.rule, against.wish
    return f"rule {rule.id} (priority {rule.priority}) wants {wish.target} to be {wish.value}"


def computed(candidate: Candidate) -> Candidate:
    """The candidate with what it would write. Raises `NotComputable`.

    ``remembered`` are the baselines before a change, by their keys, for the person who asks for it `again`.
    """
    context = {**candidate.view.scope.extra, "written": written_values(candidate.view.rule, candidate.view.scope)}
    before = {key: base.value for key, base in candidate.fired.before_firing.items()}
    if before:
        context["remembered"] = before
    return _with_steps(candidate, context)


def _with_steps(candidate: Candidate, context: Mapping[str, Json], after: int = -1) -> Candidate:
    """The candidate with what its steps become: what they write counts as it was at the firing, and what an undo
    writes, as it is now. ``after``: those after the wait at this position. Raises `NotComputable`."""
    rule, scope, written = candidate.view.rule, candidate.view.scope, context.get("written")
    values = dict(written) if isinstance(written, dict) else {}
    context = {**context, "written": values}
    undone, records = undo_steps(rule, candidate.view.undo, context, after)
    if undone:
        fields = [pair for one in undone for pair in ACTIONS[one.intent.action].written(one.intent.params)]
        values |= {**values_at(scope, [*fields, (WRITE, "")]), **values}
    steps = [*plan_steps(rule, scope, context, after), *undone]
    return replace(candidate, steps=tuple(sorted(steps, key=lambda one: one.intent.order)), undone=records)


def wait_over(view: RuleView) -> Write | None:
    """The wait between two steps that is over, and whose rule's facts were read since."""
    return next((one for one in view.sequence if one.over), None)


def after_wait(
    view: RuleView, memory: RuleMemory, wait: Write, partner: PartnerMemory, held: str | None
) -> Candidate | None:
    """What comes after a wait that is over, to be planned like a firing, if the condition holds; for an operator where
    nobody could look when it was over, or nobody knows when that was. ``held``: what holds the rule's next firing, and
    goes on to. Raises `NotComputable`."""
    if view.judgement.truth is not Truth.TRUE:
        return None
    _, over_at = waits_from(wait, earlier_in_do(wait, view.episode_writes(wait.key.episode)))
    back = partner.back.get(memory.rule, over_at), partner.returned.get(memory.event, over_at)
    unseen = not max(back) <= over_at <= view.now <= over_at + view.settings.gap
    context = {name: value for name, value in wait.intent.context.items() if name != EACH}
    candidate = Candidate(
        view=replace(view, scope=replace(view.scope, extra={**view.scope.extra, **context})),
        episode=wait.key.episode,
        reason="wait",
        why=f"its wait is over since {over_at:%Y-%m-%dT%H:%M:%S}Z; {view.judgement.why}",
        fired=replace(memory, held=held),
        dropped=replace(memory, held=held or memory.held),
        forced=approval("gap" if unseen else None, view.settings),
        wait=wait,
    )
    return _with_steps(candidate, {**context, AFTER_WAIT: True}, wait.key.position)


def later_messages(view: RuleView, memory: RuleMemory) -> Iterator[Plan]:
    """What the messages of an episode that has fired still have to say: again while its condition holds, and once when
    it does not any more. Only of a message that was given; of those that were due meanwhile, one."""
    ended = view.judgement.truth is Truth.FALSE
    since, silent = memory.fired_at, view.judgement.truth is Truth.UNKNOWN
    if silent or since is None or not (memory.open and memory.fired):
        return
    for position, step in enumerate(view.rule.do):
        turn = 0 if ended or step.remind is None else (view.now - since) // step.remind
        if step.ended is None if ended else turn < 1:
            continue
        given = [one for one in view.episode_writes(memory.episode) if one.key.position == position]
        if not given or not (given[0].sent or given[0].state == "shadowed"):
            continue
        if any(one.key.item == (ENDED if ended else str(turn)) for one in given):
            continue  # said already, by a clock that was set back since
        last = given[-1].last_sent_at or given[-1].planned_at
        if ended:
            yield _later_message(view, given[0], step, ENDED)
        elif given[-1].state not in UNSENT and step.remind is not None and turn > (last - since) // step.remind:
            yield _later_message(view, given[0], step, str(turn))


def _later_message(view: RuleView, first: Write, step: RuleStep, item: str) -> Plan:
    """The message as it is planned. One whose text cannot be computed is refused, and so told."""
    rule, params = view.rule, dict(step.params)
    reason, why = ("ended", "the condition ended") if item == ENDED else ("remind", "the condition still holds")
    if item == ENDED:
        params["text"] = step.ended
    plan = Plan(
        key=replace(first.key, item=item),
        intent=replace(first.intent, do_hash=rule.do_hash, context={}),
        state="planned",
        reason=reason,
        why=f"{why}: {view.judgement.why}",
        rules=(rule.id,),
    )
    try:
        (made,) = plan_steps(replace(rule, do=(replace(step, params=params),)), view.scope, {})
    except NotComputable as error:
        return replace(plan, state="refused", reason="bad_value", why=str(error))
    if made.fault:
        return replace(plan, state="refused", reason="bad_value", why=made.fault)
    plan = replace(plan, intent=replace(made.intent, order=first.intent.order))
    return _in_mode(plan, mode_of(rule, view.settings), None, None)


class Planner:
    """Collects the plans, records and moves of one poll. Candidates come in by event, then by precedence.

    ``writes`` are those that are still wanted: a firing may share them. What several firings change about one write
    becomes one move, because a ledger takes no second one.
    """

    def __init__(self, *, poll: PollView, rules: RuleSet, settings: DecidingSettings, writes: Sequence[Write]) -> None:
        self._poll = poll
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
            self._fire(candidate, plans.setdefault(candidate.event, []), surging.get(candidate.view.rule.id))
        self.plans.extend(plan for of_event in plans.values() for plan in of_event)
        self._hold_unsent(surging)

    def _surging(self, winners: Sequence[Candidate]) -> dict[RuleId, str]:
        """The rules that fire for too many events; each write of an ``each`` counts as one. Messages do not count."""
        counted: dict[RuleId, set[tuple[EventId, str]]] = {}
        rules: dict[RuleId, Rule] = {}
        for candidate in winners:
            if made := _pieces(candidate.event, candidate.steps):
                rule = rules[candidate.view.rule.id] = candidate.view.rule
                counted.setdefault(rule.id, set()).update(made)
        over: dict[RuleId, str] = {}
        surges = [(name, one) for name, rule in rules.items() for one in (self._settings.surge, rule.surge) if one]
        longest = max((surge.within for _, surge in surges), default=None)
        firings = [] if longest is None else [*self._poll.firings(self._poll.now - longest)]
        waited = (write for write in self._writes.values() if AFTER_WAIT in write.intent.context)
        firings += [(write.key.rule, write.key.event, write.planned_at) for write in waited if write.state == "planned"]
        for rule_id, surge in surges:
            since, latest = self._poll.now - surge.within, self._poll.now + surge.within
            each, pieces = any(step.each for step in rules[rule_id].do), set(counted[rule_id])
            for event in {event for rule, event, at in firings if rule == rule_id and since < at <= latest}:
                writes = self._poll.rule_writes(event, rule_id) if each else ()
                recent = [one for one in writes if (one.last_sent_at or one.planned_at) > since]
                pieces |= _pieces(event, recent) if each else {(event, "")}
            if len(pieces) > surge.events:
                what = f"{len(pieces)} {'writes' if each else 'events'} within {duration_text(surge.within)}"
                over[rule_id] = f"fires for {what}; more than {surge.events} need approval"
        return over

    def _hold_unsent(self, surging: Mapping[RuleId, str]) -> None:
        for write in self._writes.values():
            unsent = write.state == "planned" and not (write.sent or write.approved)
            if unsent and write.intent.target and write.key.rule in surging:
                self._change(move(write, "waiting", at=self._poll.now, reason="surge", why=surging[write.key.rule]))

    def _change(self, change: Move) -> None:
        """Keeps a change of a write, together with what this poll has changed about it already."""
        earlier = self._moves.get(change.before.id)
        self._moves[change.before.id] = change if earlier is None else earlier.then(change)
        self._writes[change.before.id] = change.after

    def _fire(self, candidate: Candidate, plans: list[Plan], surge: str | None) -> None:
        mode = mode_of(candidate.view.rule, self._settings)
        owner = self._owner(candidate, plans, mode)
        if candidate.wait is not None:
            over = move(candidate.wait, "confirmed", at=self._poll.now, reason="wait", why=candidate.why)
            self._change(over)
        why = candidate.why if owner is None else f"{candidate.why}; rule {owner} stands for the same desired value"
        self.records.extend(candidate.undone)
        if candidate.wait is None or owner is not None:
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
        rule comes before, which this rule does not wish for, stands for nothing: it falls with that one. Nor does what
        this firing takes the place of.
        """
        rule, wishes = candidate.view.rule, _wishes(candidate)
        if any(step.fault or UNDOES in step.intent.context for step in candidate.steps):
            return None
        standing: dict[tuple[str, str], RuleId] = {}
        if mode != "shadow":
            writes = self._shareable(candidate.event)
            for write in writes:
                whole = write.key.item not in ACTIONS[write.intent.action].items[:-1]
                replaced = write.key.rule == rule.id and write.state in UNSENT
                joinable = whole and not replaced and not _comes_after(write, writes, wishes)
                if write.intent.target and joinable and not self._outranks(rule, write):
                    done = self._done_before(write) if _wish(write) in wishes else ()
                    for one in (write, *done):
                        standing.setdefault(_wish(one), write.key.rule)
        for plan in plans:
            alike = _alike(plan, mode) and UNDOES not in plan.intent.context
            if plan.intent.target and alike and not _comes_after(plan, plans, wishes):
                standing.setdefault(_wish(plan), plan.key.rule)
        owners = {standing.get(wish) for wish in wishes}
        owner = owners.pop() if len(owners) == 1 else None
        return owner if owner != rule.id else None

    def _open(self, event: EventId) -> list[Write]:
        """The event's writes that are not final."""
        writes = (self._writes[write_id] for write_id in self._of_event.get(event, ()))
        return [write for write in writes if not write.final]

    def _shareable(self, event: EventId) -> list[Write]:
        """Those that another rule may stand behind too: nobody shares an undo."""
        return [write for write in self._open(event) if not write.undo]

    def _done_before(self, write: Write) -> list[Write]:
        """The confirmed steps before it in its ``do``: they stand for what they did as long as it is open itself."""
        key = write.key
        episode = self._poll.episode_writes(key.event, key.rule, key.episode)
        return [one for one in episode if one.state == "confirmed" and one.intent.order < write.intent.order]

    def _outranks(self, rule: Rule, write: Write) -> bool:
        """A write that waits for an operator on behalf of a weaker rule holds no stronger one back."""
        owner = self._rules.get(write.key.rule)
        return write.state == "waiting" and (owner is None or precedence(rule) < precedence(owner))

    def _join(self, candidate: Candidate, plans: list[Plan], mode: Mode) -> None:
        """The rule joins the writes that stand for its wishes: they live on while any of their rules wants them."""
        rule, wishes = candidate.view.rule.id, _wishes(candidate)
        for index, plan in enumerate(plans):
            if _wish(plan) in wishes and _alike(plan, mode) and not _comes_after(plan, plans, wishes):
                plans[index] = replace(plan, rules=(*plan.rules, rule))
        writes = self._shareable(candidate.event) if mode != "shadow" else []
        for write in writes:
            if _wish(write) in wishes and rule not in write.rules and not _comes_after(write, writes, wishes):
                self._change(note(write, rules=(*write.rules, rule)))

    def _plan(self, candidate: Candidate, step: Planned) -> Plan:
        rule = candidate.view.rule.id
        return Plan(
            key=WriteKey(
                partner=self._poll.partner,
                event=candidate.event,
                rule=rule,
                episode=candidate.episode,
                position=step.position,
                item=step.item,
            ),
            intent=step.intent,
            state="refused" if step.fault else "planned",
            reason=step.reason if step.fault else candidate.reason,
            why=step.fault or "; ".join(filter(None, (step.why, candidate.why))),
            rules=(rule,),
        )

    def _replace_older(self, candidate: Candidate, plans: list[Plan]) -> None:
        """A newer firing of the same rule and event ends the unsent writes of the older one. Where other rules want
        such a write as well, the new one stands for them, or else it stays for them."""
        rule = candidate.view.rule.id
        for write in self._open(candidate.event):
            if write.key.rule != rule or rule not in write.rules or write.state not in UNSENT:
                continue
            others = tuple(other for other in write.rules if other != rule)
            if others and not _taken_over(write, others, plans):
                self._change(note(write, rules=others))
                continue
            why = f"episode {candidate.episode} of the same rule takes its place"
            self._change(move(write, "skipped", at=self._poll.now, reason="superseded", why=why))

    def _record(self, candidate: Candidate, why: str, reason: str) -> Record:
        return Record(
            at=self._poll.now,
            kind="fired",
            reason=reason,
            why=why,
            partner=self._poll.partner,
            event=candidate.event,
            rule=candidate.view.rule.id,
            episode=candidate.episode,
            facts=_facts_used(candidate),
        )


def _pieces(event: EventId, made: Iterable[Planned | Write]) -> set[tuple[EventId, str]]:
    """What a surge counts of one event: its writes of ``each``, or itself where it has none but others. Messages do not
    count, nor does a firing without an item."""
    items = {one.intent.target if EACH in one.intent.context else "" for one in made if one.intent.target}
    return {(event, item) for item in items - {""} or items}


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


def _in_mode(plan: Plan, mode: Mode, forced: Hold | None, surge: str | None) -> Plan:
    """A message waits for nobody but where the mode asks for it, and a wait for nobody at all."""
    message = not plan.intent.target
    if plan.state == "refused":
        return plan
    if mode == "shadow":
        return replace(plan, state="shadowed", reason="mode", why=f"shadow mode: {plan.why}")
    if forced is not None and not message:
        return replace(plan, state="waiting", reason=forced.reason, why=f"{forced.why}: {plan.why}")
    if surge is not None and not message:
        return replace(plan, state="waiting", reason="surge", why=surge)
    if mode == "approve" and plan.intent.action != WAIT:
        return replace(plan, state="waiting", reason="mode", why=f"approve mode: {plan.why}")
    asks = asks_always(plan.intent)
    return plan if asks is None else replace(plan, state="waiting", reason=asks[0], why=f"{asks[1]}: {plan.why}")


def _facts_used(candidate: Candidate) -> dict[str, Json]:
    """The facts that the rule names, with the moment each was read; of records only the fields its text mentions."""
    scope = candidate.view.scope
    source = candidate.view.rule.when.source if candidate.view.rule.when is not None else ""
    found: dict[str, Json] = {}
    for name in sorted(candidate.view.rule.names):
        fact = scope.fact(name)
        if not isinstance(fact, Known):
            continue
        value = fact.value
        if isinstance(value, Mapping) and name in ("event", "partner", "setup", "defaults"):
            value = {field: part for field, part in value.items() if field in source or field == "state"}
        found[name] = {"value": value, "read_at": spelled(fact.read_at)}
    return found
