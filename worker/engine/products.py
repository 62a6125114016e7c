"""What a partner's product flags keep from happening (API sections 1 and 2.2). Pure.

Two flags on the partner's record say which area of the service is enabled. A rule that needs an area which is off does
not look: its facts are unknown, its memory is frozen, and its return is as after a gap. A flag that is missing or that
could not be read says nothing; then the facts themselves say what can be known.
"""

from collections.abc import Iterable

from worker.model.facts import Fact, Json, Known, Unknown
from worker.model.ids import RuleId
from worker.model.rules import Rule
from worker.rules.registry import BUILT_IN

WRITES = "campaign_recommendations"
"""The flag that every write to the service needs."""
FLAGS: tuple[str, ...] = (WRITES, "demand_prediction")
_NO_WRITE = frozenset({"notify"})


def products_off(partner: Fact | None) -> frozenset[str]:
    """The flags that the partner's record says are off."""
    record: Json = partner.value if isinstance(partner, Known) else None
    if not isinstance(record, dict):
        return frozenset()
    return frozenset(flag for flag in FLAGS if record.get(flag) is False)


def shut(rules: Iterable[Rule], off: frozenset[str]) -> dict[RuleId, str]:
    """The rules that need an area which is off, and what they need it for, in words."""
    found: dict[RuleId, str] = {}
    for rule in rules if off else ():
        for flag in FLAGS:
            needing = _needing(rule, flag) if flag in off else []
            if needing:
                found.setdefault(rule.id, f"the partner's {flag} is off, which {', '.join(needing)} needs")
    return found


def off_fact(name: str, off: frozenset[str]) -> Unknown | None:
    """The fact, unknown because its area is off; None where it can be read."""
    flag = BUILT_IN[name].product if name in BUILT_IN else ""
    return Unknown(code="product_off", why=f"the partner's {flag} is off") if flag in off else None


def _needing(rule: Rule, flag: str) -> list[str]:
    """The actions and facts of a rule that need the area."""
    facts = sorted(name for name in rule.names if name in BUILT_IN and BUILT_IN[name].product == flag)
    actions = dict.fromkeys(step.action for step in rule.do if step.action not in _NO_WRITE) if flag == WRITES else ()
    return [*actions, *facts]
