"""Whether the daemon is well, from what it last said of itself. Pure.

One judgement for the command, the page and the orchestrator that asks it: a complete look at every partner, younger
than three intervals, or than three looks where the list is so long that one takes longer. A look that is older means
that nothing is decided on what is so now, whatever else still runs.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from worker.model.facts import Json

HEALTHY_INTERVALS = 3
RELOAD_EVERY = timedelta(seconds=2)
"""How often a daemon looks at its rule files; a change takes no longer than this to be in force, or refused."""


def unhealthy(body: Mapping[str, Json], now: datetime, interval: timedelta) -> str | None:
    """Why the worker is not well, or None. ``body``: what the daemon saved of itself."""
    partners = body.get("partners")
    if not isinstance(partners, Mapping) or not partners:
        unreachable = body.get("unreachable")
        return f"no partner is watched yet{f': {unreachable}' if unreachable else ''}"
    for partner, said in partners.items():
        one = said if isinstance(said, Mapping) else {}
        last, took = one.get("last_ok_at"), one.get("look_s")
        if not isinstance(last, str):
            return f"{partner}: no complete cycle yet"
        age = now - datetime.fromisoformat(last)
        look = timedelta(seconds=took) if isinstance(took, int | float) else interval
        if age > HEALTHY_INTERVALS * max(interval, look):
            return f"{partner}: the last complete cycle is {age.total_seconds():.0f} s old"
    return None
