"""The service's document as one table: every row of its section 4, with what it leaves open.

Reads and writes of the worker name their row here, so that a path is spelled once, and anybody can see which parts of a
request rest on the document and which on an assumption. Rows that the worker never calls stand here too: a rule that
writes to one by hand is checked against them, which is why the table stands in the model.

The table says nothing that the document does not: ``open`` marks what it leaves unspecified.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Literal

Host = Literal["api", "cr", "media"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one row. ``method`` is None where the document does not give it.

    ``query``: the parameters that it must be given; ``file``: it takes a file.
    ``refused``: the error codes by which a partner's token is turned away here (section 7); empty where it is let in.
    ``fact``: the fact that is read there. ``open``: what the document does not specify, of input and output.
    """

    section: str
    method: str | None
    path: str
    _: KW_ONLY
    host: Host = "api"
    query: tuple[str, ...] = ()
    file: bool = False
    refused: tuple[str, ...] = ()
    fact: str = ""
    open: str = ""

    def matches(self, path: str) -> bool:
        """Whether a path, with its names filled in or still as ``{eid}``, is one of this row."""
        own, given = self.path.split("/"), path.split("/")
        if own[-1] == "{rest}":
            given = [*given[: len(own) - 1], "{rest}"] if len(given) >= len(own) else given
        same = len(own) == len(given)
        return same and all(
            mine == theirs or (mine.startswith("{") and theirs != "") for mine, theirs in zip(own, given, strict=True)
        )


ADMIN_ONLY = ("error.unauthorized", "error.auth.missing_token")
"""What a partner's token is told at an endpoint for administrators (API section 7)."""
BOTH = "input, output"

