"""Rows that only read: the partner, the events, the audience recommendations (API sections 4.1, 4.2, 4.4).

Shapes that the document shows are kept to the letter. Where suggestions depend on budget and goal, they do so here by
a simple open rule: a larger budget reaches more clusters, the goal decides which come first.

Never changes anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from worker.sandbox.call import Call, Result
from worker.sandbox.delivery import Json, Record
from worker.sandbox.sessions import Refusal
from worker.sandbox.world import Happening

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
    since_s = _changed_since_s(call)
    if since_s is not None:
        found = [eid for eid in found if call.world.changed_at_s(call.partner, eid, call.as_of_s) >= since_s]
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


def _changed_since_s(call: Call) -> float | None:
    """The second since which an event must have changed to be listed; None where all are asked for. That the list can
    be filtered so is not shown (API section 4.6, gap 2); it is off unless a setting names the parameter."""
    name = call.settings.changed_since_parameter
    since = call.one(name) if name is not None else None
    if since is None:
        return None
    try:
        moment = datetime.fromisoformat(since)
    except ValueError:
        raise call.invalid(f"{name} is a time, as in 2031-05-01T18:00:00Z") from None
    return moment.timestamp() - call.settings.unix_time_of_zero


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
