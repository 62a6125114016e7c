"""The keys of a rule file: what each may be, checked one by one, and what it is for.

What spans several keys, and the conditions, whose names depend on the rest of a rule, are `worker.rules.load`'s.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self
from zoneinfo import available_timezones

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from worker.model.facts import DISTANCE_UNITS, EVENT_FIELDS, GOALS, PREDICTION_TYPES
from worker.rules.actions import StepText, example_of, registry_of, schemas_of_actions, step_of
from worker.rules.binding import (
    NAMED,
    SPELLED,
    WHAT,
    WHOLE,
    AnyJson,
    Cel,
    Count,
    Duration,
    Flag,
    Id,
    Money,
    Part,
    SchemaOfFile,
    Section,
    Slip,
    Text,
    Texts,
    Tree,
    later,
    list_of,
    partner_id,
    place_of,
    with_later,
)
from worker.rules.cel import NAME
from worker.rules.facts import day_of
from worker.rules.functions import KIND_OF, MACHINES_OWN
from worker.rules.registry import ANY, BUILT_IN_REGISTRY, MADE, FactName, Registry, Type, comparable
from worker.rules.spelling import WEEKDAYS, LocalHours, cron_error, cron_remedy, instead, meant, nearest
from worker.rules.yaml import Scalar

DIALECT = "https://json-schema.org/draft/2020-12/schema"
RULES_MAX = 1_000
STEPS_MAX = 20
ID_LENGTH_MAX = 100
_ANY_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_ID = re.compile(r"[^\s\x00-\x1f\x7f]+")
_ID_GAP = re.compile(r"[\s\x00-\x1f\x7f]+")
OF_OTHER_TOOLS: Mapping[str, str] = {
    **dict.fromkeys(("if", "condition", "conditions", "trigger", "triggers", "match", "where", "filter"), "when"),
    **dict.fromkeys(("action", "actions", "then", "run", "steps", "effect"), "do"),
    **dict.fromkeys(("name", "rule", "key"), "id"),
    **dict.fromkeys(("comment", "notes", "title"), "description"),
    **dict.fromkeys(("schedule", "cron", "every"), "at"),
    **dict.fromkeys(("hours", "active_hours", "dayparting", "daypart", "business_hours", "during"), "between"),
    **dict.fromkeys(("wait", "delay", "debounce", "duration", "hold"), "for"),
    "throttle": "cooldown",
    **dict.fromkeys(("once", "only_once", "enforce"), "repeat"),
    **dict.fromkeys(("max_per_day", "rate_limit", "quota", "times"), "limit"),
    **dict.fromkeys(("budget_cap", "spend_cap", "max_spend", "spending"), "spend"),
    **dict.fromkeys(("dry_run", "approval"), "mode"),
    **dict.fromkeys(("watch", "changed", "on", "changes"), "on_change"),
    **dict.fromkeys(("follows", "following", "depends_on", "needs", "requires", "chain", "of_rule"), "after"),
    **dict.fromkeys(("params", "parameters", "args"), "with"),
}
"""Keys that people know from other tools, and the key of a rule that does the same."""


# what a single key is checked for


def _id(text: str) -> str:
    if len(text) > ID_LENGTH_MAX or not _ID.fullmatch(text):
        hint = f"write {_ID_GAP.sub('-', text.strip())[:ID_LENGTH_MAX]}"
        raise Slip(f"an id has no spaces and at most {ID_LENGTH_MAX} characters", hint)
    return text


def _cron(text: str) -> str:
    wrong = cron_error(text)
    if wrong:
        raise Slip(wrong, cron_remedy(text))
    return text


def _one_time(value: Tree) -> Tree:
    """Two times of a day are one expression."""
    if isinstance(value, list):
        raise Slip(f"{WHAT} must be one cron expression", "two hours stand in one field, as in '0 8,20 * * *'")
    return value


_ZONES: Mapping[str, str] = {
    "CEST": "Europe/Berlin",
    "BST": "Europe/London",
    "IST": "Asia/Kolkata",
    **dict.fromkeys(("EDT", "ET"), "America/New_York"),
    **dict.fromkeys(("CDT", "CST", "CT"), "America/Chicago"),
    **dict.fromkeys(("PDT", "PST", "PT"), "America/Los_Angeles"),
}


def _zone(text: str) -> str:
    if text not in available_timezones() - {MACHINES_OWN}:
        places = [one for one in available_timezones() if "/" in one and not one.startswith("Etc/")]
        near = _ZONES.get(text.upper()) or nearest(text, places) or "Europe/Berlin"
        raise Slip(f"{WHAT} must be the name of a time zone, such as Europe/Berlin", f"as in timezone: {near}")
    return text


def _day(text: str) -> str:
    if day_of(text, _ANY_DAY) is None:
        raise Slip(f"{WHAT} is a day, such as 2026-03-01, today or today-30d", "write today-30d, or a date")
    return text


Day = Annotated[
    Text,
    AfterValidator(_day),
    WithJsonSchema({"type": "string", "pattern": r"^(\d{4}-\d{2}-\d{2}|today([+-]\d{1,4}d)?)$"}),
]


def _one_of(words: tuple[str, ...]) -> Any:  # noqa: ANN401 - annotations have no common type
    return Annotated[Literal[words], SPELLED]


def _one_or_more(value: Tree) -> Tree:
    return value if isinstance(value, list) else [value]


_NAMES = BeforeValidator(_one_or_more, json_schema_input_type=Text | tuple[Text, ...])
_PLAIN = str | int | float | bool | None
_VALUES = BeforeValidator(_one_or_more, json_schema_input_type=_PLAIN | tuple[_PLAIN, ...])


def _watchable(text: str, asked: ValidationInfo) -> str:
    known = registry_of(asked).watchable()
    if text in known:
        return text
    if text in MADE:
        hint = f"ask for it in `when`: a condition on {text} is true or not"
        raise Slip(f"'{text}' cannot be watched", hint, code="fact")
    head, _, tail = text.partition(".")
    name = f"'{text}' is no fact that can be watched"
    if text in EVENT_FIELDS:
        head, tail = "event", text
    if tail and head in known:
        raise Slip(name, f"write {{fact: {head}, by: [{tail}]}}", code="fact")
    raise Slip(name + meant(text, known), instead(text, known), code="fact")


class WatchText(Part):
    """A fact whose change fires."""

    fact: Annotated[Text, AfterValidator(_watchable), WithJsonSchema(later("fact"))] = Field(
        description="the fact whose change counts", examples=["suggested_tcs"]
    )
    by: Annotated[Texts, _NAMES] | None = Field(
        default=None, description="the field or fields that are compared; others may change", examples=[["tc"]]
    )
    before: Annotated[tuple[AnyJson, ...], Field(min_length=1), _VALUES] | None = Field(
        alias="from", default=None, description="the value, or values, that it was", examples=["cancelled"]
    )
    after: Annotated[tuple[AnyJson, ...], Field(min_length=1), _VALUES] | None = Field(
        alias="to", default=None, description="the value, or values, that it becomes", examples=["active"]
    )

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: Tree) -> Tree:
        return {"fact": value} if isinstance(value, Scalar) else value

    @model_validator(mode="after")
    def _compared(self, asked: ValidationInfo) -> Self:
        """A compared field that resembles a documented one is misspelt; any other may be one that is not documented."""
        watched: Type = registry_of(asked).facts[self.fact].type
        record = watched.items if watched.kind == "list" else watched
        fields = (record.fields if record is not None else None) or {}
        if self.before or self.after:
            self._turns(watched)
        for number, name in enumerate(self.by or ()):
            if fields and name not in fields and nearest(name, fields) is not None:
                place = place_of(self.entries, ("by", number))
                message = f"no documented field '{name}'{meant(name, fields)}"
                raise Slip(message, instead(name, fields), code="field", at=place)
        return self

    def _turns(self, watched: Type) -> None:
        """``from`` and ``to`` are values of the one field that is compared, or of a fact that is no record."""
        field = self.field_of(watched)
        keys = {"from": self.before or (), "to": self.after or ()}
        if field is None:
            given = [*keys["from"], *keys["to"]]
            likely = [
                name for name, one in (watched.fields or {}).items() if any(value in one.values for value in given)
            ]
            hint = f"name the field that changes: by: {(*(self.by or ()), *likely, 'status')[0]}"
            hint = hint if watched.kind != "list" else "ask in `when` what it gained or lost, as in size(added) > 0"
            place = self.entries.key("from" if self.before else "to")
            raise Slip("from and to are about one field that changes", hint, at=place)
        for key, number, value in [(key, *one) for key, values in keys.items() for one in enumerate(values)]:
            if isinstance(value, list | dict) or not comparable(field, Type(kind=KIND_OF[value.__class__])):
                name = ".".join((self.fact, *(self.by or ())))
                hint = f"write one of {', '.join(field.values)}" if field.values else f"it is {field.words}"
                raise Slip(f"{name} is never {json.dumps(value)}", hint, at=place_of(self.entries, (key, number)))

    def field_of(self, watched: Type) -> Type | None:
        """The type of the one value that is compared; None where it is more than one."""
        if watched.kind in ("object", "any") and len(self.by or ()) == 1:
            return (watched.fields or {}).get((self.by or ("",))[0], ANY)
        return None if watched.kind in ("object", "list") or self.by else watched

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, inner: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [later("fact"), inner(schema)]}


_WATCHES = BeforeValidator(_one_or_more, json_schema_input_type=WatchText | tuple[WatchText, ...])


class SomeText(Part):
    """A mapping that says something."""

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not self.model_fields_set:
            raise Slip(f"{WHAT} says nothing", f"give it one of {', '.join(self.keys())}", code="missing")
        return self


def _hours(text: str) -> str:
    if not _SPAN.fullmatch(text):
        found = re.fullmatch(r"(\d\d?)(:\d\d)? *(?:-|to) *(\d\d?)(:\d\d)?", text)
        begin, begun, end, ended = found.groups(":00") if found is not None else ("09", "", "18", "")
        near = f"{int(begin):02}{begun}-{int(end):02}{ended}".replace("24:00-", "00:00-")
        hint = near if _SPAN.fullmatch(near) and near[:5] != near[6:] else "09:00-18:00"
        raise Slip(f"{WHAT}: '{text}' are no hours of a day", f'write hours: "{hint}"')
    if len(set(text.split("-"))) == 1:
        raise Slip(f"{WHAT}: '{text}' are no hours at all", 'leave hours out for whole days, or write "00:00-24:00"')
    return text


_OF_DAYS: Mapping[str, str] = {
    **dict.fromkeys(("weekday", "weekdays", "workdays", "working days"), "mon-fri"),
    **dict.fromkeys(("weekend", "weekends"), "sat-sun"),
    **dict.fromkeys(("daily", "all", "every day", "*"), "mon-sun"),
}


def _days(text: str) -> str:
    for one in text.split("-"):
        if one not in WEEKDAYS or text.count("-") > 1:
            parts = [day for part in text.split("-") if (day := nearest(part[:3], WEEKDAYS))]
            near = _OF_DAYS.get(text.lower()) or "-".join(parts[:2]) or "mon-fri"
            raise Slip(f"{WHAT}: '{text}' are no days of the week", f"write days: {near}")
    return text


_SPAN = re.compile(r"([01]\d|2[0-3]):[0-5]\d-(([01]\d|2[0-3]):[0-5]\d|24:00)")
_HOURS = Annotated[Text, AfterValidator(_hours), WithJsonSchema({"type": "string", "pattern": f"^{_SPAN.pattern}$"})]
_DAYS_OF_WEEK = Annotated[Text, AfterValidator(_days), WithJsonSchema({"type": "string", "examples": ["mon-fri"]})]


class BetweenText(SomeText):
    """Hours of the day and days of the week."""

    otherwise: ClassVar[tuple[str, str]] = (
        "between is a mapping with hours, days and timezone",
        'write between: {hours: "09:00-18:00", days: mon-fri, timezone: Europe/Berlin}',
    )
    hours: _HOURS = Field(
        default="00:00-24:00",
        description="from when to when; the end is not in it; 22:00-06:00 runs over midnight",
        examples=["09:00-18:00"],
    )
    days: Annotated[tuple[_DAYS_OF_WEEK, ...], Field(min_length=1), _NAMES] = Field(
        default=("mon-sun",),
        description="days, or spans of days; over midnight those of the evening",
        examples=["mon-fri"],
    )
    timezone: Annotated[Text, AfterValidator(_zone)] = Field(
        default="UTC", description="whose clock it is", examples=["Europe/Berlin"]
    )

    def hours_of(self) -> LocalHours:
        """The hours, as they are asked."""
        begin, end = (int(one[:2]) * 60 + int(one[3:]) for one in self.hours.split("-"))
        days = set[int]()
        for one in self.days:
            first, last = (WEEKDAYS.index(name) for name in (one.split("-") * 2)[:2])
            days |= {day % 7 for day in range(first, (last if last >= first else last + 7) + 1)}
        source = f"{self.hours} {', '.join(self.days)} {self.timezone}"
        return LocalHours(source=source, begin=begin, end=end, days=frozenset(days), timezone=self.timezone)


class LimitText(SomeText):
    """The most firings."""

    per_event_per_day: Count | None = Field(default=None, description="of an event, in 24 rolling hours", examples=[3])
    per_rule_per_day: Count | None = Field(
        default=None, description="of the rule for a partner, in 24 rolling hours", examples=[20]
    )


class SpendText(SomeText):
    """The most that the rule's writes may add to budgets, in the partner's currency."""

    per_event: Money | None = Field(default=None, description="for one event, ever", examples=[1000])
    per_day: Money | None = Field(default=None, description="in 24 rolling hours", examples=[5000])
    per_week: Money | None = Field(default=None, description="in 168 rolling hours", examples=[20000])


class SurgeText(Part):
    """More events than these wait for an operator."""

    events: Count = Field(description="distinct events", examples=[5])
    within: Duration = Field(description="the window they are counted in")


_FLAGS = WithJsonSchema({"enum": [True, False, "true", "false"]})
_PARAMETERS: Mapping[str, tuple[Any, str, object]] = {
    "budget": (Money, "a number in the partner's currency; default: the event's default total_budget", 500),
    "goal": (_one_of(GOALS), f"one of {', '.join(GOALS)}; default: the event's default goal", GOALS[0]),
    "runtime_in_days": (Count, "whole days, 1 or more; default: from now to the event's start", 14),
    "type": (
        _one_of(PREDICTION_TYPES),
        f"one of {', '.join(PREDICTION_TYPES)}: percentages or absolute values; default: capacity",
        PREDICTION_TYPES[0],
    ),
    "currency": (Text, "a currency code; default: the partner's currency", "EUR"),
    "start_date": (Day, "a day: 2026-03-01, today, or today-30d; UTC; default: today-30d", "today-30d"),
    "end_date": (Day, "a day, as start_date; default: today", "today"),
    "has_pixel": (
        Annotated[_one_of(("true", "false")), _FLAGS],
        "true or false; must be given where call_to_action is named, because no fact can tell it",
        True,
    ),
    "lead_form_id": (
        Annotated[str, SPELLED],
        "a lead form's id; default: the event's default lead_form_id, empty where it has none",
        "form-1",
    ),
    "location": (Text, "a place in words; default: the event's city", "Leipzig"),
    "distance_unit": (_one_of(DISTANCE_UNITS), f"one of {', '.join(DISTANCE_UNITS)}; default: kilometer", "mile"),
}
"""The parameters with which facts are asked for: what each may be, what it is, and an example."""
_FIELDS: Any = {
    name: (kind | None, Field(default=None, description=about, examples=[example]))
    for name, (kind, about, example) in _PARAMETERS.items()
}
WithText: Any = create_model("WithText", __base__=Part, **_FIELDS)


def _key(name: str, about: str, example: str) -> Any:  # noqa: ANN401 - as pydantic's Field
    """A key of a rule, with what it is for and how one writes it."""
    return Field(alias=name, default=None, description=f"{about} — {example}", examples=[example_of(example, name)])


class RuleText(Part):
    """One rule as it is written."""

    noun: ClassVar[str] = "a rule"
    otherwise: ClassVar[tuple[str, str]] = (
        "a rule is a mapping that begins with `id:`",
        "write - id: … and its other keys",
    )
    model_config = ConfigDict(
        json_schema_extra={
            "description": "one rule",
            "required": ["id", "do"],
            "anyOf": [{"required": ["when"]}, {"required": ["on_change"]}],
        }
    )

    id: Annotated[Id, AfterValidator(_id)] | None = _key(
        "id", "unique over all files; a new id is a new rule", "id: pause-cancelled"
    )
    description: Text | None = _key("description", "what the rule is for, for people", "description: Stop spending.")
    when: Cel = _key("when", "a condition in CEL", "when: event.status == 'cancelled'")
    on_change: Annotated[tuple[WatchText, ...], Field(min_length=1), _WATCHES] | None = _key(
        "on_change",
        "a fact, or a list of facts, whose change fires; {fact, by} compares only these fields",
        "on_change: {fact: suggested_tcs, by: [tc]}",
    )
    hold_for: Duration | None = _key(
        "for", "how long the condition, or the new value, must have held before it fires", "for: 10m"
    )
    at: Annotated[Text, BeforeValidator(_one_time), AfterValidator(_cron)] | None = _key(
        "at",
        "cron expression: looked at only then; each time is its own episode, and facts that are read late are "
        "waited for, for an hour or until the next time",
        'at: "0 8 * * *"',
    )
    timezone: Annotated[Text, AfterValidator(_zone)] | None = _key(
        "timezone", "time zone of `at`; UTC unless given", "timezone: Europe/Berlin"
    )
    between: BetweenText | None = _key(
        "between",
        "outside of these hours what fires is held, not lost; what somebody approved is not",
        'between: {hours: "09:00-18:00", days: mon-fri, timezone: Europe/Berlin}',
    )
    repeat: Annotated[Literal["once", "enforce"], SPELLED] | None = _key(
        "repeat", "once: one firing an episode; enforce: again whenever the target drifts", "repeat: once"
    )
    cooldown: Duration | None = _key(
        "cooldown", "least time between two firings for the same event, from sending", "cooldown: 1h"
    )
    limit: LimitText | None = _key(
        "limit", "most firings in 24 hours, for an event or in all", "limit: {per_event_per_day: 3}"
    )
    spend: SpendText | None = _key(
        "spend", "the most that its writes may add to budgets, beside the config's", "spend: {per_day: 500}"
    )
    priority: Annotated[int, WHOLE] | None = _key(
        "priority", "the higher wins where two rules want opposite things", "priority: 10"
    )
    partners: Annotated[tuple[Annotated[Id, AfterValidator(partner_id)], ...], Field(min_length=1)] | None = _key(
        "partners", "only these partner ids", "partners: [partner-id-acme]"
    )
    enabled: Flag | None = _key("enabled", "false: the rule rests and its memory is frozen", "enabled: false")
    mode: Annotated[Literal["shadow", "approve", "live"], SPELLED] | None = _key(
        "mode", "shadow, approve or live; can only be stricter than the config", "mode: approve"
    )
    surge: SurgeText | None = _key(
        "surge",
        "more events than this within that time wait for an operator, beside the config's",
        "surge: {events: 5, within: 10m}",
    )
    after: Text | None = _key(
        "after",
        "a rule's id: looked at only for events on which that rule has a confirmed write that is not undone; in "
        "conditions and values it is called write",
        "after: boost-on-new-clusters",
    )
    parameters: WithText | None = _key("with", "parameters of the facts named", "with: {budget: 500, goal: ROAS}")
    do: (
        Annotated[
            tuple[Annotated[StepText, PlainValidator(step_of), WithJsonSchema(later("action"))], ...],
            Field(min_length=1, max_length=STEPS_MAX),
        ]
        | None
    ) = _key("do", "the actions, in order; the next starts when the one before is confirmed", "do: [pause]")
    on_unknown: Annotated[Literal["settle", "ask"], SPELLED] | None = _key(
        "on_unknown", "ask: a write of unknown outcome goes to an operator at once", "on_unknown: ask"
    )

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """What people know from other tools has another name here."""
        known = OF_OTHER_TOOLS.get(name)
        if known is None:
            return super().about_unknown(name)
        example = str(cls.keys()[known].description).partition(" — ")[2]
        return f"; here it is '{known}'", f"write {example}"

    @property
    def asked_with(self) -> Mapping[str, str | float | int]:
        """The parameters that it gives."""
        given = () if self.parameters is None else self.parameters.model_fields_set
        return {name: getattr(self.parameters, name) for name in _PARAMETERS if name in given}


_RuleLater = Annotated[Any, WithJsonSchema(later("rule"))]


_MEANINGS = WithJsonSchema(
    {
        "type": "object",
        "propertyNames": {"pattern": f"^{NAME.pattern}$"},
        "additionalProperties": {"type": ["string", "number", "boolean", "array"]},
    }
)


class RulesText(Section):
    """A file of rules, each of which is bound by itself."""

    noun: ClassVar[str] = "a rule file"
    otherwise: ClassVar[tuple[str, str]] = (
        "a rule file begins with `rules:`",
        "write `rules:` above it, and indent what follows by two spaces",
    )

    define: Annotated[Mapping[str, Any], NAMED, _MEANINGS] | None = Field(
        default=None,
        description="names for conditions, numbers, texts and lists, used by name in every file of the folder",
        examples=[{"small": "event.capacity < 300.0", "never": ["e17", "e20"]}],
    )
    rules: Annotated[tuple[_RuleLater, ...], Field(max_length=RULES_MAX), list_of("id")] | None = Field(
        default=None,
        description="the rules of this file",
        examples=[[{"id": "pause-cancelled", "when": "event.status == 'cancelled'", "do": ["pause"]}]],
    )

    @classmethod
    def about_unknown(cls, name: str) -> tuple[str, str]:
        """A rule by itself, and a file of tests."""
        if name in ("id", "when", "on_change", "do"):
            return "; a rule is an item of `rules`", f"{cls.otherwise[1]}, the first line behind a `- `"
        if name == "tests":
            return "; this is a file of rule tests", "run them: campaign-worker test PATH"
        if name in ("api", "credentials", "poll", "safety", "ledger"):
            return "; this is a config", "check it and its rules: campaign-worker --config PATH check"
        return super().about_unknown(name)


def rules_schema(registry: Registry = BUILT_IN_REGISTRY) -> dict[str, Any]:
    """The JSON Schema of a rule file. It cannot say everything (conditions, ids over files, which key goes with which):
    it is a help while typing, and `check` is the judge."""
    whole, rule = (model.model_json_schema(schema_generator=SchemaOfFile) for model in (RulesText, RuleText))
    names = sorted(registry.watchable())
    facts = [{"const": name, "description": about_fact(registry.facts[name])} for name in names]
    parts = rule.pop("$defs") | {"rule": rule, "fact": {"anyOf": facts}}
    found = {"$schema": DIALECT, **whole, "title": "Rules of campaign-worker", "required": ["rules"]}
    return with_later({**found, "$defs": parts | schemas_of_actions(registry)})


def about_fact(fact: FactName) -> str:
    """What a fact is, and what it costs where that is not nothing."""
    return f"{fact.about}. One request for each event." if fact.per_event_request else fact.about
