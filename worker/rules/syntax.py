"""The syntax tree of a condition, in our own words: small, frozen, with the place of every part.

`worker.rules.cel` makes it from the parser's tree, so that checks, explanations and the read planner share one shape
and none of them knows a CEL library. Offsets count characters of the condition's text. It evaluates nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

NodeKind = Literal[
    "literal",
    "ident",
    "select",
    "index",
    "call",
    "macro",
    "list",
    "map",
    "not",
    "negate",
    "and",
    "or",
    "if",
    "compare",
    "arithmetic",
]

LiteralKind = Literal["", "int", "double", "string", "bool", "null", "type"]

MACROS: frozenset[str] = frozenset({"all", "exists", "exists_one", "map", "filter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One part. ``start`` to ``end`` is its text; ``at`` the place to complain about (a name, an operator).

    ``text`` is the name, field, function, operator or literal. ``children``: a call's target, if ``method``, then its
    arguments; a macro's target, variable and bodies; a map's keys and values in turn. ``value`` of a literal.
    """

    kind: NodeKind
    start: int
    end: int
    at: int
    text: str = ""
    children: "tuple[Node, ...]" = ()
    method: bool = False
    literal: LiteralKind = ""
    value: "str | int | float | bool | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A chain of fields from a name: ``event.benchmark.prediction``."""

    name: str
    fields: tuple[str, ...]

    @property
    def text(self) -> str:
        """As a person would write it."""
        return ".".join((self.name, *self.fields))


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it, in the order of the text."""
    stack = [node]
    while stack:
        one = stack.pop()
        yield one
        stack.extend(reversed(one.children))


def path_of(node: Node, bound: frozenset[str] = frozenset()) -> Path | None:
    """The chain of fields that a node is, or None: ``event.x`` and ``event['x']`` alike."""
    fields: list[str] = []
    while node.kind in ("select", "index"):
        if node.kind == "select":
            fields.append(node.text)
        elif node.children[1].literal == "string":
            fields.append(str(node.children[1].value))
        else:
            return None
        node = node.children[0]
    if node.kind != "ident" or node.text in bound:
        return None
    return Path(name=node.text, fields=tuple(reversed(fields)))


def free_paths(node: Node, bound: frozenset[str] = frozenset()) -> Iterator[Path]:
    """The longest chains from names that no macro binds."""
    path = path_of(node, bound)
    if path is not None:
        yield path
        return
    if node.kind == "macro":
        target, variable, *bodies = node.children
        yield from free_paths(target, bound)
        for body in bodies:
            yield from free_paths(body, bound | {variable.text})
        return
    for child in node.children:
        yield from free_paths(child, bound)


def names_of(node: Node) -> frozenset[str]:
    """The names that a condition takes from outside."""
    return frozenset(path.name for path in free_paths(node))
