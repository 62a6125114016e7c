"""Every row of the document's endpoint tables (API section 4), as one table.

One place answers "does this path exist, who may call it, is its shape shown or ours". A path that is not here is a
404, a method that is not here a 405; a trailing slash counts, because the document writes it in some rows and not in
others. Fixed words win over `{eid}`, so that `/events/venues` is not the event called venues.

Never looks into a request beyond its method, host and path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from worker.sandbox import reads, writes
from worker.sandbox import reads as assumed
from worker.sandbox.reads import Call, Result
from worker.sandbox.settings import Host, TwinRequest

Who = Literal["anyone", "partner", "admin"]
ANY_METHOD = "*"
REST = "..."


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One endpoint. `shown` False: the shape is our own. `answer` None: nobody but an admin ever gets there."""

    methods: tuple[str, ...]
    host: Host
    pattern: tuple[str, ...]
    who: Who
    shown: bool
    answer: Callable[[Call], Result] | None

    def names(self, segments: tuple[str, ...]) -> Mapping[str, str] | None:
        """What the placeholders of the pattern stand for in this path; None when it is another path."""
        pattern = self.pattern
        if pattern[-1] == REST:
            if len(segments) < len(pattern):
                return None
            pattern, segments = pattern[:-1], segments[: len(pattern) - 1]
        if len(pattern) != len(segments):
            return None
        found: dict[str, str] = {}
        for expected, given in zip(pattern, segments, strict=True):
            if expected.startswith("{") and given:
                found[expected[1:-1]] = given
            elif expected != given:
                return None
        return found


def _row(
    methods: str,
    path: str,
    answer: Callable[[Call], Result] | None,
    *,
    host: Host = "api",
    who: Who = "partner",
    shown: bool = True,
) -> Row:
    pattern = tuple(path.split("/")[1:])
    return Row(methods=tuple(methods.split()), host=host, pattern=pattern, who=who, shown=shown, answer=answer)


OURS = False

