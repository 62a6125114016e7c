"""What `probe` has seen of the service, as it came: raw answers by what they are for, and where things stand in them.

Pure. Kept apart from the judgement so that both can be tested alone: here only what is there is told, never what it
means for an assumption.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from worker.api.replies import Reply
from worker.api.wire import Malformed, found_at, run_id_from
from worker.model.facts import Json
from worker.model.ids import EventId

DEEPEST = 3
"""How far below the top of an answer something is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The setup of one event, and its campaigns, read one after the other."""

    event: EventId
    setup: Reply
    campaigns: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class Sights:
    """All that one probe has seen. ``pages``: answers for page 2 by the parameter that asked for it, in the order of
    asking. ``future``: what the list says has changed since a moment that is still to come. ``refreshed``: None where
    it was not tried, empty where it worked, else why not. ``benchmarks``: with ``type: capacity``. ``made_up``: our own
    record asked for with a token that is none. ``refusing``: a path that is documented to turn partners away."""

    first: Reply | None = None
    pages: Mapping[str, Reply] = field(default_factory=dict)
    future: Reply | None = None
    setups: tuple[Setup, ...] = ()
    adplatform: Reply | None = None
    benchmarks: tuple[Reply, ...] = ()
    made_up: Reply | None = None
    refusing: Reply | None = None
    refreshed: str | None = None


def content_of(reply: Reply | None) -> Json:
    """The JSON of a 2xx; None for anything else."""
    return reply.content if reply is not None and reply.ok and not isinstance(reply.content, Malformed) else None


def at(path: str, value: Json) -> Json:
    """What a JMESPath finds; None where it cannot be applied."""
    try:
        return found_at(path, value)
    except Malformed:
        return None


def places(value: Json, fits: Callable[[Json], bool], path: str = "", depth: int = 0) -> Iterator[str]:
    """Every place in an answer whose value fits, as JMESPath; ``@`` for the answer itself."""
    if fits(value):
        yield path or "@"
    if depth < DEEPEST and isinstance(value, dict):
        for name, part in value.items():
            below = _spelled(name)
            yield from places(part, fits, f"{path}.{below}" if path else below, depth + 1)


def is_campaigns(value: Json) -> bool:
    """A list, not empty, of records that each name a campaign."""
    return isinstance(value, list) and bool(value) and all(_names_campaign(item) for item in value)


def has_campaigns(one: Setup, path: str) -> bool | None:
    """Whether the event has campaigns; None where its answer does not tell."""
    found = at(path, content_of(one.campaigns))
    return bool(found) if isinstance(found, list) else None


def _names_campaign(item: Json) -> bool:
    named = isinstance(item, dict) and isinstance(item.get("tc"), str) and bool(item["tc"])
    return named and isinstance(item, dict) and run_id_from(item.get("tc_run_id")) is not None


def _spelled(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() if name else False
    return name if plain else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
