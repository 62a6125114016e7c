"""The rows of what is assumed of the service: for each key its default, where the document is silent, what leans on it.

A new open point needs a row here and nothing else; how values are judged and vouched for is `worker.api.assumptions`.
"""

from dataclasses import dataclass
from typing import Literal

from worker.api.shapes import Shape
from worker.model.facts import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumption:
    """One open point. ``origin``: where the document is silent. ``needed_by``: facts, actions and steps leaning on it.

    ``seen_by``: ``read`` where a read-only look can confirm or refute it, ``write`` where only a write would show.
    ``instead``: a key that, when written, settles this one too, because it is used in its place.
    """

    key: str
    shape: Shape
    default: Json
    origin: str
    about: str
    needed_by: tuple[str, ...]
    seen_by: Literal["read", "write"]
    instead: str | None = None


def _query_of(name: str, *actions: str) -> Assumption:
    return Assumption(
        key=f"{name}.query",
        shape="query",
        default={name: "{value}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of the PUT; {value} stands for the value wanted",
        needed_by=actions,
        seen_by="write",
    )


def _semantics_of(name: str, *actions: str) -> Assumption:
    return Assumption(
        key=f"{name}.semantics",
        shape="semantics",
        default="set",
        origin="section 3.2: 'user toggles', to the other value",
        about="set: the value sent is the value afterwards; toggle: every write flips it",
        needed_by=actions,
        seen_by="write",
    )


TABLE: tuple[Assumption, ...] = (
    Assumption(
        key="events.page_parameter",
        shape="name",
        default="page",
        origin="section 4.6, gap 2",
        about="query parameter that selects a page of the list of events, or of the campaigns of an event",
        needed_by=("event", "campaigns"),
        seen_by="read",
    ),
    Assumption(
        key="events.changed_since",
        shape="query_or_null",
        default=None,
        origin="section 4.6, gap 2: other filters of the list",
        about="null: every look reads the whole list; else the query parameter by which it shows only events that have "
        "changed since a moment, as {updated_since: '{value}'}; {value} is UTC, as in 2031-05-01T18:00:00Z",
        needed_by=("reading only what changed",),
        seen_by="read",
    ),
    Assumption(
        key="auth.refresh",
        shape="refresh",
        default=None,
        origin="section 5, point 11",
        about="null: sign in again; else {path, body}, with {refresh_token} in the body",
        needed_by=("sign-in",),
        seen_by="read",
    ),
    Assumption(
        key="auth.denied",
        shape="denied",
        default={
            "status": [401, 403],
            "codes": ["error.auth.missing_token", "error.auth.not_authorized", "error.unauthorized"],
        },
        origin="section 7, gaps 1 and 2",
        about="answers that mean: our credentials were refused and nothing was done",
        needed_by=("every write",),
        seen_by="read",
    ),
    _query_of("client_campaign_status", "pause", "run"),
    _query_of("campaign_optimisation_status", "optimisation"),
    _query_of("ad_campaign_optimisation_status", "ad_optimisation"),
    _semantics_of("client_campaign_status", "pause", "run"),
    _semantics_of("campaign_optimisation_status", "optimisation"),
    _semantics_of("ad_campaign_optimisation_status", "ad_optimisation"),
    Assumption(
        key="frontend_status.query",
        shape="query_or_null",
        default={"frontend_status": "{value}"},
        origin="section 4.2: input not specified",
        about="query parameters of the PUT setup_frontend_status; unused where frontend_status.body is written",
        needed_by=("frontend_status",),
        seen_by="write",
        instead="frontend_status.body",
    ),
    Assumption(
        key="frontend_status.body",
        shape="body",
        default=None,
        origin="section 4.2: input not specified",
        about="JSON body of the PUT setup_frontend_status, in place of its query",
        needed_by=("frontend_status",),
        seen_by="write",
    ),
    Assumption(
        key="last_updated_on_fe.query",
        shape="query_or_null",
        default={"status": "{value}"},
        origin="section 4.2: input not specified",
        about="query parameters of the PUT last_updated_on_fe; unused where last_updated_on_fe.body is written",
        needed_by=("frontend_status",),
        seen_by="write",
        instead="last_updated_on_fe.body",
    ),
    Assumption(
        key="last_updated_on_fe.body",
        shape="body",
        default=None,
        origin="section 4.2: input not specified",
        about="JSON body of the PUT last_updated_on_fe, in place of its query",
        needed_by=("frontend_status",),
        seen_by="write",
    ),
    Assumption(
        key="task.succeeded",
        shape="words",
        default=["SUCCESS"],
        origin="section 3.2, open points",
        about="values of data.state that end a task well; any unlisted value is 'still running'",
        needed_by=(
            "pause",
            "run",
        ),
        seen_by="write",
    ),
    Assumption(
        key="task.failed",
        shape="words",
        default=["FAILURE"],
        origin="section 3.2, open points",
        about="values of data.state that end a task badly",
        needed_by=(
            "pause",
            "run",
        ),
        seen_by="write",
    ),
    Assumption(
        key="setup.state_field",
        shape="name",
        default="state",
        origin="section 2.6: fields of the setup record not shown",
        about="field of the setup record that says whether it is a draft",
        needed_by=("setup", "create_draft", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.draft",
        shape="words",
        default=["DRAFT"],
        origin="section 2.6: fields of the setup record not shown",
        about="values of that field that mean DRAFT",
        needed_by=("setup", "create_draft", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.published",
        shape="words",
        default=["PUBLISHED"],
        origin="section 2.6: fields of the setup record not shown",
        about="values of that field that mean PUBLISHED",
        needed_by=("setup", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="setup.after_publish",
        shape="after_publish",
        default="readable",
        origin="section 4.5: 'draft setup, or 404 when no draft exists'",
        about="readable: a published setup can still be read; absent: it answers 404, and its campaigns tell",
        needed_by=("setup", "boost"),
        seen_by="read",
    ),
    Assumption(
        key="boost.body",
        shape="body",
        default=None,
        origin="section 4.5: input not specified",
        about="JSON body of the POST boost; null for none",
        needed_by=("boost",),
        seen_by="write",
    ),
    Assumption(
        key="create_campaign.query",
        shape="query",
        default={"eid": "{eid}", "tc": "{tc}", "tc_run_id": "{tc_run_id}"},
        origin="section 4.5: Q with the names not specified",
        about="query parameters of POST /campaigns/",
        needed_by=("create_campaign",),
        seen_by="write",
    ),
    Assumption(
        key="campaigns.items",
        shape="path",
        default="@",
        origin="section 4.5: answer not specified",
        about="JMESPath to the list of campaigns; each item has tc and tc_run_id",
        needed_by=("campaigns", "setup"),
        seen_by="read",
    ),
    Assumption(
        key="adplatform.connected",
        shape="path",
        default="connected",
        origin="section 4.5: answer not specified",
        about="JMESPath to whether the ad platform is connected",
        needed_by=("adplatform",),
        seen_by="read",
    ),
    Assumption(
        key="lookout_benchmark.at",
        shape="path",
        default="benchmark.prediction || prediction || @",
        origin="section 4.2: answer not specified",
        about="JMESPath to the record with the numbers value and benchmark",
        needed_by=("lookout_prediction_benchmark",),
        seen_by="read",
    ),
    Assumption(
        key="lookout_benchmark.unit",
        shape="unit",
        default="auto",
        origin="section 2.3: 'as a fraction or as a percent; clients auto-detect'",
        about="auto: both numbers up to 1 are fractions, one from 2 on makes percents; else fraction or percent",
        needed_by=("lookout_prediction_benchmark",),
        seen_by="read",
    ),
)
