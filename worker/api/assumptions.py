"""What the service's document leaves open and the worker has to assume: one register of named keys with defaults.

A key that the operator writes into the config is a fact he vouches for; a default is a guess, and in live mode against
the real service no write may lean on one. So each key says where the document is silent, what depends on it, and
whether reading alone can confirm it: `check`, `probe`, `run` and the docs all speak from this table.

Nothing here reads the config file: it judges a mapping, and the caller adds file and line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

import jmespath
from jmespath.exceptions import JMESPathError

from worker.model.facts import Json

# What the value of an assumption may look like: one word per shape, and the objection to a value that does not fit.
#
# Apart from the register so that a new key needs a row there and nothing else. It never changes a value.

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


# The rows of what is assumed of the service: for each key its default, where the document is silent, what leans on it.
#
# A new open point needs a row here and nothing else; how values are judged and vouched for is `worker.api.assumptions`.


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One open point. ``origin``: where the document is silent. ``needed_by``: facts, actions and steps leaning on it.

    ``seen_by``: ``read`` where a read-only look can confirm or refute it, ``write`` where only a write would show.
    ``instead``: a key that, when written, settles this one too, because it is used in its place.
    """

    key: str
    shape: Shape
    default: Json
    origin: str
    about: str
    needed_by: tuple[str, ...]
    seen_by: Literal["read", "write"]
    instead: str | None = None


