"""Rows that only read: the partner, the events, the audience recommendations (API sections 4.1, 4.2, 4.4).

Shapes that the document shows are kept to the letter. Where suggestions depend on budget and goal, they do so here by
a simple open rule: a larger budget reaches more clusters, the goal decides which come first.

Never changes anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from worker.sandbox.settings import Json, Record, Settings, TwinRequest, filled
from worker.sandbox.world import Books, Deed, Happening, Refusal, Tenant, World

# One request on its way through a row of the table: what a row may see and what it may do.
#
# Rows answer and take effect; both go through here, so that no effect can bypass the books and no row needs to know
# about tokens, faults or sockets.
#
# Never decides whether a request is allowed: that happened before.

Landing = Callable[[float], None]
MAX_DIGITS = 12


def is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
class Later:
    """Something that takes place after the answer was given."""

    after_s: float
    land: Landing


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a row answers. `content` is for what is not JSON."""

    status: int = 200
    body: Json = None
    content: tuple[str, bytes] | None = None
    later: tuple[Later, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """The request with the parts of its path, the world, the books and the moment."""

    world: World
    books: Books
    settings: Settings
    request: TwinRequest
    request_id: str
    now_s: float
    as_of_s: float | None = None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def partner(self) -> str:
        return self.request.partner

    @property
    def tenant(self) -> Tenant:
        tenant = self.world.tenant(self.partner)
        if tenant is None:
            raise Refusal(self.settings.denied_partner_status, "error.auth.not_authorized", "no such partner")
        return tenant

    @property
    def eid(self) -> str:
        return self.names["eid"]

    def event(self, eid: str | None = None) -> Happening:
        """The event of the path (or a named one), or the service's 404."""
        found = self.world.at(self.partner, self.eid if eid is None else eid, self.as_of_s)
        if found is None:
            raise Refusal(404, "error.not_found", "no such event")
        return found

    def listing(self) -> list[Happening]:
        return self.world.listing(self.partner, self.as_of_s)

    def take_effect(self, deed: Deed, after: Happening | None = None, at_s: float | None = None) -> None:
        """The one door to the world: the event's new version and its entry in the books."""
        moment = self.now_s if at_s is None else at_s
        if after is not None:
            self.world.put(self.partner, after.eid, after, moment)
        self.books.effect(deed, self.request, self.request_id, moment)

    # What came with the request

    def one(self, name: str) -> str | None:
        return next((value for key, value in self.request.query if key == name), None)

    def several(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.request.query if key == name)

    def needed(self, name: str) -> str:
        value = self.one(name)
        if value is None:
            raise self.invalid(f"query parameter {name} is required")
        return value

    def number(self, name: str) -> float:
        try:
            value = float(self.needed(name))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise self.invalid(f"query parameter {name} is a number")
        return value

    def whole(self, name: str, default: int) -> int:
        value = self.one(name)
        if value is None:
            return default
        if not is_whole(value) or int(value) < 1:
            raise self.invalid(f"query parameter {name} is a whole number from 1")
        return int(value)

    def choice(self, name: str, allowed: tuple[str, ...]) -> str:
        value = self.needed(name)
        if value not in allowed:
            raise self.invalid(f"query parameter {name} is one of {', '.join(allowed)}")
        return value

    def json_body(self) -> Record:
        """The body as an object; an empty body is an empty object."""
        if not self.request.body:
            return {}
        try:
            body = json.loads(self.request.body, parse_constant=_no_constant, parse_float=_finite)
            # A half of a surrogate pair can be read but never be written again.
            json.dumps(body, ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            raise self.invalid("the body is not JSON") from None
        if not isinstance(body, dict):
            raise self.invalid("the body is a JSON object")
        return body

    def templated(self, template: Mapping[str, str]) -> dict[str, str]:
        """What the query says in the place of a template's placeholders."""
        return self._filled(template, dict(self.request.query), "query parameters")

    def templated_either(self, query: Mapping[str, str] | None, body: Mapping[str, str] | None) -> dict[str, str]:
        """The same for a write that takes its input in the query or in the body."""
        if body is not None:
            return self._filled(body, self.json_body(), "body fields")
        return self.templated(query or {})

    def _filled(self, template: Mapping[str, str], given: Mapping[str, Json], what: str) -> dict[str, str]:
        found = filled(template, given)
        if found is None or found.get("eid", self.names.get("eid")) != self.names.get("eid", found.get("eid")):
            raise self.invalid(f"{what} needed: {', '.join(template)}")
        return found

    def invalid(self, message: str) -> Refusal:
        return Refusal(self.settings.invalid_status, "error.validation", message)


T = TypeVar("T")
GOALS = ("UTILIZATION", "ROAS", "VISIBILITY", "LINK_CLICKS")
BUDGET_PER_CLUSTER = 200.0
MAX_RANGE_DAYS = 30
CALLS_TO_ACTION = {
    "UTILIZATION": ("BUY_TICKETS", "LEARN_MORE", "GET_OFFER"),
    "ROAS": ("BUY_TICKETS", "SHOP_NOW"),
    "VISIBILITY": ("LEARN_MORE", "SEE_MORE"),
    "LINK_CLICKS": ("LEARN_MORE", "BUY_TICKETS"),
}
RADIUS_MILES = 25.0
KILOMETRES_PER_MILE = 1.609


def number_of(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


# Service and partner


def status(_: Call) -> Result:
    return Result(body={"status": "ok"})


def partner(call: Call) -> Result:
    return Result(body=call.tenant.record)


def permissions(call: Call) -> Result:
    return Result(body=list(call.tenant.permissions))


def features(call: Call) -> Result:
    return Result(body=list(call.tenant.features))


# Events


def events(call: Call, moved: Callable[[list[str], int, int], list[str]] | None = None) -> Result:
    """The pagination envelope of all events. `moved` is how a fault disturbs the order from page to page."""
    settings = call.settings
    limit = call.whole("limit", settings.default_page_limit)
    if limit > settings.max_page_limit:
        if settings.over_limit == "refuse":
            raise call.invalid(f"limit is at most {settings.max_page_limit}")
        limit = settings.max_page_limit
    page = call.whole(settings.page_parameter, 1)
    found = list(call.world.order(call.partner, call.as_of_s))
    if (call.one("descending") or "false").lower() == "true":
        found.reverse()
    if moved is not None:
        found = moved(found, page, limit)
    return Result(body=_page(found, page, limit, lambda eid: call.event(eid).record))


def _page(found: Sequence[T], page: int, limit: int, record: Callable[[T], Json]) -> Json:
    """One page of a list in the envelope of the document (API section 2.4)."""
    pages = math.ceil(len(found) / limit)
    return {
        "total": len(found),
        "limit": limit,
        "page": page,
        "pages": pages,
        "nextPage": page + 1 if page < pages else None,
        "prevPage": page - 1 if page > 1 else None,
        "items": [record(one) for one in found[(page - 1) * limit : page * limit]],
    }


def flagged(call: Call) -> Result:
    return Result(body=[each.record for each in call.listing() if each.record.get("frontend_status") == "FLAGGED"])


def event(call: Call) -> Result:
    return Result(body=call.event().record)


# Recommendations


def clusters(call: Call) -> Result:
    found = call.event()
    return Result(body={"tc_run_id": found.tc_run_id, "clusters": list(found.clusters)})


def suggested_tcs(call: Call) -> Result:
    budget, goal = call.number("budget"), call.choice("goal", GOALS)
    return Result(body=list(suggestions(call.event(), budget, goal)))


def suggestions(found: Happening, budget: float, goal: str) -> tuple[Record, ...]:
    """Exactly tc and tc_run_id, the latter as text (API section 2.1)."""
    if found.suggested is not None:
        return tuple({"tc": each.get("tc"), "tc_run_id": str(each.get("tc_run_id"))} for each in found.suggested)
    by_goal: dict[str, Callable[[Record], float]] = {
        "UTILIZATION": lambda each: number_of(each, "metric_pred") * number_of(each, "reach_estimate"),
        "ROAS": lambda each: number_of(each, "metric_pred"),
        "VISIBILITY": lambda each: number_of(each, "reach_estimate"),
        "LINK_CLICKS": lambda each: number_of(each, "size_share"),
    }
    best = sorted(found.clusters, key=by_goal[goal], reverse=True)
    many = max(1, int(budget // BUDGET_PER_CLUSTER))
    return tuple({"tc": each.get("tc"), "tc_run_id": str(found.tc_run_id)} for each in best[:many])


def expected_value(call: Call) -> Result:
    goal, budget = call.choice("goal", GOALS), call.number("budget")
    found = call.event()
    share = sum(number_of(each, "metric_pred") for each in found.clusters) / 5.0
    factor = {"UTILIZATION": 0.08, "ROAS": 3.2, "VISIBILITY": 55.0, "LINK_CLICKS": 1.4}[goal]
    return Result(body={"expected_value": f"{budget * factor * (1.0 + share):.2f}"})


def default_parameters(call: Call) -> Result:
    found = call.event()
    body: dict[str, Json] = {
        "total_budget": 500.0,
        "goal": "ROAS",
        "tcs": [each.get("tc") for each in found.clusters[:2]],
        "integration_details": [],
        "conversion_id": None,
        "custom_event_type": None,
        "lead_form_id": None,
    }
    return Result(body={**body, **found.defaults})


def budget_range(call: Call) -> Result:
    call.needed("runtime_in_days")
    days = call.whole("runtime_in_days", 1)
    found = call.event()
    lower, upper = range_for(found, days)
    return Result(body={"upper_limit": upper, "lower_limit": lower})


def range_for(found: Happening, days: int) -> tuple[float, float]:
    """Limits are per day and stop growing after a month."""
    counted = min(days, MAX_RANGE_DAYS)
    return found.lower_limit * counted, found.upper_limit * counted


def call_to_action(call: Call) -> Result:
    goal = call.choice("goal", GOALS)
    pixel = call.choice("has_pixel", ("true", "false"))
    call.needed("lead_form_id")
    actions = list(CALLS_TO_ACTION[goal])
    if call.one("lead_form_id"):
        actions.append("SIGN_UP")
    return Result(body=actions if pixel == "true" else [each for each in actions if each != "SHOP_NOW"])


def suggested_radius(call: Call) -> Result:
    location = call.needed("location")
    unit = call.choice("distance_unit", ("mile", "kilometer"))
    radius = RADIUS_MILES if unit == "mile" else round(RADIUS_MILES * KILOMETRES_PER_MILE, 1)
    return Result(body=[{"suggested_radius": radius, "distance_unit": unit, "city_id": f"city-{len(location)}"}])


# Campaigns


def setup_process(call: Call) -> Result:
    found = call.event()
    hidden = found.published and call.settings.setup_after_publish == "absent"
    if found.setup is None or hidden:
        raise Refusal(404, "error.not_found", "no draft of this event")
    return Result(body=setup_record(call, found))


def setup_record(call: Call, found: Happening) -> Record:
    settings = call.settings
    state = settings.setup_published if found.published else settings.setup_draft
    return {"eid": found.eid, **_shown(call, found.setup or {}), settings.setup_state_field: state}


def campaigns(call: Call) -> Result:
    found = call.event()
    settings = call.settings
    listed: list[Json] = [{"eid": found.eid, **_shown(call, each)} for each in found.campaigns]
    limit = settings.campaigns_limit or settings.default_page_limit
    if settings.campaigns_shape == "page":
        return Result(body=_page(listed, call.whole(settings.page_parameter, 1), limit, lambda one: one))
    cut = listed[: settings.campaigns_limit]
    shapes: dict[str, Json] = {
        "list": cut,
        "items": {"items": cut},
        "data": {"data": {"campaigns": cut}},
        "limited": {"items": cut, "limit": limit},
    }
    return Result(body=shapes[settings.campaigns_shape])


def _shown(call: Call, record: Record) -> dict[str, Json]:
    """A setup or a campaign, by a service that rounds what it shows too."""
    if call.settings.numbers_shown == "exact":
        return dict(record)
    return {name: round(value) if isinstance(value, float) else value for name, value in record.items()}


def task(call: Call) -> Result:
    found = call.event()
    if found.task is None:
        raise Refusal(404, "error.not_found", "no task of this event")
    moment = call.now_s if call.as_of_s is None else call.as_of_s
    return Result(body={"data": {"state": found.task.state(moment)}})


# Rows whose shape the document leaves open (G4): plausible answers of our own.
#
# They exist so that every row of the document can be called and every write has an effect in the books. Nobody should
# learn from here what the real service answers; docs/sandbox.md lists each shape as ours.
#
# Never used for a row whose shape is shown.

CURVE_DAYS = (60, 45, 30, 21, 14, 7, 3, 1, 0)
PREDICTION_TYPES = ("capacity", "ticket_count")
SHEET = "text/csv; charset=utf-8"
ATTRIBUTION_MODELS = "last_click"
EDITABLE = frozenset({"title", "city", "venue_name", "hall_name", "category", "start_date_time", "capacity"})


def denied_to_partners(call: Call) -> Result:
    """The generic campaign results (API section 7): known by its code, its status is ours."""
    raise Refusal(call.settings.denied_partner_status, "error.auth.not_authorized", "not for partner tokens")


# Events


def venues(call: Call) -> Result:
    cities, names = call.several("city"), call.several("venue")
    found = {(str(each.record.get("city")), str(each.record.get("venue_name"))) for each in call.listing()}
    kept = [
        {"city": city, "venue": venue}
        for city, venue in sorted(found)
        if (not cities or city in cities) and (not names or venue in names)
    ]
    return Result(body=kept)


def statistics(call: Call) -> Result:
    found = call.listing()
    active = [each for each in found if each.record.get("status") == "active"]
    running = [each for each in found if each.record.get("client_campaign_status") == "RUNNING"]
    return Result(body={"events": len(found), "active": len(active), "running": len(running)})


def event_statistics(call: Call) -> Result:
    found = call.event()
    tickets = sum(number_of(row, "tickets") for row in found.sales)
    revenue = sum(number_of(row, "revenue") for row in found.sales)
    return Result(body={"eid": found.eid, "tickets": tickets, "revenue": revenue, "campaigns": len(found.campaigns)})


def lookout_prediction(call: Call) -> Result:
    kind = call.choice("type", PREDICTION_TYPES)
    found = call.event()
    full = 1.0 if kind == "capacity" else number_of(found.record, "capacity")
    share = number_of(found.record, "predicted_sales_share") * full
    curve = [{"days_before": days, "value": round(share * (1.0 - days / 90.0), 4)} for days in CURVE_DAYS]
    return Result(body={"type": kind, "curve": curve})


def lookout_prediction_benchmark(call: Call) -> Result:
    """The event's own two numbers, in the unit and the place that the settings say; tickets are counted."""
    kind = call.choice("type", PREDICTION_TYPES)
    found = call.event()
    given = found.record.get("benchmark")
    prediction = given.get("prediction") if isinstance(given, Mapping) else None
    numbers = prediction if isinstance(prediction, Mapping) else {}
    unit = call.settings.benchmark_unit if kind == "capacity" else "fraction"
    whole = number_of(found.record, "capacity") if kind == "ticket_count" else 1.0
    shares = {name: round(_share(number_of(numbers, name), unit) * whole, 4) for name in ("value", "benchmark")}
    shapes: Mapping[str, Json] = {
        "record": {"type": kind, "benchmark": {"prediction": shares}},
        "flat": {"type": kind, **shares},
        "result": {"result": {"type": kind, "numbers": shares}},
    }
    return Result(body=shapes[call.settings.benchmark_shape])


def _share(number: float, unit: str) -> float:
    """The number as a fraction or as a percentage, whichever way the event has it; mixed: as the event has it."""
    if unit == "mixed":
        return number
    fraction = number / 100.0 if number > 1.0 else number
    return fraction * 100.0 if unit == "percent" else fraction


def tickets(call: Call) -> Result:
    capacity = number_of(call.event().record, "capacity")
    return Result(
        body=[
            {"category": "standard", "price": 35.0, "available": int(capacity * 0.8)},
            {"category": "premium", "price": 80.0, "available": int(capacity * 0.2)},
        ]
    )


def series(call: Call) -> Result:
    siblings = call.event().record.get("campaign_event_series")
    eids = siblings if isinstance(siblings, list | tuple) else []
    return Result(body=[each.record for each in call.listing() if each.eid in eids])


def available_events_for_series(call: Call) -> Result:
    found = call.event()
    siblings = found.record.get("campaign_event_series")
    taken = {found.eid, *(siblings if isinstance(siblings, list | tuple) else ())}
    return Result(body=[each.record for each in call.listing() if each.eid not in taken])


def edit_event(call: Call) -> Result:
    """The event-ingest service's edit: what is in the query becomes the event's metadata."""
    event_type, product = call.needed("event_type"), call.needed("partner_product")
    found = call.event()
    edits: dict[str, Json] = {"event_type": event_type, "partner_product": product}
    for key, value in call.request.query:
        if key in EDITABLE:
            edits[key] = int(value) if key == "capacity" and is_whole(value) else value
    before = {key: found.record.get(key) for key in edits}
    deed = Deed(eid=call.eid, operation="edit_event", target="metadata", before=before, after=edits)
    call.take_effect(deed, found.with_fields(edits))
    return Result(body={"eid": call.eid, **edits})


# Sales


def daily_revenue_summary(call: Call) -> Result:
    found = call.event(call.needed("event_id"))
    start, end = call.needed("start_date"), call.needed("end_date")
    rows = [row for row in found.sales if start <= str(row.get("date")) <= end]
    return Result(body={"currency": call.needed("currency"), "days": rows})


def ingest_summary(call: Call) -> Result:
    body = call.json_body()
    given = body.get("rows")
    if "eid" not in body or not isinstance(given, list):
        raise call.invalid("eid and rows are required")
    rows = tuple(row for row in given if isinstance(row, Mapping))
    return _add_sales(call, call.event(str(body["eid"])), rows, "ingest_summary")


def ingest_excel(call: Call) -> Result:
    """The file is not opened: one row says that it came and how large it was."""
    found = call.event(call.needed("eid"))
    row = {"date": "1970-01-01", "tickets": 0, "revenue": 0.0, "file_bytes": len(call.request.body)}
    return _add_sales(call, found, (row,), "ingest_excel")


def sales_edit_upload(call: Call) -> Result:
    deed = Deed(eid="", operation="sales_edit", target="sales_edit", before=None, after=len(call.request.body))
    call.take_effect(deed)
    return Result(body={"accepted_bytes": len(call.request.body)})


def sales_edit_export(call: Call) -> Result:
    lines = ["eid,date,tickets,revenue"]
    for each in call.listing():
        lines += [f"{each.eid},{row.get('date')},{row.get('tickets')},{row.get('revenue')}" for row in each.sales]
    return Result(content=(SHEET, "\n".join(lines).encode()))


def clear_sales(call: Call) -> Result:
    found = call.event(call.needed("eid"))
    deed = Deed(eid=found.eid, operation="clear_sales", target="sales", before=len(found.sales), after=0)
    call.take_effect(deed, replace(found, sales=()))
    return Result(body={"eid": found.eid})


def _add_sales(call: Call, found: Happening, rows: tuple[Record, ...], operation: str) -> Result:
    after = replace(found, sales=(*found.sales, *rows))
    deed = Deed(eid=found.eid, operation=operation, target="sales", before=len(found.sales), after=len(after.sales))
    call.take_effect(deed, after)
    return Result(status=201, body={"eid": found.eid, "rows": len(rows)})


# Campaigns


def event_types(_: Call) -> Result:
    return Result(body=["Purchase", "Lead", "ViewContent"])


def attribution_model(call: Call) -> Result:
    return Result(body={"eid": call.event().eid, "attribution_model": ATTRIBUTION_MODELS})


def adplatform_status(call: Call) -> Result:
    connected = call.tenant.adplatform_connected
    shapes: Mapping[str, Json] = {
        "flag": {"connected": connected},
        "nested": {"adplatform": {"is_connected": connected, "account": "act-1"}},
        "word": {"status": "CONNECTED" if connected else "DISCONNECTED"},
    }
    return Result(body=shapes[call.settings.adplatform_shape])


def campaign_results(call: Call) -> Result:
    found = call.event()
    results = [
        {"tc": each.get("tc"), "tc_run_id": each.get("tc_run_id"), "purchases": 0, "revenue": 0.0}
        for each in found.campaigns
    ]
    return Result(body={"eid": found.eid, "results": results})


def adplatform_insights(call: Call) -> Result:
    found = call.event()
    many = len(found.campaigns)
    return Result(body={"impressions": 1000 * many, "clicks": 37 * many, "spend": 12.5 * many})


def upload_media(call: Call) -> Result:
    number = sum(1 for effect in call.books.effects if effect.operation == "upload_media") + 1
    deed = Deed(eid="", operation="upload_media", target="media", before=None, after=len(call.request.body))
    call.take_effect(deed)
    return Result(status=201, body={"id": f"media-{number}"})
