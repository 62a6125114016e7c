"""Changes that no request makes: the world moves on, an operator clicks in the web page, the operator resets.

The same few changes come from a story file, from the control paths and from tests; here they are read, and what
concerns one event or partner is carried out. Every one is entered in the books, because after an operator has changed a
target the same write may rightly take effect again. What cannot be read is refused before anything moves.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import yaml  # type: ignore[import-untyped,unused-ignore]
from pydantic import BaseModel, Field

from worker.sandbox.faults import Fault
from worker.sandbox.settings import Json, Record, SandboxInputError, TwinSettings, changed_settings, nearest, read_as
from worker.sandbox.world import ALL_OF_IT, EDITABLE, Happening, TwinBooks, TwinWorld

By = Literal["world", "person"]


class Cluster(BaseModel, frozen=True, extra="allow"):
    tc: str


class AnyChange(BaseModel, frozen=True, extra="forbid"):
    """What all changes have in common: a word that means nothing is an error. `parts`: what it says of its object, but
    for the fields of the record."""

    @property
    def parts(self) -> dict[str, Any]:
        return self.model_dump(exclude=ABOUT, exclude_unset=True)


ABOUT = {"event", "partner", "by", "set", "add", "remove"}


class EventChange(AnyChange):
    """Fields (`set`) and parts of one event. `add` brings the event into being, `remove` takes it away."""

    event: str
    partner: str | None = None
    by: By = "world"
    set: Record = {}
    add: bool = False
    remove: bool = False
    setup: Record | None = None
    published: bool = False
    campaigns: tuple[Cluster, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    tc_run_id: int = 0
    suggested_tcs: tuple[Cluster, ...] | None = None
    defaults: Record = {}
    lower_limit: float = 0
    upper_limit: float = 0
    task_fails: bool = False
    sales: tuple[Record, ...] = ()
    statistics: Record = {}
    insights: Record = {}
    results: tuple[Cluster, ...] = ()


class PersonChange(AnyChange):
    """A change of an event that an operator makes."""

    person: EventChange


class PartnerChange(AnyChange):
    """Fields of the partner record, and its permissions, features, ad-platform connection."""

    partner: str
    set: Record = {}
    permissions: tuple[Json, ...] = ()
    features: tuple[Json, ...] = ()
    adplatform_connected: bool = True


class FaultChange(AnyChange):
    fault: Fault


class SettingsChange(AnyChange):
    settings: Record


class ResetChange(AnyChange):
    """The weekly reset, now."""

    reset: Literal[True] = True


class SignOutChange(AnyChange):
    """A password reset: every token, the refresh tokens too, is worth nothing (API section 5)."""

    sign_out: Literal[True] = True


Change = EventChange | PartnerChange | FaultChange | SettingsChange | ResetChange | SignOutChange
FORMS: Mapping[str, type[Change | PersonChange]] = {
    "person": PersonChange,
    "fault": FaultChange,
    "settings": SettingsChange,
    "reset": ResetChange,
    "sign_out": SignOutChange,
    "event": EventChange,
    "partner": PartnerChange,
}


def change_from(given: Json, settings: TwinSettings) -> Change:
    """A change as it is written in a story or sent to the control path."""
    words = {key: value for key, value in given.items() if key != "at"} if isinstance(given, Mapping) else {}
    form = next((FORMS[word] for word in FORMS if word in words), None)
    if form is None:
        raise SandboxInputError(f"a change is a map with one of {', '.join(FORMS)}")
    change = read_as(form, words)
    if isinstance(change, SettingsChange):
        changed_settings(settings, change.settings)
    if isinstance(change, PersonChange):
        return change.person.model_copy(update={"by": "person"})
    return change


# Carrying out


def holder_of(world: TwinWorld, change: EventChange) -> str:
    """The partner whose event is meant; an id that two partners use has to name one."""
    if change.partner is not None:
        if change.partner not in world.tenants:
            raise _unknown_partner(world, change.partner)
        if not change.add and world.at(change.partner, change.event) is None:
            raise SandboxInputError(f"{change.partner} has no event {change.event!r}", ("event",))
        return change.partner
    holders = tuple(world.tenants) if change.add else world.holders(change.event)
    if len(holders) != 1:
        found = "several partners have an event {!r}: name the partner" if holders else "no partner has an event {!r}"
        raise SandboxInputError(found.format(change.event), ("event",))
    return holders[0]


def _unknown_partner(world: TwinWorld, partner: str) -> SandboxInputError:
    return SandboxInputError(f"unknown partner {partner!r}{nearest(partner, list(world.tenants))}", ("partner",))


BESIDE: Mapping[str, str] = {"frontend_status": "last_updated_on_fe", "campaign_event_series": "series"}
"""Fields of an event that are a target of another name as well."""
INGESTED: Record = {"status": "active", "campaign_status": "OPEN"}
"""What every event has that is ingested (API section 3.2)."""


def change_event(world: TwinWorld, books: TwinBooks, change: EventChange, at_s: float) -> None:
    partner = holder_of(world, change)
    before = world.at(partner, change.event) or Happening(record=INGESTED)
    _spelled(change.set, before.record)
    world.put(partner, change.event, None if change.remove else _after(before, change), at_s)
    for target in sorted(_touched(change)):
        books.changed_outside(change.by, partner, change.event, target, at_s)


def _after(before: Happening, change: EventChange) -> Happening:
    parts = change.parts
    setup = parts.get("setup", before.setup)
    if setup is None:
        parts["published"] = False
    elif isinstance(setup, Mapping) and "state" in setup:
        # The state is worked out when it is read; here it only says whether the setup is live.
        parts["setup"] = {key: value for key, value in setup.items() if key != "state"}
        parts.setdefault("published", setup["state"] == "PUBLISHED")
    return replace(before.with_fields({**change.set, "id": change.event}), **parts)


def _touched(change: EventChange) -> set[str]:
    """The targets of the books that this change is about."""
    all_of_it = change.add or change.remove
    touched = {*change.set, *([ALL_OF_IT] if all_of_it else [])}
    if all_of_it or change.model_fields_set & {"setup", "published"}:
        touched.add("setup")
    if all_of_it or change.model_fields_set & {"setup", "campaigns", "published"}:
        touched.add("campaign:")
    if "sales" in change.model_fields_set:
        touched.add("sales")
    if touched & EDITABLE:
        touched.add("metadata")
    return touched | {BESIDE[name] for name in change.set if name in BESIDE}


def change_partner(world: TwinWorld, change: PartnerChange) -> None:
    tenant = world.tenants.get(change.partner)
    if tenant is None:
        raise _unknown_partner(world, change.partner)
    _spelled(change.set, tenant.record)
    world.tenants[change.partner] = replace(tenant, record={**tenant.record, **change.set}, **change.parts)


# Stories: what happens to the world while a client watches, written down with its times.
#
# A story is YAML that people write by hand, so its errors name file and line, and the two traps of YAML that matter
# here are taken out: `ON` and `OFF` are words and not booleans, a timestamp is text and not a date.

MAX_STEPS = 100_000
MAX_EVENTS = 100_000
UNITS_S: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, kw_only=True, slots=True)
class StoryStep:
    """One change and when it happens, counted from the start of the story."""

    at_s: float
    change: Change
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """The steps in order. `events` None: the built-in number of events."""

    steps: tuple[StoryStep, ...] = ()
    settings: TwinSettings = field(default_factory=TwinSettings)
    events: int | None = None
    name: str = "story"


class StoryWords(BaseModel, frozen=True, extra="forbid"):
    """What a story file may hold. The steps are read one by one, with the settings that stand before them."""

    settings: Record = {}
    events: Annotated[int, Field(ge=0, le=MAX_EVENTS)] | None = None
    story: Annotated[list[Json], Field(max_length=MAX_STEPS)] = []


class _Words(yaml.SafeLoader):  # type: ignore[misc,unused-ignore]
    """YAML without its surprises: only true and false are booleans, dates stay text."""


_Words.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rows if not tag.endswith((":bool", ":timestamp"))]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Words.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


def value_from(text: str) -> Json:
    """One value from YAML, with the same words as a story."""
    try:
        found: Json = yaml.load(text, Loader=_Words)  # noqa: S506  # a safe loader of our own
    except yaml.YAMLError:
        raise SandboxInputError(f"{text!r} is not YAML") from None
    return found


def read_story(text: str, name: str = "story", base: TwinSettings | None = None) -> Story:
    """A story from YAML: a list of steps, or a map with `story`, `settings` and `events`. `base`: the settings that it
    begins from."""
    loader = _Words(text)
    node = None
    try:
        node = loader.get_single_node()
        given = None if node is None else loader.construct_document(node)
        return _story(given, name, base or TwinSettings(), node)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark
        line = mark.line + 1 if mark else 1
        raise SandboxInputError(f"{name}:{line}: {wrong.problem or 'this is not YAML'}") from None
    except SandboxInputError as wrong:
        raise SandboxInputError(f"{name}:{_line(node, wrong.place)}: {wrong}") from None
    finally:
        loader.dispose()


def _story(given: Json, name: str, settings: TwinSettings, node: yaml.Node | None) -> Story:
    if given is not None and not isinstance(given, list | Mapping):
        raise SandboxInputError("a story is a list of steps, or a map with story, settings and events")
    inside: tuple[str, ...] = () if isinstance(given, list) else ("story",)
    words = read_as(StoryWords, {"story": given} if isinstance(given, list) else given or {})
    settings = changed_settings(settings, words.settings)
    told = []
    for number, step in enumerate(words.story):
        place = (*inside, number)
        try:
            told.append(_step(step, settings, _line(node, place)))
        except SandboxInputError as wrong:
            raise SandboxInputError(str(wrong), (*place, *wrong.place)) from None
    # A stable sort: steps of one moment keep the order in which they were written.
    told.sort(key=lambda step: step.at_s)
    return Story(steps=tuple(told), settings=settings, events=words.events, name=name)


def _step(given: Json, settings: TwinSettings, line: int) -> StoryStep:
    if not isinstance(given, Mapping) or "at" not in given:
        raise SandboxInputError("a step is a map with `at` and a change")
    return StoryStep(at_s=seconds(given["at"]), change=change_from(given, settings), line=line)


def _line(node: yaml.Node | None, place: Sequence[object]) -> int:
    """The line of what stands at a place, or of the last part of the way to it."""
    line = 0 if node is None else node.start_mark.line
    for part in place:
        if isinstance(part, str) and isinstance(node, yaml.MappingNode):
            pair = next((pair for pair in node.value if pair[0].value == part), None)
            if pair is None:
                break
            line, node = pair[0].start_mark.line, pair[1]
        elif isinstance(part, int) and isinstance(node, yaml.SequenceNode):
            node = node.value[part]
            line = node.start_mark.line
    return int(line) + 1


def seconds(value: Json) -> float:
    """`500ms`, `12s`, `2m`, or a bare number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if found is None:
        raise SandboxInputError(f"'at' is a time like 12s or 500ms, not {value!r}", ("at",))
    return float(found[1]) * UNITS_S[found[2]]


MISSPELT = 0.9
"""How like the name of a field another one must be to be taken for it: other fields than the world's may be set."""


def _spelled(given: Record, known: Record) -> None:
    for name in given:
        near = difflib.get_close_matches(name, known, n=1, cutoff=MISSPELT)
        if near and name not in known:
            raise SandboxInputError(f"unknown field {name!r}, did you mean {near[0]!r}?")


def check_story(story: Story, world: TwinWorld) -> None:
    """Refuses a story about events and partners that this world will not have when their time comes, and one that
    misspells their fields."""
    added: set[tuple[str | None, str]] = set()
    for step in story.steps:
        change = step.change
        try:
            if isinstance(change, PartnerChange):
                if change.partner not in world.tenants:
                    raise _unknown_partner(world, change.partner)
                _spelled(change.set, world.tenants[change.partner].record)
            if isinstance(change, EventChange) and (change.partner, change.event) not in added:
                found = world.at(holder_of(world, change), change.event)
                _spelled(change.set, found.record if found is not None else {})
        except SandboxInputError as wrong:
            raise SandboxInputError(f"{story.name}:{step.line}: {wrong}") from None
        if isinstance(change, EventChange) and change.add:
            added |= {(change.partner, change.event), (None, change.event)}
