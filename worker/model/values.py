"""What the values of an action may be, and what of them is money. Pure, and the only place that says either.

A value is judged by the table of actions, wherever it comes from: `check` reads what a rule's text gives by the same
types, and what is computed is judged when the rule fires. Money is known by its key, at any depth, because the service
takes more parameters than its document names.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from math import inf, isfinite

from worker.model.actions import BUDGETS, WORDS, Param, ParamType
from worker.model.facts import Json

MONEY: frozenset[str] = frozenset({"budget", "spend", "bid", "amount", "cost", "price", "cap"})
"""The words of a key, or their plurals, under which every number is money."""
_WITHIN = ("budget", "spend", "amount", "cost", "price")
"""Those that are money within another word too; ``forbid`` and ``capacity`` are none."""
_PLAIN = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?")
"""A decimal that every reader reads alike."""
SHOWN_LENGTH_MAX = 60
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_CENT = Decimal("0.01")
_EXACT = Context(prec=400)
"""Enough digits for the cents of the largest double."""


def fault_of(name: str, param: Param, value: Json) -> str:
    """What is wrong with a value for a parameter, in words; empty where nothing is. Null is no matter of this: what is
    computed and null is not known."""
    if not _finite(value) or not isfinite(money_in({name: value}) or 0.0):
        return f"is {shown(value)}, which is not finite"
    words = WORDS.get(param.type)
    if words is not None:
        return "" if value in words else f"is {shown(value)}, and is one of {', '.join(words)}"
    wanted, fits = _WANTED.get(param.type, ("", lambda _value: True))
    if not fits(value):
        return f"is {shown(value)}, and must be {wanted}"
    text = uncounted({name: value})
    return "" if text is None else f"has money as {shown(text)}, which cannot be counted"


def uncounted(params: object) -> str | None:
    """The first text that is money, holds a digit and is no plain decimal: ``99,999`` and ``500 EUR`` may be money to
    the service, and nobody here can tell how much. What a rule computes is passed over. None where there is none."""
    texts = (one for one in _under_money(params, money=False) if isinstance(one, str))
    return next((one for one in texts if any(map(str.isdigit, one)) and not _PLAIN.fullmatch(one)), None)


def money_in(params: Json) -> float | None:
    """The sum of what is money in some parameters: numbers, and texts that read as one, under a key with a word of
    `MONEY` or below one. None where there is no such key with a number; what is below zero counts as nothing."""
    found = tuple(max(number, 0.0) for one in _under_money(params, money=False) if (number := _number(one)) is not None)
    return sum(found) if found else None


def budgets_in(params: Mapping[str, Json]) -> tuple[float, ...]:
    """The budgets that the service's range is for: those of a draft or of a cluster, however their keys are spelled."""
    found = (_number(value) for name, value in params.items() if "_".join(words_in(name)) in BUDGETS)
    return tuple(number for number in found if number is not None)


def words_in(key: str) -> tuple[str, ...]:
    """The words of a key: ``daily_budget``, ``daily-budget`` and ``dailyBudget`` have the same two, ``dailybudget`` is
    one word of its own."""
    return tuple(word.lower() for word in _WORD.findall(key))


def in_cents(params: Mapping[str, Json]) -> dict[str, Json]:
    """The parameters with their budgets in whole cents, half a cent up."""
    return {name: cents(value) if name in BUDGETS else value for name, value in params.items()}


def cents(value: Json) -> Json:
    """A number in whole cents, half a cent up; anything else as it is."""
    if not isinstance(value, float) or not isfinite(value):
        return value
    return float(Decimal(repr(value)).quantize(_CENT, rounding=ROUND_HALF_UP, context=_EXACT))


def shown(value: Json) -> str:
    """A value in a sentence, short."""
    text = f"the text {value!r}" if isinstance(value, str) else str(value)
    return text if len(text) <= SHOWN_LENGTH_MAX else text[: SHOWN_LENGTH_MAX - 1] + "…"


def _under_money(value: object, *, money: bool) -> Iterator[object]:
    """Each single value under a key that is money, or below one."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _under_money(part, money=money or _is_money(name))
    elif isinstance(value, list):
        for part in value:
            yield from _under_money(part, money=money)
    elif money:
        yield value


def _is_money(key: str) -> bool:
    if any(word in key.lower() for word in _WITHIN):
        return True
    return any(word in MONEY or word.removesuffix("s") in MONEY for word in words_in(key))


def _number(value: object) -> float | None:
    """The number that a value is, or that a text reads as."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf
    except ValueError:
        return None


def _finite(value: Json) -> bool:
    if isinstance(value, dict | list):
        return all(_finite(part) for part in (value.values() if isinstance(value, dict) else value))
    return not isinstance(value, float) or isfinite(value)


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Json) -> bool:
    """A whole number; some lists of the service spell it as a text."""
    if isinstance(value, str):
        return value.isascii() and value.isdigit()
    return _is_number(value) and float(value).is_integer()  # type: ignore[arg-type] # it is a number


def _is_text(value: Json) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_texts(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(_is_text(one) for one in value)


_WANTED: Mapping[ParamType, tuple[str, Callable[[Json], bool]]] = {
    "string": ("a text", _is_text),
    "number": ("a number", _is_number),
    "integer": ("a whole number", _is_whole),
    "eids": ("a list of event ids, as texts", _is_texts),
    "texts": ("a list of texts", _is_texts),
    "query": ("a mapping of names to values", lambda value: isinstance(value, dict)),
}
"""What each type takes, in words and as a question. A type that is not here takes any JSON."""
