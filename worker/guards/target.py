"""Guards that look at what the write would change: the target itself, the setup it needs, and the money it commits."""

from collections.abc import Mapping

from worker.guards.situation import No, Situation
from worker.model.actions import ACTIONS
from worker.model.facts import Json, Known
from worker.model.values import money_in
from worker.writes.evidence import already_so, fact_name, own_values, target_value, there, unclear
from worker.writes.intents import COMPUTED_FROM, amount_of, amount_of_draft, budgets_of, reads_back
from worker.writes.likeness import same_field


def seen_after_all(situation: Situation) -> No | None:
    """The effect of an earlier attempt of this very write is there: presence confirms, wanted still or not."""
    write = situation.write
    if not write.sent or not reads_back(write.intent, write.key.item) or others_unsettled(situation):
        return None
    if not there(write.intent, situation.fact(fact_name(write.intent))):
        return None
    return No(way="confirm", reason="read", why="the target reads as wanted after all")


def others_unsettled(situation: Situation) -> bool:
    """Whether another write on the target may still have an effect."""
    return any(
        other.id != situation.write.id and not (other.state == "needs_human" and other.absent_proved)
        for other in situation.on_target
    )


def setup_state(situation: Situation) -> No | None:
    """The setup is in a state in which the service takes the write: a draft, or published (API section 3.2)."""
    needs = ACTIONS[situation.write.intent.action].needs
    if not needs:
        return None
    fact = situation.fact("setup")
    state = fact.value.get("state") if isinstance(fact, Known) and isinstance(fact.value, Mapping) else None
    if state is None:
        why = fact.why if not isinstance(fact, Known) else "the answer lacks the setup's state"
        return No(way="hold", reason="target_unreadable", why=f"setup: {why}")
    if state in needs:
        return None
    if "DRAFT" in needs:
        why = "the event has no draft" if state == "NONE" else "the setup is published: it is no draft any more"
        return No(way="refuse", reason="no_draft", why=why)
    return No(way="refuse", reason="not_published", why=f"the setup is {state}, and must be published")


def target_says(situation: Situation) -> No | None:
    """The target is readable, and does not have the wanted value already."""
    write = situation.write
    if not reads_back(write.intent, write.key.item):
        return None
    fact = situation.fact(fact_name(write.intent))
    so = already_so(write.intent, fact)
    if so is None:
        return No(way="hold", reason="target_unreadable", why=unclear(write.intent, fact))
    if so:
        return _so_already(situation)
    if ACTIONS[write.intent.action].null_is_so and target_value(write.intent, fact)[1] is None:
        if others_unsettled(situation):
            why = "there is nothing to pause yet, but another write on the target is not settled"
            return No(way="hold", reason="target_busy", why=why)
        return No(way="skip", reason="nothing_to_pause", why="the event has no campaign status: nothing to pause")
    return None


def _so_already(situation: Situation) -> No:
    if others_unsettled(situation):
        why = "the target reads as wanted, but another write on it is not settled"
        return No(way="hold", reason="target_busy", why=why)
    return No(way="skip", reason="already_so", why="the target already has the wanted value")


def as_computed_from(situation: Situation) -> No | None:
    """A relative value is sent only against the value that it was computed from, but for what earlier steps of its own
    sequence have written since: what somebody has set meanwhile stays."""
    write = situation.write
    computed_from = write.intent.context.get(COMPUTED_FROM)
    if not isinstance(computed_from, Mapping):
        return None
    own = ACTIONS[write.intent.action].own_fact
    now = own_values(write.intent, situation.fact(own), computed_from)
    if now is None:
        return No(way="hold", reason="target_unreadable", why=f"{own}: what the value is computed from cannot be read")
    steps = [one.intent.wanted for one in situation.earlier if one.intent.target == write.intent.target]
    expected = {name: value for wanted in (computed_from, *steps) for name, value in wanted.items()}
    moved = [name for name in computed_from if not same_field(name, now[name], expected[name])]
    if not moved:
        return None
    said = ", ".join(f"{name} reads {now[name]!r}, computed from {expected[name]!r}" for name in moved)
    approved = "; it had been approved as it was" if write.approved else ""
    return No(way="skip", reason="moved", why=f"what the value was computed from has moved: {said}{approved}")


def as_approved(situation: Situation) -> No | None:
    """A boost publishes the draft as it is: where that spends more by now than somebody approved, it is asked again."""
    shown, now = situation.approved_amount, budget_of(situation)
    if shown is None or now is None or now <= shown:
        return None
    return No(way="ask", reason="moved", why=f"{shown:g} was approved, and it spends {now:g} by now")


