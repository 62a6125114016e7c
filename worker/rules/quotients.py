"""Divisions by what may be 0. Such a quotient is no finite number, so what uses it is unknown: a condition that cannot
fire and a value that is never sent, which nobody sees until the field is 0 for the first time. It evaluates nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import eq, ge, gt, le, lt, ne

from worker.rules.syntax import Node

_AT_ZERO: Mapping[str, Callable[[float, float], bool]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_FIELDS = frozenset({"ident", "select", "index"})
_NOTHING: frozenset[str] = frozenset()


def by_zero(source: str, node: Node, safe: frozenset[str] = _NOTHING) -> Iterator[Node]:
    """The divisors of a text that may be 0: fields and sizes of which nothing around them says that they are not.
    ``safe``: the texts of those that are known not to be."""
    if node.kind in ("and", "or"):
        for child in node.children:
            others = [one for one in node.children if one is not child]
            beside = (nonzero(source, one, where=node.kind == "and") for one in others)
            yield from by_zero(source, child, safe.union(*beside))
    elif node.kind == "if":
        test, yes, no = node.children
        yield from by_zero(source, test, safe)
        yield from by_zero(source, yes, safe | nonzero(source, test, where=True))
        yield from by_zero(source, no, safe | nonzero(source, test, where=False))
    else:
        divisor = bare(node.children[1]) if node.kind == "arithmetic" and node.text == "/" else None
        if divisor is not None and _may_be(divisor) and text_of(source, divisor) not in safe:
            yield divisor
        for child in node.children:
            yield from by_zero(source, child, safe)


def nonzero(source: str, node: Node, *, where: bool = True) -> frozenset[str]:
    """The texts of what cannot be 0 where a condition is true, or where it is false."""
    if node.kind == "not":
        return nonzero(source, node.children[0], where=not where)
    if node.kind == ("and" if where else "or"):
        return _NOTHING.union(*(nonzero(source, child, where=where) for child in node.children))
    if node.kind != "compare" or node.text not in _AT_ZERO:
        return _NOTHING
    left, right = node.children
    at_zero, found = _AT_ZERO[node.text], set[str]()
    if isinstance(left.value, int | float) and at_zero(left.value, 0) is not where:
        found.add(text_of(source, bare(right)))
    if isinstance(right.value, int | float) and at_zero(0, right.value) is not where:
        found.add(text_of(source, bare(left)))
    return frozenset(found)


def bare(node: Node) -> Node:
    """A number without what makes another kind of number of it."""
    while node.kind == "call" and node.text in ("double", "int") and not node.method:
        node = node.children[0]
    return node


def text_of(source: str, node: Node) -> str:
    """A part as it is written."""
    return source[node.start : node.end]


def _may_be(divisor: Node) -> bool:
    return divisor.kind in _FIELDS or (divisor.kind == "call" and divisor.text == "size")
