"""Every fact that the service's document leaves open, as one frozen record.

The document calls many things "not shown": names of query parameters, states, statuses, what happens when a write
comes twice. The twin has to do *something*; here it is said what, and tests set it otherwise so that the defaults do
not become facts by habit.

Never guesses: an unknown key or a value of the wrong type is an error that names the nearest right key.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal, Union, get_args, get_origin, get_type_hints

from worker.sandbox.delivery import Json


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
    changed_since_parameter: str | None = None
    unix_time_of_zero: float = 0.0

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
