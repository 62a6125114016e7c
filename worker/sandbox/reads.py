"""What a row of the API sees and answers, and the rows that only read (API sections 4.1 to 4.5).

Shapes that the document shows are kept to the letter. Where suggestions depend on budget and goal, they do so here by
a simple open rule: a larger budget reaches more clusters, the goal decides which come first. Rows whose shape the
document leaves open (G4) get plausible answers of our own, so that every row can be called; docs/sandbox.md lists them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.sandbox.faults import Fault
from worker.sandbox.settings import Json, Record, TwinRequest, TwinSettings, filled
from worker.sandbox.world import Deed, Happening, Refusal, Tenant, TwinBooks, TwinWorld, same_cluster

MAX_DIGITS = 12
LARGEST_NUMBER = 1e15


def is_whole(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What a row answers: JSON, or bytes of a spreadsheet. `later`: what takes place so many seconds after that."""

    status: int = 200
    body: Json = None
    later: tuple[float, Callable[[float], None]] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RowCall:
    """One request on its way through a row: the parts of its path, the world, the books and the moment.

    Rows answer and take effect; both go through here, so that no effect can bypass the books and no row needs to know
    about tokens or sockets. Whether a request is allowed was decided before.
    """

    world: TwinWorld
    books: TwinBooks
    settings: TwinSettings
    request: TwinRequest
    request_id: str
    now_s: float
    fault: Fault | None
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def partner(self) -> str:
        return self.request.partner

    @property
    def tenant(self) -> Tenant:
        return self.world.tenants[self.partner]

    @property
    def eid(self) -> str:
        return self.names["eid"]

    @property
    def as_of_s(self) -> float | None:
        """The past moment that a lagging replica shows; None: now."""
        if self.fault is None or self.fault.kind != "stale_reads" or not self.request.is_read:
            return None
        return self.now_s - self.fault.number("by_s", 30.0)

    def event(self, eid: str | None = None) -> Happening:
        """The event of the path (or a named one), or the service's 404."""
        found = self.world.at(self.partner, self.eid if eid is None else eid, self.as_of_s)
        if found is None:
            raise Refusal(404, "error.not_found", "no such event")
        return found

    def listing(self) -> list[Happening]:
        return self.world.listing(self.partner, self.as_of_s)

    def take_effect(
        self,
        operation: str,
        target: str,
        before: Happening,
        after: Happening,
        value: Callable[[Happening], Json],
        frees: tuple[str, ...] = (),
    ) -> None:
        """The event's new version and its entry in the books. `value`: what the target is, of either version; `frees`:
        other targets that change with it."""
        self.world.put(self.partner, after.eid, after, self.now_s)
        was, now = value(before), value(after)
        self.book(Deed(eid=after.eid, operation=operation, target=target, before=was, after=now, frees=frees))

    def book(self, deed: Deed) -> None:
        self.books.effect(deed, self.request, self.request_id, self.now_s)

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
        if not abs(value) <= LARGEST_NUMBER:
            raise self.invalid(f"query parameter {name} is a number, up to {LARGEST_NUMBER:g}")
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
            body = json.loads(self.request.body)
            # NaN, numbers out of range and halves of surrogate pairs can be read, but are no JSON to give back.
            json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError):
            raise self.invalid("the body is not JSON") from None
        if not isinstance(body, dict):
            raise self.invalid("the body is a JSON object")
        return body

    def templated(self, query: Mapping[str, str] | None, body: Mapping[str, str] | None = None) -> dict[str, str]:
        """What was sent in the place of a template's placeholders: in the body where there is a template of it, else in
        the query."""
        template, given = (query or {}, dict(self.request.query)) if body is None else (body, self.json_body())
        found = filled(template, given)
        if found is None or len({found.get("eid"), self.names.get("eid")} - {None}) > 1:
            raise self.invalid(f"{'query parameters' if body is None else 'body fields'} needed: {', '.join(template)}")
        return found

    def invalid(self, message: str) -> Refusal:
        return Refusal(self.settings.invalid_status, "error.validation", message)


