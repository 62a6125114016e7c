"""What the value of an assumption may look like: one word per shape, and the objection to a value that does not fit.

Apart from the register so that a new key needs a row there and nothing else. It never changes a value.
"""

import re
from typing import Literal

import jmespath
from jmespath.exceptions import JMESPathError

from worker.model.facts import Json

Shape = Literal[
    "name",
    "words",
    "query",
    "query_or_null",
    "body",
    "semantics",
    "after_publish",
    "unit",
    "path",
    "refresh",
    "denied",
]

PLACEHOLDERS = frozenset({"value", "eid", "tc", "tc_run_id", "refresh_token"})
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_AMBIGUOUS = frozenset({408, 425, 429})
_CHOICES = {
    "semantics": ("set", "toggle"),
    "after_publish": ("readable", "absent"),
    "unit": ("auto", "fraction", "percent"),
}


def objection(shape: Shape, value: Json) -> str | None:
    """Why the value does not have this shape; None where it has."""
    match shape:
        case "name":
            return None if isinstance(value, str) and value.strip() else "a name is wanted"
        case "words":
            return None if _are_words(value) else "a list of words is wanted, as [SUCCESS, DONE]"
        case "semantics" | "after_publish" | "unit":
            choices = _CHOICES[shape]
            return None if value in choices else f"{' or '.join(choices)} is wanted"
        case "path":
            return path_objection(value)
        case "query":
            return _query_objection(value)
        case "query_or_null":
            return None if value is None else _query_objection(value)
        case "body":
            return placeholder_objection(value)
        case "refresh":
            return None if value is None else _refresh_objection(value)
        case "denied":
            return _denied_objection(value)


def path_objection(value: Json) -> str | None:
    """Why this is no JMESPath expression."""
    if not isinstance(value, str) or not value.strip():
        return "a JMESPath expression is wanted"
    try:
        jmespath.compile(value)
    except (JMESPathError, RecursionError) as error:
        return f"not a JMESPath expression: {str(error).splitlines()[0]}"
    return None


def placeholder_objection(value: Json) -> str | None:
    """The first placeholder anywhere in the value that nothing would fill in."""
    match value:
        case str():
            unknown = [name for name in _PLACEHOLDER.findall(value) if name not in PLACEHOLDERS]
            return f"nothing fills in {{{unknown[0]}}}" if unknown else None
        case dict():
            return next((said for part in value.values() if (said := placeholder_objection(part))), None)
        case list():
            return next((said for part in value if (said := placeholder_objection(part))), None)
        case _:
            return None


def _are_words(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) and word for word in value)


def _query_objection(value: Json) -> str | None:
    fits = isinstance(value, dict) and all(isinstance(text, str) for text in value.values())
    return placeholder_objection(value) if fits else "a mapping of parameter to text is wanted, as {status: '{value}'}"


def _refresh_objection(value: Json) -> str | None:
    if not isinstance(value, dict) or set(value) != {"path", "body"}:
        return "null or {path, body} is wanted"
    path, body = value["path"], value["body"]
    if not isinstance(path, str) or not path.startswith("/"):
        return "path begins with /"
    return placeholder_objection(body) if isinstance(body, dict) else "body is a mapping with {refresh_token} in it"


def _denied_objection(value: Json) -> str | None:
    if not isinstance(value, dict) or not set(value) <= {"status", "codes"}:
        return "{status: [401, 403], codes: [...]} is wanted"
    statuses, codes = value.get("status", []), value.get("codes", [])
    if not isinstance(statuses, list) or not all(_is_denial(status) for status in statuses):
        return "status is a list of statuses from 400 to 499, without 408, 425 and 429, which may hide an effect"
    if not isinstance(codes, list) or not all(isinstance(code, str) and code for code in codes):
        return "codes is a list of error codes"
    return None


def _is_denial(status: Json) -> bool:
    whole = isinstance(status, int) and not isinstance(status, bool)
    return whole and isinstance(status, int) and 400 <= status <= 499 and status not in _AMBIGUOUS
