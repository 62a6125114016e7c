"""What the service's document leaves open and the worker has to assume: one register of named keys with defaults.

A key that the operator writes into the config is a fact; a default is a guess, and in live mode against the real
service no write may depend on one. So each key says where the document is silent and what depends on it: `check`,
`probe`, `run` and the docs all speak from this table. A new open point needs a
row here and nothing else.

Nothing here reads the config file: it judges a mapping, and the caller adds file and line.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Annotated, Any, Literal

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.functions import Functions
from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError

from worker.api.answers import strings_in
from worker.model.facts import Json, parts_of

Name = Annotated[str, Field(pattern=r"\S")]
Shape = Literal["name", "words", "query", "query_or_null", "body", "path", "refresh", "denied"]

SWITCHES = ("client_campaign_status", "campaign_optimisation_status", "ad_campaign_optimisation_status")
"""Fields of an event with two values, each with a PUT of its name."""
_FILLS = {"auth.refresh": "{refresh_token}", "boost.body": "{eid}", "create_campaign.query": "{eid} {tc} {tc_run_id}"}
"""What is filled in, in the texts of a key; in those of any other the value wanted and the event."""
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
AMBIGUOUS = frozenset({408, 409, 425, 429})
"""Statuses of the 400s that may hide an effect, whatever anybody confirms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One open point. ``origin``: where the document is silent. ``needed_by``: facts and steps leaning on it; the
    actions that do name it in their own table.

    ``shape``: what a value must look like, or the words that it may be.
    ``instead``: a key that, when written, settles this one too, because it is used in its place.
    """

    key: str
    shape: Shape | tuple[str, ...]
    default: Json
    origin: str
    about: str
    needed_by: tuple[str, ...] = ()
    instead: str | None = None


def _query_of(name: str) -> Assumption:
    return Assumption(
        key=f"{name}.query",
        shape="query",
        default={name: "{value}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of the PUT; {value} stands for the value wanted",
    )


def _semantics_of(name: str) -> Assumption:
    return Assumption(
        key=f"{name}.semantics",
        shape=("set", "toggle"),
        default="set",
        origin="section 3.2: 'user toggles', to the other value",
        about="set: the value sent is the value afterwards; toggle: every write flips it",
    )


def _query_or_body(name: str, put: str, query: dict[str, Json]) -> tuple[Assumption, Assumption]:
    """How one of the two writes of frontend_status carries its value: in the query, or instead in a body."""
    origin = "section 4.2: input not specified"
    return (
        Assumption(
            key=f"{name}.query",
            shape="query_or_null",
            default=query,
            origin=origin,
            about=f"query parameters of the PUT {put}; none where only {name}.body is written",
            instead=f"{name}.body",
        ),
        Assumption(
            key=f"{name}.body",
            shape="body",
            default=None,
            origin=origin,
            about=f"JSON body of the PUT {put}, in place of its query",
            needed_by=("frontend_status",),
        ),
    )


def _task_words(end: str, word: str, about: str) -> Assumption:
    return Assumption(key=f"task.{end}", shape="words", default=[word], origin="section 3.2, open points", about=about)


def _of_setup(name: str, shape: Shape, default: Json, about: str) -> Assumption:
    return Assumption(
        key=f"setup.{name}",
        shape=shape,
        default=default,
        origin="section 2.6: fields of the setup record not shown",
        about=about,
        needed_by=("setup",),
    )


TABLE: tuple[Assumption, ...] = (
    Assumption(
        key="events.page_parameter",
        shape="name",
        default="page",
        origin="section 4.6, gap 2",
        about="query parameter that selects a page of the list of events, or of the campaigns of an event",
        needed_by=("event", "campaigns"),
    ),
    Assumption(
        key="auth.refresh",
        shape="refresh",
        default=None,
        origin="section 5, point 11",
        about="null: sign in again; else {path, body}, with {refresh_token} in the body",
        needed_by=("sign-in",),
    ),
    Assumption(
        key="auth.denied",
        shape="denied",
        default={
            "status": [401, 403],
            "codes": ["error.auth.missing_token", "error.auth.not_authorized", "error.unauthorized"],
        },
        origin="section 7, gaps 1 and 2",
        about="answers that mean: our credentials were refused, nothing was done; a part left out keeps its default",
        needed_by=("every write",),
    ),
    *map(_query_of, SWITCHES),
    *map(_semantics_of, SWITCHES),
    *_query_or_body("frontend_status", "setup_frontend_status", {"frontend_status": "{value}"}),
    *_query_or_body("last_updated_on_fe", "last_updated_on_fe", {"status": "{value}"}),
    _task_words(
        "succeeded", "SUCCESS", "values of data.state that end a task well; any unlisted value is 'still running'"
    ),
    _task_words("failed", "FAILURE", "values of data.state that end a task badly"),
    _of_setup("state_field", "name", "state", "field of the setup record that says whether it is a draft"),
    _of_setup("draft", "words", ["DRAFT"], "values of that field that mean DRAFT"),
    _of_setup("published", "words", ["PUBLISHED"], "values of that field that mean PUBLISHED"),
    Assumption(
        key="setup.after_publish",
        shape=("readable", "absent"),
        default="readable",
        origin="section 4.5: 'draft setup, or 404 when no draft exists'",
        about="readable: a published setup can still be read; absent: it answers 404, and its campaigns tell",
        needed_by=("setup",),
    ),
    Assumption(
        key="setup.others",
        shape=("kept",),
        default="kept",
        origin="section 4.5: input not specified",
        about="kept: a change of a draft or cluster leaves the fields that it does not carry as they were; where the "
        "service drops them, use neither update_draft nor edit_cluster",
    ),
    Assumption(
        key="boost.body",
        shape="body",
        default=None,
        origin="section 4.5: input not specified",
        about="JSON body of the POST boost; null for none",
    ),
    Assumption(
        key="create_campaign.query",
        shape="query",
        default={"eid": "{eid}", "tc": "{tc}", "tc_run_id": "{tc_run_id}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of POST /campaigns/",
    ),
    Assumption(
        key="cluster.budget",
        shape="name",
        default="budget",
        origin="section 4.5: input not specified",
        about="name under which the budget of a cluster is sent, and shown among the campaigns; rules call it budget",
    ),
    Assumption(
        key="campaigns.items",
        shape="path",
        default="@",
        origin="section 4.5: answer not specified",
        about="JMESPath to the list of campaigns; each item has tc and tc_run_id",
        needed_by=("campaigns", "setup"),
    ),
    Assumption(
        key="adplatform.connected",
        shape="path",
        default="connected",
        origin="section 4.5: answer not specified",
        about="JMESPath to whether the ad platform is connected",
        needed_by=("adplatform",),
    ),
    Assumption(
        key="lookout_benchmark.at",
        shape="path",
        default="benchmark.prediction || prediction || @",
        origin="section 4.2: answer not specified",
        about="JMESPath to the record with the numbers value and benchmark",
        needed_by=("lookout_prediction_benchmark",),
    ),
    Assumption(
        key="lookout_benchmark.unit",
        shape=("auto", "fraction", "percent"),
        default="auto",
        origin="section 2.3: 'as a fraction or as a percent; clients auto-detect'",
        about="auto: both numbers up to 1 are fractions, one from 2 on makes percents; else fraction or percent",
        needed_by=("lookout_prediction_benchmark",),
    ),
)

SETTLE = "safety.settle"
"""Not a key of the register, but confirmed in the same way: the latest that a write may still take effect."""

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
    """The values in force, and the keys that the operator has confirmed by writing them."""

    values: Mapping[str, Json] = field(
        default_factory=lambda: MappingProxyType({row.key: row.default for row in TABLE})
    )
    confirmed: frozenset[str] = frozenset()

    def text(self, key: str) -> str:
        """The value of a key whose shape is a word."""
        return str(self.values[key])

    def words(self, key: str) -> tuple[str, ...]:
        """The value of a key whose shape is a list of words."""
        return tuple(map(str, parts_of(self.values[key])))

    def template(self, key: str) -> Mapping[str, str] | None:
        """The value of a key whose shape is a query template; None where a body is used instead."""
        found = self.values[key]
        return {name: str(text) for name, text in found.items()} if isinstance(found, dict) else None

    def denied(self, part: Literal["status", "codes"]) -> tuple[Json, ...]:
        """Statuses, or error codes wherever in the body they stand, that mean: not authorised, nothing done."""
        found = self.values["auth.denied"]
        return tuple(parts_of(found.get(part))) if isinstance(found, dict) else ()

    def flips(self, key: str) -> bool:
        """Whether a write flips its field instead of setting it, by the key that says so."""
        return self.values[key] == "toggle"


def assumptions_from(given: Mapping[str, Json]) -> tuple[Assumptions, tuple[Objection, ...]]:
    """The assumptions that a config's mapping makes, and everything that is wrong with it. Wrong keys keep defaults."""
    wrong: list[Objection] = []
    values = dict(Assumptions().values)
    confirmed: set[str] = set()
    for key, value in given.items():
        row = ASSUMPTIONS.get(key)
        if row is None:
            dotted = [f"{key}.{name}" for name in value] if isinstance(value, dict) else []
            close = get_close_matches(key, ASSUMPTIONS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else "known: " + ", ".join(ASSUMPTIONS)
            if whole := ", ".join(f"{name}: …" for name in dotted if name in ASSUMPTIONS):
                hint = f"write the whole key in one, with its dots: {whole}"
            wrong.append(Objection(key=key, message=f"there is no assumption {key!r}", hint=hint))
        elif said := objection(row, value):
            wrong.append(Objection(key=key, message=f"{key}: {said}", hint=row.about))
        else:
            parts = row.default if row.shape == "denied" else None
            # A part of it that is left out keeps its default.
            values[key] = {**parts, **value} if isinstance(value, dict) and isinstance(parts, dict) else value
            confirmed.add(key)
    for row in TABLE:
        if row.instead in confirmed and values[row.instead] is not None and row.key not in confirmed:
            values[row.key] = None
            confirmed.add(row.key)
    wrong.extend(_together(values))
    return Assumptions(values=MappingProxyType(values), confirmed=frozenset(confirmed)), tuple(wrong)


def _together(values: Mapping[str, Json]) -> list[Objection]:
    """What is wrong with two keys that each are right."""
    wrong: list[Objection] = []
    found = Assumptions(values=values)
    for one, other in _APART:
        if both := set(found.words(one)) & set(found.words(other)):
            message = f"{', '.join(sorted(both))} stands in {one} and in {other}"
            wrong.append(Objection(key=one, message=message, hint="one word cannot mean both"))
    carried = {"create_campaign.query": "{eid}", "auth.refresh": "{refresh_token}"}
    carried |= {f"{name}.query": "{value}" for name in SWITCHES if not found.flips(f"{name}.semantics")}
    for key, text in carried.items():
        if values[key] is not None and not _carry(text, values[key]):
            or_else = f", or {key.removesuffix('query')}semantics: toggle" if text == "{value}" else ""
            hint = f"write {text} where it goes{or_else}"
            wrong.append(Objection(key=key, message=f"{key}: does not carry {text}", hint=hint))
    if (name := found.text("cluster.budget")) in ("eid", "tc", "tc_run_id"):
        message = f"cluster.budget: {name} tells which cluster it is"
        wrong.append(Objection(key="cluster.budget", message=message, hint="name the field with its budget"))
    for name in ("frontend_status", "last_updated_on_fe"):
        if not _carry("{value}", values[f"{name}.query"], values[f"{name}.body"]):
            message = f"{name}.query: neither it nor {name}.body carries {{value}}"
            wrong.append(Objection(key=f"{name}.query", message=message, hint="write {value} where the value goes"))
    return wrong


def objection(row: Assumption, value: Json) -> str:
    """Why the value cannot be one of this key; empty where it can."""
    if isinstance(row.shape, tuple):
        return "" if value in row.shape else f"{' or '.join(row.shape)} is wanted"
    form, wanted = _FORMS[row.shape]
    try:
        TypeAdapter[Any](form).validate_python(value, strict=True)
    except ValidationError:
        return wanted
    if row.shape == "path":
        return path_objection(str(value))
    fills = _FILLS.get(row.key, "{value} {eid}")
    unknown = {one for text in strings_in(value) for one in _PLACEHOLDER.findall(text)} - {*fills.split()}
    return f"nothing fills in {min(unknown)}, only {fills}" if unknown and row.shape in _TEMPLATES else ""


def path_objection(path: str) -> str:
    """Why nothing can be found by this JMESPath; empty where something can."""
    try:
        parts: list[Any] = [jmespath.compile(path).parsed]
    except (JMESPathError, RecursionError) as error:
        return f"not a JMESPath: {(str(error).splitlines() or ['it cannot be read'])[0].rstrip(':')}"
    for part in parts:  # grows while it is gone through
        name = part.get("value")
        if part["type"] == "function_expression":
            if (known := Functions.FUNCTION_TABLE.get(name)) is None:
                near = ", ".join(get_close_matches(name, Functions.FUNCTION_TABLE, n=1) or Functions.FUNCTION_TABLE)
                return f"JMESPath has no function {name}; did you mean {near}?"
            takes, given = known["signature"], len(part["children"])
            if given < len(takes) or (given > len(takes) and "variadic" not in takes[-1]):
                return f"{name} of JMESPath takes {len(takes)}, and is given {given}"
        parts += [one for one in part["children"] if isinstance(one, dict)]  # those of a slice are numbers
    return ""


def _unambiguous(status: int) -> int:
    if status in AMBIGUOUS | {404}:
        raise ValueError("it may hide an effect, or says that there is no draft")
    return status


class _Refresh(BaseModel, extra="forbid", defer_build=True):
    path: Annotated[str, Field(pattern=r"^/[^\s{}]*$")]
    body: dict[str, Any]


class _Denied(BaseModel, extra="forbid", defer_build=True):
    status: list[Annotated[int, Field(ge=400, le=499), AfterValidator(_unambiguous)]] = []
    codes: list[Name] = []


_QUERY = "a mapping of parameter to text is wanted, as {status: '{value}'}"
_REFRESH = "null or {path, body} is wanted: path begins with / and has no blank or brace, body is a mapping"
_DENIED = (
    "{status: [401, 403], codes: [error.unauthorized]} is wanted: statuses from 400 to 499, without 408, 409, 425 and "
    "429, which may hide an effect, and 404, which tells of no draft; a list of error codes"
)
_FORMS: Mapping[Shape, tuple[Any, str]] = {
    "name": (Name, "a name is wanted, such as page; a number in quotes"),
    "words": (
        Annotated[list[Name], Field(min_length=1)],
        "a list of words is wanted, as [SUCCESS, DONE]; a number in quotes",
    ),
    "path": (Name, "a JMESPath expression is wanted"),
    "query": (dict[str, str], _QUERY),
    "query_or_null": (dict[str, str] | None, _QUERY),
    "body": (Any, ""),
    "refresh": (_Refresh | None, _REFRESH),
    "denied": (_Denied, _DENIED),
}
_TEMPLATES = frozenset({"query", "query_or_null", "body", "refresh"})
"""Shapes whose texts are filled in."""


def _carry(text: str, *templates: Json) -> bool:
    return any(text in one for one in strings_in([*templates]))
