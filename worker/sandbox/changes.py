"""Changes that no request makes: the world moves on, a person clicks in the web page, the operator resets.

The same few changes come from a story file, from the control paths and from tests; here they are read once and
carried out once. Every one is entered in the books, because after a person has changed a target the same write may
rightly take effect again.

Never carries out half of a change: what cannot be read is refused before anything moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from worker.sandbox.books import Books
from worker.sandbox.delivery import Json, Record
from worker.sandbox.faults import Fault, FaultError, fault_from
from worker.sandbox.settings import Settings, SettingsError, changed_settings, nearest
from worker.sandbox.world import Happening, World

By = Literal["world", "person"]
PARTS = (
    "setup",
    "published",
    "campaigns",
    "clusters",
    "tc_run_id",
    "suggested_tcs",
    "defaults",
    "lower_limit",
    "upper_limit",
    "task_fails",
)
PARTNER_PARTS = ("permissions", "features", "adplatform_connected")
LISTS_OF_RECORDS = ("campaigns", "clusters", "suggested_tcs")


class ChangeError(ValueError):
    """A change that cannot be read or has nothing to change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EventChange:
    """Fields and parts of one event. `add` brings the event into being, `remove` takes it away."""

    event: str
    partner: str | None = None
    by: By = "world"
    set: Record = field(default_factory=dict)
    parts: Record = field(default_factory=dict)
    add: bool = False
    remove: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class PartnerChange:
    """Fields of the partner record, and its permissions, features, ad-platform connection."""

    partner: str
    set: Record = field(default_factory=dict)
    parts: Record = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultChange:
    fault: Fault


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsChange:
    settings: Record


