"""Every name that a rule can use: facts, and the keys of a rule. One registry feeds check, schema, docs and --help.

Actions have their table in `worker.model.actions`, because guards and evidence need it too; the names are collected
here so that nobody looks in two places. Custom facts of a config are added with `with_custom`. It never reads anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.model.actions import ACTIONS
from worker.model.facts import CustomFact, Json
from worker.rules.celtypes import ANY
from worker.rules.factnames import BUILT_IN, CHANGE, ITEM, LOCAL, FactName, Level

EACH = "each"
"""The key of an action that makes one write for each item of a list."""


FROM_FACTS: Mapping[str, str] = {
    "budget": "defaults",
    "goal": "defaults",
    "lead_form_id": "defaults",
    "runtime_in_days": "event",
    "location": "event",
    "currency": "partner",
}
"""The fact that a parameter comes from where a rule does not give it."""
WITHOUT_DEFAULT: frozenset[str] = frozenset({"has_pixel"})
"""Parameters that a rule must give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registry:
    """The names of one installation: the built-in facts and the config's own. ``assumed``: parameters that its
    assumptions name, by action."""

    facts: Mapping[str, FactName] = field(default_factory=lambda: BUILT_IN)
    assumed: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def shared(self) -> frozenset[str]:
        """Facts of the whole partner."""
        return frozenset(name for name, fact in self.facts.items() if fact.level == "partner")

    def watchable(self) -> frozenset[str]:
        """Facts that ``on_change`` can watch: all that are read."""
        return frozenset(name for name, fact in self.facts.items() if fact.level != "local")


BUILT_IN_REGISTRY = Registry()


def with_custom(custom: Mapping[str, CustomFact], assumptions: Mapping[str, Json] | None = None) -> Registry:
    """The registry with a config's own facts, and with the parameters that its assumptions name: keys and placeholders
    of a query. What the service answers to a custom fact is not documented: any type."""
    own = {
        name: FactName(
            name=name,
            level="event" if "{eid}" in fact.get else "partner",
            type=ANY,
            about=f"a fact of the config: {fact.value} of the answer",
            get=f"GET {fact.get}",
            per_event_request="{eid}" in fact.get,
            example=f"{name} != null",
        )
        for name, fact in custom.items()
    }
    given = {key: value for key, value in (assumptions or {}).items() if key.endswith((".query", ".body"))}
    assumed = {
        name: frozenset[str]().union(*(_named(given.get(key)) for key in action.assumptions))
        for name, action in ACTIONS.items()
        if action.extra_params
    }
    return Registry(facts={**BUILT_IN, **own}, assumed=assumed)


def _named(template: Json) -> frozenset[str]:
    if not isinstance(template, Mapping):
        return frozenset()
    return frozenset(template).union(*(re.findall(r"\{(\w+)\}", str(text)) for text in template.values())) - {"eid"}


__all__ = [
    "BUILT_IN",
    "BUILT_IN_REGISTRY",
    "CHANGE",
    "EACH",
    "FROM_FACTS",
    "ITEM",
    "LOCAL",
    "WITHOUT_DEFAULT",
    "CustomFact",
    "FactName",
    "Level",
    "Registry",
    "with_custom",
]
