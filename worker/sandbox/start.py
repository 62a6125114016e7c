"""What a twin begins with: its world, its story, its dialect, and the settings and faults that its operator asks for.

Whoever comes later has the last word: defaults, then the dialect, then the story's own settings, then what stands on
the command line. Words that mean nothing here are errors that name the nearest right one.

Never serves anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path

from worker.sandbox.delivery import Json, Record
from worker.sandbox.demo import DEMO_EVENTS, demo_story, demo_world
from worker.sandbox.dialects import DIALECTS
from worker.sandbox.faults import KINDS, PARAMS, Fault, FaultError, Match, fault_from
from worker.sandbox.service import Service
from worker.sandbox.settings import Settings, SettingsError, changed_settings, nearest
from worker.sandbox.story import Story, StoryError, check_story, read_story, value_from

STANDARD = "standard"
_OF_FAULT = frozenset({each.name for each in fields(Fault)} - {"match", "kind", "params"})
_OF_MATCH = frozenset(each.name for each in fields(Match))


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How a twin differs from the usual one. `settings` come after those of the dialect and the story."""

    dialect: str = STANDARD
    settings: Record = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()


def start_from(dialect: str, settings: Iterable[str], faults: Iterable[str]) -> Start:
    """From the words of a command line. Raises SettingsError or FaultError for words that mean nothing."""
    if dialect not in DIALECTS:
        raise SettingsError(f"unknown dialect {dialect!r}{nearest(dialect, list(DIALECTS))}")
    given = dict(setting_from(text) for text in settings)
    changed_settings(Settings(), given)
    return Start(dialect=dialect, settings=given, faults=tuple(fault_of(text) for text in faults))


def setting_from(text: str) -> tuple[str, Json]:
    """`name=value`, the value as in a story."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"{text!r} is no setting: write name=value")
    return name.strip(), value_from(value)


def fault_of(text: str) -> Fault:
    """A fault in a line: `{kind: …}` as in a story, or `KIND [METHOD] [PATH] [name=value …]`."""
    if text.lstrip().startswith("{"):
        given = value_from(text)
        return fault_from(given if isinstance(given, Mapping) else {})
    kind, *words = text.split() or [""]
    whole: dict[str, Json] = {"kind": kind}
    match: dict[str, Json] = {}
    params: dict[str, Json] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            _put(name, value_from(value), whole, match, params)
        elif "/" in word or word.startswith("^"):
            match["path"] = word
        else:
            match["method"] = word.upper()
    return fault_from({**whole, "match": match, "params": params})


def _put(name: str, value: Json, whole: dict[str, Json], match: dict[str, Json], params: dict[str, Json]) -> None:
    for known, place in ((_OF_FAULT, whole), (_OF_MATCH, match), (PARAMS, params)):
        if name in known:
            place[name] = value
            return
    raise FaultError(f"unknown word {name!r} in a fault{nearest(name, sorted({*_OF_FAULT, *_OF_MATCH, *PARAMS}))}")


def built(story: Path | None, events: int | None, first_day: datetime, start: Start | None = None) -> Service:
    """The service that tells this story, or the built-in one. Raises StoryError when it cannot be told."""
    begins = start or Start()
    dialect = changed_settings(Settings(), DIALECTS[begins.dialect].settings)
    if story is None:
        world = demo_world(DEMO_EVENTS if events is None else events, first_day)
        told = Story(steps=demo_story(world).steps, settings=dialect)
    else:
        told = _read(story, dialect)
        if events is None:
            events = DEMO_EVENTS if told.events is None else told.events
        world = demo_world(events, first_day)
        check_story(told, world)
    settings = changed_settings(told.settings, begins.settings)
    return Service(world, settings=settings, story=told.steps, faults=begins.faults)


def _read(path: Path, base: Settings) -> Story:
    try:
        return read_story(path.read_text("utf-8"), str(path), base)
    except OSError as wrong:
        raise StoryError(f"{path}: cannot be read: {wrong.strerror}") from None
    except UnicodeDecodeError as wrong:
        raise StoryError(f"{path}: cannot be read: it is not UTF-8 from byte {wrong.start + 1} on") from None


__all__ = ["KINDS", "Start", "built", "fault_of", "setting_from", "start_from"]
