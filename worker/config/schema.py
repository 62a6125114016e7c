"""The JSON Schemas that editors use: of the config from its models, of rules and their tests from the registry."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from pydantic.json_schema import GenerateJsonSchema

from worker.config.sections import ConfigText
from worker.rules.durations import duration_text
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.schema import DIALECT, rules_schema
from worker.rules.testschema import rule_tests_schema


class _Spelled(GenerateJsonSchema):
    """Spells defaults as people do: 10s, where pydantic would write PT10S."""

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401 - pydantic's own signature
        return duration_text(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


EXAMPLES: Mapping[str, Any] = {
    "api": {"base_url": "https://HOST/api/v3"},
    "credentials": {"username": {"env": "CAMPAIGN_WORKER_USERNAME"}, "password": {"env": "CAMPAIGN_WORKER_PASSWORD"}},
    "operator_prefix": "operator-",
    "poll": {"interval": "3s"},
    "requests": {"per_minute": 300},
    "safety": {"settle": "2m"},
    "observations": {"keep": "7d"},
    "assumptions": {"client_campaign_status.semantics": "set"},
    "facts": {"ad_spend": {"get": "/integrations/adplatform/events/{eid}/adplatform_insights", "value": "spend"}},
    "web": {"listen": "127.0.0.1:8080"},
    "notify": [{"url": {"env": "ALERT_URL"}, "on": ["needs_human", "waiting"]}],
    "Api.cr_url": "https://CR-HOST/api",
    "Api.media_url": "https://MEDIA-HOST/api/media",
    "Credentials.username": {"env": "CAMPAIGN_WORKER_USERNAME"},
    "Credentials.password": {"file": "password.txt"},
    "FactText.get": "/events/{eid}/statistics",
    "FactText.value": "spend",
    "Notify.url": {"env": "ALERT_URL"},
    "Notify.on": ["needs_human", "waiting", "surge"],
    "Safety.surge": {"events": 25, "within": "10m"},
    "Safety.spend": {"per_event": 1000, "per_day": 5000},
    "Safety.gap": {"longer_than": "1h", "then": "ask"},
    "Spend.per_event": 1000,
    "Spend.per_day": 5000,
    "Web.users": {"ann": {"password": {"env": "PAGE_PASSWORD"}, "may": ["view", "approve"], "up_to": 500}},
    "Web.hosts": ["worker.example"],
}
"""Examples of keys whose default shows nothing."""
SchemaOf = Literal["config", "rules", "tests"]


def schema(of: SchemaOf, registry: Registry = BUILT_IN_REGISTRY) -> dict[str, Any]:
    """The schema of one kind of file, draft 2020-12."""
    if of == "rules":
        return rules_schema(registry)
    if of == "tests":
        return rule_tests_schema(registry)
    found = ConfigText.model_json_schema(schema_generator=_Spelled)
    _with_examples(found)
    for name, part in found["$defs"].items():
        _with_examples(part, name)
    return {"$schema": DIALECT, **found, "title": "config.yaml of campaign-worker"}


def _with_examples(part: dict[str, Any], section: str = "") -> None:
    """Gives each key an example: its default, or what stands in `EXAMPLES`. Names of pydantic's own making go."""
    for name, key in part.get("properties", {}).items():
        key.pop("title", None)
        place = f"{section}.{name}".lstrip(".")
        if place in EXAMPLES:
            key["examples"] = [EXAMPLES[place]]
        elif "examples" not in key and key.get("default") is not None:
            key["examples"] = [key["default"]]
