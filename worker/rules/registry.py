"""Every name that a rule can use: facts, and the keys of a rule. One registry feeds check, schema, docs and --help.

Actions have their table in `worker.model.actions`, because guards and evidence need it too; the names are collected
here so that nobody looks in two places. Custom facts of a config are added with `with_custom`. It never reads anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from worker.model.document import (
    BUDGET_RANGE_FIELDS,
    CLUSTER_FIELDS,
    DEFAULTS_FIELDS,
    EVENT_FIELDS,
    GOALS,
    PARTNER_FIELDS,
    SETUP_FIELDS,
    SUGGESTED_TC_FIELDS,
)
from worker.rules.celtypes import ANY, BOOL, DOUBLE, LIST, TIMESTAMP, Type, of_record

Level = Literal["event", "partner", "local"]
"""Whose the fact is: one event's, the whole partner's, or made by the worker itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactName:
    """One fact. ``per_event_request``: reading it costs a request for each event; ``takes``: keys of ``with``."""

    name: str
    level: Level
    type: Type
    about: str
    get: str = ""
    section: str = ""
    takes: tuple[str, ...] = ()
    per_event_request: bool = False
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomFact:
    """A fact of the config: what to GET, and the JMESPath to its value. ``{eid}`` in the path makes it per event."""

    name: str
    get: str
    value: str = "@"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKey:
    """One key of a rule, as docs and schema explain it."""

    name: str
    about: str
    example: str


_EVENT_READ: Literal["event"] = "event"
# A cluster gets the run of the answer it came in, which is what an action on it needs.
_CLUSTERS = Type(kind="list", items=of_record({**CLUSTER_FIELDS, "tc_run_id": SUGGESTED_TC_FIELDS["tc_run_id"]}))
_SUGGESTED = Type(kind="list", items=of_record(SUGGESTED_TC_FIELDS))
_CAMPAIGN = Type(kind="object", fields=dict.fromkeys(("tc", "tc_run_id"), ANY))

