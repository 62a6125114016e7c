"""Every fact that the service's document leaves open, as one frozen record.

The document calls many things "not shown": names of query parameters, states, statuses, what happens when a write
comes twice. The twin has to do *something*; here it is said what, and tests set it otherwise so that the defaults do
not become facts by habit.

Never guesses: an unknown key or a value of the wrong type is an error that names the nearest right key.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Literal, TypeAlias, Union, get_args, get_origin, get_type_hints
from urllib.parse import unquote

# What comes to the twin and what goes back, without a socket in sight.
#
# A request is the few things that matter to the service; a delivery is a closed union, because a broken connection and
# an answer that never comes are outcomes of their own and not strange answers. Paths stay percent-encoded until they
# are split, so that an id that holds a slash is still one segment.
#
# Never reads a clock, never decides anything, never imports a web framework.

Json: TypeAlias = object
Record: TypeAlias = Mapping[str, Json]
Pairs: TypeAlias = tuple[tuple[str, str], ...]
Host = Literal["api", "cr", "media"]
HOSTS: tuple[Host, ...] = ("api", "cr", "media")
SIGN_IN_PATH = "/auth"


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinRequest:
    """One request: `path` is raw and relative to its host's base; header names are lower-case."""

    method: str
    host: Host
    path: str
    query: Pairs = ()
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
        return _segments(self.path)

    @property
    def resource(self) -> tuple[str, ...]:
        """What makes two reads the same read: the partner, the place and the query, however it was ordered."""
        return (self.partner, self.host, *self.segments, "?", *(f"{key}={value}" for key, value in sorted(self.query)))

    @property
    def identity(self) -> str:
        """What makes two writes the same write. Spelling (encoding, order of keys) does not make them different."""
        return json.dumps([self.method, *self.resource, canonical_body(self.body)], ensure_ascii=False)


@lru_cache(maxsize=1024)
def _segments(path: str) -> tuple[str, ...]:
    return tuple(unquote(part) for part in path.split("/")[1:])


def canonical_body(body: bytes) -> str:
    try:
        return json.dumps(json.loads(body), sort_keys=True, ensure_ascii=False)
    except (ValueError, RecursionError):
        return body.hex()


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A whole HTTP response, `delay_s` after the request arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    delay_s: float = 0.0


