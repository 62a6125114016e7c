"""Changes that no request makes: the world moves on, a person clicks in the web page, the operator resets.

The same few changes come from a story file, from the control paths and from tests; here they are read once and
carried out once. Every one is entered in the books, because after a person has changed a target the same write may
rightly take effect again.

Never carries out half of a change: what cannot be read is refused before anything moves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

import yaml  # type: ignore[import-untyped,unused-ignore]

from worker.sandbox.faults import Fault, FaultError, fault_from
from worker.sandbox.settings import Json, Record, Settings, SettingsError, changed_settings, nearest
from worker.sandbox.world import Books, Happening, World

By = Literal["world", "person"]
PARTS = (
    "setup",
    "published",
    "campaigns",
    "clusters",
    "tc_run_id",
    "suggested_tcs",
    "defaults",
    "lower_limit",
    "upper_limit",
    "task_fails",
)
PARTNER_PARTS = ("permissions", "features", "adplatform_connected")
LISTS_OF_RECORDS = ("campaigns", "clusters", "suggested_tcs")


class ChangeError(ValueError):
    """A change that cannot be read or has nothing to change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventChange:
    """Fields and parts of one event. `add` brings the event into being, `remove` takes it away."""

    event: str
    partner: str | None = None
    by: By = "world"
    set: Record = field(default_factory=dict)
    parts: Record = field(default_factory=dict)
    add: bool = False
    remove: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PartnerChange:
    """Fields of the partner record, and its permissions, features, ad-platform connection."""

    partner: str
    set: Record = field(default_factory=dict)
    parts: Record = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultChange:
    fault: Fault


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsChange:
    settings: Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ResetChange:
    """The weekly reset, now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOutChange:
    """A password reset: every token, the refresh tokens too, is worth nothing (API section 5)."""


Change = EventChange | PartnerChange | FaultChange | SettingsChange | ResetChange | SignOutChange


def change_from(given: Mapping[str, Json], settings: Settings) -> Change:
    """A change as it is written in a story or sent to the control path."""
    if "person" in given:
        return _by_person(given, settings)
    if "fault" in given:
        return _alone(given, "fault", _fault(given["fault"]))
    if "settings" in given:
        wanted = _record(given["settings"], "settings")
        try:
            changed_settings(settings, wanted)
        except SettingsError as wrong:
            raise ChangeError(str(wrong)) from None
        return _alone(given, "settings", SettingsChange(settings=wanted))
    for name, change in (("reset", ResetChange()), ("sign_out", SignOutChange())):
        if name in given:
            if given[name] is not True:
                raise ChangeError(f"{name} is true or left out")
            return _alone(given, name, change)
    if "event" in given:
        return _event_change(given)
    if "partner" in given:
        return _partner_change(given)
    raise ChangeError("a change names an event, a partner, a person, a fault, settings, reset or sign_out")


def _by_person(given: Mapping[str, Json], settings: Settings) -> Change:
    inner = change_from(_record(given["person"], "person"), settings)
    if not isinstance(inner, EventChange):
        raise ChangeError("a person changes an event: {event, set, ...}")
    change: Change = replace(inner, by="person")
    return _alone(given, "person", change)


def _alone(given: Mapping[str, Json], name: str, change: Change) -> Change:
    others = [key for key in given if key not in (name, "at")]
    if others:
        raise ChangeError(f"{others[0]!r} cannot stand beside {name!r}")
    return change


def _fault(given: Json) -> FaultChange:
    try:
        return FaultChange(fault=fault_from(_record(given, "fault")))
    except FaultError as wrong:
        raise ChangeError(str(wrong)) from None


def _record(given: Json, what: str) -> Record:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ChangeError(f"{what} is a map")
    return given


def _known(given: Mapping[str, Json], known: list[str]) -> None:
    for key in given:
        if key != "at" and key not in known:
            raise ChangeError(f"unknown key {key!r}{nearest(key, known)}")


def _event_change(given: Mapping[str, Json]) -> EventChange:
    own = [each.name for each in fields(EventChange) if each.name != "parts"]
    _known(given, [*own, *PARTS])
    by = given.get("by", "world")
    if by not in ("world", "person"):
        raise ChangeError("by is world or person")
    parts = {name: given[name] for name in PARTS if name in given}
    for name in LISTS_OF_RECORDS:
        _check_list(name, parts.get(name))
    for name in ("setup", "defaults"):
        if parts.get(name) is not None:
            _record(parts[name], name)
    for name in ("lower_limit", "upper_limit", "tc_run_id"):
        if isinstance(parts.get(name, 0), bool) or not isinstance(parts.get(name, 0), int | float):
            raise ChangeError(f"{name} is a number")
    partner = given.get("partner")
    return EventChange(
        event=str(given["event"]),
        partner=None if partner is None else str(partner),
        by="person" if by == "person" else "world",
        set=_record(given.get("set", {}), "set"),
        parts=parts,
        add=given.get("add") is True,
        remove=given.get("remove") is True,
    )


def _check_list(name: str, value: Json) -> None:
    if value is None:
        return
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) and "tc" in each for each in value):
        raise ChangeError(f"{name} is a list of maps with tc")


def _partner_change(given: Mapping[str, Json]) -> PartnerChange:
    _known(given, ["partner", "set", *PARTNER_PARTS])
    parts = {name: given[name] for name in PARTNER_PARTS if name in given}
    for name in ("permissions", "features"):
        if not isinstance(parts.get(name, []), list):
            raise ChangeError(f"{name} is a list")
    return PartnerChange(partner=str(given["partner"]), set=_record(given.get("set", {}), "set"), parts=parts)


# Carrying out


def holder_of(world: World, change: EventChange) -> str:
    """The partner whose event is meant; an id that two partners use has to name one."""
    if change.partner is not None:
        if world.tenant(change.partner) is None:
            raise ChangeError(f"unknown partner {change.partner!r}{nearest(change.partner, list(world.partners))}")
        if not change.add and world.at(change.partner, change.event) is None:
            raise ChangeError(f"{change.partner} has no event {change.event!r}")
        return change.partner
    holders = world.partners if change.add else world.holders(change.event)
    if len(holders) != 1:
        found = "no partner has" if not holders else "several partners have"
        raise ChangeError(f"{found} an event {change.event!r}: name the partner")
    return holders[0]


def change_event(world: World, books: Books, change: EventChange, at_s: float) -> None:
    partner = holder_of(world, change)
    before = world.at(partner, change.event)
    after = None if change.remove else _after(before, change)
    world.put(partner, change.event, after, at_s)
    for target in sorted(_touched(change)):
        books.changed_outside(change.by, partner, change.event, target, at_s)


def _after(before: Happening | None, change: EventChange) -> Happening:
    found = before if before is not None else Happening(record={"id": change.event})
    found = found.with_fields({**change.set, "id": change.event})
    parts = dict(change.parts)
    if "suggested_tcs" in parts:
        parts["suggested"] = parts.pop("suggested_tcs")
    for name in ("campaigns", "clusters", "suggested"):
        value = parts.get(name)
        if isinstance(value, list):
            parts[name] = tuple(value)
    setup = parts.get("setup", found.setup)
    if setup is None:
        parts["published"] = False
    elif isinstance(setup, Mapping) and "state" in setup:
        # The state is worked out when it is read; here it only says whether the setup is live.
        parts["setup"] = {key: value for key, value in setup.items() if key != "state"}
        parts.setdefault("published", setup["state"] == "PUBLISHED")
    return replace(found, **parts)  # type: ignore[arg-type]  # the parts were checked when they were read


def _touched(change: EventChange) -> set[str]:
    """The targets of the books that this change is about."""
    touched = set(change.set)
    if {"setup", "published"} & change.parts.keys() or change.add or change.remove:
        touched.add("setup")
    if {"setup", "campaigns", "published"} & change.parts.keys() or change.add or change.remove:
        touched.add("campaign:")
    if "frontend_status" in change.set:
        touched.add("last_updated_on_fe")
    if "campaign_event_series" in change.set:
        touched.add("series")
    return touched


def change_partner(world: World, change: PartnerChange) -> None:
    tenant = world.tenant(change.partner)
    if tenant is None:
        raise ChangeError(f"unknown partner {change.partner!r}{nearest(change.partner, list(world.partners))}")
    parts = {name: tuple(value) if isinstance(value, list) else value for name, value in change.parts.items()}
    world.put_tenant(replace(tenant, record={**tenant.record, **change.set}, **parts))  # type: ignore[arg-type]


# Stories: what happens to the world while a client watches, written down with its times.
#
# A story is YAML that people write by hand, so its errors name file and line, and the two traps of YAML that matter
# here are taken out: `ON` and `OFF` are words and not booleans, a timestamp is text and not a date.
#
# Never carries anything out: it reads steps, the service does them.

MAX_STEPS = 100_000
MAX_EVENTS = 100_000
UNITS_S: Mapping[str, float] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
TOP_KEYS = ["story", "settings", "events"]


class StoryError(ValueError):
    """A story that cannot be read: says file, line and what was expected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One change and when it happens, counted from the start of the story."""

    at_s: float
    change: Change
    line: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Story:
    """The steps in order. `events` None: the built-in number of events."""

    steps: tuple[Step, ...] = ()
    settings: Settings = field(default_factory=Settings)
    events: int | None = None
    name: str = "story"


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
        raise StoryError(f"{text!r} is not YAML") from None
    return found


def read_story(text: str, name: str = "story", base: Settings | None = None) -> Story:
    """A story from YAML: a list of steps, or a map with `story`, `settings` and `events`. `base`: the settings that it
    begins from."""
    given = base if base is not None else Settings()
    loader = _Words(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return Story(name=name, settings=given)
        if isinstance(node, yaml.SequenceNode):
            return Story(steps=_steps(loader, node, given, name), name=name, settings=given)
        if not isinstance(node, yaml.MappingNode):
            raise StoryError(f"{name}:{_line(node)}: a story is a list of steps")
        return _whole(loader, node, name, given)
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark
        raise StoryError(f"{name}:{mark.line + 1 if mark else 1}: {wrong.problem or 'this is not YAML'}") from None
    finally:
        loader.dispose()


def _whole(loader: _Words, node: yaml.MappingNode, name: str, base: Settings) -> Story:
    parts = {key.value: (key, value) for key, value in node.value}
    for word, (key, _) in parts.items():
        if word not in TOP_KEYS:
            raise StoryError(f"{name}:{_line(key)}: unknown key {word!r}{nearest(str(word), TOP_KEYS)}")
    story = Story(name=name, settings=base)
    if "settings" in parts:
        key, value = parts["settings"]
        given = loader.construct_object(value, deep=True)
        try:
            story = replace(story, settings=changed_settings(base, given if isinstance(given, dict) else {"": 0}))
        except SettingsError as wrong:
            raise StoryError(f"{name}:{_line(key)}: {wrong}") from None
    if "events" in parts:
        key, value = parts["events"]
        events = loader.construct_object(value, deep=True)
        if isinstance(events, bool) or not isinstance(events, int) or not 0 <= events <= MAX_EVENTS:
            raise StoryError(f"{name}:{_line(key)}: events is a whole number from 0 to {MAX_EVENTS}")
        story = replace(story, events=events)
    if "story" in parts:
        key, value = parts["story"]
        if not isinstance(value, yaml.SequenceNode):
            raise StoryError(f"{name}:{_line(key)}: story is a list of steps")
        story = replace(story, steps=_steps(loader, value, story.settings, name))
    return story


def _steps(loader: _Words, node: yaml.SequenceNode, settings: Settings, name: str) -> tuple[Step, ...]:
    if len(node.value) > MAX_STEPS:
        raise StoryError(f"{name}:{_line(node)}: at most {MAX_STEPS} steps")
    steps = [_step(loader, each, settings, name) for each in node.value]
    # A stable sort: steps of one moment keep the order in which they were written.
    return tuple(sorted(steps, key=lambda step: step.at_s))


def _step(loader: _Words, node: yaml.Node, settings: Settings, name: str) -> Step:
    line = _line(node)
    given = loader.construct_object(node, deep=True)
    if not isinstance(given, dict) or "at" not in given:
        raise StoryError(f"{name}:{line}: a step is a map with `at` and a change")
    if not all(isinstance(key, str) for key in given):
        raise StoryError(f"{name}:{line}: the keys of a step are words")
    try:
        return Step(at_s=seconds(given["at"]), change=change_from(given, settings), line=line)
    except ValueError as wrong:
        raise StoryError(f"{name}:{_blamed(node, str(wrong))}: {wrong}") from None


def _blamed(node: yaml.Node, message: str) -> int:
    """The line of the word that the message names first, else of the step."""
    named = [(message.find(repr(word.value)), _line(word)) for word in _words(node)]
    return min((each for each in named if each[0] >= 0), default=(0, _line(node)))[1]


def _words(node: yaml.Node) -> Iterator[yaml.ScalarNode]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        for each in part if isinstance(part, tuple) else (part,):
            yield from _words(each)


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def seconds(value: Json) -> float:
    """`500ms`, `12s`, `2m`, or a bare number of seconds."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(f"'at' is a time like 12s or 500ms, not {value!r}")
    return float(found[1]) * UNITS_S[found[2]]


def check_story(story: Story, world: World) -> None:
    """Refuses a story about events and partners that this world will not have when their time comes."""
    added: set[tuple[str | None, str]] = set()
    for step in story.steps:
        change = step.change
        if isinstance(change, PartnerChange) and world.tenant(change.partner) is None:
            close = nearest(change.partner, list(world.partners))
            raise StoryError(f"{story.name}:{step.line}: unknown partner {change.partner!r}{close}")
        if not isinstance(change, EventChange) or (change.partner, change.event) in added:
            continue
        try:
            holder_of(world, change)
        except ChangeError as wrong:
            raise StoryError(f"{story.name}:{step.line}: {wrong}") from None
        if change.add:
            added.add((change.partner, change.event))
