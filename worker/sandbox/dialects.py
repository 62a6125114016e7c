"""Other ways in which the service might be: named sets of settings, each with what a client has to be told of it.

The document leaves half of the service open, and nobody should meet the other half of the possibilities for the first
time in production. A dialect is one coherent guess that differs from the defaults in many points at once. What a client
must be told is spelled as the worker's config spells it, because that is who will read it; nothing here reads a config.

Never says that the real service is like one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from worker.sandbox.delivery import Json


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """`settings`: what differs. `tells`: the assumptions under which a client gets along with it."""

    about: str
    settings: Mapping[str, Json] = field(default_factory=dict)
    tells: Mapping[str, Json] = field(default_factory=dict)


_TABLE: Mapping[str, Dialect] = {
    "standard": Dialect(about="every setting at its default"),
    "terse": Dialect(
        about="short lower-case names, wrapped lists, bodies instead of queries, a refresh of its own",
        settings={
            "page_parameter": "p",
            "refresh_path": "/auth/refresh",
            "refresh_body": {"token": "{refresh_token}"},
            "error_shape": "text",
            "setup_state_field": "status",
            "setup_draft": "draft",
            "setup_published": "live",
            "campaigns_shape": "items",
            "adplatform_shape": "nested",
            "benchmark_shape": "flat",
            "client_campaign_status_query": {"status": "{value}"},
            "campaign_optimisation_status_query": {"status": "{value}"},
            "ad_campaign_optimisation_status_query": {"status": "{value}"},
            "frontend_status_query": None,
            "frontend_status_body": {"status": "{value}"},
            "last_updated_on_fe_query": None,
            "last_updated_on_fe_body": {"status": "{value}"},
            "create_setup_status": 200,
            "over_limit": "refuse",
        },
        tells={
            "events.page_parameter": "p",
            "auth.refresh": {"path": "/auth/refresh", "body": {"token": "{refresh_token}"}},
            "setup.state_field": "status",
            "setup.draft": ["draft"],
            "setup.published": ["live"],
            "campaigns.items": "items",
            "adplatform.connected": "adplatform.is_connected",
            "client_campaign_status.query": {"status": "{value}"},
            "campaign_optimisation_status.query": {"status": "{value}"},
            "ad_campaign_optimisation_status.query": {"status": "{value}"},
            "frontend_status.body": {"status": "{value}"},
            "last_updated_on_fe.body": {"status": "{value}"},
        },
    ),
    "formal": Dialect(
        about="long names, words of its own for every state, a refusal by an unusual status",
        settings={
            "page_parameter": "pageNumber",
            "denied_token_status": 419,
            "denied_partner_status": 419,
            "error_shape": "nested",
            "setup_state_field": "lifecycle_stage",
            "setup_draft": "IN_PREPARATION",
            "setup_published": "ON_AIR",
            "campaigns_shape": "data",
            "adplatform_shape": "word",
            "benchmark_shape": "result",
            "benchmark_unit": "percent",
            "task_pending": "QUEUED",
            "task_succeeded": "COMPLETED",
            "task_failed": "ABORTED",
            "task_effect": "when_done",
            "client_campaign_status_query": {"target_status": "{value}", "event_id": "{eid}"},
            "max_page_limit": 5,
        },
        tells={
            "events.page_parameter": "pageNumber",
            "auth.denied": {
                "status": [401, 403, 419],
                "codes": ["error.auth.missing_token", "error.auth.not_authorized", "error.unauthorized"],
            },
            "setup.state_field": "lifecycle_stage",
            "setup.draft": ["IN_PREPARATION"],
            "setup.published": ["ON_AIR"],
            "campaigns.items": "data.campaigns",
            "adplatform.connected": "status == 'CONNECTED'",
            "lookout_benchmark.at": "result.numbers",
            "client_campaign_status.query": {"target_status": "{value}", "event_id": "{eid}"},
            "task.succeeded": ["COMPLETED"],
            "task.failed": ["ABORTED"],
        },
    ),
    "toggling": Dialect(
        about="status writes that flip what they find, and setups that are gone once they are published",
        settings={
            "page_parameter": "page_no",
            "setup_after_publish": "absent",
            "client_campaign_status_semantics": "toggle",
            "campaign_optimisation_status_semantics": "toggle",
            "ad_campaign_optimisation_status_semantics": "toggle",
            "create_existing": "replace",
            "boost_published": "conflict",
            "benchmark_unit": "fraction",
            "denied_token_status": 400,
        },
        tells={
            "events.page_parameter": "page_no",
            "setup.after_publish": "absent",
            "client_campaign_status.semantics": "toggle",
            "campaign_optimisation_status.semantics": "toggle",
            "ad_campaign_optimisation_status.semantics": "toggle",
        },
    ),
}
DIALECTS: Mapping[str, Dialect] = MappingProxyType(_TABLE)