def as_it_was_left(situation: Situation) -> No | None:
    """An undo puts back only what the undone writes left: what another hand has set since stays, also where that hand
    has set it back to how it was left."""
    write = situation.write
    left = situation.left
    if left is None or not reads_back(write.intent, write.key.item):
        return None
    _, value = target_value(write.intent, situation.fact(fact_name(write.intent)))
    shown = value if isinstance(value, Mapping) else {write.intent.target: value}
    other = [name for name, was_left in left.items() if not same_field(name, shown.get(name), was_left)]
    if not other:
        touched = situation.touched
        return None if touched is None else No(way="skip", reason="changed_since", why=touched)
    said = ", ".join(f"{name} reads {shown.get(name)!r} and was left as {left[name]!r}" for name in other)
    return No(way="skip", reason="changed_since", why=f"another hand has changed it since: {said}")


def created_here(situation: Situation) -> No | None:
    """After ``create_draft`` in the same ``do``, the draft that is boosted must be the one that was created, with what
    later steps have changed of it.

    Where a draft was there already, it must at least be as the rule would have created it: else the rule would publish
    a budget that it does not name.
    """
    if ACTIONS[situation.write.intent.action].budget != "draft":
        return None
    made = _made_here(situation)
    fact = situation.fact("setup")
    if not made or not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        return None
    for name, wanted in made.items():
        if name in fact.value and not same_field(name, fact.value[name], wanted):
            why = f"the draft's {name} is {fact.value[name]!r}, not {wanted!r} as created: somebody changed it"
            return No(way="refuse", reason="other_value", why=why)
    missing = [name for name in made if name not in fact.value]
    if missing:
        why = f"the draft's {' and '.join(missing)} cannot be read: it may be another than the one created"
        return No(way="hold", reason="target_unreadable", why=why)
    return None


def _made_here(situation: Situation) -> dict[str, Json]:
    """What the steps before made of the draft; nothing where none of them created it."""
    drafts = [
        one
        for one in sorted(situation.earlier, key=lambda one: one.intent.order)
        if ACTIONS[one.intent.action].shown == "setup"
    ]
    if not any(ACTIONS[one.intent.action].creates for one in drafts):
        return {}
    return {name: value for one in drafts for name, value in one.intent.wanted.items()}


def budget_in_range(situation: Situation) -> No | None:
    """The budgets that the write commits lie within the service's range for the event (API section 8)."""
    row, intent = ACTIONS[situation.write.intent.action], situation.write.intent
    draft = _draft_budget(situation) if row.budget == "draft" else None
    budgets = budgets_of(intent) if draft is None else (draft,)
    if not budgets:
        if row.commits:
            return No(way="hold", reason="target_unreadable", why="the budget it would commit cannot be read")
        return None
    fact = situation.fact("budget_range")
    if not isinstance(fact, Known) or not isinstance(fact.value, Mapping):
        why = fact.why if not isinstance(fact, Known) else "the budget range has no usable form"
        return No(way="hold", reason="fact_unknown", why=f"budget_range: {why}")
    low, high = fact.value.get("lower_limit"), fact.value.get("upper_limit")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return No(way="hold", reason="fact_unknown", why="budget_range lacks a limit")
    outside = next((budget for budget in budgets if not low <= budget <= high), None)
    if outside is None:
        return None
    return No(way="refuse", reason="budget_range", why=f"budget {outside:g} is outside {low:g} to {high:g}")


def budget_of(situation: Situation, sent: Json = None) -> float | None:
    """What the write spends: the money that it carries, or for a boost all that of the draft. ``sent``: its query
    and body as they go out, in which an assumption may name or add money."""
    intent = situation.write.intent
    draft = ACTIONS[intent.action].budget == "draft"
    own = amount_of_draft(_draft(situation)) if draft else amount_of(intent)
    return max((amount for amount in (own, money_in(sent)) if amount is not None), default=None)


def _draft_budget(situation: Situation) -> float | None:
    """The budget of the draft that the service's range is for; what else of it is money has no range."""
    value = _draft(situation).get("total_budget")
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _draft(situation: Situation) -> Mapping[str, Json]:
    fact = situation.fact("setup")
    return fact.value if isinstance(fact, Known) and isinstance(fact.value, Mapping) else {}
