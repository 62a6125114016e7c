"""What a write wants, in words: whoever is asked for a yes must see what the yes is to.

The web page shows the same in a form of its own. A boost carries no value: it publishes the draft, so the draft is
shown as it was read last. It is read and judged anew before anything is sent.
"""

import json
from collections.abc import Mapping
from typing import Final

from worker.ledger.reading import LedgerReader
from worker.model.actions import ACTIONS
from worker.model.facts import Json, Known
from worker.model.writes import Write
from worker.writes.wishes import EXACT_MAX

UNSAID: Final = frozenset({"confirm", "spends", "client_id"})
"""Parameters of a free call that say nothing of what is sent."""
OF_DRAFT: Final = ("total_budget", "goal")


def wanted_words(write: Write) -> str:
    """The value that is set, or the parameters by name, and of an action of two writes which of them it is."""
    params = {name: value for name, value in write.intent.params.items() if name not in UNSAID}
    if set(params) == {"value"}:
        words = _spelled(params["value"])
    elif params:
        words = _named(params)
    else:
        words = ", ".join(map(_spelled, write.intent.wanted.values()))
    half = write.key.item
    return f"{words} ({half})" if half in ACTIONS[write.intent.action].items and half else words


def wanted_with_draft(ledger: LedgerReader, write: Write) -> str:
    """The same, and of a write that commits the draft's budget what the draft was when it was read last."""
    words = wanted_words(write)
    if ACTIONS[write.intent.action].budget != "draft" or write.final:
        return words
    for one in ledger.observed(write.key.partner, write.key.event):
        draft = one.fact.value if isinstance(one.fact, Known) else None
        if (one.event, one.key.name) == (write.key.event, "setup") and isinstance(draft, Mapping):
            seen = {name: draft[name] for name in OF_DRAFT if draft.get(name) is not None}
            return f"{words}, draft: {_named(seen)}" if seen else words
    return words


def _named(values: Mapping[str, Json]) -> str:
    return ", ".join(f"{name} {_spelled(value)}" for name, value in values.items())


def _spelled(value: Json) -> str:
    """Every number of the service's comes as a double; a person reads 500 and not 500.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_MAX:
        return str(int(value))
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
