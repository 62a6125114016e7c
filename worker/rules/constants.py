"""Conditions that can never, or must always, be true: found by constants and by the documented sets of values.

Three-valued: what is not certain is None. Only what follows from the text and the document is claimed; an undocumented
value, or a set that the document leaves open, can be anything.
"""

from collections.abc import Mapping

from worker.rules.celtypes import Type
from worker.rules.syntax import Node, path_of

_Values = frozenset[str | int | float | bool | None]


def constant_truth(node: Node, names: Mapping[str, Type]) -> bool | None:
    """The truth of a part that is the same whatever the facts say; None where it depends on them."""
    if node.kind == "literal" and isinstance(node.value, bool):
        return node.value
    if node.kind == "not":
        inner = constant_truth(node.children[0], names)
        return None if inner is None else not inner
    if node.kind in ("and", "or"):
        return _junction(node, names)
    if node.kind == "compare":
        return _comparison(node, names)
    return None


def _junction(node: Node, names: Mapping[str, Type]) -> bool | None:
    decides = node.kind == "or"
    found = [constant_truth(child, names) for child in node.children]
    if decides in found:
        return decides
    if all(truth is not None for truth in found):
        return not decides
    return decides if _exhausted(node, names, decides=decides) else None


def _comparison(node: Node, names: Mapping[str, Type]) -> bool | None:
    left, right = node.children
    if left.kind == "literal" and right.kind == "literal" and node.text in ("==", "!="):
        return (left.value == right.value) == (node.text == "==")
    found = _allowed(node, names)
    if found is None:
        return None
    path, allowed, among = found
    documented = _documented(path, names)
    if not documented:
        return None
    matching = documented & allowed if among else documented - allowed
    return False if not matching else True if matching == documented else None


def _exhausted(node: Node, names: Mapping[str, Type], *, decides: bool) -> bool:
    """Whether the comparisons of one field contradict each other (``&&``) or leave nothing out (``||``)."""
    left: dict[str, _Values | None] = {}
    for child in node.children:
        found = _allowed(child, names)
        if found is None:
            continue
        path, values, among = found
        documented = _documented(path, names)
        if decides:  # of a choice, look at what no branch takes
            among = not among
        known = left.get(path, documented or None)
        if known is not None:
            left[path] = known & values if among else known - values
        elif among:
            left[path] = values
    return any(values is not None and not values for values in left.values())


def _allowed(node: Node, names: Mapping[str, Type]) -> tuple[str, _Values, bool] | None:
    """A comparison of a field with literals: the field, the literals, and whether it must be among them."""
    if node.kind == "not":
        inner = _allowed(node.children[0], names)
        return None if inner is None else (inner[0], inner[1], not inner[2])
    if node.kind != "compare" or node.text not in ("==", "!=", "in"):
        return None
    left, right = node.children
    if node.text != "in" and left.kind == "literal":
        left, right = right, left
    path = path_of(left)
    if path is None or path.name not in names:
        return None
    if node.text == "in":
        if right.kind != "list" or any(item.kind != "literal" for item in right.children):
            return None
        return path.text, frozenset(item.value for item in right.children), True
    if right.kind != "literal":
        return None
    return path.text, frozenset({right.value}), node.text == "=="


def _documented(path: str, names: Mapping[str, Type]) -> _Values:
    """All values that a field can have, empty where the document does not say."""
    name, *fields = path.split(".")
    found: Type | None = names.get(name)
    for field in fields:
        found = (found.fields or {}).get(field) if found is not None else None
    if found is None or found.open_set or found.nullable:
        return frozenset()
    return frozenset(found.values)
