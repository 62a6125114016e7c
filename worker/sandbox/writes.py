"""Rows that write: to events, setups and campaigns (API sections 3.2 and 4.5), series, sales and media.

Each write takes effect through the one door of its call, with the target that it is about. None of them knows of
idempotency keys, because the service has none: the same write that comes twice takes effect twice wherever the
document does not forbid it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import replace

from worker.sandbox.reads import GOALS, Result, RowCall, is_whole, range_for, setup_record, siblings
from worker.sandbox.settings import Json, Record
from worker.sandbox.world import EDITABLE, Deed, Happening, Refusal, Task, campaign_record, same_cluster

SETUP = "setup"
CAMPAIGNS = "campaign:"
CLIENT_STATUS = "client_campaign_status"
FRONTEND_STATUSES = ("DEFAULT", "FLAGGED", "HIDDEN", "CANCELLED")
FE_STATUSES = ("RUNNING", "CANCELLED")
BOOST_CHECKED_DAYS = 30

VALUES: Mapping[str, tuple[str, str]] = {
    "client_campaign_status": ("RUNNING", "PAUSED"),
    "campaign_optimisation_status": ("ON", "OFF"),
    "ad_campaign_optimisation_status": ("ON", "OFF"),
}


def conflict(message: str) -> Refusal:
    return Refusal(409, "error.conflict", message)


# Status fields


def client_campaign_status(call: RowCall) -> Result:
    """204 at once; the work behind it is a task whose state can be read. The effect lands at once or with the task."""
    found = call.event()
    settings = call.settings
    value = _wanted(call, found, CLIENT_STATUS)
    fails = settings.task_fails or found.task_fails
    done_at_s = call.now_s + settings.task_duration_s
    result = settings.task_failed if fails else settings.task_succeeded
    with_task = replace(found, task=Task(done_at_s=done_at_s, result=result, pending=settings.task_pending))
    call.world.put(call.partner, call.eid, replace(with_task, task_fails=False), call.now_s)
    if fails:
        return Result(status=204)
    if settings.task_effect == "at_once":
        _set_field(call, CLIENT_STATUS, value)
        return Result(status=204)

    def land(at_s: float) -> None:
        _set_field(replace(call, now_s=at_s), CLIENT_STATUS, value)

    return Result(status=204, later=(settings.task_duration_s, land))


def optimisation_status(call: RowCall) -> Json:
    """The field of the event, or that of its ad campaigns: the path says which."""
    name = call.request.segments[-1]
    value = _wanted(call, call.event(), name)
    _set_field(call, name, value)
    return {"eid": call.eid, name: value}


def _wanted(call: RowCall, found: Happening, name: str) -> str:
    """The value that the write asks for; under toggle semantics, the other one, whatever it asks for."""
    semantics = getattr(call.settings, f"{name}_semantics")
    template = getattr(call.settings, f"{name}_query")
    first, second = VALUES[name]
    if semantics == "toggle":
        return second if found.record.get(name) == first else first
    value = call.templated(template).get("value", "")
    if value not in (first, second):
        raise call.invalid(f"{name} is {first} or {second}")
    return value


def _set_field(call: RowCall, name: str, value: str, frees: tuple[str, ...] = ()) -> None:
    found = call.world.at(call.partner, call.eid)
    if found is not None:
        after = found.with_fields({name: value})
        call.take_effect(f"set_{name}", name, found, after, lambda one: one.record.get(name), frees)


def setup_frontend_status(call: RowCall) -> Json:
    call.event()
    given = call.templated(call.settings.frontend_status_query, call.settings.frontend_status_body)
    value = given.get("value", "")
    if value not in FRONTEND_STATUSES:
        raise call.invalid(f"frontend_status is one of {', '.join(FRONTEND_STATUSES)}")
    _set_field(call, "frontend_status", value, frees=("last_updated_on_fe",))
    return {"eid": call.eid, "frontend_status": value}


def last_updated_on_fe(call: RowCall) -> Json:
    """The second step of a frontend_status write, on the other service. What it leaves cannot be read back."""
    found = call.event()
    given = call.templated(call.settings.last_updated_on_fe_query, call.settings.last_updated_on_fe_body)
    value = given.get("value")
    if value not in FE_STATUSES:
        raise call.invalid("status is RUNNING or CANCELLED")
    after = replace(found, last_updated_on_fe=value)
    call.take_effect("last_updated_on_fe", "last_updated_on_fe", found, after, lambda one: one.last_updated_on_fe)
    return {"eid": call.eid}


# Setup processes


def create_setup(call: RowCall) -> Result:
    found = call.event()
    body = _setup_fields(call)
    for name in ("goal", "total_budget"):
        if name not in body:
            raise call.invalid(f"{name} is required")
    if found.setup is not None and call.settings.create_existing == "conflict":
        raise conflict("a setup of this event exists")
    after = replace(found, setup=body, published=False)
    call.take_effect("create_setup", SETUP, found, after, _setup_value)
    return Result(status=call.settings.create_setup_status, body=setup_record(call, after))


def update_setup(call: RowCall) -> Json:
    found = call.event()
    if found.setup is None:
        raise Refusal(404, "error.not_found", "no draft of this event")
    if found.published:
        raise conflict("this setup is published")
    after = replace(found, setup={**found.setup, **_setup_fields(call)})
    call.take_effect("update_setup", SETUP, found, after, _setup_value)
    return setup_record(call, after)


def boost(call: RowCall) -> Json:
    """Publishes: the setup goes live and a campaign starts for each cluster. 200 and not 201 (API section 3.2)."""
    found = call.event()
    settings = call.settings
    if found.setup is None:
        raise Refusal(404, "error.not_found", "no draft of this event")
    if found.published and settings.boost_published == "conflict":
        raise conflict("this setup is published")
    if settings.enforce_budget_range:
        _check_budget(call, found)
    chosen = found.setup.get("tcs") or [each.get("tc") for each in found.clusters[:2]]
    tcs = chosen if isinstance(chosen, list | tuple) else []
    started = tuple(_campaign(found, tc, found.tc_run_id, index) for index, tc in enumerate(tcs))
    fields: dict[str, Json] = {CLIENT_STATUS: "RUNNING"}
    if settings.boost_campaign_status is not None:
        fields["campaign_status"] = settings.boost_campaign_status
    after = replace(found, published=True, campaigns=(*found.campaigns, *started)).with_fields(fields)
    call.take_effect("boost", SETUP, found, after, _setup_value, frees=(CAMPAIGNS, CLIENT_STATUS))
    return setup_record(call, after)


def reset_campaigns_setup(call: RowCall) -> Json:
    found = call.event()
    kept = found.setup if call.settings.reset_setup_result == "draft" else None
    after = replace(found, setup=kept, published=False, campaigns=())
    call.take_effect("reset_setup", SETUP, found, after, _setup_value, frees=(CAMPAIGNS,))
    return {"eid": call.eid}


def _setup_fields(call: RowCall) -> dict[str, Json]:
    """The body of a draft write: goal and budget are checked, what else it holds is kept as it came."""
    body = dict(call.json_body())
    if "goal" in body and body["goal"] not in GOALS:
        raise call.invalid(f"goal is one of {', '.join(GOALS)}")
    budget = body.get("total_budget", 0)
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise call.invalid("total_budget is a number")
    for name in ("eid", call.settings.setup_state_field):
        body.pop(name, None)
    return {name: value if name == "goal" else _kept(call, value) for name, value in body.items()}


def _check_budget(call: RowCall, found: Happening) -> None:
    lower, upper = range_for(found, BOOST_CHECKED_DAYS)
    budget = (found.setup or {}).get("total_budget")
    if not isinstance(budget, int | float) or not lower <= budget <= upper:
        raise call.invalid(f"total_budget is from {lower:g} to {upper:g}")


def _setup_value(found: Happening) -> Json:
    if found.setup is None:
        return None
    return {**found.setup, "published": found.published, "campaigns": len(found.campaigns)}


# Campaigns


def campaigns_setup(call: RowCall) -> Json:
    """Edits one cluster of a published setup, named by event, cluster and run (API section 2.6)."""
    body = call.json_body()
    if not {"eid", "tc", "tc_run_id"} <= body.keys():
        raise call.invalid("eid, tc and tc_run_id are required")
    found = call.event(str(body["eid"]))
    if not found.published:
        raise conflict("this setup is not published")
    tc, tc_run_id = _kept(call, body["tc"]), _booked(call, found, body["tc_run_id"])

    def named(event: Happening) -> Record | None:
        return next((each for each in event.campaigns if same_cluster(each, tc, tc_run_id)), None)

    known = named(found)
    if known is None and call.settings.edit_unknown_cluster == "not_found":
        raise Refusal(404, "error.not_found", "no campaign of this cluster")
    edits = {key: _kept(call, value) for key, value in body.items() if key not in ("eid", "tc", "tc_run_id")}
    old = found.campaigns if known else (*found.campaigns, _campaign(found, tc, tc_run_id))
    new = tuple({**each, **edits} if same_cluster(each, tc, tc_run_id) else each for each in old)
    after = replace(found, campaigns=new)
    call.take_effect("edit_cluster", f"{CAMPAIGNS}{body['tc']}:{body['tc_run_id']}", found, after, named)
    return {"eid": found.eid, **(named(after) or {})}


def create_campaign(call: RowCall) -> Result:
    """Not idempotent: each one that arrives is one more campaign."""
    given = call.templated(call.settings.create_campaign_query)
    found = call.event(given.get("eid", ""))
    tc, tc_run_id = given.get("tc", ""), given.get("tc_run_id", "")
    if not tc or not is_whole(tc_run_id):
        raise call.invalid("tc and a whole tc_run_id are required")
    created = _campaign(found, _kept(call, tc), _booked(call, found, int(tc_run_id)))

    def same(event: Happening) -> int:
        return sum(same_cluster(each, created["tc"], created["tc_run_id"]) for each in event.campaigns)

    after = replace(found, campaigns=(*found.campaigns, created))
    call.take_effect("create_campaign", f"{CAMPAIGNS}{tc}:{tc_run_id}", found, after, same)
    return Result(status=201, body={"eid": found.eid, **created})


def _kept(call: RowCall, value: Json) -> Json:
    """A text as the service keeps it."""
    if not isinstance(value, str):
        return value
    spelled = {
        "as_sent": value,
        "trimmed": value.strip(),
        "decomposed": unicodedata.normalize("NFD", value),
        "lower": value.lower(),
    }
    return spelled[call.settings.text_spelling]


def _booked(call: RowCall, found: Happening, tc_run_id: Json) -> Json:
    """The run under which a campaign is booked."""
    return found.tc_run_id if call.settings.campaign_run == "newest" else tc_run_id


def _campaign(found: Happening, tc: Json, tc_run_id: Json, index: int = 0) -> Record:
    run = int(tc_run_id) if isinstance(tc_run_id, str) and is_whole(tc_run_id) else tc_run_id
    return campaign_record(len(found.campaigns) + index + 1, tc, run)


# Series


def change_series(call: RowCall) -> Json:
    """POST adds events to the series, DELETE takes them out."""
    found = call.event()
    asked = call.several("event_series")
    if not asked:
        raise call.invalid("event_series is required")
    before = siblings(found)
    operation = "series_add" if call.request.method == "POST" else "series_remove"
    if operation == "series_add":
        for eid in asked:
            call.event(eid)
        after = [*before, *(eid for eid in dict.fromkeys(asked) if eid not in before)]
    else:
        after = [eid for eid in before if eid not in asked]
    call.take_effect(operation, "series", found, found.with_fields({"campaign_event_series": after}), siblings)
    return {"eid": call.eid, "campaign_event_series": after}


# Events' metadata, sales and media


def edit_event(call: RowCall) -> Json:
    """The event-ingest service's edit: what is in the query becomes the event's metadata."""
    event_type, product = call.needed("event_type"), call.needed("partner_product")
    found = call.event()
    edits: dict[str, Json] = {"event_type": event_type, "partner_product": product}
    for key, value in call.request.query:
        if key in EDITABLE:
            edits[key] = int(value) if key == "capacity" and is_whole(value) else value
    after = found.with_fields(edits)
    call.take_effect("edit_event", "metadata", found, after, lambda one: {key: one.record.get(key) for key in edits})
    return {"eid": call.eid, **edits}


def ingest_summary(call: RowCall) -> Json:
    body = call.json_body()
    given = body.get("rows")
    if "eid" not in body or not isinstance(given, list):
        raise call.invalid("eid and rows are required")
    rows = tuple(row for row in given if isinstance(row, Mapping))
    return _add_sales(call, call.event(str(body["eid"])), rows, "ingest_summary")


def ingest_excel(call: RowCall) -> Json:
    """The file is not opened: one row says that it came and how large it was."""
    found = call.event(call.needed("eid"))
    row = {"date": "1970-01-01", "tickets": 0, "revenue": 0.0, "file_bytes": len(call.request.body)}
    return _add_sales(call, found, (row,), "ingest_excel")


def sales_edit_upload(call: RowCall) -> Json:
    call.book(Deed(eid="", operation="sales_edit", target="sales_edit", before=None, after=len(call.request.body)))
    return {"accepted_bytes": len(call.request.body)}


def clear_sales(call: RowCall) -> Json:
    found = call.event(call.needed("eid"))
    call.take_effect("clear_sales", "sales", found, replace(found, sales=()), lambda one: len(one.sales))
    return {"eid": found.eid}


def _add_sales(call: RowCall, found: Happening, rows: tuple[Record, ...], operation: str) -> Result:
    after = replace(found, sales=(*found.sales, *rows))
    call.take_effect(operation, "sales", found, after, lambda one: len(one.sales))
    return Result(status=201, body={"eid": found.eid, "rows": len(rows)})


def upload_media(call: RowCall) -> Result:
    number = sum(1 for effect in call.books.effects if effect.operation == "upload_media") + 1
    call.book(Deed(eid="", operation="upload_media", target="media", before=None, after=len(call.request.body)))
    return Result(status=201, body={"id": f"media-{number}"})
