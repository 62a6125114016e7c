"""What a twin begins with: its world, its story, its dialect, and the settings and faults that its operator asks for.

Whoever comes later has the last word: defaults, then the dialect, then the story's own settings, then what stands on
the command line. Words that mean nothing here are errors that name the nearest right one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from worker.sandbox.changes import Change, EventChange, Story, check_story, read_story, value_from
from worker.sandbox.faults import Fault, Match
from worker.sandbox.service import Twin
from worker.sandbox.settings import Json, Record, SandboxInputError, TwinSettings, changed_settings, nearest, read_as
from worker.sandbox.world import Happening, Tenant, TwinWorld, campaign_record

STANDARD = "standard"
FAULT_KEYS = frozenset(each.name for each in fields(Fault))
MATCH_KEYS = frozenset(each.name for each in fields(Match))
FIRST_DAY = datetime(2031, 5, 1, 18, 0, tzinfo=UTC)
DEMO_EVENTS = 12


def built(
    story: Path | None,
    events: int | None,
    first_day: datetime,
    *,
    dialect: str = STANDARD,
    settings: Iterable[str] = (),
    faults: Iterable[str] = (),
) -> Twin:
    """The service that tells this story, or the built-in one, in this dialect. `settings` (name=value) and `faults` are
    words of a command line and come last. Raises SandboxInputError for what means nothing or cannot be told."""
    if dialect not in dialects():
        raise SandboxInputError(f"unknown dialect {dialect!r}{nearest(dialect, list(dialects()))}")
    base = changed_settings(TwinSettings(), dialects()[dialect].settings)
    if story is None:
        world = demo_world(DEMO_EVENTS if events is None else events, first_day)
        told = demo_story(world, base)
    else:
        told = read_story(_text(story), str(story), base)
        wanted = told.events if events is None else events
        world = demo_world(DEMO_EVENTS if wanted is None else wanted, first_day)
        check_story(told, world)
    last = changed_settings(told.settings, dict(setting_from(text) for text in settings))
    return Twin(world, settings=last, story=told.steps, faults=[fault_from(text) for text in faults])


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as wrong:
        raise SandboxInputError(f"{path}: cannot be read: {wrong.strerror}") from None
    except UnicodeDecodeError as wrong:
        raise SandboxInputError(f"{path}: cannot be read: it is not UTF-8 from byte {wrong.start + 1} on") from None


def setting_from(text: str) -> tuple[str, Json]:
    """`name=value`, the value as in a story."""
    name, equals, value = text.partition("=")
    if not equals:
        raise SandboxInputError(f"{text!r} is no setting: write name=value")
    return name.strip(), value_from(value)


def fault_from(text: str) -> Fault:
    """A fault in a line: `{kind: …}` as in a story, or `KIND [METHOD] [PATH] [name=value …]`."""
    if text.lstrip().startswith("{"):
        return read_as(Fault, value_from(text), ("fault",))
    kind, *words = text.split() or [""]
    match: dict[str, Json] = {}
    params: dict[str, Json] = {}
    fault: dict[str, Json] = {"kind": kind, "match": match, "params": params}
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name.isidentifier():
            part = fault if name in FAULT_KEYS else match if name in MATCH_KEYS else params
            part[name] = value_from(value)
        elif "/" in word or word.startswith("^"):
            match["path"] = word
        else:
            match["method"] = word.upper()
    return read_as(Fault, fault, ("fault",))


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """One coherent guess of how the service is where its document is silent (dialects.yaml). `settings`: what differs.
    `tells`: the assumptions under which a client gets along with it, spelled as the worker's config spells them."""

    about: str
    settings: Record = field(default_factory=dict)
    tells: Record = field(default_factory=dict)


@cache
def dialects() -> Mapping[str, Dialect]:
    return read_as(dict[str, Dialect], value_from(_shipped("dialects.yaml")))


# The built-in world: two organisers, with some events under the same ids at both. Never random, and never tied to
# today: the first day is an argument.

FIRST_PARTNER = "partner-id-aurora-live"
SECOND_PARTNER = "partner-id-harbour-hall"
SHARED_IDS = 2
PLACES = (
    ("Leipzig", "Werk 2", "Halle A"),
    ("Gent", "Vooruit", "Theaterzaal"),
    ("Porto", "Casa da Música", "Sala 2"),
    ("Malmö", "Kajplats", "Stora scenen"),
)
TITLES = ("Night of Strings", "Harbour Derby", "Spring Book Fair", "Silent Film Live", "City Jazz", "Choir of Choirs")
CATEGORIES = ("concert", "sport", "fair", "film")
AUDIENCES = (
    "jazz & soul lovers",
    "families/weekend",
    "студенты",
    "late-night crowd",
    "100% vinyl",
    "音楽ファン",
)
DRAFTS = (2, 4, 7, 10)
FIRST_RUN = 41


