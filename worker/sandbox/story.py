"""Stories: what happens to the world while a client watches, written down with its times.

A story is YAML that people write by hand, so its errors name file and line, and the two traps of YAML that matter
here are taken out: `ON` and `OFF` are words and not booleans, a timestamp is text and not a date.

Never carries anything out: it reads steps, the service does them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import yaml  # type: ignore[import-untyped,unused-ignore]

from worker.sandbox.changes import Change, ChangeError, EventChange, PartnerChange, change_from, holder_of
from worker.sandbox.delivery import Json
from worker.sandbox.settings import Settings, SettingsError, changed_settings, nearest
from worker.sandbox.world import World

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
