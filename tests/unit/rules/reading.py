"""A text of rules, as the loader takes it: the one rule in it, or every mistake."""

from collections.abc import Sequence

from worker.model.errors import InputErrors, Problem
from worker.model.rules import Rule
from worker.rules.load import read_rules
from worker.rules.registry import BUILT_IN_REGISTRY, Registry


def the_rule(text: str, registry: Registry = BUILT_IN_REGISTRY) -> Rule:
    """The only rule of a file."""
    (rule,) = read_rules({"r.yaml": text}, registry).rules.rules
    return rule


def problems(text: str, registry: Registry = BUILT_IN_REGISTRY) -> Sequence[Problem]:
    """What is wrong in a file; nothing where it is taken."""
    try:
        read_rules({"r.yaml": text}, registry)
    except InputErrors as errors:
        return errors.problems
    return ()


def mistakes(text: str, registry: Registry = BUILT_IN_REGISTRY) -> list[str]:
    """The same with each place, in the words of `check`."""
    return [str(one) for one in problems(text, registry)]
