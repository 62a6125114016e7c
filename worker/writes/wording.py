"""What a write will do and what it will spend, in words: whoever is asked for a yes must see what the yes is to.

It is said here and nowhere else, for commands, page and messages. A boost has no value of its own: it publishes the
draft, so what was read last of the draft stands for it. That is read and judged anew before anything is sent.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from worker.model.actions import ACTIONS
from worker.model.facts import Json
from worker.model.writes import Intent
from worker.writes.intents import amount_of, amount_of_draft, reads_back
from worker.writes.wishes import EXACT_MAX

UNSAID: Final = frozenset({"confirm", "spends", "client_id"})
"""Parameters of a free call that say nothing of what is sent."""
OF_DRAFT: Final = ("total_budget", "goal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """``does``: what is set, and of a boost the draft that it publishes. ``before``: what is there now, or was there
    before it was sent; empty where nobody has read it. ``amount``: what it spends, in the partner's ``currency`` where
    that is known; ``unknown``: why a write that spends has no amount."""

    does: str
    before: str = ""
    amount: float | None = None
    currency: str = ""
    unknown: str = ""

    @property
    def change(self) -> str:
        """From what it is to what it shall be."""
        return f"{self.before} -> {self.does}" if self.before else self.does

    @property
    def spends(self) -> str:
        """What it spends, or that nobody can tell; empty where it spends nothing."""
        if self.amount is not None:
            return f"spends {_money(self.amount, self.currency)}"
        return f"amount unknown: {self.unknown}" if self.unknown else ""

    @property
    def line(self) -> str:
        """All of it in one line."""
        return "; ".join(part for part in (self.change, self.spends) if part)


def wanted(intent: Intent, item: str, before: Json, currency: str = "") -> Wanted:
    """What a write of this intent will do and spend. ``before``: its target as evidence compares it, None where nobody
    has read it; ``item`` tells the writes of one action apart."""
    row = ACTIONS[intent.action]
    seen = before if isinstance(before, Mapping) else {}
    does, known = _sets(intent), ""
    if reads_back(intent, item):
        named = {name: seen[name] for name in intent.wanted if name in seen and name != "exists"}
        plain = row.value is not None and len(named) == 1
        known = ", ".join(map(_spelled, named.values())) if plain else _named(named)
        known = known if isinstance(before, Mapping | list | None) else _spelled(before)
    if row.budget == "draft" and (draft := {name: seen[name] for name in OF_DRAFT if seen.get(name) is not None}):
        does = f"{does}, draft: {_named(draft)}"
    if item and item in row.items:
        does = f"{does} ({item})"
    amount, unknown = _spent(intent, seen) if intent.spends else (None, "")
    return Wanted(does=does, before=known, amount=amount, currency=currency, unknown=unknown)


def in_all(together: Iterable[Wanted]) -> str:
    """What several writes spend together; empty where they spend nothing."""
    sums: dict[str, float] = {}
    unknown = 0
    for one in together:
        if one.amount is not None:
            sums[one.currency] = sums.get(one.currency, 0.0) + one.amount
        unknown += bool(one.unknown)
    known = " + ".join(_money(amount, currency) for currency, amount in sorted(sums.items()))
    parts = (f"{known} in all" if known else "", f"amount unknown: {unknown} of them" if unknown else "")
    return "; ".join(part for part in parts if part)


def _sets(intent: Intent) -> str:
    """The value that is set, or the parameters by name."""
    params = {name: value for name, value in intent.params.items() if name not in UNSAID}
    if set(params) == {"value"}:
        return _spelled(params["value"])
    return _named(params) if params else ", ".join(map(_spelled, intent.wanted.values()))


def _spent(intent: Intent, before: Mapping[str, Json]) -> tuple[float | None, str]:
    """The budget that it commits, or why that cannot be told."""
    if ACTIONS[intent.action].budget != "draft":
        amount = amount_of(intent)
        return amount, "" if amount is not None else "it names no budget of its own"
    draft = amount_of_draft(before)
    if draft is not None:
        return draft, ""
    if before.get("state") == "NONE":
        return None, "there is no draft yet"
    return None, "the draft shows no total_budget" if before else "the draft has not been read yet"


def _money(amount: float, currency: str) -> str:
    return f"{_spelled(round(amount, 2))} {currency}".rstrip()


def _named(values: Mapping[str, Json]) -> str:
    return ", ".join(f"{name} {_spelled(value)}" for name, value in values.items())


def _spelled(value: Json) -> str:
    """Every number of the service's comes as a double; a person reads 500 and not 500.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_MAX:
        return str(int(value))
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
