"""Whether what is known for nothing can settle a condition before a fact is read that costs a request per event.

The daemon reads such a fact only while the rest of the condition can still be true. Here the same is asked of the text
alone: parts without such a fact can be true or false, parts with one are unknown, and the question is whether the whole
can then be definitely false. It evaluates nothing.
"""

from worker.model.rules import Rule
from worker.rules.conditions import CelCondition
from worker.rules.registry import Registry
from worker.rules.syntax import Node, names_of

_FREE = frozenset({True, False})
_UNKNOWN: frozenset[bool | None] = frozenset({None})


def costly_names(rule: Rule, registry: Registry) -> tuple[str, ...]:
    """The facts that the rule names and that cost a request for each event."""
    return tuple(sorted(name for name in rule.names if _costly(name, registry)))


def narrowed(rule: Rule, registry: Registry) -> bool:
    """Whether some events are spared, because the rest of the condition is false for them."""
    if not isinstance(rule.when, CelCondition):
        return False
    return False in _outcomes(rule.when.tree, registry)


def _outcomes(node: Node, registry: Registry) -> frozenset[bool | None]:
    """What a part can be before anything costly is read; None is unknown."""
    if not any(_costly(name, registry) for name in names_of(node)):
        return frozenset({node.value}) if isinstance(node.value, bool) else _FREE
    if node.kind == "not":
        return frozenset(None if one is None else not one for one in _outcomes(node.children[0], registry))
    if node.kind not in ("and", "or"):
        return _UNKNOWN
    decides = node.kind == "or"
    parts = [_outcomes(child, registry) for child in node.children]
    found: set[bool | None] = {decides} if any(decides in part for part in parts) else set()
    if all(part - {decides} for part in parts):
        undecided = [part - {decides} for part in parts]
        found |= {None} if any(None in part for part in undecided) else set()
        found |= {not decides} if all((not decides) in part for part in undecided) else set()
    return frozenset(found)


def _costly(name: str, registry: Registry) -> bool:
    return name in registry.facts and registry.facts[name].per_event_request
