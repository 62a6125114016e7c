"""Rows whose shape the document leaves open (G4): plausible answers of our own.

They exist so that every row of the document can be called and every write has an effect in the books. Nobody should
learn from here what the real service answers; docs/sandbox.md lists each shape as ours.

Never used for a row whose shape is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from worker.sandbox.books import Deed
from worker.sandbox.call import Call, Result, is_whole
from worker.sandbox.delivery import Json, Record
from worker.sandbox.reads import number_of
from worker.sandbox.sessions import Refusal
from worker.sandbox.world import Happening

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
