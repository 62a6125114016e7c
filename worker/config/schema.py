"""The JSON Schemas that editors use: of the config from its models, of rules and their tests from the registry."""

from datetime import timedelta
from typing import Any, Literal

from pydantic.json_schema import GenerateJsonSchema

from worker.config.sections import ConfigText
from worker.rules.durations import duration_text
from worker.rules.registry import BUILT_IN_REGISTRY, Registry
from worker.rules.schema import DIALECT, rule_tests_schema, rules_schema


class _Spelled(GenerateJsonSchema):
    """Spells defaults as people do: 10s, where pydantic would write PT10S."""

    def encode_default(self, dft: Any) -> Any:  # noqa: ANN401 - pydantic's own signature
        return duration_text(dft) if isinstance(dft, timedelta) else super().encode_default(dft)


SchemaOf = Literal["config", "rules", "tests"]


def schema(of: SchemaOf, registry: Registry = BUILT_IN_REGISTRY) -> dict[str, Any]:
    """The schema of one kind of file, draft 2020-12."""
    if of == "rules":
        return rules_schema(registry)
    if of == "tests":
        return rule_tests_schema(registry)
    found = ConfigText.model_json_schema(schema_generator=_Spelled)
    return {"$schema": DIALECT, **found, "title": "config.yaml of campaign-worker"}