def _query_of(name: str, *actions: str) -> Assumption:
    return Assumption(
        key=f"{name}.query",
        shape="query",
        default={name: "{value}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of the PUT; {value} stands for the value wanted",
        needed_by=actions,
        seen_by="write",
    )


def _semantics_of(name: str, *actions: str) -> Assumption:
    return Assumption(
        key=f"{name}.semantics",
        shape="semantics",
        default="set",
        origin="section 3.2: 'user toggles', to the other value",
        about="set: the value sent is the value afterwards; toggle: every write flips it",
        needed_by=actions,
        seen_by="write",
    )


TABLE: tuple[Assumption, ...] = (
    Assumption(
        key="events.page_parameter",
        shape="name",
        default="page",
        origin="section 4.6, gap 2",
        about="query parameter that selects a page of the list of events, or of the campaigns of an event",
        needed_by=("event", "campaigns"),
        seen_by="read",
    ),
    Assumption(
        key="auth.refresh",
        shape="refresh",
        default=None,
        origin="section 5, point 11",
        about="null: sign in again; else {path, body}, with {refresh_token} in the body",
        needed_by=("sign-in",),
        seen_by="read",
    ),
    Assumption(
        key="auth.denied",
        shape="denied",
        default={
            "status": [401, 403],
            "codes": ["error.auth.missing_token", "error.auth.not_authorized", "error.unauthorized"],
        },
        origin="section 7, gaps 1 and 2",
        about="answers that mean: our credentials were refused and nothing was done",
        needed_by=("every write",),
        seen_by="read",
    ),
    _query_of("client_campaign_status", "pause", "run"),
    _query_of("campaign_optimisation_status", "optimisation"),
    _query_of("ad_campaign_optimisation_status", "ad_optimisation"),
    _semantics_of("client_campaign_status", "pause", "run"),
    _semantics_of("campaign_optimisation_status", "optimisation"),
    _semantics_of("ad_campaign_optimisation_status", "ad_optimisation"),
    Assumption(
        key="frontend_status.query",
        shape="query_or_null",
        default={"frontend_status": "{value}"},
        origin="section 4.2: input not specified",
        about="query parameters of the PUT setup_frontend_status; unused where frontend_status.body is written",
        needed_by=("frontend_status",),
        seen_by="write",
        instead="frontend_status.body",
    ),
    Assumption(
        key="frontend_status.body",
        shape="body",
        default=None,
        origin="section 4.2: input not specified",
        about="JSON body of the PUT setup_frontend_status, in place of its query",
        needed_by=("frontend_status",),
        seen_by="write",
    ),
    Assumption(
        key="last_updated_on_fe.query",
        shape="query_or_null",
        default={"status": "{value}"},
        origin="section 4.2: input not specified",
        about="query parameters of the PUT last_updated_on_fe; unused where last_updated_on_fe.body is written",
        needed_by=("frontend_status",),
        seen_by="write",
        instead="last_updated_on_fe.body",
    ),
    Assumption(
        key="last_updated_on_fe.body",
        shape="body",
        default=None,
        origin="section 4.2: input not specified",
        about="JSON body of the PUT last_updated_on_fe, in place of its query",
        needed_by=("frontend_status",),
        seen_by="write",
    ),
    Assumption(
        key="task.succeeded",
        shape="words",
        default=["SUCCESS"],
        origin="section 3.2, open points",
        about="values of data.state that end a task well; any unlisted value is 'still running'",
        needed_by=(
            "pause",
            "run",
        ),
        seen_by="write",
    ),
    Assumption(
        key="task.failed",
        shape="words",
        default=["FAILURE"],
        origin="section 3.2, open points",
        about="values of data.state that end a task badly",
        needed_by=(
            "pause",
            "run",
        ),
        seen_by="write",
    ),
    Assumption(
        key="setup.state_field",
        shape="name",
        default="state",
        origin="section 2.6: fields of the setup record not shown",
        about="field of the setup record that says whether it is a draft",
        needed_by=("setup", "create_draft", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.draft",
        shape="words",
        default=["DRAFT"],
        origin="section 2.6: fields of the setup record not shown",
        about="values of that field that mean DRAFT",
        needed_by=("setup", "create_draft", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.published",
        shape="words",
        default=["PUBLISHED"],
        origin="section 2.6: fields of the setup record not shown",
        about="values of that field that mean PUBLISHED",
        needed_by=("setup", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.after_publish",
        shape="after_publish",
        default="readable",
        origin="section 4.5: 'draft setup, or 404 when no draft exists'",
        about="readable: a published setup can still be read; absent: it answers 404, and its campaigns tell",
        needed_by=("setup", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="boost.body",
        shape="body",
        default=None,
        origin="section 4.5: input not specified",
        about="JSON body of the POST boost; null for none",
        needed_by=("boost",),
        seen_by="write",
    ),
    Assumption(
        key="create_campaign.query",
        shape="query",
        default={"eid": "{eid}", "tc": "{tc}", "tc_run_id": "{tc_run_id}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of POST /campaigns/",
        needed_by=("create_campaign",),
        seen_by="write",
    ),
    Assumption(
        key="campaigns.items",
        shape="path",
        default="@",
        origin="section 4.5: answer not specified",
        about="JMESPath to the list of campaigns; each item has tc and tc_run_id",
        needed_by=("campaigns", "setup"),
        seen_by="read",
    ),
    Assumption(
        key="adplatform.connected",
        shape="path",
        default="connected",
        origin="section 4.5: answer not specified",
        about="JMESPath to whether the ad platform is connected",
        needed_by=("adplatform",),
        seen_by="read",
    ),
    Assumption(
        key="lookout_benchmark.at",
        shape="path",
        default="benchmark.prediction || prediction || @",
        origin="section 4.2: answer not specified",
        about="JMESPath to the record with the numbers value and benchmark",
        needed_by=("lookout_prediction_benchmark",),
        seen_by="read",
    ),
    Assumption(
        key="lookout_benchmark.unit",
        shape="unit",
        default="auto",
        origin="section 2.3: 'as a fraction or as a percent; clients auto-detect'",
        about="auto: both numbers up to 1 are fractions, one from 2 on makes percents; else fraction or percent",
        needed_by=("lookout_prediction_benchmark",),
        seen_by="read",
    ),
)

SETTLE = "safety.settle"
"""Not a key of the register, but vouched for in the same way: the latest that a write may still take effect."""

ASSUMPTIONS: Mapping[str, Assumption] = MappingProxyType({row.key: row for row in TABLE})

_APART: tuple[tuple[str, str], ...] = (("task.succeeded", "task.failed"), ("setup.draft", "setup.published"))
"""Lists that must have no word in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What is wrong with one key of the config's ``assumptions``; the caller knows file and line."""

    key: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    """The values in force, and the keys that the operator vouches for by having written them."""

    values: Mapping[str, Json] = field(
        default_factory=lambda: MappingProxyType({row.key: row.default for row in TABLE})
    )
    vouched: frozenset[str] = frozenset()

    def text(self, key: str) -> str:
        """The value of a key whose shape is a word."""
        return str(self.values[key])

    def words(self, key: str) -> tuple[str, ...]:
        """The value of a key whose shape is a list of words."""
        found = self.values[key]
        return tuple(str(word) for word in found) if isinstance(found, list) else ()

    def template(self, key: str) -> Mapping[str, str] | None:
        """The value of a key whose shape is a query template; None where a body is used instead."""
        found = self.values[key]
        return {name: str(text) for name, text in found.items()} if isinstance(found, dict) else None

    def denied_statuses(self) -> frozenset[int]:
        """Statuses that mean: not authorised, nothing done."""
        return frozenset(status for status in self._denied("status") if isinstance(status, int))

    def denied_codes(self) -> frozenset[str]:
        """Error codes that mean the same, wherever in the body they stand."""
        return frozenset(code for code in self._denied("codes") if isinstance(code, str))

    def toggles(self, field_name: str) -> bool:
        """Whether a write of this field flips it instead of setting it."""
        return self.flips(f"{field_name}.semantics")

    def flips(self, key: str) -> bool:
        """The same, by the key that says so."""
        return self.values[key] == "toggle"

    def unvouched(self, keys: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the keys that nobody vouched for."""
        return tuple(key for key in keys if key not in self.vouched)

    def _denied(self, part: str) -> list[Json]:
        denied = self.values["auth.denied"]
        found = denied.get(part) if isinstance(denied, dict) else None
        return found if isinstance(found, list) else []


def assumptions_from(given: Mapping[str, Json]) -> tuple[Assumptions, tuple[Objection, ...]]:
    """The assumptions that a config's mapping makes, and everything that is wrong with it. Wrong keys keep defaults."""
    wrong: list[Objection] = []
    values = dict(Assumptions().values)
    vouched: set[str] = set()
    for key, value in given.items():
        row = ASSUMPTIONS.get(key)
        said = _unknown(key) if row is None else _objection(row, value)
        if said is not None or row is None:
            wrong.extend([said] if said is not None else [])
            continue
        values[key] = _whole(row, value)
        vouched.add(key)
    for row in TABLE:
        if row.instead in vouched and values[row.instead] is not None and row.key not in vouched:
            values[row.key] = None
            vouched.add(row.key)
    wrong.extend(_together(values))
    return Assumptions(values=MappingProxyType(values), vouched=frozenset(vouched)), tuple(wrong)


def vouched_keys(assumptions: Assumptions, written_in_safety: Mapping[str, Json]) -> frozenset[str]:
    """All that the operator vouches for, ``safety.settle`` included where the config's ``safety`` writes it."""
    return assumptions.vouched | ({SETTLE} if "settle" in written_in_safety else set())


def _unknown(key: str) -> Objection:
    close = get_close_matches(key, ASSUMPTIONS, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(ASSUMPTIONS)
    return Objection(key=key, message=f"there is no assumption {key!r}", hint=hint)


def _objection(row: Assumption, value: Json) -> Objection | None:
    said = objection(row.shape, value)
    return None if said is None else Objection(key=row.key, message=f"{row.key}: {said}", hint=row.about)


def _whole(row: Assumption, value: Json) -> Json:
    """A mapping that leaves out a part keeps that part's default."""
    if row.shape == "denied" and isinstance(value, dict) and isinstance(row.default, dict):
        return {**row.default, **value}
    return value


def _together(values: Mapping[str, Json]) -> list[Objection]:
    """What is wrong with two keys that each are right."""
    wrong: list[Objection] = []
    found = Assumptions(values=values)
    for one, other in _APART:
        if both := set(found.words(one)) & set(found.words(other)):
            message = f"{', '.join(sorted(both))} stands in {one} and in {other}"
            wrong.append(Objection(key=one, message=message, hint="one word cannot mean both"))
    for name in ("client_campaign_status", "campaign_optimisation_status", "ad_campaign_optimisation_status"):
        if not found.toggles(name) and not _carries_value(found.values[f"{name}.query"]):
            key = f"{name}.query"
            hint = f"write {{value}} where the value goes, or {name}.semantics: toggle"
            wrong.append(Objection(key=key, message=f"{key}: does not carry {{value}}", hint=hint))
    for name in ("frontend_status", "last_updated_on_fe"):
        if not _carries_value(found.values[f"{name}.query"]) and not _carries_value(found.values[f"{name}.body"]):
            message = f"{name}.query: neither it nor {name}.body carries {{value}}"
            wrong.append(Objection(key=f"{name}.query", message=message, hint="write {value} where the value goes"))
    return wrong


def _carries_value(template: Json) -> bool:
    match template:
        case str():
            return "{value}" in template
        case dict():
            return any(_carries_value(part) for part in template.values())
        case list():
            return any(_carries_value(part) for part in template)
        case _:
            return False
