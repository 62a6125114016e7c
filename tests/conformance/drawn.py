"""Conditions drawn at random, of all kinds of parts, over values of all kinds; a few of them wrong on purpose."""

from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (0.0, 0.5, 1.0, -1.5, 3.0, 1e17, -0.25)
WHOLE = (0, 1, 2, -3, 7, 9_223_372_036_854_775_807, -9_223_372_036_854_775_807)
TEXTS = ("", "a", "ab", "Berlin", "b")
TIMES = ("2026-03-01T12:00:00Z", "2026-03-08T00:00:00+02:00", "2025-12-31T23:59:59.5Z")
SPANS = ("1h", "90s", "1h30m", "-36h", "1500ms")
GETTERS = ("getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getHours", "getMinutes")
TESTS = ("startsWith", "endsWith", "contains")
DEPTH = 4


def values(chance: Random) -> dict[str, Any]:
    """What the names stand for: a record with fields of each kind, some of them missing, some of another kind."""
    record: dict[str, Any] = {
        "n": chance.choice(NUMBERS),
        "m": chance.choice(NUMBERS),
        "t": chance.choice(TEXTS),
        "u": chance.choice(TEXTS),
        "b": chance.random() < 0.5,
        "z": None,
        "ns": chance.sample(NUMBERS, chance.randint(0, 3)),
        "ts": chance.sample(TEXTS, chance.randint(0, 3)),
        "rs": [_item(chance) for _ in range(chance.randint(0, 3))],
        "r": _item(chance),
    }
    for name in list(record):
        if chance.random() < 0.03:
            del record[name]
        elif chance.random() < 0.02:
            record[name] = chance.choice((None, 1.0, "a", [], {}))
    return {"f": record}


def _item(chance: Random) -> dict[str, Any]:
    item: dict[str, Any] = {"k": chance.choice(TEXTS), "v": chance.choice(NUMBERS)}
    if chance.random() < 0.3:
        del item[chance.choice(("k", "v"))]
    return item