ROWS: tuple[Row, ...] = (
    # Section 4.1: service and partner. Signing in has its own door: it is the only call without a session.
    _row("GET", "/status/", reads.status, who="anyone", shown=OURS),
    _row("GET", "/partners/", reads.partner),
    _row("POST PUT", "/partners/", None, who="admin", shown=OURS),
    _row(ANY_METHOD, "/auth/users/csv_export", None, who="admin", shown=OURS),
    _row("PUT", "/rest_demo_data/...", None, who="admin", shown=OURS),
    _row("GET", "/permissions", reads.permissions),
    _row("GET", "/features", reads.features),
    # Section 4.2: Events.
    _row("GET", "/events/", reads.events),
    _row("GET", "/events/flagged/", reads.flagged, shown=OURS),
    _row("GET", "/events/venues", assumed.venues, shown=OURS),
    _row("GET", "/events/statistics", assumed.statistics, shown=OURS),
    _row("GET", "/events/{eid}", reads.event),
    _row("GET", "/events/{eid}/lookout_prediction_benchmark", assumed.lookout_prediction_benchmark, shown=OURS),
    _row("GET", "/events/{eid}/lookout_prediction", assumed.lookout_prediction, shown=OURS),
    _row("GET", "/daily_revenue_summary/", assumed.daily_revenue_summary, shown=OURS),
    _row("GET", "/events/{eid}/tickets", assumed.tickets, shown=OURS),
    _row("GET", "/events/{eid}/series", assumed.series, shown=OURS),
    _row("POST", "/events/{eid}/series", writes.series_add, shown=OURS),
    _row("DELETE", "/events/{eid}/series", writes.series_remove, shown=OURS),
    _row("GET", "/events/{eid}/available_events_for_series", assumed.available_events_for_series, shown=OURS),
    _row("PUT", "/events/{eid}/setup_frontend_status", writes.setup_frontend_status, shown=OURS),
    _row("PUT", "/events/last_updated_on_fe/{eid}", writes.last_updated_on_fe, host="cr", shown=OURS),
    _row("PUT", "/events/{eid}", assumed.edit_event, host="cr", shown=OURS),
    # Section 4.3: Sales.
    _row("POST", "/ingest/transaction_summary", assumed.ingest_summary, shown=OURS),
    _row("POST", "/ingest/transaction_summary/from_excel", assumed.ingest_excel, shown=OURS),
    _row("DELETE", "/daily_revenue_summary", assumed.clear_sales, shown=OURS),
    _row("GET", "/daily_revenue_summary/sales_edit_export", assumed.sales_edit_export, shown=OURS),
    _row("POST", "/daily_revenue_summary/sales_edit_export", assumed.sales_edit_upload, shown=OURS),
    # Section 4.4: Recommendations.
    _row("GET", "/events/{eid}/clusters", reads.clusters),
    _row("GET", "/events/{eid}/suggested_tcs", reads.suggested_tcs),
    _row("GET", "/events/{eid}/campaigns_expected_value", reads.expected_value),
    _row("GET", "/events/{eid}/default_campaigns_parameters", reads.default_parameters),
    _row("GET", "/events/{eid}/budget_min_max", reads.budget_range),
    _row("GET", "/setup_processes/call_to_action/", reads.call_to_action),
    _row("GET", "/adplatform_targeting/suggested_radius", reads.suggested_radius),
    # Section 4.5: Campaigns.
    _row("GET", "/setup_processes/event_types", assumed.event_types, shown=OURS),
    _row("GET", "/setup_processes/{eid}", reads.setup_process),
    _row("POST", "/setup_processes/{eid}", writes.create_setup, shown=OURS),
    _row("PUT", "/setup_processes/{eid}", writes.update_setup, shown=OURS),
    _row("POST", "/setup_processes/{eid}/boost", writes.boost),
    _row("POST", "/campaigns_setup", writes.campaigns_setup, shown=OURS),
    _row("POST", "/campaigns/", writes.create_campaign, shown=OURS),
    _row("GET", "/events/{eid}/campaigns", reads.campaigns, shown=OURS),
    _row("PUT", "/events/{eid}/reset_campaigns_setup", writes.reset_campaigns_setup, shown=OURS),
    _row("PUT", "/events/{eid}/client_campaign_status", writes.client_campaign_status),
    _row("GET", "/events/{eid}/client_campaign_status/task", reads.task),
    _row("PUT", "/events/{eid}/campaign_optimisation_status", writes.campaign_optimisation_status, shown=OURS),
    _row("PUT", "/events/{eid}/ad_campaign_optimisation_status", writes.ad_campaign_optimisation_status, shown=OURS),
    _row("GET", "/events/{eid}/attribution_model", assumed.attribution_model, shown=OURS),
    _row("GET", "/integrations/connect/adplatform/status", assumed.adplatform_status, shown=OURS),
    _row("GET", "/integrations/adplatform/events/{eid}/campaign_results", assumed.campaign_results, shown=OURS),
    _row("GET", "/integrations/adplatform/events/{eid}/adplatform_insights", assumed.adplatform_insights, shown=OURS),
    _row("GET", "/campaign_results/", assumed.denied_to_partners),
    _row("GET", "/events/{eid}/statistics", assumed.event_statistics, shown=OURS),
    _row("POST", "/media", assumed.upload_media, host="media", shown=OURS),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    row: Row
    names: Mapping[str, str]


def find(request: TwinRequest) -> Found | Literal["no_path", "no_method"]:
    """The row for a request, or why there is none."""
    return _find(request.host, request.method, request.segments)


@lru_cache(maxsize=4_000)
def _find(host: Host, method: str, segments: tuple[str, ...]) -> Found | Literal["no_path", "no_method"]:
    path_exists = False
    for row in ROWS:
        if row.host != host or (names := row.names(segments)) is None:
            continue
        if ANY_METHOD in row.methods or method in row.methods:
            return Found(row=row, names=names)
        path_exists = True
    return "no_method" if path_exists else "no_path"