CutAt = Literal["before_request", "before_response", "in_body"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Cut:
    """The connection breaks. `before_request`: it never came about, so that no byte of the request left the client;
    `before_response`: after the request, before any answer; `in_body`: in the middle of the answer.
    `reset` tells a reset connection from one that was merely closed."""

    at: CutAt
    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    partial_body: bytes = b""
    delay_s: float = 0.0
    reset: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Hang:
    """Nothing more happens until the client gives up."""


Delivery = Answer | Cut | Hang


def json_answer(status: int, body: Json, request_id: str) -> Answer:
    """A JSON response as the service gives it: every one carries its trace header (API section 7)."""
    headers = {"x-request-id": request_id}
    if status == 204:
        return Answer(status=status, headers=headers, body=b"")
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return Answer(status=status, headers={**headers, "content-type": "application/json"}, body=text)


class SettingsError(ValueError):
    """A setting that does not exist or cannot have that value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class User:
    """Who may sign in. `partners` None: every partner of the world. `groups` are the others, which clients ignore."""

    username: str
    password: str
    partners: tuple[str, ...] | None = None
    groups: tuple[str, ...] = ("newsletter-readers", "partner-id-", "beta-testers")


def _one(name: str) -> Mapping[str, str]:
    return {name: "{value}"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
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
    default_page_limit: int = 50
    max_page_limit: int = 1000
    over_limit: Literal["clamp", "refuse"] = "clamp"

    # Status writes (API section 3.2)
    client_campaign_status_query: Mapping[str, str] = field(default_factory=lambda: _one("client_campaign_status"))
    campaign_optimisation_status_query: Mapping[str, str] = field(
        default_factory=lambda: _one("campaign_optimisation_status")
    )
    ad_campaign_optimisation_status_query: Mapping[str, str] = field(
        default_factory=lambda: _one("ad_campaign_optimisation_status")
    )
    client_campaign_status_semantics: Literal["set", "toggle"] = "set"
    campaign_optimisation_status_semantics: Literal["set", "toggle"] = "set"
    ad_campaign_optimisation_status_semantics: Literal["set", "toggle"] = "set"
    frontend_status_query: Mapping[str, str] | None = field(default_factory=lambda: _one("frontend_status"))
    frontend_status_body: Mapping[str, str] | None = None
    last_updated_on_fe_query: Mapping[str, str] | None = field(default_factory=lambda: _one("status"))
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
    reset_every_s: float | None = None
    reset_result: Literal["initial", "empty", "new_ids"] = "initial"
    reset_takes_s: float = 0.0


def changed_settings(settings: Settings, changes: Mapping[str, Json]) -> Settings:
    """The settings with these keys set anew; refuses what does not exist or does not fit."""
    hints = get_type_hints(Settings)
    known = [each.name for each in fields(Settings)]
    accepted: dict[str, Json] = {}
    for name, value in changes.items():
        if name not in hints:
            raise SettingsError(f"unknown setting {name!r}{nearest(name, known)}")
        found = _users(value) if name == "users" else value
        if name != "users" and not fits(found, hints[name]):
            raise SettingsError(f"setting {name!r} cannot be {value!r}: expected {_spelled(hints[name])}")
        accepted[name] = found
    return replace(settings, **accepted)  # type: ignore[arg-type]  # checked against the hints above


def _users(value: Json) -> tuple[User, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping | User) for each in value):
        raise SettingsError("setting 'users' is a list of {username, password, partners, groups}")
    return tuple(each if isinstance(each, User) else _user(each) for each in value)


def _user(given: Mapping[str, Json]) -> User:
    parts = {key: tuple(part) if isinstance(part, list) else part for key, part in given.items()}
    try:
        return User(**parts)  # type: ignore[arg-type]  # the keys are checked by the call itself
    except TypeError as wrong:
        raise SettingsError(f"setting 'users': {wrong}") from None


def fits(value: Json, hint: object) -> bool:
    """Whether a value from JSON or YAML can stand where the annotation asks for it."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, option) for option in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return isinstance(value, Mapping) and all(isinstance(part, str) for pair in value.items() for part in pair)
    return isinstance(hint, type) and isinstance(value, hint)


def nearest(name: str, known: list[str]) -> str:
    """The tail of an error message: the likeliest name that was meant."""
    close = difflib.get_close_matches(name, known, n=1)
    return f", did you mean {close[0]!r}?" if close else f"; known: {', '.join(sorted(known))}"


def _spelled(hint: object) -> str:
    if get_origin(hint) is Literal:
        return " or ".join(repr(option) for option in get_args(hint))
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("collections.abc.", "")


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


# Other ways in which the service might be: named sets of settings, each with what a client has to be told of it.
#
# The document leaves half of the service open, and nobody should meet the other half of the possibilities for the
# first time in production. A dialect is one coherent guess that differs from the defaults in many points at once. What
# a client must be told is spelled as the worker's config spells it, because that is who will read it; nothing here
# reads a config.
#
# Never says that the real service is like one of them.


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """`settings`: what differs. `tells`: the assumptions under which a client gets along with it."""

    about: str
    settings: Mapping[str, Json] = field(default_factory=dict)
    tells: Mapping[str, Json] = field(default_factory=dict)


_TABLE: Mapping[str, Dialect] = {
    "standard": Dialect(about="every setting at its default"),
    "terse": Dialect(
        about="short lower-case names, wrapped lists, bodies instead of queries, a refresh of its own",
        settings={
            "page_parameter": "p",
            "refresh_path": "/auth/refresh",
            "refresh_body": {"token": "{refresh_token}"},
            "error_shape": "text",
            "setup_state_field": "status",
            "setup_draft": "draft",
            "setup_published": "live",
            "campaigns_shape": "items",
            "adplatform_shape": "nested",
            "benchmark_shape": "flat",
            "client_campaign_status_query": {"status": "{value}"},
            "campaign_optimisation_status_query": {"status": "{value}"},
            "ad_campaign_optimisation_status_query": {"status": "{value}"},
            "frontend_status_query": None,
            "frontend_status_body": {"status": "{value}"},
            "last_updated_on_fe_query": None,
            "last_updated_on_fe_body": {"status": "{value}"},
            "create_setup_status": 200,
            "over_limit": "refuse",
        },
        tells={
            "events.page_parameter": "p",
            "auth.refresh": {"path": "/auth/refresh", "body": {"token": "{refresh_token}"}},
            "setup.state_field": "status",
            "setup.draft": ["draft"],
            "setup.published": ["live"],
            "campaigns.items": "items",
            "adplatform.connected": "adplatform.is_connected",
            "client_campaign_status.query": {"status": "{value}"},
            "campaign_optimisation_status.query": {"status": "{value}"},
            "ad_campaign_optimisation_status.query": {"status": "{value}"},
            "frontend_status.body": {"status": "{value}"},
            "last_updated_on_fe.body": {"status": "{value}"},
        },
    ),
    "formal": Dialect(
        about="long names, words of its own for every state, a refusal by an unusual status",
        settings={
            "page_parameter": "pageNumber",
            "denied_token_status": 419,
            "denied_partner_status": 419,
            "error_shape": "nested",
            "setup_state_field": "lifecycle_stage",
            "setup_draft": "IN_PREPARATION",
            "setup_published": "ON_AIR",
            "campaigns_shape": "data",
            "adplatform_shape": "word",
            "benchmark_shape": "result",
            "benchmark_unit": "percent",
            "task_pending": "QUEUED",
            "task_succeeded": "COMPLETED",
            "task_failed": "ABORTED",
            "task_effect": "when_done",
            "client_campaign_status_query": {"target_status": "{value}", "event_id": "{eid}"},
            "max_page_limit": 5,
        },
        tells={
            "events.page_parameter": "pageNumber",
            "auth.denied": {
                "status": [401, 403, 419],
                "codes": ["error.auth.missing_token", "error.auth.not_authorized", "error.unauthorized"],
            },
            "setup.state_field": "lifecycle_stage",
            "setup.draft": ["IN_PREPARATION"],
            "setup.published": ["ON_AIR"],
            "campaigns.items": "data.campaigns",
            "adplatform.connected": "status == 'CONNECTED'",
            "lookout_benchmark.at": "result.numbers",
            "client_campaign_status.query": {"target_status": "{value}", "event_id": "{eid}"},
            "task.succeeded": ["COMPLETED"],
            "task.failed": ["ABORTED"],
        },
    ),
    "toggling": Dialect(
        about="status writes that flip what they find, and setups that are gone once they are published",
        settings={
            "page_parameter": "page_no",
            "setup_after_publish": "absent",
            "client_campaign_status_semantics": "toggle",
            "campaign_optimisation_status_semantics": "toggle",
            "ad_campaign_optimisation_status_semantics": "toggle",
            "create_existing": "replace",
            "boost_published": "conflict",
            "benchmark_unit": "fraction",
            "denied_token_status": 400,
        },
        tells={
            "events.page_parameter": "page_no",
            "setup.after_publish": "absent",
            "client_campaign_status.semantics": "toggle",
            "campaign_optimisation_status.semantics": "toggle",
            "ad_campaign_optimisation_status.semantics": "toggle",
        },
    ),
}
DIALECTS: Mapping[str, Dialect] = MappingProxyType(_TABLE)
