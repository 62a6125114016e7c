"""Every name that a rule can use: facts, and the keys of a rule. One registry feeds check, schema, docs and --help.

Actions have their table in `worker.model.actions`, because guards and evidence need it too; the names are collected
here so that nobody looks in two places. Custom facts of a config are added with `with_custom`. It never reads anything.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from worker.model.actions import ACTIONS
from worker.model.facts import DISTANCE_UNITS, GOALS, PREDICTION_TYPES, CustomFact, Json
from worker.rules.celtypes import ANY
from worker.rules.factnames import BUILT_IN, CHANGE, ITEM, LOCAL, FactName, Level

EACH = "each"
"""The key of an action that makes one write for each item of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKey:
    """One key of a rule, as docs and schema explain it."""

    name: str
    about: str
    example: str


PARAMETERS: Mapping[str, str] = {
    "budget": "a number in the partner's currency; default: the event's default total_budget",
    "goal": f"one of {', '.join(GOALS)}; default: the event's default goal",
    "runtime_in_days": "whole days, 1 or more; default: from now to the event's start",
    "type": f"one of {', '.join(PREDICTION_TYPES)}: percentages or absolute values; default: capacity",
    "currency": "a currency code; default: the partner's currency",
    "start_date": "a day: 2026-03-01, today, or today-30d; UTC; default: today-30d",
    "end_date": "a day, as start_date; default: today",
    "has_pixel": "true or false; must be given where call_to_action is named, because no fact can tell it",
    "lead_form_id": "a lead form's id; default: the event's default lead_form_id, empty where it has none",
    "location": "a place in words; default: the event's city",
    "distance_unit": f"one of {', '.join(DISTANCE_UNITS)}; default: kilometer",
}

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

RULE_KEYS: Mapping[str, RuleKey] = {
    key.name: key
    for key in (
        RuleKey(name="id", about="unique over all files; a new id is a new rule", example="id: pause-cancelled"),
        RuleKey(name="description", about="what the rule is for, for people", example="description: Stop spending."),
        RuleKey(name="when", about="a condition in CEL", example="when: event.status == 'cancelled'"),
        RuleKey(
            name="on_change",
            about="a fact, or a list of facts, whose change fires; {fact, by} compares only these fields",
            example="on_change: {fact: suggested_tcs, by: [tc]}",
        ),
        RuleKey(
            name="for",
            about="how long the condition, or the new value, must have held before it fires",
            example="for: 10m",
        ),
        RuleKey(
            name="at",
            about="cron expression: looked at only then; each time is its own episode, and one missed by more than "
            "5 minutes is logged and left",
            example='at: "0 8 * * *"',
        ),
        RuleKey(name="timezone", about="time zone of `at`; UTC unless given", example="timezone: Europe/Berlin"),
        RuleKey(
            name="repeat",
            about="once: one firing an episode; enforce: again whenever the target drifts",
            example="repeat: once",
        ),
        RuleKey(
            name="cooldown",
            about="least time between two firings for the same event, from sending",
            example="cooldown: 1h",
        ),
        RuleKey(name="limit", about="most firings for an event in 24 hours", example="limit: {per_event_per_day: 3}"),
        RuleKey(name="priority", about="the higher wins where two rules want opposite things", example="priority: 10"),
        RuleKey(name="partners", about="only these partner ids", example="partners: [partner-id-acme]"),
        RuleKey(name="enabled", about="false: the rule rests and its memory is frozen", example="enabled: false"),
        RuleKey(
            name="mode", about="shadow, approve or live; can only be stricter than the config", example="mode: approve"
        ),
        RuleKey(
            name="surge",
            about="more events than this within that time wait for a person",
            example="surge: {events: 5, within: 10m}",
        ),
        RuleKey(name="with", about="parameters of the facts named", example="with: {budget: 500, goal: ROAS}"),
        RuleKey(
            name="do",
            about="the actions, in order; the next starts when the one before is confirmed",
            example="do: [pause]",
        ),
        RuleKey(
            name="on_unknown",
            about="ask: a write of unknown outcome goes to a person at once",
            example="on_unknown: ask",
        ),
    )
}


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
    "PARAMETERS",
    "RULE_KEYS",
    "WITHOUT_DEFAULT",
    "CustomFact",
    "FactName",
    "Level",
    "Registry",
    "RuleKey",
    "with_custom",
]