_FACTS: tuple[FactName, ...] = (
    FactName(
        name="event",
        level="event",
        type=of_record(EVENT_FIELDS),
        about="the event's record; read with the list of events, so it costs nothing extra",
        get="GET /events/",
        section="2.3",
        example="event.status == 'cancelled'",
    ),
    FactName(
        name="partner",
        level="partner",
        type=of_record(PARTNER_FIELDS),
        about="the partner's record",
        get="GET /partners/",
        section="2.2",
        example="partner.currency == 'EUR'",
    ),
    FactName(
        name="setup",
        level=_EVENT_READ,
        type=of_record(SETUP_FIELDS),
        about="the event's setup process; setup.state is NONE without one",
        get="GET /setup_processes/{eid}",
        section="2.6",
        per_event_request=True,
        example="setup.state == 'DRAFT'",
    ),
    FactName(
        name="suggested_tcs",
        level=_EVENT_READ,
        type=_SUGGESTED,
        about="recommended taste clusters for a budget and goal; unknown while the list is empty (not computed yet)",
        get="GET /events/{eid}/suggested_tcs",
        section="2.5",
        takes=("budget", "goal"),
        per_event_request=True,
        example="suggested_tcs.exists(t, t.tc == 'rock')",
    ),
    FactName(
        name="clusters",
        level=_EVENT_READ,
        type=_CLUSTERS,
        about="the event's taste clusters; unknown while the list is empty (not computed yet)",
        get="GET /events/{eid}/clusters",
        section="2.5",
        per_event_request=True,
        example="clusters.exists(c, c.metric_pred > 4.0)",
    ),
    FactName(
        name="expected_value",
        level=_EVENT_READ,
        type=DOUBLE,
        about="expected value of the campaigns for a budget and goal, as a number",
        get="GET /events/{eid}/campaigns_expected_value",
        section="2.5",
        takes=("budget", "goal"),
        per_event_request=True,
        example="expected_value > 1000.0",
    ),
    FactName(
        name="defaults",
        level=_EVENT_READ,
        type=of_record(DEFAULTS_FIELDS),
        about="the event's default campaign parameters; budget and goal of other facts default to these",
        get="GET /events/{eid}/default_campaigns_parameters",
        section="2.5",
        per_event_request=True,
        example="defaults.total_budget * 1.2",
    ),
    FactName(
        name="budget_range",
        level=_EVENT_READ,
        type=of_record(BUDGET_RANGE_FIELDS),
        about="lowest and highest budget for a runtime",
        get="GET /events/{eid}/budget_min_max",
        section="2.5",
        takes=("runtime_in_days",),
        per_event_request=True,
        example="budget_range.lower_limit <= 500.0",
    ),
    FactName(
        name="campaigns",
        level=_EVENT_READ,
        type=Type(kind="list", items=_CAMPAIGN),
        about="the event's campaigns; where their tc and tc_run_id stand is the assumption campaigns.items",
        get="GET /events/{eid}/campaigns",
        section="4.5",
        per_event_request=True,
        example="size(campaigns) > 0",
    ),
    FactName(
        name="permissions",
        level="partner",
        type=LIST,
        about="the user's permissions for the partner; the form of an item is not documented",
        get="GET /permissions",
        section="2.7",
        example="'campaigns' in permissions",
    ),
    FactName(
        name="features",
        level="partner",
        type=LIST,
        about="the partner's feature flags; the form of an item is not documented",
        get="GET /features",
        section="2.7",
        example="'boost' in features",
    ),
    FactName(
        name="adplatform",
        level="partner",
        type=Type(kind="object", fields={"connected": BOOL}),
        about="whether the ad platform is connected; where the answer says so is the assumption adplatform.connected",
        get="GET /integrations/connect/adplatform/status",
        section="4.5",
        example="adplatform.connected",
    ),
    FactName(
        name="now",
        level="local",
        type=TIMESTAMP,
        about="the moment of this look, UTC",
        example="event.start_date_time - now < duration('7d')",
    ),
    FactName(
        name="previous",
        level="local",
        type=Type(kind="object"),
        about="in a rule with on_change: the remembered values of the watched facts, by the fact's name",
        example="size(previous.suggested_tcs) > 2",
    ),
    FactName(
        name="added",
        level="local",
        type=Type(kind="list", items=ANY),
        about="in a rule with on_change: the items that the watched list has gained",
        example="size(added) > 0",
    ),
    FactName(
        name="removed",
        level="local",
        type=Type(kind="list", items=ANY),
        about="in a rule with on_change: the items that the watched list has lost",
        example="size(removed) == 0",
    ),
)

LOCAL: frozenset[str] = frozenset(fact.name for fact in _FACTS if fact.level == "local")
CHANGE: frozenset[str] = frozenset({"previous", "added", "removed"})
"""Names that exist only where ``on_change`` does."""
BUILT_IN: Mapping[str, FactName] = {fact.name: fact for fact in _FACTS}

PARAMETERS: Mapping[str, str] = {
    "budget": "a number in the partner's currency; default: the event's default total_budget",
    "goal": f"one of {', '.join(GOALS)}; default: the event's default goal",
    "runtime_in_days": "whole days, 1 or more; default: from now to the event's start",
}

LATER_ACTIONS: frozenset[str] = frozenset(
    {
        "update_draft",
        "edit_cluster",
        "create_campaign",
        "reset_setup",
        "series_add",
        "series_remove",
        "write",
        "notify",
    }
)
"""Actions that are planned and not built: they are told apart from misspelt ones."""

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
        RuleKey(name="at", about="cron expression; not supported in this version", example='at: "0 8 * * *"'),
        RuleKey(name="timezone", about="time zone of `at`", example="timezone: Europe/Berlin"),
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
    """The names of one installation: the built-in facts and the config's own."""

    facts: Mapping[str, FactName] = field(default_factory=lambda: BUILT_IN)

    def watchable(self) -> frozenset[str]:
        """Facts that ``on_change`` can watch: all that are read."""
        return frozenset(name for name, fact in self.facts.items() if fact.level != "local")


BUILT_IN_REGISTRY = Registry()


def with_custom(custom: Mapping[str, CustomFact]) -> Registry:
    """The registry with a config's own facts. What the service answers there is not documented: any type."""
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
    return Registry(facts={**BUILT_IN, **own})
