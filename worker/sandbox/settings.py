"""What the twin speaks, and every fact that the service's document leaves open, as one frozen record.

What comes to the twin and what goes back are shapes without a socket in sight: a request is the few things that matter
to the service; a broken connection and an answer that never comes are deliveries of their own, no strange answers.

The document calls many things "not shown": names of query parameters, states, statuses, what happens when a write
comes twice. The twin has to do *something*; here it is said what, and tests set it otherwise so that the defaults do
not become facts by habit. What an operator writes is read here too: an error names the nearest right word.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_args, get_type_hints
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from pydantic_core import ErrorDetails

Json: TypeAlias = object
Record: TypeAlias = Mapping[str, Json]
Host = Literal["api", "cr", "media"]


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinRequest:
    """One request: `path` is raw and relative to its host's base; header names are lower-case."""

    method: str
    host: Host
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def partner(self) -> str:
        return self.headers.get("x-preferred-partner-id", "")

    @property
    def is_read(self) -> bool:
        return self.method in ("GET", "HEAD", "OPTIONS")

    @property
    def is_sign_in(self) -> bool:
        return self.host == "api" and self.path.split("/")[1:2] == ["auth"]

    @property
    def segments(self) -> tuple[str, ...]:
        """The parts of the path; an id that holds an encoded slash is still one of them."""
        return tuple(unquote(part) for part in self.path.split("/")[1:])

    @property
    def resource(self) -> tuple[str, ...]:
        """What makes two reads the same read: the partner, the place and the query, however it was ordered."""
        return (self.partner, self.host, *self.segments, "?", *(f"{key}={value}" for key, value in sorted(self.query)))

    @property
    def identity(self) -> str:
        """What makes two writes the same write. Spelling (encoding, order of keys) does not make them different."""
        try:
            body = json.dumps(json.loads(self.body), sort_keys=True, ensure_ascii=False)
        except (ValueError, RecursionError):
            body = self.body.hex()
        return json.dumps([self.method, *self.resource, body], ensure_ascii=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinAnswer:
    """A whole HTTP response, `delay_s` after the request arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay_s: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The connection breaks. `before_request`: it never came about, so that no byte of the request left the client;
    `before_response`: after the request, before any answer; `in_body`: in the middle of the answer.
    `reset` tells a reset connection from one that was merely closed."""

    at: Literal["before_request", "before_response", "in_body"]
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    partial_body: bytes = b""
    delay_s: float = 0.0
    reset: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Nothing more happens until the client gives up."""


Delivery = TwinAnswer | Cut | Hang


T = TypeVar("T")
Place = tuple[object, ...]
"""The keys and numbers that lead to a part of what was written."""
KNOWN_KEYS_ONLY = ConfigDict(extra="forbid")
UNKNOWN_KEY = ("unexpected_keyword_argument", "extra_forbidden")


class SandboxInputError(ValueError):
    """What an operator wrote cannot be read or done. `place`: what it is about."""

    def __init__(self, message: str, place: Place = ()) -> None:
        super().__init__(message)
        self.place = place


def read_as(form: type[T], given: Json, place: Place = ()) -> T:
    """What an operator wrote, as it came from YAML or JSON, as one of our forms."""
    try:
        # As JSON, because only there a list may stand for a tuple although nothing else is bent into shape.
        text = json.dumps(given, default=str, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as wrong:
        raise SandboxInputError(f"this cannot be read: {wrong}", place) from None
    try:
        found: T = _adapter(form).validate_json(text, strict=True)  # type: ignore[arg-type]
    except ValidationError as wrong:
        errors = wrong.errors()
        # A word that does not exist explains one that is missing.
        first = next((one for one in errors if one["type"] in UNKNOWN_KEY), errors[0])
    else:
        return found
    path = first["loc"]
    *outer, name = (str(part) for part in (*place, *path) or ("this",))
    if first["type"] in UNKNOWN_KEY:
        where = f" in {'.'.join(outer)}" if outer else ""
        said = f"unknown key {name!r}{where}{nearest(name, _keys(form, path[:-1]))}"
    else:
        said = f"{'.'.join((*outer, name))} {_complaint(first)}"
    raise SandboxInputError(said, (*place, *path))


def _complaint(wrong: ErrorDetails) -> str:
    context = wrong.get("ctx", {})
    if wrong["type"] == "missing":
        return "is missing"
    if wrong["type"] == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        return f"cannot be {wrong['input']!r}{nearest(str(wrong['input']), allowed)}"
    if "error" in context:
        return str(context["error"])
    expected = wrong["msg"].replace("Input should be", "expected")
    return f"cannot be {wrong['input']!r}: {expected.replace('an object', 'a map').replace('a valid array', 'a list')}"


@cache
def _adapter(form: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def _keys(form: type[Any], path: tuple[int | str, ...]) -> list[str]:
    """The keys that may stand at a place of a form."""
    for part in path:
        form = get_args(form)[0] if isinstance(part, int) else get_type_hints(form)[part]
    return list(form.model_fields if issubclass(form, BaseModel) else get_type_hints(form))


def nearest(name: str, known: list[str]) -> str:
    """The tail of an error message: the likeliest name that was meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


@with_config(KNOWN_KEYS_ONLY)
@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who may sign in. `partners` None: every partner of the world. `groups` are the others, which clients ignore."""

    username: str
    password: str
    partners: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ("newsletter-readers", "partner-id-", "beta-testers")


def _by(name: str) -> Any:  # noqa: ANN401  # a field of the settings
    """A template in which the value stands under this name."""
    return field(default_factory=lambda: {name: "{value}"})


@with_config(KNOWN_KEYS_ONLY)
@dataclass(frozen=True, kw_only=True, slots=True)
class TwinSettings:
    """The open facts of the API and their defaults. Templates hold `{value}`, `{eid}`, `{tc}`, `{tc_run_id}`."""

    # Sign-in (API section 5)
    users: tuple[User, ...] = (User(username="sandbox", password="sandbox"),)  # noqa: S106  # made up
    token_lifetime_s: float = 3600.0
    refresh_path: str | None = None
    refresh_body: Mapping[str, str] = field(default_factory=lambda: {"RefreshToken": "{refresh_token}"})
    sign_in_denied_status: int = 401
    denied_token_status: int = 401
    denied_partner_status: int = 403
    denied_admin_status: int = 403
    error_shape: Literal["flat", "nested", "text"] = "flat"
    invalid_status: int = 422

    # Listing (API sections 2.4 and 4.2)
    page_parameter: str = "page"
    default_page_limit: Annotated[int, Field(ge=1)] = 50
    max_page_limit: Annotated[int, Field(ge=1)] = 1000
    over_limit: Literal["clamp", "refuse"] = "clamp"

    # Status writes (API section 3.2)
    client_campaign_status_query: Mapping[str, str] = _by("client_campaign_status")
    campaign_optimisation_status_query: Mapping[str, str] = _by("campaign_optimisation_status")
    ad_campaign_optimisation_status_query: Mapping[str, str] = _by("ad_campaign_optimisation_status")
    client_campaign_status_semantics: Literal["set", "toggle"] = "set"
    campaign_optimisation_status_semantics: Literal["set", "toggle"] = "set"
    ad_campaign_optimisation_status_semantics: Literal["set", "toggle"] = "set"
    frontend_status_query: Mapping[str, str] | None = _by("frontend_status")
    frontend_status_body: Mapping[str, str] | None = None
    last_updated_on_fe_query: Mapping[str, str] | None = _by("status")
    last_updated_on_fe_body: Mapping[str, str] | None = None

    # Task state
    task_pending: str = "PENDING"
    task_succeeded: str = "SUCCESS"
    task_failed: str = "FAILURE"
    task_duration_s: float = 3.0
    task_fails: bool = False
    task_effect: Literal["at_once", "when_done"] = "at_once"

    # Setup and campaigns (API sections 2.6 and 4.5)
    setup_state_field: str = "state"
    setup_draft: str = "DRAFT"
    setup_published: str = "PUBLISHED"
    setup_after_publish: Literal["readable", "absent"] = "readable"
    create_setup_status: int = 201
    create_existing: Literal["conflict", "replace"] = "conflict"
    boost_published: Literal["again", "conflict"] = "again"
    boost_campaign_status: str | None = "RUNNING"
    edit_unknown_cluster: Literal["add", "not_found"] = "add"
    enforce_budget_range: bool = False
    reset_setup_result: Literal["none", "draft"] = "none"
    create_campaign_query: Mapping[str, str] = field(
        default_factory=lambda: {"eid": "{eid}", "tc": "{tc}", "tc_run_id": "{tc_run_id}"}
    )
    campaigns_shape: Literal["list", "items", "data", "page", "limited"] = "list"
    campaigns_limit: int | None = None
    campaign_run: Literal["as_sent", "newest"] = "as_sent"
    text_spelling: Literal["as_sent", "trimmed", "decomposed", "lower"] = "as_sent"
    numbers_shown: Literal["exact", "whole"] = "exact"
    adplatform_shape: Literal["flag", "nested", "word"] = "flag"
    benchmark_shape: Literal["record", "flat", "result"] = "record"
    benchmark_unit: Literal["mixed", "fraction", "percent"] = "mixed"

    # Limits and the weekly reset (API sections 1 and 8)
    rate_limit_per_minute: int | None = None
    sign_in_limit_per_minute: int | None = None
    retry_after_s: int | None = None
    reset_every_s: Annotated[float, Field(ge=1)] | None = None
    reset_result: Literal["initial", "empty", "new_ids"] = "initial"
    reset_takes_s: float = 0.0


def changed_settings(settings: TwinSettings, changes: Json) -> TwinSettings:
    """The settings with these keys set anew; refuses what does not exist or does not fit."""
    whole = {**asdict(settings), **changes} if isinstance(changes, Mapping) else changes
    return read_as(TwinSettings, whole, ("settings",))


def filled(template: Mapping[str, str], given: Mapping[str, Json]) -> dict[str, str] | None:
    """Reads `{name}` placeholders of a template back out of what was sent; None when it does not fit the template."""
    found: dict[str, str] = {}
    for key, pattern in template.items():
        if key not in given or given[key] is None:
            return None
        value = str(given[key])
        if pattern.startswith("{") and pattern.endswith("}"):
            found[pattern[1:-1]] = value
        elif pattern != value:
            return None
    return found
