"""The request of each write: pure, from what the document says and what the operator vouches for.

The same intent gives the same request, byte for byte, so that what was approved, what was logged and what is sent
cannot differ. Headers and credentials are not in it: the client adds them when it sends.
"""

from collections.abc import Mapping

from worker.api.addresses import filled, filled_text, path_of
from worker.api.assumptions import Assumptions
from worker.api.endpoints import Endpoint, endpoint
from worker.model.errors import UsageError
from worker.model.exchange import WriteRequest
from worker.model.facts import Json
from worker.model.ids import EventId
from worker.model.writes import Intent

_CLIENT_STATUS = endpoint("PUT", "/events/{eid}/client_campaign_status")
_OPTIMISATION = endpoint("PUT", "/events/{eid}/campaign_optimisation_status")
_AD_OPTIMISATION = endpoint("PUT", "/events/{eid}/ad_campaign_optimisation_status")
_FRONTEND_STATUS = endpoint("PUT", "/events/{eid}/setup_frontend_status")
_LAST_UPDATED = endpoint("PUT", "/events/last_updated_on_fe/{eid}", "cr")
_CREATE_DRAFT = endpoint("POST", "/setup_processes/{eid}")
_BOOST = endpoint("POST", "/setup_processes/{eid}/boost")


def write_request(event: EventId, intent: Intent, item: str, assumptions: Assumptions) -> WriteRequest:
    """The request of one write. Raises `UsageError` for an action that has none."""
    match intent.action:
        case "pause":
            return _status(_CLIENT_STATUS, "client_campaign_status", event, "PAUSED", assumptions)
        case "run":
            return _status(_CLIENT_STATUS, "client_campaign_status", event, "RUNNING", assumptions)
        case "optimisation":
            return _status(_OPTIMISATION, "campaign_optimisation_status", event, _value(intent), assumptions)
        case "ad_optimisation":
            return _status(_AD_OPTIMISATION, "ad_campaign_optimisation_status", event, _value(intent), assumptions)
        case "frontend_status":
            return _frontend_status(event, _value(intent), item, assumptions)
        case "create_draft":
            return _request(_CREATE_DRAFT, event, body=dict(intent.params))
        case "boost":
            body = assumptions.values["boost.body"]
            return _request(_BOOST, event, body=filled_body(body, {"eid": event}))
        case _:
            raise UsageError(f"the action {intent.action} makes no request")


def filled_body(template: Json, values: Mapping[str, str]) -> Json:
    """A JSON template with its placeholders filled in, wherever a text stands."""
    match template:
        case str():
            return filled_text(template, values)
        case dict():
            return {name: filled_body(part, values) for name, part in template.items()}
        case list():
            return [filled_body(part, values) for part in template]
        case _:
            return template


def _status(row: Endpoint, name: str, event: EventId, value: str, assumptions: Assumptions) -> WriteRequest:
    template = assumptions.template(f"{name}.query") or {}
    return _request(row, event, query=filled(template, {"value": value, "eid": event}))


def _frontend_status(event: EventId, value: str, item: str, assumptions: Assumptions) -> WriteRequest:
    """Two writes (API section 3.2): the second says CANCELLED only where the first does, and RUNNING otherwise."""
    if item == "cr":
        told = "CANCELLED" if value == "CANCELLED" else "RUNNING"
        return _either(_LAST_UPDATED, "last_updated_on_fe", event, told, assumptions)
    if item == "event":
        return _either(_FRONTEND_STATUS, "frontend_status", event, value, assumptions)
    raise UsageError(f"frontend_status has the items event and cr, not {item!r}")


def _either(row: Endpoint, name: str, event: EventId, value: str, assumptions: Assumptions) -> WriteRequest:
    values = {"value": value, "eid": event}
    query = filled(assumptions.template(f"{name}.query") or {}, values)
    return _request(row, event, query=query, body=filled_body(assumptions.values[f"{name}.body"], values))


def _request(
    row: Endpoint, event: EventId, *, query: tuple[tuple[str, str], ...] = (), body: Json = None
) -> WriteRequest:
    return WriteRequest(
        host=row.host, method=row.method or "", path=path_of(row.path, eid=event), query=query, body=body
    )


def _value(intent: Intent) -> str:
    value = intent.params.get("value")
    if not isinstance(value, str):
        raise UsageError(f"{intent.action} needs a value, not {value!r}")
    return value