@dataclass(frozen=True, kw_only=True, slots=True)
class ResetChange:
    """The weekly reset, now."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SignOutChange:
    """A password reset: every token, the refresh tokens too, is worth nothing (API section 5)."""


Change = EventChange | PartnerChange | FaultChange | SettingsChange | ResetChange | SignOutChange


def change_from(given: Mapping[str, Json], settings: Settings) -> Change:
    """A change as it is written in a story or sent to the control path."""
    if "person" in given:
        return _by_person(given, settings)
    if "fault" in given:
        return _alone(given, "fault", _fault(given["fault"]))
    if "settings" in given:
        wanted = _record(given["settings"], "settings")
        try:
            changed_settings(settings, wanted)
        except SettingsError as wrong:
            raise ChangeError(str(wrong)) from None
        return _alone(given, "settings", SettingsChange(settings=wanted))
    for name, change in (("reset", ResetChange()), ("sign_out", SignOutChange())):
        if name in given:
            if given[name] is not True:
                raise ChangeError(f"{name} is true or left out")
            return _alone(given, name, change)
    if "event" in given:
        return _event_change(given)
    if "partner" in given:
        return _partner_change(given)
    raise ChangeError("a change names an event, a partner, a person, a fault, settings, reset or sign_out")


def _by_person(given: Mapping[str, Json], settings: Settings) -> Change:
    inner = change_from(_record(given["person"], "person"), settings)
    if not isinstance(inner, EventChange):
        raise ChangeError("a person changes an event: {event, set, ...}")
    change: Change = replace(inner, by="person")
    return _alone(given, "person", change)


def _alone(given: Mapping[str, Json], name: str, change: Change) -> Change:
    others = [key for key in given if key not in (name, "at")]
    if others:
        raise ChangeError(f"{others[0]!r} cannot stand beside {name!r}")
    return change


def _fault(given: Json) -> FaultChange:
    try:
        return FaultChange(fault=fault_from(_record(given, "fault")))
    except FaultError as wrong:
        raise ChangeError(str(wrong)) from None


def _record(given: Json, what: str) -> Record:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ChangeError(f"{what} is a map")
    return given


def _known(given: Mapping[str, Json], known: list[str]) -> None:
    for key in given:
        if key != "at" and key not in known:
            raise ChangeError(f"unknown key {key!r}{nearest(key, known)}")


def _event_change(given: Mapping[str, Json]) -> EventChange:
    own = [each.name for each in fields(EventChange) if each.name != "parts"]
    _known(given, [*own, *PARTS])
    by = given.get("by", "world")
    if by not in ("world", "person"):
        raise ChangeError("by is world or person")
    parts = {name: given[name] for name in PARTS if name in given}
    for name in LISTS_OF_RECORDS:
        _check_list(name, parts.get(name))
    for name in ("setup", "defaults"):
        if parts.get(name) is not None:
            _record(parts[name], name)
    for name in ("lower_limit", "upper_limit", "tc_run_id"):
        if isinstance(parts.get(name, 0), bool) or not isinstance(parts.get(name, 0), int | float):
            raise ChangeError(f"{name} is a number")
    partner = given.get("partner")
    return EventChange(
        event=str(given["event"]),
        partner=None if partner is None else str(partner),
        by="person" if by == "person" else "world",
        set=_record(given.get("set", {}), "set"),
        parts=parts,
        add=given.get("add") is True,
        remove=given.get("remove") is True,
    )


def _check_list(name: str, value: Json) -> None:
    if value is None:
        return
    if not isinstance(value, list | tuple) or not all(isinstance(each, Mapping) and "tc" in each for each in value):
        raise ChangeError(f"{name} is a list of maps with tc")


def _partner_change(given: Mapping[str, Json]) -> PartnerChange:
    _known(given, ["partner", "set", *PARTNER_PARTS])
    parts = {name: given[name] for name in PARTNER_PARTS if name in given}
    for name in ("permissions", "features"):
        if not isinstance(parts.get(name, []), list):
            raise ChangeError(f"{name} is a list")
    return PartnerChange(partner=str(given["partner"]), set=_record(given.get("set", {}), "set"), parts=parts)


# Carrying out


def holder_of(world: World, change: EventChange) -> str:
    """The partner whose event is meant; an id that two partners use has to name one."""
    if change.partner is not None:
        if world.tenant(change.partner) is None:
            raise ChangeError(f"unknown partner {change.partner!r}{nearest(change.partner, list(world.partners))}")
        if not change.add and world.at(change.partner, change.event) is None:
            raise ChangeError(f"{change.partner} has no event {change.event!r}")
        return change.partner
    holders = world.partners if change.add else world.holders(change.event)
    if len(holders) != 1:
        found = "no partner has" if not holders else "several partners have"
        raise ChangeError(f"{found} an event {change.event!r}: name the partner")
    return holders[0]


def change_event(world: World, books: Books, change: EventChange, at_s: float) -> None:
    partner = holder_of(world, change)
    before = world.at(partner, change.event)
    after = None if change.remove else _after(before, change)
    world.put(partner, change.event, after, at_s)
    for target in sorted(_touched(change)):
        books.changed_outside(change.by, partner, change.event, target, at_s)


def _after(before: Happening | None, change: EventChange) -> Happening:
    found = before if before is not None else Happening(record={"id": change.event})
    found = found.with_fields({**change.set, "id": change.event})
    parts = dict(change.parts)
    if "suggested_tcs" in parts:
        parts["suggested"] = parts.pop("suggested_tcs")
    for name in ("campaigns", "clusters", "suggested"):
        value = parts.get(name)
        if isinstance(value, list):
            parts[name] = tuple(value)
    setup = parts.get("setup", found.setup)
    if setup is None:
        parts["published"] = False
    elif isinstance(setup, Mapping) and "state" in setup:
        # The state is worked out when it is read; here it only says whether the setup is live.
        parts["setup"] = {key: value for key, value in setup.items() if key != "state"}
        parts.setdefault("published", setup["state"] == "PUBLISHED")
    return replace(found, **parts)  # type: ignore[arg-type]  # the parts were checked when they were read


def _touched(change: EventChange) -> set[str]:
    """The targets of the books that this change is about."""
    touched = set(change.set)
    if {"setup", "published"} & change.parts.keys() or change.add or change.remove:
        touched.add("setup")
    if {"setup", "campaigns", "published"} & change.parts.keys() or change.add or change.remove:
        touched.add("campaign:")
    if "frontend_status" in change.set:
        touched.add("last_updated_on_fe")
    if "campaign_event_series" in change.set:
        touched.add("series")
    return touched


def change_partner(world: World, change: PartnerChange) -> None:
    tenant = world.tenant(change.partner)
    if tenant is None:
        raise ChangeError(f"unknown partner {change.partner!r}{nearest(change.partner, list(world.partners))}")
    parts = {name: tuple(value) if isinstance(value, list) else value for name, value in change.parts.items()}
    world.put_tenant(replace(tenant, record={**tenant.record, **change.set}, **parts))  # type: ignore[arg-type]
