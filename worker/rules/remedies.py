"""What `check` says of a mistake in a condition, and what to do about it: the words, apart from the finding of it.

Each function gives what is wrong and the remedy. They know names, values and types, and nothing of where in a file
something stands.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime

from worker.model.facts import CLUSTER_FIELDS, EVENT_FIELDS, PARTNER_FIELDS, SETUP_FIELDS, Field, parse_time
from worker.rules.cel import WRITE, Node, path_of
from worker.rules.functions import FUNCTIONS, MACRO_ABOUT, Function
from worker.rules.registry import BUILT_IN, NUMERIC, Kind, Type
from worker.rules.spelling import meant, nearest, parse_duration

_OF_TIME = re.compile(r"day|hour|week|until|left|start|begin")
_RECORDS: Mapping[str, Mapping[str, Field]] = {"event": EVENT_FIELDS, "partner": PARTNER_FIELDS, "setup": SETUP_FIELDS}
_OF_OTHER_LANGUAGES: Mapping[str, str] = {
    "len": "size(x)",
    "length": "size(x)",
    "count": "size(x)",
    "today": "now",
    "any": "list.exists(x, …)",
    "some": "list.exists(x, …)",
    "every": "list.all(x, …)",
    "includes": "x.contains(…), or … in list",
    "isEmpty": "size(x) == 0",
    "isnull": "x == null",
    "not": "!(…)",
    "days": "duration('7d')",
    "hours": "duration('2h')",
    **dict.fromkeys(("was", "before", "lag", "yesterday", "then", "history"), "ago(event.capacity, '24h')"),
    **dict.fromkeys(("change", "diff", "difference", "trend", "gained", "increase"), "delta(statistics.tickets, '3d')"),
    **dict.fromkeys(("average", "mean"), "avg(list)"),
    **dict.fromkeys(("total", "add"), "sum(list)"),
    **dict.fromkeys(("minimum", "least", "lowest"), "min(list)"),
    **dict.fromkeys(("maximum", "greatest", "highest"), "max(list)"),
    **dict.fromkeys(("absolute", "magnitude"), "abs(x)"),
    **dict.fromkeys(("floor", "trunc"), "double(int(x))"),
    **dict.fromkeys(("defined", "is_known", "isKnown", "exists_field", "isset"), "known(statistics.tickets)"),
}
"""Functions that people know from elsewhere, and how the same is written here."""
_OF_ITEMS = frozenset({"item", "it", "this", "self", "campaign", "cluster", "row"})
"""What other tools call the item that a write is for."""
_EXACT = "texts are compared letter by letter: list the spellings, x in ['a', 'A'], or use x.matches('(?i)…')"
ONE_KIND = "the two sides must be of one kind; remove one of them, or name a field of it"
_DAYS = (
    "write now.getHours('Europe/Berlin'), or getDayOfWeek, which is 0 on Sundays; or give the rule `at` or `between`"
)
_OF_TEXTS = "of a text only contains, startsWith, endsWith, matches and size can be asked"
_APART = "what lies between two times is a duration: event.start_date_time - now < duration('3d')"
_NOT_HERE: Mapping[str, str] = {
    **dict.fromkeys(("lower", "upper", "lowerAscii", "upperAscii", "toLowerCase", "toUpperCase"), _EXACT),
    **dict.fromkeys(("trim", "split", "replace", "substring", "slice"), _OF_TEXTS),
    **dict.fromkeys(("weekday", "dayofweek", "getDay", "hour", "hours_of_day"), _DAYS),
    **dict.fromkeys(("date", "getDays", "days_until", "daysUntil", "days_since", "days_between", "datediff"), _APART),
}
"""Functions that people know from elsewhere, and how one goes about it here."""


def unknown_name(name: str, known: Mapping[str, object]) -> tuple[str, str]:
    """A name that is no fact."""
    values = _values_like(name)
    if values:
        meant_fields = " or of ".join(one.split(" == ")[0] for one in values)
        message = f"unknown fact '{name}'; a text stands in quotes, as in {' or '.join(values)}"
        return message, f"'{name}' could be a value of {meant_fields}: write the one that is meant"
    fields = [f"{record}.{name}" for record, documented in _RECORDS.items() if name in documented]
    if fields:
        return f"unknown fact '{name}'; did you mean {' or '.join(f'{one!r}' for one in fields)}?", f"write {fields[0]}"
    if name in _OF_ITEMS:
        return f"unknown fact '{name}'; in an action with `each` the item is called 'each'", "write each, as in each.tc"
    if name.endswith("_by") or name in ("actor", "author", "who", "changed_by"):
        return f"unknown fact '{name}'", "write set_by.client_campaign_status == 'external': who set the value it has"
    if name.lower() in ("none", "nil", "null", "true", "false"):
        return f"unknown fact '{name}'", "write null, true or false, in small letters"
    near = nearest(name, known)
    hint = "a text stands in quotes; a name of your own stands under `define`, a fact under `facts` in the config"
    return f"unknown fact '{name}'{meant(name, known)}", f"write {near}" if near else hint


def unknown_field(base: str, name: str, record: Type) -> tuple[str, str]:
    """A field that the document does not name."""
    known = record.fields or {}
    near = nearest(name, known)
    hint = f"a field that the API document does not name is written {base}['{name}']"
    if name in BUILT_IN and not record.only:
        return f"{base} has no field '{name}'", f"write {name}: it is a fact of its own"
    within = [one for one, part in known.items() if name in (part.fields or {})]
    if record.only and base in ("previous", "set_by", WRITE):
        hint = f"it has {', '.join(one for one in known if not one.endswith('_rules'))}"
        hint = f"write {base}.{within[0]}.{name}" if within else hint
    elif record.only and (near is None or name in {**EVENT_FIELDS, **SETUP_FIELDS, **CLUSTER_FIELDS}):
        hint = f"write by: [{', '.join((*known, name))}] in on_change"
        if "tc" in known and name in CLUSTER_FIELDS:  # one more in `by`, and each change of it would be an item added
            hint = f"write clusters.filter(c, c.tc == {base}.tc)[0].{name}: what it is now"
        return f"{base} has no '{name}' here: a change keeps what is compared", hint
    if near is None and base == "event" and _OF_TIME.search(name):
        hint = f"the time until an event is event.start_date_time - now < duration('7d'); {hint}"
    others = [f"{one}.{name}" for one, fields in _RECORDS.items() if name in fields and base in _RECORDS]
    better = [f"{base}.{near}"] if near else others
    message = f"{base} has no documented field '{name}'{meant(name, known)}"
    return message, f"write {' or '.join(better)}; {hint}" if better else hint


def without_fields(base: str, name: str, found: Type) -> str:
    """What to write where a field is asked of what has none."""
    if found.kind == "list" and name in ("size", "length", "count"):
        return f"write size({base})"
    if found.kind == "list":
        known = found.items.fields or {} if found.items is not None else {}
        number = name in known and known[name].kind in NUMERIC
        summed = f", or sum({base}.map(x, x.{name}))" if number else ""
        return f"look at its items: {base}.exists(x, x.{name} == …){summed}"
    if found.kind == "duration":
        return _APART
    getter = nearest(f"get{name}", FUNCTIONS) if found.kind == "timestamp" else None
    if getter == "getDate":
        return f"write {base}.getDate('Europe/Berlin') for the day of the month; {_APART}"
    return f"write {base}.{getter}('Europe/Berlin')" if getter else f"write {base} alone"


def unknown_function(node: Node, target: Type) -> tuple[str, str]:
    """A function that there is not. ``target``: what a method is asked of."""
    name = node.text
    if target.kind in ("timestamp", "duration") and name not in _NOT_HERE:
        return f"unknown function '{name}'", without_fields(spelled(node.children[0]), name, target)
    if name in _NOT_HERE or name in _OF_OTHER_LANGUAGES:
        return f"unknown function '{name}'", _NOT_HERE.get(name) or f"write {_OF_OTHER_LANGUAGES[name]}"
    if name in MACRO_ABOUT:
        return f"'{name}' is not called so", macro_usage(name)
    near = nearest(name, {**FUNCTIONS, **MACRO_ABOUT})
    if near is None:
        return f"unknown function '{name}'", f"there are {', '.join(sorted({**FUNCTIONS, **MACRO_ABOUT}))}"
    hint = f"write {usage(FUNCTIONS[near])}" if near in FUNCTIONS else macro_usage(near)
    return f"unknown function '{name}'; did you mean '{near}'?", hint


def other_value(field: str, known: Type, value: str) -> tuple[str, str] | None:
    """A value that a field does not have by the document. None where nothing speaks against it."""
    near = nearest(value, known.values)
    elsewhere = [one for one in _fields_with(value) if one != field]
    of_others = f"'{value}' is a value of {' and of '.join(elsewhere)}" if elsewhere else ""
    if not known.open_set:
        tail = f"; did you mean '{near}'?" if near else ""
        allowed = ", ".join(known.values)
        hint = of_others or (f"write '{near}'" if near else f"write one of {allowed}")
        return f"{field} is never '{value}'{tail} (it is one of {allowed})", hint
    if near is None and not elsewhere:
        return None
    tail = f"; did you mean '{near}'?" if near else f" (known are {', '.join(known.values)})"
    hint = of_others or "other values than the documented ones are possible"
    return f"{field} is not known to be '{value}'{tail}", hint


def presence(path: str) -> tuple[str, str]:
    """A test of whether a documented field is there."""
    message = f"{path} is documented: where it is missing it is unknown, and this would take it for false"
    return message, "leave the test out and compare the field with a value; null is written null"


def remedy(types: tuple[Type, ...]) -> str:
    """What to write where two types do not go together."""
    kinds = {found.kind for found in types}
    if kinds == {"timestamp", "string"}:
        return "write timestamp('2026-01-31T00:00:00Z')"
    if "duration" in kinds and kinds & {"string", "int", "double"}:
        return "write duration('7d')"
    if "timestamp" in kinds and kinds & {"int", "double"}:
        return "compare times with a duration, as in event.start_date_time - now < duration('7d')"
    if kinds & NUMERIC and "string" in kinds:
        return "write the number without quotes"
    if "list" in kinds and kinds & {"string", "double"}:
        return "whether a list has a value is written with in: 'a' in list"
    if kinds == {"bool", "string"}:
        return "write true or false without quotes"
    return ONE_KIND


def combined(node: Node, types: tuple[Type, Type]) -> str:
    """The same for the two sides of an arithmetic operator."""
    if node.text == "+" and {types[0].kind, types[1].kind} & NUMERIC and "string" in (types[0].kind, types[1].kind):
        return f"to join them as texts, write {as_kind(node, types, 'string')}"
    if "timestamp" in (types[0].kind, types[1].kind) and (written := _duration_among(*node.children)):
        return f"write duration('{written}')"
    if "duration" in (types[0].kind, types[1].kind) and node.text in ("*", "/", "%"):
        return f"a duration is compared with another: {_APART.partition(': ')[2]}"
    return remedy(types)


def as_kind(node: Node, types: tuple[Type, Type], kind: Kind) -> str:
    """Both sides of an operator, each made one of this kind by the function of its name."""
    sides = (
        spelled(one) if found.kind == kind else f"{kind}({spelled(one)})"
        for one, found in zip(node.children, types, strict=True)
    )
    return f" {node.text} ".join(sides)


def remedy_of(node: Node, types: tuple[Type, Type]) -> str:
    """The same for the two sides of a comparison: where one is a text and the other a number, the one that somebody
    wrote takes the kind of the other; of three in a row the one between stands twice."""
    left, right = node.children
    if left.kind == "compare" and left.text in ("<", "<=", ">", ">="):
        first, between = map(spelled, left.children)
        return f"write {first} {left.text} {between} && {between} {node.text} {spelled(right)}"
    kinds = {found.kind for found in types}
    if "duration" in kinds and (written := _duration_among(left, right)):
        return f"write duration('{written}')"
    if kinds == {"timestamp", "string"}:
        return _moment_among(left, right)
    for one in (left, right):
        if one.kind == "call" and one.text.startswith("get") and kinds == {"int", "string"}:
            return f"write a number: it is {FUNCTIONS[one.text].about}"
    if "string" not in kinds or not kinds & NUMERIC or "string" in (left.literal, right.literal):
        return remedy(types)
    if "literal" not in (left.kind, right.kind):
        return ONE_KIND
    sides = (f"'{one.text}'" if one.kind == "literal" else spelled(one) for one in (left, right))
    return f"write the text in quotes: {f' {node.text} '.join(sides)}"


def _duration_among(left: Node, right: Node) -> str:
    """The text that spells a duration, where one of the two does."""
    for one in (left, right):
        with suppress(ValueError):
            if one.literal == "string" and parse_duration(str(one.value)):
                return str(one.value)
    return ""


def _moment_among(left: Node, right: Node) -> str:
    """The time that one of the two spells, as a condition has it."""
    text = next((str(one.value) for one in (left, right) if one.literal == "string"), "")
    if re.fullmatch(r"\d\d?(:\d\d){1,2}", text):
        return f"an hour of the day is compared as in now.getHours('Europe/Berlin') >= {int(text.partition(':')[0])}"
    moment = parse_time(text) or datetime(2026, 1, 31, tzinfo=UTC)
    return f"write timestamp('{moment:%Y-%m-%dT%H:%M:%SZ}')"


def remedy_in(left: Type, items: Type) -> str:
    """What to write where a list holds nothing of the kind that is looked for."""
    if left.kind == "string" and items.kind in NUMERIC:
        return "write the values of the list in quotes"
    if items.kind == "object":
        return f"look at its items: list.exists(x, x.{next(iter(items.fields or {}), 'name')} == …)"
    return remedy((left, items))


def compared(node: Node, found: Type) -> str:
    """How a value becomes a condition."""
    value = f"'{found.values[0]}'" if found.values else "…"
    operator = ">" if found.kind in NUMERIC else "<" if found.kind in ("timestamp", "duration") else "=="
    return f"compare it with something, as in {spelled(node)} {operator} {value}"


def spelled(node: Node) -> str:
    """A part of a condition, in a message: as it is written, but for what is computed in it."""
    path = path_of(node)
    if path is not None:
        return path.text
    parts = [spelled(child) for child in node.children]
    match node.kind:
        case "literal":
            return repr(node.value) if node.literal == "string" else node.text
        case "select":
            return f"{parts[0]}.{node.text}"
        case "index":
            return f"{parts[0]}[{parts[1]}]"
        case "call" if node.method:
            return f"{parts[0]}.{node.text}({', '.join(parts[1:])})"
        case "call":
            return f"{node.text}({', '.join(parts)})"
        case _:
            return "…"


def pair(node: Node, types: tuple[Type, Type]) -> str:
    """Both sides of an operator, with what they are."""
    left, right = (
        f"{path.text} ({found.words})" if (path := path_of(child)) is not None else found.words
        for child, found in zip(node.children, types, strict=True)
    )
    return f"{left} and {right}"


def taken(function: Function, argument: Node, found: Type, wanted: str) -> str:
    """What a function takes, where it is given something else."""
    if (function.name, found.kind) == ("contains", "list"):
        return "write x in list"
    in_a_time = "; how much a number has changed in a time is delta(statistics.tickets, '3d')"
    return f"it takes {wanted}{in_a_time if function.many and argument.literal == 'string' else ''}"


def usage(function: Function) -> str:
    """How a function is written."""
    takes = function.takes[: len(function.takes) - function.optional]
    arguments = ["text" if wanted == frozenset({"string"}) else "value" for wanted in takes]
    if function.many:
        return f"{function.name}(list), or {function.name}(a, b)"
    if function.plain:
        return f"{function.name}({', '.join(arguments)})"
    return f"{arguments[0]}.{function.name}({', '.join(arguments[1:])})"


def macro_usage(name: str) -> str:
    """How a macro is written."""
    return f"{name}: {MACRO_ABOUT[name]}"


def _values_like(name: str) -> list[str]:
    """Comparisons that somebody could have meant who wrote a documented value without quotes."""
    near = {field: nearest(name, known.values) or "" for field, known in EVENT_FIELDS.items()}
    return [
        f"event.{field} == '{value}'"
        for field, value in near.items()
        if value.lower() == name.lower() or (value and len(name) > 4 and name.isupper() and value[0].upper() == name[0])
    ]


def _fields_with(value: str) -> Iterator[str]:
    """The documented fields that have this very value."""
    for record, documented in _RECORDS.items():
        yield from (f"{record}.{name}" for name, field in documented.items() if value in field.values)
