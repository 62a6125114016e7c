"""The service's document as one table: every row of its section 4, with what it leaves open.

Reads and writes of the worker name their row here, so that a path is spelled once, and anybody can see which parts of a
request rest on the document and which on an assumption. Rows that the worker never calls stand here too: a rule that
writes to one by hand is checked against them, which is why the table stands in the model.

The table says nothing that the document does not: ``open_input`` and ``open_output`` mark what it leaves unspecified.
"""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Literal

Host = Literal["api", "cr", "media"]
Input = Literal["none", "query", "json", "multipart", "open"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One method of one row. ``method`` is None where the document does not give it.

    ``input``: how the request carries what it says; ``open`` where that is not specified. ``query``: names that the
    document gives. ``unlisted``: may be absent from the machine-readable specification, and can change (section 9).
    ``refused``: the error codes by which a partner's token is turned away here (section 7); empty where it is let in.
    """

    section: str
    method: str | None
    path: str
    _: KW_ONLY
    host: Host = "api"
    auth: bool = True
    input: Input = "none"
    query: tuple[str, ...] = ()
    open_input: bool = False
    open_output: bool = False
    unlisted: bool = False
    refused: tuple[str, ...] = ()

    @property
    def opened(self) -> bool:
        """Whether a partner's token is let in."""
        return not self.refused

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

_SERVICE = (
    Endpoint("4.1", "GET", "/status/", auth=False, open_output=True),
    Endpoint("4.1", "POST", "/auth", auth=False, input="json"),
    Endpoint("4.1", "GET", "/partners/"),
    Endpoint("4.1", "POST", "/partners/", refused=ADMIN_ONLY, input="open", open_input=True, open_output=True),
    Endpoint("4.1", "PUT", "/partners/", refused=ADMIN_ONLY, input="open", open_input=True, open_output=True),
    Endpoint(
        "4.1", None, "/auth/users/csv_export", refused=ADMIN_ONLY, input="open", open_input=True, open_output=True
    ),
    Endpoint(
        "4.1", "PUT", "/rest_demo_data/{rest}", refused=ADMIN_ONLY, input="open", open_input=True, open_output=True
    ),
    Endpoint("4.1", "GET", "/permissions"),
    Endpoint("4.1", "GET", "/features"),
)

_EVENTS = (
    Endpoint("4.2", "GET", "/events/", input="query", query=("limit", "descending"), open_input=True),
    Endpoint("4.2", "GET", "/events/flagged/", input="open", open_input=True),
    Endpoint("4.2", "GET", "/events/venues", input="query", query=("city", "venue"), open_output=True),
    Endpoint("4.2", "GET", "/events/{eid}"),
    Endpoint("4.2", "GET", "/events/statistics", open_output=True),
    Endpoint(
        "4.2", "GET", "/events/{eid}/lookout_prediction_benchmark", input="query", query=("type",), open_output=True
    ),
    Endpoint("4.2", "GET", "/events/{eid}/lookout_prediction", input="query", query=("type",), open_output=True),
    Endpoint(
        "4.2",
        "GET",
        "/daily_revenue_summary/",
        input="query",
        query=("event_id", "currency", "start_date", "end_date"),
        open_output=True,
    ),
    Endpoint("4.2", "GET", "/events/{eid}/tickets", open_output=True),
    Endpoint("4.2", "GET", "/events/{eid}/series", open_output=True),
    Endpoint("4.2", "POST", "/events/{eid}/series", input="query", query=("event_series",), open_output=True),
    Endpoint("4.2", "DELETE", "/events/{eid}/series", input="query", query=("event_series",), open_output=True),
    Endpoint("4.2", "GET", "/events/{eid}/available_events_for_series", open_output=True, unlisted=True),
    Endpoint("4.2", "PUT", "/events/{eid}/setup_frontend_status", input="open", open_input=True, open_output=True),
    Endpoint(
        "4.2", "PUT", "/events/last_updated_on_fe/{eid}", host="cr", input="open", open_input=True, open_output=True
    ),
    Endpoint(
        "4.2",
        "PUT",
        "/events/{eid}",
        host="cr",
        input="query",
        query=("event_type", "partner_product"),
        open_input=True,
        open_output=True,
    ),
)

_SALES = (
    Endpoint("4.3", "POST", "/ingest/transaction_summary", input="open", open_input=True, open_output=True),
    Endpoint(
        "4.3", "POST", "/ingest/transaction_summary/from_excel", input="multipart", query=("eid",), open_output=True
    ),
    Endpoint("4.3", "DELETE", "/daily_revenue_summary", input="query", query=("eid",), open_output=True),
    Endpoint("4.3", "GET", "/daily_revenue_summary/sales_edit_export", input="open", open_input=True, open_output=True),
    Endpoint(
        "4.3", "POST", "/daily_revenue_summary/sales_edit_export", input="open", open_input=True, open_output=True
    ),
)

_RECOMMENDATIONS = (
    Endpoint("4.4", "GET", "/events/{eid}/clusters"),
    Endpoint("4.4", "GET", "/events/{eid}/suggested_tcs", input="query", query=("budget", "goal")),
    Endpoint("4.4", "GET", "/events/{eid}/campaigns_expected_value", input="query", query=("goal", "budget")),
    Endpoint("4.4", "GET", "/events/{eid}/default_campaigns_parameters"),
    Endpoint("4.4", "GET", "/events/{eid}/budget_min_max", input="query", query=("runtime_in_days",)),
    Endpoint(
        "4.4", "GET", "/setup_processes/call_to_action/", input="query", query=("goal", "has_pixel", "lead_form_id")
    ),
    Endpoint(
        "4.4", "GET", "/adplatform_targeting/suggested_radius", input="query", query=("location", "distance_unit")
    ),
)

_CAMPAIGNS = (
    Endpoint("4.5", "GET", "/setup_processes/{eid}"),
    Endpoint("4.5", "POST", "/setup_processes/{eid}", input="json", open_input=True, open_output=True),
    Endpoint("4.5", "PUT", "/setup_processes/{eid}", input="json", open_input=True, open_output=True),
    Endpoint("4.5", "POST", "/setup_processes/{eid}/boost", input="open", open_input=True),
    Endpoint("4.5", "GET", "/setup_processes/event_types", open_output=True),
    Endpoint("4.5", "POST", "/campaigns_setup", input="json", open_input=True, open_output=True),
    Endpoint("4.5", "POST", "/campaigns/", input="query", open_input=True, open_output=True),
    Endpoint("4.5", "GET", "/events/{eid}/campaigns", open_output=True),
    Endpoint("4.5", "PUT", "/events/{eid}/reset_campaigns_setup", open_output=True),
    Endpoint("4.5", "PUT", "/events/{eid}/client_campaign_status", input="query", open_input=True, unlisted=True),
    Endpoint("4.5", "GET", "/events/{eid}/client_campaign_status/task", unlisted=True),
    Endpoint(
        "4.5",
        "PUT",
        "/events/{eid}/campaign_optimisation_status",
        input="query",
        open_input=True,
        open_output=True,
        unlisted=True,
    ),
    Endpoint(
        "4.5",
        "PUT",
        "/events/{eid}/ad_campaign_optimisation_status",
        input="query",
        open_input=True,
        open_output=True,
        unlisted=True,
    ),
    Endpoint("4.5", "GET", "/events/{eid}/attribution_model", open_output=True, unlisted=True),
    Endpoint("4.5", "GET", "/integrations/connect/adplatform/status", open_output=True),
    Endpoint("4.5", "GET", "/integrations/adplatform/events/{eid}/campaign_results", open_output=True),
    Endpoint("4.5", "GET", "/integrations/adplatform/events/{eid}/adplatform_insights", open_output=True),
    Endpoint("4.5", "GET", "/campaign_results/", refused=("error.auth.not_authorized",), open_output=True),
    Endpoint("4.5", "POST", "/media", host="media", input="open", open_input=True, open_output=True),
    Endpoint("4.5", "GET", "/events/{eid}/statistics", open_output=True),
)

ENDPOINTS: tuple[Endpoint, ...] = (*_SERVICE, *_EVENTS, *_SALES, *_RECOMMENDATIONS, *_CAMPAIGNS)

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