ENDPOINTS: tuple[Endpoint, ...] = (
    # Service and partner
    Endpoint("4.1", "GET", "/status/", open="output"),
    Endpoint("4.1", "POST", "/auth"),
    Endpoint("4.1", "GET", "/partners/", fact="partner"),
    Endpoint("4.1", "POST", "/partners/", refused=ADMIN_ONLY, open=BOTH),
    Endpoint("4.1", "PUT", "/partners/", refused=ADMIN_ONLY, open=BOTH),
    Endpoint("4.1", None, "/auth/users/csv_export", refused=ADMIN_ONLY, open=BOTH),
    Endpoint("4.1", "PUT", "/rest_demo_data/{rest}", refused=ADMIN_ONLY, open=BOTH),
    Endpoint("4.1", "GET", "/permissions", fact="permissions"),
    Endpoint("4.1", "GET", "/features", fact="features"),
    # Events
    Endpoint("4.2", "GET", "/events/", open="input"),
    Endpoint("4.2", "GET", "/events/flagged/", fact="flagged_events", open="input"),
    Endpoint("4.2", "GET", "/events/venues", fact="venues", open="output"),
    Endpoint("4.2", "GET", "/events/{eid}", fact="event"),
    Endpoint("4.2", "GET", "/events/statistics", fact="tenant_statistics", open="output"),
    Endpoint(
        "4.2",
        "GET",
        "/events/{eid}/lookout_prediction_benchmark",
        fact="lookout_prediction_benchmark",
        query=("type",),
        open="output",
    ),
    Endpoint(
        "4.2", "GET", "/events/{eid}/lookout_prediction", fact="lookout_prediction", query=("type",), open="output"
    ),
    Endpoint(
        "4.2",
        "GET",
        "/daily_revenue_summary/",
        fact="daily_revenue_summary",
        query=("event_id", "currency", "start_date", "end_date"),
        open="output",
    ),
    Endpoint("4.2", "GET", "/events/{eid}/tickets", fact="tickets", open="output"),
    Endpoint("4.2", "GET", "/events/{eid}/series", fact="series", open="output"),
    Endpoint("4.2", "POST", "/events/{eid}/series", query=("event_series",), open="output"),
    Endpoint("4.2", "DELETE", "/events/{eid}/series", query=("event_series",), open="output"),
    Endpoint(
        "4.2", "GET", "/events/{eid}/available_events_for_series", fact="available_events_for_series", open="output"
    ),
    Endpoint("4.2", "PUT", "/events/{eid}/setup_frontend_status", open=BOTH),
    Endpoint("4.2", "PUT", "/events/last_updated_on_fe/{eid}", host="cr", open=BOTH),
    Endpoint("4.2", "PUT", "/events/{eid}", host="cr", query=("event_type", "partner_product"), open=BOTH),
    # Sales
    Endpoint("4.3", "POST", "/ingest/transaction_summary", open=BOTH),
    Endpoint("4.3", "POST", "/ingest/transaction_summary/from_excel", file=True, query=("eid",), open="output"),
    Endpoint("4.3", "DELETE", "/daily_revenue_summary", query=("eid",), open="output"),
    Endpoint("4.3", "GET", "/daily_revenue_summary/sales_edit_export", open=BOTH),
    Endpoint("4.3", "POST", "/daily_revenue_summary/sales_edit_export", open=BOTH),
    # Recommendations
    Endpoint("4.4", "GET", "/events/{eid}/clusters", fact="clusters"),
    Endpoint("4.4", "GET", "/events/{eid}/suggested_tcs", fact="suggested_tcs", query=("budget", "goal")),
    Endpoint("4.4", "GET", "/events/{eid}/campaigns_expected_value", fact="expected_value", query=("goal", "budget")),
    Endpoint("4.4", "GET", "/events/{eid}/default_campaigns_parameters", fact="defaults"),
    Endpoint("4.4", "GET", "/events/{eid}/budget_min_max", fact="budget_range", query=("runtime_in_days",)),
    Endpoint(
        "4.4",
        "GET",
        "/setup_processes/call_to_action/",
        fact="call_to_action",
        query=("goal", "has_pixel", "lead_form_id"),
    ),
    Endpoint(
        "4.4",
        "GET",
        "/adplatform_targeting/suggested_radius",
        fact="suggested_radius",
        query=("location", "distance_unit"),
    ),
    # Campaigns
    Endpoint("4.5", "GET", "/setup_processes/{eid}", fact="setup"),
    Endpoint("4.5", "POST", "/setup_processes/{eid}", open=BOTH),
    Endpoint("4.5", "PUT", "/setup_processes/{eid}", open=BOTH),
    Endpoint("4.5", "POST", "/setup_processes/{eid}/boost", open="input"),
    Endpoint("4.5", "GET", "/setup_processes/event_types", fact="event_types", open="output"),
    Endpoint("4.5", "POST", "/campaigns_setup", open=BOTH),
    Endpoint("4.5", "POST", "/campaigns/", open=BOTH),
    Endpoint("4.5", "GET", "/events/{eid}/campaigns", fact="campaigns", open="output"),
    Endpoint("4.5", "PUT", "/events/{eid}/reset_campaigns_setup", open="output"),
    Endpoint("4.5", "PUT", "/events/{eid}/client_campaign_status", open="input"),
    Endpoint("4.5", "GET", "/events/{eid}/client_campaign_status/task"),
    Endpoint("4.5", "PUT", "/events/{eid}/campaign_optimisation_status", open=BOTH),
    Endpoint("4.5", "PUT", "/events/{eid}/ad_campaign_optimisation_status", open=BOTH),
    Endpoint("4.5", "GET", "/events/{eid}/attribution_model", fact="attribution_model", open="output"),
    Endpoint("4.5", "GET", "/integrations/connect/adplatform/status", fact="adplatform", open="output"),
    Endpoint(
        "4.5", "GET", "/integrations/adplatform/events/{eid}/campaign_results", fact="campaign_results", open="output"
    ),
    Endpoint(
        "4.5",
        "GET",
        "/integrations/adplatform/events/{eid}/adplatform_insights",
        fact="adplatform_insights",
        open="output",
    ),
    Endpoint("4.5", "GET", "/campaign_results/", refused=("error.auth.not_authorized",), open="output"),
    Endpoint("4.5", "POST", "/media", host="media", open=BOTH),
    Endpoint("4.5", "GET", "/events/{eid}/statistics", fact="statistics", open="output"),
)

FACT_ROWS: Mapping[str, Endpoint] = MappingProxyType({row.fact: row for row in ENDPOINTS if row.fact})
"""Where each fact is read."""
_ROWS: Mapping[tuple[str, str, Host], Endpoint] = MappingProxyType(
    {(row.method, row.path, row.host): row for row in ENDPOINTS if row.method is not None}
)


def endpoint(method: str, path: str, host: Host = "api") -> Endpoint:
    """The row of the document. Raises `KeyError` for one that it does not have."""
    return _ROWS[(method, path, host)]


def row_of(method: str, path: str, host: Host = "api") -> Endpoint | None:
    """The row that a request is one of; None where the document has none. Fixed words win over ``{eid}``, so that
    ``/events/venues`` is not the event called venues; ``{}`` in the path stands for any name."""
    found = [row for row in ENDPOINTS if row.host == host and row.method in (method, None) and row.matches(path)]
    return min(found, key=lambda row: row.path.count("{"), default=None)


def row_called(method: str, path: str, host: Host = "api") -> Endpoint | None:
    """As `row_of`, with or without a slash at the end: the document writes both kinds."""
    return row_of(method, path, host) or row_of(method, path[:-1] if path.endswith("/") else f"{path}/", host)