class Drawer:
    """Draws texts. ``bound``: the names that macros bind here, by kind."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.bound: dict[str, list[str]] = {"number": [], "text": [], "item": []}
        self._kinds: dict[str, Callable[[int], str]] = {
            "number": self.number,
            "whole": self.whole,
            "text": self.text,
            "time": self.time,
            "span": self.span,
        }

    def pick(self, *ways: Callable[[], str]) -> str:
        """One of these, drawn."""
        return self.chance.choice(ways)()

    def condition(self, depth: int = DEPTH) -> str:
        """What is true or false."""
        if depth <= 0:
            return self.pick(lambda: "f.b", lambda: "true", lambda: f"f.n > {self.chance.choice(NUMBERS)}")
        down = depth - 1
        return self.pick(
            lambda: f"{self.condition(down)} && {self.condition(down)}",
            lambda: f"({self.condition(down)} || {self.condition(down)})",
            lambda: f"!({self.condition(down)})",
            lambda: self.comparison(down),
            lambda: self.comparison(down),
            lambda: self.quantified(down),
            lambda: f"({self.condition(down)} ? {self.condition(down)} : {self.condition(down)})",
            lambda: f"{self.text(down)} in [{self.text(down)}, {self.text(down)}]",
            lambda: f"{self.number(down)} in f.ns",
            lambda: f"{self.text(down)} in f.r",
            lambda: f"has(f.{self.chance.choice(('n', 'gone', 'r'))})",
            lambda: f"{self.text(down)}.{self.chance.choice(TESTS)}({self.text(down)})",
            lambda: f"{self.text(down)}.matches('{self.chance.choice(('a', '^B.*n$', '[a-b]+$', ''))}')",
            lambda: f"{self.chance.choice(('f.z', 'f.n', 'f.r'))} == null",
        )

    def comparison(self, depth: int) -> str:
        """Two of a kind, or nearly."""
        kinds = list(self._kinds)
        kind = self.chance.choice(kinds)
        other = self.chance.choice(kinds) if self.chance.random() < 0.05 else kind
        if {kind, other} == {"number"} and self.chance.random() < 0.2:
            other = "whole"
        operator = self.chance.choice(("==", "!=", "<", "<=", ">", ">="))
        return f"({self._kinds[kind](depth)} {operator} {self._kinds[other](depth)})"

    def quantified(self, depth: int) -> str:
        """A macro over a list."""
        lists = (("number", "f.ns"), ("text", "f.ts"), ("item", "f.rs"), ("text", "f.r"))
        kind, over = self.chance.choice(lists)
        name = "xyz"[sum(map(len, self.bound.values())) % 3]
        self.bound[kind].append(name)
        try:
            test = self.condition(depth - 1)
            if self.chance.random() < 0.7:
                test = {"number": f"{name} > {self.number(0)}", "text": f"{name} == {self.text(0)}"}.get(
                    kind, f"{name}.v > {self.number(0)}"
                )
        finally:
            self.bound[kind].pop()
        how = self.chance.choice(("all", "exists", "exists_one", "filter", "map"))
        if how == "filter":
            return f"size({over}.filter({name}, {test})) > {self.chance.randint(0, 2)}"
        return f"true in {over}.map({name}, {test})" if how == "map" else f"{over}.{how}({name}, {test})"

    def number(self, depth: int) -> str:
        """A double."""
        known = [*self.bound["number"], *(f"{name}.v" for name in self.bound["item"]), "f.n", "f.m", "f.r.v"]
        if depth <= 0 or self.chance.random() < 0.4:
            return self.pick(lambda: self.chance.choice(known), lambda: str(self.chance.choice(NUMBERS)))
        down = depth - 1
        return self.pick(
            lambda: f"({self.number(down)} {self.chance.choice('+-*/')} {self.number(down)})",
            lambda: f"-{self.chance.choice(known)}",
            lambda: f"double({self.whole(down)})",
            lambda: f"f.ns[{self.chance.randint(0, 3)}]",
            lambda: f"({self.condition(down)} ? {self.number(down)} : {self.number(down)})",
        )

    def whole(self, depth: int) -> str:
        """A whole number."""
        if depth <= 0 or self.chance.random() < 0.4:
            return f"({self.chance.choice(WHOLE)})"
        down = depth - 1
        return self.pick(
            lambda: f"({self.whole(down)} {self.chance.choice('+-*/%')} {self.whole(down)})",
            lambda: f"size({self.chance.choice(('f.ns', 'f.t', 'f.r', 'f.rs'))})",
            lambda: f"int({self.number(down)})",
            lambda: f"{self.time(down)}.{self.chance.choice(GETTERS)}()",
            lambda: f"{self.span(down)}.{self.chance.choice(('getHours', 'getMinutes', 'getSeconds'))}()",
        )

    def text(self, depth: int) -> str:
        """A text."""
        known = [*self.bound["text"], *(f"{name}.k" for name in self.bound["item"]), "f.t", "f.u", "f['u']", "f.r.k"]
        if depth <= 0 or self.chance.random() < 0.5:
            return self.pick(lambda: self.chance.choice(known), lambda: repr(self.chance.choice(TEXTS)))
        down = depth - 1
        return self.pick(
            lambda: f"({self.text(down)} + {self.text(down)})",
            lambda: f"string({self.whole(down)})",
            lambda: f"({self.condition(down)} ? {self.text(down)} : {self.text(down)})",
        )

    def time(self, depth: int) -> str:
        """A time."""
        if depth <= 0 or self.chance.random() < 0.5:
            return f"timestamp('{self.chance.choice(TIMES)}')"
        return f"({self.time(depth - 1)} {self.chance.choice('+-')} {self.span(depth - 1)})"

    def span(self, depth: int) -> str:
        """A duration."""
        if depth <= 0 or self.chance.random() < 0.5:
            return f"duration('{self.chance.choice(SPANS)}')"
        return self.pick(
            lambda: f"({self.span(depth - 1)} {self.chance.choice('+-')} {self.span(depth - 1)})",
            lambda: f"({self.time(depth - 1)} - {self.time(depth - 1)})",
        )