GOALS = ("UTILIZATION", "ROAS", "VISIBILITY", "LINK_CLICKS")
# What of a cluster decides how good it is for a goal.
DECIDING = {
    "UTILIZATION": ("metric_pred", "reach_estimate"),
    "ROAS": ("metric_pred",),
    "VISIBILITY": ("reach_estimate",),
    "LINK_CLICKS": ("size_share",),
}
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
CURVE_DAYS = (60, 45, 30, 21, 14, 7, 3, 1, 0)
PREDICTION_TYPES = ("capacity", "ticket_count")
ATTRIBUTION_MODELS = "last_click"


def number_of(record: Record, name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


# Service and partner


def turned_away(call: RowCall) -> Json:
    """The generic campaign results (API section 7), known by their code: the status is ours. What is for admins only
    turns a partner away before."""
    raise Refusal(call.settings.denied_partner_status, "error.auth.not_authorized", "not for partner tokens")


# Events


def events(call: RowCall) -> Json:
    """The pagination envelope of all events."""
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
    if call.fault is not None:
        found = _disturbed(found, page, limit, call.fault)
    envelope = _page(found, page, limit)
    return {**envelope, "items": [call.event(eid).record for eid in envelope["items"]]}


def _disturbed(eids: list[str], page: int, limit: int, fault: Fault) -> list[str]:
    """The listing with a fault: shifted from page to page, or without some events."""
    if fault.kind == "vanish":
        return [eid for eid in eids if eid not in fault.names("eid")]
    if fault.kind == "reordered_pages" and eids:
        places = int(fault.number("shift", max(1, limit // 2))) * (page - 1) % len(eids)
        return [*eids[places:], *eids[:places]]
    return eids


def _page(found: Sequence[Json], page: int, limit: int) -> dict[str, Any]:
    """One page of a list in the envelope of the document (API section 2.4)."""
    pages = math.ceil(len(found) / limit)
    return {
        "total": len(found),
        "limit": limit,
        "page": page,
        "pages": pages,
        "nextPage": page + 1 if page < pages else None,
        "prevPage": page - 1 if page > 1 else None,
        "items": found[(page - 1) * limit : page * limit],
    }


def flagged(call: RowCall) -> Json:
    return [each.record for each in call.listing() if each.record.get("frontend_status") == "FLAGGED"]


def venues(call: RowCall) -> Json:
    cities, names = call.several("city"), call.several("venue")
    found = {(str(each.record.get("city")), str(each.record.get("venue_name"))) for each in call.listing()}
    return [
        {"city": city, "venue": venue}
        for city, venue in sorted(found)
        if (not cities or city in cities) and (not names or venue in names)
    ]


def statistics(call: RowCall) -> Json:
    found = call.listing()
    active = [each for each in found if each.record.get("status") == "active"]
    running = [each for each in found if each.record.get("client_campaign_status") == "RUNNING"]
    return {"events": len(found), "active": len(active), "running": len(running)}


def event_statistics(call: RowCall) -> Json:
    found = call.event()
    tickets = sum(number_of(row, "tickets") for row in found.sales)
    revenue = sum(number_of(row, "revenue") for row in found.sales)
    totals = {"eid": found.eid, "tickets": tickets, "revenue": revenue, "campaigns": len(found.campaigns)}
    return {**totals, **found.statistics}


def lookout_prediction(call: RowCall) -> Json:
    kind = call.choice("type", PREDICTION_TYPES)
    found = call.event()
    full = 1.0 if kind == "capacity" else number_of(found.record, "capacity")
    share = number_of(found.record, "predicted_sales_share") * full
    curve = [{"days_before": days, "value": round(share * (1.0 - days / 90.0), 4)} for days in CURVE_DAYS]
    return {"type": kind, "curve": curve}


def lookout_prediction_benchmark(call: RowCall) -> Json:
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
    return shapes[call.settings.benchmark_shape]


def _share(number: float, unit: str) -> float:
    """The number as a fraction or as a percentage, whichever way the event has it; mixed: as the event has it."""
    if unit == "mixed":
        return number
    fraction = number / 100.0 if number > 1.0 else number
    return fraction * 100.0 if unit == "percent" else fraction


def tickets(call: RowCall) -> Json:
    capacity = number_of(call.event().record, "capacity")
    return [
        {"category": "standard", "price": 35.0, "available": int(capacity * 0.8)},
        {"category": "premium", "price": 80.0, "available": int(capacity * 0.2)},
    ]


def series(call: RowCall) -> Json:
    eids = siblings(call.event())
    return [each.record for each in call.listing() if each.eid in eids]


def siblings(found: Happening) -> list[str]:
    """The other events of its series."""
    given = found.record.get("campaign_event_series")
    return [str(each) for each in given] if isinstance(given, list | tuple) else []


def available_events_for_series(call: RowCall) -> Json:
    found = call.event()
    taken = {found.eid, *siblings(found)}
    return [each.record for each in call.listing() if each.eid not in taken]


# Sales


def daily_revenue_summary(call: RowCall) -> Json:
    found = call.event(call.needed("event_id"))
    start, end = call.needed("start_date"), call.needed("end_date")
    rows = [row for row in found.sales if start <= str(row.get("date")) <= end]
    return {"currency": call.needed("currency"), "days": rows}


def sales_edit_export(call: RowCall) -> Json:
    lines = ["eid,date,tickets,revenue"]
    for each in call.listing():
        lines += [f"{each.eid},{row.get('date')},{row.get('tickets')},{row.get('revenue')}" for row in each.sales]
    return "\n".join(lines).encode()


# Recommendations


def clusters(call: RowCall) -> Json:
    found = call.event()
    return {"tc_run_id": found.tc_run_id, "clusters": found.clusters}


def suggested_tcs(call: RowCall) -> Json:
    budget, goal = call.number("budget"), call.choice("goal", GOALS)
    return list(suggestions(call.event(), budget, goal))


def suggestions(found: Happening, budget: float, goal: str) -> tuple[Record, ...]:
    """Exactly tc and tc_run_id, the latter as text (API section 2.1)."""
    if found.suggested_tcs is not None:
        return tuple({"tc": each.get("tc"), "tc_run_id": str(each.get("tc_run_id"))} for each in found.suggested_tcs)
    best = sorted(
        found.clusters, key=lambda each: math.prod(number_of(each, name) for name in DECIDING[goal]), reverse=True
    )
    many = max(1, int(budget // BUDGET_PER_CLUSTER))
    return tuple({"tc": each.get("tc"), "tc_run_id": str(found.tc_run_id)} for each in best[:many])


def expected_value(call: RowCall) -> Json:
    goal, budget = call.choice("goal", GOALS), call.number("budget")
    found = call.event()
    share = sum(number_of(each, "metric_pred") for each in found.clusters) / 5.0
    factor = {"UTILIZATION": 0.08, "ROAS": 3.2, "VISIBILITY": 55.0, "LINK_CLICKS": 1.4}[goal]
    return {"expected_value": f"{budget * factor * (1.0 + share):.2f}"}


def default_parameters(call: RowCall) -> Json:
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
    return {**body, **found.defaults}


def budget_range(call: RowCall) -> Json:
    call.needed("runtime_in_days")
    days = call.whole("runtime_in_days", 1)
    found = call.event()
    lower, upper = range_for(found, days)
    return {"upper_limit": upper, "lower_limit": lower}


def range_for(found: Happening, days: int) -> tuple[float, float]:
    """Limits are per day and stop growing after a month."""
    counted = min(days, MAX_RANGE_DAYS)
    return found.lower_limit * counted, found.upper_limit * counted


def call_to_action(call: RowCall) -> Json:
    goal = call.choice("goal", GOALS)
    pixel = call.choice("has_pixel", ("true", "false"))
    call.needed("lead_form_id")
    actions = list(CALLS_TO_ACTION[goal])
    if call.one("lead_form_id"):
        actions.append("SIGN_UP")
    return actions if pixel == "true" else [each for each in actions if each != "SHOP_NOW"]


def suggested_radius(call: RowCall) -> Json:
    location = call.needed("location")
    unit = call.choice("distance_unit", ("mile", "kilometer"))
    radius = RADIUS_MILES if unit == "mile" else round(RADIUS_MILES * KILOMETRES_PER_MILE, 1)
    return [{"suggested_radius": radius, "distance_unit": unit, "city_id": f"city-{len(location)}"}]


# Campaigns


def setup_process(call: RowCall) -> Json:
    found = call.event()
    hidden = found.published and call.settings.setup_after_publish == "absent"
    if found.setup is None or hidden:
        raise Refusal(404, "error.not_found", "no draft of this event")
    return setup_record(call, found)


def setup_record(call: RowCall, found: Happening) -> Record:
    settings = call.settings
    state = settings.setup_published if found.published else settings.setup_draft
    return {"eid": found.eid, **_shown(call, found.setup or {}), settings.setup_state_field: state}


def campaigns(call: RowCall) -> Json:
    found = call.event()
    settings = call.settings
    listed: list[Json] = [{"eid": found.eid, **_shown(call, each)} for each in found.campaigns]
    limit = settings.campaigns_limit or settings.default_page_limit
    if settings.campaigns_shape == "page":
        return _page(listed, call.whole(settings.page_parameter, 1), limit)
    cut = listed[: settings.campaigns_limit]
    shapes: dict[str, Json] = {
        "list": cut,
        "items": {"items": cut},
        "data": {"data": {"campaigns": cut}},
        "limited": {"items": cut, "limit": limit},
    }
    return shapes[settings.campaigns_shape]


def _shown(call: RowCall, record: Record) -> dict[str, Json]:
    """A setup or a campaign, by a service that rounds what it shows too."""
    if call.settings.numbers_shown == "exact":
        return dict(record)
    return {name: round(value) if isinstance(value, float) else value for name, value in record.items()}


def task(call: RowCall) -> Json:
    found = call.event()
    if found.task is None:
        raise Refusal(404, "error.not_found", "no task of this event")
    moment = call.now_s if call.as_of_s is None else call.as_of_s
    return {"data": {"state": found.task.state(moment)}}


def attribution_model(call: RowCall) -> Json:
    return {"eid": call.event().eid, "attribution_model": ATTRIBUTION_MODELS}


def adplatform_status(call: RowCall) -> Json:
    connected = call.tenant.adplatform_connected
    shapes: Mapping[str, Json] = {
        "flag": {"connected": connected},
        "nested": {"adplatform": {"is_connected": connected, "account": "act-1"}},
        "word": {"status": "CONNECTED" if connected else "DISCONNECTED"},
    }
    return shapes[call.settings.adplatform_shape]


def campaign_results(call: RowCall) -> Json:
    found = call.event()
    results = []
    for each in found.campaigns:
        named = {"tc": each.get("tc"), "tc_run_id": each.get("tc_run_id")}
        its = (one for one in found.results if same_cluster(each, one["tc"], one.get("tc_run_id", named["tc_run_id"])))
        results.append({"purchases": 0, "revenue": 0.0, **next(its, {}), **named})
    return {"eid": found.eid, "results": results}


def adplatform_insights(call: RowCall) -> Json:
    found = call.event()
    many = len(found.campaigns)
    return {"impressions": 1000 * many, "clicks": 37 * many, "spend": 12.5 * many, **found.insights}
