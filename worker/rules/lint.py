"""Warnings of `check` about single rules: correct, and probably not meant so.

A warning never keeps a rule from loading. It is for the person who writes rules: a condition that nothing can make
true, a fact that is read of every event, a rule that no test has ever seen. What rules do to each other, and what they
cost together, is found by `worker.engine.checking`. Reading the names in the rule tests is all it does to the world.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf, nextafter
from pathlib import Path
from typing import TypeAlias

from worker.model.actions import ACTIONS, WAIT
from worker.model.errors import Code, InputErrors, Problem
from worker.model.facts import RuleId, parse_time
from worker.model.rules import MISSED_AFTER, Rule
from worker.rules.cel import Node, free_paths, meaning_of, names_of, path_of, walk
from worker.rules.evaluate import Expression, expression
from worker.rules.expressions import names_in
from worker.rules.functions import COMPARED, duration_of
from worker.rules.load import FILE_BYTES_MAX, MISTAKEN, TESTS, Loaded, Written, tests_below, walked
from worker.rules.registry import BUILT_IN_REGISTRY, Registry, Type
from worker.rules.spelling import few
from worker.rules.yaml import Document, Entries, Items, Scalar, compose

_CONSTANT: Mapping[bool | None, tuple[str, str]] = {
    True: ("is always true", "say for which ones it is meant; as it stands it is for all"),
    False: ("is never true", "its parts contradict each other, or ask for a value that the field never has"),
}
_SHARES = frozenset({"event.predicted_sales_share"})
_RUNS = frozenset({("run", None), ("optimisation", "ON"), ("ad_optimisation", "ON")})
OPENINGS = 400
"""So many times of the hours, more than a year of days, are looked at."""
_CONFIRM = "the condition of `confirm`"
_SHOWS = "whatever the answer is, it would say the same of the write: name what shows it, as in response.city == 'Ulm'"
_NO_FACT = ("names no fact", "it is the same for every event; name what it is about, as in event.status == 'cancelled'")


def lint(loaded: Loaded, folder: Path | None = None, registry: Registry = BUILT_IN_REGISTRY) -> tuple[Problem, ...]:
    """All warnings about a rule set; with its folder, also those about files and tests beside it."""
    found = list(loaded.warnings)
    for written in loaded.written:
        for finder in (
            _constant,
            _percents,
            _sizes,
            _by_day_only,
            _never_within,
            _zones,
            _either_day,
            _own_writes,
            _costs,
            _parameters,
        ):
            found.extend(finder(written, registry))
    if folder is not None and folder.is_dir():
        found.extend(_other_endings(folder))
        found.extend(_untested(loaded, folder))
    return tuple(sorted(dict.fromkeys(found), key=lambda one: (one.file, one.line, one.column)))


def warning(written: Written, message: str, *, code: Code, key: str = "id", offset: int = 0, hint: str = "") -> Problem:
    """A warning about a rule, at what stands under one of its keys, or at a character of that."""
    value = written.entries.get(key)
    start = written.entries.start if value is None else value.start
    when = written.rule.when
    as_written = isinstance(value, Scalar) and when is not None and value.text.rstrip() == when.source
    index = value.index_of(offset) if isinstance(value, Scalar) and as_written else start
    return written.entries.document.problem(index, message, hint=hint, code=code, severity="warning")


def _constant(written: Written, registry: Registry) -> Iterator[Problem]:
    rule = written.rule
    names: Mapping[str, Type] = names_in(registry, rule.on_change)
    asked = [("when", "this condition", rule.when), *(("do", "`where`", step.where) for step in rule.do)]
    confirms = (step.params.get("confirm") for step in rule.do if ACTIONS[step.action].shown == "confirm")
    asked += [("do", _CONFIRM, expression(str(one["when"]))) for one in confirms if isinstance(one, dict)]
    for key, what, condition in asked:
        if isinstance(condition, Expression):
            truth = constant_truth(condition.tree, names)
            said = _CONSTANT.get(truth) if truth is not None or condition.names else _NO_FACT
            if said is not None:
                message, hint = said if what != _CONFIRM else (said[0], _SHOWS)
                yield warning(written, f"rule '{rule.id}': {what} {message}", code="constant", key=key, hint=hint)


def _percents(written: Written, _registry: Registry) -> Iterator[Problem]:
    """A share of one that is compared with a number of percent."""
    when = written.rule.when
    for node in walk(when.tree) if isinstance(when, Expression) else ():
        paths = [
            path.text for child in node.children if node.kind == "compare" and (path := path_of(child)) is not None
        ]
        for child in node.children:
            number = child.value if child.kind == "literal" else None
            if paths and paths[0] in _SHARES and isinstance(number, int | float) and number > 1:
                message = f"{paths[0]} is a share of one: it is hardly ever {number:g}"
                hint = f"write {number / 100:g}" if number <= 100 else "write a number from 0 to 1"
                yield warning(written, message, code="value", key="when", offset=child.start, hint=hint)


def _sizes(written: Written, _registry: Registry) -> Iterator[Problem]:
    """How large a change is, asked of the last value alone: every poll in between makes it smaller."""
    when = written.rule.when
    for node in walk(when.tree) if isinstance(when, Expression) and written.rule.on_change else ():
        if node.kind != "compare" or node.text not in COMPARED:
            continue
        named = {one.text for one in free_paths(node)}
        for path in sorted(one for one in named if f"previous.{one}" in named):
            message = f"previous.{path} is what was seen last: what changes in small steps never changes by so much"
            hint = f"ask how much it has changed in a time: delta({path}, '24h'), known once a day of it is on record"
            yield warning(written, message, code="drift", key="when", offset=node.start, hint=hint)


def _by_day_only(written: Written, _registry: Registry) -> Iterator[Problem]:
    """Hours that somebody may take for those in which something runs: they hold firings, and end nothing."""
    between, rule = written.rule.between, written.rule
    for step in rule.do if between is not None else ():
        if (step.action, step.params.get("value")) in _RUNS:
            message = f"rule '{rule.id}': between holds what fires, and ends nothing that runs when the hours are over"
            hint = (
                "for what runs by day and rests by night ask for the hour in `when`, as in "
                "now.getHours('Europe/Berlin') >= 9, and let another rule pause it where that is false"
            )
            yield warning(written, message, code="hours", key="between", hint=hint)


def _never_within(written: Written, _registry: Registry) -> Iterator[Problem]:
    """Times of `at` of which none falls into the hours, nor so shortly before them that it is waited for."""
    at, between = written.rule.at, written.rule.between
    if at is None or between is None:
        return
    time = at.next(datetime(2026, 1, 1, tzinfo=UTC))
    for _ in range(OPENINGS):
        opens = between.opens(time) if time is not None else None
        if time is None or opens is None or opens - time <= MISSED_AFTER:
            return
        time = at.next(opens - timedelta(minutes=1))
    message = f"rule '{written.rule.id}': no time of at falls into the hours of between, so each of them is missed"
    yield warning(written, message, code="hours", key="between", hint="move one of the two, or leave `between` out")


def _zones(written: Written, _registry: Registry) -> Iterator[Problem]:
    between = written.entries.get("between")
    if isinstance(between, Entries) and between.get("timezone") is None:
        message = f"rule '{written.rule.id}': these hours are told by UTC"
        hint = "write timezone: Europe/Berlin, or timezone: UTC"
        yield warning(written, message, code="zone", key="between", hint=hint)


def _either_day(written: Written, _registry: Registry) -> Iterator[Problem]:
    """As in every cron: a day of the month and one of the week are two times, not one that both are true of."""
    if written.rule.at is None:
        return
    _, _, day, _, weekday = written.rule.at.source.split()
    if not day.startswith("*") and not weekday.startswith("*"):
        message = f"rule '{written.rule.id}': this comes on day {day} of the month, and on each {weekday} besides"
        hint = "write * in the place of the one that is not meant; for a day that is both ask for one of them in `when`"
        yield warning(written, message, code="days", key="at", hint=hint)


_NOT_SKIPPED = frozenset({"boost", "reset_setup", WAIT})
_LEAVE_OUT = (
    "leave that part out: what is so already is skipped, and once it has acted, its own doing changes the "
    "condition; `repeat: enforce` restores a value that drifts"
)
_A_LIMIT = (
    "as a limit it can be meant so: what it writes ends the condition, and it acts anew each time the limit is passed; "
    "without that part it would write over every other value too"
)


def _own_writes(written: Written, _registry: Registry) -> Iterator[Problem]:
    """A condition that looks at what its own action changes ends its episode by acting, or never ends it."""
    when, rule = written.rule.when, written.rule
    skipped = not any(step.action in _NOT_SKIPPED for step in rule.do)  # what is so already
    if not isinstance(when, Expression) or rule.on_change or not skipped:
        return
    writes = {
        f"{fact}.{field}".rstrip("."): step.action
        for step in rule.do
        if not step.relative  # a limit on what it reads is what stops such a one
        for fact, field in ACTIONS[step.action].written(step.params)
    }
    compared = [node for node in walk(when.tree) if node.kind == "compare" and node.text in COMPARED]
    limits = {child.start for node in compared for child in node.children}
    for node in walk(when.tree):
        path = path_of(node)
        if path is not None and path.text in writes:
            message = f"rule '{rule.id}' looks at {path.text}, which its own '{writes[path.text]}' writes"
            hint = _A_LIMIT if node.start in limits else _LEAVE_OUT
            yield warning(written, message, code="own_write", key="when", offset=node.start, hint=hint)


def _costs(written: Written, registry: Registry) -> Iterator[Problem]:
    rule = written.rule
    costly = costly_names(rule.names, registry)
    if costly and not narrowed(rule, registry):
        message = f"rule '{rule.id}' reads {', '.join(costly)} of every event, at a request each"
        key = "when" if rule.when is not None else "on_change"
        yield warning(written, message, code="cost", key=key, hint="narrow it first: event.status == 'active' && …")


def _parameters(written: Written, registry: Registry) -> Iterator[Problem]:
    """A key of ``with`` that no named fact takes."""
    taken = {key for name in written.rule.names if name in registry.facts for key in registry.facts[name].takes}
    given = written.entries.get("with")
    for name in written.rule.parameters:
        key = given.key(name) if isinstance(given, Entries) else None
        if name not in taken and key is not None:
            takers = ", ".join(sorted(fact for fact, known in registry.facts.items() if name in known.takes))
            message = f"rule '{written.rule.id}': no fact that it names takes '{name}'"
            hint = f"it is a parameter of {takers}; remove it, or name one of these in the rule"
            document = written.entries.document
            yield document.problem(key.start, message, hint=hint, code="parameter", severity="warning")


def _other_endings(folder: Path) -> Iterator[Problem]:
    for file in (one for place in (folder, *tests_below(folder)) for one in walked(place, MISTAKEN)):
        if isinstance(file, Path):
            hint = f"files of rules and of their tests end in .yaml: rename it to {file.stem}.yaml"
            yield Problem(file=str(file), message="is not read", hint=hint, severity="warning", code="ending")


def _untested(loaded: Loaded, folder: Path) -> Iterator[Problem]:
    """Rules that no rule test can see. A test without ``rules`` sees all that are enabled."""
    folders = tests_below(folder)
    if not folders and loaded.written:
        yield Problem(
            file=str(folder),
            message=f"no rule has a test: there is no folder {TESTS} here",
            hint=f"write tests in {folder / TESTS}/*.yaml and run them with `campaign-worker test`",
            severity="warning",
            code="untested",
        )
    reached: set[RuleId] = set()
    for file in sorted(file for one in folders for file in one.rglob("*.yaml")):
        rules = _rules_of_tests(file)
        reached |= {one.rule.id for one in loaded.written if one.rule.enabled} if rules is None else rules
    missed = [written for written in loaded.written if folders and written.rule.id not in reached]
    if missed:
        first = missed[0].rule.id
        message = f"no rule test reaches rule '{first}'"
        if missed[1:]:
            message = f"no rule test reaches {len(missed)} rules: {few([one.rule.id for one in missed])}"
        hint = f"add one to a file in {folders[0]}, with `rules: [{first}]`"
        yield warning(missed[0], message, code="untested", hint=hint)


def _rules_of_tests(file: Path) -> set[RuleId] | None:
    """The rules that the tests of a file name; None if one of them sees all. What cannot be read names nothing."""
    try:
        text = file.read_bytes()[:FILE_BYTES_MAX].decode("utf-8-sig", errors="replace")
        value = compose(Document(file=str(file), text=text))
    except (OSError, InputErrors):
        return set()
    tests = value.get("tests") if isinstance(value, Entries) else None
    named: set[RuleId] = set()
    for test in tests.items if isinstance(tests, Items) else ():
        rules = test.get("rules") if isinstance(test, Entries) else None
        if not isinstance(rules, Items):
            return None
        named |= {RuleId(rule.text) for rule in rules.items if isinstance(rule, Scalar)}
    return named


# --- what a condition can be at all, told from its text: never true, always true, not together with another ---
# Each value that it names is given every answer that tells its parts apart: the literals it is compared with, a number
# just below and just above each, something else; where the document lists all values, these. What is not understood
# may be true or false. So a search finds whether any world makes the condition true, or false; where it takes too long,
# nothing is claimed.

TRIES_MAX = 1_000
APART = "\0"
"""Stands behind a name before what tells it from the same in another rule."""
Answer: TypeAlias = tuple[str, str | int | float | bool | None]
"""A kind and a value: Python takes 1, 1.0 and True for equal."""
_TRUE, _FALSE, _OTHER = ("bool", True), ("bool", False), ("other", None)
_MIRRORED: Mapping[str, str] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Claim:
    """A part that combines nothing: a value is among these (or none of them), or lies so to a number."""

    subject: str
    among: frozenset[Answer] = frozenset({_TRUE})
    outside: bool = False
    operator: str = ""
    bound: float = 0.0

    def truth(self, answer: Answer) -> bool | None:
        """What the part is if its value is this."""
        kind, value = answer
        if not self.operator:
            return (answer in self.among) is not self.outside
        return COMPARED[self.operator](value, self.bound) if kind == "number" else None


def constant_truth(tree: Node, names: Mapping[str, Type]) -> bool | None:
    """The truth of a condition that is the same whatever the facts say; None where it depends on them."""
    if not _reachable(tree, names, wanted=True):
        return False
    return None if _reachable(tree, names, wanted=False) else True


def exclude_each_other(first: Node, second: Node, names: Mapping[str, Type]) -> bool:
    """Whether the two can certainly not be true at once."""
    return not _reachable(replace(first, kind="and", children=(first, second)), names, wanted=True)


def fixed_values(tree: Node) -> Mapping[str, frozenset[Answer]]:
    """The values that a condition allows of what it compares in parts that must all be true. Where two conditions allow
    none in common they exclude each other, which is seen in no time: a folder of rules has very many pairs."""
    if tree.kind == "and":
        found: dict[str, frozenset[Answer]] = {}
        for child in tree.children:
            for subject, among in fixed_values(child).items():
                found[subject] = found.get(subject, among) & among
        return found
    claim = _claim(tree)
    if isinstance(claim, _Claim) and not claim.outside and not claim.operator:
        return {claim.subject: claim.among}
    return {}


def costly_names(names: frozenset[str], registry: Registry) -> tuple[str, ...]:
    """The facts among them that cost a request for each event."""
    return tuple(sorted(one for one in names if one in registry.facts and registry.facts[one].per_event_request))


def narrowed(rule: Rule, registry: Registry) -> bool:
    """Whether some events are spared that: the rest of the condition can be false before any such fact is read."""
    if not isinstance(rule.when, Expression):
        return False
    tree = rule.when.tree
    return _reachable(tree, {}, wanted=False, unknown=lambda part: bool(costly_names(names_of(part), registry)))


def _reachable(
    tree: Node, names: Mapping[str, Type], *, wanted: bool, unknown: Callable[[Node], bool] = lambda _part: False
) -> bool:
    return _Search(tree, names, wanted=wanted, unknown=unknown).from_world({})


class _Search:
    """One search for a world in which a condition is what is wanted. ``unknown``: parts that are never known."""

    def __init__(self, tree: Node, names: Mapping[str, Type], *, wanted: bool, unknown: Callable[[Node], bool]) -> None:
        self._tree, self._wanted, self._unknown = tree, wanted, unknown
        self._tries = 0
        self._claims: dict[int, _Claim | bool | None] = {}
        self.answers: dict[str, tuple[Answer, ...]] = {}
        self._note(tree)
        claims = [claim for claim in self._claims.values() if isinstance(claim, _Claim)]
        for subject in dict.fromkeys(claim.subject for claim in claims):
            self.answers[subject] = _answers([one for one in claims if one.subject == subject], names)

    def from_world(self, world: Mapping[str, Answer]) -> bool:
        """Whether the condition can be what is wanted, if what is known of the world is this."""
        truth = self._truth(self._tree, world)
        self._tries += 1
        if truth is not None or self._tries > TRIES_MAX:
            return truth is None or truth is self._wanted
        subject = next((one for one in self.answers if one not in world), None)
        if subject is None:
            return False
        return any(self.from_world({**world, subject: answer}) for answer in self.answers[subject])

    def _note(self, node: Node) -> None:
        if node.kind in ("and", "or", "not", "if"):
            for child in node.children:
                self._note(child)
        else:
            self._claims[id(node)] = None if self._unknown(node) else _claim(node)

    def _truth(self, node: Node, world: Mapping[str, Answer]) -> bool | None:
        """Three-valued; None: it is not known of this world."""
        if node.kind in ("and", "or"):
            decides = node.kind == "or"
            found = [self._truth(child, world) for child in node.children]
            return decides if decides in found else None if None in found else not decides
        if node.kind == "not":
            truth = self._truth(node.children[0], world)
            return None if truth is None else not truth
        if node.kind == "if":
            test, yes, no = (self._truth(child, world) for child in node.children)
            return None if test is None else yes if test else no
        claim = self._claims[id(node)]
        if not isinstance(claim, _Claim):
            return claim
        return claim.truth(world[claim.subject]) if claim.subject in world else None


def _answers(claims: list[_Claim], names: Mapping[str, Type]) -> tuple[Answer, ...]:
    """Everything that a value can be, as far as these parts can tell."""
    subject = claims[0].subject
    documented = _documented(subject, names)
    if documented is not None:
        return documented
    if not any(claim.operator or claim.among != frozenset({_TRUE}) for claim in claims):
        return _TRUE, _FALSE
    named = [answer for claim in claims if not claim.operator for answer in claim.among]
    bounds = [claim.bound for claim in claims if claim.operator]
    bounds += [float(value) for kind, value in named if kind == "number"]  # type: ignore[arg-type] # a number it is
    around = [("number", near) for one in bounds for near in (one, nextafter(one, -inf), nextafter(one, inf))]
    if subject.startswith("call size "):
        around = [one for one in around if one[1] >= 0] or [("number", 0.0)]
    others = () if any(claim.operator for claim in claims) else (_OTHER,)
    return tuple(dict.fromkeys((*named, *around, *others)))


def _claim(node: Node) -> _Claim | bool | None:
    """What a part claims; its truth where it is the same always."""
    if node.kind == "literal":
        return node.value if isinstance(node.value, bool) else None
    if node.kind != "compare":
        return _Claim(subject=meaning_of(node))
    left, right, operator = *node.children, node.text
    if operator == "in":
        if right.kind != "list" or any(one.kind != "literal" for one in right.children):
            return _Claim(subject=meaning_of(node))
        return _Claim(subject=meaning_of(left), among=frozenset(map(_answer, right.children)))  # type: ignore[arg-type]
    first, second = _answer(left), _answer(right)
    if first is not None and second is None:
        left, second, operator = right, first, _MIRRORED[operator]
        first = None
    if second is None:
        pair = f"{meaning_of(left)} {'==' if operator == '!=' else operator} {meaning_of(right)}"
        return _Claim(subject=pair, outside=operator == "!=")
    if operator in ("==", "!="):
        claim = _Claim(subject=meaning_of(left), among=frozenset({second}), outside=operator == "!=")
    elif second[0] == "number" and isinstance(second[1], int | float):
        claim = _Claim(subject=meaning_of(left), operator=operator, bound=float(second[1]))
    else:
        return _Claim(subject=meaning_of(node))
    return claim if first is None else claim.truth(first)


def _answer(node: Node) -> Answer | None:
    """What is written out: a literal, or as a number of seconds a duration or a time."""
    if node.kind == "literal":
        return "number" if node.literal in ("int", "double") else node.literal, node.value
    if node.kind != "call" or node.method or len(node.children) != 1 or node.children[0].literal != "string":
        return None
    text = str(node.children[0].value)
    if node.text == "duration":
        return "number", duration_of(text).total_seconds()
    moment = parse_time(text) if node.text == "timestamp" else None
    return None if moment is None else ("number", moment.timestamp())


def _documented(subject: str, names: Mapping[str, Type]) -> tuple[Answer, ...] | None:
    """All values that a field can have; None where the document does not say."""
    name, *fields = subject.split(".")
    found: Type | None = names.get(name.partition(APART)[0])
    for part in fields:
        found = (found.fields or {}).get(part) if found is not None else None
    if found is not None and found.kind == "bool":
        return _TRUE, _FALSE
    if found is None or found.open_set or found.nullable or not found.values:
        return None
    return tuple(("string", value) for value in found.values)