def demo_world(events: int = DEMO_EVENTS, first_day: datetime = FIRST_DAY) -> TwinWorld:
    """Two partners with this many events between them; the first two ids exist at both."""
    own = events - events // 3
    first = tuple(_happening(number, first_day) for number in range(1, own + 1))
    numbers = [*range(1, min(SHARED_IDS, events - own) + 1)]
    numbers += range(own + 1, own + 1 + events - own - len(numbers))
    second = tuple(_happening(number, first_day) for number in numbers)
    return TwinWorld(
        (
            _tenant(FIRST_PARTNER, "4101", "Aurora Live", "EUR", first),
            _tenant(SECOND_PARTNER, "4102", "Harbour Hall", "SEK", second),
        )
    )


def _tenant(partner_id: str, client_id: str, name: str, currency: str, events: tuple[Happening, ...]) -> Tenant:
    record: dict[str, Json] = {
        "id": client_id,
        "name": name,
        "domain": f"{partner_id.removeprefix('partner-id-')}.example",
        "currency": currency,
        "vertical": "live_entertainment",
        "demand_prediction": True,
        "campaign_recommendations": True,
        "status": "active",
        "pricing_tier": "standard",
        "campaign_pricing_model": "share_of_spend",
        "ner_active": False,
    }
    return Tenant(
        partner_id=partner_id,
        record=record,
        permissions=("campaigns:read", "campaigns:write", "events:read"),
        features=("campaign_wizard", "series"),
        events=events,
    )


def _happening(number: int, first_day: datetime) -> Happening:
    draft = number in DRAFTS
    tcs = [AUDIENCES[(number + each) % len(AUDIENCES)] for each in range(2)]
    run = FIRST_RUN + number
    setup: Record | None = {"goal": "ROAS", "total_budget": 500.0, "tcs": tcs}
    campaigns = tuple(campaign_record(each + 1, tc, run) for each, tc in enumerate(tcs))
    return Happening(
        record=_record(number, first_day),
        setup=setup,
        published=not draft,
        campaigns=() if draft else campaigns,
        tc_run_id=run,
        clusters=tuple(_cluster(number, each) for each in range(4)),
        lower_limit=2.0,
        upper_limit=500.0,
    )


def _record(number: int, first_day: datetime) -> Record:
    draft = number in DRAFTS
    city, venue, hall = PLACES[number % len(PLACES)]
    share = round(0.35 + (number * 7 % 50) / 100, 2)
    in_percent = number % 2 == 0
    prediction = {"value": share * 100 if in_percent else share, "benchmark": 55.0 if in_percent else 0.55}
    starts = first_day + timedelta(days=number % 60)
    return {
        "id": f"e{number}",
        "title": f"{TITLES[number % len(TITLES)]} {number}",
        "start_date_time": starts.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "city": city,
        "venue_name": venue,
        "hall_name": hall,
        "capacity": 400 + number % 9 * 150,
        "category": CATEGORIES[number % len(CATEGORIES)],
        "special_ad_category": None,
        "predicted_sales_share": share,
        "status": "active",
        "frontend_status": "DEFAULT",
        "campaign_status": "OPEN" if draft else "RUNNING",
        "client_campaign_status": "PAUSED" if draft else "RUNNING",
        "campaign_optimisation_status": "ON",
        "ad_campaign_optimisation_status": "ON",
        "campaign_event_series": [],
        # A fraction for some events and a percentage for others, as the document warns.
        "benchmark": {"prediction": prediction},
        # The documented fields are a subset; these two stand for the others.
        "predicted_sales_total": int(share * 1000),
        "has_pixel": number % 3 != 0,
    }


def _cluster(number: int, index: int) -> Record:
    tc = AUDIENCES[(number + index) % len(AUDIENCES)]
    return {
        "tc": tc,
        "label": tc.title(),
        "metric_pred": round(4.6 - 0.7 * index, 2),
        "reach_estimate": 12000 + 9000 * index,
        "size_share": round(0.08 + 0.05 * index, 2),
    }


def demo_story(world: TwinWorld, base: TwinSettings | None = None) -> Story:
    """The story of demo_story.yaml, without what it tells of events that this world does not have."""

    def possible(change: Change) -> bool:
        return not isinstance(change, EventChange) or world.at(change.partner or "", change.event) is not None

    story = read_story(_shipped("demo_story.yaml"), "demo", base)
    return replace(story, steps=tuple(step for step in story.steps if possible(step.change)))


def _shipped(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
