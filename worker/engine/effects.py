"""What a write that took effect makes of a fact: for worlds that are not the service, as rule tests and replays are.

One table, by how an action's effect is shown. What the service would change beside it is not known, and not guessed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.writes import Intent
from worker.writes.evidence import SERIES
from worker.writes.wishes import members

NO_SETUP: Mapping[str, Json] = {"state": "NONE"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """A fact, and what becomes of it. ``whole``: the value takes the place of the old one; else its fields do."""

    fact: str
    value: Json
    whole: bool = False


def effect_of(intent: Intent, value_of: Callable[[str], Json]) -> Effect | None:
    """The effect on a fact; None where no fact shows it. ``value_of``: what a fact is now."""
    row = ACTIONS[intent.action]
    match row.shown:
        case "field":
            return Effect(fact="event", value=dict(intent.wanted))
        case "setup" if row.creates:
            return Effect(fact="setup", value={"state": "DRAFT", **intent.params}, whole=True)
        case "setup":
            return Effect(fact="setup", value=dict(intent.wanted))
        case "campaign":
            campaigns = _with_campaign(value_of("campaigns"), intent.params)
            return Effect(fact="campaigns", value=campaigns, whole=True)
        case "series":
            return Effect(fact="event", value={SERIES: _with_members(value_of("event"), intent.params, row.value)})
        case "answer" if row.target == "setup":
            return Effect(fact="setup", value=dict(NO_SETUP), whole=True)
        case _:
            return None


def _with_campaign(campaigns: Json, params: Mapping[str, Json]) -> Json:
    """The campaigns with one of this name that has these values."""
    known = [one for one in campaigns if isinstance(one, dict)] if isinstance(campaigns, list) else []
    name = (params["tc"], params["tc_run_id"])
    same = [one for one in known if (one.get("tc"), one.get("tc_run_id")) == name]
    others = [one for one in known if one not in same]
    changed: dict[str, Json] = {**(same[0] if same else {}), **params}
    return [*others, changed]


def _with_members(event: Json, params: Mapping[str, Json], way: str | None) -> Json:
    """The series with these events in it, or out of it."""
    now = event.get(SERIES) if isinstance(event, dict) else None
    others = [one for one in now if one not in members(params)] if isinstance(now, list) else []
    return [*others, *members(params)] if way == "in" else others
