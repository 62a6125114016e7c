"""Every row of the document's endpoint tables (API section 4), as one table.

One place answers "does this path exist, who may call it, is its shape shown or ours". A path that is not here is a
404, a method that is not here a 405; a trailing slash counts, because the document writes it in some rows and not in
others. Fixed words win over `{eid}`, so that `/events/venues` is not the event called venues.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import unquote

from starlette.routing import compile_path

from worker.sandbox import reads, writes
from worker.sandbox.exchange import Host, Json, TwinRequest
from worker.sandbox.reads import RowCall
from worker.sandbox.world import Refusal

Who = Literal["anyone", "partner", "admin"]
ANY_METHOD = "*"


class ApiRow:
    """One endpoint, its path spelled as Starlette spells paths. `answer` gives JSON, or a `Result` where there is more
    to say. `shown` False: the shape is our own."""

    def __init__(
        self,
        methods: str,
        path: str,
        answer: Callable[[RowCall], Json],
        *,
        host: Host = "api",
        who: Who = "partner",
        shown: bool = True,
    ) -> None:
        self.methods = tuple(methods.split())
        self.path = path
        self.answer = answer
        self.host = host
        self.who = who
        self.shown = shown
        self._pattern, _, _ = compile_path(path)

    def names(self, path: str) -> Mapping[str, str] | None:
        """What the placeholders stand for in a raw path, in which a slash of a name is encoded; None: another path."""
        found = self._pattern.match(path)
        return None if found is None else {name: unquote(part) for name, part in found.groupdict().items()}


OURS = False

ROWS: tuple[ApiRow, ...] = (
    # Section 4.1: service and partner. Signing in has its own door: it is the only call without a session.
    ApiRow("GET", "/status/", reads.status, who="anyone", shown=OURS),
    ApiRow("GET", "/partners/", reads.partner),
    ApiRow("POST PUT", "/partners/", reads.for_admins, who="admin", shown=OURS),
    ApiRow(ANY_METHOD, "/auth/users/csv_export", reads.for_admins, who="admin", shown=OURS),
    ApiRow("PUT", "/rest_demo_data/{rest:path}", reads.for_admins, who="admin", shown=OURS),
    ApiRow("GET", "/permissions", reads.permissions),
    ApiRow("GET", "/features", reads.features),
    # Section 4.2: Events.
    ApiRow("GET", "/events/", reads.events),
    ApiRow("GET", "/events/flagged/", reads.flagged, shown=OURS),
    ApiRow("GET", "/events/venues", reads.venues, shown=OURS),
    ApiRow("GET", "/events/statistics", reads.statistics, shown=OURS),
    ApiRow("GET", "/events/{eid}", reads.event),
    ApiRow("GET", "/events/{eid}/lookout_prediction_benchmark", reads.lookout_prediction_benchmark, shown=OURS),
    ApiRow("GET", "/events/{eid}/lookout_prediction", reads.lookout_prediction, shown=OURS),
    ApiRow("GET", "/daily_revenue_summary/", reads.daily_revenue_summary, shown=OURS),
    ApiRow("GET", "/events/{eid}/tickets", reads.tickets, shown=OURS),
    ApiRow("GET", "/events/{eid}/series", reads.series, shown=OURS),
    ApiRow("POST", "/events/{eid}/series", writes.change_series, shown=OURS),
    ApiRow("DELETE", "/events/{eid}/series", writes.change_series, shown=OURS),
    ApiRow("GET", "/events/{eid}/available_events_for_series", reads.available_events_for_series, shown=OURS),
    ApiRow("PUT", "/events/{eid}/setup_frontend_status", writes.setup_frontend_status, shown=OURS),
    ApiRow("PUT", "/events/last_updated_on_fe/{eid}", writes.last_updated_on_fe, host="cr", shown=OURS),
    ApiRow("PUT", "/events/{eid}", writes.edit_event, host="cr", shown=OURS),
    # Section 4.3: Sales.
    ApiRow("POST", "/ingest/transaction_summary", writes.ingest_summary, shown=OURS),
    ApiRow("POST", "/ingest/transaction_summary/from_excel", writes.ingest_excel, shown=OURS),
    ApiRow("DELETE", "/daily_revenue_summary", writes.clear_sales, shown=OURS),
    ApiRow("GET", "/daily_revenue_summary/sales_edit_export", reads.sales_edit_export, shown=OURS),
    ApiRow("POST", "/daily_revenue_summary/sales_edit_export", writes.sales_edit_upload, shown=OURS),
    # Section 4.4: Recommendations.
    ApiRow("GET", "/events/{eid}/clusters", reads.clusters),
    ApiRow("GET", "/events/{eid}/suggested_tcs", reads.suggested_tcs),
    ApiRow("GET", "/events/{eid}/campaigns_expected_value", reads.expected_value),
    ApiRow("GET", "/events/{eid}/default_campaigns_parameters", reads.default_parameters),
    ApiRow("GET", "/events/{eid}/budget_min_max", reads.budget_range),
    ApiRow("GET", "/setup_processes/call_to_action/", reads.call_to_action),
    ApiRow("GET", "/adplatform_targeting/suggested_radius", reads.suggested_radius),
    # Section 4.5: Campaigns.
    ApiRow("GET", "/setup_processes/event_types", reads.event_types, shown=OURS),
    ApiRow("GET", "/setup_processes/{eid}", reads.setup_process),
    ApiRow("POST", "/setup_processes/{eid}", writes.create_setup, shown=OURS),
    ApiRow("PUT", "/setup_processes/{eid}", writes.update_setup, shown=OURS),
    ApiRow("POST", "/setup_processes/{eid}/boost", writes.boost),
    ApiRow("POST", "/campaigns_setup", writes.campaigns_setup, shown=OURS),
    ApiRow("POST", "/campaigns/", writes.create_campaign, shown=OURS),
    ApiRow("GET", "/events/{eid}/campaigns", reads.campaigns, shown=OURS),
    ApiRow("PUT", "/events/{eid}/reset_campaigns_setup", writes.reset_campaigns_setup, shown=OURS),
    ApiRow("PUT", "/events/{eid}/client_campaign_status", writes.client_campaign_status),
    ApiRow("GET", "/events/{eid}/client_campaign_status/task", reads.task),
    ApiRow("PUT", "/events/{eid}/campaign_optimisation_status", writes.optimisation_status, shown=OURS),
    ApiRow("PUT", "/events/{eid}/ad_campaign_optimisation_status", writes.optimisation_status, shown=OURS),
    ApiRow("GET", "/events/{eid}/attribution_model", reads.attribution_model, shown=OURS),
    ApiRow("GET", "/integrations/connect/adplatform/status", reads.adplatform_status, shown=OURS),
    ApiRow("GET", "/integrations/adplatform/events/{eid}/campaign_results", reads.campaign_results, shown=OURS),
    ApiRow("GET", "/integrations/adplatform/events/{eid}/adplatform_insights", reads.adplatform_insights, shown=OURS),
    ApiRow("GET", "/campaign_results/", reads.denied_to_partners),
    ApiRow("GET", "/events/{eid}/statistics", reads.event_statistics, shown=OURS),
    ApiRow("POST", "/media", writes.upload_media, host="media", shown=OURS),
)


def find(request: TwinRequest) -> tuple[ApiRow, Mapping[str, str]]:
    """The row for a request, with the names in its path. Raises the service's refusal where there is none."""
    path_exists = False
    for row in ROWS:
        if row.host != request.host or (names := row.names(request.path)) is None:
            continue
        if ANY_METHOD in row.methods or request.method in row.methods:
            return row, names
        path_exists = True
    if path_exists:
        raise Refusal(405, "error.method_not_allowed", "not with this method")
    raise Refusal(404, "error.not_found", "no such path")
